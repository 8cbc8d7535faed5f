"""From records to series: for each run and metric a value at each commit, in the commits' order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.change_points import find_changes
from flashlab.compare.circumstances import deciding_protocol
from flashlab.compare.pairs import Processes
from flashlab.compare.revisions import commit_order
from flashlab.compare.sides import read_records
from flashlab.files import canonical
from flashlab.records import Record
from flashlab.replication import geometric_mean
from flashlab.runs import Run


class HistoryError(Exception):
    """Records from which no history can be read."""


@dataclass(frozen=True)
class Change:
    """A change between two commits; `position` is that of the second among the line's."""

    after: str
    by: str
    position: int
    ratio: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True)
class Line:
    """One metric of one run along the commits that have a result of it, with its changes.

    `surroundings` is what else a line has in common: the device, the packages and the protocol.
    """

    benchmark: str
    run: Mapping[str, Any]
    shape: str
    metric: str
    unit: str
    surroundings: str
    commits: Sequence[str]
    values: Sequence[float]
    changes: Sequence[Change]


def _surroundings(record: Record) -> str:
    """What must stay the same along a line, for a change to be the code's."""
    return canonical(
        {
            "device": record.environment.get("device_name"),
            "versions": record.sources.get("versions") or record.environment.get("packages", {}),
            "protocol": deciding_protocol(record),
        }
    )


def _changes(metric: Metric, commits: Sequence[str], values: Sequence[float]) -> Iterator[Change]:
    for at, ratio in find_changes(values) if min(values) > 0 else ():
        yield Change(
            *(commits[at - 1], commits[at], at, ratio.value, ratio.low, ratio.high),
            ratio.verdict(metric),
        )


def _lines(
    run: Run, surroundings: str, by_commit: Mapping[str, Sequence[Record]], commits: Sequence[str]
) -> Iterator[Line]:
    """The lines of a run: one for each metric that it has, over these commits in their order."""
    benchmark = find_benchmark(by_commit[commits[0]][0].benchmark)
    processes = {commit: Processes(by_commit[commit]) for commit in commits}
    for metric in benchmark.measured:
        values = {
            commit: geometric_mean(found)
            for commit, each in processes.items()
            if each.status == "ok" and (found := each.values(metric))
        }
        if values:
            along, series = list(values), list(values.values())
            changes = list(_changes(metric, along, series))
            yield Line(
                *(benchmark.name, run.to_json(), " ".join(run.words), metric.name, metric.unit),
                *(surroundings, along, series, changes),
            )


def histories(records: Iterable[Record], order: Mapping[str, int]) -> list[Line]:
    """A line for each metric of each run, on each device and with the same packages.

    The value at a commit is the geometric mean of its processes' medians. Records that do not tell
    their commit, or were measured with uncommitted changes, belong to none and are left out.

    Args:
        records: the records of any commits, in any order.
        order: the position of each commit in the repository's history (`commit_order`). Where it
            lacks a commit of a line, the time of measuring gives the order.

    Raises:
        HistoryError: no record was measured at a clean commit.
    """
    series: dict[tuple[Run, str], dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.started):
        commit = record.environment.get("commit")
        if commit and not record.environment.get("dirty"):
            by_commit = series.setdefault((record.run, _surroundings(record)), {})
            by_commit.setdefault(commit, []).append(record)
    if not series:
        raise HistoryError(
            "history: every record was measured with uncommitted changes or outside git; commit, "
            "and measure in a git checkout"
        )
    return [
        line
        for (run, surroundings), by_commit in sorted(series.items(), key=lambda item: item[0])
        for line in _lines(
            run,
            surroundings,
            by_commit,
            sorted(by_commit, key=order.__getitem__)
            if by_commit.keys() <= order.keys()
            else list(by_commit),
        )
    ]


def read_history(folders: Sequence[Path], repository: Path) -> dict[str, Any]:
    """The histories in folders of records, as data.

    Raises:
        HistoryError: a folder is missing, or no record was measured at a clean commit.
    """
    records: dict[str, Record] = {}
    for folder in folders:
        if not folder.is_dir():
            raise HistoryError(f"history: there is no folder {folder}")
        for place in (folder, folder / "records"):
            records |= {path.name: record for path, record in read_records(place)}
    lines = histories(records.values(), commit_order(repository))
    return {"lines": [asdict(line) for line in lines]}
