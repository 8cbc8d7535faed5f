"""What a call orders of grading, worked out when Snakemake reads the rules.

The names of submissions and their files are others' and may hold anything, so they never become
Snakemake's: a call writes one order, anew each time, and the rules stand on that. The order holds
when it was given, so that grading is done afresh at every call.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab import machine, plan
from flashlab.config import ConfigError
from flashlab.grading.arithmetic import check_arithmetic
from flashlab.grading.model import GradingError, Result
from flashlab.grading.reproduction import Declared, choose
from flashlab.grading.submissions import read_submissions
from flashlab.implementations import Implementation
from flashlab.records import Run, write_json

HOME = Path("results") / "grading"
LOCAL = "local"


@dataclass(frozen=True)
class Ordered:
    """The order's file, and what it needs measured: what to measure by record file name."""

    path: Path | None = None
    orders: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    records: tuple[str, ...] = ()


def _sound(results: tuple[Result, ...], submission: str) -> list[Result]:
    return [r for r in results if check_arithmetic(submission, r).verdict == "pass"]


def _sample(config: Mapping[str, Any], here: str, known: Mapping[str, Any]) -> list[Declared]:
    """The declared runs of the submissions that are to be measured here."""
    submissions = read_submissions(config["submissions"], config["grading"].get("device"))
    results = [r for name, s in submissions.items() for r in _sound(s.results, name)]
    return choose(results, here, config["reproduce"], config["grading"]["seed"], known)


def order_grading(
    config: Mapping[str, Any], implementations: Mapping[str, Implementation], write: bool
) -> Ordered:
    """Write the order that ``submissions=DIR`` gives, with the sample that ``reproduce`` asks for.

    Args:
        config: the resolved configuration.
        implementations: those that can be measured, by name.
        write: whether to write the order's file, which is the main process's to do.

    Raises:
        ConfigError: there is no such folder, or ``reproduce`` was asked for with a recorded
            dataset, whose device is not here.
    """
    if "submissions" not in config:
        return Ordered()
    folder = Path(config["submissions"])
    if not folder.is_dir():
        raise ConfigError(f"--config: submissions: there is no folder {folder}")
    device = machine.detect_device(config["device"])
    here = machine.device_name(device)
    dtype = plan.AUTO_DTYPE[device] if config["dtype"] == "auto" else config["dtype"]
    runs = []
    if "reproduce" in config:
        if config["dataset"] != LOCAL or "import" in config:
            raise ConfigError(
                "--config: reproduce: measures on this machine; leave out dataset= and import="
            )
        try:
            sample = _sample(config, here, implementations)
        except GradingError as error:
            raise ConfigError(str(error)) from error
        runs = [Run(implementation, shape, dtype, device) for implementation, shape in sample]
    measure = {**config["measure"], "protocol": "lab5"}
    protocol = plan.protocol_of({**config, "measure": measure})
    home = Path("results") / LOCAL / "records"
    planned = plan.plan_local(runs, protocol, implementations, home)
    path = HOME / "order.json"
    if write:
        document = {
            "called_ns": time.time_ns(),
            "submissions": str(folder),
            "device": config["grading"].get("device"),
            "seed": config["grading"]["seed"],
            "languages": config["languages"],
            "here": here,
            "measured": [
                {"run": run.to_json(), "path": entry.path.as_posix()}
                for run, entry in planned.items()
            ],
        }
        write_json(path, document)
    return Ordered(
        path,
        {e.path.name: {"run": run.to_json(), "protocol": protocol} for run, e in planned.items()},
        tuple(entry.path.as_posix() for entry in planned.values()),
    )


def read_order(path: Path) -> dict[str, Any]:
    """The order that a call has written."""
    order: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return order
