"""The order of a call: what it grades, determined when Snakemake reads the rules.

Submissions and their files may have any names, so Snakemake never sees them: each call writes one
order, which the rules have as input, and which its jobs read that read the rules again. The order
includes its own time, so every call grades afresh.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.config import ConfigError
from flashlab.files import read_json, write_json
from flashlab.plan import planning as plan
from flashlab.plan.source import planned_device
from flashlab.runs import Run

ORDER = Path("results") / "grading" / "order.json"
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


def order_grading(config: Mapping[str, Any], root: Path) -> Ordered:
    """Write the order for ``submissions=DIR`` or ``pdf=PATH`` below `root`, with what it measures.

    ConfigError if the folder or file does not exist or cannot be read, or if ``reproduce`` is given
    without submissions, with a recorded dataset, or for results of other devices than this.
    """
    if reason := _refusal(config):
        raise ConfigError(f"--config: {reason}")
    if "submissions" not in config and "pdf" not in config:
        (root / ORDER).unlink(missing_ok=True)  # a call before may have left its own
        return Ordered()
    kind = "submissions" if "submissions" in config else "pdf"
    device, here = planned_device(config)
    # The course's own protocol, because its results are what is compared.
    protocol = plan.protocol_of({"measure": {**config["measure"], "protocol": "lab5"}}, device)
    planned: dict[Run, plan.PlannedRun] = {}
    if "reproduce" in config:
        # What reads submissions takes long to import, and few calls need it.
        from flashlab_grading.sample import plan_sample

        planned = plan_sample(config, device, protocol)
    entries = planned.values()
    document = {
        "called_ns": time.time_ns(),
        "kind": kind,
        kind: config[kind],
        "device": config["grading"].get("device"),
        "nonce": config.get("nonce"),
        "seed": config["grading"]["seed"],
        "languages": config["languages"],
        "here": here,
        "orders": {
            e.path.name: plan.measuring_order(ATTENTION, e, protocol, here) for e in entries
        },
        "measured": [
            {"run": run.to_json(), "path": entry.path.as_posix()} for run, entry in planned.items()
        ],
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
