"""The truth of a planted dataset, by which its comparisons and observations are judged.

A row of comparisons.csv is judged by the ratio that was planted: whether its verdict is false,
whether it misses a plain difference, and whether its interval holds. An observation of the story is
judged by the closed words that it is told by.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import geometric_mean
from typing import Any

from analysis.study.planted import Planted, true_median

from flashlab.analysis.comparison_rows import FIRST, IMPLEMENTATIONS, PREVIOUS
from flashlab.story.words import margins

MARGIN = margins(1)
PLAIN = margins(2)
TOTAL = "forward_backward_time"
STORED = ("Pytorch", "SdpaMath")
"""The implementations that store the scores."""

PROJECTS = ("FlashLab",)
"""The project's own."""

Judged = tuple[bool, bool | None]
"""True if a claim is false; then True if a plain effect is missed, None where none is plain."""

Judges = Mapping[str, Callable[[Mapping[str, Any], Any], Iterator[Judged]]]
"""By the name of an observation, a judgement of each claim that its facts make."""

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "above": lambda ratio: ratio > MARGIN,
    "below": lambda ratio: ratio < 1 / MARGIN,
    "equal": lambda ratio: 1 / MARGIN <= ratio <= MARGIN,
    "inconclusive": lambda _: True,
}
"""The test of a verdict by the margin, given the true ratio."""


class Truth:
    """The times of a planted sweep of attention, in milliseconds."""

    def __init__(self, dataset: Planted) -> None:
        self.names, self.sweep = dataset.names, dataset.sweep
        self.masks = sorted({shape.causal for _, shape, _ in dataset.passes})
        self.fused = [name for name in self.names if name not in STORED]
        self.others = [name for name in self.fused if name not in PROJECTS]
        self._times: dict[tuple[str, bool, str], dict[int, float]] = {}
        for (name, shape, timed), planted in dataset.passes.items():
            if (name, shape) not in dataset.failed:
                value, time = int(getattr(shape, dataset.sweep)), true_median(planted)
                for metric in (f"{timed}_time", TOTAL):
                    along = self._times.setdefault((name, shape.causal, metric), {})
                    along[value] = along.get(value, 0.0) + time

    def along(self, name: str, causal: bool, metric: str = TOTAL) -> dict[int, float]:
        """A time of an implementation along the sweep, where it has one."""
        return self._times.get((name, causal, metric), {})

    def speeds(
        self, causal: bool, metric: str = TOTAL, one: str = "Flash2", over: str = "Pytorch"
    ) -> dict[int, float]:
        """The true speed of one implementation over another, along the sweep."""
        mine, theirs = (self.along(name, causal, metric) for name in (one, over))
        return {size: theirs[size] / mine[size] for size in sorted(mine.keys() & theirs.keys())}

    def gains(self, name: str, metric: str = TOTAL) -> dict[int, float]:
        """The true speed of an implementation with the mask over without it."""
        off, on = (self.along(name, mask, metric) for mask in (False, True))
        return {size: off[size] / on[size] for size in sorted(off.keys() & on.keys())}

    def ratio(self, row: Mapping[str, Any]) -> float:
        """The planted ratio of a row of comparisons.csv, pooled ones included."""
        causal, metric = row["variant"] == "causal=true", row["metric"]
        if row["compared"] == IMPLEMENTATIONS:
            ratios = self.speeds(causal, metric, row["reference"], row["subject"])
        elif row["compared"] in (PREVIOUS, FIRST):
            times = self.along(row["subject"], causal, metric)
            return times[int(row["value"])] / times[int(row["reference_value"])]
        elif row["compared"] == "causal":
            ratios = {size: 1 / gain for size, gain in self.gains(row["subject"], metric).items()}
        else:
            raise ValueError(f"what is planted says nothing of {row['compared']}")
        if math.isnan(row["value"]):
            return geometric_mean(ratios.values())
        return ratios[int(row["value"])]


def judge_row(row: Mapping[str, Any], ratio: float) -> Judged:
    """A row of comparisons.csv against the planted ratio."""
    is_plain = max(ratio, 1 / ratio) >= PLAIN
    missed = row["verdict"] not in ("above", "below") if is_plain else None
    return not RIGHT[row["verdict"]](ratio), missed


# Observations


def is_verdict(verdict: str, speed: float) -> bool:
    """True if a verdict is right of a true speed."""
    holds = {
        "faster": speed > MARGIN,
        "slower": speed < 1 / MARGIN,
        "equal": 1 / MARGIN <= speed <= MARGIN,
    }
    return holds.get(verdict, True)


def _rises(speeds: Iterable[float]) -> bool:
    return any(later > before * MARGIN for before, later in itertools.combinations(speeds, 2))


def _is_lead(word: str, speeds: list[float]) -> bool:
    """True if a lead changes as its word says."""
    inside = speeds[1:-1]
    ends = speeds[0], speeds[-1]
    return {
        "constant": max(speeds) / min(speeds) <= margins(3),
        "widening": _rises(speeds),
        "narrowing": _rises(reversed(speeds)),
        "peaks": bool(inside) and max(inside) > max(ends),
        "dips": bool(inside) and min(inside) < min(ends),
        "turns": min(speeds) < 1 < max(speeds),
        "not decided": True,
    }[word]


def _are_all(verdict: str, speeds: Iterable[float]) -> bool:
    return all(is_verdict(verdict, x) for x in speeds)


def judge_verdicts(found: Mapping[str, Any], speeds: Mapping[int, float]) -> Iterator[Judged]:
    """A claim a value of a sweep: what is told of it by its verdict."""
    for verdict, mine in found.items():
        for size in mine["at"]:
            yield not is_verdict(verdict, speeds[size]), None


def _missed(speeds: Iterable[float], is_found: bool) -> bool | None:
    """True if an effect that is plain throughout is missed; None where it is not plain."""
    every = [*speeds]
    plain = min(every) >= PLAIN or max(every) <= 1 / PLAIN
    return not is_found if plain else None


def _time_lead(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    kept = {s: x for s, x in truth.speeds(causal=False).items() if s not in facts["odd"]}
    yield not _is_lead(facts["lead"], [*kept.values()]), None
    is_found = facts["verdict"] in ("faster", "slower")
    yield not _are_all(facts["verdict"], kept.values()), _missed(kept.values(), is_found)
    for key, by in facts["decided"].items():
        yield from judge_verdicts(by, truth.speeds(False, f"{key}_time"))


def _time_growth(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    ends = facts["first"], facts["last"]
    work = math.log(facts["operations"])
    for role in ("base", "new"):
        times = truth.along(facts[role], causal=False)
        share = math.log(times[ends[1]] / times[ends[0]]) / work
        yield not _keeps_up(facts["keeps_up"], share), None
        *_, before, last = sorted(times)
        if facts["last"] == last:
            step = math.log(times[last] / times[before]) / math.log(facts["last_operations"])
            yield not _keeps_up(facts["last_keeps_up"], step), None
    for each in facts["slower_before"]:
        times = truth.along(each["name"], causal=False)
        yield times[each["at"][0]] < times[each["at"][1]] * MARGIN, None


def _keeps_up(word: str, share: float) -> bool:
    """True if a word is right of a growth beside the operations'."""
    return {
        "as operations": 0.9 <= share <= 1.1,
        "near": 0.8 <= share <= 1.1,
        "below": share < 1,
        "above": share > 1,
    }.get(word, True)


def _time_passes(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    for key, by in facts["passes"].items():
        metric = TOTAL if key == "total" else f"{key}_time"
        yield from judge_verdicts(by, truth.speeds(False, metric))


def _time_switch(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    for role, effects in facts["effects"].items():
        for key, effect in effects.items():
            gains = truth.gains(facts[role], f"{key}_time")
            yield from judge_verdicts(effect["by_verdict"], gains)
            is_found = bool({"faster", "slower"} & effect["by_verdict"].keys())
            rising = not effect["rising"] or gains[facts["last"]] > gains[facts["first"]]
            yield not rising, _missed(gains.values(), is_found)


def _rate_definition(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    for role, saved in facts["saved"].items():
        gain = truth.gains(facts[role], "forward_time")[facts["last"]]
        yield not is_verdict(saved["verdict"], gain), None


def _take(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    lesson, speeds = facts["lesson"], [*truth.speeds(causal=False).values()]
    if lesson in ("longer", "length"):
        word = {"longer": "widening", "length": "constant"}[lesson]
        yield not (_is_lead(word, speeds) and _are_all("faster", speeds)), None
    if lesson == "mask_widens":
        off, on = (truth.speeds(mask)[facts["last"]] for mask in (False, True))
        yield on <= off, None
    if lesson == "mask_nothing":
        passes = ("forward_time", "backward_time")
        gains = [truth.gains(n, m).values() for n in ("Pytorch", "Flash2") for m in passes]
        yield max(itertools.chain.from_iterable(gains)) > PLAIN, None
    if lesson == "pooled":
        yield not is_verdict(facts["pooled"]["verdict"], geometric_mean(speeds)), None
    if lesson == "passes":
        for key, by in facts["decided"].items():
            yield from judge_verdicts(by, truth.speeds(False, f"{key}_time"))


def _answer_use(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    found = [x for mask in (False, True) for x in truth.speeds(mask).values()]
    if facts["new"] == "Pytorch":
        found = [1 / x for x in found]
    faster, slower = sum(x > MARGIN for x in found), sum(x < 1 / MARGIN for x in found)
    counts = facts["counts"]
    yield counts["faster"] > faster, _missed(found, facts["choice"] == "faster")
    yield counts["slower"] > slower, None
    yield counts["equal"] > len(found) - faster - slower, None


def _answer_where(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    for moved in facts["most"]:
        if moved["what"] == "mask":
            first, last = (truth.speeds(mask)[moved["at"]] for mask in (False, True))
        else:
            first, last = (truth.speeds(causal=False)[size] for size in moved["at"])
        yield (last > first) != (moved["x"][1] > moved["x"][0]), None


def _answer_cost(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    for slower in facts["slower"]:
        metric = f"{slower['pass']}_time"
        both = (truth.speeds(mask, metric, facts["new"], facts["base"]) for mask in (False, True))
        found = [x for speeds in both for x in speeds.values()]
        yield slower["count"] > sum(x < 1 / MARGIN for x in found), None


def _line_sweep(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    yield from _time_lead(facts["lead"], truth) if facts["lead"] else ()


def _line_switch(facts: Mapping[str, Any], truth: Truth) -> Iterator[Judged]:
    for role, effect in facts["effects"].items():
        yield not is_verdict(effect["verdict"], truth.gains(facts[role])[facts["last"]]), None


JUDGES_OF_TWO: Judges = {
    **{"time_lead": _time_lead, "time_growth": _time_growth, "time_passes": _time_passes},
    **{"time_switch": _time_switch, "rate_definition": _rate_definition, "take": _take},
    **{"answer_use": _answer_use, "answer_where": _answer_where, "answer_cost": _answer_cost},
    **{"line_sweep": _line_sweep, "line_switch": _line_switch},
}
"""Of two implementations. Other observations quote measured values, exact ones or a definition."""
