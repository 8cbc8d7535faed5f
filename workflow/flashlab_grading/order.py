"""What a call is to grade, determined when Snakemake reads the rules.

Submissions and their files may have any names, so Snakemake never sees them: each call writes one
order, which the rules have as input. The order includes its own time, so every call grades afresh.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError
from flashlab.files import read_json, write_json
from flashlab.plan import planning as plan
from flashlab.plan.machines import machine_of
from flashlab.report.attached import AttachmentError, read_config
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError
from flashlab_grading.apart import check_apart
from flashlab_grading.arithmetic import check_arithmetic
from flashlab_grading.causes import causes_of, urgency
from flashlab_grading.grade import grade_checked
from flashlab_grading.model import GradingError, Line, Result
from flashlab_grading.recorded import recorded_results
from flashlab_grading.reproduction import (
    Measured,
    choose,
    estimated_seconds,
    is_from_gpu,
    read_measured,
)
from flashlab_grading.shown import escaped
from flashlab_grading.submissions import find_submissions, read_report

HOME = Path("results") / "grading"
LOCAL = "local"
RECORDS = Path("results") / LOCAL / "records"
KEPT = Path(".snakemake", "flashlab-grading.json")

NAMED = 5
"""Most submissions that an error names."""


@dataclass(frozen=True)
class Ordered:
    """What is to be graded (``submissions`` or ``pdf``), the order's file, and what to measure.

    `orders` is what to measure, by record file name, and `records` are the paths of the records.
    All fields are empty for a call that grades nothing.
    """

    kind: str = ""
    path: str = ""
    orders: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    records: tuple[str, ...] = ()


def _submitted_results(config: Mapping[str, Any]) -> list[dict[str, list[Result]]]:
    """The results whose numbers are consistent, by submission.

    Submissions are in groups: certainly accused, likely, and all others.
    """
    folder, device = config["submissions"], config["grading"].get("device")
    checked = list(check_apart(folder, find_submissions(folder).submissions, device))
    grades = grade_checked(checked, (), "", recorded_results())
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grades.lines:
        lines[line.submission].append(line)
    groups: dict[tuple[int, ...], dict[str, list[Result]]] = defaultdict(dict)
    for own in checked:
        name, results = own.submission.name, own.submission.results
        accusations = urgency(causes_of(lines[name], len(results)))[:2]
        groups[accusations][name] = [
            result for result in results if check_arithmetic(result).verdict == "pass"
        ]
    return [groups[accusations] for accusations in sorted(groups)]


def _attached_results(
    config: Mapping[str, Any], device: str
) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """The results in the records attached to a report, and the protocol that measured them."""
    from flashlab_grading.report_pdf import attachments_of, read_pdf

    content = read_pdf(Path(config["pdf"]))
    try:
        protocol = plan.protocol_of(read_config(attachments_of(content)), device)
        results = read_report(content).results
    except (AttachmentError, UnsoundFileError) as error:
        raise GradingError(str(error)) from error
    return {config["pdf"]: list(results)}, protocol


def _refuse_gpu_results(results: Mapping[str, list[Result]]) -> None:
    """ConfigError if any of these results is from a GPU, which a CPU cannot reproduce."""
    devices = {
        name: sorted({r.declaration.device_name or "no device named" for r in from_gpu})
        for name, own in results.items()
        if (from_gpu := [r for r in own if is_from_gpu(r)])
    }
    if not devices:
        return
    named = [f"{escaped(n)} ({escaped(', '.join(d))})" for n, d in devices.items()]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    raise ConfigError(
        "--config: reproduce: results of a GPU cannot be reproduced here, because this machine "
        f"measures on the CPU: {', '.join(named[:NAMED])}{more}. Leave out reproduce=, or run this "
        "on a machine with such a GPU; for results of a CPU, name it in the device column of "
        "runs.csv"
    )


def _print_estimate(
    planned: Mapping[Run, plan.PlannedRun], results: list[Result], protocol: Mapping[str, Any]
) -> None:
    """Print how many runs will be measured and about how long that takes."""
    missing = [run for run, entry in planned.items() if not entry.path.exists()]
    seconds = estimated_seconds(
        [(run.implementation, Shape.of(run)) for run in missing], results, protocol
    )
    estimate = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    print(
        f"reproduce: {len(planned)} runs, {len(missing)} of them still to be measured, which takes "
        f"about {estimate}, judging by the submitted times",
        file=sys.stderr,
    )


def _plan_sample(
    config: Mapping[str, Any],
    device: str,
    groups: Sequence[list[Result]],
    protocol: Mapping[str, Any],
) -> dict[Run, plan.PlannedRun]:
    """The sample of these results, the most suspicious first, with each record's file."""
    dtype = ATTENTION.dtypes[device] if config["dtype"] == "auto" else config["dtype"]
    on = machine_of(config)
    here, seed = on.name_device(device), config["grading"]["seed"]
    chosen = choose(groups, here, config["reproduce"], seed)
    runs = [attention_run(implementation, shape, dtype, device) for implementation, shape in chosen]
    return plan.plan_local(ATTENTION, runs, protocol, find_implementations(), RECORDS, on=on)


def _check_request(config: Mapping[str, Any]) -> None:
    """ConfigError if what is to be graded does not exist or cannot be measured here."""
    if not Path(config.get("submissions", ".")).is_dir():
        raise ConfigError(f"--config: submissions: there is no folder {config['submissions']}")
    if "pdf" in config and not Path(config["pdf"]).is_file():
        raise ConfigError(f"--config: pdf: there is no file {config['pdf']}")
    if "submissions" in config and "pdf" in config:
        raise ConfigError("--config: give either submissions=DIR or pdf=PATH")
    if "reproduce" in config and (config["dataset"] != LOCAL or "import" in config):
        raise ConfigError(
            "--config: reproduce: it measures on this machine; leave out dataset= and import="
        )


def order_grading(config: Mapping[str, Any], root: Path) -> Ordered:
    """Write the order for ``submissions=DIR`` or ``pdf=PATH``, and plan what it measures.

    Args:
        config: the resolved configuration.
        root: the folder below which the order's file is written.

    Raises:
        ConfigError: the folder or file does not exist or cannot be read; or ``reproduce`` is given
            without either, with a recorded dataset, whose device is not here, or for results of a
            GPU on a machine without one.
    """
    if "submissions" not in config and "pdf" not in config:
        if "reproduce" in config:
            raise ConfigError(
                "--config: reproduce: there is nothing to measure again; give submissions=DIR or "
                "pdf=PATH too, or leave it out"
            )
        return Ordered()
    _check_request(config)
    kind = "submissions" if "submissions" in config else "pdf"
    # The course's own protocol, because its results are what is compared.
    on = machine_of(config)
    device = on.detect_device(config["device"])
    course = {"measure": {**config["measure"], "protocol": "lab5"}}
    protocol = plan.protocol_of(course, device)
    planned: dict[Run, plan.PlannedRun] = {}
    if "reproduce" in config:
        try:
            if kind == "submissions":
                groups = _submitted_results(config)
            else:
                attached, protocol = _attached_results(config, device)
                groups = [attached]
        except GradingError as error:
            raise ConfigError(f"--config: {kind}: {error}") from error
        if device == "cpu":
            _refuse_gpu_results({k: v for own in groups for k, v in own.items()})
        results = [[r for own in group.values() for r in own] for group in groups]
        planned = _plan_sample(config, device, results, protocol)
        _print_estimate(planned, [r for group in results for r in group], protocol)
    path = root / HOME / f"{kind}.json"
    document = {
        "called_ns": time.time_ns(),
        kind: config[kind],
        "device": config["grading"].get("device"),
        "nonce": config.get("nonce"),
        "seed": config["grading"]["seed"],
        "languages": config["languages"],
        "here": on.name_device(device),
        "measured": [
            {"run": run.to_json(), "path": entry.path.as_posix()} for run, entry in planned.items()
        ],
    }
    write_json(path, document)
    entries = planned.values()
    orders = {e.path.name: plan.measuring_order(ATTENTION, e, protocol) for e in entries}
    return Ordered(kind, path.as_posix(), orders, tuple(e.path.as_posix() for e in entries))


def keep_order(ordered: Ordered) -> None:
    """Keep what this call ordered for its jobs that read the rules again."""
    write_json(KEPT, asdict(ordered))


def kept_order() -> Ordered:
    """What the call that this job belongs to ordered; FileNotFoundError outside of a call."""
    document = read_json(KEPT)
    return Ordered(**{**document, "records": tuple(document["records"])})


def read_order(path: Path) -> dict[str, Any]:
    """The order that a call wrote."""
    order: dict[str, Any] = read_json(path)
    return order


def measured_of(order: Mapping[str, Any]) -> list[Measured]:
    """What was measured here for an order; RecordError if a record is missing."""
    return [
        read_measured(Path(entry["path"]), Run.of(ATTENTION, entry["run"]))
        for entry in order["measured"]
    ]
