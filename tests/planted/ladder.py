"""The ladder with planted steps: one helps, one makes no difference, one hurts."""

from __future__ import annotations

from functools import partial
from typing import Any

from planted.records import plain_record, samples_around
from planted.results import PlantedReport

from flashlab.benchmarks.ladder.declaration import LADDER, flops
from flashlab.records import Measurement, Record
from flashlab.runs import Run

STEPS = ["Sequential", "GlobalMemory", "SharedTiles", "Padded", "Coalesced"]
RATES = {"Sequential": 0.001, "GlobalMemory": 1.0, "SharedTiles": 2.0, "Padded": 2.02}
"""TFLOP/s; Coalesced is slower than the step before, 1.5."""

COUNTERS = {
    "GlobalMemory": {"global_load_bytes": 8e12, "bank_conflicts": 0.0},
    "SharedTiles": {"global_load_bytes": 1e12, "bank_conflicts": 5e9},
}
ENVIRONMENT = {"device_name": "NVIDIA H200", "driver": "1", "packages": {"torch": "2.0"}}


COUNTED, LANGUAGES = ["GlobalMemory", "SharedTiles"], ("zh_TW", "en")


def _experiment(name: str, sweep: str, title: tuple[str, str], **by: Any) -> Any:
    given = {"name": name, "sweep": sweep, "title": dict(zip(LANGUAGES, title, strict=True))}
    return {**given, **by, "figures": ["rate"], "supplement": []}


CONFIG: dict[str, Any] = {
    **{"benchmark": "ladder", "dataset": "local", "languages": [*LANGUAGES], "remarks": {}},
    **{"baseline": "GlobalMemory", "counted": COUNTED},
    "summary": {"cuda": {"case": 28}, "cpu": {"case": 101}, "implementations": COUNTED},
    "experiments": [
        _experiment(
            *("ladder", "case", ("一階一階往上", "Step by step")),
            **{"cuda": {"case": [10, 28]}, "cpu": {"case": [101, 102]}, "implementations": STEPS},
        ),
        _experiment(
            *("size", "seq_len", ("問題變大", "Growing problems")),
            cuda={"batch_size": 4, "seq_len": [4096, 16384], "head_dim": 64},
            cpu={"batch_size": 1, "seq_len": [8, 16], "head_dim": 32},
            implementations=[*COUNTED, "Padded"],
        ),
    ],
}

SMALL = 4096
"""The sequence length at which Padded is the better step by far."""


_record = partial(plain_record, benchmark=LADDER.name, environment=ENVIRONMENT)


def record(run: Run) -> Record:
    """One that fails where it would take one thread of the CPU too long."""
    if run.implementation == "Sequential" and flops(run) > 40e9:
        return _record(run, status="unsupported", message="too much for one thread of the CPU")
    milliseconds = flops(run) / 1e9 / RATES.get(run.implementation, 1.5)
    if (run.implementation, run["seq_len"]) == ("Padded", SMALL):
        milliseconds /= 2
    timed = samples_around(milliseconds)
    parts = {"start": 1000.0, "kernel": milliseconds, "file_in": 500.0}
    metrics = {f"process_{name}": Measurement(part) for name, part in parts.items()}
    whole = sum(parts.values()) + 100
    metrics |= {"process_time": Measurement(whole, (0.999 * whole, 1.001 * whole), "count")}
    return _record(run, metrics={"kernel_time": timed, "host_time": timed, **metrics})


def counters(run: Run) -> Record | None:
    """The counters of two steps on a GPU."""
    if run.implementation not in COUNTERS or run.device != "cuda":
        return None
    found = {"busy_time": flops(run) / 1e9 / RATES[run.implementation]}
    found |= COUNTERS[run.implementation]
    metrics = {
        metric.name: Measurement(found.get(metric.quantity.name, 1.0))
        for metric in LADDER.all_counters("cuda")
    }
    return _record(run, protocol={"name": "counters"}, metrics=metrics)


ON_GPU = PlantedReport(LADDER, CONFIG, ("float32", "cuda"), record, counters, processes=2)
SIMULATED = PlantedReport(LADDER, CONFIG, ("float32", "cpu"), record, counters)
