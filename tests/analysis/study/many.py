"""Which claims about three or more implementations are false of what was planted.

A function an observation, from its facts to a judgement of each claim that it makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.study.truth import MARGIN, PLAIN, TOTAL, Judged, Judges, Truth

from flashlab.story.attention.surprises import FAR_BEHIND

METRICS = {"inference": "forward_time", "training": TOTAL}
MASKS = (False, True)

Facts = Mapping[str, Any]
Place = tuple[bool, int]
"""A setting: True with the mask, and a value of the sweep."""


def _speeds(truth: Truth, one: str, over: str, metric: str = TOTAL) -> dict[Place, float]:
    """The true speed of one implementation over another, at every setting."""
    return {
        (mask, size): x
        for mask in MASKS
        for size, x in truth.speeds(mask, metric, one, over).items()
    }


def _inside(where: Facts | None, places: Mapping[Place, float], truth: Truth) -> list[Place]:
    """The settings of a stretch; all where it is none of N."""
    if where is None or truth.sweep != "seq_len":
        return [*places]
    return [place for place in places if where["N"]["low"] <= place[1] <= where["N"]["high"]]


def _ahead(truth: Truth, name: str, others: list[str], metric: str) -> dict[Place, float]:
    """The true speed of one implementation over the fastest of some others, at every setting."""
    found = [_speeds(truth, name, other, metric) for other in others if other != name]
    common = set.intersection(*map(set, found))
    return {place: min(each[place] for each in found) for place in common}


def _answer_groups(facts: Facts, truth: Truth) -> Iterator[Judged]:
    every = [x for n in truth.fused for x in _speeds(truth, n, facts["naive"]).values()]
    faster = sum(x > MARGIN for x in every)
    yield facts["faster"] > faster, facts["faster"] < len(every) if min(every) >= PLAIN else None
    yield facts["slower"] > sum(x < 1 / MARGIN for x in every), None
    for each in facts["exceptions"]:
        found = [*_speeds(truth, each["name"], facts["naive"]).values()]
        if each["slower"]:
            yield each["count"] > sum(x < 1 / MARGIN for x in found), None


def _answer_stored(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for each in facts["of"]:
        found = _speeds(truth, each["name"], facts["naive"]).values()
        yield max(found) >= 1 / MARGIN, None


def _answer_leaders(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for use, told in facts["uses"].items():
        for clause in told["clauses"]:
            if clause["kind"] != "one":
                continue
            ahead = _ahead(truth, clause["names"][0], truth.others, METRICS[use])
            found = [ahead[place] for place in _inside(clause["where"], ahead, truth)]
            yield min(found) < 1 / MARGIN, None
            yield clause["alone"] > sum(x > MARGIN for x in found), None
        plain = [
            n
            for n in truth.others
            if min(_ahead(truth, n, truth.others, METRICS[use]).values()) >= PLAIN
        ]
        for name in plain:
            first = told["clauses"][0]
            yield False, first["kind"] != "one" or first["names"] != [name]


def _answer_own(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for use, told in facts["uses"].items():
        ahead = _ahead(truth, facts["name"], truth.others, METRICS[use])
        missed = told["faster"] < told["of"] if min(ahead.values()) >= PLAIN else None
        yield told["faster"] > sum(x > MARGIN for x in ahead.values()), missed
        for loss in told["losses"]:
            found = _speeds(truth, facts["name"], loss["to"], METRICS[use])
            inside = [found[place] for place in _inside(loss["where"], found, truth)]
            yield loss["count"] > sum(x < 1 / MARGIN for x in inside), None
        if told["never"]:
            yield min(ahead.values()) < 1 / MARGIN, None


def _answer_groups_cost(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for slower, each in [(s, each) for s in facts["slower"] for each in s["of"]]:
        found = _speeds(truth, each["name"], facts["naive"], f"{slower['pass']}_time")
        inside = [found[place] for place in _inside(slower["where"], found, truth)]
        yield slower["count"] > sum(x < 1 / MARGIN for x in inside), None


def _map(facts: Facts, truth: Truth) -> Iterator[Judged]:
    rows = [(chart, row) for chart in facts["charts"] for row in chart["rows"]]
    for chart, row in rows:
        for mask, cell in zip(facts["masks"], row["cells"], strict=True):
            if cell is None:
                continue
            ahead = {n: _ahead(truth, n, truth.fused, chart["metric"]) for n in truth.fused}
            places = [
                place
                for place in next(iter(ahead.values()))
                if place[0] == mask and (truth.sweep != "seq_len" or place[1] == row["N"])
            ]
            least = {n: min(each[place] for place in places) for n, each in ahead.items()}
            is_plain = max(least.values()) >= PLAIN
            missed = cell["state"] != "clear" if is_plain else None
            is_clear = cell["state"] == "clear"
            yield is_clear and least[cell["names"][0]] <= MARGIN, missed


def _line_switch(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for key, at in (("faster", facts["last"]), ("faster_first", facts["first"])):
        for name in facts[key]:
            yield truth.gains(name)[at] <= MARGIN, None
    for each in facts["stored"] if "verdict" in (facts["stored"] or [{}])[0] else ():
        gain = truth.gains(each["name"])[facts["last"]]
        wrong = {"faster": gain <= MARGIN, "slower": gain >= 1 / MARGIN}
        wrong["equal"] = not 1 / MARGIN <= gain <= MARGIN
        yield wrong.get(each["verdict"], False), None
    for name in truth.fused:
        gain = truth.gains(name)[facts["last"]]
        if gain >= PLAIN:
            yield False, name not in facts["faster"]


def _groups_time(facts: Facts, truth: Truth) -> Iterator[Judged]:
    mask = truth.masks[0]
    if facts["keeps_up"]:
        for name in truth.names:
            times = truth.along(name, mask)
            grown = math.log(times[facts["last"]] / times[facts["first"]])
            yield not 0.8 <= grown / math.log(facts["operations"]) <= 1.1, None
    for one, other in facts["turns"]:
        found = truth.speeds(mask, TOTAL, one, other).values()
        yield not (max(found) > MARGIN and min(found) < 1 / MARGIN), None
    for each in facts["no_faster"]["of"] if facts["no_faster"] else ():
        times = truth.along(each["name"], mask)
        first, second = (times[value] for value in facts["no_faster"]["at"])
        yield second > first * MARGIN, None


def _leaders_section(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for key, runs in facts["passes"].items():
        metric = f"{key}_time"
        places = [(run, value) for run in runs for value in run["values"]]
        for run, value in places:
            first, *more = run["names"]
            if run["alone"]:
                yield (
                    _ahead(truth, first, truth.others, metric)[facts["mask"], value] <= MARGIN,
                    None,
                )
            elif run["equal"]:
                for name in more:
                    x = truth.speeds(facts["mask"], metric, name, first)[value]
                    yield not MARGIN**-2 <= x <= MARGIN**2, None  # both are near the best
        if facts["project"]:
            mine = facts["project"]
            ahead = _ahead(truth, mine["name"], truth.others, metric)
            for value in mine[key]["faster"]:
                yield ahead[facts["mask"], value] <= MARGIN, None
            for value in mine[key]["slower"]:
                yield ahead[facts["mask"], value] >= 1 / MARGIN, None


def _worse_than_naive(facts: Facts, truth: Truth) -> Iterator[Judged]:
    for each in facts["of"]:
        speeds = truth.speeds(truth.masks[0], f"{facts['pass']}_time", each["name"], facts["naive"])
        yield speeds[facts["at"]] >= 1 / MARGIN, None
        if facts["recovers"]:
            yield speeds[facts["recovers"]["at"]] <= MARGIN, None


def _jump(facts: Facts, truth: Truth) -> Iterator[Judged]:
    speeds = truth.speeds(truth.masks[0], "forward_time", facts["name"], facts["over"])
    yield max(speeds[value] for value in facts["at"]) >= 1 / MARGIN, None
    yield speeds[facts["after"]] <= MARGIN, None


def _order(facts: Facts, truth: Truth) -> Iterator[Judged]:
    found = (truth.speeds(m, "forward_time", facts["name"], facts["by"]) for m in truth.masks)
    yield min(each[facts["last"]] for each in found) >= 1 / FAR_BEHIND, None


def _groups_take(facts: Facts, truth: Truth) -> Iterator[Judged]:
    if facts["lesson"] == "mask":
        for name in set(truth.fused) - set(facts["without"]):
            off, on = (truth.speeds(m, TOTAL, name, facts["naive"])[facts["last"]] for m in MASKS)
            yield on <= off, None
            yield off <= MARGIN, None
    if facts["lesson"] == "batch":
        best = [_ahead(truth, name, truth.fused, TOTAL) for name in truth.fused]
        yield max(min(each.values()) for each in best) < 1 / MARGIN, None
    if facts["lesson"] == "groups":
        for name in set(truth.fused) - set(facts["without"]):
            yield min(_speeds(truth, name, facts["naive"]).values()) <= MARGIN, None


JUDGES_OF_MANY: Judges = {
    **{"answer_groups": _answer_groups, "answer_stored": _answer_stored},
    **{"answer_leaders": _answer_leaders, "answer_own": _answer_own, "map": _map},
    **{"answer_groups_cost": _answer_groups_cost, "line_groups_switch": _line_switch},
    **{"groups_switch": _line_switch, "groups_time": _groups_time},
    **{"leaders_section": _leaders_section, "groups_take": _groups_take},
    **{"surprise_worse_than_naive": _worse_than_naive, "surprise_jump": _jump},
    **{"surprise_order": _order},
}
"""Of three or more implementations. Other observations quote measured or exact values."""
