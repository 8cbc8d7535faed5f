"""The verdicts that differ between a new report and the one before it.

Verdicts may differ after an upgrade, or when runs were measured again. The new report lists those
that changed.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from flashlab.analysis.experiment import COMPARISONS
from flashlab.files import read_json, write_json
from flashlab.plan.plan_files import record_paths

CHANGED = "changed: "
"""Prefix of a line about a changed verdict."""

KEPT = "verdicts.json"

MOST_LISTED = 20
"""Most changed verdicts that are listed; comparisons.csv has them all."""


ESTIMATED = ("ratio", "low", "high", "verdict", "pairs", "samples", "doubts")
"""What comparisons.csv says of a ratio; the other columns say which ratio it is, with its sizes."""


def _about(row: Mapping[str, str]) -> str:
    """A comparison in words: ``seq_len causal=false forward_time at 128: Flash2 / Pytorch``."""
    value, before = row["value"], row["reference_value"]
    at = f"at {value}{f' over {before}' * (before != value)}" if value else "pooled"
    whose = [row["experiment"] or "all", row["variant"], row["metric"], at]
    subject, reference = row["subject"], row["reference"]
    sides = f"{subject}, {row['compared']}" if subject == reference else f"{subject} / {reference}"
    return f"{' '.join(filter(None, whose))}: {sides}"


def _verdicts_of(table: Path) -> dict[str, tuple[str, str]]:
    """The words and the verdict of each ratio of comparisons.csv, by all that says which it is.

    Without frames, which would take a reader of a few verdicts longer to load.
    """
    with table.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    of = [" ".join(row[column] for column in row if column not in ESTIMATED) for row in rows]
    return {ratio: (_about(row), row["verdict"]) for ratio, row in zip(of, rows, strict=True)}


def _cause(before: Mapping[str, int], after: Mapping[str, int], reported: int) -> str:
    """The reason why the verdicts of two reports may differ; `reported` is the earlier one's time.

    Times are in ns, those of records by path. An added or removed experiment may change the records
    without any measuring.
    """
    if before == after:
        return "from the same records"
    if any(made != before.get(path, min(made, reported)) for path, made in after.items()):
        return "with runs that were measured since"
    return "which had other runs"


def print_changes(results: Path) -> None:
    """Print the lines of `compare_verdicts`, each behind the prefix `CHANGED`."""
    for line in compare_verdicts(results):
        print(f"{CHANGED}{line}")


def compare_verdicts(results: Path) -> list[str]:
    """The verdicts that differ from the last report's, as lines; the current ones replace these.

    `results` is the folder of a dataset's results, whose file `KEPT` holds the verdicts. The first
    line counts the changes and says whether the records are the same. The list is empty if nothing
    changed, or if there was no report before.
    """
    kept = results / KEPT
    records = {path.as_posix(): path.stat().st_mtime_ns for path in record_paths(results)}
    verdicts = _verdicts_of(results / COMPARISONS)
    try:
        before = read_json(kept)
        changed = [
            f"{about}: {before['verdicts'][ratio][1]} is now {verdict}"
            for ratio, (about, verdict) in verdicts.items()
            if before["verdicts"].get(ratio, (about, verdict))[1] != verdict
        ]
        known, reported = dict(before["records"]), kept.stat().st_mtime_ns
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        changed, known, reported = [], {}, 0  # no report before, or an unreadable file
    write_json(kept, {"records": records, "verdicts": verdicts})
    if not changed:
        return []
    count = f"{len(changed)} of {len(verdicts)} verdicts changed"
    more = [f"and {len(changed) - MOST_LISTED} more"] if len(changed) > MOST_LISTED else []
    cause = _cause(known, records, reported)
    return [f"{count} since the report before, {cause}:", *changed[:MOST_LISTED], *more]
