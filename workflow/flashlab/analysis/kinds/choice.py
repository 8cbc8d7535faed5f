"""Which implementation to choose: the best at each size and variant, and what another one costs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import (
    CARDS_DIFFER,
    Experiment,
    chosen_metrics,
    comparison_doubts,
    comparison_warnings,
)
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import CHOICES, SWEEPS, Given, Kind
from flashlab.analysis.kinds.comparison import describe_range, quoted_range
from flashlab.analysis.ratios import Ratio, advantages, interval_json, rounded, without_samples
from flashlab.analysis.series import Series, build_finding, quoted
from flashlab.analysis.settings import settings_of
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.statistics import Estimate
from flashlab.telling.codes import by_code
from flashlab.telling.stretches import ends_of_stretch
from flashlab.telling.values import Label, Listed, Statement, clauses, say

MESSAGES = by_code("choice.one_best", "choice.one_suffices", "choice.changes")


@dataclass(frozen=True)
class Choice:
    """Who is best at one setting: by the median, and what every other one costs as a factor.

    `rivals` has, of each pair of the others that may be best, how many times as good the first is.
    """

    best: str
    prices: Mapping[str, Ratio]
    rivals: Mapping[tuple[str, str], Ratio]

    @property
    def runner_up(self) -> str:
        """The second best by the median."""
        return min(self.prices, key=lambda name: (self.prices[name].ratio, name))

    @property
    def lead(self) -> Ratio:
        """How many times as good as the runner-up the best one is."""
        return self.prices[self.runner_up]

    @property
    def possible(self) -> list[str]:
        """The best one, and those that are not decidedly worse by more than the margin."""
        return [self.best, *(n for n, price in self.prices.items() if price.verdict != "above")]

    def _suffices(self, name: str) -> bool:
        """Whether no other one may be better than this by more than the margin."""
        if name == self.best:
            return not any(price.may_be_below for price in self.prices.values())
        others = (ratio for pair, ratio in self.rivals.items() if pair[0] == name)
        return not (self.prices[name].may_be_above or any(each.may_be_below for each in others))

    @property
    def level(self) -> list[str]:
        """Those that decidedly suffice: best, or within the margin of whoever is; maybe none."""
        return [name for name in self.possible if self._suffices(name)]

    @property
    def undecided(self) -> list[str]:
        """Those of which it is not decided whether they suffice."""
        return [name for name in self.possible if not self._suffices(name)]

    @property
    def is_alone(self) -> bool:
        """Whether every other one is decidedly worse."""
        return all(price.verdict == "above" for price in self.prices.values())

    def to_json(self) -> dict[str, Any]:
        """The place as evidence: the names, and the lead over the runner-up."""
        return {
            "best": self.best,
            "level": self.level,
            "undecided": self.undecided,
            "runner_up": self.runner_up,
            **interval_json(self.lead),
        }


def place(value: int, by_name: Mapping[str, Estimate], higher_is_better: bool) -> Choice | None:
    """Who is best, None where there are no two to choose from."""
    if len(by_name) < 2:
        return None
    sign = -1 if higher_is_better else 1
    best = min(by_name, key=lambda name: (sign * by_name[name].median, name))

    def advantage(name: str, other: str) -> Ratio:
        mine, theirs = ({value: by_name[each]} for each in (name, other))
        (found,) = advantages(mine, theirs, higher_is_better)
        return found

    others = {name: advantage(best, name) for name in by_name.keys() - {best}}
    prices = {name: others[name] for name in sorted(others, key=lambda n: (others[n].ratio, n))}
    near = [name for name, price in prices.items() if price.verdict != "above"]
    rivals = {pair: advantage(*pair) for pair in itertools.permutations(near, 2)}
    return Choice(best, prices, rivals)


def places_along(estimates: Estimates, series: Sequence[Series]) -> dict[int, Choice]:
    """Who is best by series of one metric, at each value where there are two to choose from."""
    along = {one.implementation: estimates.along(one) for one in series}
    found = {}
    for value in series[0].experiment.values:
        by_name = {name: medians[value] for name, medians in along.items() if value in medians}
        if chosen := place(value, by_name, series[0].metric.higher_is_better):
            found[value] = chosen
    return found


def _verdict(places: Sequence[Choice]) -> tuple[str, list[str]]:
    """What the places amount to, and who suffices everywhere, the most often best one first."""
    if not places:
        return "inconclusive", []
    if all(place.is_alone for place in places) and len({place.best for place in places}) == 1:
        return "one_best", [places[0].best]
    sufficient = sorted(set.intersection(*(set(place.level) for place in places)))
    if sufficient:
        wins = Counter(place.best for place in places)
        return "one_suffices", sorted(sufficient, key=lambda name: -wins[name])
    possible = set.intersection(*(set(place.possible) for place in places))
    return ("inconclusive" if possible else "changes"), []


def _winners(places: Mapping[int, Choice]) -> list[dict[str, Any]]:
    """Who decidedly suffices, by stretches of the sweep; nothing of where nobody does."""
    grouped = itertools.groupby(places.items(), key=lambda item: set(item[1].level))
    stretches = (dict(stretch) for _, stretch in grouped)
    found = ((next(iter(at.values())).level, list(at)) for at in stretches)
    return [{"names": names, "values": values} for names, values in found if names]


def _statements(
    series: Sequence[Series], verdict: str, names: Sequence[str], facts: Mapping[str, Any]
) -> Iterator[Statement]:
    """Who is best along the sweep; nothing where that is not decided."""
    if verdict not in MESSAGES:
        return
    symbol = series[0].experiment.parameter.symbol
    winners = clauses(
        say(
            "choice.at",
            names=Listed(stretch["names"]),
            symbol=symbol,
            values=Listed(ends_of_stretch(stretch["values"])),
        )
        for stretch in facts["winners"]
    )
    values = {**quoted(series), **quoted_range(facts, symbol), "winners": winners}
    if names:
        values["name"] = Listed(names)
    key = "choice.several_suffice" if len(names) > 1 else MESSAGES[verdict]
    yield say(key, series[0].metric.quantity.name, **values)


def choices(experiment: Experiment, given: Given) -> Iterator[Finding]:
    """Who is best along a sweep, in each variant and by each metric."""
    names = sorted(set(experiment.implementations) - experiment.packed.keys())
    if len(names) < 2:
        return
    metrics = chosen_metrics(experiment.benchmark)
    for variant, metric in itertools.product(experiment.variants, metrics):
        series = [Series(experiment, name, variant, metric) for name in names]
        places = places_along(given.estimates, series)
        verdict, sufficient = _verdict(list(places.values()))
        leads = [place.lead for place in places.values()]
        facts = {
            **describe_range(leads),
            "of": len({n for each in places.values() for n in (each.best, *each.prices)}),
            "winners": _winners(places),
            **({"name": sufficient[0]} if sufficient else {}),
        }
        yield build_finding(
            "choice",
            series,
            verdict,
            statements=list(_statements(series, verdict, sufficient, facts)),
            facts=facts,
            estimates=[
                {"value": value, **place.to_json(), "verdict": place.lead.verdict}
                for value, place in places.items()
            ],
            reasons=without_samples(leads),
            of_all=True,
        )


# The dataset as a whole

Places = Mapping[str, Mapping[tuple[Any, ...], Choice]]
"""By metric and setting."""


def _tally(places: Mapping[tuple[Any, ...], Choice]) -> list[dict[str, Any]]:
    """At how many settings each is best by the median, alone, and decidedly suffices."""
    best = Counter(place.best for place in places.values())
    alone = Counter(place.best for place in places.values() if place.is_alone)
    level = Counter(name for place in places.values() for name in place.level)
    return [
        {"implementation": name, "level": count, "best": best[name], "alone": alone[name]}
        for name, count in sorted(
            ((name, level[name]) for name in {*level, *best}),
            key=lambda item: (-item[1], -best[item[0]], item[0]),
        )
    ]


def _wrong_choice(benchmark: Benchmark, places: Places) -> dict[str, Any]:
    """The one most often sufficient by a part and surely never by the total, and what it costs.

    Empty where there is none that is decidedly worse by the total at all of these settings.
    """
    found: list[tuple[int, str, Metric, Metric, list[Ratio]]] = []
    for total in benchmark.totals:
        assert total.derived is not None
        in_total = places[total.name]
        for part in map(benchmark.metric, total.derived.of):
            often = Counter(name for place in places[part.name].values() for name in place.level)
            for name, count in often.items():
                at = [key for key, place in places[part.name].items() if name in place.level]
                prices = [in_total[key].prices.get(name) for key in at if key in in_total]
                known = [price for price in prices if price is not None]
                never = all(name not in place.possible for place in in_total.values())
                if never and len(known) == count and all(p.verdict == "above" for p in known):
                    found.append((count, name, part, total, known))
    if not found:
        return {}
    count, name, part, total, prices_ = max(found, key=lambda entry: (entry[0], entry[1]))
    factors = [price.ratio for price in prices_]
    return {
        "wrong": name,
        "wrong_count": count,
        "part": Label(part.labels),
        "total": Label(total.labels),
        "low": rounded(min(factors)),
        "high": rounded(max(factors)),
    }


def overall_choice(experiments: Sequence[Experiment], given: Given) -> Iterator[Finding]:
    """Who is best over all distinct settings, and what the wrong choice costs: one finding."""
    benchmark, metrics = experiments[0].benchmark, chosen_metrics(experiments[0].benchmark)
    # Who has its inputs packed is no further choice, beside the same with separate ones.
    packed = {name for experiment in experiments for name in experiment.packed}
    chosen = [s for s in settings_of(experiments, without=packed) if len(s.runs) > 1]
    if not chosen:
        return
    places: dict[str, dict[tuple[Any, ...], Choice]] = {metric.name: {} for metric in metrics}
    for setting, metric in itertools.product(chosen, metrics):
        by_name = {name: setting.estimate(given.estimates, name, metric) for name in setting.runs}
        found = place(0, by_name, metric.higher_is_better)
        assert found is not None
        places[metric.name][setting.key] = found
    decisive = metrics[-1]  # a total, where there is one
    verdict, names = _verdict(list(places[decisive.name].values()))
    compared = [[row for _, row in setting.runs.values()] for setting in chosen]
    apart = sum(CARDS_DIFFER in comparison_doubts([runs]) for runs in compared)
    yield Finding(
        "choice",
        None,
        {"metric": decisive.name},
        verdict,
        facts={
            "count": len(chosen),
            "of": len({name for setting in chosen for name in setting.runs}),
            "tallies": [
                {"metric": metric.name, "counts": _tally(places[metric.name])} for metric in metrics
            ],
            **({"name": names[0]} if names else {}),
            **({"apart": apart} if apart else {}),
            **_wrong_choice(benchmark, places),
        },
        estimates=[
            {
                "setting": benchmark.all_parameters(setting.parameters),
                **{metric.name: places[metric.name][setting.key].to_json() for metric in metrics},
            }
            for setting in chosen
        ],
        warnings=comparison_warnings(benchmark, decisive.name, compared),
    )


CHOICE = Kind(
    label="kind.choice",
    verdicts=(*MESSAGES, "inconclusive"),
    of_experiment=[(SWEEPS, choices)],
    of_dataset=[(CHOICES, overall_choice)],
)
