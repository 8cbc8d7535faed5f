"""Check 5, plausibility: times against their neighbours and the class, and records' samples.

Nothing here is impossible but samples that are all equal, or the same noise everywhere: another
process on the machine makes any time longer, and a kernel may be slow at one size. So these are
warnings. Times under 0.3 ms, or of few steps of a coarse clock, prove nothing by their order.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

import pandas as pd

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.lab5.assigning import File
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result
from flashlab.lab5.words import FLASH2, NAIVE, SIZES
from flashlab_grading.model import LAUNCH_SECONDS as LAUNCHES
from flashlab_grading.model import PASSES, Line, samples_of

STEPS = 20
"""Fewest steps of a clock in a time that is compared with another."""

TWICE, LONG_SECONDS = 1.99, 1e-3
"""With so many times another's operations and bytes a run must not be faster, from the time on
whose launches are too short to turn the order around. It is 1.99 because what a process holds
anyway keeps twice the work from being twice the bytes."""

INVERSION, LAUNCH_SCATTER = 1.1, 0.15e-3
"""So many times faster, and so many seconds, a shorter one may be: an H200 took 0.44 ms
for a naive backward of a dozen kernels, and 0.36 for one of twice the work."""

PASS_RATIO = (0.3, 8.0)
"""Range of backward over forward time; 0.9 to 4 on the GPUs measured so far."""

CLASS_SIZE, CLASS_FACTOR = 5, 1.9
"""Fewest submissions with the same point, of the same device, for its median to count; and the
factor by which a point, relative to the level of its submission, or that level may be off."""

ENOUGH = 8
"""Fewest samples that are judged."""


def _work(option: Option) -> tuple[float, float]:
    """Operations and bytes held by a run; Flash2's with its padded head sizes."""
    who, shape = option
    if who == NAIVE:
        return costs.forward_flops(shape), costs.naive_peak_memory(shape, workspaces=0)
    padded = -(-shape.head_dim // 32) * 32 / shape.head_dim
    return costs.forward_flops(shape) * padded, costs.flash2_peak_memory(shape)


def check_plausibility(files: Sequence[File], step: float) -> list[Line]:
    """Contradictions among a submission's own files; a single line where there are none.

    A file that can be one of several runs is compared as each of them: they have the same work. A
    file is named once, with the first contradiction found. Where no file's run is known there is no
    line, and the check was not made. `step` is the clock's.
    """
    points = [(f.result, o) for f in files for o in f.options if o[0] in (NAIVE, FLASH2)]
    found: dict[str, Line] = {}
    (low, high), least = PASS_RATIO, max(LAUNCHES, STEPS * step)
    for result, _ in points:
        times = [result.seconds[name] for name in PASSES]
        is_long = max(times) >= least and min(times) >= STEPS * step
        if is_long and not low <= times[1] / times[0] <= high:
            texts = f"{low:g} – {high:g}", f"{times[1] / times[0]:.3g}"
            found[result.name] = Line("warn", "plausibility.ratio", result.name, {}, *texts)
    sweeps = defaultdict[object, dict[int, list[tuple[Result, Option]]]](lambda: defaultdict(list))
    for result, option in points:
        for name in SIZES if result.name not in found else ():  # else it proves nothing of others
            others = Shape.of({**option[1].parameters, name: 0})
            sizes = sweeps[option[0], name, others]
            sizes[getattr(option[1], name)].append((result, option))
    for sweep in sweeps.values():
        for (_, some), (_, more) in combinations(sorted(sweep.items()), 2):
            works = zip(_work(some[0][1]), _work(more[0][1]), strict=True)
            if min(b / a for a, b in works) < TWICE:
                continue
            for (less, _), (other, _), name in product(some, more, PASSES):
                short, long = less.seconds[name], other.seconds[name]
                limit = long if long >= LONG_SECONDS else INVERSION * long + LAUNCH_SCATTER
                if min(short, long) >= least and short > limit:
                    texts = f"< {long * 1e3:.4g} ms", f"{short * 1e3:.4g} ms"
                    params = {"pass": name, "other": other.name}
                    line = Line("warn", "plausibility.order", less.name, params, *texts)
                    found.setdefault(less.name, line)
    count = {"count": str(len({result.name for result, _ in points}))}
    passed = [Line("pass", "plausibility.pass", params=count)] if points else []
    return [found[name] for name in sorted(found)] or passed


def class_outliers(times: pd.DataFrame) -> Iterator[Line]:
    """Warnings about points, and whole submissions, that are far from those of the same device.

    `times` are those of a class (`copies.times_of`), by `owner`. Each is compared relative to its
    submission's level, the median of its ratios to the class. Where no device is named, only levels
    are.
    """
    keys = ["device", "run", "pass"]
    points = times[times["seconds"].ge(STEPS * times["clock"])]
    points = points.drop_duplicates(["owner", *keys])
    of_class = points.groupby(keys)["seconds"]
    points = points.assign(median=of_class.transform("median"), count=of_class.transform("size"))
    is_long = points[["median", "seconds"]].min(axis=1).ge(LAUNCHES)
    points = points[is_long & points["count"].ge(CLASS_SIZE)]
    levels = (points["seconds"] / points["median"]).groupby(points["owner"]).transform("median")
    points = points.assign(level=levels, usual=points["median"] * levels)
    low, high = 1 / CLASS_FACTOR, CLASS_FACTOR
    for submission, level in points.groupby("owner")["level"].first().items():
        if not low <= level <= high:
            found = f"{level:.3g}"
            texts = f"{low:.2g} – {high:g}", found, str(submission)
            yield Line("warn", "plausibility.level", "", {"factor": found}, *texts)
    is_off = ~(points["seconds"] / points["usual"]).between(low, high) & points["device"].ne("")
    for point in points[is_off].to_dict("records"):
        params = {"pass": point["pass"], "factor": f"{high:g}"}
        usual, found = (f"{point[key] * 1e3:.4g} ms" for key in ("usual", "seconds"))
        yield Line(
            "warn", "plausibility.class", point["file"], params, usual, found, point["owner"]
        )


def check_samples(results: Iterable[Result]) -> Iterator[Line]:
    """Lines for the records whose samples no measurement gives: all equal, or one noise in several.

    None for the others.
    """
    noises: dict[tuple[float, ...], dict[str, None]] = defaultdict(dict)
    for result in results:
        for name, own in samples_of(result).items():
            # A clock repeats short times.
            if len(own) >= ENOUGH and LAUNCHES <= min(own) == max(own):
                yield Line("fail", "plausibility.identical", result.name, {"pass": name})
                break
            if len({*own}) >= ENOUGH and (median := statistics.median(own)) > 0:
                noises[tuple(float(f"{x / median:.6g}") for x in sorted(own))][result.name] = None
    for first, *others in map(list, noises.values()):
        for file, other in [(first, others[0]), *((x, first) for x in others)] if others else ():
            yield Line("fail", "plausibility.one_noise", file, {"other": other})
