"""Check 4, physics: no rate above the device's ceiling, no time under the bytes that must move.

A device that is not known is taken for the fastest one known, so that nothing sound fails. No
ceiling of a CPU is known: only a rate above that of every known GPU speaks against its results.
"""

from __future__ import annotations

from collections.abc import Sequence

from flashlab.costs import MIB
from flashlab.course import NAIVE
from flashlab.grading.declared import device_is_gpu
from flashlab.grading.gpus import FASTEST, Gpu, find_gpu
from flashlab.grading.identity import Candidate
from flashlab.grading.model import Line, Result, Verdict

PASSES = ("forward", "backward")


def bytes_moved(candidate: Candidate, name: str, l2_bytes: float) -> float:
    """The least bytes between chip and memory in a pass, with as much as can be left in the L2.

    Each tensor (float16) is read or written once at least: forward qkv and out, backward qkv, out,
    the gradients of both. The naive implementation also writes and reads its N × N scores and
    probabilities, forward and backward two of each. A tensor saves at most the L2 cache's size.
    """
    shape = candidate.shape
    out = 2.0 * shape.batch_size * shape.seq_len * shape.emb_dim
    tensors = [3 * out, out] if name == "forward" else [3 * out, out, out, 3 * out]
    if candidate.implementation == NAIVE:
        scores = 2.0 * shape.batch_size * shape.num_heads * shape.seq_len**2
        tensors += [scores] * 4
    return sum(max(0.0, size - l2_bytes) for size in tensors)


def _least_bytes(candidates: Sequence[Candidate], name: str, gpu: Gpu) -> float:
    return min((bytes_moved(c, name, gpu.l2_mib * MIB) for c in candidates), default=0.0)


def check_physics(submission: str, result: Result, candidates: Sequence[Candidate]) -> Line:
    """Whether the device could have done this; a line for the first pass that it could not.

    `candidates` are the families that the file may be of, empty where that is not known: then only
    the rates are held against the ceiling.
    """
    device_name = result.declaration.device_name
    on_cpu = device_name is not None and not device_is_gpu(device_name)
    known = find_gpu(device_name)
    gpu = known or FASTEST

    def line(verdict: Verdict, code: str, expected: str, found: str, name: str = "") -> Line:
        params = {"device": gpu.name, **({"pass": name} if name else {})}
        return Line(submission, result.name, "physics", verdict, code, params, expected, found)

    highest = 0.0
    for name in PASSES:
        seconds = result.numbers.seconds[name]
        rate = max(
            result.numbers.rates[name],
            result.numbers.forward_flops * (1 if name == "forward" else 2.5) / seconds / 1e12,
        )
        highest = max(highest, rate)
        if rate > gpu.ceiling:
            expected, found = f"≤ {gpu.ceiling:.4g} TFLOP/s", f"{rate:.6g} TFLOP/s"
            return line("fail", "physics.rate", expected, found, name)
        if on_cpu:
            continue
        least = gpu.seconds_to_move(_least_bytes(candidates, name, gpu))
        if seconds < least:
            expected, found = f"≥ {least * 1e3:.4g} ms", f"{seconds * 1e3:.4g} ms"
            return line("fail", "physics.bytes", expected, found, name)
    if on_cpu:
        return line("not_checked", "physics.cpu", "", f"{highest:.4g} TFLOP/s")
    code = "physics.pass" if known else "physics.pass_unknown"
    return line("pass", code, f"≤ {gpu.ceiling:.4g} TFLOP/s", f"{highest:.4g} TFLOP/s")
