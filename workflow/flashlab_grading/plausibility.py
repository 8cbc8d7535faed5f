"""Check 5, plausibility: points that contradict their neighbours or the class.

Nothing here is impossible: another process on the machine makes any time longer, and a kernel may
be slow at one size. So these are warnings. Times under 0.3 ms are mostly kernel launches, so their
order proves nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from flashlab.benchmarks.attention import costs
from flashlab.course.declaration import kind_of_device
from flashlab.course.identity import Candidate
from flashlab.course.words import FLASH2, NAIVE
from flashlab_grading.identity import Point, possible_families
from flashlab_grading.model import LAUNCH_SECONDS, PASSES, Line, Result

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

CLASS_SIZE = 5
"""Fewest submissions with the same point, of the same device, for its median to count."""

CLASS_FACTOR, CLASS_FASTER = 2.5, 1.8
"""Factors by which a point may be off the class's median, and faster than anybody else's, relative
to the level of its submission."""

CLASS_LEVEL = 2.0
"""Factor by which a whole submission may be off the class before its device is in question."""


def _work(family: Candidate) -> tuple[float, float]:
    """Operations and bytes held by a run; Flash2's with its padded head sizes."""
    shape = family.shape
    if family.implementation == FLASH2:
        d = -(-family.head_dim // 32) * 32
        padded = replace(family, head_dim=d).shape
        return costs.forward_flops(padded), costs.flash2_peak_memory(padded)
    return costs.forward_flops(shape), costs.naive_peak_memory(shape, workspaces=0)


def sweeps_of(points: Sequence[Point]) -> Iterator[list[tuple[float, list[Point]]]]:
    """Runs that differ in one size, in its order: along B·H, N, d, and d at the same B·H·d.

    Of each, the size and the points, of which there are several if it was measured again.
    """
    groups: dict[tuple[object, ...], dict[float, list[Point]]] = defaultdict(dict)
    for point in points:
        f = point.family
        kind = (f.implementation, f.causal)
        for key, size in (
            (("B·H", f.seq_len, f.head_dim), f.groups),
            (("N", f.groups, f.head_dim), f.seq_len),
            (("d", f.groups, f.seq_len), f.head_dim),
            (("H", f.groups * f.head_dim, f.seq_len), f.groups),
        ):
            groups[kind + key].setdefault(size, []).append(point)
    for sweep in groups.values():
        if len(sweep) > 1:
            yield sorted(sweep.items(), key=lambda item: item[0])


def _is_contradicted(short: float, long: float, work: float) -> bool:
    """True if a run cannot take `short` seconds where one of `work` times its work takes `long`."""
    if work < MORE_WORK or min(short, long) < LAUNCH_SECONDS:
        return False
    is_slower = work >= TWICE and short > long >= LONG_SECONDS
    return is_slower or short > INVERSION * long + LAUNCH_SCATTER


def _contradictions(
    sweep: Sequence[tuple[float, Sequence[Point]]], doubted: Container[str]
) -> Iterator[Line]:
    """Lines for the points that are slower than one of the same sweep with more work."""
    # A point that is itself in doubt proves nothing about the others.
    sound = [[p for p in points if p.result.name not in doubted] for _, points in sweep]
    known = [(points, _work(points[0].family)) for points in sound if points]
    for (less, own), (more, others) in combinations(known, 2):
        work = min(b / a for a, b in zip(own, others, strict=True))
        for name in PASSES:
            fastest = min(more, key=lambda point: point.result.numbers.seconds[name])
            long = fastest.result.numbers.seconds[name]
            for point in less:
                short = point.result.numbers.seconds[name]
                if _is_contradicted(short, long, work):
                    params = {"pass": name, "other": fastest.result.name}
                    texts = f"< {long * 1e3:.4g} ms", f"{short * 1e3:.4g} ms"
                    yield Line("warn", "plausibility.order", point.result.name, params, *texts)


def check_plausibility(
    results: Sequence[Result], candidates: Mapping[str, Sequence[Candidate]]
) -> list[Line]:
    """Contradictions among a submission's own files; a single line where there are none.

    A file that can be one of several runs is compared as each of them: they have the same work. A
    file is named once, with the first contradiction found. Where no file's run is known there is no
    line, and the check was not made.
    """
    points = [
        Point(result, family)
        for result in results
        for family in possible_families(result, candidates.get(result.name, ()))
        if family.implementation in (NAIVE, FLASH2)
    ]
    found: dict[str, Line] = {}
    low, high = PASS_RATIO
    for point in points:
        name = point.result.name
        forward, backward = (point.result.numbers.seconds[passed] for passed in PASSES)
        if max(forward, backward) >= LAUNCH_SECONDS and not low <= backward / forward <= high:
            texts = f"{low:g} – {high:g}", f"{backward / forward:.3g}"
            found.setdefault(name, Line("warn", "plausibility.ratio", name, {}, *texts))
    doubted = frozenset(found)
    for sweep in sweeps_of(points):
        for line in _contradictions(sweep, doubted):
            found.setdefault(line.file, line)
    if found:
        return [found[name] for name in sorted(found)]
    count = {"count": str(len({point.result.name for point in points}))}
    return [Line("pass", "plausibility.pass", params=count)] if points else []


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
            texts = f"{1 / CLASS_LEVEL:g} – {CLASS_LEVEL:g}", f"{level:.3g}"
            params = {"factor": f"{level:.3g}"}
            yield Line("warn", "plausibility.level", "", params, *texts, submission)
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
            texts = f"{usual * levels[submission] * 1e3:.4g} ms", f"{long[submission] * 1e3:.4g} ms"
            file = of_class[submission].result.name
            yield Line("warn", code, file, params, *texts, submission)
