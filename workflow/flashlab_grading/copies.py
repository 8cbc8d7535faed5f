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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtrc, erf

from flashlab.files import sha256_of
from flashlab.lab5.assigning import File, stated
from flashlab.lab5.results import Result, result_of
from flashlab.lab5.said import ATTRIBUTES, described
from flashlab.plan.datasets import DatasetError, read_dataset
from flashlab.untrusted import UnsoundFileError, parse_json
from flashlab_grading.checks import PASSES, Line, Verdict, family, kind_of_device, samples_of

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

KEYED = f"key != '' and `pass` == '{PASSES[0]}'"
"""The rows of files whose times, or samples, no other has by chance."""

TELLING = 12
"""Fewest different samples of a pass that two records do not share by chance."""

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


def times_of(results: Sequence[Result], files: Iterable[File] = ()) -> pd.DataFrame:
    """The times of a submission or a dataset, a row for each file and pass: what is compared.

    `run` is any text that is the same for the same run, of `files` or as stated; `is_sound` where
    the numbers leave that one. `key` is the same for equal times, or samples of a record that
    `is_sampled`, and empty where they may repeat by chance. `clock` is the seconds of the clock's
    step in a call, 0 if that is finer; `resolution` is relative.
    """
    options = {file.result.name: [*map(family, file.options)] for file in files}
    step, rows = clock_step(r for r in results if not samples_of(r)), list[dict[str, Any]]()
    for r in results:
        option, samples = stated(r.told), samples_of(r)
        families = {*(options.get(r.name) or map(family, filter(None, [option])))}
        resolutions = _resolutions(r, MEDIAN_CLOCK if samples else CLOCK)
        numbers = f"{r.forward_flops:.6g} {r.peak_mib:.9g}"
        # The median of single calls repeats, but not their samples.
        equal: list[object] = [numbers.split()[0], *map(r.seconds.get, PASSES)]
        is_telling = max(resolutions) <= LEAST_SCATTER
        if samples:
            equal = [*samples.values()]
            is_telling = all(len({*each}) >= TELLING for each in samples.values())
        own = {
            "file": r.name,
            "device": kind_of_device(r.said.get("device")) or "",
            "run": str(families) if len(families) == 1 else numbers,
            "is_sound": len({*options.get(r.name, ())}) == 1,
            "is_sampled": bool(samples),
            "key": hashlib.sha256(repr(equal).encode()).hexdigest() if is_telling else "",
            "clock": step,
        }
        for name, resolution in zip(PASSES, resolutions, strict=True):
            rows.append({**own, "pass": name, "seconds": r.seconds[name], "resolution": resolution})
    columns = dict.fromkeys(("file", "device", "run", "key", "pass"), "str")
    columns |= {"is_sound": "bool", "is_sampled": "bool"}
    columns |= dict.fromkeys(("clock", "seconds", "resolution"), "float")
    return pd.DataFrame(rows, columns=[*columns]).astype(columns)


# Two submissions


class _Agreement(NamedTuple):
    """An agreement of two owners that no independent measurements have: by which times."""

    is_likely: bool
    chance: float
    width: float
    inside: NDArray[np.bool_]
    ratio: float

    @property
    def code(self) -> str:
        """The key of its message."""
        return "likely" if self.is_likely else "same" if abs(self.ratio - 1) < 1e-3 else "computed"


def _agreement(ratios: Floats, steps: Floats) -> _Agreement | None:
    """The agreement of two owners, by the ratios of their times in logarithms, if there is one.

    The chance is an upper bound of the probability that so many times agree, each of which does
    with a share: the count varies most when all shares are equal (Hoeffding 1956); where all
    agree, so does the product of their shares. Where any can begin the window (`free` is 1), the
    others must fall into it.
    """
    ordered, total, found = np.sort(ratios), len(ratios), list[_Agreement]()

    def add(inside: NDArray[np.bool_], width: float, scatter: float, free: int) -> None:
        shares = np.sort(erf(np.maximum(steps, width * free) / (4 * scatter)))
        tail = bdtrc(inside.sum() - free - 1, total - free, float(shares.mean()))
        chance = total**free * float(min(tail, shares[free:].prod() if inside.all() else 1.0))
        if chance < CHANCE:
            ratio = math.exp(float(np.median(ratios[inside])))
            found.append(_Agreement(scatter != LEAST_SCATTER, chance, width, inside, ratio))

    for width in WIDTHS:
        counts = np.searchsorted(ordered, ordered + width, side="right") - np.arange(total)
        low = ordered[int(counts.argmax())]
        add((ratios >= low) & (ratios <= low + width), width, LEAST_SCATTER, 1)
    if (width := float(np.median(steps))) > WIDTHS[1]:  # one of the two has rounded them
        for scatter in LEAST_SCATTER, QUIET_SCATTER:
            add(np.abs(ratios) <= 0.501 * steps + 1e-9, width, scatter, 0)
    return min(found, key=lambda each: each[:2], default=None)


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
    run, suffixes, owner = ["run", "pass"], ("", "_of"), str(own["owner"].iloc[0])
    once = own.drop_duplicates(run)  # of a run that was handed in twice, the first counts
    both = once.merge(others.drop_duplicates(["owner", *run]), on=run, suffixes=suffixes)
    both["ratio"] = np.log(both["seconds"] / both["seconds_of"])
    both["step"] = both[["resolution", "resolution_of"]].max(axis=1)
    found, matched = list[tuple[str, int, _Agreement]](), set[str]()
    for other, pair in both.groupby("owner_of"):
        ratios, steps = (pair[name].to_numpy() for name in ("ratio", "step"))
        if len(pair) > 2 and (agreement := _agreement(ratios, steps)):
            found.append((str(other), len(pair), agreement))
            matched |= {*pair["file"][agreement.inside]}
    theirs = others.query(KEYED).drop_duplicates(["owner", "key"])
    equal = own.query(KEYED).merge(theirs, on="key", suffixes=suffixes)
    equal["is_many"] = equal.groupby("owner_of")["file"].transform("size").ge(EQUAL_FILES)
    matched |= {*equal["file"][equal["is_many"]]}
    is_copy = len(matched) >= MOST * own["file"].nunique()
    for other, total, agreement in found:
        params = {
            **{"other": other, "count": str(int(agreement.inside.sum())), "total": str(total)},
            **{"law": f"{agreement.ratio:.6g} · t", "width": f"{agreement.width:.1g}"},
            "chance": f"{-math.log10(max(agreement.chance, 1e-99)):.0f}",
        }
        code = agreement.code if is_copy else "part"
        verdict: Verdict = "warn" if code in ("part", "likely") else "fail"
        yield Line(verdict, f"copies.{code}", "", params, "", "", owner)
    for each in equal[~equal["owner_of"].isin([other for other, *_ in found])].itertuples():
        is_sure = each.is_sampled or (each.is_many and is_copy)
        code = "copies.samples" if each.is_sampled else "copies.file"
        params = {"other": str(each.owner_of)}
        yield Line("fail" if is_sure else "warn", code, str(each.file), params, "", "", owner)
    if not matched and len(both):
        theirs = both.pivot(index="owner_of", columns=run, values="seconds_of").dropna()
        mine = once.set_index(run)["seconds"][theirs.columns].to_numpy()
        if sources := _means(theirs, mine):
            params = {"others": "\0".join(sources)}
            yield Line("fail", "copies.average", "", params, "", "", owner)


def copies_between(times: pd.DataFrame, names: Iterable[str]) -> Iterator[Line]:
    """Lines for the submissions of these names, whose times agree with another `owner`'s.

    The others may be published datasets, of other names. A submission without any agreement has a
    line that says how far it was compared.
    """
    fine = times[times["clock"].eq(0)]
    for name in names:
        own = times[times["owner"].eq(name)]
        step, resolution = own["clock"].max(), own["resolution"].median()  # NaN where it is empty
        lines = [*_told_of(own, fine[fine["owner"].ne(name)])] if step == 0 else []
        verdict: Verdict = "not_checked"
        code, params = "copies.alone", {"step": f"{CALLS * step * 1e3:.3g}"}
        if step > 0:
            code = "copies.clock"
        elif resolution > COARSE:
            code = "copies.rounded"
        elif resolution > 0 and times["owner"].nunique() > 1:
            verdict, code = "pass", "copies.pass"
        yield from lines or [Line(verdict, code, "", params, "", "", name)]


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
        names = [result.told for result in (one, other)]
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


# What is published


ROOT = Path(__file__).parents[2]
SLIDES, SLIDE = "the course's slides", ROOT / "data" / "published" / "slide.json"


@cache
def _recorded() -> list[tuple[str, Path, str | None]]:
    """The source, the file and the SHA-256 of each result that comes with the project.

    Each dataset's protocol is a source of its own, because a run was measured by each.
    """
    found: list[tuple[str, Path, str | None]] = []
    found += [(SLIDES, SLIDE, sha256_of(SLIDE))] if SLIDE.exists() else []
    for manifest in sorted(ROOT.glob("data/*/manifest.json")):
        with suppress(DatasetError):  # a damaged dataset stops the pipeline, not the grading
            own = read_dataset(manifest.parent)
            named = ((f"data/{own.name} ({e.protocol['name']})", e) for e in own.entries)
            found += [(name, e.path, e.sha256) for name, e in named]
    return found


def shipped() -> frozenset[str | None]:
    """The SHA-256 of the results that come with the project, which are nobody's own."""
    return frozenset(digest for *_, digest in _recorded())


def published_times() -> pd.DataFrame:
    """The times of what comes with the project, its `owner` the name that is reported."""
    found: dict[str, list[Result]] = defaultdict(list)
    for name, path, _ in _recorded():
        with suppress(OSError, UnsoundFileError):
            result = result_of(parse_json(path.read_bytes()), path.name, path.name, "")
            found[name] += [result] if result and result.status == "ok" else []
    every = [times_of(results).assign(owner=name) for name, results in found.items()]
    return pd.concat([times_of(()).assign(owner=""), *every])
