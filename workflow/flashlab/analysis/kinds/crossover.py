"""Between which measured values of a sweep the better of two implementations changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, metrics_of
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import SWEEPS, Given, Kind
from flashlab.analysis.kinds.comparison import compared_ratios
from flashlab.analysis.ratios import Ratio
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.telling.values import Statement, say


def _verdicts(
    pair: Sequence[Series], found: Sequence[Ratio]
) -> Iterator[tuple[str, list[Statement], dict[str, Any]]]:
    """Verdict, statements and facts of each change, or that it is open whether there is one."""
    names = [series.implementation for series in pair]
    decided = [ratio for ratio in found if ratio.verdict in ("above", "below")]
    changes = [(a, b) for a, b in itertools.pairwise(decided) if a.verdict != b.verdict]
    for before, after in changes:
        facts: dict[str, Any] = {
            "low_at": before.value,
            "high_at": after.value,
            "before": names[before.verdict == "below"],
            "after": names[after.verdict == "below"],
        }
        yield "crosses", [say("crossover.crosses", **{**quoted(pair), **facts})], facts
    if changes:
        return
    if len(found) < 2:
        told = say("crossover.inconclusive.missing", **quoted(pair, other=names[1]))
        yield "inconclusive", [told], {}
    elif any(r.may_be_below for r in found) and any(r.may_be_above for r in found):
        ends = {"first": found[0].value, "last": found[-1].value}
        told = say("crossover.inconclusive", **quoted(pair, other=names[1], **ends))
        yield "inconclusive", [told], {}


def crossovers(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Between which measured values the better of two implementations changes: a finding each.

    The pairs of which neither overtakes the other stand in one finding for each metric and variant.
    """
    if len(experiment.values) < 2:
        return
    metrics = metrics_of(experiment.benchmark, exact=False)
    for variant, metric in itertools.product(experiment.variants, metrics):
        steady: list[tuple[str, str]] = []
        for names in itertools.combinations(sorted(experiment.implementations), 2):
            # Above 1 the first of the two is the better one.
            pair = [Series(experiment, name, variant, metric) for name in names]
            ratios, other = compared_ratios(given, pair), {"other": names[1]}
            if not (told := list(_verdicts(pair, ratios))):
                steady.append(names)
            for verdict, statements, facts in told:
                yield build_finding(
                    "crossover",
                    pair,
                    verdict,
                    statements=statements,
                    facts=facts,
                    ratios=ratios,
                    subject=other,
                )
        if steady:
            every = sorted(set(itertools.chain.from_iterable(steady)))
            yield build_finding(
                "crossover",
                [Series(experiment, name, variant, metric) for name in every],
                "none_in_range",
                facts={"pairs": [list(names) for names in steady]},
                of_all=True,
            )


CROSSOVER = Kind(
    label="kind.crossover",
    verdicts=("crosses", "none_in_range", "inconclusive"),
    of_experiment=[(SWEEPS, crossovers)],
    told="in full",
)
