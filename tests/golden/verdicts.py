"""A dataset's verdicts as plain rows: its comparisons, and the published claims.

A row of a comparison is ``experiment | compared | variant | metric | subject | reference | value |
verdict | ratio``, the ratio to three digits, and without a value where it is pooled; that of a
claim is ``claims | claim | verdict``. Sentences may change without a change here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def verdicts_of(comparisons: Iterable[Comparison], claims: Mapping[str, str]) -> str:
    """All rows of a dataset; `claims` are the verdicts on the published claims."""
    rows = comparison_rows(comparisons)
    rows += [f"claims | {claim} | {verdict}" for claim, verdict in sorted(claims.items())]
    return "".join(f"{row}\n" for row in rows)
