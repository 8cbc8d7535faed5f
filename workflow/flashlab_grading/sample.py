"""The sample of submitted results that is measured again here, and how long that takes."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError
from flashlab.plan import planning as plan
from flashlab.plan.machines import machine_of
from flashlab.report.attached import AttachmentError, read_config
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import causes_of, urgency
from flashlab_grading.files import find_submissions
from flashlab_grading.grade import grade_checked
from flashlab_grading.model import GradingError, Line, Result
from flashlab_grading.recorded import recorded_results
from flashlab_grading.report_pdf import attachments_of, read_pdf
from flashlab_grading.reproduction import choose, estimated_seconds, is_from_gpu
from flashlab_grading.shown import escaped
from flashlab_grading.submissions import read_report

RECORDS = Path("results") / "local" / "records"

NAMED = 5
"""Most submissions that an error names."""


def _submitted_results(config: Mapping[str, Any]) -> list[dict[str, list[Result]]]:
    """The results whose numbers are consistent, by submission.

    Submissions are in groups: certainly accused, likely, and all others.
    """
    folder, device = config["submissions"], config["grading"].get("device")
    checked = list(check_apart(folder, find_submissions(folder)[0], device))
    grades = grade_checked(checked, (), "", recorded_results())
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grades.lines:
        lines[line.submission].append(line)
    groups: dict[tuple[int, ...], dict[str, list[Result]]] = defaultdict(dict)
    for own in checked:
        name, results = own.submission.name, own.submission.results
        accusations = urgency(causes_of(lines[name], len(results)))[:2]
        sound = {x.file for x in own.lines if (x.check, x.verdict) == ("arithmetic", "pass")}
        groups[accusations][name] = [result for result in results if result.name in sound]
    return [groups[accusations] for accusations in sorted(groups)]


def _attached_results(
    config: Mapping[str, Any], device: str
) -> tuple[dict[str, list[Result]], dict[str, Any]]:
    """The results in the records attached to a report, and the protocol that measured them."""
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


def plan_sample(
    config: Mapping[str, Any], device: str, protocol: Mapping[str, Any]
) -> tuple[dict[Run, plan.PlannedRun], Mapping[str, Any]]:
    """The sample of what is submitted, or attached to a report, and the protocol that measures it.

    `device` is the kind that measures here, `protocol` the course's own. It prints how many runs
    will be measured and about how long that takes. ConfigError if the results cannot be read, or
    are of a GPU where this machine has none.
    """
    kind = "submissions" if "submissions" in config else "pdf"
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
    on = machine_of(config)
    results = [[r for own in group.values() for r in own] for group in groups]
    seed, dtype = config["grading"]["seed"], config["dtype"]
    dtype = ATTENTION.dtypes[device] if dtype == "auto" else dtype
    chosen = choose(results, on.name_device(device), config["reproduce"], seed)
    runs = [attention_run(implementation, shape, dtype, device) for implementation, shape in chosen]
    planned = plan.plan_local(ATTENTION, runs, protocol, find_implementations(), RECORDS, on=on)
    missing = [run for run, entry in planned.items() if not entry.path.exists()]
    seconds = estimated_seconds(
        [(run.implementation, Shape.of(run)) for run in missing],
        [result for group in results for result in group],
        protocol,
    )
    estimate = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    print(
        f"reproduce: {len(planned)} runs, {len(missing)} of them still to be measured, which takes "
        f"about {estimate}, judging by the submitted times",
        file=sys.stderr,
    )
    return planned, protocol
