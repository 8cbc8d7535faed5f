"""What a call asks of grading, worked out when Snakemake reads the rules.

The names of submissions and their files are others' and may hold anything, so they never become
Snakemake's: a call writes one order, anew each time, and the rules stand on that. The order holds
when it was given, so that grading is done afresh at every call.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab import machine, plan
from flashlab.config import ConfigError
from flashlab.grading.arithmetic import check_arithmetic
from flashlab.grading.model import GradingError, Result
from flashlab.grading.reproduction import (
    Measured,
    choose,
    estimated_seconds,
    of_a_gpu,
    read_measured,
)
from flashlab.grading.shown import escaped
from flashlab.grading.submissions import read_submissions
from flashlab.implementations import Implementation, find_implementations
from flashlab.records import Run, write_json

HOME = Path("results") / "grading"
LOCAL = "local"
RECORDS = Path("results") / LOCAL / "records"

NAMED = 5
"""Submissions that an error names."""


@dataclass(frozen=True)
class Ordered:
    """What is to be graded (``submissions`` or ``pdf``), the order's file, and what it measures.

    `orders` is what to measure by record file name, as for the experiments' runs.
    """

    kind: str = ""
    path: str = ""
    orders: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    records: tuple[str, ...] = ()


def _of_submissions(config: Mapping[str, Any]) -> dict[str, list[Result]]:
    """By submission, the results whose numbers agree with one another."""
    submissions = read_submissions(config["submissions"], config["grading"].get("device"))
    return {
        name: [
            result
            for result in submission.results
            if check_arithmetic(name, result).verdict == "pass"
        ]
        for name, submission in submissions.items()
    }


def _of_report(config: Mapping[str, Any]) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """The results in the records that are attached to a report, and how they were measured."""
    from flashlab.grading.attachments import checked_config, read_pdf, results_of

    attachments = read_pdf(Path(config["pdf"])).attachments
    return {config["pdf"]: results_of(attachments)}, plan.protocol_of(checked_config(attachments))


def _refuse_gpu_results(
    results: Mapping[str, list[Result]], implementations: Collection[str]
) -> None:
    """ConfigError where any of these results is a GPU's: a CPU cannot reproduce it."""
    devices = {
        name: sorted({r.declaration.device_name or "no device named" for r in of_gpu})
        for name, own in results.items()
        if (of_gpu := [r for r in own if of_a_gpu(r, implementations)])
    }
    if not devices:
        return
    named = [f"{escaped(n)} ({escaped(', '.join(d))})" for n, d in devices.items()]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    raise ConfigError(
        "--config: reproduce: results of a GPU cannot be reproduced here, where runs are measured "
        f"on the CPU: {', '.join(named[:NAMED])}{more}. Leave out reproduce=, or call this on a "
        "machine with such a GPU; for results of a CPU, name it in the device column of runs.csv"
    )


def _say_what_is_measured(
    planned: Mapping[Run, plan.PlannedRun], results: list[Result], protocol: Mapping[str, Any]
) -> None:
    """Print how many runs will be measured again, and an estimate of how long that takes."""
    missing = [run for run, entry in planned.items() if not entry.path.exists()]
    seconds = estimated_seconds(
        [(run.implementation, run.shape) for run in missing], results, protocol
    )
    estimate = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    print(
        f"reproduce: {len(planned)} runs, of which {len(missing)} are still to be measured: about "
        f"{estimate}, estimated from the times that are handed in",
        file=sys.stderr,
    )


def _planned(
    config: Mapping[str, Any],
    device: str,
    results: list[Result],
    implementations: Mapping[str, Implementation],
    protocol: Mapping[str, Any],
) -> dict[Run, plan.PlannedRun]:
    """The sample of these results that is to be measured here, with each record's file."""
    dtype = plan.AUTO_DTYPE[device] if config["dtype"] == "auto" else config["dtype"]
    here, seed = machine.device_name(device), config["grading"]["seed"]
    chosen = choose(results, here, config["reproduce"], seed, implementations)
    runs = [Run(implementation, shape, dtype, device) for implementation, shape in chosen]
    return plan.plan_local(runs, protocol, implementations, RECORDS)


def _checked(config: Mapping[str, Any]) -> None:
    """ConfigError where what is to be graded is not there, or cannot be measured here."""
    if not Path(config.get("submissions", ".")).is_dir():
        raise ConfigError(f"--config: submissions: there is no folder {config['submissions']}")
    if "pdf" in config and not Path(config["pdf"]).is_file():
        raise ConfigError(f"--config: pdf: there is no file {config['pdf']}")
    if "submissions" in config and "pdf" in config:
        raise ConfigError("--config: give either submissions=DIR or pdf=PATH")
    if "reproduce" in config and (config["dataset"] != LOCAL or "import" in config):
        raise ConfigError(
            "--config: reproduce: measures on this machine; leave out dataset= and import="
        )


def order_grading(config: Mapping[str, Any], root: Path) -> Ordered:
    """Write the order that ``submissions=DIR`` or ``pdf=PATH`` gives, with what it is to measure.

    Args:
        config: the resolved configuration.
        root: the folder below which the order's file is written.

    Raises:
        ConfigError: there is no such folder or file, it cannot be read as what it should be, or
            ``reproduce`` was asked for with a recorded dataset, whose device is not here, or of
            results of a GPU where there is none.
    """
    if "submissions" not in config and "pdf" not in config:
        return Ordered()
    _checked(config)
    kind = "submissions" if "submissions" in config else "pdf"
    # Measured as the course's script does, which is what its results are compared with.
    protocol = plan.protocol_of({**config, "measure": {**config["measure"], "protocol": "lab5"}})
    planned: dict[Run, plan.PlannedRun] = {}
    if "reproduce" in config:
        try:
            if kind == "submissions":
                by_owner = _of_submissions(config)
            else:
                by_owner, protocol = _of_report(config)
        except GradingError as error:
            raise ConfigError(f"--config: {kind}: {error}") from error
        device, implementations = machine.detect_device(config["device"]), find_implementations()
        if device == "cpu":
            _refuse_gpu_results(by_owner, implementations)
        results = [result for own in by_owner.values() for result in own]
        planned = _planned(config, device, results, implementations, protocol)
        _say_what_is_measured(planned, results, protocol)
    path = root / HOME / f"{kind}.json"
    document = {
        "called_ns": time.time_ns(),
        kind: config[kind],
        "device": config["grading"].get("device"),
        "seed": config["grading"]["seed"],
        "languages": config["languages"],
        "here": machine.device_name(machine.detect_device(config["device"])),
        "measured": [
            {"run": run.to_json(), "path": entry.path.as_posix()} for run, entry in planned.items()
        ],
    }
    write_json(path, document)
    return Ordered(
        kind,
        path.as_posix(),
        {e.path.name: {"run": run.to_json(), "protocol": protocol} for run, e in planned.items()},
        tuple(entry.path.as_posix() for entry in planned.values()),
    )


def read_order(path: Path) -> dict[str, Any]:
    """The order that a call has written."""
    order: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return order


def measured_of(order: Mapping[str, Any]) -> list[Measured]:
    """What was measured here for an order; RecordError for a record that is missing."""
    return [
        read_measured(Path(entry["path"]), Run.from_json(entry["run"]))
        for entry in order["measured"]
    ]
