"""Check 4, physics: no rate above the device's ceiling, no time too short for the bytes to move.

An unknown device is taken for the fastest one known, so that no sound result fails. No ceiling of
a CPU is known: its results fail only above the rate of every known GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.benchmarks.attention.costs import compulsory_tensors, naive_scores
from flashlab.course.declaration import device_is_gpu
from flashlab.course.identity import Candidate
from flashlab.course.words import NAIVE
from flashlab.devices import find_device, known_devices
from flashlab_grading.model import PASSES, Line, Result, Verdict

CLOCK_ALLOWANCE = 1.25
"""Largest clock over the stated boost clock: an RTX 3070 reaches 2.1 GHz of 1.73."""

BANDWIDTH_ALLOWANCE = 1.1
"""Largest bandwidth of a card over that of its data sheet."""

SCORE_PASSES = 4
"""Least number of times that the naive implementation moves N × N numbers in each pass: scores and
probabilities forward, their gradients backward, each written and read once."""


def bytes_moved(candidate: Candidate, name: str, l2_bytes: float) -> float:
    """The least bytes that pass between chip and memory in the pass `name`, in float16.

    Each tensor moves once (`costs.compulsory_tensors`), and the naive implementation's scores move
    as well. As much of each as the L2 cache can hold is taken to stay there.
    """
    tensors = list(compulsory_tensors(candidate.shape, "float16")[name])
    if candidate.implementation == NAIVE:
        tensors += [naive_scores(candidate.shape)] * SCORE_PASSES
    return sum(max(0.0, size - l2_bytes) for size in tensors)


def check_physics(result: Result, candidates: Sequence[Candidate]) -> Line:
    """A line for the first pass that the device could not have done, or that all were possible.

    `candidates` are the families that the file may be of; where none is known, only the rates are
    compared with the ceiling.
    """
    device_name = result.declaration.device_name
    on_cpu = device_name is not None and not device_is_gpu(device_name)
    known = find_device(device_name)
    device = known or max(known_devices(), key=lambda device: device.peak_tflops["float16"])
    ceiling = device.peak_tflops["float16"] * CLOCK_ALLOWANCE

    def line(verdict: Verdict, code: str, expected: str, found: str, **params: str) -> Line:
        return Line(verdict, code, result.name, {"device": device.name, **params}, expected, found)

    for name in PASSES:
        seconds, rate = result.numbers.seconds[name], result.numbers.rates[name]
        if rate > ceiling:
            texts = f"≤ {ceiling:.4g} TFLOP/s", f"{rate:.6g} TFLOP/s"
            return line("fail", "physics.rate", *texts, **{"pass": name})
        fewest = min((bytes_moved(c, name, device.l2_bytes) for c in candidates), default=0.0)
        least = fewest / (device.bandwidth * 1e9 * BANDWIDTH_ALLOWANCE)
        if seconds < least and not on_cpu:
            texts = f"≥ {least * 1e3:.4g} ms", f"{seconds * 1e3:.4g} ms"
            return line("fail", "physics.bytes", *texts, **{"pass": name})
    highest = f"{max(result.numbers.rates[name] for name in PASSES):.4g} TFLOP/s"
    if on_cpu:
        return line("not_checked", "physics.cpu", "", highest)
    code = "physics.pass" if known else "physics.pass_unknown"
    return line("pass", code, f"≤ {ceiling:.4g} TFLOP/s", highest)
