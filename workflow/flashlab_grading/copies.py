"""Check 7, copies: times that agree more closely than independent measurements do.

The ratios between two submissions' times scatter; copied times share one ratio, and rounded ones
are equal as far as they are rounded. So many agree that measurements at locked clocks would not do
so once in 1,000 classes, or, of times rounded to three digits, that only a quieter machine than any
known would (**likely**). Within a submission, no two runs share times or ratios.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtrc, erf

from flashlab.devices import kind_of_device
from flashlab.files import sha256_of
from flashlab.lab5.assigning import File, Line, Verdict, describe, stated
from flashlab.lab5.results import Result, result_of
from flashlab.lab5.words import ATTRIBUTES, described
from flashlab.plan.datasets import DatasetError, read_dataset
from flashlab.untrusted import UnsoundFileError, parse_json
from flashlab_grading.checks import PASSES

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

COARSE, TELLING = 2e-2, 12
"""Relative resolution of a time above which its agreement with another shows nothing; and fewest
different samples of a pass that two records do not share by chance."""

EQUAL_FILES, MOST = 3, 0.5
"""Fewest files with equal times that are a copy, however declared; and the share of a submission's
files, of one other or else of all, from which it fails. Of fewer, it is unknown who copied."""

MEAN_WIDTH, MEAN_SHARE = 1e-6, 0.8
"""Relative deviation of a time from the mean of others', and the share of times that must be so."""

KEYED = f"key != '' and `pass` == '{PASSES[0]}'"
"""The rows of files whose times, or samples, no other has by chance."""

EXACT, PROPORTIONAL = 1e-7, 1e-10
"""Relative difference below which numbers are computed from one another, as both passes of two
measurements are once in a million pairs; and that of the ratio of the two passes alone."""


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


COLUMNS = {
    **dict.fromkeys(("file", "device", "run", "key", "pass"), "str"),
    **dict.fromkeys(("is_sound", "is_sampled"), "bool"),
    **dict.fromkeys(("clock", "seconds", "resolution"), "float"),
}
"""The columns of `times_of` with their types."""


def times_of(results: Sequence[Result], files: Iterable[File] = ()) -> pd.DataFrame:
    """The times of a submission or a dataset, a row for each file and pass: what is compared.

    `run` is any text that is the same for the same run, of `files` or as stated; `is_sound` where
    the numbers leave that one. `key` is the same for equal times, or samples of a record that
    `is_sampled`, and empty where they may repeat by chance. `clock` is the seconds of the clock's
    step in a call, 0 if that is finer; `resolution` is relative.
    """
    options = {file.result.name: file.options for file in files}
    step, rows = clock_step(r for r in results if not r.samples), list[tuple[Any, ...]]()
    for r in results:
        resolutions = _resolutions(r, MEDIAN_CLOCK if r.samples else CLOCK)
        flops, times = f"{r.forward_flops:.6g}", [r.seconds[name] for name in PASSES]
        families = {*map(describe, options.get(r.name) or filter(None, [stated(r.told)]))}
        run = families.pop() if len(families) == 1 else f"{flops} {r.peak_mib:.9g}"
        # The median of single calls repeats, but not their samples.
        telling = [len({*own}) >= TELLING for own in r.samples.values()]
        is_telling = all(telling or [max(resolutions) <= LEAST_SCATTER])
        key = repr([*r.samples.values()] or (flops, times)) if is_telling else ""
        key = hashlib.sha256(key.encode()).hexdigest() if key else ""
        own = r.name, kind_of_device(r.said.get("device")), run, key
        flags = len({*options.get(r.name, ())}) == 1, bool(r.samples), step
        each = zip(PASSES, times, resolutions, strict=True)
        rows += [(*own, name, *flags, *numbers) for name, *numbers in each]
    return pd.DataFrame(rows, columns=[*COLUMNS]).astype(COLUMNS)


# Two submissions


Agreement = tuple[bool, float, float, NDArray[np.bool_]]
"""An agreement that no independent measurements have: whether it is only likely to be none, how
probable it is, in what width, and by which times."""


def _agreements(ratios: Floats, steps: Floats) -> Iterator[Agreement]:
    """The agreements of two owners, by the ratios of their times in logarithms.

    The chance is an upper bound of the probability that so many times agree, each of which does
    with a share: the count varies most when all shares are equal (Hoeffding 1956); where all
    agree, so does the product of their shares. Where any can begin the window (`free` is 1), the
    others must fall into it.
    """
    ordered, total = np.sort(ratios), len(ratios)

    def judged(inside: NDArray[np.bool_], width: float, scatter: float, free: int) -> Agreement:
        shares = np.sort(erf(np.maximum(steps, width * free) / (4 * scatter)))
        tail = bdtrc(inside.sum() - free - 1, total - free, float(shares.mean()))
        chance = total**free * float(min(tail, shares[free:].prod() if inside.all() else 1.0))
        return scatter != LEAST_SCATTER, chance, width, inside

    for width in WIDTHS:
        counts = np.searchsorted(ordered, ordered + width, side="right") - np.arange(total)
        low = ordered[int(counts.argmax())]
        yield judged((ratios >= low) & (ratios <= low + width), width, LEAST_SCATTER, 1)
    if (width := float(np.median(steps))) > WIDTHS[1]:  # one of the two has rounded them
        for scatter in LEAST_SCATTER, QUIET_SCATTER:
            yield judged(np.abs(ratios) <= 0.501 * steps + 1e-9, width, scatter, 0)


def _means(theirs: pd.DataFrame, mine: Floats) -> list[str]:
    """The two or three owners, of a row each, of whose times mine are plain means, if they are.

    The mean of two is that of three with itself. Some times may be original, so that several
    columns are tried.
    """
    names, values = [*theirs.index, ""], np.vstack([theirs.to_numpy(), mine])
    first, second = np.triu_indices(len(names), 1)
    for column in range(0, len(mine), max(1, len(mine) // 4)) if len(mine) > FEW else ():
        order, error = np.argsort(values[:, column]), 3e-6 * mine[column]
        third = 3 * mine[column] - values[first, column] - values[second, column]
        low, high = (np.searchsorted(values[order, column], third + d) for d in (-error, error))
        for p in np.flatnonzero(high > low):
            for k in order[low[p] : high[p]]:
                place = [first[p], second[p], k]
                off = abs(values[place].mean(axis=0) / mine - 1)
                if k > second[p] and (off < MEAN_WIDTH).mean() >= MEAN_SHARE:
                    return [*filter(None, (names[i] for i in place))]
    return []


def _told_of(own: pd.DataFrame, others: pd.DataFrame) -> Iterator[Line]:
    """Lines about the others whose times agree with an owner's."""
    run, suffixes, found = ["run", "pass"], ("", "_of"), dict[str, tuple[str, dict[str, str]]]()
    once = own.drop_duplicates(run)  # of a run that was handed in twice, the first counts
    both = once.merge(others.drop_duplicates(["owner", *run]), on=run, suffixes=suffixes)
    both["ratio"] = np.log(both["seconds"] / both["seconds_of"])
    both["step"] = both[["resolution", "resolution_of"]].max(axis=1)
    matched = set[tuple[str, str]]()
    for other, pair in both.groupby("owner_of"):
        ratios, steps = (pair[name].to_numpy() for name in ("ratio", "step"))
        likely = (a for a in _agreements(ratios, steps) if a[1] < CHANCE and len(pair) > 2)
        if agreement := min(likely, key=lambda a: a[:2], default=None):
            is_likely, chance, width, inside = agreement
            ratio = math.exp(float(np.median(ratios[inside])))
            code = "likely" if is_likely else "same" if abs(ratio - 1) < 1e-3 else "computed"
            params = {"other": str(other), "law": f"{ratio:.6g} · t", "width": f"{width:.1g}"}
            params |= {"count": str(int(inside.sum())), "total": str(len(pair))}
            params["chance"] = f"{-math.log10(max(chance, 1e-99)):.0f}"
            found[str(other)] = code, params
            matched |= {(str(other), file) for file in pair["file"][inside]}
    theirs = others.query(KEYED).drop_duplicates(["owner", "key"])
    equal = own.query(KEYED).merge(theirs, on="key", suffixes=suffixes)
    equal["is_many"] = equal.groupby("owner_of")["file"].transform("size").ge(EQUAL_FILES)
    matched |= {(str(x.owner_of), str(x.file)) for x in equal[equal["is_many"]].itertuples()}
    half, counts = MOST * own["file"].nunique(), Counter(other for other, _ in matched)
    alone = {other for other, count in counts.items() if count >= half}
    copied = (alone or {*counts}) if len({file for _, file in matched}) >= half else set()
    for other, (code, params) in found.items():
        code = code if other in copied else "part"
        yield Line("warn" if code in ("part", "likely") else "fail", f"copies.{code}", "", params)
    for each in equal[~equal["owner_of"].isin(found)].itertuples():
        is_sure = each.is_sampled or (each.is_many and each.owner_of in copied)
        code, params = "samples" if each.is_sampled else "file", {"other": str(each.owner_of)}
        yield Line("fail" if is_sure else "warn", f"copies.{code}", str(each.file), params)
    if not matched and len(both):
        theirs = both.pivot(index="owner_of", columns=run, values="seconds_of").dropna()
        mine = once.set_index(run)["seconds"][theirs.columns].to_numpy()
        if sources := _means(theirs, mine):
            yield Line("fail", "copies.average", "", {"others": "\0".join(sources)})


def copies_of(times: pd.DataFrame, owner: str) -> list[Line]:
    """Lines for a submission whose times agree with those of another `owner`.

    The others may be published datasets, of other names. A submission without any agreement has a
    line that says how far it was compared.
    """
    own, others = (times[is_own] for is_own in (times["owner"].eq(owner), times["owner"].ne(owner)))
    step, resolution = own["clock"].max(), own["resolution"].median()  # NaN where it is empty
    if step == 0 and (lines := [*_told_of(own, others[others["clock"].eq(0)])]):
        return lines
    if step > 0:
        return [Line("not_checked", "copies.clock", "", {"step": f"{CALLS * step * 1e3:.3g}"})]
    if resolution > COARSE:
        return [Line("not_checked", "copies.rounded")]
    is_compared = resolution > 0 and len(others)
    return [Line("pass", "copies.pass") if is_compared else Line("not_checked", "copies.alone")]


# One's own times


def check_own_copies(results: Iterable[Result]) -> Iterator[Line]:
    """Lines for files whose times follow from others of the submission, each file once.

    A file handed in twice as two runs, and files of which one is the other times a constant (a
    constant rate, or causal runs made from full ones): measurements are never these to seven
    digits.
    """
    fine = [r for r in results if max(_resolutions(r, 0.0)) <= EXACT / 5]
    ratio = {r.name: r.seconds["backward"] / r.seconds["forward"] for r in fine}
    for one, other in pairwise(sorted(fine, key=lambda r: ratio[r.name])):
        differ, stated_so = (
            any(a.get(k, b[k]) != b[k] for k in ATTRIBUTES if k in b)
            for a, b in ((one.told, other.told), (one.said, other.said))
        )
        off = abs(ratio[one.name] / ratio[other.name] - 1)
        factor = other.seconds["forward"] / one.seconds["forward"]
        is_equal = abs(factor - 1) < EXACT and off < EXACT
        is_one_run = math.isclose(one.forward_flops, other.forward_flops, rel_tol=EXACT)
        if (differ or not is_one_run) and (is_equal or off < PROPORTIONAL):
            # Only their names make them different runs, if these alone say so.
            verdict: Verdict = "fail" if stated_so or not is_equal else "warn"
            code = "copies.within" if is_equal else "copies.proportional"
            params, names = {"other": one.name, "ratio": f"{factor:.6g}"}, (one.told, other.told)
            yield Line(verdict, code, other.name, params, *map(described, names))


# What is published


ROOT, OURS = Path(__file__).parents[2], "h[12]00"
"""The project, and the datasets that come with it; others are what was frozen here."""
SLIDES, SLIDE = "the course's slides", ROOT / "data" / "published" / "slide.json"


@cache
def recorded(datasets: str = OURS) -> list[tuple[str, Path, str | None]]:
    """The source, the file and the SHA-256 of each result of the slides and of these datasets.

    Each dataset's protocol is a source of its own, because a run was measured by each.
    """
    found: list[tuple[str, Path, str | None]] = [(SLIDES, SLIDE, sha256_of(SLIDE))]
    for manifest in sorted(ROOT.glob(f"data/{datasets}/manifest.json")):
        with suppress(DatasetError):  # a damaged dataset stops the pipeline, not the grading
            own = read_dataset(manifest.parent)
            named = f"data/{own.name} ({{}})".format
            found += [(named(e.protocol["name"]), e.path, e.sha256) for e in own.entries]
    return found


def published_times(datasets: str = OURS) -> pd.DataFrame:
    """The times of what is `recorded`, its `owner` the name that is reported."""
    found = defaultdict[str, list[Result]](list)
    for name, path, _ in recorded(datasets):
        with suppress(OSError, UnsoundFileError):
            result = result_of(parse_json(path.read_bytes()), path.name, path.name, "")
            found[name] += [result] if result and result.status == "ok" else []
    return pd.concat(times_of(results).assign(owner=name) for name, results in found.items())
