"""How a dataset's planned runs ended, read from the plan and the records on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.plan import planned_records
from flashlab.records import Run

UNMEASURED = "unmeasured"


@dataclass(frozen=True)
class Outcome:
    """What a record states about its run; seconds and MiB are None unless `status` is ``ok``.

    `status` is a record's, or ``unmeasured`` where there is no readable record.
    """

    status: str
    message: str = ""
    forward: float | None = None
    backward: float | None = None
    memory: float | None = None


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def shown_dataset(root: Path) -> str | None:
    """Name of the dataset that ``report/`` shows, None if no report was made yet."""
    try:
        name: str = _json(root / "report" / "dataset.json")["dataset"]
    except (OSError, ValueError, KeyError):
        return None
    return name


def planned_runs(root: Path, dataset: str) -> dict[str, Run]:
    """The runs that the last call planned for a dataset, by record; none without a plan."""
    try:
        return {
            record["path"]: Run.from_json(record["run"])
            for record in planned_records(root / "results" / dataset)
        }
    except (OSError, ValueError, KeyError):
        return {}


def read_outcome(path: Path) -> tuple[Run | None, Outcome]:
    """The run that a record names, and its outcome; None if it cannot be read."""
    try:
        document = _json(path)
        record = document["record"]
        run = Run.from_json(record["run"])
        outcome = Outcome(
            status=record["status"],
            message=record["message"] or "",
            forward=document["forward"]["time(s)"],
            backward=document["backward"]["time(s)"],
            memory=document["peak_memory_usage(MB)"],  # the course's MB is 1024² bytes
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None, Outcome(UNMEASURED)
    return run, outcome


def read_outcomes(root: Path, planned: Mapping[str, Run]) -> dict[Run, Outcome]:
    """The outcome of each planned run, in the plan's order."""
    return {run: read_outcome(root / path)[1] for path, run in planned.items()}


def run_words(run: Run) -> list[str]:
    """A run without dtype and device, which a call's runs share: ``Flash2 B16 N1024 …``."""
    return str(run).split()[:-2]


def aligned(runs: Iterable[Run]) -> dict[Run, str]:
    """Each run's words, padded so that they form columns."""
    words = {run: run_words(run) for run in runs}
    widths = [max(map(len, column)) for column in zip(*words.values(), strict=True)]
    return {
        run: " ".join(word.ljust(width) for word, width in zip(of, widths, strict=True))
        for run, of in words.items()
    }
