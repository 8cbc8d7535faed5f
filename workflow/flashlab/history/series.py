"""From records to series: for each run and metric a value at each commit, in the commits' order."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.analysis.ratios import Ratio
from flashlab.analysis.replication import geometric_mean
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.comparing.sides import read_records
from flashlab.comparing.verdicts import Measured, verdict_on
from flashlab.files import canonical
from flashlab.history.change_points import Change, find_changes
from flashlab.plan.identity import WITHOUT_EFFECT
from flashlab.records import Record
from flashlab.runs import Run


class HistoryError(Exception):
    """Records from which no history can be read."""


@dataclass(frozen=True)
class Line:
    """One metric of one run along the commits that have a result of it, with its changes.

    `surroundings` is what else a line has in common: the device, the packages and the protocol.
    """

    benchmark: Benchmark
    run: Run
    metric: Metric
    surroundings: str
    commits: Sequence[str]
    values: Sequence[float]
    changes: Sequence[Change]

    def to_json(self) -> dict[str, Any]:
        """The line as data; each change with the commits between which it happened."""
        return {
            "benchmark": self.benchmark.name,
            "run": self.run.to_json(),
            "shape": " ".join(self.run.words),
            "metric": self.metric.name,
            "unit": self.metric.unit,
            "surroundings": self.surroundings,
            "commits": list(self.commits),
            "values": list(self.values),
            "changes": [self._change(change) for change in self.changes],
        }

    def _change(self, change: Change) -> dict[str, Any]:
        ratio = Ratio(0, change.ratio, change.low, change.high, len(self.values))
        return {
            "after": self.commits[change.at - 1],
            "by": self.commits[change.at],
            "position": change.at,
            "ratio": change.ratio,
            "low": change.low,
            "high": change.high,
            "verdict": verdict_on(self.metric, ratio),
        }


def commit_order(repository: Path) -> dict[str, int]:
    """The position of each commit of the repository's history, oldest first; empty without git."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(repository), "rev-list", "--reverse", "--topo-order", "--all"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {commit: position for position, commit in enumerate(listed.stdout.split())}


def _commit(record: Record) -> str | None:
    """The commit of a record that was measured without uncommitted changes."""
    environment = record.environment
    found: str | None = None if environment.get("dirty") else environment.get("commit")
    return found


def _surroundings(record: Record) -> str:
    """What must stay the same along a line, for a change to be the code's."""
    packages = record.sources.get("versions") or record.environment.get("packages", {})
    protocol = {k: v for k, v in record.protocol.items() if k not in WITHOUT_EFFECT}
    return canonical(
        {
            "device": record.environment.get("device_name"),
            "versions": packages,
            "protocol": protocol,
        }
    )


def _in_order(
    by_commit: Mapping[str, Sequence[Record]], order: Mapping[str, int]
) -> list[tuple[str, Sequence[Record]]]:
    """By the repository's history if it knows all commits, else by when they were measured."""
    known = all(commit in order for commit in by_commit)

    def place(item: tuple[str, Sequence[Record]]) -> tuple[int, str]:
        commit, records = item
        return (order[commit] if known else 0, min(record.started for record in records))

    return sorted(by_commit.items(), key=place)


def _lines(
    run: Run, surroundings: str, commits: Sequence[tuple[str, Sequence[Record]]]
) -> Iterable[Line]:
    benchmark = find_benchmark(commits[0][1][0].benchmark)
    measured = [(commit, Measured(records)) for commit, records in commits]
    ok = [(commit, each) for commit, each in measured if each.status == "ok"]
    for metric in benchmark.measured:
        having = [(commit, found) for commit, each in ok if (found := each.values(metric))]
        if not having:
            continue
        names = [commit for commit, _ in having]
        values = [geometric_mean(found) for _, found in having]
        changes = find_changes(values) if min(values) > 0 else []
        yield Line(benchmark, run, metric, surroundings, names, values, changes)


def histories(records: Iterable[Record], order: Mapping[str, int]) -> list[Line]:
    """A line for each metric of each run, on each device and with the same packages.

    The value at a commit is the geometric mean of its processes' medians. Records that do not tell
    their commit, or were measured with uncommitted changes, belong to none and are left out.

    Args:
        records: the records of any commits, in any order.
        order: the position of each commit in the repository's history (`commit_order`).

    Raises:
        HistoryError: no record was measured at a clean commit.
    """
    found: dict[tuple[Run, str], dict[str, list[Record]]] = {}
    for record in records:
        commit = _commit(record)
        if commit is not None:
            commits = found.setdefault((record.run, _surroundings(record)), {})
            commits.setdefault(commit, []).append(record)
    if not found:
        raise HistoryError(
            "history: every record was measured with uncommitted changes or outside git; commit, "
            "and measure in a git checkout"
        )
    return list(
        itertools.chain.from_iterable(
            _lines(run, surroundings, _in_order(by_commit, order))
            for (run, surroundings), by_commit in sorted(found.items())
        )
    )


def read_history(folders: Sequence[Path], repository: Path) -> dict[str, Any]:
    """The histories in folders of records, as data.

    Raises:
        HistoryError: a folder is missing, or no record was measured at a clean commit.
    """
    known: dict[str, Record] = {}
    for folder in folders:
        if not folder.is_dir():
            raise HistoryError(f"history: there is no folder {folder}")
        places = (folder, folder / "records")
        known |= {path.name: record for place in places for path, record in read_records(place)}
    lines = histories(known.values(), commit_order(repository))
    return {"lines": [line.to_json() for line in lines]}
