"""The sample of submitted results that is measured again here."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError
from flashlab.course.declaration import device_is_gpu, is_same_device
from flashlab.course.words import FLASH2, NAIVE
from flashlab.plan import planning as plan
from flashlab.plan.machines import machine_of
from flashlab.report.attached import AttachmentError, read_config
from flashlab.runs import Run
from flashlab.untrusted import UnsoundFileError
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import causes_of, urgency
from flashlab_grading.files import find_submissions
from flashlab_grading.grade import grade_checked
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, GradingError, Line, Result
from flashlab_grading.recorded import recorded_results
from flashlab_grading.report_pdf import attachments_of, read_pdf
from flashlab_grading.reproduction import Declared, known_kernels
from flashlab_grading.shown import escaped
from flashlab_grading.submissions import read_report

RECORDS = Path("results") / "local" / "records"

NAMED = 5
"""Most submissions that an error names."""

Results = dict[str, list[Result]]
"""Results by submission."""


def choose(groups: Sequence[Iterable[Result]], here: str, count: int, seed: int) -> list[Declared]:
    """A sample of `count` declared runs, the same for the same seed and submissions.

    `groups` are the files of the most suspicious submissions, of the next ones, and so on; runs of
    an earlier group come first, and within one the seed decides. Runs shorter than
    `LAUNCH_SECONDS` come last. If a run was on another device, the other implementation is
    measured at that shape too.
    """
    longest: dict[Declared, float] = {}
    places: dict[Declared, int] = {}
    elsewhere: set[Declared] = set()
    for place, result in ((i, result) for i, group in enumerate(groups) for result in group):
        run = result.declaration.run
        if run is None or run[0] not in known_kernels():
            continue
        seconds = min(result.numbers.seconds[name] for name in PASSES)
        longest[run] = max(seconds, longest.get(run, 0.0))
        places.setdefault(run, place)
        if not is_same_device(here, result.declaration.device_name):
            elsewhere.add(run)
    order = sorted(longest)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda run: (longest[run] < LAUNCH_SECONDS, places[run]))
    chosen = dict.fromkeys(order[:count])
    for implementation, shape in order[:count]:
        other = {NAIVE: FLASH2, FLASH2: NAIVE}.get(implementation)
        if (implementation, shape) in elsewhere and other is not None:
            chosen[other, shape] = None
    return list(chosen)


def is_from_gpu(result: Result) -> bool:
    """True for a file that can be sampled and is from a GPU, as the course's are by default."""
    run, device_name = result.declaration.run, result.declaration.device_name
    sampled = run is not None and run[0] in known_kernels()
    return sampled and (device_name is None or device_is_gpu(device_name))


def _submitted_results(config: Mapping[str, Any]) -> list[Results]:
    """The results whose numbers are consistent, of submissions from the most suspicious on.

    Submissions are in groups: certainly accused, likely, and all others.
    """
    folder, device = config["submissions"], config["grading"].get("device")
    checked = list(check_apart(folder, find_submissions(folder)[0], device))
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grade_checked(checked, (), "", recorded_results()).lines:
        lines[line.submission].append(line)
    groups: dict[tuple[int, ...], Results] = defaultdict(dict)
    for own in checked:
        name, results = own.submission.name, own.submission.results
        accusations = urgency(causes_of(lines[name], len(results)))[:2]
        sound = {x.file for x in own.lines if (x.check, x.verdict) == ("arithmetic", "pass")}
        groups[accusations][name] = [result for result in results if result.name in sound]
    return [groups[accusations] for accusations in sorted(groups)]


def _attached_results(config: Mapping[str, Any], device: str) -> tuple[Results, dict[str, Any]]:
    """The results in the records attached to a report, and the protocol that measured them."""
    content = read_pdf(Path(config["pdf"]))
    try:
        protocol = plan.protocol_of(read_config(attachments_of(content)), device)
        return {config["pdf"]: list(read_report(content).results)}, protocol
    except (AttachmentError, UnsoundFileError) as error:
        raise GradingError(str(error)) from error


def _refuse_gpu_results(groups: Iterable[Results]) -> None:
    """ConfigError if any of these results is from a GPU, which a CPU cannot reproduce."""
    named = []
    for name, own in (item for group in groups for item in group.items()):
        devices = {r.declaration.device_name or "no device named" for r in own if is_from_gpu(r)}
        if devices:
            named.append(f"{escaped(name)} ({escaped(', '.join(sorted(devices)))})")
    if named:
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        raise ConfigError(
            "--config: reproduce: results of a GPU cannot be reproduced here, because this machine "
            f"measures on the CPU: {', '.join(named[:NAMED])}{more}. Leave out reproduce=, or run "
            "this on a machine with such a GPU; for results of a CPU, name it in the device column "
            "of runs.csv"
        )


def plan_sample(
    config: Mapping[str, Any], device: str, protocol: Mapping[str, Any]
) -> tuple[dict[Run, plan.PlannedRun], Mapping[str, Any]]:
    """The sample of what is submitted, or attached to a report, and the protocol that measures it.

    `device` is the kind that measures here, `protocol` the course's own. It prints how many runs
    will be measured. ConfigError if the results cannot be read, or are of a GPU where this machine
    has none.
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
        _refuse_gpu_results(groups)
    on = machine_of(config)
    results = [[r for own in group.values() for r in own] for group in groups]
    seed, dtype = config["grading"]["seed"], config["dtype"]
    dtype = ATTENTION.dtypes[device] if dtype == "auto" else dtype
    chosen = choose(results, on.name_device(device), config["reproduce"], seed)
    runs = [attention_run(implementation, shape, dtype, device) for implementation, shape in chosen]
    planned = plan.plan_local(ATTENTION, runs, protocol, find_implementations(), RECORDS, on=on)
    missing = sum(not entry.path.exists() for entry in planned.values())
    said = f"reproduce: {len(planned)} runs, {missing} of them still to be measured"
    print(said, file=sys.stderr)
    return planned, protocol
