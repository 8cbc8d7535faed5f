"""Exact metrics against the baseline, and against the benchmark's exact model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.experiment import TABLE_DIGITS, Row, Sweep, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import COMPARED, Given, Kind
from flashlab.analysis.kinds.comparison import Messages, message_for, quoted_range
from flashlab.analysis.ratios import EVIDENCE_DIGITS, rounded
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.benchmarks.model import Metric
from flashlab.runs import Run
from flashlab.telling.values import Listed, Statement, say

Pair = tuple[Row, Row]

MESSAGES: Messages = {
    "less": ("exact_comparison.less", "exact_comparison.less.one"),
    "more": ("exact_comparison.more", "exact_comparison.more.one"),
    "equal": ("exact_comparison.equal", "exact_comparison.equal.one"),
    "withheld": ("exact_comparison.withheld.missing",),
}


def modelled_value(sweep: Sweep, metric: Metric, row: Row) -> float | None:
    """What a run must have by the exact model; None where none covers it."""
    if metric.exact_model is None:
        return None
    run = Run.of(sweep.benchmark, row)
    return metric.exact_model(run, row["provider"], row["device_name"])


def _models(sweep: Sweep, metric: Metric, pair: Pair) -> tuple[float | None, ...]:
    runs = (
        sweep.run_at(row["implementation"], sweep.variant_of(row), sweep.value_of(row))
        for row in pair
    )
    return tuple(None if run is None else modelled_value(sweep, metric, run) for run in runs)


@dataclass(frozen=True)
class _Share:
    """An exact metric at one value of the sweep as a share of the baseline's, and both models."""

    value: int
    mine: float
    theirs: float
    models: tuple[float | None, ...]

    @property
    def ratio(self) -> float:
        return self.mine / self.theirs

    @property
    def side(self) -> str:
        """``less``, ``more`` or ``equal``, as printed."""
        printed = rounded(self.ratio)
        return "less" if printed < 1 else "more" if printed > 1 else "equal"

    @property
    def agrees(self) -> bool | None:
        """Whether both equal the model to the table's digits, None where one is not covered."""
        if None in self.models:
            return None
        return all(
            rounded(model or 0, TABLE_DIGITS) == value
            for model, value in zip(self.models, (self.mine, self.theirs), strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        mine, theirs = (
            None if model is None else rounded(model, EVIDENCE_DIGITS) for model in self.models
        )
        return {
            "value": self.value,
            "estimate": rounded(self.ratio, EVIDENCE_DIGITS),
            "modelled_implementation": mine,
            "modelled_baseline": theirs,
        }


def _shares(mine: Series, theirs: Series) -> list[_Share]:
    """The share at each value that both have."""
    sweep, metric = mine.sweep, mine.metric
    theirs_at = {sweep.value_of(row): row for row in theirs.measured_rows}
    pairs = {
        value: (row, theirs_at[value])
        for row in mine.measured_rows
        if (value := sweep.value_of(row)) in theirs_at
    }
    return [
        _Share(value, pair[0]["value"], pair[1]["value"], _models(sweep, metric, pair))
        for value, pair in pairs.items()
    ]


def _facts(found: Sequence[_Share]) -> dict[str, Any]:
    if not found:
        return {"count": 0}
    lowest = min(found, key=lambda share: share.ratio)
    highest = max(found, key=lambda share: share.ratio)
    return {
        "count": len(found),
        "first": found[0].value,
        "last": found[-1].value,
        "values": [share.value for share in found],
        "low": rounded(lowest.ratio),
        "low_at": lowest.value,
        "high": rounded(highest.ratio),
        "high_at": highest.value,
    }


def _statements(
    pair: Sequence[Series], verdict: str, found: Sequence[_Share], facts: dict[str, Any]
) -> list[Statement]:
    sweep = pair[0].sweep
    symbol, quantity = sweep.parameter.symbol, pair[0].metric.quantity.name
    values = quoted(pair, baseline=sweep.baseline, values=Listed([s.value for s in found]))
    values |= quoted_range(facts, symbol)
    told = [say(message_for(MESSAGES, verdict, len(found)), quantity, **values)]
    if agreeing := [share.value for share in found if share.agrees is True]:
        told.append(
            say("exact_comparison.model_agrees_at", symbol=symbol, model_agrees_at=Listed(agreeing))
        )
    if differing := [share.value for share in found if share.agrees is False]:
        told.append(
            say(
                "exact_comparison.model_differs_at",
                symbol=symbol,
                model_differs_at=Listed(differing),
            )
        )
    return told


def exact_comparisons(sweep: Sweep, _: Given) -> Iterator[Finding]:
    """An exact metric as a share of the baseline's; exact, so without interval and margin.

    Where it is less at some values and more at others, each side is a finding of its own.
    """
    if sweep.baseline not in sweep.implementations:
        return
    others = sorted(name for name in sweep.implementations if name != sweep.baseline)
    metrics = metrics_of(sweep.benchmark, exact=True)
    for name, variant, metric in itertools.product(others, sweep.variants, metrics):
        pair = [Series(sweep, who, variant, metric) for who in (name, sweep.baseline)]
        sides: dict[str, list[_Share]] = {}
        for share in _shares(*pair):
            sides.setdefault(share.side, []).append(share)
        for verdict, found in sorted(sides.items()) or [("withheld", [])]:
            facts = _facts(found)
            yield build_finding(
                "exact_comparison",
                pair,
                verdict,
                statements=_statements(pair, verdict, found, facts),
                facts=facts,
                method="ratio of exact values; the benchmark's exact model in the range that it "
                "covers, to the nine digits of the table",
                n=len(found),
                estimates=[share.to_json() for share in found],
                subject={"baseline": sweep.baseline},
            )


EXACT_COMPARISON = Kind(
    name="exact_comparison",
    label="kind.exact_comparison",
    verdicts=("less", "more", "equal", "withheld"),
    of_experiment=[(COMPARED, exact_comparisons)],
    told="in full",
)
