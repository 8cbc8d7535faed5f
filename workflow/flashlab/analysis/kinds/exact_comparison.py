"""Exact metrics against the baseline, and against the benchmark's exact model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.experiment import EXACT_DIGITS, Experiment, Row, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import COMPARED, Given, Kind
from flashlab.analysis.kinds.comparison import Messages, describe_range, message_for, quoted_range
from flashlab.analysis.ratios import Ratio, rounded, rounded_off_one
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.runs import Run
from flashlab.telling.values import Listed, Measured, Statement, say

MESSAGES: Messages = {
    "less": ("exact_comparison.less", "exact_comparison.less.one"),
    "more": ("exact_comparison.more", "exact_comparison.more.one"),
    "equal": ("exact_comparison.equal", "exact_comparison.equal.one"),
    "withheld": ("exact_comparison.withheld.missing",),
}


def modelled_value(series: Series, row: Row) -> float | None:
    """What a run must have by the exact model of a series' metric; None where none covers it."""
    if series.metric.exact_model is None:
        return None
    run = Run.of(series.experiment.benchmark, row)
    return series.metric.exact_model(run, row["provider"], row["device_name"])


@dataclass(frozen=True)
class _Share(Ratio):
    """An exact metric as a share of the baseline's; `agrees` is whether both equal the model.

    To the tables' digits; None where the model, which gives `modelled`, does not cover one of them.
    """

    modelled: tuple[float | None, ...] = ()
    agrees: bool | None = None

    @property
    def side(self) -> str:
        """``less``, ``more`` or ``equal``, to the last byte."""
        return "less" if self.ratio < 1 else "more" if self.ratio > 1 else "equal"

    def to_json(self) -> dict[str, Any]:
        """The share and the model's values as evidence."""
        names = ("modelled_implementation", "modelled_baseline")
        models = (None if m is None else rounded(m, EXACT_DIGITS) for m in self.modelled)
        share = {"value": self.value, "estimate": rounded(self.ratio, EXACT_DIGITS)}
        return {**share, **dict(zip(names, models, strict=True))}


def _shares(pair: Sequence[Series]) -> list[_Share]:
    """The share at each value that both have."""
    experiment = pair[0].experiment
    measured, theirs = (
        {experiment.value_of(row): row["value"] for row in series.measured_rows} for series in pair
    )
    shares = []
    for value in (value for value in measured if value in theirs):
        both = measured[value], theirs[value]
        runs = (experiment.run_at(series.implementation, series.variant, value) for series in pair)
        models = tuple(modelled_value(pair[0], run) if run else None for run in runs)
        known = [rounded(model, EXACT_DIGITS) for model in models if model is not None]
        agrees = known == list(both) if len(known) == len(both) else None
        share = both[0] / both[1]
        shares.append(_Share(value, share, share, share, 1, modelled=models, agrees=agrees))
    return shares


def _statements(
    pair: Sequence[Series], verdict: str, shares: Sequence[_Share], facts: dict[str, Any]
) -> Iterator[Statement]:
    symbol, quantity = pair[0].experiment.parameter.symbol, pair[0].metric.quantity.name
    listed = Listed([share.value for share in shares])
    values = quoted(pair, baseline=pair[1].implementation, values=listed)
    values |= quoted_range(facts, symbol)
    yield say(message_for(MESSAGES, verdict, len(shares)), quantity, **values)
    if agreeing := [share.value for share in shares if share.agrees is True]:
        at = Listed(agreeing)
        yield say("exact_comparison.model_agrees_at", symbol=symbol, model_agrees_at=at)
    if differing := [share.value for share in shares if share.agrees is False]:
        at = Listed(differing)
        yield say("exact_comparison.model_differs_at", symbol=symbol, model_differs_at=at)


def exact_comparisons(experiment: Experiment, _: Given) -> Iterator[Finding]:
    """An exact metric as a share of the baseline's; exact, so without interval and margin.

    Where it is less at some values and more at others, each side is a finding of its own.
    """
    if experiment.baseline not in experiment.implementations:
        return
    others = sorted(name for name in experiment.implementations if name != experiment.baseline)
    metrics = metrics_of(experiment.benchmark, exact=True)
    for name, variant, metric in itertools.product(others, experiment.variants, metrics):
        pair = [Series(experiment, who, variant, metric) for who in (name, experiment.baseline)]
        sides: dict[str, list[_Share]] = {}
        for share in _shares(pair):
            sides.setdefault(share.side, []).append(share)
        for verdict, shares in sorted(sides.items()) or [("withheld", [])]:
            facts = describe_range(shares, lambda share: Measured(rounded_off_one(share.ratio)))
            if shares:
                facts["values"] = [share.value for share in shares]
            yield build_finding(
                "exact_comparison",
                pair,
                verdict,
                statements=list(_statements(pair, verdict, shares, facts)),
                facts=facts,
                estimates=[share.to_json() for share in shares],
                subject={"baseline": experiment.baseline},
            )


EXACT_COMPARISON = Kind(
    label="kind.exact_comparison",
    verdicts=("less", "more", "equal", "withheld"),
    of_experiment=[(COMPARED, exact_comparisons)],
    told="in full",
)
