"""What is true of a planted dataset, and which rows and observations about it are false.

A row of comparisons.csv is judged by the ratio that was planted: whether its verdict is false,
whether it misses a plain difference, and whether its interval holds. An observation of the story is
judged by the closed words that it is told by.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from statistics import geometric_mean
from typing import Any

from analysis.study.planted import Planted, true_median

from flashlab.analysis.comparison_rows import FIRST, IMPLEMENTATIONS, PREVIOUS
from flashlab.story.observation import Observation
from flashlab.story.words import margins

MARGIN = margins(1)
PLAIN = margins(2)
TOTAL = "forward_backward_time"

Judged = tuple[bool, bool | None]
"""Whether something is false, and whether it misses what is plain; None where nothing is."""

RIGHT: Mapping[str, Callable[[float], bool]] = {
    "above": lambda ratio: ratio > MARGIN,
    "below": lambda ratio: ratio < 1 / MARGIN,
    "equal": lambda ratio: 1 / MARGIN <= ratio <= MARGIN,
    "inconclusive": lambda _: True,
}
"""Whether a verdict by the margin is right of a true ratio."""


class Truth:
    """The times of a planted dataset, in milliseconds."""

    def __init__(self, dataset: Planted) -> None:
        times = {key: true_median(planted) for key, planted in dataset.passes.items()}
        self._times = {
            (name, shape.causal, shape.seq_len, f"{timed}_time"): time
            for (name, shape, timed), time in times.items()
            if (name, shape) not in dataset.failed
        }
        for (name, causal, size, metric), time in list(self._times.items()):
            if metric == "forward_time":
                backward = self._times[name, causal, size, "backward_time"]
                self._times[name, causal, size, TOTAL] = time + backward

    def along(self, name: str, causal: bool, metric: str = TOTAL) -> dict[int, float]:
        """A time of an implementation by size, where it has one."""
        return {
            size: time
            for (who, mask, size, timed), time in sorted(self._times.items())
            if (who, mask, timed) == (name, causal, metric)
        }

    def speeds(self, causal: bool, metric: str = TOTAL) -> dict[int, float]:
        """How many times as fast Flash2 is as Pytorch, by size."""
        mine, theirs = (self.along(name, causal, metric) for name in ("Flash2", "Pytorch"))
        return {size: theirs[size] / mine[size] for size in sorted(mine.keys() & theirs.keys())}

    def gains(self, name: str, metric: str) -> dict[int, float]:
        """How many times as fast an implementation is with the mask as without it, by size."""
        off, on = (self.along(name, mask, metric) for mask in (False, True))
        return {size: off[size] / on[size] for size in sorted(off.keys() & on.keys())}

    def ratio(self, row: Mapping[str, Any]) -> float:
        """The planted ratio of a row of comparisons.csv, pooled ones included."""
        causal, metric = row["variant"] == "causal=true", row["metric"]
        if row["compared"] == IMPLEMENTATIONS:
            mine, theirs = (
                self.along(row[who], causal, metric) for who in ("subject", "reference")
            )
        elif row["compared"] in (PREVIOUS, FIRST):
            times = self.along(row["subject"], causal, metric)
            return times[int(row["value"])] / times[int(row["reference_value"])]
        elif row["compared"] == "causal":
            mine, theirs = (self.along(row["subject"], mask, metric) for mask in (True, False))
        else:
            raise ValueError(f"what is planted says nothing of {row['compared']}")
        ratios = {size: mine[size] / theirs[size] for size in mine.keys() & theirs.keys()}
        if math.isnan(row["value"]):
            return geometric_mean(ratios.values())
        return ratios[int(row["value"])]


def judge_row(row: Mapping[str, Any], ratio: float) -> Judged:
    """A row of comparisons.csv against the planted ratio."""
    is_plain = max(ratio, 1 / ratio) >= PLAIN
    missed = row["verdict"] not in ("above", "below") if is_plain else None
    return not RIGHT[row["verdict"]](ratio), missed


# Observations


def _rises(speeds: Iterable[float]) -> bool:
    return any(later > before * MARGIN for before, later in itertools.combinations(speeds, 2))


def _is_lead(word: str, speeds: list[float]) -> bool:
    """Whether a lead truly changes as its word says."""
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


def _is_verdict(verdict: str, speeds: Iterable[float]) -> bool:
    """Whether all of some speed-ups truly are what a shared verdict says of them."""
    holds = {
        "faster": lambda x: x > MARGIN,
        "slower": lambda x: x < 1 / MARGIN,
        "equal": lambda x: 1 / MARGIN <= x <= MARGIN,
    }
    return all(map(holds.get(verdict, lambda _: True), speeds))


def _by_verdict(found: Mapping[str, Any], speeds: Mapping[int, float]) -> bool:
    return all(
        _is_verdict(verdict, (speeds[size] for size in mine["at"]))
        for verdict, mine in found.items()
    )


def _time_lead(facts: Mapping[str, Any], truth: Truth) -> Judged:
    speeds = truth.speeds(causal=False)
    passes = {key: truth.speeds(False, f"{key}_time") for key in ("forward", "backward")}
    right = _is_lead(facts["lead"], [*speeds.values()])
    right &= _is_verdict(facts["verdict"], speeds.values())
    right &= all(_by_verdict(by, passes[key]) for key, by in facts["decided"].items())
    plain = min(speeds.values()) >= PLAIN or max(speeds.values()) <= 1 / PLAIN
    return not right, facts["verdict"] not in ("faster", "slower") if plain else None


def _time_passes(facts: Mapping[str, Any], truth: Truth) -> Judged:
    every = {"forward": "forward_time", "backward": "backward_time", "total": TOTAL}
    right = all(
        _by_verdict(by, truth.speeds(False, every[key])) for key, by in facts["passes"].items()
    )
    return not right, None


def _time_switch(facts: Mapping[str, Any], truth: Truth) -> Judged:
    right, missed, plain = True, False, False
    for role, effects in facts["effects"].items():
        for key, effect in effects.items():
            gains = truth.gains(facts[role], f"{key}_time")
            right &= _by_verdict(effect["by_verdict"], gains)
            right &= not effect["rising"] or gains[facts["last"]] > gains[facts["first"]]
            if min(gains.values()) >= PLAIN or max(gains.values()) <= 1 / PLAIN:
                plain = True
                missed |= not {"faster", "slower"} & effect["by_verdict"].keys()
    return not right, missed if plain else None


def _rate_definition(facts: Mapping[str, Any], truth: Truth) -> Judged:
    right = all(
        _is_verdict(verdict, [truth.gains(facts[role], "forward_time")[facts["last"]]])
        for role, verdict in facts["saved"].items()
    )
    return not right, None


def _take(facts: Mapping[str, Any], truth: Truth) -> Judged:
    lesson, speeds = facts["lesson"], [*truth.speeds(causal=False).values()]
    if lesson in ("longer", "length"):
        word = {"longer": "widening", "length": "constant"}[lesson]
        return not (_is_lead(word, speeds) and _is_verdict("faster", speeds)), None
    if lesson == "mask_widens":
        off, on = (truth.speeds(mask)[facts["last"]] for mask in (False, True))
        return on <= off, None
    if lesson == "mask_nothing":
        passes = ("forward_time", "backward_time")
        gains = [truth.gains(n, m).values() for n in ("Pytorch", "Flash2") for m in passes]
        return max(itertools.chain.from_iterable(gains)) > PLAIN, None
    if lesson == "pooled":
        return not _is_verdict(facts["pooled"]["verdict"], [geometric_mean(speeds)]), None
    return False, None


def _answer_use(facts: Mapping[str, Any], truth: Truth) -> Judged:
    found = [x for mask in (False, True) for x in truth.speeds(mask).values()]
    if facts["new"] == "Pytorch":
        found = [1 / x for x in found]
    faster, slower = sum(x > MARGIN for x in found), sum(x < 1 / MARGIN for x in found)
    counts = facts["counts"]
    right = counts["faster"] <= faster and counts["slower"] <= slower
    right &= counts["equal"] <= len(found) - faster - slower
    plain = all(x >= PLAIN for x in found) or all(x <= 1 / PLAIN for x in found)
    return not right, facts["choice"] != "faster" if plain else None


def _answer_where(facts: Mapping[str, Any], truth: Truth) -> Judged:
    right = True
    for moved in facts["most"]:
        if moved["what"] == "mask":
            first, last = (truth.speeds(mask)[moved["at"]] for mask in (False, True))
        else:
            first, last = (truth.speeds(causal=False)[size] for size in moved["at"])
        right &= (last > first) == (moved["x"][1] > moved["x"][0])
    return not right, None


JUDGES: Mapping[str, Callable[[Mapping[str, Any], Truth], Judged]] = {
    "time_lead": _time_lead,
    "time_passes": _time_passes,
    "time_switch": _time_switch,
    "rate_definition": _rate_definition,
    "take": _take,
    "answer_use": _answer_use,
    "answer_where": _answer_where,
    "line_sweep": lambda facts, truth: (
        _time_lead(facts["lead"], truth) if facts["lead"] else (False, None)
    ),
}
"""By the observation's name. Others quote measured values alone, exact ones, or a definition."""


def judge(observation: Observation, truth: Truth) -> Judged | None:
    """An observation against what was planted; None where it states no verdict."""
    judges = JUDGES.get(observation.name)
    return judges(observation.facts, truth) if judges else None
