"""Check 7, copies: times that agree more closely than independent measurements do.

Two measurements of one run differ, so the logarithms of the ratios between two submissions' times
scatter. Copied times share one ratio: 1, or the constant that they were scaled by, give or take
some jitter. Two tests decide, and both state how much likelier copying makes what was found:

- **certain** (`fail`): so many ratios lie within a narrow window that even two measurements at
  locked clocks, which scatter by `LEAST_SCATTER`, would not give it once in 1,000 classes.
- **likely** (`warn`): the pair agrees far more closely than either does with the others of its
  kind, and its deviations from what is usual go the same way. That is independent of how much
  honest measurements scatter, but two students may also have used one unusual machine.

The sheet joins agreeing pairs to clusters (`causes`). Equal memory proves nothing, because it is
exact.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, erf

from flashlab_grading.model import Line, Result, Verdict
from flashlab_grading.points import family_of

PASSES = ("forward", "backward")
Floats = NDArray[np.float64]

LEAST_SCATTER = 1e-4
"""Relative scatter between measurements of one run that is taken to be the least there is: half of
the least that was seen, 0.024% in 17 recordings of one run on one H200."""

LEAST_PAIR_SCATTER = 3.3e-3
"""The least scatter of the ratios between two of those recordings, over 16 times (136 pairs)."""

WINDOWS = (1e-9, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 4e-3, 6e-3)
"""Relative widths within which ratios count as equal."""

CERTAIN_WINDOWS = 7
"""How many of them are narrower than `LEAST_SCATTER` scatters two measurements apart."""

CHANCE = 1e-9
"""The probability, for a pair and a window, below which agreement is no coincidence."""

FALSE_ALARMS = 1e-3
"""Innocent classes in which any pair is reported, at most: of all pairs together."""

CLOCK = 1e-9 / 30
"""Seconds that the course's timer resolves: a nanosecond, of 30 calls together."""

EVENT_CLOCK = 1e-6
"""Seconds that single calls are timed to: a median of them repeats."""

MEAN_WIDTH = 1e-5
"""Relative width within which a time is taken to be the mean of two others'."""

TRIED = 4
"""Times of which a mean is tried before all others are."""

COARSE = 1e-3
"""Relative resolution of a time above which its agreement with another shows nothing."""

LEAST_PAIRS = 10
"""Fewest pairs that show how often this class's clocks give equal times by themselves."""

LEAST_COMMON = 12
"""Fewest times that two submissions must share to be compared with the class."""

NEIGHBOURS = 6
"""Fewest other submissions from which what is usual can be told."""

MOST_NEIGHBOURS = 24
"""Others that what is usual is taken from, at most; a quarter of a large class."""

FITS = 8
"""Fits of a machine's trends, each with what is disturbed weighed less."""

CLOSER = 0.6
"""How much closer than usual a pair must be to be looked at."""

REPETITIVE = 0.2
"""Share of its runs that a submission may hold more than once before all of them are compared: the
first of each might be a decoy."""

EQUAL_FILES = 3
"""Fewest files with equal times that are a copy, whatever they are declared as."""

MOST_ALIKE = 64
"""Most files of equal FLOPs in a submission that are compared each with each."""

MOST_FOR_AVERAGES = 200
"""Most submissions among which averages of two others are looked for: there are n³ of them."""


@dataclass(frozen=True)
class Agreement:
    """How two submissions agree: `count` of `total` common times have `ratio` within `width`.

    `odds` is the decimal logarithm of how many times likelier copying makes this than chance.
    `certain` is False where the class, and not the least scatter, tells them apart.
    """

    one: str
    other: str
    count: int
    total: int
    ratio: float
    width: float
    odds: float
    certain: bool


@dataclass(frozen=True)
class _Time:
    log: float
    resolution: float


def _resolution(result: Result, name: str) -> float:
    """The relative step in which a time can differ from another."""
    seconds = result.numbers.seconds[name]
    clock = EVENT_CLOCK if result.is_sampled else CLOCK
    return max(clock / seconds, 2 * result.numbers.rounding.relative_error(seconds))


def _flops_key(result: Result) -> str:
    return f"{result.numbers.forward_flops:.6g}"


Key = tuple[str, ...]


class _Keys:
    """What identifies a run in any submission, whatever device or memory is stated.

    It is the declared family; for a file that is not declared, the family of a declared one with
    the same FLOPs and memory; failing that, FLOPs and memory.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self.families: dict[tuple[str, float], Key] = {}
        for result in results:
            if key := self._declared(result):
                self.families.setdefault((_flops_key(result), result.numbers.peak_mib), key)

    @staticmethod
    def _declared(result: Result) -> Key | None:
        implementation, shape = result.declaration.implementation, result.declaration.shape
        if implementation is None or shape is None or shape.emb_dim % shape.num_heads:
            return None
        return (family_of(implementation, shape).describe(),)

    def of(self, result: Result) -> Key:
        numbers = _flops_key(result), result.numbers.peak_mib
        found = self._declared(result) or self.families.get(numbers)
        return found or (numbers[0], f"{numbers[1]:.9g}")


class _Class:
    """The logarithms of all times, a row for each owner and a column for each run and pass."""

    def __init__(self, results: Mapping[str, Sequence[Result]]) -> None:
        keys = _Keys(result for own in results.values() for result in own)
        self.names = list(results)
        self.by_flops: list[dict[tuple[str, str], list[_Time]]] = []
        first: list[dict[tuple[Key, str], _Time]] = []
        self.is_repetitive = np.zeros(len(self.names), dtype=bool)
        for row, own in enumerate(results.values()):
            times: dict[tuple[Key, str], _Time] = {}
            by_flops: dict[tuple[str, str], list[_Time]] = defaultdict(list)
            repeated = 0
            for result in own:
                key = keys.of(result)
                for name in PASSES:
                    time = _Time(math.log(result.numbers.seconds[name]), _resolution(result, name))
                    repeated += (key, name) in times
                    times.setdefault((key, name), time)
                    if len(by_flops[_flops_key(result), name]) < MOST_ALIKE:
                        by_flops[_flops_key(result), name].append(time)
            self.is_repetitive[row] = repeated > REPETITIVE * len(times)
            first.append(times)
            self.by_flops.append(by_flops)
        columns = {key: i for i, key in enumerate(sorted({key for own in first for key in own}))}
        shape = (len(self.names), len(columns))
        self.logs, self.resolution = np.full(shape, np.nan), np.full(shape, np.nan)
        for row, times in enumerate(first):
            for column, time in times.items():
                self.logs[row, columns[column]] = time.log
                self.resolution[row, columns[column]] = time.resolution
        self.is_backward = np.array([name == "backward" for _, name in columns], dtype=float)
        flops = sorted({key for own in self.by_flops for key in own})
        present = np.array([[key in own for key in flops] for own in self.by_flops], dtype=int)
        has = (~np.isnan(self.logs)).astype(int)
        self.shared = has @ has.T
        # Runs of the same FLOPs that are not recognized as the same run.
        self.disguised = (present @ present.T > 0) & (self.shared == 0)

    def pairs_to_look_into(self, row: int) -> list[int]:
        """Later rows whose files of a run must be compared each with each."""
        later = np.arange(row + 1, len(self.names))
        repetitive = self.is_repetitive[row] | self.is_repetitive[later]
        chosen = repetitive | self.disguised[row, later]
        return [int(other) for other in later[chosen]]

    def ratios_each_with_each(self, row: int, other: int) -> tuple[Floats, Floats]:
        """Log ratios of all files of equal FLOPs, with their resolutions."""
        mine, theirs = self.by_flops[row], self.by_flops[other]
        found = [
            (b.log - a.log, max(a.resolution, b.resolution))
            for key in mine.keys() & theirs.keys()
            for a, b in product(mine[key], theirs[key])
        ]
        pairs = np.array(found, dtype=float).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def _share_within(width: Floats, scatter: float) -> Floats:
    """The largest share of normal ratios with this scatter that a window of `width` can hold."""
    found: Floats = erf(width / (2 * math.sqrt(2) * scatter))
    return found


def _row_medians(values: Floats) -> Floats:
    """The median of each row, its NaN left out; NaN for a row of nothing else."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)
    counts = (~np.isnan(ordered)).sum(axis=1)
    rows = np.arange(len(values))
    low, high = np.maximum((counts - 1) // 2, 0), np.minimum(counts // 2, values.shape[1] - 1)
    found: Floats = (ordered[rows, low] + ordered[rows, high]) / 2
    return found


def _weighted_medians(values: Floats, weights: Floats) -> Floats:
    """The weighted median of each row, its NaN left out; NaN for a row of nothing else."""
    order = np.argsort(values, axis=1)  # NaN last
    ordered = np.take_along_axis(values, order, axis=1)
    present = ~np.isnan(ordered)
    heaps = np.cumsum(np.where(present, weights[order], 0.0), axis=1)
    places = (heaps < heaps[:, -1:] / 2).sum(axis=1)
    found: Floats = ordered[np.arange(len(values)), np.minimum(places, values.shape[1] - 1)]
    return found


@dataclass(frozen=True)
class _Scan:
    """For each of many pairs, the number of ratios in the fullest window of each width.

    `shares` are the largest mean shares of the ratios that such windows hold by chance.
    """

    totals: NDArray[np.int16]
    counts: NDArray[np.int16]
    shares: NDArray[np.float32]


def _scan(ratios: Floats, resolution: Floats, windows: Sequence[float], scatter: float) -> _Scan:
    """Count ratios in windows, for rows of ratios (a pair each) of which NaN is no ratio.

    Ratios scatter by `scatter` at least, so a window holds at most a certain share of them. A time
    in steps coarser than the window agrees as often as its steps allow; the mean share bounds the
    tail, because the count varies most when all shares are equal (Hoeffding 1956).
    """
    ordered = np.sort(ratios, axis=1)
    valid = ~np.isnan(ordered)
    totals = valid.sum(axis=1)
    counts = np.zeros((len(ratios), len(windows)), dtype=np.int16)
    shares = np.zeros((len(ratios), len(windows)), dtype=np.float32)
    rows = np.flatnonzero(totals)
    if len(rows):
        # One search for all rows: each is shifted so far that no window reaches the next.
        flat = (ordered + 60.0 * np.arange(len(ratios))[:, None])[valid]
        begins = np.concatenate([[0], np.cumsum(totals[rows])[:-1]])
        positions = np.arange(len(flat))
        steps = np.where(np.isnan(ratios), np.nan, resolution)
        for i, width in enumerate(windows):
            inside = np.searchsorted(flat, flat + width, side="right") - positions
            counts[rows, i] = np.maximum.reduceat(inside, begins)
            within = _share_within(np.fmax(steps, width), scatter)
            shares[:, i] = np.where(np.isnan(steps), 0, within).sum(axis=1) / np.maximum(totals, 1)
    return _Scan(totals.astype(np.int16), counts, shares)


def _coincidence(scan: _Scan, usual: Floats | float = 0.0) -> Floats:
    """The probability of each pair's fullest windows, had both been measured independently.

    `usual` are the shares that such windows hold in most pairs, where a class is there to tell.
    """
    totals, counts = scan.totals[:, None].astype(np.int64), scan.counts.astype(float)
    # Any of the ratios can begin the window; the others must fall into it.
    tails = bdtrc(
        np.maximum(counts - 2, 0),
        np.maximum(totals - 1, 1),
        np.minimum(np.fmax(scan.shares, usual), 1),
    )
    found: Floats = np.where(counts >= 2, np.minimum(1, totals * tails), 1.0)
    return found


def _usual_shares(scans: Sequence[_Scan]) -> Floats | float:
    """The share of the ratios that the fullest windows hold in most pairs, beyond one."""
    shares = [
        (scan.counts[scan.totals >= LEAST_COMMON] - 1.0)
        / scan.totals[scan.totals >= LEAST_COMMON][:, None]
        for scan in scans
    ]
    together = np.concatenate(shares) if shares else np.empty((0, CERTAIN_WINDOWS))
    if len(together) < LEAST_PAIRS:
        return 0.0
    found: Floats = np.median(together, axis=0)
    return found


def _ratio_of_window(ratios: Floats, width: float) -> float:
    """The middle of the ratios in the fullest window."""
    ordered = np.sort(ratios[~np.isnan(ratios)])
    ends = np.searchsorted(ordered, ordered + width, side="right")
    start = int((ends - np.arange(len(ordered))).argmax())
    return math.exp(float(np.median(ordered[start : ends[start]])))


def _odds(count: int, total: int, share: float) -> float:
    """Decimal logarithm of the likelihood ratio: `count` of `total` by copying, or by chance."""
    found = min(max(count / total, 1e-9), 1 - 0.5 / total)
    share = min(max(share, 1e-12), 1 - 1e-12)
    value = count * math.log10(found / share)
    return value + (total - count) * math.log10((1 - found) / (1 - share))


CERTAIN = WINDOWS[:CERTAIN_WINDOWS]
LEAST_OF_TWO = math.sqrt(2) * LEAST_SCATTER
"""The least scatter of the ratios between two measurements."""


def _share_of(width: float, scatter: float) -> float:
    return float(_share_within(np.array([width]), scatter)[0])


@dataclass(frozen=True)
class _Found:
    """How a pair agrees: the fields of an `Agreement` without its names."""

    count: int
    total: int
    ratio: float
    width: float
    odds: float


def _certain(ratios: Floats, scan: _Scan, usual: Floats | float) -> Iterator[tuple[int, _Found]]:
    """The pairs (rows) that no independent measurements give."""
    chances = _coincidence(scan, usual)
    for row in np.flatnonzero((chances < CHANCE).any(axis=1)).tolist():
        yield row, _best_window(ratios[row], scan, row, chances[row], CERTAIN, LEAST_OF_TWO)


def _best_window(
    ratios: Floats, scan: _Scan, row: int, chances: Floats, windows: Sequence[float], scatter: float
) -> _Found:
    best = int(np.argmin(chances))
    count, total, width = int(scan.counts[row, best]), int(scan.totals[row]), windows[best]
    odds = _odds(count, total, _share_of(width, scatter))
    return _Found(count, total, _ratio_of_window(ratios, width), width, odds)


def _without_trends(logs: Floats, is_backward: Floats) -> Floats:
    """The logarithms without what a machine's kind explains, a row for each submission.

    A machine may be slower in all, at short times, or in one pass. Such trends, over what is usual
    for each time, are fitted and taken off, so that what is particular to single runs remains. What
    is disturbed counts little in the fit.
    """
    levels = _row_medians(logs - _row_medians(logs.T))
    usual = _row_medians((logs - levels[:, None]).T)
    found = logs - levels[:, None] - usual
    for row in found:
        present = ~np.isnan(row)
        if present.sum() < LEAST_COMMON:
            continue
        length = usual[present] - usual[present].mean()
        backward = is_backward[present]
        trend = np.column_stack(
            [np.ones_like(length), length, length**2, backward, backward * length]
        )
        own, fitted = row[present], np.zeros(int(present.sum()))
        project = trend @ np.linalg.pinv(trend)
        for _ in range(FITS):  # each time, what is far from the fit is pulled nearer to it
            off = own - fitted
            spread = 2 * 1.4826 * np.median(np.abs(off - np.median(off)))
            fitted = project @ (fitted + np.clip(off, -spread, spread))
        row[present] = own - fitted
    return found


def _scatters(logs: Floats, row: int) -> Floats:
    """The scatter of the ratios between one row and every row, by their median deviation."""
    differences = logs - logs[row]
    levels = _row_medians(differences)
    found: Floats = 1.4826 * _row_medians(np.abs(differences - levels[:, None]))
    return found


class _Usual:
    """How closely submissions agree that were measured independently, judging by the class."""

    def __init__(self, of_class: _Class) -> None:
        self.of_class = of_class
        self.logs = _without_trends(of_class.logs, of_class.is_backward)
        count = len(self.logs)
        scatters = [_scatters(self.logs, row) for row in range(count)]
        self.scatter = np.array(scatters).reshape(count, count)
        comparable = of_class.shared >= LEAST_COMMON
        np.fill_diagonal(comparable, False)
        self.scatter[~comparable] = np.nan
        self.neighbours = comparable.sum(axis=1)
        ordered = np.sort(self.scatter, axis=1)
        # What is usual for its kind: closer than most of the class, but not the closest pair.
        places = np.minimum(np.maximum(2, self.neighbours // 4), np.maximum(self.neighbours - 1, 0))
        self.usual = ordered[np.arange(count), places] if count else ordered[:, 0]

    def close_pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs that are much closer to each other than either is to others of its kind."""
        known = self.neighbours >= NEIGHBOURS
        limit = CLOSER * np.minimum(self.usual[:, None], self.usual[None, :])
        close = (self.scatter < limit) & known[:, None] & known[None, :]
        for i, j in zip(*np.nonzero(np.triu(close)), strict=True):
            yield int(i), int(j)

    def close_without_class(self) -> Iterator[tuple[int, int]]:
        """Pairs to compare with recorded measurements, for want of a class."""
        few = self.neighbours < NEIGHBOURS
        compared = ~np.isnan(self.scatter) & (few[:, None] | few[None, :])
        close = compared & (self.scatter < LEAST_PAIR_SCATTER)
        if compared.sum() > 2 and (close == compared).all():
            return  # all are as close as this, so it is what their machine does
        for i, j in zip(*np.nonzero(np.triu(close)), strict=True):
            yield int(i), int(j)

    def agreement(self, i: int, j: int) -> Agreement | None:
        """How often two submissions deviate in the same direction from what is usual.

        What is usual is the median of others, a different half of them for each of the two, so
        that nothing but copying, or a machine of their own, makes their deviations agree.
        """
        together = self.scatter[i] + self.scatter[j]
        mutual = self.scatter < CLOSER * np.minimum(self.usual[:, None], self.usual[None, :])
        others = ~(mutual[i] | mutual[j]) & ~np.isnan(together)
        others[[i, j]] = False
        order = np.flatnonzero(others)[np.argsort(together[others], kind="stable")]
        order = order[: max(MOST_NEIGHBOURS, len(self.scatter) // 4)]
        if len(order) < NEIGHBOURS:
            return None
        first = self._deviations(i, order[::2])
        second = self._deviations(j, order[1::2])
        both = ~np.isnan(first) & ~np.isnan(second)
        total = int(both.sum())
        if total < LEAST_COMMON:
            return None
        count = int((np.sign(first[both]) == np.sign(second[both])).sum())
        chance = float(bdtrc(count - 1, total, 0.5))
        pairs = len(self.scatter) * (len(self.scatter) - 1) / 2
        if chance * pairs > FALSE_ALARMS:
            return None
        return self._described(i, j, count, total, _odds(count, total, 0.5))

    def _described(self, i: int, j: int, count: int, total: int, odds: float) -> Agreement:
        names, logs = self.of_class.names, self.of_class.logs
        ratio = float(np.nanmedian(logs[j] - logs[i]))
        width = float(self.scatter[i, j])
        return Agreement(
            names[i], names[j], count, total, math.exp(ratio), width, odds, certain=False
        )

    def _deviations(self, row: int, others: NDArray[np.int64]) -> Floats:
        """A row's deviations from what is usual, for which the quietest others count most.

        What is usual is a mean in which whatever is far from the median counts little.
        """
        own = self.logs[row]
        levelled = self.logs[others] - _row_medians(self.logs[others] - own)[:, None]
        scatter = np.fmax(self.scatter[row, others], LEAST_OF_TWO)[:, None]
        weights = np.where(np.isnan(levelled), 0.0, 1 / scatter**2)
        median = _weighted_medians(levelled.T, weights[:, 0])
        off = np.nan_to_num(np.clip(levelled - median, -scatter, scatter))
        usual = median + (weights * off).sum(axis=0) / np.fmax(weights.sum(axis=0), 1e-300)
        found: Floats = own - usual
        return found - np.nanmedian(found)


def _likely(of_class: _Class) -> Iterator[Agreement]:
    """The pairs that agree more closely than the class, or the recordings of one GPU, explain."""
    usual, names = _Usual(of_class), of_class.names
    for i, j in usual.close_pairs():
        if found := usual.agreement(i, j):
            yield found
    for i, j in usual.close_without_class():
        ratios = (of_class.logs[j] - of_class.logs[i])[None, :]
        resolution = np.fmax(of_class.resolution[i], of_class.resolution[j])[None, :]
        scan = _scan(ratios, resolution, WINDOWS, LEAST_PAIR_SCATTER)
        chances = _coincidence(scan)
        if chances.min() < CHANCE:
            window = _best_window(ratios[0], scan, 0, chances[0], WINDOWS, LEAST_PAIR_SCATTER)
            yield _agreement(names[i], names[j], window, certain=False)


def _agreement(one: str, other: str, found: _Found, certain: bool) -> Agreement:
    numbers = (found.count, found.total, found.ratio, found.width, found.odds)
    return Agreement(one, other, *numbers, certain=certain)


def agreements(of_class: _Class) -> list[Agreement]:
    """The pairs of owners whose times agree as copies do, each once; the certain ones first."""
    names, logs, resolution = of_class.names, of_class.logs, of_class.resolution
    found: dict[tuple[str, str], Agreement] = {}
    scans = [
        _scan(
            logs[row + 1 :] - logs[row],
            np.fmax(resolution[row + 1 :], resolution[row]),
            CERTAIN,
            LEAST_OF_TWO,
        )
        for row in range(len(names) - 1)
    ]
    usual = _usual_shares(scans)
    for row, scan in enumerate(scans):
        for later, window in _certain(logs[row + 1 :] - logs[row], scan, usual):
            pair = names[row], names[row + 1 + later]
            found[pair] = _agreement(*pair, window, certain=True)
        for other in of_class.pairs_to_look_into(row):
            ratios, steps = of_class.ratios_each_with_each(row, other)
            for _, window in _certain(
                ratios[None, :],
                _scan(ratios[None, :], steps[None, :], CERTAIN, LEAST_OF_TWO),
                usual,
            ):
                pair = names[row], names[other]
                found.setdefault(pair, _agreement(*pair, window, certain=True))
    for agreement in _likely(of_class):
        found.setdefault((agreement.one, agreement.other), agreement)
    return list(found.values())


# Averages of two others


def _averages(of_class: _Class) -> Iterator[tuple[str, str, str, int]]:
    """Owners whose times are the means of two others' times: (owner, one, other, count)."""
    names, logs = of_class.names, of_class.logs
    if not 3 <= len(names) <= MOST_FOR_AVERAGES:
        return
    ones, others = np.triu_indices(len(names), k=1)
    times = np.exp(logs)
    for row in range(len(names)):
        present = np.flatnonzero(~np.isnan(logs[row]))
        if len(present) < LEAST_COMMON:
            continue
        few = present[:: max(1, len(present) // TRIED)][:TRIED]
        sums = times[:, few] / times[row, few]
        products = np.sqrt(sums)
        for together in (sums[ones] + sums[others], products[ones] * products[others]):
            alike = np.ptp(together, axis=1) < TRIED * MEAN_WIDTH * together[:, 0]
            for place in np.flatnonzero(alike & (ones != row) & (others != row)).tolist():
                one, other = int(ones[place]), int(others[place])
                count = _agreeing_means(logs[row], logs[one], logs[other])
                if count:
                    yield names[row], names[one], names[other], count


def _agreeing_means(own: Floats, one: Floats, other: Floats) -> int:
    """How many times are one constant times a mean of two others'; 0 unless most of them are."""
    most = 0
    own, one, other = (x[~np.isnan(own + one + other)] for x in (own, one, other))
    for mean in (np.logaddexp(one, other), (one + other) / 2):
        off = mean - own
        count = int((np.abs(off - np.median(off)) <= MEAN_WIDTH).sum())
        if count >= max(LEAST_COMMON, 0.8 * len(off)):
            most = max(most, count)
    return most


# Lines


def _line_of(name: str, agreement: Agreement) -> Line:
    """An agreement as one of its two owners is told of it."""
    forward = agreement.one == name
    other = agreement.other if forward else agreement.one
    ratio = 1 / agreement.ratio if forward else agreement.ratio
    verdict: Verdict = "fail" if agreement.certain else "warn"
    if not agreement.certain:
        code = "copies.likely"
    elif abs(math.log(agreement.ratio)) < 1e-3:
        code = "copies.same"
    else:
        code = "copies.scaled"
    params = {
        "other": other,
        "count": str(agreement.count),
        "total": str(agreement.total),
        "ratio": f"{ratio:.6g}",
        "width": f"{agreement.width:.1g}",
        "odds": f"{min(agreement.odds, 99):.0f}",
    }
    return Line(name, "", "copies", verdict, code, params)


def copies_between(
    results: Mapping[str, Sequence[Result]], published: Mapping[str, Sequence[Result]]
) -> Iterator[Line]:
    """Lines for the submissions whose times agree with another's, or with a published dataset's.

    Args:
        results: each submission's files, by its name.
        published: the results of recorded datasets, by a name that no submission has.
    """
    everyone = {**published, **results}
    of_class = _Class(everyone)
    found = agreements(of_class)
    told: set[tuple[str, str]] = set()
    for agreement in found:
        for name in (agreement.one, agreement.other):
            if name in results:
                told.add((name, agreement.other if name == agreement.one else agreement.one))
                yield _line_of(name, agreement)
    for name, one, other, count in _averages(of_class):
        if name in results and not any((name, x) in told for x in everyone):
            params = {"one": one, "other": other, "count": str(count)}
            yield Line(name, "", "copies", "fail", "copies.average", params)
    files = [
        line
        for line in _same_files(results, published)
        if (line.submission, line.params["other"]) not in told
    ]
    equal = Counter((line.submission, line.params["other"]) for line in files)
    for (name, other), count in equal.items():
        if count >= EQUAL_FILES:
            same = Agreement(name, other, 2 * count, 2 * count, 1.0, WINDOWS[0], 99.0, certain=True)
            yield _line_of(name, same)
    yield from (
        line for line in files if equal[line.submission, line.params["other"]] < EQUAL_FILES
    )
    for name, own in results.items():
        times = [_resolution(result, passed) for result in own for passed in PASSES]
        coarse = sum(step > COARSE for step in times)
        if times and coarse > len(times) / 2 and not any(own == name for own, _ in told):
            yield Line(name, "", "copies", "not_checked", "copies.rounded")


def _same_files(
    results: Mapping[str, Sequence[Result]], published: Mapping[str, Sequence[Result]]
) -> Iterator[Line]:
    """Lines for single files whose times, or samples, equal those of somebody else's file.

    Equal times of one file are a warning, because a coarse clock repeats; equal samples, all of
    them in the same order, are none of chance.
    """
    times: dict[tuple[object, ...], list[tuple[str, str]]] = defaultdict(list)
    for owner, own in {**published, **results}.items():
        for result in own:
            seconds = [result.numbers.seconds[name] for name in PASSES]
            # A median of single calls repeats; its samples are compared instead.
            coarse = max(_resolution(result, name) for name in PASSES) > COARSE
            if not coarse and not result.is_sampled:
                times[_flops_key(result), *seconds].append((owner, result.name))
            if result.fingerprint:
                times["samples", result.fingerprint].append((owner, result.name))
    for key, owners in times.items():
        sampled = key[0] == "samples"
        for owner, file in owners:
            other = next((name for name, _ in owners if name != owner), None)
            if other is None or owner not in results:
                continue
            verdict: Verdict = "fail" if sampled else "warn"
            code = "copies.samples" if sampled else "copies.file"
            yield Line(owner, file, "copies", verdict, code, {"other": other})
