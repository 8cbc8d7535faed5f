"""Training with the published figures of an A100, two failures, and a curve that is off.

Of two implementations it is known how long the GPU was busy.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from planted.records import plain_record, samples_around
from planted.results import PlantedReport

from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.config import read_layer, resolve_config
from flashlab.records import Measurement, Record
from flashlab.runs import Run

PUBLISHED = Path(__file__).parents[2] / "data" / "published" / "training.csv"
DEVICE = "A100 40GB"
FAILED = {
    ("SdpaMath", True): ("error", "BackendCompilerFailed: the compiler failed"),
    ("SdpaEfficient", True): ("oom", "CUDA out of memory"),
}
FAR = "SdpaEfficient"
"""The implementation whose loss is off by more than a seed would put it off."""

BUSY = {"Flash2": (0.4, 2400.0, 0.1), "Pytorch": (0.98, 3000.0, 0.9)}
"""The share of an iteration in which the GPU is busy, its kernels, and the share of looks at the
GPU that found it at its power limit."""


def loss_of(run: Run) -> tuple[float, ...]:
    """A falling curve, to which the seed adds up to 0.1, and `FAR` 0.5."""
    off = 0.02 * (int(run["seed"]) - 1337) + 0.5 * (run.implementation == FAR)
    return tuple(4.2 - step / 50 + off for step in range(60))


def _published(run: Run) -> dict[str, float]:
    """What was published of a run on `DEVICE`, by metric."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return {
            row["metric"]: float(row["value"])
            for row in csv.DictReader(file)
            if (row["device"], row["implementation"]) == (DEVICE, run.implementation)
            and row["compile"] == str(run["compile"]).lower()
        }


def record(run: Run) -> Record:
    environment = {"device_name": "NVIDIA A100", "provider": "torch 2", "packages": {}}
    usual: dict[str, Any] = {"environment": environment, "protocol": {"name": "training"}}
    if failed := FAILED.get((run.implementation, bool(run["compile"]))):
        return plain_record(run, TRAINING.name, status=failed[0], message=failed[1], **usual)
    figures = _published(run)
    metrics = {
        "iteration_time": samples_around(figures["iteration_time"]),
        "first_step": Measurement(figures["first_step"]),
        "peak_memory": Measurement(figures["process_memory"] - 1000),
        "process_memory": Measurement(figures["process_memory"]),
    }
    if run["compile"]:
        metrics["compile_time"] = Measurement(figures["first_step"] - 1)
    if told := BUSY.get(run.implementation):
        share, kernels, limited = told
        metrics["gpu_busy_time"] = Measurement(share * figures["iteration_time"])
        metrics["kernels"] = Measurement(kernels)
        usual["details"] = {
            "clocks": {"iteration_time": {"at_power_limit": limited}},
            "compiled": {"graph_breaks": 0 if run.implementation == "Pytorch" else 3},
        }
    return plain_record(run, TRAINING.name, metrics=metrics, curves={"loss": loss_of(run)}, **usual)


CONFIG = resolve_config(
    [read_layer(Path(__file__).parents[2] / "config" / "training.yaml")],
    implementations_of(TRAINING).keys(),
)
"""The project's own configuration of this benchmark."""

REPORT = PlantedReport(TRAINING, CONFIG, ("bfloat16", "cuda"), record)
