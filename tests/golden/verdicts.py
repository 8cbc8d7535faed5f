"""A dataset's verdicts as plain rows: its comparisons.

A row of a comparison is ``experiment | compared | variant | metric | subject | reference | value |
verdict | ratio``, the ratio to three digits, and without a value where it is pooled. Sentences may
change without a change here.
"""

from __future__ import annotations

from collections.abc import Iterable

from flashlab.analysis.comparison_rows import Comparison


def comparison_rows(comparisons: Iterable[Comparison]) -> list[str]:
    """A row for each comparison, in the order of the table."""
    return [
        " | ".join(
            (
                *(row.experiment or "all", row.compared, row.variant, row.metric),
                *(row.subject, row.reference, "" if row.value is None else str(row.value)),
                *(row.verdict, f"{row.ratio:.3g}"),
            )
        )
        for row in comparisons
    ]


def verdicts_of(comparisons: Iterable[Comparison]) -> str:
    """All rows of a dataset."""
    return "".join(f"{row}\n" for row in comparison_rows(comparisons))
