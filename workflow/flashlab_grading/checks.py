"""What grading speaks of, and the checks of one submission's own results (arithmetic: `lab5`).

**Physics**: no rate above the device's ceiling, no time too short for the bytes to move. An unknown
device is taken for the fastest one known, so that no sound result fails. No ceiling of a CPU is
known: its results fail only above the rate of every known GPU.

**Plausibility**: times against their neighbours, and records' samples. Nothing here is impossible
but samples that are all equal, or the same noise everywhere: another process on the machine makes
any time longer, and a kernel may be slow at one size. So these are warnings. Times under 0.3 ms, or
of few steps of a coarse clock, prove nothing by their order.

**Coverage**: five experiments with both implementations and at least three values each.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import find_device, known_devices
from flashlab.lab5.assigning import File, stated
from flashlab.lab5.checks import Line as Line
from flashlab.lab5.checks import Verdict as Verdict
from flashlab.lab5.checks import samples_of as samples_of
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result, is_cpu
from flashlab.lab5.words import FLASH2, NAIVE, SIZES

OWN_CHECKS = ("form", "arithmetic", "identity", "physics", "plausibility", "coverage")
CHECKS = (*OWN_CHECKS, "copies", "reproduction")
PASSES = ("forward", "backward")
"""The passes that are timed; the third time is their sum."""

LAUNCH_SECONDS = 0.3e-3
"""Shorter times are mostly kernel launches: they have no order, and vary between sessions."""

VERDICTS: tuple[Verdict, ...] = ("fail", "warn", "not_checked", "pass")
"""From the worst on; a whole check's verdict is the worst of its lines. What was not checked has
not passed, so it outweighs a pass."""

BADGES = ("available", "functional", "reproduced")  # in the sense of the ACM's


class GradingError(Exception):
    """Grading is impossible."""


@dataclass(frozen=True)
class Submission:
    """One subfolder or archive: its results, the lines from reading it, and its device.

    `contradicted` are the files of which two things are stated.
    """

    name: str
    results: Sequence[Result] = ()
    lines: Sequence[Line] = ()
    device: str | None = None
    contradicted: Sequence[str] = ()


def family(option: Option) -> Option:
    """A run's family, of which results cannot be told apart: the same B·H, N, d and mask."""
    who, shape = option
    groups = shape.batch_size * shape.num_heads
    return who, type(shape)(groups, shape.seq_len, 1, shape.head_dim, shape.causal)


def kind_of_device(name: str | None) -> str | None:
    """One name for all ways to write a known device's; any other name as it is."""
    device = find_device(name)
    return device.name if device else name


def is_same_device(one: str, other: str | None) -> bool:
    """True if two names are of one kind of device; False where one is not known."""
    return other is not None and kind_of_device(one) == kind_of_device(other)


# Physics


CLOCK_ALLOWANCE = 1.25
"""Largest clock over the stated boost clock: an RTX 3070 reaches 2.1 GHz of 1.73."""

BANDWIDTH_ALLOWANCE = 1.1
"""Largest bandwidth of a card over that of its data sheet."""

SCORE_PASSES = 4
"""Least number of times that the naive implementation moves N × N numbers in each pass: scores and
probabilities forward, their gradients backward, each written and read once."""


def bytes_moved(option: Option, name: str, l2_bytes: float) -> float:
    """The least bytes that pass between chip and memory in the pass `name`, in float16.

    Each tensor moves once (`costs.compulsory_tensors`), and the naive implementation's scores move
    as well. As much of each as the L2 cache can hold is taken to stay there.
    """
    who, shape = option
    tensors = list(costs.compulsory_tensors(shape, "float16")[name])
    tensors += [costs.naive_scores(shape)] * SCORE_PASSES if who == NAIVE else []
    return sum(max(0.0, size - l2_bytes) for size in tensors)


def check_physics(file: File, step: float = 0.0) -> Line:
    """A line for the first pass that the device could not have done, or that all were possible.

    Each time may be a `step` of its clock longer. Where no run is known, only the rates are
    compared with the ceiling.
    """
    result, named = file.result, file.result.said.get("device")
    known, passed, highest = find_device(named), "", max(file.result.rates[x] for x in PASSES)
    device = known or max(known_devices(), key=lambda device: device.peak_tflops["float16"])
    ceiling = device.peak_tflops["float16"] * CLOCK_ALLOWANCE
    verdict: Verdict = "not_checked" if is_cpu(named) else "pass"
    code = "cpu" if is_cpu(named) else "pass" if known else "pass_unknown"
    texts = "" if is_cpu(named) else f"≤ {ceiling:.4g} TFLOP/s", f"{highest:.4g} TFLOP/s"
    for name in reversed(PASSES):
        seconds = result.seconds[name] + step
        moved = (bytes_moved(option, name, device.l2_bytes) for option in file.options)
        least = min(moved, default=0.0) / (device.bandwidth * 1e9 * BANDWIDTH_ALLOWANCE)
        if result.rates[name] * result.seconds[name] / seconds > ceiling:
            verdict, code, passed = "fail", "rate", name
            texts = f"≤ {ceiling:.4g} TFLOP/s", f"{result.rates[name]:.6g} TFLOP/s"
        elif seconds < least and not is_cpu(named):
            verdict, code, passed = "fail", "bytes", name
            texts = f"≥ {least * 1e3:.4g} ms", f"{seconds * 1e3:.4g} ms"
    params = {"device": device.name, "pass": passed}
    return Line(verdict, f"physics.{code}", result.name, params, *texts)


# Plausibility


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
    (low, high), least = PASS_RATIO, max(LAUNCH_SECONDS, STEPS * step)
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


def check_samples(results: Iterable[Result]) -> Iterator[Line]:
    """Lines for the records whose samples no measurement gives: all equal, or one noise in several.

    None for the others.
    """
    noises: dict[tuple[float, ...], dict[str, None]] = defaultdict(dict)
    for result in results:
        for name, own in samples_of(result).items():
            # A clock repeats short times.
            if len(own) >= ENOUGH and LAUNCH_SECONDS <= min(own) == max(own):
                yield Line("fail", "plausibility.identical", result.name, {"pass": name})
                break
            if len({*own}) >= ENOUGH and (median := statistics.median(own)) > 0:
                noises[tuple(float(f"{x / median:.6g}") for x in sorted(own))][result.name] = None
    for first, *others in map(list, noises.values()):
        for file, other in [(first, others[0]), *((x, first) for x in others)] if others else ():
            yield Line("fail", "plausibility.one_noise", file, {"other": other})


# Coverage


EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
VALUES = 3


def _count(options: Iterable[Option], experiment: str) -> int:
    """The values of the largest sweep, all else equal; of masks, the shapes that have both."""
    found: dict[tuple[object, ...], set[object]] = defaultdict(set)
    for _, shape in options:
        sizes = dict(shape.parameters)
        varied = sizes.pop(experiment)
        found[*sizes.values()].add(varied)
    if experiment == "causal":
        return sum(len(masks) == 2 for masks in found.values())
    return max(map(len, found.values()), default=0)


def check_coverage(files: Sequence[File], doubted: Iterable[Result]) -> Iterator[Line]:
    """A line for each experiment and implementation: present, missing, or possibly present.

    A file that can be several runs may be any of them. `doubted` are the results that other checks
    refute or could not check: an experiment that lacks only these is not missing, because the cause
    is reported there; labels of implementations may have been exchanged among them.
    """
    sure = [f.options[0] for f in files if len(f.options) == 1 and not f.unassumed]
    every = [option for file in files for option in file.unassumed or file.options]
    said = [option for r in doubted if (option := stated(r.told))]
    for who in (NAIVE, FLASH2):
        own, possible = ([o for o in those if o[0] == who] for those in (sure, every))
        for experiment in EXPERIMENTS:
            values = _count(own, experiment)
            verdict: Verdict = "not_checked"
            if values >= VALUES:
                verdict, code = "pass", "pass"
            elif _count(possible, experiment) >= VALUES:
                code = "possible"
            elif _count([*own, *said], experiment) >= VALUES:
                code = "doubted"
            else:
                is_few = experiment == "causal" and values
                verdict, code = ("warn", "few_masks") if is_few else ("fail", "missing")
            params = {"experiment": experiment, "implementation": who}
            yield Line(verdict, f"coverage.{code}", "", params, f"≥ {VALUES}", str(values))
