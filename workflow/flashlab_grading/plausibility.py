"""Check 5, plausibility: times against their neighbours and the class, and records' samples.

Nothing here is impossible but samples that are all equal, or the same noise everywhere: another
process on the machine makes any time longer, and a kernel may be slow at one size. So these are
warnings. Times under 0.3 ms, or of few steps of a coarse clock, prove nothing by their order.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import pandas as pd

from flashlab.benchmarks.attention import costs
from flashlab.lab5.assigning import File
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result
from flashlab.lab5.words import FLASH2, NAIVE, SIZES
from flashlab_grading.model import LAUNCH_SECONDS as LAUNCHES
from flashlab_grading.model import PASSES, Line, family, kind_of_device, samples_of

STEPS = 20
"""Fewest steps of a clock in a time that is compared with another."""

LAUNCH_SCATTER = 0.15e-3
"""Seconds that launches can add to a longer time: on an H200, a naive backward pass of a dozen
kernels took 0.44 ms, one of twice the work 0.36 ms."""

MORE_WORK, INVERSION = 1.5, 1.1
"""A run with so many times another's operations and bytes must not be so many times faster."""

TWICE, LONG_SECONDS = 1.99, 1e-3
"""With so many times another's operations and bytes it must not be faster at all, from the time on
whose launches are too short to turn the order around. It is 1.99 because what a process holds
anyway keeps twice the work from being twice the bytes."""

PASS_RATIO = (0.3, 8.0)
"""Range of backward over forward time; 0.9 to 4 on the GPUs measured so far."""

CLASS_SIZE, CLASS_FACTOR = 5, 1.9
"""Fewest submissions with the same point, of the same device, for its median to count; and the
factor by which a point, relative to the level of its submission, or that level may be off."""

ENOUGH = 8
"""Fewest samples that are judged."""

Point = tuple[Result, Option]
"""A result, and a run that it is."""


def _work(option: Option) -> tuple[float, float]:
    """Operations and bytes held by a run; Flash2's with its padded head sizes."""
    who, shape = option
    if who == NAIVE:
        return costs.forward_flops(shape), costs.naive_peak_memory(shape, workspaces=0)
    padded = -(-shape.head_dim // 32) * 32 / shape.head_dim
    return costs.forward_flops(shape) * padded, costs.flash2_peak_memory(shape)


def sweeps_of(points: Iterable[Point]) -> Iterator[list[tuple[int, list[Point]]]]:
    """Runs that differ in one size alone, in its order: the size, and the points that have it."""
    groups: dict[tuple[object, ...], dict[int, list[Point]]] = defaultdict(dict)
    for point in points:
        who, shape = point[1]
        for name in SIZES:
            sizes = groups[who, name, *{**shape.parameters, name: 0}.values()]
            sizes.setdefault(getattr(shape, name), []).append(point)
    yield from (sorted(sweep.items()) for sweep in groups.values() if len(sweep) > 1)


def _contradictions(sweep: Sequence[Sequence[Point]], least: float) -> Iterator[Line]:
    """Lines for the points that are slower than one of the same sweep with more work."""
    for less, more in combinations(sweep, 2):
        works = zip(_work(less[0][1]), _work(more[0][1]), strict=True)
        work = min(b / a for a, b in works)
        for name in PASSES if work >= MORE_WORK else ():
            fastest = min((result for result, _ in more), key=lambda r: r.seconds[name])
            long = fastest.seconds[name]
            for result, short in ((result, result.seconds[name]) for result, _ in less):
                is_slower = work >= TWICE and short > long >= LONG_SECONDS
                is_much_slower = short > INVERSION * long + LAUNCH_SCATTER
                if min(short, long) >= least and (is_slower or is_much_slower):
                    params = {"pass": name, "other": fastest.name}
                    texts = f"< {long * 1e3:.4g} ms", f"{short * 1e3:.4g} ms"
                    yield Line("warn", "plausibility.order", result.name, params, *texts)


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
    # A point that is itself in doubt proves nothing about the others.
    for sweep in [*sweeps_of(point for point in points if point[0].name not in found)]:
        for line in _contradictions([those for _, those in sweep], least):
            found.setdefault(line.file, line)
    count = {"count": str(len({result.name for result, _ in points}))}
    passed = [Line("pass", "plausibility.pass", params=count)] if points else []
    return [found[name] for name in sorted(found)] or passed


def class_outliers(classmates: Mapping[str, tuple[Sequence[Point], float]]) -> Iterator[Line]:
    """Warnings about points, and whole submissions, that are far from those of the same device.

    `classmates` are the points of each submission and its clock's step. Each point is compared
    relative to its submission's level, the median of its ratios to the class. Where no device is
    named, only levels are.
    """
    cells = [
        (submission, device, str(family(option)), name, r.seconds[name], r.name)
        for submission, (own, step) in classmates.items()
        for r, option in own
        for device in [kind_of_device(r.said.get("device")) or ""]
        for name in PASSES
        if r.seconds[name] >= STEPS * step
    ]
    keys = ["device", "run", "pass"]
    every = pd.DataFrame(cells, columns=["submission", *keys, "seconds", "file"])
    points = every.drop_duplicates(["submission", *keys])
    of_class = points.groupby(keys)["seconds"]
    points = points.assign(median=of_class.transform("median"), count=of_class.transform("size"))
    points = points[points["count"].ge(CLASS_SIZE)]
    points = points[points[["median", "seconds"]].min(axis=1).ge(LAUNCHES)]
    ratios = points["seconds"] / points["median"]
    levels = ratios.groupby(points["submission"]).transform("median")
    for submission, level in levels.groupby(points["submission"]).first().items():
        if not 1 / CLASS_FACTOR <= level <= CLASS_FACTOR:
            expected, found = f"{1 / CLASS_FACTOR:.2g} – {CLASS_FACTOR:g}", f"{level:.3g}"
            params = {"factor": found}
            yield Line("warn", "plausibility.level", "", params, expected, found, str(submission))
    points = points.assign(usual=points["median"] * levels)
    off = ~(points["seconds"] / points["usual"]).between(1 / CLASS_FACTOR, CLASS_FACTOR)
    for point in points[off & points["device"].ne("")].to_dict("records"):
        params = {"pass": point["pass"], "factor": f"{CLASS_FACTOR:g}"}
        usual, found = (f"{point[key] * 1e3:.4g} ms" for key in ("usual", "seconds"))
        submission, file = point["submission"], point["file"]
        yield Line("warn", "plausibility.class", file, params, usual, found, submission)


def check_samples(results: Iterable[Result]) -> Iterator[Line]:
    """Lines for the records whose samples no measurement gives; none for the others."""
    noises: dict[tuple[float, ...], dict[str, None]] = defaultdict(dict)
    for result in results:
        enough = {name: own for name, own in samples_of(result).items() if len(own) >= ENOUGH}
        # A clock repeats short times.
        equal = [n for n, own in enough.items() if LAUNCHES <= min(own) == max(own)]
        for name in equal[:1]:
            yield Line("fail", "plausibility.identical", result.name, {"pass": name})
        for own in enough.values() if not equal else ():
            if len({*own}) >= ENOUGH and (median := statistics.median(own)) > 0:
                noises[tuple(float(f"{x / median:.6g}") for x in sorted(own))][result.name] = None
    for files in map(list, noises.values()):
        for file in files if len(files) > 1 else ():
            params = {"other": files[file == files[0]]}
            yield Line("fail", "plausibility.one_noise", file, params)
