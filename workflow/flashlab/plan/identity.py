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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.files import canonical, open_atomically
from flashlab.plan.machines import HERE, Machine
from flashlab.records import COUNTERS, INTERLEAVED, Record, RecordError, read_record
from flashlab.runs import Run
from flashlab.sources import PACKAGE, sources_of
from flashlab.syntax import syntax_digest

SCHEME = 2
MEASURING_PROCESS: tuple[str, ...] = ("flashlab.measuring.child",)
INTERLEAVING_PROCESS = (*MEASURING_PROCESS, "flashlab.measuring.turns")
COUNTING_PROCESS = {
    "cuda": ("flashlab.measuring.counters", "flashlab.nsight"),
    "cpu": (*MEASURING_PROCESS, "flashlab.measuring.operators"),
}

WITHOUT_EFFECT = ("timeout_s",)
"""Keys of a protocol that decide no number."""

DIGITS = 12
"""Hexadecimal digits of an identity's SHA-256 in a file name."""


@cache
def _tree_digest(path: Path) -> str:
    return syntax_digest(path.read_bytes(), str(path))


@cache
def measuring_digest(
    measure: str | None = None, process: tuple[str, ...] = MEASURING_PROCESS
) -> str:
    """SHA-256 over the syntax trees of all the code that a measuring process imports.

    `measure` is the module that measures a benchmark; without it, the code that every process has.
    `process` are the modules behind the process itself.
    """
    modules = [*process, *([measure] if measure else [])]
    paths = {path for module in modules for path in sources_of(module)}
    trees = {path.relative_to(PACKAGE.parent).as_posix(): _tree_digest(path) for path in paths}
    return hashlib.sha256(canonical(trees).encode()).hexdigest()


def _versions(run: Run, implementation: Implementation, on: Machine) -> dict[str, str | None]:
    packages = {"torch", *implementation.packages}
    versions = {name: on.package_version(name) for name in sorted(packages)}
    if run.device == "cuda":
        versions["driver"] = on.driver_version()
    return versions


def _deciding(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a protocol that decides numbers."""
    return {key: value for key, value in protocol.items() if key not in WITHOUT_EFFECT}


def identity(
    benchmark: Benchmark,
    run: Run,
    protocol: Mapping[str, Any],
    implementation: Implementation,
    process: int = 0,
    on: Machine = HERE,
) -> dict[str, Any]:
    """Everything that decides the numbers of a local record that is measured on a machine.

    `process` numbers the processes that measure the same run. Their number is no part of it, so
    that further ones leave those before as they are.
    """
    counters = protocol["name"] == COUNTERS
    modules = MEASURING_PROCESS
    if counters:
        modules = COUNTING_PROCESS[run.device]
    elif protocol["name"] == INTERLEAVED:
        modules = INTERLEAVING_PROCESS
    return {
        "scheme": SCHEME,
        "benchmark": benchmark.name,
        "run": run.to_json(),
        "protocol": _deciding(protocol),
        "process": process,
        "counters": counters,
        "implementation": implementation.digest,
        "measuring": measuring_digest(benchmark.measure, modules),
        "device": on.name_device(run.device),
        "versions": _versions(run, implementation, on),
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
    """File name of a local record: run and process in words, and the digits of its identity."""
    prefix = f"{COUNTERS}-" if identity["counters"] else ""
    process = f"-process{identity['process']}" if identity["process"] else ""
    return f"{prefix}{run.slug}{process}-{_digits(identity)}.json"


def ceilings_name(device: str, on: Machine = HERE) -> str:
    """File name of a machine's ceilings, which carries their identity as a record's does."""
    identity = {
        "scheme": SCHEME,
        "measuring": measuring_digest(),
        "device": on.name_device(device),
        "versions": {
            "torch": on.package_version("torch"),
            "driver": on.driver_version() if device == "cuda" else None,
        },
    }
    return f"ceilings-{device}-{_digits(identity)}.json"


# Records that older code named

# The `measuring_digest` of attention's code as it is.
_CURRENT = "a415f47bf8093fce9f722b8771a344c7e19063b021b7646e012ab662b8b94d5e"

EQUIVALENT: dict[str, str] = {
    # Does without the version's number, and on a CPU without NVML; a kernel that overwrites its
    # input is incorrect. Of attention, the ladder and training.
    "074ba248c18cf07f823a6186f7018d2f4998a6e0c2bae4bea9dcb0ce46274965": _CURRENT,
    "785d321f786e2d956df83c06d68d10853eb234a62a318368eb989983b66edc9e": (
        "dbf5fc5b713aacee48e03964884549f1e647a6ad13baf2cb6782483b0586c3e3"
    ),
    "35a6fc364db102031348b3b5fbadec2ad4387776eb49ceac23fdf9aef12b54ea": (
        "0b90b2824d35427eccbc104fb78d72b87e65e27c5ade0d8a7767eadb8dadee24"
    ),
    # Records the GPU's UUID and the system's boot beside what it measures.
    "e9226f127ebb5bfcf3b27f07386228e099d98fb678207dc9d2f1dc0ec771e9ab": _CURRENT,
    # Shares with `bench` what prepares a run and what times a batch of calls; measures energy only
    # where a protocol asks for it.
    "dd89d5adf3910ce07f1a21496dfead885688f95c3a1774289790177ca987049f": _CURRENT,
    # Parses a module that several kernels import once for all of them.
    "600143dfafbc162749e7425e22a6f92f4d4abd506b8b5fbbb880a0904a981c02": _CURRENT,
    # Calls an attention that returns no tensor incorrect, which was an error.
    "031ec66a140fed338806310b223ce532d01d64b803d44967c9cd7cd4107b4db8": _CURRENT,
}
"""Digest of older measuring code (one by scheme 1), to the `measuring_digest` of code that
measures the same.

An entry holds for as long as the measuring code is that of its value; then it can go.
"""


def _former_digits(record: Record, on: Machine = HERE) -> str:
    """The digits in the name of a record that older code measured on this machine."""
    run, sources = record.run, record.sources
    common = {
        "run": run.to_json(),
        "device": on.name_device(run.device),
        "versions": sources["versions"],
    }
    if "measuring_sha256" in sources:
        return _digits(
            {
                **common,
                "format": 1,
                "protocol": dict(record.protocol),
                "flops": costs.flops(Shape.of(run)),
                "implementation": sources["implementation_sha256"],
                "measuring": sources["measuring_sha256"],
            }
        )
    return _digits(
        {
            **common,
            **{key: sources[key] for key in ("scheme", "benchmark", "process", "counters")},
            "protocol": _deciding(record.protocol),
            "implementation": sources["implementation_digest"],
            "measuring": sources["measuring_digest"],
        }
    )


def _has_same_kernel(record: Record, implementation: Implementation) -> bool:
    sources = record.sources
    if "implementation_digest" in sources:
        return bool(sources["implementation_digest"] == implementation.digest)
    return bool(sources["implementation_sha256"] == implementation.sha256)


def _is_adoptable(
    path: Path,
    benchmark: Benchmark,
    run: Run,
    protocol: Mapping[str, Any],
    implementation: Implementation,
    process: int,
    on: Machine,
) -> bool:
    """Whether an older record is intact and holds what measuring now would measure."""
    try:
        record = read_record(path, run)
        if path.stem.rpartition("-")[2] != _former_digits(record, on):
            return False
        sources = record.sources
        measured_by = sources.get("measuring_digest") or sources["measuring_sha256"]
        return (
            _has_same_kernel(record, implementation)
            and EQUIVALENT.get(measured_by) == measuring_digest(benchmark.measure)
            and sources["versions"] == _versions(run, implementation, on)
            and _deciding(record.protocol) == _deciding(protocol)
            and record.process == process
        )
    except (RecordError, KeyError, TypeError):
        return False


def records_by_run(folder: Path) -> dict[str, list[Path]]:
    """The local records in a folder by the words of their names: the run and the process."""
    name = re.compile(rf"(.+)-[0-9a-f]{{{DIGITS}}}\.json")
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if matched := name.fullmatch(path.name):
            found.setdefault(matched[1], []).append(path)
    return found


def adopt(
    path: Path,
    benchmark: Benchmark,
    run: Run,
    protocol: Mapping[str, Any],
    implementation: Implementation,
    process: int = 0,
    on: Machine = HERE,
    among: Mapping[str, Sequence[Path]] | None = None,
) -> bool:
    """Keep a record of older code under its new name, `path`, rather than measure it again.

    It must lie in the same folder, its old digest must verify, and all that decided its numbers
    must be as it is now. The old file stays, unchanged. Returns whether there was one. Many calls
    for one folder list it once, by `among` (`records_by_run`).
    """
    among = records_by_run(path.parent) if among is None else among
    for old in among.get(path.stem.rpartition("-")[0], ()):
        if old != path and _is_adoptable(
            old, benchmark, run, protocol, implementation, process, on
        ):
            with open_atomically(path, binary=True) as file:
                file.write(old.read_bytes())
            return True
    return False
