"""Check 4, physics: no rate above the device's ceiling, no time too short for the bytes to move.

An unknown device is taken for the fastest one known, so that no sound result fails. No ceiling of
a CPU is known: its results fail only above the rate of every known GPU.
"""

from __future__ import annotations

from flashlab.benchmarks.attention.costs import compulsory_tensors, naive_scores
from flashlab.devices import find_device, known_devices
from flashlab.lab5.assigning import File
from flashlab.lab5.possible import Option
from flashlab.lab5.results import is_cpu
from flashlab.lab5.words import NAIVE
from flashlab_grading.model import PASSES, Line, Verdict

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
    tensors = list(compulsory_tensors(shape, "float16")[name])
    tensors += [naive_scores(shape)] * SCORE_PASSES if who == NAIVE else []
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
