"""From records to series: for each run and metric a value at each commit, in the commits' order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.analysis.replication import geometric_mean
from flashlab.benchmarks.registry import find_benchmark
from flashlab.compare.change_points import find_changes
from flashlab.compare.pairs import status_in, values_in
from flashlab.compare.revisions import commit_order
from flashlab.compare.sides import read_records
from flashlab.files import canonical
from flashlab.plan.identity import deciding
from flashlab.records import Record
from flashlab.runs import Run

Line = Mapping[str, Any]
"""One metric of one run along the commits that have a result of it, with its changes.

``surroundings`` is what else a line has in common: the device, the packages and the protocol. A
change has the commits between which it happened, and the position of the second in the line.
"""


class HistoryError(Exception):
    """Records from which no history can be read."""


def _surroundings(record: Record) -> str:
    """What must stay the same along a line, for a change to be the code's."""
    return canonical(
        {
            "device": record.environment.get("device_name"),
            "versions": record.sources.get("versions", {}),
            "protocol": deciding(record.protocol),
        }
    )


def _lines(
    run: Run, surroundings: str, processes: Mapping[str, Sequence[Record]]
) -> Iterable[Line]:
    """A line for each metric that a run has, from its processes at each commit, in order."""
    benchmark = find_benchmark(next(iter(processes.values()))[0].benchmark)
    ok = {commit: at for commit, at in processes.items() if status_in(at) == "ok"}
    for metric in benchmark.measured:
        measured = {commit: values_in(at, metric) for commit, at in ok.items()}
        series = {commit: geometric_mean(values) for commit, values in measured.items() if values}
        if not series:
            continue
        commits, values = list(series), list(series.values())
        yield {
            "benchmark": benchmark.name,
            "run": run.to_json(),
            "shape": " ".join(run.words),
            "metric": metric.name,
            "unit": metric.unit,
            "surroundings": surroundings,
            "commits": commits,
            "values": values,
            "changes": [
                {
                    "after": commits[at - 1],
                    "by": commits[at],
                    "position": at,
                    "ratio": ratio.value,
                    "low": ratio.low,
                    "high": ratio.high,
                    "verdict": ratio.verdict(metric),
                }
                for at, ratio in (find_changes(values) if min(values) > 0 else ())
            ],
        }


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
    lines: list[Line] = []
    for (run, surroundings), by_commit in sorted(series.items(), key=lambda item: item[0]):
        known = by_commit.keys() <= order.keys()
        commits = sorted(by_commit, key=order.__getitem__) if known else by_commit
        lines += _lines(run, surroundings, {commit: by_commit[commit] for commit in commits})
    return lines


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
    return {"lines": histories(records.values(), commit_order(repository))}
