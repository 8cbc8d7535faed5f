"""Where an implementation is worse than the naive one, which it should beat everywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, chosen_metrics, comparison_warnings
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import MEASURED, Given, Kind
from flashlab.analysis.kinds.comparison import describe_range, printed_ends
from flashlab.analysis.ratios import advantages, with_verdict, without_samples
from flashlab.analysis.settings import at_settings, in_short, settings_of
from flashlab.benchmarks.model import Metric
from flashlab.telling.values import Heading, MetricName, Statement, say, span


def _statement(name: str, naive: str, metric: Metric, facts: Mapping[str, Any]) -> Statement:
    everywhere = facts["count"] == facts["of"]
    return say(
        "worse_than_naive.worse.everywhere" if everywhere else "worse_than_naive.worse",
        metric.quantity.name,
        implementation=name,
        baseline=naive,
        metric=MetricName(metric.name),
        where=Heading(MetricName(metric.name, part=True)),
        count=facts["count"],
        of=facts["of"],
        factors=span(*printed_ends(facts)),
    )


def worse_than_naive(experiments: Sequence[Experiment], given: Given) -> Iterator[Finding]:
    """For each other implementation and sampled metric: where it is worse than the naive one.

    Only where the plan's baseline is the one that the benchmark declares as naive.
    """
    benchmark, naive = experiments[0].benchmark, experiments[0].benchmark.naive
    if naive is None or any(experiment.baseline != naive for experiment in experiments):
        return
    settings = [setting for setting in settings_of(experiments) if naive in setting.runs]
    others = sorted({name for setting in settings for name in setting.runs} - {naive})
    for name, metric in itertools.product(others, chosen_metrics(benchmark)):
        places = [setting for setting in settings if name in setting.runs]
        medians, of_naive = (
            {i: setting.estimate(given.estimates, who, metric) for i, setting in enumerate(places)}
            for who in (name, naive)
        )
        ratios = advantages(medians, of_naive, metric.higher_is_better)
        worse = [ratio for ratio in ratios if ratio.verdict == "below"]
        facts: dict[str, Any] = {"count": len(worse), "of": len(ratios)}
        if worse:
            facts |= describe_range(worse)
        # Where it is worse everywhere, naming the places tells nothing.
        named = worse if len(worse) < len(ratios) else []
        where = [in_short(benchmark, places[at.value], settings) for at in named]
        reasons = [Reason("worse", {"implementation": name, **at}) for at in where]
        undecided = with_verdict(ratios, "inconclusive")
        compared = [[setting.runs[who][1] for who in (name, naive)] for setting in places]
        yield Finding(
            "worse_than_naive",
            None,
            {"implementation": name, "baseline": naive, "metric": metric.name},
            "worse" if worse else "inconclusive" if undecided else "none",
            statements=[_statement(name, naive, metric, facts)] if worse else [],
            facts=facts,
            estimates=at_settings(benchmark, places, ratios),
            reasons=[*reasons, *without_samples(ratios)],
            warnings=comparison_warnings(benchmark, metric.name, compared),
        )


WORSE_THAN_NAIVE = Kind(
    label="kind.worse_than_naive",
    verdicts=("worse", "none", "inconclusive"),
    of_dataset=[(MEASURED, worse_than_naive)],
    told="of the dataset",
    alarming=frozenset({"worse"}),
)
