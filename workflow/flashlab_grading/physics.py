"""Check 4, physics: no rate above the device's ceiling, no time too short for the bytes to move.

An unknown device is taken for the fastest one known, so that no sound result fails. No ceiling of
a CPU is known: its results fail only above the rate of every known GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.benchmarks.attention.costs import compulsory_tensors, naive_scores
from flashlab.course.declaration import device_is_gpu
from flashlab.course.identity import Candidate
from flashlab.course.words import FLASH2, NAIVE
from flashlab.devices import Device, find_device, known_devices
from flashlab_grading.model import PASSES, Line, Result, Verdict

CLOCK_ALLOWANCE = 1.25
"""How far a card may run above the stated boost clock: an RTX 3070 reaches 2.1 GHz of 1.73."""

BANDWIDTH_ALLOWANCE = 1.1
"""How far a card's memory may be clocked above its data sheet."""

SCORE_PASSES = 4
"""How often the naive implementation writes or reads N × N numbers in each pass, at least: the
scores and the probabilities forward, their gradients backward, each written and read once."""


FLASH2_CAPABILITY = 8.0
"""CUDA's compute capability from which on flash-attn 2 runs: Ampere."""


def fastest_device() -> Device:
    """The device that an unknown one is taken for."""
    return max(known_devices(), key=lambda device: device.peak_tflops["float16"])


def rate_ceiling(device: Device) -> float:
    """TFLOP/s in float16 that no run on a device exceeds."""
    return device.peak_tflops["float16"] * CLOCK_ALLOWANCE


def seconds_to_move(count: float, device: Device) -> float:
    """The least seconds in which `count` bytes pass between a device's chip and its memory."""
    return count / (device.bandwidth * 1e9 * BANDWIDTH_ALLOWANCE)


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
    """Whether the device could have done this; a line for the first pass that it could not.

    `candidates` are the families that the file may be of; where none is known, only the rates are
    compared with the ceiling.
    """
    device_name = result.declaration.device_name
    on_cpu = device_name is not None and not device_is_gpu(device_name)
    known = find_device(device_name)
    device = known or fastest_device()
    ceiling = rate_ceiling(device)

    def line(verdict: Verdict, code: str, expected: str, found: str, name: str = "") -> Line:
        params = {"device": device.name, **({"pass": name} if name else {})}
        return Line(verdict, code, result.name, params, expected, found)

    needs_newer = known and float(known.compute_capability) < FLASH2_CAPABILITY
    declared = result.declaration
    if needs_newer and declared.implementation == FLASH2 and declared.gpu:
        return line(
            "warn", "physics.capability", f"≥ {FLASH2_CAPABILITY:g}", device.compute_capability
        )
    highest = 0.0
    for name in PASSES:
        seconds = result.numbers.seconds[name]
        rate = result.numbers.rates[name]
        highest = max(highest, rate)
        if rate > ceiling:
            expected, found = f"≤ {ceiling:.4g} TFLOP/s", f"{rate:.6g} TFLOP/s"
            return line("fail", "physics.rate", expected, found, name)
        if on_cpu:
            continue
        fewest = min((bytes_moved(c, name, device.l2_bytes) for c in candidates), default=0.0)
        least = seconds_to_move(fewest, device)
        if seconds < least:
            expected, found = f"≥ {least * 1e3:.4g} ms", f"{seconds * 1e3:.4g} ms"
            return line("fail", "physics.bytes", expected, found, name)
    if on_cpu:
        return line("not_checked", "physics.cpu", "", f"{highest:.4g} TFLOP/s")
    code = "physics.pass" if known else "physics.pass_unknown"
    return line("pass", code, f"≤ {ceiling:.4g} TFLOP/s", f"{highest:.4g} TFLOP/s")
