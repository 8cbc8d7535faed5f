"""Check 7, copies: times that agree more closely than independent measurements do.

The ratios between two submissions' times scatter; copied times share one ratio, and rounded ones
are equal as far as they are rounded. So many agree that measurements at locked clocks would not do
so once in 1,000 classes (**certain**), or, of times rounded to three digits, that only a quieter
machine than any known would (**likely**). Within a submission, no two runs share times or ratios.
Times that are multiples of a coarse clock's step show nothing of this.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtrc, erf

from flashlab.lab5.assigning import File, stated
from flashlab.lab5.results import Result
from flashlab.lab5.said import ATTRIBUTES, described
from flashlab_grading.model import PASSES, Line, Verdict, family, samples_of

Floats = NDArray[np.float64]

LEAST_SCATTER, QUIET_SCATTER = 1e-4, 1e-3
"""Assumed least relative scatter between measurements of one run: half of the least of 17 of them
on one H200; and what whole recordings exceed, of which the closest of 136 pairs scatter by 0.33%"""

WIDTHS, CHANCE = (1e-7, 2e-5, 2e-4), 1e-9
"""Relative widths within which ratios count as equal, of which a wider one holds too many; and the
probability, for a pair and a width, below which agreement is no coincidence."""

CALLS, CLOCK, MEDIAN_CLOCK = 30, 1e-9 / 30, 1e-6
"""Calls that the course's script times together; seconds that its mean of them, and the median of
single calls, are resolved to."""

STEPS, FEW, MOST_STEPS = (1e-3, 20e-3), 6, 2000
"""Seconds of coarse clocks' steps (1 to 16 ms on Windows), fewest different times that show them,
and most of them in the shortest time."""

COARSE = 2e-2
"""Relative resolution of a time above which its agreement with another shows nothing."""

EQUAL_FILES, MOST = 3, 0.5
"""Fewest files with equal times that are a copy, whatever they are declared as; and the share of a
submission's files from which it fails. Of fewer, one of the two has copied: which is unknown."""

MEAN_WIDTH, MEAN_SHARE = 1e-6, 0.8
"""Relative deviation of a time from the mean of others', and the share of times that must be so."""

TELLING = 12
"""Fewest different samples of a pass that two records do not share by chance."""

EXACT, PROPORTIONAL = 1e-7, 1e-10
"""Relative difference below which numbers are computed from one another, as both passes of two
measurements are once in a million pairs; and that of the ratio of the two passes alone."""


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
    times = [CALLS * result.seconds[name] for result in results for name in PASSES]
    totals, (low, high), shortest = sorted({*times}), STEPS, min(times, default=0.0)
    if (len(totals) < FEW and len(times) < 4 * FEW) or shortest > MOST_STEPS * low:
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


def _resolutions(result: Result, clock: float = CLOCK) -> list[float]:
    """The relative resolution of both passes' times: the clock's, or as somebody rounded them."""
    seconds = [result.seconds[name] for name in PASSES]
    texts = [Decimal(repr(value)).normalize().as_tuple() for value in seconds]
    digits, decimals = max(len(t.digits) for t in texts), min(int(t.exponent) for t in texts)
    last = [10.0 ** max(decimals, 1 + math.floor(math.log10(s)) - digits) for s in seconds]
    return [max(clock, step) / value for step, value in zip(last, seconds, strict=True)]


def compared_of(results: Sequence[Result], files: Iterable[File] = ()) -> Compared:
    """What of results is compared with others; their runs are those of `files`, or as stated."""
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


def _table(everyone: Mapping[str, Compared]) -> pd.DataFrame:
    """Logarithms of times, their resolutions, and files: a row an owner, a column a run and pass.

    Of a run that was handed in twice, the first counts.
    """
    cells = [
        (owner, own.runs[r.name], name, math.log(r.seconds[name]), step, r.name)
        for owner, own in everyone.items()
        for r in own.results
        for name, step in zip(
            PASSES, _resolutions(r, MEDIAN_CLOCK if r.name in own.prints else CLOCK), strict=True
        )
    ]
    table = pd.DataFrame(cells, columns=["owner", "run", "pass", "log", "step", "file"])
    once = table.drop_duplicates(["owner", "run", "pass"])
    return once.pivot(index="owner", columns=["run", "pass"])


@dataclass(frozen=True)
class _Agreement:
    """An agreement of two owners that no independent measurements have."""

    code: str
    inside: NDArray[Any]
    ratio: float
    width: float
    chance: float


def _chance(count: int, shares: Floats, free: int) -> float:
    """The probability, an upper bound, that so many times agree, each of which does with a share.

    Where any can begin the window (`free` is 1), the others must fall into it. The mean share
    bounds the tail, because the count varies most when all are equal (Hoeffding 1956); where all
    agree, so does the product of their shares.
    """
    total, begin = len(shares), len(shares) if free else 1
    tail = bdtrc(count - free - 1, total - free, float(shares.mean())) if count > free else 1.0
    return begin * float(min(tail, np.sort(shares)[free:].prod() if count == total else 1.0))


def _agreement(ratios: Floats, steps: Floats) -> _Agreement | None:
    """The agreement of two owners, by the ratios of their times in logarithms, if there is one."""
    ordered, best, total = np.sort(ratios), list[_Agreement](), len(ratios)
    for width in WIDTHS:
        counts = np.searchsorted(ordered, ordered + width, side="right") - np.arange(total)
        low = ordered[int(counts.argmax())]
        inside = (ratios >= low) & (ratios <= low + width)
        shares = erf(np.maximum(steps, width) / (4 * LEAST_SCATTER))
        middle = float(np.median(ratios[inside]))
        code = "same" if abs(middle) < 1e-3 else "computed"
        chance = _chance(int(counts.max()), shares, 1)
        best.append(_Agreement(code, inside, math.exp(middle), width, chance))
    if np.median(steps) > WIDTHS[1]:  # one of the two has rounded them
        inside, width = np.abs(ratios) <= 0.501 * steps + 1e-9, float(np.median(steps))
        for code, scatter in ("same", LEAST_SCATTER), ("likely", QUIET_SCATTER):
            chance = _chance(int(inside.sum()), erf(steps / (4 * scatter)), 0)
            best.append(_Agreement(code, inside, 1.0, width, chance))
    sure = [found for found in best if found.chance < CHANCE]
    return min(sure, key=lambda found: (found.code == "likely", found.chance), default=None)


def _pairs(logs: Floats, steps: Floats) -> Iterator[tuple[int, int, _Agreement]]:
    """Any two rows whose times agree, from either side, with the columns that do."""
    for one, other in combinations(range(len(logs)), 2):
        both = np.flatnonzero(~np.isnan(logs[one] + logs[other]))
        step = np.maximum(steps[one, both], steps[other, both])
        if len(both) > 2 and (found := _agreement(logs[one, both] - logs[other, both], step)):
            placed = replace(found, inside=both[found.inside])
            yield from ((one, other, placed), (other, one, placed))


def _same_files(everyone: Mapping[str, Compared]) -> pd.DataFrame:
    """The files whose times, or samples, equal another's: `owner`, `other`, `file` and `code`."""
    rows = []
    for owner, own in everyone.items():
        for result in own.results:  # the median of single calls repeats, but not their samples
            key = own.prints.get(result.name)
            if key is None and max(_resolutions(result)) <= LEAST_SCATTER:
                key = repr((f"{result.forward_flops:.6g}", *map(result.seconds.get, PASSES)))
            code = "samples" if result.name in own.prints else "file"
            rows += [(owner, result.name, key, code)] if key else []
    files = pd.DataFrame(rows, columns=["owner", "file", "key", "code"])
    others = files[["owner", "key"]].rename(columns={"owner": "other"}).drop_duplicates()
    equal = files.merge(others, on="key").query("owner != other")
    return equal[["owner", "other", "file", "code"]]


def _means(logs: Floats, row: int) -> list[int]:
    """The two or three rows of whose times a row's are plain means; none if they are not.

    Some times may be original, so that several columns are tried.
    """
    columns = np.flatnonzero(~np.isnan(logs[row]))
    others = np.flatnonzero(~np.isnan(logs[:, columns]).any(axis=1))
    others = others[others != row]
    theirs, mine = np.exp(logs[others][:, columns]), np.exp(logs[row, columns])
    first, second = np.triu_indices(len(others), 1)
    for column in range(0, len(columns), max(1, len(columns) // 4)) if len(columns) > FEW else ():
        values, wanted = theirs[:, column], mine[column]
        order, sums, error = np.argsort(values), values[first] + values[second], 3e-6 * wanted
        places = [[first[p], second[p]] for p in np.flatnonzero(abs(sums - 2 * wanted) < error)]
        low, high = (np.searchsorted(values[order], 3 * wanted - sums + d) for d in (-error, error))
        for p in np.flatnonzero(high > low):
            places += [[first[p], second[p], k] for k in order[low[p] : high[p]] if k > second[p]]
        for place in places:
            off = abs(theirs[place].mean(axis=0) / mine - 1)
            if (off < MEAN_WIDTH).mean() >= MEAN_SHARE:
                return [int(others[i]) for i in place]
    return []


# One's own times


def check_own_copies(results: Iterable[Result]) -> list[Line]:
    """Lines for files whose times follow from others of the submission, each file once.

    A file handed in twice as two runs, and files of which one is the other times a constant (a
    constant rate, or causal runs made from full ones): measurements are never these to seven
    digits.
    """
    fine = [result for result in results if max(_resolutions(result, 0.0)) <= EXACT / 5]
    ratio = {r.name: r.seconds["backward"] / r.seconds["forward"] for r in fine}
    found: list[Line] = []
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
            found.append(Line(verdict, code, other.name, params, *map(described, names)))
    return found


# Lines


def _agreements(everyone: Mapping[str, Compared]) -> Iterator[Line]:
    """Lines about owners whose times agree."""
    if not everyone:
        return
    table, equal = _table(everyone), _same_files(everyone)
    logs, steps, files = (table[kind].to_numpy() for kind in ("log", "step", "file"))
    names, pairs = list(table.index), [*_pairs(logs, steps)]
    matched = defaultdict[str, set[str]](set)
    for one, _, own in pairs:
        matched[names[one]] |= {*files[one, own.inside]}
    counts = equal.groupby(["owner", "other"])["file"].transform("size")
    for owner, file in equal.loc[counts >= EQUAL_FILES, ["owner", "file"]].to_numpy():
        matched[owner].add(file)
    is_copy = {n: len(own) >= MOST * len(everyone[n].results) for n, own in matched.items()}
    for one, other, own in pairs:
        total = int((~np.isnan(logs[one] + logs[other])).sum())
        params = {
            **{"other": names[other], "count": str(len(own.inside)), "total": str(total)},
            **{"law": f"{own.ratio:.6g} · t", "width": f"{own.width:.1g}"},
            "source": names[max(one, other)],
            "chance": f"{-math.log10(max(own.chance, 1e-99)):.0f}",
        }
        code = own.code if is_copy[names[one]] else "part"
        verdict: Verdict = "warn" if code in ("part", "likely") else "fail"
        yield Line(verdict, f"copies.{code}", "", params, "", "", names[one])
    told = {(names[one], names[other]) for one, other, _ in pairs}
    for (owner, other, file, code), count in zip(equal.to_numpy(), counts, strict=True):
        is_sure = code == "samples" or (count >= EQUAL_FILES and is_copy[owner])
        if (owner, other) not in told:
            verdict = "fail" if is_sure else "warn"
            yield Line(verdict, f"copies.{code}", file, {"other": other}, "", "", owner)
    for row, name in enumerate(names):
        if name not in matched and (sources := _means(logs, row)):
            params = {"others": "\0".join(names[source] for source in sources)}
            yield Line("fail", "copies.average", "", params, "", "", name)


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
        steps = [step for result in own.results for step in _resolutions(result)]
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
