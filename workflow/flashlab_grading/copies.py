"""Check 7, copies: times that agree more closely than independent measurements do.

The ratios between two submissions' times scatter; copied times share one ratio. Rounded times are
equal as far as they are rounded. So many agree that measurements at locked clocks, which scatter by
`LEAST_SCATTER`, would not do so once in 1,000 classes (**certain**); or that only measurements
quieter than any two known recordings would (**likely**). Within a submission, no two runs' times
follow from one another. Times by a clock that is coarser than they are show nothing of this.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, erf, gammaln

from flashlab.lab5.assigning import File, stated
from flashlab.lab5.checks import Line, Verdict
from flashlab.lab5.results import Result
from flashlab.lab5.said import ATTRIBUTES, described
from flashlab_grading.model import PASSES, Submission, family
from flashlab_grading.plausibility import Point, sweeps_of

Floats = NDArray[np.float64]

LEAST_SCATTER, QUIET_SCATTER = 1e-4, 1e-3
"""Assumed least relative scatter between measurements of one run: half of the least that was seen,
0.024% in 17 recordings of one run on one H200; and what whole recordings exceed, of which the
closest of 136 pairs scatter by 0.33%."""

WIDTHS = np.array([1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 2e-4])
"""Relative widths within which ratios count as equal; a wider one holds too many by chance."""

CHANCE = 1e-9
"""Probability, for a pair and a width, below which agreement is no coincidence."""

CALLS = 30
"""Calls that the course's script times together."""

CLOCK, EVENT_CLOCK = 1e-9 / CALLS, 1e-6
"""Seconds that a time is resolved to: by the course's timer; by calls, whose median repeats."""

STEPS = (1e-3, 20e-3)
"""Seconds of the steps of coarse clocks: 1 to 16 ms on Windows."""

FEW, MOST_STEPS = 6, 2000
"""Fewest different times that show a clock's step, and most steps of the shortest of them."""

COARSE = 2e-2
"""Relative resolution of a time above which its agreement with another shows nothing."""

EQUAL_FILES = 3
"""Fewest files with equal times that are a copy, whatever they are declared as."""

MOST = 0.5
"""Share of a submission's files that agree with others' from which it fails. Of fewer, one of the
two has copied, and which one is unknown."""

MEAN_WIDTH, MEAN_SHARE = 1e-6, 0.8
"""Relative deviation of a time from the mean of others', and the share of times that must be so."""

TELLING = 12
"""Fewest different samples of a pass that two records do not share by chance."""

EXACT, PROPORTIONAL, FINE = 1e-7, 1e-10, 1e-8
"""Relative difference below which numbers are computed from one another: two measurements differ by
1e-4 at least, so both passes do by chance once in a million pairs; the same for the ratio of both
passes alone, of which a submission has 630 pairs; rounding above which numbers are too coarse."""


@dataclass(frozen=True)
class Compared:
    """A submission, or a published dataset, as it is compared with others.

    Attributes:
        results: its results.
        runs: the run of each by file, in any text that is the same for the same run.
        step: the seconds of its clock's step in a call, 0 if that is finer than its times.
        prints: by file, of sampled records, a digest of the samples; empty if they may repeat.
    """

    results: Sequence[Result]
    runs: Mapping[str, str]
    step: float = 0.0
    prints: Mapping[str, str] = field(default_factory=dict)


def clock_step(results: Sequence[Result]) -> float:
    """The seconds of a clock's step in the mean of `CALLS` calls, where all times are multiples.

    0 where they are multiples of none in the range of `STEPS`, or too few to tell.
    """
    totals = sorted({CALLS * result.seconds[name] for result in results for name in PASSES})
    if len(totals) < FEW or totals[0] > MOST_STEPS * STEPS[0]:
        return 0.0
    low, high = STEPS
    first = max(1, math.floor(totals[0] / high))
    for count in range(first, math.floor(1.001 * totals[0] / low) + 1):
        step = totals[0] / count
        for total in totals:  # each longer one says more exactly what the step is
            multiple = round(total / step)
            if abs(total / step - multiple) > 0.02:
                break
            step = total / multiple
        else:
            return step / CALLS
    return 0.0


def _roundings(result: Result) -> list[float]:
    """The relative steps in which somebody has rounded the times of both passes; 0 for nobody."""
    seconds = [result.seconds[name] for name in PASSES]
    texts = [Decimal(repr(value)).normalize().as_tuple() for value in seconds]
    decimals = max(-int(text.exponent) for text in texts)
    digits = max(len(text.digits) for text in texts)
    by_decimals = 10.0**-decimals if decimals <= 9 else 0.0
    powers = [1 + math.floor(math.log10(value)) - digits for value in seconds]
    by_digits = [10.0**power if digits <= 9 else 0.0 for power in powers]
    return [max(by_decimals, own) / value for own, value in zip(by_digits, seconds, strict=True)]


def _resolutions(result: Result, is_sampled: bool) -> list[float]:
    """The relative steps in which the times of both passes can differ from others."""
    clock = EVENT_CLOCK if is_sampled else CLOCK
    pairs = zip(PASSES, _roundings(result), strict=True)
    return [max(clock / result.seconds[name], rounding) for name, rounding in pairs]


def compared_of(submission: Submission, files: Iterable[File] = ()) -> Compared:
    """What of a submission is compared with others.

    The run of each result is that of `files`, or the stated one, or its numbers.
    """
    runs, prints = dict[str, str](), dict[str, str]()
    options = {file.result.name: file.options for file in files}
    for result in submission.results:
        option = stated({**result.hinted, **result.said})
        known = {family(each) for each in options.get(result.name) or [option] if each}
        numbers = f"{result.forward_flops:.6g} {result.peak_mib:.9g}"
        runs[result.name] = str(*known) if len(known) == 1 else numbers
        samples = submission.samples.get(result.name)
        if samples:
            telling = all(len({*values}) >= TELLING for values in samples.values())
            digest = hashlib.sha256(repr([*samples.values()]).encode()).hexdigest()
            prints[result.name] = digest if telling else ""
    unsampled = [result for result in submission.results if result.name not in prints]
    step = clock_step(unsampled) if unsampled else 0.0
    results = [replace(result, document={}) for result in submission.results]
    return Compared(results, runs, step, prints)


@dataclass(frozen=True)
class _Table:
    """The logarithms of all times and their resolutions: a row an owner, two columns a run.

    NaN where an owner has no such run; of one that was handed in twice, the first counts, whose
    name is in `files`.
    """

    names: Sequence[str]
    logs: Floats
    steps: Floats
    files: Sequence[Mapping[int, str]]


def _table(everyone: Mapping[str, Compared]) -> _Table:
    keys = {run: i for i, run in enumerate({r for c in everyone.values() for r in c.runs.values()})}
    logs = np.full((len(everyone), 2 * len(keys)), np.nan)
    steps, files = logs.copy(), list[dict[int, str]]()
    for row, own in enumerate(everyone.values()):
        files.append({})
        for result in own.results:
            column = 2 * keys[own.runs[result.name]]
            if column not in files[row]:
                files[row] |= dict.fromkeys((column, column + 1), result.name)
                times = [math.log(result.seconds[name]) for name in PASSES]
                logs[row, column : column + 2] = times
                steps[row, column : column + 2] = _resolutions(result, result.name in own.prints)
    return _Table([*everyone], logs, steps, files)


# Two submissions


@dataclass(frozen=True)
class _Agreement:
    """An agreement of two owners that no independent measurements have."""

    code: str
    inside: NDArray[np.bool_]
    ratio: float
    width: float
    chance: float


def _chances(ways: float, counts: Floats, shares: Floats, free: int) -> Floats:
    """The probability that so many of the times fall within each width, an upper bound of it.

    Each time falls into it with a share of its own. The mean share bounds the tail, because the
    count varies most when all are equal (Hoeffding 1956); so do the largest of the shares, times
    the ways to choose them.
    """
    total = len(shares)
    means = bdtrc(np.maximum(counts - free - 1, 0), max(total - free, 1), shares.mean(axis=0))
    largest = np.cumsum(np.log(-np.sort(-shares, axis=0)), axis=0)
    taken = np.maximum(counts - free, 1).astype(int)
    choose = gammaln(total + 1) - gammaln(taken + 1) - gammaln(total - taken + 1)
    products = np.exp(choose + largest[taken - 1, np.arange(shares.shape[1])])
    return np.where(counts > free, ways * np.minimum(means, products), 1.0)


def _of_ratios(ratios: Floats, steps: Floats) -> _Agreement | None:
    """The ratios of times, in logarithms, of which most are one number."""
    shares = erf(np.maximum(steps[:, None], WIDTHS) / (4 * LEAST_SCATTER))
    ordered = np.sort(ratios)
    within = np.searchsorted(ordered, ordered[:, None] + WIDTHS, side="right")
    within -= np.arange(len(ordered))[:, None]
    # Any of the ratios can begin the window; the others must fall into it.
    chances = _chances(len(ratios), within.max(axis=0), shares, 1)
    best = int(np.argmin(chances))
    if chances[best] >= CHANCE:
        return None
    low = ordered[int(within[:, best].argmax())]
    inside = (ratios >= low) & (ratios <= low + WIDTHS[best])
    middle = float(np.median(ratios[inside]))
    code = "same" if abs(middle) < 1e-3 else "computed"
    return _Agreement(code, inside, math.exp(middle), WIDTHS[best], chances[best])


def _of_rounded(ratios: Floats, steps: Floats) -> _Agreement | None:
    """Times that are equal as far as one of the two has rounded them, in ratios of logarithms."""
    inside = np.abs(ratios) <= 0.501 * steps + 1e-9
    for code, scatter in ("same", LEAST_SCATTER), ("likely", QUIET_SCATTER):
        shares = erf(steps[:, None] / (4 * scatter))
        (chance,) = _chances(1.0, np.array([float(inside.sum())]), np.maximum(shares, 1e-12), 0)
        if chance < CHANCE:
            return _Agreement(code, inside, 1.0, float(np.median(steps)), float(chance))
    return None


def _pairs(table: _Table) -> Iterator[tuple[int, int, _Agreement]]:
    """Any two owners whose times agree."""
    present = ~np.isnan(table.logs)
    for one, other in combinations(range(len(table.names)), 2):
        both = present[one] & present[other]
        if not both.any():
            continue
        ratios = table.logs[one, both] - table.logs[other, both]
        steps = np.maximum(table.steps[one, both], table.steps[other, both])
        found = _of_ratios(ratios, steps)
        if found is None and np.median(steps) > WIDTHS[1]:
            found = _of_rounded(ratios, steps)
        if found:
            inside = both.copy()
            inside[both] = found.inside
            yield one, other, _Agreement(**{**vars(found), "inside": inside})


def _same_files(
    everyone: Mapping[str, Compared],
) -> tuple[dict[tuple[str, str], dict[str, str]], list[Line]]:
    """The files whose times equal those of another's file, by owner and other; and equal samples.

    The median of single calls repeats, so only their samples are compared.
    """
    found: dict[object, list[tuple[str, str]]] = defaultdict(list)
    for owner, own in everyone.items():
        for result in own.results:
            is_sampled = result.name in own.prints
            if max(_resolutions(result, is_sampled)) <= LEAST_SCATTER and not is_sampled:
                seconds = [result.seconds[name] for name in PASSES]
                found[f"{result.forward_flops:.6g}", *seconds].append((owner, result.name))
            if own.prints.get(result.name):
                found[own.prints[result.name]].append((owner, result.name))
    files, lines = defaultdict[tuple[str, str], dict[str, str]](dict), list[Line]()
    for key, owners in found.items():
        for owner, file in owners:
            other = next((name for name, _ in owners if name != owner), None)
            if other and isinstance(key, str):
                lines.append(Line("fail", "copies.samples", file, {"other": other}, "", "", owner))
            elif other:
                for name in {name for name, _ in owners} - {owner}:
                    files[owner, name][file] = other
    return files, lines


# Means of others


def _means(table: _Table, row: int) -> tuple[int, ...]:
    """The two or three rows of which a row's times are plain means; none if they are not.

    Some times may be original, so that several columns are tried.
    """
    own = table.logs[row]
    columns = np.flatnonzero(~np.isnan(own))
    others = [
        i for i in range(len(table.logs)) if i != row and not np.isnan(table.logs[i, columns]).any()
    ]
    if len(columns) < 8 or len(others) < 2:
        return ()
    theirs, mine = np.exp(table.logs[np.ix_(others, columns)]), np.exp(own[columns])
    first, second = np.triu_indices(len(others), 1)
    for column in range(0, len(columns), max(1, len(columns) // 4)):
        values = theirs[:, column]
        order = np.argsort(values)
        sums, wanted = values[first] + values[second], mine[column]
        tolerance = 3 * MEAN_WIDTH * wanted
        pairs = np.flatnonzero(np.abs(sums - 2 * wanted) < tolerance)
        places = [(first[p], second[p]) for p in pairs]
        low, high = (
            np.searchsorted(values[order], 3 * wanted - sums + d) for d in (-tolerance, tolerance)
        )
        for p in np.flatnonzero(high > low):
            places += [(first[p], second[p], order[k]) for k in range(low[p], high[p])]
        for place in places:
            off = np.abs(theirs[[*place]].mean(axis=0) / mine - 1)
            if len({*place}) == len(place) and (off < MEAN_WIDTH).mean() >= MEAN_SHARE:
                return tuple(others[i] for i in sorted(place))
    return ()


# One's own times


def check_own_copies(points: Sequence[Point], results: Sequence[Result]) -> list[Line]:
    """Lines for files whose times follow from others of the submission, each file once.

    A file handed in twice as two runs, files of which one is the other times a constant (a constant
    rate, or causal runs made from full ones), and points on the line between their neighbours:
    measurements are never any of these to seven digits. `points` are those whose run is known.
    """
    fine = [result for result in results if max(_roundings(result)) <= 2 * FINE]
    ratio = {r.name: r.seconds["backward"] / r.seconds["forward"] for r in fine}
    found: dict[str, Line] = {}
    for one, other in pairwise(sorted(fine, key=lambda result: ratio[result.name])):
        names = [{**result.hinted, **result.said} for result in (one, other)]
        differ, stated = (
            any(k in a and k in b and a[k] != b[k] for k in ATTRIBUTES)
            for a, b in (names, (one.said, other.said))
        )
        if not differ and math.isclose(one.forward_flops, other.forward_flops, rel_tol=EXACT):
            continue
        times = [result.seconds["forward"] for result in (one, other)]
        ratios = ratio[one.name], ratio[other.name]
        verdict: Verdict = "fail"
        if math.isclose(*times, rel_tol=EXACT) and math.isclose(*ratios, rel_tol=EXACT):
            code = "copies.within"
            verdict = "fail" if stated else "warn"  # only their names make them different runs
        elif math.isclose(*ratios, rel_tol=PROPORTIONAL):
            code = "copies.proportional"
        else:
            continue
        params = {"other": one.name, "ratio": f"{times[1] / times[0]:.6g}"}
        found.setdefault(
            other.name, Line(verdict, code, other.name, params, *map(described, names))
        )
    for sweep in sweeps_of([point for point in points if point[0].name in ratio]):
        for three in zip(sweep, sweep[1:], sweep[2:], strict=False):
            own = [those[0][0] for _, those in three]
            sizes = [size for size, _ in three]
            if all(_lies_between(sizes, [r.seconds[name] for r in own]) for name in PASSES):
                one, middle, other = own
                params = {"one": one.name, "other": other.name}
                line = Line("fail", "copies.interpolated", middle.name, params)
                found.setdefault(middle.name, line)
    return [*found.values()]


def _lies_between(sizes: Sequence[float], seconds: Sequence[float]) -> bool:
    """True for a value on the line between its neighbours, straight or on logarithmic axes."""
    (low, middle, high), (a, found, b) = sizes, seconds
    share, portion = (middle - low) / (high - low), math.log(middle / low) / math.log(high / low)
    wanted = a + share * (b - a), a * (b / a) ** portion
    return any(math.isclose(each, found, rel_tol=EXACT) for each in wanted)


# Lines


def _agreements(everyone: Mapping[str, Compared]) -> Iterator[Line]:
    """Lines about owners whose times agree; those of a coarse clock are left out."""
    table = _table(everyone)
    pairs = [*_pairs(table)]
    told = {
        (table.names[i], table.names[j])
        for one, other, _ in pairs
        for i, j in ((one, other), (other, one))
    }
    files, samples = _same_files(everyone)
    matched: dict[str, set[str]] = defaultdict(set)
    for one, other, found in pairs:
        for row in one, other:
            columns = np.flatnonzero(found.inside)
            matched[table.names[row]] |= {table.files[row][column] for column in columns}
    for (owner, _), own in files.items():
        matched[owner] |= {*own} if len(own) >= EQUAL_FILES else set()
    shares = {name: len(own) / len(everyone[name].results) for name, own in matched.items()}
    for one, other, found in pairs:
        params = {
            **{"count": str(found.inside.sum()), "width": f"{found.width:.1g}"},
            "total": str((~np.isnan(table.logs[one] + table.logs[other])).sum()),
            **{"law": f"{found.ratio:.6g} · t", "source": table.names[other]},
            "chance": f"{-math.log10(max(found.chance, 1e-99)):.0f}",
        }
        for i, j in (one, other), (other, one):
            is_copy = shares[table.names[i]] >= MOST
            verdict: Verdict = "fail" if is_copy and found.code != "likely" else "warn"
            code = f"copies.{found.code if is_copy else 'part'}"
            more = {"other": table.names[j], **params}
            yield Line(verdict, code, "", more, "", "", table.names[i])
    yield from samples
    for (owner, other), own in files.items():
        if (owner, other) not in told:
            is_copy = len(own) >= EQUAL_FILES and shares[owner] >= MOST
            for file in own:
                verdict = "fail" if is_copy else "warn"
                yield Line(verdict, "copies.file", file, {"other": other}, "", "", owner)
    alone = [i for i, name in enumerate(table.names) if name not in {owner for owner, _ in told}]
    for row in alone:
        if sources := _means(table, row):
            params = {"others": "\0".join(table.names[source] for source in sources)}
            yield Line("fail", "copies.average", "", params, "", "", table.names[row])


def copies_between(
    submissions: Mapping[str, Compared], published: Mapping[str, Compared]
) -> Iterator[Line]:
    """Lines for the submissions whose times agree with another's, or with a published dataset's.

    A submission without any has a line that says how far it was compared. No submission has the
    name of a `published` dataset.
    """
    everyone = {**published, **submissions}
    comparable = {name: own for name, own in everyone.items() if own.results and not own.step}
    lines = [line for line in _agreements(comparable) if line.submission in submissions]
    yield from lines
    accused = {line.submission for line in lines}
    for name, own in submissions.items():
        if name in accused:
            continue
        steps = [s for result in own.results for s in _resolutions(result, name in own.prints)]
        verdict, code, params = (
            "not_checked",
            "copies.alone",
            {"step": f"{CALLS * own.step * 1e3:.3g}"},
        )
        if own.step:
            code = "copies.clock"
        elif steps and np.median(steps) > COARSE:
            code = "copies.rounded"
        elif own.results and len(everyone) > 1:
            verdict, code = "pass", "copies.pass"
        yield Line(verdict, code, "", params, "", "", name)
