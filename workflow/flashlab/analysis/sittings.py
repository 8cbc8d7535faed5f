"""In which sittings a dataset was measured: spans of time on one device, between two boots.

What a device does in one sitting is comparable run by run. From one sitting to another its
temperature, clocks, neighbours or driver state may differ, without a sign in any record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from flashlab.analysis.experiment import CARDS, SITTING, Experiment, Row, is_imported

GAP = timedelta(hours=1)
"""From one process's start to the next, the time that ends a sitting."""


@dataclass(frozen=True)
class Sitting:
    """The records of one sitting in order of their start."""

    device: tuple[str, str]
    records: tuple[Row, ...]

    @property
    def first(self) -> str:
        """The start of the first process, as ISO 8601."""
        return str(self.records[0]["started"])

    @property
    def last(self) -> str:
        """The start of the last process, as ISO 8601."""
        return str(self.records[-1]["started"])


def find_sittings(records: Iterable[Row]) -> list[Sitting]:
    """The sittings of these records, in order of time; one that is there twice counts once."""
    by_boot: dict[tuple[str, ...], dict[str, Row]] = {}
    for record in records:
        if not is_imported(record):
            boot = tuple(record[key] or "" for key in ("device_name", "gpu_uuid", "boot"))
            by_boot.setdefault(boot, {})[record["record"]] = record
    found = []
    for (name, uuid, _), own in sorted(by_boot.items()):
        group: list[Row] = []
        for record in sorted(own.values(), key=lambda row: (row["started"], row["record"])):
            start = datetime.fromisoformat(record["started"])
            if group and start - datetime.fromisoformat(group[-1]["started"]) >= GAP:
                found.append(Sitting((name, uuid), tuple(group)))
                group = []
            group.append(record)
        found.append(Sitting((name, uuid), tuple(group)))
    return sorted(found, key=lambda sitting: (sitting.first, sitting.device))


def with_sittings(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The sweeps, each run with the numbers of the sittings of its processes, and their GPUs."""
    found = find_sittings(record for experiment in experiments for record in experiment.records)
    numbers = {
        record["record"]: number
        for number, sitting in enumerate(found, start=1)
        for record in sitting.records
    }
    numbered = []
    for experiment in experiments:
        own: dict[tuple[Any, ...], list[tuple[int, str | None]]] = {}
        for record in experiment.records:
            if number := numbers.get(record["record"]):
                of_run = own.setdefault(experiment.key_of(record), [])
                of_run.append((number, record["gpu_uuid"]))
        runs = []
        for run in experiment.runs:
            mine = own.get(experiment.key_of(run), [])
            cards = {card for _, card in mine}
            known = None if not cards or None in cards else frozenset(filter(None, cards))
            sittings = tuple(sorted({number for number, _ in mine})) or None
            runs.append({**run, SITTING: sittings, CARDS: known})
        numbered.append(replace(experiment, runs=runs))
    return numbered
