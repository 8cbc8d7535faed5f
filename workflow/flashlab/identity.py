"""What decides a record's numbers, and the name that a local record carries because of it.

A record is named by its run and by a digest of everything that decides its numbers, and of nothing
else: so a run is measured again exactly when one of these changes, with or without Snakemake's own
bookkeeping.

History of the scheme:
    1: the bytes of the kernel's file and of every file of ``measuring/``; the whole protocol.
    2: sources as syntax trees (comments and layout do not count): the kernel with what it imports
       below ``kernels/`` and the files in its ``SOURCES``; what the measuring process imports. The
       time limit, which decides whether there are numbers but not which, no longer counts. The
       benchmark, the process (replicates) and the counters have their place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from flashlab import costs, machine
from flashlab.implementations import Implementation
from flashlab.records import RecordError, Run, canonical, read_record, written_whole
from flashlab.sources import PACKAGE, sources_of
from flashlab.syntax import syntax_digest

SCHEME = 2
BENCHMARK = "attention"
MEASURING_PROCESS = "flashlab.measuring.child"

WITHOUT_EFFECT = ("timeout_s",)
"""Keys of a protocol that decide no number."""

DIGITS = 12
"""Hexadecimal digits of an identity's SHA-256 in a file name."""


@cache
def measuring_digest() -> str:
    """SHA-256 over the syntax trees of all the code that the measuring process imports."""
    trees = {
        path.relative_to(PACKAGE.parent).as_posix(): syntax_digest(path.read_bytes(), str(path))
        for path in sources_of(MEASURING_PROCESS)
    }
    return hashlib.sha256(canonical(trees).encode()).hexdigest()


def _versions(run: Run, implementation: Implementation) -> dict[str, str | None]:
    packages = {"torch", *implementation.packages}
    versions = {name: machine.package_version(name) for name in sorted(packages)}
    if run.device == "cuda":
        versions["driver"] = machine.driver_version()
    return versions


def _deciding(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a protocol that decides numbers."""
    return {key: value for key, value in protocol.items() if key not in WITHOUT_EFFECT}


def identity(
    run: Run, protocol: Mapping[str, Any], implementation: Implementation
) -> dict[str, Any]:
    """Everything that decides the numbers of a local record, on this machine as it is now."""
    return {
        "scheme": SCHEME,
        "benchmark": BENCHMARK,
        "run": run.to_json(),
        "protocol": _deciding(protocol),
        "process": 0,
        "counters": False,
        "implementation": implementation.digest,
        "measuring": measuring_digest(),
        "device": machine.device_name(run.device),
        "versions": _versions(run, implementation),
    }


def sources(identity: Mapping[str, Any], implementation: Implementation) -> dict[str, Any]:
    """What a record keeps of its identity beside the run and the protocol."""
    return {
        "scheme": identity["scheme"],
        "benchmark": identity["benchmark"],
        "process": identity["process"],
        "counters": identity["counters"],
        "implementation_digest": identity["implementation"],
        "implementation_sha256": implementation.sha256,
        "measuring_digest": identity["measuring"],
        "versions": identity["versions"],
    }


def _digits(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:DIGITS]


def record_name(run: Run, identity: Mapping[str, Any]) -> str:
    """File name of a local record: the run in words and the digits of its identity."""
    return f"{run.slug}-{_digits(identity)}.json"


def ceilings_name(device: str) -> str:
    """File name of the machine's ceilings, which carries their identity as a record's does."""
    identity = {
        "scheme": SCHEME,
        "measuring": measuring_digest(),
        "device": machine.device_name(device),
        "versions": {"torch": machine.package_version("torch"), "driver": machine.driver_version()},
    }
    return f"ceilings-{device}-{_digits(identity)}.json"


# Records of scheme 1

EQUIVALENT = {
    "5435aa8de7df42c22043e77eaa9af3f12fdf5072475c4c7969537512bb2ebe9d": (
        "943b55d1017473a8825434aa937308798912e5d4860f79b6c149d31b957e2a1a"
    ),
}
"""Digest of scheme 1 of measuring code, to the `measuring_digest` of code that measures the same.

An entry holds for as long as the measuring code is that of its value; then it can go.
"""


def _digits_of_scheme_1(record: Mapping[str, Any], run: Run) -> str:
    """The digits that scheme 1 gave the name of a record that was measured on this device."""
    inner = record["record"]
    return _digits(
        {
            "format": 1,
            "run": inner["run"],
            "protocol": inner["protocol"],
            "flops": costs.flops(run.shape),
            "implementation": inner["sources"]["implementation_sha256"],
            "measuring": inner["sources"]["measuring_sha256"],
            "device": machine.device_name(run.device),
            "versions": inner["sources"]["versions"],
        }
    )


def _is_adoptable(
    path: Path, run: Run, protocol: Mapping[str, Any], implementation: Implementation
) -> bool:
    """Whether a record of scheme 1 is intact and holds what measuring now would measure."""
    try:
        record = read_record(path, run)
        inner = record["record"]
        if path.stem.rpartition("-")[2] != _digits_of_scheme_1(record, run):
            return False
        return (
            inner["sources"]["implementation_sha256"] == implementation.sha256
            and EQUIVALENT.get(inner["sources"]["measuring_sha256"]) == measuring_digest()
            and inner["sources"]["versions"] == _versions(run, implementation)
            and _deciding(inner["protocol"]) == _deciding(protocol)
        )
    except (RecordError, KeyError, TypeError):
        return False


def adopt(
    path: Path, run: Run, protocol: Mapping[str, Any], implementation: Implementation
) -> bool:
    """Keep a record of scheme 1 under its new name, `path`, rather than measure it again.

    It must lie in the same folder, its old digest must verify, and all that decided its numbers
    must be as it is now. The old file stays, unchanged. Returns whether there was one.
    """
    name = re.compile(rf"{re.escape(run.slug)}-[0-9a-f]{{{DIGITS}}}\.json")
    for old in sorted(path.parent.glob(f"{run.slug}-*.json")):
        if (
            name.fullmatch(old.name)
            and old != path
            and _is_adoptable(old, run, protocol, implementation)
        ):
            with written_whole(path, binary=True) as file:
                file.write(old.read_bytes())
            return True
    return False
