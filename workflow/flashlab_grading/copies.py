"""Check 7, copies: times that agree more closely than independent measurements do.

Two measurements of one run differ, so the logarithms of the ratios between two submissions' times
scatter. Copied times share one ratio, give or take some jitter: 1, or the constant that they were
scaled by, also once the constant that was added to them is taken off, or the power undone that
they were raised to. Two tests decide:

- **certain** (`fail`): so many ratios lie within a narrow window that even two measurements at
  locked clocks, which scatter by `LEAST_SCATTER`, would not give it once in 1,000 classes.
- **likely** (`warn`): a pair at one level agrees more closely than two recordings of one GPU do,
  far more closely than either agrees with anybody else who names that GPU, and deviates from
  these in the same way. Two who shared an unusual machine would have to share its level, too.

Times that are weighted means of others' are certain as well. Equal memory proves nothing, because
it is exact.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import bdtrc, erf

from flashlab.course.declaration import kind_of_device
from flashlab.course.identity import family_of
from flashlab_grading.model import PASSES, Line, Result, Verdict

Floats = NDArray[np.float64]

LEAST_SCATTER = 1e-4
"""Relative scatter between measurements of one run that is taken to be the least there is: half of
the least that was seen, 0.024% in 17 recordings of one run on one H200."""

WINDOWS = (1e-9, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 2e-4)
"""Relative widths within which ratios count as equal; a wider one holds too many by chance."""

CHANCE = 1e-9
"""The probability, for a pair and a window, below which agreement is no coincidence."""

CLOCK = 1e-9 / 30
"""Seconds that the course's timer resolves: a nanosecond, of 30 calls together."""

EVENT_CLOCK = 1e-6
"""Seconds that single calls are timed to: a median of them repeats."""

COARSE = 1e-3
"""Relative resolution of a time above which its agreement with another shows nothing."""

LEAST_COMMON = 24
"""Fewest times that two submissions must share to be compared with others."""

LEAST_GROUP = 8
"""Fewest submissions that name one device for what is usual on it to be known."""

CLOSE = 1e-3
"""Scatter of a pair's ratios that independent measurements do not have: of 17 recordings on one
H200, the closest of 136 pairs scatter by 0.33%; calls of the same processes by 0.15 to 0.22%."""

SAME_LEVEL = 3e-4
"""How far from 1 the median ratio of a likely pair may be; two cards of a kind differ by more."""

APART = 3.0
"""How many times further than from each other a likely pair must be from anybody else: three
who are alike have a machine in common, and are not accused."""

ALIKE = 0.8
"""Rank correlation of a likely pair's deviations from what is usual, a value a run."""

MEAN_WIDTH = 1e-5
"""Relative deviation within which a time is taken to be a mean of others'."""

MEAN_SHARE = 0.8
"""Share of a submission's times that must be such means."""

EQUAL_FILES = 3
"""Fewest files with equal times that are a copy, whatever they are declared as."""


@dataclass(frozen=True)
class Law:
    """What makes one's times of another's: ``factor · seconds ** power + constant``.

    A law has a power or a constant, not both.
    """

    factor: float = 1.0
    power: float = 1.0
    constant: float = 0.0

    @property
    def is_identity(self) -> bool:
        """Whether it leaves times as they are, but for a little."""
        return abs(math.log(self.factor)) < 1e-3 and (self.power, self.constant) == (1.0, 0.0)

    def inverse(self) -> Law:
        """The law that leads back."""
        factor, power = self.factor ** (-1 / self.power), 1 / self.power
        return Law(factor, power, -self.constant * factor)

    def describe(self) -> str:
        """``1.03 · t``, ``1 · t + 5 µs`` or ``0.97 · t^1.01``, with t in seconds."""
        power = "" if self.power == 1 else f"^{self.power:.6g}"
        sign = "-" if self.constant < 0 else "+"
        constant = f" {sign} {abs(self.constant) * 1e6:.4g} µs" if self.constant else ""
        return f"{self.factor:.6g} · t{power}{constant}"


@dataclass(frozen=True)
class Agreement:
    """How two submissions agree: `count` of `total` common times are what `law` makes of `one`'s.

    They are so within the relative `width`. `odds` is the decimal logarithm of how many times
    likelier copying makes this than chance, None where the pair is only likely; then `count` of
    `total` runs deviate in the same direction.
    """

    one: str
    other: str
    count: int
    total: int
    law: Law
    width: float
    odds: float | None

    def line_of(self, name: str) -> Line:
        """The agreement as one of its two owners is told of it."""
        forward = self.one == name
        law = self.law.inverse() if forward else self.law
        params = {
            "other": self.other if forward else self.one,
            "count": str(self.count),
            "total": str(self.total),
            "law": law.describe(),
            "width": f"{self.width:.1g}",
            "odds": "" if self.odds is None else f"{min(self.odds, 99):.0f}",
        }
        if self.odds is None:
            return Line("warn", "copies.likely", params=params, submission=name)
        code = "copies.same" if law.is_identity else "copies.computed"
        return Line("fail", code, params=params, submission=name)


def _resolution(result: Result, name: str) -> float:
    """The relative step in which a time can differ from another."""
    seconds = result.numbers.seconds[name]
    clock = EVENT_CLOCK if result.is_sampled else CLOCK
    return max(clock / seconds, 2 * result.numbers.time_rounding.relative_error(seconds))


def _flops_key(result: Result) -> str:
    return f"{result.numbers.forward_flops:.6g}"


def _declared(result: Result) -> str | None:
    """The declared family, None unless the run is wholly declared."""
    run = result.declaration.run
    return family_of(*run).describe() if run and run[1].emb_dim % run[1].num_heads == 0 else None


def _keys(results: Sequence[Result]) -> Iterator[str]:
    """What identifies the run of each file in any submission, whatever device is stated.

    It is the declared family; for a file that is not declared, the family of a declared one with
    the same FLOPs and memory; failing that, FLOPs and memory.
    """
    numbers = [f"{_flops_key(result)} {result.numbers.peak_mib:.9g}" for result in results]
    declared = list(map(_declared, results))
    families = {number: key for number, key in zip(numbers, declared, strict=True) if key}
    for number, key in zip(numbers, declared, strict=True):
        yield key or families.get(number, number)


def _device_of(results: Sequence[Result]) -> str | None:
    """The one device that a submission's files name, whatever way it is written."""
    named = {result.declaration.device_name for result in results}
    return kind_of_device(named.pop()) if len(named) == 1 else None


class _Times:
    """The logarithms of all times, a row for each owner and a column for each run and pass.

    The columns of a run's passes are neighbours. `scatter` is that of the ratios between two rows,
    by their median deviation, and `level` their median; NaN where they share too few times.
    """

    def __init__(self, results: Mapping[str, Sequence[Result]]) -> None:
        keys = _keys([result for own in results.values() for result in own])
        self.names = list(results)
        self.devices = [_device_of(own) for own in results.values()]
        times: list[dict[tuple[str, str], tuple[float, float]]] = []
        for own in results.values():
            times.append({})
            for result, key in zip(own, keys, strict=False):
                for name in PASSES:  # of a run that was handed in twice, the first counts
                    log = math.log(result.numbers.seconds[name])
                    times[-1].setdefault((key, name), (log, _resolution(result, name)))
        columns = sorted({key for own in times for key in own}) or [("", "")]
        self.runs = np.array([key for key, _ in columns])
        cells = [own.get(key, (math.nan, math.nan)) for own in times for key in columns]
        self.logs, self.resolution = np.array(cells).T.reshape(2, len(times), len(columns))
        count = len(times)
        self.scatter, self.level = np.full((count, count), np.nan), np.full((count, count), np.nan)
        for row in range(count):
            ratios = self.logs - self.logs[row]
            level = _row_medians(ratios)
            scatter = 1.4826 * _row_medians(np.abs(ratios - level[:, None]))
            shared = (~np.isnan(ratios)).sum(axis=1) >= LEAST_COMMON
            self.level[row, shared], self.scatter[row, shared] = level[shared], scatter[shared]
            self.scatter[row, row] = np.nan


def _row_medians(values: Floats) -> Floats:
    """The median of each row, its NaN left out; NaN for a row of nothing else."""
    ordered = np.sort(values, axis=1)  # NaN last
    count = (~np.isnan(ordered)).sum(axis=1, keepdims=True)
    middle = np.hstack([np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)])
    return np.asarray(np.take_along_axis(ordered, middle, axis=1).mean(axis=1))


# Certain copies


def _slope(x: Floats, y: Floats) -> float:
    """The median slope between points of the lower and the upper half of `x`."""
    order = np.argsort(x, kind="stable")
    low, high = order[: len(x) // 2], order[-(len(x) // 2) :]
    apart = x[high] > x[low]
    return float(np.median((y[high] - y[low])[apart] / (x[high] - x[low])[apart]))


def _laws(one: Floats, other: Floats) -> Iterator[tuple[Law, Floats]]:
    """Each kind of law, without its factor, and the logarithms of the ratios that it leaves.

    `one` and `other` are logarithms of two owners' common times.
    """
    yield Law(), other - one
    if len(one) < LEAST_COMMON or not np.ptp(one) > 0:
        return
    power = _slope(one, other)
    if power > 0:
        yield Law(power=power), other - power * one
    seconds, theirs = np.exp(one), np.exp(other)
    constant = float(np.median(theirs - _slope(seconds, theirs) * seconds))
    above = theirs > constant
    yield Law(constant=constant), np.log((theirs - constant)[above]) - one[above]


def _certain(times: _Times, row: int, other: int) -> Agreement | None:
    """How two rows agree as no independent measurements do; None if they do not.

    Ratios scatter by √2 `LEAST_SCATTER` at least, so a window holds at most a certain share of
    them. A time in steps coarser than the window agrees as often as its steps allow; the mean share
    bounds the tail, because the count varies most when all shares are equal (Hoeffding 1956).
    """
    logs = times.logs[[row, other]]
    both = ~np.isnan(logs).any(axis=0)
    total = int(both.sum())
    if not total:
        return None
    steps = np.fmax(times.resolution[other], times.resolution[row])[both]
    widths = np.array(WINDOWS)
    shares = erf(np.fmax(steps[:, None], widths) / (4 * LEAST_SCATTER)).mean(axis=0)
    for law, ratios in _laws(*logs[:, both]):
        ordered = np.sort(ratios)
        ends = np.searchsorted(ordered, ordered[:, None] + widths, side="right")
        counts = (ends - np.arange(len(ordered))[:, None]).max(axis=0, initial=0)
        # Any of the ratios can begin the window; the others must fall into it. Any two points can
        # lie on the edges, of four kinds, of a window along a law of two parameters.
        free = 1 if law == Law() else 2
        ways = total if free == 1 else 4 * total**2
        tails = bdtrc(np.maximum(counts - free - 1, 0), max(total - free, 1), shares)
        chances = np.where(counts > free, ways * tails, 1.0)
        best = int(np.argmin(chances))
        if chances[best] < CHANCE:
            break
    else:
        return None
    count, width = int(counts[best]), WINDOWS[best]
    start = int(np.argmax(ordered[count - 1 :] - ordered[: len(ordered) - count + 1] <= width))
    factor = math.exp(float(np.median(ordered[start : start + count])))
    odds = _odds(count, total, float(erf(width / (4 * LEAST_SCATTER))))
    names = times.names[row], times.names[other]
    return Agreement(*names, count, total, replace(law, factor=factor), width, odds)


def _odds(count: int, total: int, share: float) -> float:
    """Decimal logarithm of the likelihood ratio: `count` of `total` by copying, or by chance."""
    found = min(max(count / total, 1e-9), 1 - 0.5 / total)
    share = min(max(share, 1e-12), 1 - 1e-12)
    value = count * math.log10(found / share)
    return value + (total - count) * math.log10((1 - found) / (1 - share))


# Likely copies


def _likely(times: _Times) -> Iterator[Agreement]:
    """The pairs that agree more closely than machines of their kind do."""
    groups: dict[str | None, list[int]] = defaultdict(list)
    for row, device in enumerate(times.devices):
        groups[device].append(row)
    for device, group in groups.items():
        if device is None or len(group) < LEAST_GROUP:
            continue
        scatter = times.scatter[np.ix_(group, group)]
        level = times.level[np.ix_(group, group)]
        close = (scatter < CLOSE) & (np.abs(level) < SAME_LEVEL)
        for i, j in zip(*np.nonzero(np.triu(close, 1)), strict=True):
            others = [k for k in range(len(group)) if k not in (i, j)]
            nearest = np.nanmin(scatter[np.ix_([i, j], others)], initial=math.inf)
            if nearest < APART * scatter[i, j]:
                continue
            count, total, alike = _deviations(times, group, int(i), int(j))
            if alike >= ALIKE:
                names = times.names[group[i]], times.names[group[j]]
                law, width = Law(math.exp(float(level[i, j]))), float(scatter[i, j])
                yield Agreement(*names, count, total, law, width, None)


def _deviations(times: _Times, group: Sequence[int], i: int, j: int) -> tuple[int, int, float]:
    """How many runs of how many deviate in the same direction, and the rank correlation.

    What is usual is the median of the others of the group, of a different half of them for each of
    the two: otherwise its own error would make them alike. A run counts once, because its passes
    are not independent.
    """
    others = [row for k, row in enumerate(group) if k not in (i, j)]
    residuals = []
    for row, half in ((group[i], others[::2]), (group[j], others[1::2])):
        levelled = times.logs[half] - _row_medians(times.logs[half] - times.logs[row])[:, None]
        residuals.append(times.logs[row] - _row_medians(levelled.T))
    both = ~np.isnan(residuals[0] + residuals[1])
    runs = np.unique(times.runs[both], return_inverse=True)[1]
    if not both.any() or runs.max() < LEAST_COMMON // 2 - 1:
        return 0, 0, 0.0
    weights = np.bincount(runs)
    one, other = (np.bincount(runs, residual[both]) / weights for residual in residuals)
    one, other = one - np.median(one), other - np.median(other)
    ranks = np.array([values.argsort().argsort() for values in (one, other)])
    alike = float(np.corrcoef(ranks)[0, 1])
    return int((np.sign(one) == np.sign(other)).sum()), len(one), alike


# Means of others


def _means(times: _Times, told: Mapping[str, set[str]]) -> Iterator[tuple[str, list[str]]]:
    """Owners whose times are weighted means of others': (owner, others).

    A mean of times is a sum with weights that are not negative, and so is, of logarithms, a
    geometric one. `told` are those with whom an owner agrees certainly anyhow.
    """
    for row, name in enumerate(times.names):
        present = ~np.isnan(times.logs[row])
        complete = ~np.isnan(times.logs[:, present]).any(axis=1) & ~np.isnan(times.scatter[row])
        complete[[times.names.index(other) for other in told.get(name, ())]] = False
        sources = np.flatnonzero(complete)[np.argsort(times.scatter[row, complete], kind="stable")]
        sources = sources[: int(present.sum()) // 2]  # the nearest, and fewer than there are times
        if len(sources) < 2:
            continue
        own, theirs = times.logs[row, present], times.logs[np.ix_(sources, present)]
        scale = np.array([np.ones(len(own)), -np.ones(len(own))])  # logarithms of any scale
        tables = (np.exp(theirs - own), np.ones(len(own))), (np.vstack([theirs, scale]), own)
        for table, wanted in tables:
            if (found := _weights(table.T, wanted)) is not None:
                weights = found[: len(sources)]
                most = sources[weights > 1e-3 * weights.max()]
                if len(most) > 1:
                    yield name, [times.names[source] for source in most]
                    break


def _weights(table: Floats, wanted: Floats) -> Floats | None:
    """The weights with which columns give nearly all that is wanted, None if there are none.

    Fitted again and again to the share that fits best, because some times may be original.
    """
    kept = np.arange(len(wanted))
    for _ in range(3):
        try:
            weights, _ = nnls(table[kept], wanted[kept])
        except RuntimeError:  # it found none within its number of steps
            return None
        off = np.abs(table @ weights - wanted)
        kept = np.argsort(off)[: math.ceil(MEAN_SHARE * len(wanted))]
    fits = math.sqrt(float((off[kept] ** 2).mean())) < MEAN_WIDTH
    return np.asarray(weights) if fits and weights.any() else None


# Lines


def _same_files(everyone: Mapping[str, Sequence[Result]]) -> Iterator[Line]:
    """Lines for single files whose times, or samples, equal those of somebody else's file.

    Equal times of one file are a warning, because a coarse clock repeats; equal samples, all of
    them in the same order, are none of chance.
    """
    found: dict[tuple[Any, ...], list[tuple[str, str]]] = defaultdict(list)
    for owner, own in everyone.items():
        for result in own:
            seconds = [result.numbers.seconds[name] for name in PASSES]
            # A median of single calls repeats; its samples are compared instead.
            coarse = max(_resolution(result, name) for name in PASSES) > COARSE
            if not coarse and not result.is_sampled:
                key = "warn", "copies.file", _flops_key(result), *seconds
                found[key].append((owner, result.name))
            if result.fingerprint:
                found["fail", "copies.samples", result.fingerprint].append((owner, result.name))
    for (verdict, code, *_), owners in found.items():
        for owner, file in owners:
            other = next((name for name, _ in owners if name != owner), None)
            if other is not None:
                yield Line(verdict, code, file, {"other": other}, submission=owner)


def _lines_of_pairs(everyone: Mapping[str, Sequence[Result]]) -> Iterator[Line]:
    """Lines about two owners, or more, of which the published datasets are some."""
    times = _Times(everyone)
    told: dict[str, set[str]] = defaultdict(set)

    def both(agreement: Agreement) -> Iterator[Line]:
        for name, other in (agreement.one, agreement.other), (agreement.other, agreement.one):
            told[name].add(other)
            yield agreement.line_of(name)

    for row, other in combinations(range(len(times.names)), 2):
        if certain := _certain(times, row, other):
            yield from both(certain)
    for name, others in list(_means(times, told)):
        told[name] |= set(others)
        params = {"others": "\0".join(others)}
        yield Line("fail", "copies.average", params=params, submission=name)
    for likely in _likely(times):
        if likely.other not in told[likely.one]:
            yield from both(likely)
    files: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in _same_files(everyone):
        if line.params["other"] not in told[line.submission]:
            files[line.submission, line.params["other"]].append(line)
    for (name, source), lines in files.items():
        if len(lines) >= EQUAL_FILES:
            count = 2 * len(lines)
            yield Agreement(name, source, count, count, Law(), WINDOWS[0], 99.0).line_of(name)
        else:
            yield from lines


def copies_between(
    results: Mapping[str, Sequence[Result]], published: Mapping[str, Sequence[Result]]
) -> Iterator[Line]:
    """Lines for the submissions whose times agree with another's, or with a published dataset's.

    A submission without any has a line that says how far it was compared. `results` are each
    submission's files, `published` those of recorded datasets, whose names no submission has.
    """
    everyone = {**published, **results}
    lines = [line for line in _lines_of_pairs(everyone) if line.submission in results]
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
