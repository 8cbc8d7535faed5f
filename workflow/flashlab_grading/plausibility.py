"""Check 5, plausibility: points that contradict their neighbours or the class.

Nothing here is impossible: another process on the machine makes any time longer, and a kernel may
be slow at one size. So these are warnings. Times under 0.3 ms are mostly kernel launches, so their
order proves nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from flashlab.benchmarks.attention import costs
from flashlab.course.declaration import kind_of_device
from flashlab.course.identity import Candidate
from flashlab.course.words import FLASH2
from flashlab_grading.identity import Point
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line

LAUNCH_SCATTER = 0.15e-3
"""Seconds that launches can add to a longer time: on an H200, a naive backward pass of a dozen
kernels took 0.44 ms, one of twice the work 0.36 ms."""

MORE_WORK = 1.5
"""A run with this many times another's operations and bytes must not be faster than it."""

INVERSION = 1.1
"""How many times slower than a run of more work a run must be to be contradicted by it."""

PASS_RATIO = (0.3, 8.0)
"""Range of backward over forward time; 0.9 to 4 on the GPUs measured so far."""

CLASS_SIZE = 5
"""Fewest submissions with the same point, of the same device, for its median to count."""

CLASS_FACTOR = 2.5
"""Factor by which a point may be off the class's median, relative to its submission's level."""

CLASS_FASTER = 1.8
"""Factor by which a point may be faster than anybody else's, relative to their levels."""

CLASS_LEVEL = 2.0
"""Factor by which a whole submission may be off the class before its device is in question."""

MILLISECONDS = (500.0, 2000.0)
"""Levels at which milliseconds were taken for seconds."""


def _work(family: Candidate) -> tuple[float, float]:
    """Operations and bytes held by a run; Flash2's with its padded head sizes."""
    shape = family.shape
    if family.implementation == FLASH2:
        d = -(-family.head_dim // 32) * 32
        padded = replace(family, head_dim=d).shape
        return costs.forward_flops(padded), costs.flash2_peak_memory(padded)
    return costs.forward_flops(shape), costs.naive_peak_memory(shape, workspaces=0)


def sweeps_of(points: Sequence[Point]) -> Iterator[list[tuple[float, Point]]]:
    """Points that differ in one size, in its order: along B·H, N, d, and d at the same B·H·d."""
    groups: dict[tuple[object, ...], dict[float, Point]] = defaultdict(dict)
    for point in points:
        f = point.family
        kind = (f.implementation, f.causal)
        for key, size in (
            (("B·H", f.seq_len, f.head_dim), f.groups),
            (("N", f.groups, f.head_dim), f.seq_len),
            (("d", f.groups, f.seq_len), f.head_dim),
            (("H", f.groups * f.head_dim, f.seq_len), f.groups),
        ):
            # Of a run that was submitted more than once, the first counts.
            groups[kind + key].setdefault(size, point)
    for sweep in groups.values():
        if len(sweep) > 1:
            yield sorted(sweep.items(), key=lambda item: item[0])


def _contradictions(
    sweep: Sequence[tuple[float, Point]], doubted: Mapping[str, Line]
) -> Iterator[Line]:
    """Lines for pairs of neighbours of which the one with less work is slower."""
    # A point that is itself in doubt proves nothing about its neighbours.
    sound = [point for _, point in sweep if point.result.name not in doubted]
    for less, more in pairwise(sound):
        ratios = [b / a for a, b in zip(_work(less.family), _work(more.family), strict=True)]
        for name in PASSES:
            short, long = (p.result.numbers.seconds[name] for p in (less, more))
            measurable = min(short, long) >= LAUNCH_SECONDS and min(ratios) >= MORE_WORK
            if measurable and short > INVERSION * long + LAUNCH_SCATTER:
                params = {"pass": name, "other": more.result.name}
                texts = f"< {long * 1e3:.4g} ms", f"{short * 1e3:.4g} ms"
                yield Line("warn", "plausibility.order", less.result.name, params, *texts)


def check_plausibility(points: Sequence[Point]) -> list[Line]:
    """Contradictions among a submission's own points; a single line where there are none.

    A file is named once, with the first contradiction found. Where no file's run is known there is
    no line, and the check was not made.
    """
    found: dict[str, Line] = {}
    low, high = PASS_RATIO
    for point in points:
        name = point.result.name
        forward, backward = (point.result.numbers.seconds[passed] for passed in PASSES)
        if max(forward, backward) >= LAUNCH_SECONDS and not low <= backward / forward <= high:
            texts = f"{low:g} – {high:g}", f"{backward / forward:.3g}"
            found.setdefault(name, Line("warn", "plausibility.ratio", name, {}, *texts))
    for sweep in sweeps_of(points):
        for line in _contradictions(sweep, dict(found)):
            found.setdefault(line.file, line)
    if found:
        return [found[name] for name in sorted(found)]
    count = {"count": str(len(points))}
    return [Line("pass", "plausibility.pass", params=count)] if points else []


# Against the class


def class_outliers(points: Mapping[str, Sequence[Point]]) -> Iterator[Line]:
    """Warnings about points, and whole submissions, that are far from those of the same device.

    `points` are those of each submission. Each point is compared relative to its submission's
    level, the median of its ratios to the class. Where no device is named, only levels are.
    """
    runs: dict[tuple[str | None, Candidate, str], dict[str, Point]] = defaultdict(dict)
    for submission, own in points.items():
        for point in own:
            device = kind_of_device(point.result.declaration.device_name)
            for name in PASSES:
                runs[device, point.family, name].setdefault(submission, point)
    compared = []
    ratios: dict[str, list[float]] = defaultdict(list)
    for (device, _, name), of_class in runs.items():
        seconds = {s: point.result.numbers.seconds[name] for s, point in of_class.items()}
        median = statistics.median(seconds.values())
        if len(seconds) >= CLASS_SIZE and median >= LAUNCH_SECONDS:
            long = {s: value for s, value in seconds.items() if value >= LAUNCH_SECONDS}
            compared.append((device, name, of_class, long, median))
            for submission, value in long.items():
                ratios[submission].append(value / median)
    levels = {submission: statistics.median(own) for submission, own in ratios.items()}
    for submission, level in levels.items():
        if not 1 / CLASS_LEVEL <= level <= CLASS_LEVEL:
            low, high = MILLISECONDS
            in_ms = low < level < high
            code = "plausibility.milliseconds" if in_ms else "plausibility.level"
            texts = f"{1 / CLASS_LEVEL:g} – {CLASS_LEVEL:g}", f"{level:.3g}"
            yield Line("warn", code, "", {"factor": f"{level:.3g}"}, *texts, submission)
    for device, name, of_class, long, median in compared:
        relative = {submission: value / levels[submission] for submission, value in long.items()}
        first, second = sorted(relative.values())[:2]
        for submission, value in relative.items() if device is not None else ():
            others = second if value == first else first
            code, factor, usual = "plausibility.class", CLASS_FACTOR, median
            if value * CLASS_FASTER < others:
                code, factor, usual = "plausibility.fast", CLASS_FASTER, others
            elif 1 / CLASS_FACTOR <= value / median <= CLASS_FACTOR:
                continue
            params = {"pass": name, "factor": f"{factor:g}"}
            expected = f"{usual * levels[submission] * 1e3:.4g} ms"
            texts = expected, f"{long[submission] * 1e3:.4g} ms"
            file = of_class[submission].result.name
            yield Line("warn", code, file, params, *texts, submission)
