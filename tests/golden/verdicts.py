"""A dataset's verdicts as plain rows: its comparisons.

A row of a comparison is ``experiment | compared | variant | metric | subject | reference | value |
verdict | ratio``, the ratio to three digits, and without a value where it is pooled. Sentences may
change without a change here. Of a dataset with many, a file holds how many of each metric have
which verdict, and a digest of its rows, by experiment: `PYTHONPATH=tests python -m golden.texts
--unfold NAME` prints them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

CELLS = ("compared", "variant", "metric", "subject", "reference", "value", "verdict")


def comparison_rows(comparisons: Iterable[Mapping[str, str]]) -> list[str]:
    """A row for each comparison, in the order of the table."""
    return [
        " | ".join([row["experiment"] or "all", *map(row.get, CELLS), f"{float(row['ratio']):.3g}"])
        for row in comparisons
    ]


def folded(rows: Sequence[str]) -> list[str]:
    """For each experiment, its metrics' counts by verdict, and the digest of its rows."""
    lines: list[str] = []
    for experiment, group in groupby(rows, lambda row: row.partition(" | ")[0]):
        own = [*group]
        digest = hashlib.sha256("\n".join(own).encode()).hexdigest()[:16]
        lines.append(f"{experiment} | {digest}")
        cells = [row.split(" | ") for row in own]
        counts = sorted(Counter((cell[3], cell[7]) for cell in cells).items())
        lines += [f"  {metric} | {verdict} | {count}" for (metric, verdict), count in counts]
    return lines


def verdicts_of(comparisons: Iterable[Mapping[str, str]]) -> str:
    """All rows of a dataset."""
    return "".join(f"{row}\n" for row in comparison_rows(comparisons))
