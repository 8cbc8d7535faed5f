"""The order of a call: what it grades and measures again, determined as Snakemake reads the rules.

Submissions and their files may have any names, so Snakemake never sees them: each call writes one
order, which the rules have as input, and which its jobs read that read the rules again. The order
includes its own time, so every call grades afresh.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.implementations import find_implementations
from flashlab.config import ConfigError
from flashlab.files import read_json, write_json
from flashlab.lab5.results import Result
from flashlab.plan import planning as plan
from flashlab.plan.source import planned_device
from flashlab.runs import Run

ORDER = Path("results") / "grading" / "order.json"
RECORDS = Path("results") / "local" / "records"
LOCAL = "local"


@dataclass(frozen=True)
class Ordered:
    """The `kind` of what is graded (``submissions`` or ``pdf``), and the order's `path`.

    `orders` are the orders to measure, by record file name, and `records` the records' paths. All
    are empty for a call that grades nothing.
    """

    kind: str = ""
    path: str = ""
    orders: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    records: Sequence[str] = ()


def _refusal(config: Mapping[str, Any]) -> str | None:
    """The reason why what is to be graded does not exist or cannot be measured here, if any."""
    submissions, pdf = config.get("submissions"), config.get("pdf")
    if submissions is not None and not Path(submissions).is_dir():
        return f"submissions: there is no folder {submissions}"
    if pdf is not None and not Path(pdf).is_file():
        return f"pdf: there is no file {pdf}"
    if submissions is not None and pdf is not None:
        return "give either submissions=DIR or pdf=PATH"
    if "reproduce" in config and submissions is None:
        return "reproduce: there is nothing to measure again; give submissions=DIR, or leave it out"
    if "reproduce" in config and (config["dataset"] != LOCAL or "import" in config):
        return "reproduce: it measures on this machine; leave out dataset= and import="
    return None


def _submitted_results(config: Mapping[str, Any]) -> list[list[Result]]:
    """The results whose numbers are consistent, of submissions from the most suspicious on.

    Submissions are in groups: certainly accused, likely, and all others.
    """
    # What reads submissions takes long to import, and few calls need it.
    from flashlab_grading.apart import check_apart
    from flashlab_grading.causes import causes_of, urgency
    from flashlab_grading.grade import grade_checked
    from flashlab_grading.recorded import recorded_results
    from flashlab_grading.submissions import find_submissions

    folder, device = config["submissions"], config["grading"].get("device")
    checked = list(check_apart(folder, find_submissions(folder)[0], device))
    grade_checked(checked, (), "", recorded_results())  # which adds the class's lines
    groups: dict[tuple[int, ...], list[Result]] = defaultdict(list)
    for own in checked:
        sound = {x.file for x in own.lines if (x.check, x.verdict) == ("arithmetic", "pass")}
        results = [result for result in own.compared.results if result.name in sound]
        groups[urgency(causes_of(own.lines, 0))[:2]] += results
    return [groups[accusations] for accusations in sorted(groups)]


def plan_sample(
    config: Mapping[str, Any], device: str, protocol: Mapping[str, Any]
) -> dict[Run, plan.PlannedRun]:
    """The sample of what is submitted, to be measured here by the course's own protocol.

    `device` is the kind that measures here. It prints how many runs will be measured. ConfigError
    if the results cannot be read, or none is of this device.
    """
    from flashlab_grading.model import GradingError
    from flashlab_grading.reproduction import choose

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
    print(
        f"reproduce: {len(planned)} runs, {missing} of them still to be measured", file=sys.stderr
    )
    return planned


def order_grading(config: Mapping[str, Any], root: Path) -> Ordered:
    """Write the order for ``submissions=DIR`` or ``pdf=PATH`` below `root`, with what it measures.

    ConfigError if the folder or file does not exist or cannot be read, or if ``reproduce`` is given
    without submissions, with a recorded dataset, or for results of other devices than this.
    """
    if reason := _refusal(config):
        raise ConfigError(f"--config: {reason}")
    kind = next((kind for kind in ("submissions", "pdf") if kind in config), "")
    if not kind:
        (root / ORDER).unlink(missing_ok=True)  # a call before may have left its own
        return Ordered()
    device, here = planned_device(config)
    # The course's own protocol, because its results are what is compared.
    protocol = plan.protocol_of({"measure": {**config["measure"], "protocol": "lab5"}}, device)
    planned = plan_sample(config, device, protocol) if "reproduce" in config else {}
    entries = planned.items()
    document = {
        "called_ns": time.time_ns(),
        "kind": kind,
        kind: config[kind],
        "device": config["grading"].get("device"),
        "seed": config["grading"]["seed"],
        "languages": config["languages"],
        "here": here,
        "orders": {
            e.path.name: plan.measuring_order(ATTENTION, e, protocol, here) for _, e in entries
        },
        "measured": [{"run": r.to_json(), "path": e.path.as_posix()} for r, e in entries],
    }
    write_json(root / ORDER, document)
    return _ordered(root / ORDER)


def kept_order() -> Ordered:
    """The order of the call that this job belongs to."""
    return _ordered(ORDER) if ORDER.exists() else Ordered()


def _ordered(path: Path) -> Ordered:
    document = read_json(path)
    records = [each["path"] for each in document["measured"]]
    return Ordered(document["kind"], path.as_posix(), document["orders"], records)
