"""Check 7, copies: times that agree more closely than independent measurements do.

The ratios between two submissions' times scatter. Copied times share one ratio, also once a
constant that was added is taken off or a power is undone.

- **certain** (`fail`): so many ratios are equal that even measurements at locked clocks, which
  scatter by `LEAST_SCATTER`, would not give it once in 1,000 classes; or the times are weighted
  means of others'.
- **likely** (`warn`): a pair at one level agrees more closely than two recordings of one GPU do,
  far more closely than either agrees with anybody else on that GPU, and deviates from these in the
  same way.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import bdtrc, erf

from flashlab.course.declaration import kind_of_device
from flashlab.course.identity import family_of
from flashlab_grading.model import PASSES, Line, Result, Verdict

Floats = NDArray[np.float64]
Submissions = Mapping[str, Sequence[Result]]

LEAST_SCATTER = 1e-4
"""Assumed least relative scatter between measurements of one run: half of the least that was seen,
0.024% in 17 recordings of one run on one H200."""

WIDTHS = np.array([1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 2e-4])
"""Relative widths within which ratios count as equal; a wider one holds too many by chance."""

CHANCE = 1e-9
"""Probability, for a pair and a width, below which agreement is no coincidence."""

CLOCK, EVENT_CLOCK = 1e-9 / 30, 1e-6
"""Seconds that a time is resolved to: by the course's timer, a nanosecond of 30 calls together; by
single calls, whose median repeats."""

COARSE = 1e-3
"""Relative resolution of a time above which its agreement with another shows nothing."""

LEAST_COMMON, LEAST_GROUP = 24, 8
"""Fewest common times from which a pair's scatter is known (half as many runs), and submissions of
one device from which the usual times on it are."""

CLOSE = 1e-3
"""Scatter of a pair's ratios that independent measurements do not have: of 17 recordings on one
H200, the closest of 136 pairs scatter by 0.33%; calls of the same processes by 0.15 to 0.22%."""

SAME_LEVEL = 3e-4
"""Greatest distance of a likely pair's median ratio from 1; two cards of a kind differ by more."""

APART = 3.0
"""Least ratio of a likely pair's scatter with anybody else to that with each other: three who are
alike have a machine in common, and are not accused."""

ALIKE = 0.8
"""Least rank correlation of a likely pair's deviations from the usual times of each run."""

MEAN_WIDTH, MEAN_SHARE = 1e-5, 0.8
"""Relative deviation of a time from a mean of others', and the share of times that must be such."""

EQUAL_FILES = 3
"""Fewest files with equal times that are a copy, whatever they are declared as."""


def _resolution(result: Result, name: str) -> float:
    """The relative step in which the time of a pass can differ from another."""
    seconds = result.numbers.seconds[name]
    clock = EVENT_CLOCK if result.is_sampled else CLOCK
    return max(clock / seconds, 2 * result.numbers.time_rounding.relative_error(seconds))


def _flops_key(result: Result) -> str:
    return f"{result.numbers.forward_flops:.6g}"


def _keys(results: Sequence[Result]) -> list[str]:
    """The run of each file: its declared family, or that of a declared file with its numbers.

    Failing both, its FLOPs and memory.
    """
    numbers = [f"{_flops_key(result)} {result.numbers.peak_mib:.9g}" for result in results]
    runs = [result.declaration.run for result in results]
    declared = [
        family_of(*run).describe() if run and run[1].emb_dim % run[1].num_heads == 0 else None
        for run in runs
    ]
    families = {number: key for number, key in zip(numbers, declared, strict=True) if key}
    return [
        key or families.get(number, number) for number, key in zip(numbers, declared, strict=True)
    ]


def _device_of(results: Sequence[Result]) -> str | None:
    """The one kind of device that a submission's files name."""
    named = {result.declaration.device_name for result in results}
    return kind_of_device(named.pop()) if len(named) == 1 else None


def _times(everyone: Submissions) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The logarithms of all times and their resolutions.

    A row for each submission in its order, a column for each (run, pass), all of them numbers. Of a
    run that was handed in twice, the first counts.
    """
    owners = [(row, result) for row, own in enumerate(everyone.values()) for result in own]
    keys = _keys([result for _, result in owners])
    runs = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    cells = [
        (row, runs[key], k, math.log(result.numbers.seconds[name]), _resolution(result, name))
        for (row, result), key in zip(owners, keys, strict=True)
        for k, name in enumerate(PASSES)
    ]
    table = pd.DataFrame(cells, columns=["row", "run", "pass", "log", "step"])
    table = table.drop_duplicates(["row", "run", "pass"])
    rows, columns = range(len(everyone)), ["run", "pass"]
    logs = table.pivot(index="row", columns=columns, values="log").reindex(rows)
    return logs, table.pivot(index="row", columns=columns, values="step").reindex(rows)


def _pair(verdict: Verdict, code: str, one: str, other: str, **params: str) -> Iterator[Line]:
    """The lines for the two submissions that agree."""
    for name, partner in (one, other), (other, one):
        yield Line(verdict, code, params={"other": partner, **params}, submission=name)


# Certain copies


def _slope(x: Floats, y: Floats) -> float:
    """The median slope between points of the lower and the upper half of `x`."""
    order = np.argsort(x, kind="stable")
    low, high = order[: len(x) // 2], order[-(len(x) // 2) :]
    apart = x[high] > x[low]
    return float(np.median((y[high] - y[low])[apart] / (x[high] - x[low])[apart]))


def _laws(one: Floats, other: Floats) -> Iterator[tuple[str, Floats]]:
    """Each kind of formula that gives `other` from `one`, and the ratios that it leaves.

    All are logarithms. The formula has a place for its factor.
    """
    yield "{:.6g} · t", other - one
    if len(one) < LEAST_COMMON or not np.ptp(one) > 0:
        return
    power = _slope(one, other)
    if power > 0:
        yield f"{{:.6g}} · t^{power:.6g}", other - power * one
    seconds, theirs = np.exp(one), np.exp(other)
    constant = float(np.median(theirs - _slope(seconds, theirs) * seconds))
    above = theirs > constant
    sign = "-" if constant < 0 else "+"
    text = f"{{:.6g}} · t {sign} {abs(constant) * 1e6:.4g} µs"
    yield text, np.log((theirs - constant)[above]) - one[above]


def _certain(one: Floats, other: Floats, steps: Floats) -> tuple[str, dict[str, str]] | None:
    """Code and parameters of an agreement that no independent measurements have; else None.

    Ratios scatter by √2 `LEAST_SCATTER` at least, so a width holds at most a certain share of them.
    A time in coarser steps agrees as often as its steps allow; the mean share bounds the tail,
    because the count varies most when all shares are equal (Hoeffding 1956).
    """
    total = len(one)
    shares = erf(np.maximum(steps[:, None], WIDTHS) / (4 * LEAST_SCATTER)).mean(axis=0)
    for formula, ratios in _laws(one, other):
        ordered = np.sort(ratios)
        inside = np.searchsorted(ordered, ordered[:, None] + WIDTHS, side="right")
        inside -= np.arange(len(ordered))[:, None]
        counts = inside.max(axis=0, initial=0)
        # Any of the ratios can begin the window; the others must fall into it. Any two points can
        # lie on the edges, of four kinds, of a window along a formula of two parameters.
        free = 1 if formula == "{:.6g} · t" else 2
        ways = total if free == 1 else 4 * total**2
        tails = bdtrc(np.maximum(counts - free - 1, 0), max(total - free, 1), shares)
        chances = np.where(counts > free, ways * tails, 1.0)
        best = int(np.argmin(chances))
        if chances[best] >= CHANCE:
            continue
        start, count = int(inside[:, best].argmax()), int(counts[best])
        middle = float(np.median(ordered[start : start + count]))
        is_same = free == 1 and abs(middle) < 1e-3
        return "copies.same" if is_same else "copies.computed", {
            "count": str(count),
            "total": str(total),
            "law": formula.format(math.exp(middle)),
            "width": f"{WIDTHS[best]:.1g}",
            "chance": f"{min(99.0, -math.log10(max(chances[best], 1e-99))):.0f}",
        }
    return None


# Likely copies


def _scatter(logs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scatter and level of the ratios between any two rows; NaN where they share too few times.

    The level is their median, the scatter the median deviation from it, as of a normal one.
    """
    levels, scatters = {}, {}
    for row, own in logs.iterrows():
        ratios = logs - own
        shared = (ratios.count(axis=1) >= LEAST_COMMON) & (ratios.index != row)
        levels[row] = ratios.median(axis=1).where(shared)
        scatters[row] = 1.4826 * ratios.sub(levels[row], axis=0).abs().median(axis=1)
    return pd.DataFrame(scatters), pd.DataFrame(levels)


def _deviations(group: pd.DataFrame, one: int, other: int) -> pd.DataFrame:
    """Deviations of two rows from what is usual in a group: a row for each run, a column for each.

    What is usual is the median of the others of the group, of a different half of them for each of
    the two: otherwise its own error would make them alike. A run counts once, because its passes
    are not independent.
    """
    others = group.drop(index=[one, other])
    deviations = {}
    for row, half in ((one, others[::2]), (other, others[1::2])):
        levelled = half.sub((half - group.loc[row]).median(axis=1), axis=0)
        deviations[row] = group.loc[row] - levelled.median()
    runs = pd.DataFrame(deviations).dropna().groupby(level="run").mean()
    return runs - runs.median()


def _likely(
    logs: pd.DataFrame, scatter: pd.DataFrame, level: pd.DataFrame, devices: Sequence[str | None]
) -> Iterator[tuple[int, int, dict[str, str]]]:
    """The pairs that agree more closely than machines of their kind do, with parameters."""
    for _, group in logs.groupby(np.array(devices, dtype=object)):  # without those of no device
        if len(group) < LEAST_GROUP:
            continue
        of_pairs, levels = (table.loc[group.index, group.index] for table in (scatter, level))
        close = np.triu((of_pairs < CLOSE) & (levels.abs() < SAME_LEVEL))
        for one, other in group.index.to_numpy()[np.argwhere(close)]:
            own = of_pairs.loc[one, other]
            others = group.index.drop([one, other])
            if scatter.loc[others, [one, other]].min(axis=None) < APART * own:
                continue
            runs = _deviations(group, one, other)
            ranks = runs.rank().to_numpy().T
            if len(runs) < LEAST_COMMON // 2 or not np.corrcoef(ranks)[0, 1] >= ALIKE:
                continue
            count = int((np.sign(runs[one]) == np.sign(runs[other])).sum())
            params = {"count": str(count), "total": str(len(runs)), "width": f"{own:.1g}"}
            yield one, other, params


# Means of others


def _sources(logs: Floats, scatter: Floats, row: int) -> list[int]:
    """The rows of which a row's times are weighted means; none if they are not.

    A mean of times is a sum with weights that are not negative, and so is, of logarithms, a
    geometric one. `scatter` is that with the rows which may be sources, NaN for the others.
    """
    present = ~np.isnan(logs[row])
    usable = ~np.isnan(scatter) & ~np.isnan(logs[:, present]).any(axis=1)
    nearest = [other for other in np.argsort(scatter, kind="stable") if usable[other]]
    nearest = nearest[: int(present.sum()) // 2]  # fewer than there are times
    if len(nearest) < 2:
        return []
    own, theirs = logs[row, present], logs[np.ix_(nearest, present)]
    ones = np.ones(len(own))
    for table, wanted in (
        (np.exp(theirs - own), ones),
        (np.vstack([theirs, ones, -ones]), own),  # logarithms of any scale
    ):
        weights = _weights(table.T, wanted)[: len(nearest)]
        found = np.flatnonzero(weights > 1e-3 * max(weights.max(), 1e-3))
        if len(found) > 1:
            return [int(nearest[place]) for place in found]
    return []


def _weights(table: Floats, wanted: Floats) -> Floats:
    """The weights with which columns give nearly all that is wanted, zero if there are none.

    Fitted again and again to the share that fits best, because some times may be original.
    """
    kept = np.arange(len(wanted))
    for _ in range(3):
        try:
            weights, _ = nnls(table[kept], wanted[kept])
        except RuntimeError:  # it found none within its number of steps
            return np.zeros(table.shape[1])
        off = np.abs(table @ weights - wanted)
        kept = np.argsort(off)[: math.ceil(MEAN_SHARE * len(wanted))]
    fits = math.sqrt(float((off[kept] ** 2).mean())) < MEAN_WIDTH
    return np.asarray(weights) * fits


# Lines


def _same_files(everyone: Submissions) -> Iterator[Line]:
    """Lines for single files whose times, or samples, equal those of somebody else's file.

    Equal times of one file are a warning, because a coarse clock repeats; equal samples in the same
    order are none of chance. The median of single calls repeats, so their samples are compared.
    """
    found: dict[tuple[Any, ...], list[tuple[str, str]]] = defaultdict(list)
    for owner, own in everyone.items():
        for result in own:
            coarse = max(_resolution(result, name) for name in PASSES) > COARSE
            if not coarse and not result.is_sampled:
                seconds = [result.numbers.seconds[name] for name in PASSES]
                key = "warn", "copies.file", _flops_key(result), *seconds
                found[key].append((owner, result.name))
            if result.fingerprint:
                found["fail", "copies.samples", result.fingerprint].append((owner, result.name))
    for (verdict, code, *_), owners in found.items():
        for owner, file in owners:
            other = next((name for name, _ in owners if name != owner), None)
            if other is not None:
                yield Line(verdict, code, file, {"other": other}, submission=owner)


def _agreements(everyone: Submissions) -> Iterator[Line]:
    """Lines about two owners, or more, of which the published datasets are some."""
    if not any(everyone.values()):
        return
    logs, steps = _times(everyone)
    names, values = list(everyone), logs.to_numpy()
    clocks = steps.to_numpy()
    agreed: dict[int, set[int]] = defaultdict(set)
    for one, other in combinations(range(len(names)), 2):
        both = ~np.isnan(values[one] + values[other])
        step = np.maximum(clocks[one], clocks[other])[both]
        if both.any() and (certain := _certain(values[other][both], values[one][both], step)):
            agreed[one].add(other)
            agreed[other].add(one)
            code, params = certain
            yield from _pair("fail", code, names[one], names[other], source=names[other], **params)
    scatter, level = _scatter(logs)
    for row, name in enumerate(names):
        possible = scatter[row].to_numpy(copy=True)
        possible[list(agreed[row])] = np.nan
        if others := _sources(values, possible, row):
            agreed[row] |= set(others)
            params = {"others": "\0".join(names[other] for other in others)}
            yield Line("fail", "copies.average", params=params, submission=name)
    devices = list(map(_device_of, everyone.values()))
    for one, other, params in _likely(logs, scatter, level, devices):
        if other not in agreed[one]:
            agreed[one].add(other)
            agreed[other].add(one)
            yield from _pair("warn", "copies.likely", names[one], names[other], **params)
    told = {(names[row], names[other]) for row, others in agreed.items() for other in others}
    files: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in _same_files(everyone):
        files[line.submission, line.params["other"]].append(line)
    for (owner, source), lines in files.items():
        if (owner, source) not in told:
            is_copy = len(lines) >= EQUAL_FILES
            yield from (replace(x, verdict="fail") if is_copy else x for x in lines)


def copies_between(results: Submissions, published: Submissions) -> Iterator[Line]:
    """Lines for the submissions whose times agree with another's, or with a published dataset's.

    A submission without any has a line that says how far it was compared. `results` are each
    submission's files, `published` those of recorded datasets, whose names no submission has.
    """
    everyone = {**published, **results}
    lines = [line for line in _agreements(everyone) if line.submission in results]
    yield from lines
    accused = {line.submission for line in lines}
    devices = Counter(map(_device_of, everyone.values()))
    for name, own in results.items():
        if name in accused:
            continue
        coarse = [_resolution(result, passed) > COARSE for result in own for passed in PASSES]
        verdict: Verdict = "not_checked"
        if len(everyone) < 2 or not own:
            code = "copies.alone"
        elif sum(coarse) > len(coarse) / 2:
            code = "copies.rounded"
        elif (device := _device_of(own)) is None or devices[device] < LEAST_GROUP:
            code = "copies.few"
        else:
            verdict, code = "pass", "copies.pass"
        yield Line(verdict, code, params={"count": str(LEAST_GROUP)}, submission=name)
