"""What is true of a planted dataset, and which of its findings are false, or miss what is plain.

Each kind's judge gives whether a finding is false, whether it misses something plain (None where
nothing plain is there to be missed), and the truth of each interval in its evidence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from analysis.deriving import keys, quoted
from analysis.study.planted import UNSTEADY, Planted, experiment_shape, true_median

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.jump import LEAST_JUMP
from flashlab.benchmarks.attention.shape import Shape

MARGIN, BEND, OUTLIER = 1.05, 0.2, 1.25
PLAIN = MARGIN**2

Judged = tuple[bool, bool | None, Sequence[tuple[float, Mapping[str, Any]]]]

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "above": lambda ratio: ratio > MARGIN,
    "below": lambda ratio: ratio < 1 / MARGIN,
    "equal": lambda ratio: 1 / MARGIN <= ratio <= MARGIN,
    "inconclusive": lambda ratio: True,
}
"""Whether a verdict by the margin is right of a true ratio."""

PLACES = ("first", "last", "low_at", "high_at")
"""What a told trend quotes of the values that it is about."""


def _is_beyond(ratio: float, limit: float) -> bool:
    return max(ratio, 1 / ratio) >= limit


def _change_places(ratios: Iterable[float], limit: float) -> bool:
    """Whether each of two is somewhere better than the other by this factor."""
    far = [ratio for ratio in ratios if _is_beyond(ratio, limit)]
    return min(far, default=1) < 1 < max(far, default=1)


class Truth:
    """The times of a planted dataset, in milliseconds."""

    def __init__(self, dataset: Planted) -> None:
        self.dataset = dataset
        self.times = {key: true_median(planted) for key, planted in dataset.passes.items()}
        self._names: dict[Shape, list[str]] = {shape: [] for _, shape, _ in self.times}
        for name, shape in sorted({key[:2] for key in self.times} - dataset.failed.keys()):
            self._names[shape].append(name)

    def time(self, name: str, shape: Shape, metric: str) -> float:
        """A metric of a run, a total's included."""
        timed = metric.removesuffix("_time")
        passes = ("forward", "backward") if timed == "forward_backward" else (timed,)
        return sum(self.times[name, shape, each] for each in passes)

    def names(self, shape: Shape) -> list[str]:
        """The implementations that have numbers at a shape."""
        return self._names[shape]

    def along(self, name: str, causal: bool, metric: str) -> dict[int, float]:
        """A metric of the runs that are ok, by size."""
        return {
            shape.seq_len: self.time(name, shape, metric)
            for shape in sorted(self._names, key=lambda shape: shape.seq_len)
            if shape.causal == causal and name in self._names[shape]
        }

    def _along(self, finding: Finding, who: str = "implementation") -> dict[int, float]:
        """The metric of one of a finding's implementations, by size."""
        metric = str(finding.metric)
        return self.along(finding.subject[who], finding.subject["variant"]["causal"], metric)

    def _at(
        self, finding: Finding, estimate: Mapping[str, Any], who: str = "implementation",
        **changes: bool,
    ) -> float:  # fmt: skip
        """The metric of one of a finding's implementations where an estimate is of."""
        variant = finding.subject.get("variant", {})
        setting = estimate.get("setting") or vars(experiment_shape(estimate["value"])) | variant
        shape = Shape.of({**setting, **changes})
        return self.time(finding.subject[who], shape, str(finding.metric))

    # Ratios that are judged by the margin, value by value

    def _ratios(
        self, finding: Finding, true: Callable[[Mapping[str, Any]], float], ideal: float = 1.0
    ) -> Judged:
        pairs = [(true(estimate), estimate) for estimate in finding.estimates]
        false = any(not RIGHT[e["verdict"]](ratio / ideal) for ratio, e in pairs)
        missed = None
        if pairs and all(_is_beyond(ratio / ideal, PLAIN) for ratio, _ in pairs):
            missed = any(e["verdict"] not in ("above", "below") for _, e in pairs)
        return false, missed, pairs

    def comparison(self, finding: Finding) -> Judged:
        def ratio(estimate: Mapping[str, Any]) -> float:
            return self._at(finding, estimate, "baseline") / self._at(finding, estimate)

        false, missed, pairs = self._ratios(finding, ratio)
        if pooled := finding.facts.get("pooled"):
            mean = geometric_mean([right for right, _ in pairs])
            false |= not RIGHT[pooled["verdict"]](mean)
            pairs = [*pairs, (mean, pooled)]
        trends = [key for key in keys(finding) if ".trend." in key]
        for trend in (key.rpartition(".")[2] for key in trends):
            told = finding.statements[1].values
            at = {name: ratio({"value": told[name]}) for name in PLACES}
            false |= {
                "widens": at["last"] / at["first"] <= MARGIN,
                "narrows": at["first"] / at["last"] <= MARGIN,
                "peaks": at["high_at"] <= max(at["first"], at["last"]) * MARGIN,
                "dips": at["low_at"] * MARGIN >= min(at["first"], at["last"]),
            }[trend]
        return false, missed, pairs

    def variant_effect(self, finding: Finding, ideal: float = 1.0) -> Judged:
        def gain(estimate: Mapping[str, Any]) -> float:
            off, on = (self._at(finding, estimate, causal=causal) for causal in (False, True))
            return off / on

        return self._ratios(finding, gain, ideal)

    def variant_gain(self, finding: Finding) -> Judged:
        return self.variant_effect(finding, 2.0)

    def worse_than_naive(self, finding: Finding) -> Judged:
        false, _, pairs = self._ratios(
            finding, lambda e: self._at(finding, e, "baseline") / self._at(finding, e)
        )
        below = [ratio for ratio, _ in pairs if ratio < 1 / MARGIN]
        false |= finding.verdict == "none" and bool(below)
        is_plain = any(ratio <= 1 / PLAIN for ratio in below)
        return false, finding.verdict != "worse" if is_plain else None, pairs

    def _steady(self, finding: Finding) -> Judged:
        """Of pairs that are said not to change places: whether one does, and whether plainly."""
        causal, metric = finding.subject["variant"]["causal"], str(finding.metric)
        ratios = []
        for names in finding.facts["pairs"]:
            mine, theirs = (self.along(name, causal, metric) for name in names)
            ratios.append([theirs[size] / mine[size] for size in mine if size in theirs])
        false = any(_change_places(each, MARGIN) for each in ratios)
        return false, any(_change_places(each, 1.1) for each in ratios) or None, []

    def crossover(self, finding: Finding) -> Judged:
        if finding.verdict == "none_in_range":
            return self._steady(finding)
        mine, theirs = self._along(finding), self._along(finding, "other")
        truth = {size: theirs[size] / mine[size] for size in mine if size in theirs}
        is_plain = _change_places(truth.values(), 1.1)
        false = False
        if finding.verdict == "crosses":
            sign = {finding.subject["implementation"]: 1, finding.subject["other"]: -1}
            false = any(
                sign[finding.facts[who]] * (truth[finding.facts[at]] - 1) <= 0
                for who, at in (("before", "low_at"), ("after", "high_at"))
            )
        intervals = [(truth[e["value"]], e) for e in finding.estimates]
        return false, finding.verdict != "crosses" if is_plain else None, intervals

    # Which to choose

    def choice(self, finding: Finding) -> Judged:
        """Along a sweep; what is concluded of all settings has a judge of its own."""
        metric, causal = str(finding.metric), finding.subject["variant"]["causal"]
        false, intervals, shares = False, [], []
        for place in finding.estimates:
            shape = experiment_shape(place["value"], causal)
            times = {name: self.time(name, shape, metric) for name in self.names(shape)}
            false |= _is_false_place(place, times)
            intervals.append((times[place["runner_up"]] / times[place["best"]], place))
            shares.append({name: time / min(times.values()) for name, time in times.items()})
        if not shares:
            return False, None, []
        alone = [[n for n in s if all(v > MARGIN for k, v in s.items() if k != n)] for s in shares]
        names = {name for share in shares for name in share}
        level = {name for name in names if all(s.get(name, PLAIN) <= MARGIN for s in shares)}
        chosen = finding.facts.get("name")
        false |= {
            "one_best": any(chosen not in each for each in alone),
            "one_suffices": chosen not in level,
            "changes": bool(level),
        }.get(finding.verdict, False)
        missed = None
        if all(sorted(share.values())[1] >= PLAIN for share in shares):
            winners = {min(share, key=share.__getitem__) for share in shares}
            missed = finding.verdict != ("one_best" if len(winners) == 1 else "changes")
        return false, missed, intervals

    # Along a sweep

    def scaling(self, finding: Finding) -> Judged:
        verdict, truth = finding.verdict, self._along(finding)
        if verdict in ("too_few_sizes", "covaried"):
            return False, None, []
        local = [
            math.log(truth[b] / truth[a]) / math.log(b / a) for a, b in itertools.pairwise(truth)
        ]
        bend = max(local) - min(local)
        timed = str(finding.metric).removesuffix("_time")
        series = finding.subject["implementation"], finding.subject["variant"]["causal"], timed
        exponent = self.dataset.exponents.get(series)
        false = (
            (verdict in ("power_law", "flat") and bend > BEND)
            or (verdict == "curved" and bend <= BEND)
            or (verdict == "flat" and max(truth.values()) > min(truth.values()) * MARGIN)
        )
        missed = None
        if exponent is not None and bend <= BEND / 2:
            missed = verdict not in ("power_law", "flat")
        elif bend >= 2 * BEND:
            missed = verdict != "curved"
        fit = finding.estimates[-1]
        known = exponent is not None and "exponent" in fit
        return false, missed, [(exponent, fit)] if known else []

    def monotonicity(self, finding: Finding) -> Judged:
        truth = self._along(finding)
        steps = [truth[b] / truth[a] for a, b in itertools.combinations(truth, 2)]
        falls, rises = min(steps, default=1.0), max(steps, default=1.0)
        false = finding.verdict == "monotone" and falls < 1 / MARGIN and rises > MARGIN
        if finding.verdict == "broken":
            told = quoted(finding)
            fall, rise = (
                truth[told[f"{w}_to"]] / truth[told[f"{w}_from"]] for w in ("fall", "rise")
            )
            false = fall >= 1 / MARGIN or rise <= MARGIN
        is_plain = falls < 1 / PLAIN and rises > PLAIN
        intervals = [(truth[e["value"]] / truth[e["start"]], e) for e in finding.estimates]
        return false, finding.verdict != "broken" if is_plain else None, intervals

    def jump(self, finding: Finding) -> Judged:
        if finding.verdict == "none":
            return False, None, []
        before, value = (quoted(finding)[name] for name in ("before", "value"))
        causal, steps = finding.subject["variant"]["causal"], {}
        for estimate in finding.estimates:
            truth = self.along(estimate["implementation"], causal, str(finding.metric))
            step = (value / before) ** 2 * truth[before] / truth[value]
            steps[estimate["implementation"]] = step
        mine = finding.subject["implementation"]
        false = any(_is_beyond(step, LEAST_JUMP) != (name == mine) for name, step in steps.items())
        return false, None, [(steps[e["implementation"]], e) for e in finding.estimates]


def _is_false_place(place: Mapping[str, Any], times: Mapping[str, float]) -> bool:
    """Whether one is called level that is not, or one that is level is called worse."""
    best = times[place["best"]]
    others = {
        name for name in times if name not in place["level"] and name not in place["undecided"]
    }
    return any(_is_beyond(times[name] / best, MARGIN) for name in place["level"]) or any(
        times[name] / best <= MARGIN for name in others
    )


def anomalies(
    dataset: Planted, findings: Iterable[Finding]
) -> Iterator[tuple[str, bool, bool, bool | None]]:
    """For each pass and check: whether it was reported, falsely reported, or missed."""
    found = set()
    for finding in findings:
        if finding.kind == "anomaly" and finding.verdict != "none":
            shape = experiment_shape(finding.facts["value"], finding.subject["variant"]["causal"])
            timed = str(finding.metric).removesuffix("_time")
            found.add((finding.verdict, finding.subject["implementation"], shape, timed))
    for key, planted in dataset.passes.items():
        if key[:2] in dataset.failed:
            continue
        unsteady = abs(planted.drift) > UNSTEADY or planted.spread > 0.2
        said = ("unstable", *key) in found
        yield "anomaly: unstable", said, said and not unsteady, not said if unsteady else None
        factor = dataset.spikes.get(key, 1.0)
        said, plain = ("outlier", *key) in found, _is_beyond(factor, 2 * OUTLIER - 1)
        yield "anomaly: outlier", said, said and factor == 1.0, not said if plain else None


def claims_a_difference(finding: Finding) -> bool:
    """Whether a finding claims any difference between implementations, or between variants."""
    match finding.kind:
        case "comparison" | "variant_effect":
            decided = any(e["verdict"] in ("above", "below") for e in finding.estimates)
            return decided or len(finding.statements) > 1
        case "choice":
            return finding.verdict in ("one_best", "changes")
    return finding.verdict in {
        "crossover": ("crosses",),
        "worse_than_naive": ("worse",),
        "jump": ("rises", "falls"),
    }.get(finding.kind, ())
