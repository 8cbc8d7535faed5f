"""Page one of a report on attention with three or more implementations: which to use, and where."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from flashlab.analysis import choices
from flashlab.analysis.experiment import sections_of
from flashlab.story import words
from flashlab.story.attention.front import doubts, memory_shares
from flashlab.story.attention.group_sections import (
    groups_memory,
    groups_time,
    mask_effects,
    memory_at,
)
from flashlab.story.attention.groups import (
    PLACE,
    Chapter,
    Groups,
    stretches,
    where,
)
from flashlab.story.attention.shared import is_shared, line_shared
from flashlab.story.attention.sweep import FORWARD, MASK, PASSES, TOTAL, matrix_ceiling
from flashlab.story.observation import Observation
from flashlab.story.tables import (
    EQUAL,
    FASTER,
    SLOWER,
    UNDECIDED,
    Speed,
    Tables,
    evidence,
    span,
    speed_span,
)

USES = {"inference": FORWARD, "training": TOTAL}
"""The uses that one chooses for, and the time that counts there."""

MOST_CLAUSES = 2
"""Stretches of settings that are told for each use, beside what departs from them decidedly."""


def _of_verdict(found: pd.DataFrame, *verdicts: str) -> pd.DataFrame:
    return found[[speed.verdict in verdicts for speed in found.speed]]


# The groups


def answer_groups(tables: Tables, groups: Groups) -> Observation | None:
    """In how many comparisons a fused implementation beats the naive one, and those that do not."""
    if groups.naive is None or not groups.fused:
        return None
    naive = groups.naive
    found = {name: tables.against(name, naive, TOTAL) for name in groups.fused}
    speeds = [speed for each in found.values() for speed in each.speed]
    faster = [speed for speed in speeds if speed.verdict == FASTER]
    if not speeds:
        return None
    exceptions = [
        {
            "name": name,
            "count": len(rest),
            "of": len(each),
            "where": where(rest, each),
            "x": speed_span(rest.speed),
            "slower": len(_of_verdict(each, SLOWER)) == len(rest),
        }
        for name, each in found.items()
        if len(rest := _of_verdict(each, SLOWER, EQUAL, UNDECIDED))
    ]
    shares = [share for name in groups.fused for share in memory_shares(tables, name, naive)]
    facts = {
        **{"naive": naive, "of": len(speeds), "faster": len(faster)},
        **{"x": speed_span(faster or speeds), "mostly": 2 * len(faster) >= len(speeds)},
        "slower": sum(speed.verdict == SLOWER for speed in speeds),
        "whole": speed_span(speeds),
        **{"memory": span(shares), "exceptions": exceptions},
    }
    return Observation("answer_groups", None, facts, evidence(speeds))


def answer_stored(tables: Tables, groups: Groups) -> Observation | None:
    """Those that store the scores as the naive one does, and are slower than it everywhere."""
    naive = groups.naive
    if naive is None:
        return None
    found = {name: tables.against(name, naive, TOTAL) for name in groups.stored}
    slower = {
        name: each
        for name, each in found.items()
        if len(each) and len(_of_verdict(each, SLOWER)) == len(each)
    }
    if not slower:
        return None
    stored = []
    for name, each in slower.items():
        sizes = memory_shares(tables, name, naive)
        memory = span(sizes)
        stored.append({"name": name, "x": speed_span(each.speed), "memory": memory})
    rows = [speed for each in slower.values() for speed in each.speed]
    return Observation("answer_stored", None, {"naive": naive, "of": stored}, evidence(rows))


# The leaders


def _by_setting(ranked: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting: its parameters, who is best, who may be, and the lead over the next.

    ``fine`` are the best one and those decided within the margin of it, ``possible`` those that are
    not decidedly slower.
    """
    columns = list(ranked.columns)
    sizes = columns[: columns.index("name")]
    rows = []
    for key, group in ranked.groupby(sizes):
        fine = group[group.verdict.isin([choices.BEST, choices.EQUAL])]
        possible = group[group.verdict != choices.SLOWER]
        nexts = group[group.verdict != choices.BEST].behind
        rows.append(
            {
                **dict(zip(sizes, key, strict=True)),
                **{"best": group.best.iat[0], "fine": set(fine.name)},
                **{"possible": set(possible.name), "lead": float(nexts.min())},
            }
        )
    return pd.DataFrame(rows)


def _clause(words_: dict[str, Any], inside: pd.DataFrame) -> dict[str, Any] | None:
    """The leader of a stretch: one that is best, or within the margin of it, at all its settings.

    ``rival`` is the one than which it is not shown faster at most of them, at half or more. Else
    those that are not told apart from the best at any of them; None where there are not two.
    """
    fine, possible = (set.intersection(*inside[column]) for column in ("fine", "possible"))
    bests = inside.best.value_counts()

    def often(name: str) -> tuple[int, str]:
        return -int(bests.get(name, 0)), name

    facts = {"where": words_, "of": len(inside)}
    if fine:
        name = min(fine, key=often)
        alone = inside[[row == {name} for row in inside.possible]]
        others = inside.possible.drop(alone.index).explode().value_counts()
        rivals = others.drop(name) if name in others else others
        often_not = [str(each) for each in rivals[2 * rivals >= len(inside)].index]
        rival = min(often_not, key=lambda each: (-int(rivals[each]), each), default=None)
        return {
            **facts,
            **{"kind": "one", "names": [name], "alone": len(alone)},
            "lead": span([*alone.lead]) if len(alone) else None,
            "rival": {"name": rival, "at": int(rivals[rival])} if rival else None,
        }
    if len(possible) > 1:
        return {**facts, "kind": "undecided", "names": sorted(possible, key=often)}
    return None


def leading(table: pd.DataFrame, metric: str, names: Sequence[str]) -> dict[str, Any] | None:
    """The leaders by a time in stretches of d and N that do not overlap, the widest first.

    Of two that are as wide, the one with the larger lead comes first. ``clauses`` are
    `MOST_CLAUSES` of them, and of the others the one with the largest lead that is decided at each
    of its settings; ``rest`` counts the settings in neither. None where nothing is compared.
    """
    ranked = choices.ranking(table, metric, names)
    if ranked.empty:
        return None
    settings = _by_setting(ranked)
    found: list[dict[str, Any]] = []
    remaining = set(settings.index)
    while remaining:
        options = [
            (len(inside), clause["kind"] == "one", inside.lead.min(), clause, inside)
            for words_, inside in stretches(settings)
            if set(inside.index) <= remaining and (clause := _clause(words_, inside))
        ]
        if not options:
            break
        *_, clause, inside = max(options, key=lambda each: each[:3])
        found.append(clause)
        remaining -= set(inside.index)
    departing = [each for each in found[MOST_CLAUSES:] if each.get("alone") == each["of"]]
    told = found[:MOST_CLAUSES]
    told += sorted(departing, key=lambda each: -each["lead"][1])[:1]
    return {"clauses": told, "rest": len(settings) - sum(each["of"] for each in told)}


def answer_leaders(tables: Tables, groups: Groups) -> Observation | None:
    """Which of the fused ones to use, by stretches of N and d; the project's own left out."""
    if len(groups.others) < 2:
        return None
    found = {use: leading(tables.usual, m, groups.others) for use, m in USES.items()}
    uses = {use: each for use, each in found.items() if each is not None and each["clauses"]}
    if not uses:
        return None
    return Observation("answer_leaders", None, {"uses": uses, "project": groups.mine})


# The project's own kernel


def answer_own(tables: Tables, groups: Groups) -> Observation | None:
    """The speed of the project's own kernel over the best of the other fused ones, by use."""
    mine = groups.mine
    if mine is None or not groups.others:
        return None
    uses, sharing, rows = {}, {}, list[Speed]()
    for use, metric in USES.items():
        found = _against_best(tables, mine, groups.others, metric)
        usual = tables.at_usual(found)
        if usual.empty:
            return None
        rows += [*found.speed]
        uses[use] = _own_facts(usual)
        shared = found.drop(usual.index)
        worse = _of_verdict(shared, SLOWER)
        if len(worse):
            sharing[use] = {"slower": len(worse), "of": len(shared), "x": speed_span(worse.speed)}
    facts = {
        **{"name": mine, "uses": uses, "sharing": sharing, "tuned_on": groups.projects[mine]},
        "here": _device_name(tables) in groups.projects[mine],
    }
    return Observation("answer_own", None, facts, evidence(rows))


def _device_name(tables: Tables) -> str | None:
    names = {run["device_name"] for each in tables.experiments for run in each.runs}
    return next((name for name in names if name), None)


def _against_best(tables: Tables, mine: str, others: Sequence[str], metric: str) -> pd.DataFrame:
    """The speed of one over the best of the others at each setting, and who that is."""
    ranked = choices.ranking(tables.comparisons, metric, others)
    found = pd.concat([tables.against(mine, other, metric).assign(best=other) for other in others])
    sizes = choices.sizes_of(tables.comparisons)
    best = ranked[ranked.verdict == choices.BEST][[*sizes, "best"]]
    best = best.astype(found.dtypes[best.columns])  # of none, too
    return found.merge(best, on=[*sizes, "best"]).reset_index(drop=True)


def _own_facts(found: pd.DataFrame) -> dict[str, Any]:
    """The settings at which it is faster, not told apart or slower, with its speeds."""
    faster, slower = _of_verdict(found, FASTER), _of_verdict(found, SLOWER)
    open_ = _of_verdict(found, UNDECIDED, EQUAL)
    top = max(found.index, key=lambda row: found.speed[row].x)
    level = [
        (len(inside), words_, inside)
        for words_, inside in stretches(found)
        if set(inside.index) <= set(open_.index) and len(inside) > 1
    ]
    widest = max(level, key=lambda each: each[0], default=None)
    lows = [speed.low for speed in found.speed]
    losses = [
        {
            "to": str(best),
            "count": len(each),
            "x": speed_span(each.speed),
            "where": where(each, found),
        }
        for best, each in slower.groupby("best", sort=False)
    ]
    return {
        **{"of": len(found), "faster": len(faster), "x": speed_span(faster.speed)},
        "most": {"d": int(found.head_dim[top]), "N": int(found.seq_len[top])},
        "level": widest and {"where": widest[1], "with": sorted(set(widest[2].best))},
        "losses": losses,
        "never": all(low is not None and low > 1 / words.margins(1) for low in lows),
    }


# The cost


def answer_groups_cost(tables: Tables, groups: Groups) -> Observation | None:
    """The passes of fused implementations that are slower than the naive one's, the worst first.

    What is wrong stands above everything on page one, and is no part of this.
    """
    slower: list[dict[str, Any]] = []
    rows: list[Speed] = []
    for name in groups.fused if groups.naive else ():
        for key, metric in PASSES.items():
            found = tables.against(name, str(groups.naive), metric)
            worse = _of_verdict(found, SLOWER)
            if len(worse):
                place = where(worse, found)
                about = {"pass": key, "where": place, "count": len(worse)}
                same = next((e for e in slower if about.items() <= e.items()), None)
                if same is None:
                    slower.append(same := {**about, "of": []})
                same["of"].append({"name": name, "x": speed_span(worse.speed)})
                rows += [*worse.speed]
    if not slower:
        return None
    for each in slower:
        each["x"] = span([x for one in each["of"] for x in one["x"]])
    facts = {"slower": sorted(slower, key=lambda each: each["x"][0]), "naive": groups.naive}
    return Observation("answer_groups_cost", None, facts, evidence(rows))


# The map


def map_(tables: Tables, groups: Groups) -> Observation | None:
    """Which implementation to use, by d, N, mask and use; the project's own is a candidate."""
    masks = [False, True]
    charts: list[dict[str, Any]] = []
    for use, metric in USES.items():
        ranked = choices.ranking(tables.usual, metric, groups.fused)
        if ranked.empty:
            return None
        cells = choices.cells(ranked, [*PLACE, MASK])
        rows = sorted({key[:2] for key in cells.index})
        masks = [mask for mask in masks if any(key[2] == mask for key in cells.index)]
        charts.append(
            {
                **{"use": use, "metric": metric},
                "rows": [
                    {
                        **{"d": int(d), "N": int(n)},
                        "cells": [_cell(cells, (d, n, mask)) for mask in masks],
                    }
                    for d, n in rows
                ],
            }
        )
    every = [cell for chart in charts for row in chart["rows"] for cell in row["cells"]]
    facts = {
        **{"masks": masks, "charts": charts, "gaps": None in every},
        "changes": any(cell is not None and cell["state"] == "changes" for cell in every),
    }
    return Observation("map", None, facts)


def _cell(cells: pd.DataFrame, key: tuple[Any, ...]) -> dict[str, Any] | None:
    return None if key not in cells.index else {**cells.loc[key]}


# A line a chapter


def line_groups_sweep(chapter: Chapter) -> Observation | None:
    """A sweep in one line: what grows how much, for the naive one and for the fused."""
    time, memory = groups_time(chapter), groups_memory(chapter)
    if time is None or memory is None:
        return None
    naive = time.facts["naive"] if time.facts["naive"] == memory.facts["naive"] else None
    facts = {
        **{"target": chapter.name, "naive": naive},
        **{key: time.facts[key] for key in ("p", "first", "last", "operations", "growth", "d")},
        "naive_time": time.facts["stored"][0]["factor"] if naive else None,
        "naive_memory": memory.facts["stored"][0]["factor"] if naive else None,
        "memory": memory.facts["fused"]["whole"],
    }
    return Observation("line_groups_sweep", None, facts, time.evidence)


def line_groups_switch(chapter: Chapter) -> Observation | None:
    """The mask in one line: what it does to the totals of both groups at the last length."""
    effects = mask_effects(chapter)
    if effects is None:
        return None
    facts, rows = effects
    return Observation(
        "line_groups_switch",
        None,
        {**facts, "target": chapter.name},
        evidence(rows),
    )


def line_long(chapter: Chapter) -> Observation | None:
    """Long sequences in one line: who leads at the last one, at what rate, in what memory."""
    section, variant = chapter.main.section, chapter.main.variant
    if chapter.switch or not chapter.is_long:
        return None
    last = section.experiment.values[-1]
    rates = {
        name: rate
        for name in chapter.fused
        if (rate := section.medians("forward_rate", name, variant).get(last)) is not None
    }
    mine = tables_of(chapter)
    ranked = choices.ranking(mine, FORWARD, chapter.fused)
    ranked = ranked[(ranked.seq_len == last) & (ranked.causal == _has_mask(variant))]
    first = [n for n in ranked[ranked.verdict != choices.SLOWER].name if n in rates]
    if not first:
        return None
    others = sorted(rates.keys() - set(first), key=lambda name: -rates[name])
    sizes = {n: memory_at(section, n, variant, last) for n in [*rates, *chapter.stored]}
    naive = chapter.naive
    run = section.run(naive, variant, last) if naive else None
    facts = {
        **{"target": chapter.name, "last": last, "names": first},
        "equal": set(ranked[ranked.name.isin(first)].verdict) <= {choices.BEST, choices.EQUAL},
        "rates": span([rates[name] for name in first]),
        "others": [{"name": name, "rate": rates[name]} for name in others[:3]],
        **{"ceiling": matrix_ceiling(section), "unit": section.benchmark.rate_unit},
        **{"mask": _has_mask(variant), "naive": naive, "naive_memory": sizes.get(naive or "")},
        "oom": bool(run and run["status"] == "oom"),
        "memory": max((size for n in rates if (size := sizes[n]) is not None), default=None),
    }
    return Observation("line_long", None, facts)


def _has_mask(variant: str) -> bool:
    return variant == f"{MASK}=true"


def tables_of(chapter: Chapter) -> pd.DataFrame:
    """The comparisons of a chapter's experiments."""
    table = chapter.first.tables.comparisons
    return table[table.experiment.isin([section.name for section in chapter.sections])]


def footnote_groups_doubts(tables: Tables, groups: Groups) -> Observation | None:
    """The verdicts of page one that the warnings could turn."""
    every = [
        speed
        for name in groups.fused
        for metric in (*PASSES.values(), TOTAL)
        for speed in (tables.against(name, groups.naive, metric).speed if groups.naive else ())
    ]
    if groups.mine and groups.others:
        for metric in USES.values():
            every += [*_against_best(tables, groups.mine, groups.others, metric).speed]
    return doubts(tables, every)


def chapters_of(tables: Tables, groups: Groups) -> list[Chapter]:
    """The chapters of the report, each of one or a few experiments."""
    by_name = {section.name: section for section in tables.sections}
    grouped = sections_of([section.experiment for section in tables.sections])
    return [Chapter([by_name[each.name] for each in group], groups) for group in grouped]


FRONT = (
    *(answer_groups, answer_stored, answer_leaders, answer_own, answer_groups_cost),
    map_,
)
"""The answer in its order, and the map."""


def groups_page_one(tables: Tables, groups: Groups) -> Iterator[Observation]:
    """Page one: the answer, the map, a line a chapter, and what the warnings could change."""
    yield from filter(None, (observe(tables, groups) for observe in FRONT))
    for chapter in chapters_of(tables, groups):
        if is_shared(chapter.first):
            yield from filter(None, [line_shared(chapter.first)])
        elif not chapter.packed:
            lines = (line_groups_switch, line_long, line_groups_sweep)
            yield from itertools.islice(filter(None, (line(chapter) for line in lines)), 1)
    yield from filter(None, [footnote_groups_doubts(tables, groups)])
