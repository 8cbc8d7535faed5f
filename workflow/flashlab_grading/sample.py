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
from flashlab.course.declaration import is_same_device
from flashlab.plan import planning as plan
from flashlab.plan.source import planned_device
from flashlab.runs import Run
from flashlab_grading.apart import check_apart
from flashlab_grading.causes import causes_of, urgency
from flashlab_grading.files import find_submissions
from flashlab_grading.grade import grade_checked
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, GradingError, Line, Result
from flashlab_grading.recorded import recorded_results
from flashlab_grading.reproduction import Declared

RECORDS = Path("results") / "local" / "records"


def choose(groups: Sequence[Iterable[Result]], here: str, count: int, seed: int) -> list[Declared]:
    """A sample of `count` runs declared to be of the device `here`, alike for a seed and class.

    `groups` are the files of the most suspicious submissions, of the next ones, and so on; runs of
    an earlier group come first, and within one the seed decides. Runs that are mostly launches and
    kernels that are not here are left out.
    """
    known = find_implementations()
    places: dict[Declared, int] = {}
    for place, result in ((i, result) for i, group in enumerate(groups) for result in group):
        run, device = result.declaration.run, result.declaration.device_name
        is_long = max(result.numbers.seconds[name] for name in PASSES) >= LAUNCH_SECONDS
        if run and run[0] in known and is_long and is_same_device(here, device):
            places.setdefault(run, place)
    order = sorted(places)
    random.Random(seed).shuffle(order)
    return sorted(order, key=places.__getitem__)[:count]


def _submitted_results(config: Mapping[str, Any]) -> list[list[Result]]:
    """The results whose numbers are consistent, of submissions from the most suspicious on.

    Submissions are in groups: certainly accused, likely, and all others.
    """
    folder, device = config["submissions"], config["grading"].get("device")
    checked = list(check_apart(folder, find_submissions(folder)[0], device))
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in grade_checked(checked, (), "", recorded_results()).lines:
        lines[line.submission].append(line)
    groups: dict[tuple[int, ...], list[Result]] = defaultdict(list)
    for own in checked:
        results = own.submission.results
        accusations = urgency(causes_of(lines[own.submission.name], len(results)))[:2]
        sound = {x.file for x in own.lines if (x.check, x.verdict) == ("arithmetic", "pass")}
        groups[accusations] += [result for result in results if result.name in sound]
    return [groups[accusations] for accusations in sorted(groups)]


def plan_sample(
    config: Mapping[str, Any], device: str, protocol: Mapping[str, Any]
) -> dict[Run, plan.PlannedRun]:
    """The sample of what is submitted, to be measured here by the course's own protocol.

    `device` is the kind that measures here. It prints how many runs will be measured. ConfigError
    if the results cannot be read, or none is of this device.
    """
    try:
        results = _submitted_results(config)
    except GradingError as error:
        raise ConfigError(f"--config: submissions: {error}") from error
    dtype, (_, here) = config["dtype"], planned_device(config)
    chosen = choose(results, here, config["reproduce"], config["grading"]["seed"])
    if not chosen:
        raise ConfigError(
            "--config: reproduce: no submission has a declared run of 0.3 ms or more on this "
            f"machine's device, {here}. Leave out reproduce=, or run this where the results are "
            "from; runs.csv, or grading: {device: …} for a whole class, names their device"
        )
    dtype = ATTENTION.dtypes[device] if dtype == "auto" else dtype
    runs = [attention_run(implementation, shape, dtype, device) for implementation, shape in chosen]
    planned = plan.plan_local(ATTENTION, runs, protocol, find_implementations(), RECORDS)
    missing = sum(not entry.path.exists() for entry in planned.values())
    said = f"reproduce: {len(planned)} runs, {missing} of them still to be measured"
    print(said, file=sys.stderr)
    return planned
