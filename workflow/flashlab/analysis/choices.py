"""The implementation to use at a setting: queries on the table of comparisons."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from flashlab.analysis.experiment import IMPLEMENTATIONS
from flashlab.analysis.ratios import OPPOSITE, inverse_of

BEST, EQUAL, UNDECIDED, SLOWER = "best", "equal", "undecided", "slower"

_WORDS = {"above": SLOWER, "below": UNDECIDED, "equal": EQUAL, "inconclusive": UNDECIDED}
"""Of a time over the best one. Where three do not compare in a line, one may be decidedly faster
than what wins overall; then they are not told apart."""


def ranking(table: pd.DataFrame, metric: str, names: Collection[str]) -> pd.DataFrame:
    """Every one of these implementations against the best at each distinct setting.

    Args:
        table: the frame of `flashlab.analysis.comparisons`.
        metric: a time, of which less is better.
        names: two or more of them.

    Returns:
        A row for each setting and implementation, with a running index: the parameters, ``name``,
        ``best`` (the name of the one with the lowest time), ``behind`` (its time over that of the
        best), ``low`` and ``high`` (the interval of that), and ``verdict``: best, equal, undecided
        or slower.
    """
    columns = [*table.columns]
    sizes = columns[columns.index("doubts") + 1 :]
    is_meant = (table.compared == IMPLEMENTATIONS) & (table.metric == metric) & table.value.notna()
    mine = table[is_meant & table.subject.isin(names) & table.reference.isin(names)]
    mine = mine.drop_duplicates([*sizes, "subject", "reference"])
    ratio, low, high = inverse_of(mine.ratio, mine.low, mine.high)
    turned = {"subject": mine.reference, "reference": mine.subject, "ratio": ratio, "low": low}
    turned |= {"high": high, "verdict": mine.verdict.replace(OPPOSITE)}
    both = pd.concat([mine, mine.assign(**turned)], ignore_index=True)
    if both.empty:
        return both[sizes].assign(name=[], best=[], behind=[], low=[], high=[], verdict=[])
    worst = both.groupby([*sizes, "subject"])["ratio"].max().reset_index()
    first_of = worst.groupby(sizes)["ratio"].idxmin()
    best = worst.loc[first_of, [*sizes, "subject"]].rename(columns={"subject": "best"})
    ranked = both.merge(best, on=sizes)
    behind = ranked[ranked.reference == ranked.best].rename(columns={"ratio": "behind"})
    behind = behind.assign(verdict=behind.verdict.map(_WORDS))
    first = best.assign(subject=best.best, behind=1.0, low=1.0, high=1.0, verdict=BEST)
    columns = [*sizes, "subject", "best", "behind", "low", "high", "verdict"]
    found = pd.concat([first[columns], behind[columns]], ignore_index=True)
    named: pd.DataFrame = found.rename(columns={"subject": "name"})
    return named.sort_values([*sizes, "behind"], ignore_index=True)


def cells(ranked: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The implementations to use over the settings that share the parameters `by`.

    Returns:
        A row for each group of settings, indexed by `by`: ``names``, ``state`` and ``lead``.
        ``clear``: one is decidedly faster than all others, by more than the margin, at every
        setting; ``lead`` is the range by which it leads the next. ``level``: the names are those
        that at every setting are the best, within the margin of it or not told apart from it, who
        is best most often first. ``changes``: there is no such name; those that are best somewhere.
    """
    found = {key: _cell(group) for key, group in ranked.groupby(list(by))}
    index = pd.MultiIndex.from_tuples(found.keys(), names=list(by))
    return pd.DataFrame([*found.values()], index=index, columns=["names", "state", "lead"])


def _cell(group: pd.DataFrame) -> dict[str, Any]:
    """A row of `cells`: the implementations to use over a few settings, state and lead."""
    columns = list(group.columns)
    sizes = columns[: columns.index("name")]
    settings = group.groupby(sizes).ngroups
    next_best = group[group.verdict != BEST].groupby(sizes).behind.min()
    bests = group[group.verdict == BEST].name.value_counts()
    suits = group[group.verdict != SLOWER]
    possible = suits.name.value_counts()
    everywhere = possible.index[possible == settings]
    if len(bests) == 1 and len(suits) == settings:
        lead = [float(next_best.min()), float(next_best.max())]
        return {"names": [*bests.index], "state": "clear", "lead": lead}
    behind = suits.groupby("name").behind.mean()
    names = everywhere if len(everywhere) else bests.index
    ordered = sorted(names, key=lambda name: (-bests.get(name, 0), behind[name], name))
    return {"names": ordered, "state": "level" if len(everywhere) else "changes", "lead": None}
