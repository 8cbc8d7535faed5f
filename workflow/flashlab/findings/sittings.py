"""In which sittings a dataset was measured: spans of time on one device, between two boots.

What a device does in one sitting is comparable run by run. From one sitting to another its
temperature, clocks, neighbours or driver state may differ, without a sign in any record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from flashlab.findings.model import Evidence, Finding
from flashlab.sweep import SITTING, Row, Sweep, device_of

GAP = timedelta(hours=1)
"""From one run's start to the next, the time that ends a sitting."""


@dataclass(frozen=True)
class Sitting:
    """The runs of one sitting in order of their start."""

    device: tuple[str, str]
    runs: tuple[Row, ...]

    @property
    def first(self) -> str:
        """When the first run was started."""
        return str(self.runs[0]["started"])

    @property
    def last(self) -> str:
        """When the last run was started."""
        return str(self.runs[-1]["started"])


def _is_imported(run: Row) -> bool:
    """Whether a run was measured elsewhere, at a time that is not known."""
    return any(warning["code"] == "imported" for warning in run["warnings"] or ())


def find_sittings(runs: Iterable[Row]) -> list[Sitting]:
    """The sittings of these runs, in order of time; a run is told by its record."""
    by_boot: dict[tuple[str, ...], dict[str, Row]] = {}
    for run in runs:
        if not _is_imported(run):
            boot = tuple(run[key] or "" for key in ("device_name", "gpu_uuid", "boot"))
            by_boot.setdefault(boot, {})[run["record"]] = run
    found = []
    for (name, uuid, _), own in sorted(by_boot.items()):
        group: list[Row] = []
        for run in sorted(own.values(), key=lambda run: (run["started"], run["record"])):
            start = datetime.fromisoformat(run["started"])
            if group and start - datetime.fromisoformat(group[-1]["started"]) >= GAP:
                found.append(Sitting((name, uuid), tuple(group)))
                group = []
            group.append(run)
        found.append(Sitting((name, uuid), tuple(group)))
    return sorted(found, key=lambda sitting: (sitting.first, sitting.device))


def with_sittings(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """The sweeps, each run with the number of its sitting in the dataset."""
    found = find_sittings(run for sweep in sweeps for run in sweep.runs)
    numbers = {
        run["record"]: number
        for number, sitting in enumerate(found, start=1)
        for run in sitting.runs
    }
    return [
        replace(sweep, runs=[{**run, SITTING: numbers.get(run["record"])} for run in sweep.runs])
        for sweep in sweeps
    ]


def sittings(sweeps: Sequence[Sweep]) -> Iterator[Finding]:
    """The sittings of the dataset: ``one``, ``several``, or ``unknown`` of imported runs alone."""
    runs = [run for sweep in sweeps for run in sweep.runs]
    found = find_sittings(runs)
    devices = list(dict.fromkeys(sitting.device for sitting in found))
    named_alike = len({name for name, _ in devices}) < len(devices)
    estimates: list[dict[str, Any]] = [
        {
            "sitting": number,
            "device": sitting.device[0],
            # The UUID itself would be of no use to a reader, and identifies the machine.
            "gpu": devices.index(sitting.device) + 1 if named_alike else None,
            "first": sitting.first,
            "last": sitting.last,
            "runs": len(sitting.runs),
        }
        for number, sitting in enumerate(found, start=1)
    ]
    yield Finding(
        kind="sittings",
        experiment=None,
        device=device_of(runs),
        subject={},
        verdict=("unknown", "one")[len(found)] if len(found) < 2 else "several",
        sentences=[],
        params={"count": len(found)},
        evidence=Evidence(
            table="tables/*/runs.csv",
            rows={"column": "started"},
            method="runs of one device and one boot of the system, of which none starts an hour "
            "or more after the one before it",
            n=sum(len(sitting.runs) for sitting in found),
            estimates=estimates,
        ),
    )
