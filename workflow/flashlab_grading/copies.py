"""Check 7, copies: times that agree more closely than independent measurements do.

The ratios between two submissions' times scatter; copied times share one ratio, and rounded ones
are equal as far as they are rounded. So many agree that measurements at locked clocks would not do
so once in 1,000 classes (**certain**), or that only a quieter machine than any known would
(**likely**). Within a submission, no two runs' times follow from one another. Times that are
multiples of a coarse clock's step show nothing of this.
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
from flashlab.lab5.results import Result
from flashlab.lab5.said import ATTRIBUTES, described
from flashlab_grading.model import PASSES, Line, Verdict, family, samples_of
from flashlab_grading.plausibility import Point, sweeps_of

Floats = NDArray[np.float64]

LEAST_SCATTER, QUIET_SCATTER = 1e-4, 1e-3
"""Assumed least relative scatter between measurements of one run: half of the least that was seen,
0.024% in 17 recordings of one run on one H200; and what whole recordings exceed, of which the
closest of 136 pairs scatter by 0.33%."""

WIDTHS = (1e-6, 2e-5, 2e-4)
"""Relative widths within which ratios count as equal; a wider one holds too many by chance."""

CHANCE = 1e-9
"""Probability, for a pair and a width, below which agreement is no coincidence."""

CALLS, CLOCK = 30, 1e-9
"""Calls that the course's script times together, and seconds that its timer resolves."""

STEPS, FEW, MOST_STEPS = (1e-3, 20e-3), 6, 2000
"""Seconds of the steps of coarse clocks (1 to 16 ms on Windows), fewest different times that show
them, and most of them in the shortest time."""

COARSE = 2e-2
"""Relative resolution of a time above which its agreement with another shows nothing."""

EQUAL_FILES, MOST = 3, 0.5
"""Fewest files with equal times that are a copy, whatever they are declared as; and the share of a
submission's files that agree with others' from which it fails. Of fewer, one of the two has copied,
and which one is unknown."""

MEAN_WIDTH, MEAN_SHARE = 1e-6, 0.8
"""Relative deviation of a time from the mean of others', and the share of times that must be so."""

TELLING = 12
"""Fewest different samples of a pass that two records do not share by chance."""

EXACT, PROPORTIONAL = 1e-7, 1e-10
"""Relative difference below which numbers are computed from one another: two measurements differ by
1e-4 at least, so both passes do by chance once in a million pairs; the same for the ratio of both
passes alone, of which a submission has 630 pairs."""


@dataclass(frozen=True)
class Compared:
    """A submission, or a published dataset, as it is compared with others.

    Attributes:
        results: its results.
        runs: the run of each by file, in any text that is the same for the same run.
        step: the seconds of its clock's step in a call, 0 if that is finer than its times.
        prints: by file, of sampled records, a digest of the samples; empty if they may repeat.
    """

    results: Sequence[Result] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    step: float = 0.0
    prints: Mapping[str, str] = field(default_factory=dict)


def clock_step(results: Iterable[Result]) -> float:
    """The seconds of a clock's step in the mean of `CALLS` calls, where all times are multiples.

    0 where they are multiples of none in the range of `STEPS`, or too few to tell.
    """
    totals = sorted({CALLS * result.seconds[name] for result in results for name in PASSES})
    (low, high), shortest = STEPS, totals[0] if totals else 0.0
    if len(totals) < FEW or shortest > MOST_STEPS * low:
        return 0.0
    for count in range(max(1, math.floor(shortest / high)), math.floor(1.001 * shortest / low) + 1):
        step = shortest / count
        for total in totals:  # each longer one says more exactly what the step is
            multiple = round(total / step)
            if abs(total / step - multiple) > 0.02:
                break
            step = total / multiple
        else:
            return step / CALLS
    return 0.0


def _roundings(result: Result, least: float = 0.0) -> list[float]:
    """The relative steps of both passes' times, of `least` seconds or as somebody rounded them."""
    seconds = [result.seconds[name] for name in PASSES]
    texts = [Decimal(repr(value)).normalize().as_tuple() for value in seconds]
    decimals = max(-int(text.exponent) for text in texts)
    digits = max(len(text.digits) for text in texts)
    steps = [least, 10.0**-decimals if decimals <= 9 else 0.0]
    powers = [
        10.0 ** (1 + math.floor(math.log10(s)) - digits) if digits <= 9 else 0 for s in seconds
    ]
    return [max(*steps, power) / value for power, value in zip(powers, seconds, strict=True)]


def compared_of(results: Sequence[Result], files: Iterable[File] = ()) -> Compared:
    """What of results is compared with others: their runs are those of `files`, or the stated ones,
    or else told by their numbers.
    """
    runs, prints = dict[str, str](), dict[str, str]()
    options = {file.result.name: file.options for file in files}
    for result in results:
        option = stated({**result.hinted, **result.said})
        known = {family(o) for o in options.get(result.name) or filter(None, [option])}
        numbers = f"{result.forward_flops:.6g} {result.peak_mib:.9g}"
        runs[result.name] = str(known) if len(known) == 1 else numbers
        if samples := samples_of(result):
            telling = all(len({*values}) >= TELLING for values in samples.values())
            digest = hashlib.sha256(repr([*samples.values()]).encode()).hexdigest()
            prints[result.name] = digest if telling else ""
    step = clock_step(result for result in results if result.name not in prints)
    return Compared([replace(result, document={}) for result in results], runs, step, prints)


# Two submissions


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
    runs = {run for own in everyone.values() for run in own.runs.values()}
    columns = {run: 2 * i for i, run in enumerate(runs)}
    logs = np.full((len(everyone), 2 * len(runs)), np.nan)
    steps, files = logs.copy(), list[dict[int, str]]()
    for row, own in enumerate(everyone.values()):
        files.append({})
        for result in own.results:
            at = columns[own.runs[result.name]]
            if at not in files[row]:
                files[row] |= dict.fromkeys((at, at + 1), result.name)
                logs[row, at : at + 2] = [math.log(result.seconds[name]) for name in PASSES]
                clock = 1e-6 if result.name in own.prints else CLOCK / CALLS  # a median repeats
                steps[row, at : at + 2] = _roundings(result, clock)
    return _Table([*everyone], logs, steps, files)


@dataclass(frozen=True)
class _Agreement:
    """An agreement of two owners that no independent measurements have."""

    code: str
    inside: NDArray[np.bool_]
    ratio: float
    width: float
    chance: float


def _chance(count: int, shares: Floats, free: int) -> float:
    """The probability, an upper bound, that so many times agree, each of which does with a share.

    Where any can begin the window (`free` is 1), the others must fall into it. The mean share
    bounds the tail, because the count varies most when all are equal (Hoeffding 1956); so do the
    largest of the shares, times the ways to choose them.
    """
    total, taken = len(shares), count - free
    if taken < 1:
        return 1.0
    mean = bdtrc(taken - 1, max(total - free, 1), float(shares.mean()))
    ways = gammaln(total + 1) - gammaln(taken + 1) - gammaln(total - taken + 1)
    product = math.exp(min(0.0, ways + float(np.log(np.sort(shares)[-taken:]).sum())))
    return float((total if free else 1) * min(mean, product))


def _agreement(ratios: Floats, steps: Floats) -> _Agreement | None:
    """The agreement of two owners, by the ratios of their times in logarithms, if there is one."""
    ordered, best = np.sort(ratios), list[_Agreement]()
    for width in WIDTHS:
        counts = np.searchsorted(ordered, ordered + width, side="right") - np.arange(len(ordered))
        low = ordered[int(counts.argmax())]
        inside = (ratios >= low) & (ratios <= low + width)
        shares = erf(np.maximum(steps, width) / (4 * LEAST_SCATTER))
        middle = float(np.median(ratios[inside]))
        code = "same" if abs(middle) < 1e-3 else "computed"
        chance = _chance(int(counts.max()), shares, 1)
        best.append(_Agreement(code, inside, math.exp(middle), width, chance))
    if np.median(steps) > WIDTHS[0]:  # one of the two has rounded them
        inside, width = np.abs(ratios) <= 0.501 * steps + 1e-9, float(np.median(steps))
        for code, scatter in ("same", LEAST_SCATTER), ("likely", QUIET_SCATTER):
            shares = np.maximum(erf(steps / (4 * scatter)), 1e-12)
            chance = _chance(int(inside.sum()), shares, 0)
            best.append(_Agreement(code, inside, 1.0, width, chance))
    sure = [found for found in best if found.chance < CHANCE]
    return min(sure, key=lambda found: (found.code == "likely", found.chance), default=None)


def _pairs(table: _Table) -> Iterator[tuple[int, int, _Agreement]]:
    """Any two owners whose times agree, with the columns that do."""
    present = ~np.isnan(table.logs)
    for one, other in combinations(range(len(table.names)), 2):
        both = np.flatnonzero(present[one] & present[other])
        if len(both) > 2:
            ratios = table.logs[one, both] - table.logs[other, both]
            steps = np.maximum(table.steps[one, both], table.steps[other, both])
            if found := _agreement(ratios, steps):
                yield one, other, replace(found, inside=both[found.inside])


def _same_files(everyone: Mapping[str, Compared]) -> dict[tuple[str, str], dict[str, str]]:
    """The files whose times, or samples, equal another's, with the code, by owner and other."""
    owners: dict[object, list[tuple[str, str]]] = defaultdict(list)
    for owner, own in everyone.items():
        for result in own.results:  # the median of single calls repeats, but not their samples
            key: object = own.prints.get(result.name)
            if key is None and max(_roundings(result, CLOCK / CALLS)) <= LEAST_SCATTER:
                key = (f"{result.forward_flops:.6g}", *(result.seconds[name] for name in PASSES))
            owners[key or (owner, result.name)].append((owner, result.name))
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for key, those in owners.items():
        for owner, file in those:
            for other in {name for name, _ in those} - {owner}:
                found[owner, other][file] = "samples" if isinstance(key, str) else "file"
    return found


def _means(table: _Table, row: int) -> list[str]:
    """The two or three owners of whose times a row's are plain means; none if they are not.

    Some times may be original, so that several columns are tried.
    """
    columns = np.flatnonzero(~np.isnan(table.logs[row]))
    usable = ~np.isnan(table.logs[:, columns]).any(axis=1)
    others = [int(i) for i in np.flatnonzero(usable) if i != row]
    if len(columns) < 8 or len(others) < 2:
        return []
    theirs, mine = np.exp(table.logs[others][:, columns]), np.exp(table.logs[row, columns])
    first, second = np.triu_indices(len(others), 1)
    for column in range(0, len(columns), max(1, len(columns) // 4)):
        values, wanted = theirs[:, column], mine[column]
        order, sums, error = np.argsort(values), values[first] + values[second], 3e-6 * wanted
        places = [(first[p], second[p]) for p in np.flatnonzero(abs(sums - 2 * wanted) < error)]
        thirds = [np.searchsorted(values[order], 3 * wanted - sums + d) for d in (-error, error)]
        for p in np.flatnonzero(thirds[1] > thirds[0]):
            more = order[thirds[0][p] : thirds[1][p]]
            places += [(first[p], second[p], k) for k in more if k > second[p]]
        for place in map(list, places):
            off = abs(theirs[place].mean(axis=0) / mine - 1)
            if (off < MEAN_WIDTH).mean() >= MEAN_SHARE:
                return [table.names[others[i]] for i in place]
    return []


# One's own times


def check_own_copies(points: Sequence[Point], results: Iterable[Result]) -> list[Line]:
    """Lines for files whose times follow from others of the submission, each file once.

    A file handed in twice as two runs, files of which one is the other times a constant (a constant
    rate, or causal runs made from full ones), and points on the line between their neighbours:
    measurements are never any of these to seven digits. `points` are those whose run is known.
    """
    fine = [result for result in results if max(_roundings(result)) <= EXACT / 5]
    ratio = {r.name: r.seconds["backward"] / r.seconds["forward"] for r in fine}
    found: dict[str, Line] = {}
    for one, other in pairwise(sorted(fine, key=lambda result: ratio[result.name])):
        names = [{**result.hinted, **result.said} for result in (one, other)]
        differ, stated_so = (
            any(a.get(k, b[k]) != b[k] for k in ATTRIBUTES if k in b)
            for a, b in (names, (one.said, other.said))
        )
        off = abs(ratio[one.name] / ratio[other.name] - 1)
        factor = other.seconds["forward"] / one.seconds["forward"]
        is_equal = abs(factor - 1) < EXACT and off < EXACT
        is_one_run = math.isclose(one.forward_flops, other.forward_flops, rel_tol=EXACT)
        if (differ or not is_one_run) and (is_equal or off < PROPORTIONAL):
            # Only their names make them different runs, if these alone say so.
            verdict: Verdict = "fail" if stated_so or not is_equal else "warn"
            code = "copies.within" if is_equal else "copies.proportional"
            params = {"other": one.name, "ratio": f"{factor:.6g}"}
            found[other.name] = Line(verdict, code, other.name, params, *map(described, names))
    for sweep in sweeps_of([point for point in points if point[0].name in ratio]):
        for three in zip(sweep, sweep[1:], sweep[2:], strict=False):
            sizes, own = [size for size, _ in three], [those[0][0] for _, those in three]
            if all(_lies_between(sizes, [r.seconds[name] for r in own]) for name in PASSES):
                params = {"one": own[0].name, "other": own[2].name}
                line = Line("fail", "copies.interpolated", own[1].name, params)
                found.setdefault(own[1].name, line)
    return [*found.values()]


def _lies_between(sizes: Sequence[float], seconds: Sequence[float]) -> bool:
    """True for a value on the line between its neighbours, straight or on logarithmic axes."""
    (low, middle, high), (a, found, b) = sizes, seconds
    share, portion = (middle - low) / (high - low), math.log(middle / low) / math.log(high / low)
    wanted = a + share * (b - a), a * (b / a) ** portion
    return any(math.isclose(each, found, rel_tol=EXACT) for each in wanted)


# Lines


def _agreements(everyone: Mapping[str, Compared]) -> Iterator[Line]:
    """Lines about owners whose times agree, by a coarse clock none of them."""
    table, files = _table(everyone), _same_files(everyone)
    names, matched, told = table.names, defaultdict[str, set[str]](set), set[tuple[str, str]]()
    pairs = [
        each for one, other, own in _pairs(table) for each in ((one, other, own), (other, one, own))
    ]
    for one, other, own in pairs:
        told.add((names[one], names[other]))
        matched[names[one]] |= {table.files[one][column] for column in own.inside.tolist()}
    for (owner, _), equal in files.items():
        matched[owner] |= {*equal} if len(equal) >= EQUAL_FILES else set()
    is_copy = {n: len(own) >= MOST * len(everyone[n].results) for n, own in matched.items()}
    for one, other, own in pairs:
        total = int((~np.isnan(table.logs[one] + table.logs[other])).sum())
        params = {
            **{"other": names[other], "count": str(len(own.inside)), "total": str(total)},
            **{"law": f"{own.ratio:.6g} · t", "width": f"{own.width:.1g}"},
            "source": names[max(one, other)],
            "chance": f"{-math.log10(max(own.chance, 1e-99)):.0f}",
        }
        code = own.code if is_copy[names[one]] else "part"
        verdict: Verdict = "warn" if code in ("part", "likely") else "fail"
        yield Line(verdict, f"copies.{code}", "", params, "", "", names[one])
    for (owner, other), equal in files.items():
        for file, code in equal.items() if (owner, other) not in told else ():
            is_sure = code == "samples" or (len(equal) >= EQUAL_FILES and is_copy[owner])
            params, verdict = {"other": other}, "fail" if is_sure else "warn"
            yield Line(verdict, f"copies.{code}", file, params, "", "", owner)
    for row in range(len(names)):
        if names[row] not in matched and (sources := _means(table, row)):
            params = {"others": "\0".join(sources)}
            yield Line("fail", "copies.average", "", params, "", "", names[row])


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
        steps = [step for result in own.results for step in _roundings(result, CLOCK / CALLS)]
        verdict: Verdict = "not_checked"
        code, params = "copies.alone", {"step": f"{CALLS * own.step * 1e3:.3g}"}
        if own.step:
            code = "copies.clock"
        elif steps and np.median(steps) > COARSE:
            code = "copies.rounded"
        elif steps and len(everyone) > 1:
            verdict, code = "pass", "copies.pass"
        if name not in accused:
            yield Line(verdict, code, "", params, "", "", name)
