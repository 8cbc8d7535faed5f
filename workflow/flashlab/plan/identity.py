"""A record's identity: the digest of all that decides its numbers, which names its file.

So a run is measured again exactly when one of these changes, with or without Snakemake's own
bookkeeping. Sources count as syntax trees, without comments and layout: the kernel with what it
imports below ``kernels/`` and the files in its ``SOURCES``, and the modules of the measuring
process. The time limit, which decides whether there are numbers but not which, has no place, nor
has the driver, which a record states.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.files import canonical
from flashlab.records import COUNTERS
from flashlab.runs import Run
from flashlab.sources import PACKAGE, sources_of
from flashlab.syntax import canonical_tree

SCHEME = 4
MEASURING_PROCESS: tuple[str, ...] = ("flashlab.measuring.child",)
COUNTING_PROCESS = {
    "cuda": ("flashlab.measuring.counters", "flashlab.nsight"),
    "cpu": (*MEASURING_PROCESS, "flashlab.measuring.operators"),
}


@cache
def _tree_digest(path: Path) -> str:
    return hashlib.sha256(canonical_tree(ast.parse(path.read_bytes())).encode()).hexdigest()


@cache
def measuring_digest(
    measure: str | None = None, process: tuple[str, ...] = MEASURING_PROCESS
) -> str:
    """SHA-256 over the syntax trees of all that a measuring process imports.

    That is the modules `process`, and that which measures a benchmark, if any.
    """
    modules = (*process, measure) if measure else process
    paths = {path for module in modules for path in sources_of(module)}
    trees = {path.relative_to(PACKAGE.parent).as_posix(): _tree_digest(path) for path in paths}
    return hashlib.sha256(canonical(trees).encode()).hexdigest()


def deciding(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a protocol that decides numbers: all but the time limit."""
    return {key: value for key, value in protocol.items() if key != "timeout_s"}


def identity(
    benchmark: Benchmark,
    run: Run,
    protocol: Mapping[str, Any],
    implementation: Implementation,
    process: int = 0,
    device_name: str | None = None,
) -> dict[str, Any]:
    """The identity of a local record on a device, this machine's without a `device_name`.

    `process` numbers those that measure the same run, so that further ones leave it as it is.
    """
    name = protocol["name"]
    of_run = COUNTING_PROCESS[run.device] if name == COUNTERS else MEASURING_PROCESS
    packages = sorted({"torch", *implementation.packages})
    return {
        "scheme": SCHEME,
        "benchmark": benchmark.name,
        "run": run.to_json(),
        "protocol": deciding(protocol),
        "process": process,
        "counters": name == COUNTERS,
        "implementation": implementation.digest,
        "inputs": implementation.form(benchmark, name),
        "measuring": measuring_digest(benchmark.measure, of_run),
        "device": device_name or machine.device_name(run.device),
        "versions": {name: machine.package_version(name) for name in packages},
    }


def sources(identity: Mapping[str, Any], implementation: Implementation) -> dict[str, Any]:
    """The digests and versions of an identity that a record keeps as its ``sources``."""
    kept = ("scheme", "benchmark", "process", "counters", "versions", "inputs")
    return {
        **{key: identity[key] for key in kept if key != "inputs" or identity[key]},
        "implementation_digest": identity["implementation"],
        "implementation_sha256": implementation.sha256,
        "measuring_digest": identity["measuring"],
    }


def _digits(identity: Mapping[str, Any]) -> str:
    """The hexadecimal digits of an identity's SHA-256 in a file name."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:12]


def record_name(run: Run, identity: Mapping[str, Any]) -> str:
    """File name of a local record: run and process in words, and the digits of its identity."""
    prefix = f"{COUNTERS}-" if identity["counters"] else ""
    process = f"-process{identity['process']}" if identity["process"] else ""
    return f"{prefix}{run.slug}{process}-{_digits(identity)}.json"


def ceilings_name(device: str, device_name: str) -> str:
    """File name of a device's ceilings, which carries their identity as a record's does."""
    versions = {"torch": machine.package_version("torch")}
    identity = {"scheme": SCHEME, "measuring": measuring_digest(), "versions": versions}
    return f"ceilings-{device}-{_digits({**identity, 'device': device_name})}.json"
