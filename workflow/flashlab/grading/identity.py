"""Check 3, identity: the implementation and the shapes that could have made a file.

A result names neither, but its FLOPs (rate × time) are 4·(B·H)·N²·d, half of that when causal,
and its peak memory in float16 on CUDA is known to the byte (`costs`). Together they leave a small
set of candidates. Hardly more than B·H, N, d and the mask matter to either, so a declaration is
false only if it is outside that set, and only where the memory is exact.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, NAIVE, agree
from flashlab.devices import find_device, known_devices
from flashlab.grading.model import Declaration, Line, Result, Verdict

MAX_SEQ_LEN = 2**24

SHOWN_CANDIDATES = 3


@cache
def known_workspaces() -> tuple[int, ...]:
    """The sizes in bytes, ascending, that the two cuBLAS workspaces have on known devices."""
    sizes = {device.cublas_workspaces for device in known_devices()}
    return tuple(sorted(size for size in sizes if size is not None))


@dataclass(frozen=True)
class Candidate:
    """One implementation and family of shapes that makes these FLOPs and this memory.

    `groups` is B·H. `copied` is whether B and H are both above 1, where the memory depends on it
    (`costs.naive_copies_inputs`), and `workspaces` the bytes of the cuBLAS workspaces in it; None
    for any implementation but the naive one.
    """

    implementation: str
    groups: int
    seq_len: int
    head_dim: int
    causal: bool
    copied: bool | None = None
    workspaces: int | None = None

    @property
    def shape(self) -> Shape:
        """A member of the family; its costs are the others'."""
        heads = _smallest_factor(self.groups) if self.copied else 1
        return Shape(self.groups // heads, self.seq_len, heads, heads * self.head_dim, self.causal)

    def describe(self) -> str:
        """``Flash2 B·H=512 N=1024 d=64 full``."""
        mask = "causal" if self.causal else "full"
        uncopied = " B=1 or H=1" if self.copied is False else ""
        return (
            f"{self.implementation} B·H={self.groups} N={self.seq_len} d={self.head_dim} "
            f"{mask}{uncopied}"
        )


def _smallest_factor(number: int) -> int:
    """The smallest divisor above 1, the number itself where it is prime (or 1)."""
    divisors = range(2, math.isqrt(number) + 1)
    return next((divisor for divisor in divisors if number % divisor == 0), number)


def _makes(candidate: Candidate, memory: int) -> bool:
    shape = candidate.shape
    if not costs.has_memory_model(shape):
        return False
    if candidate.workspaces is None:
        return costs.flash2_peak_memory(shape) == memory
    return costs.naive_peak_memory(shape, candidate.workspaces) == memory


def _flash2_seq_lens(quotient: int, head_dim: int, memory: int) -> range:
    """The sequence lengths between which Flash2's memory can be `memory`, for G·N² = quotient.

    The memory without the generator's state is G·(N·a + ⌈N⌉₁₂₈·b) with a = 16·d + 4 and
    b = 4·⌈d⌉₃₂ + 4; ⌈N⌉₁₂₈ lies between N and N + 127, which bounds N on both sides.
    """
    rest = memory - costs.GENERATOR_STATE
    if rest <= 0:
        return range(0)
    a = 16 * head_dim + 4
    b = 4 * (-(-head_dim // 32) * 32 if head_dim <= 128 else -(-head_dim // 64) * 64) + 4
    linear = quotient * (a + b)
    low = linear // rest
    high = (linear + math.isqrt(linear**2 + 4 * rest * quotient * 127 * b)) // (2 * rest) + 1
    return range(max(low, 2 * head_dim), min(high, MAX_SEQ_LEN) + 1)


def _naive_candidates(
    product: int, head_dim: int, memory: int, causal: bool
) -> Iterator[Candidate]:
    """The naive implementation's candidates with G·N²·d = product, for one head size.

    Its memory is 8·G·N² + f·G·N·d and the workspaces, with f = 18 where q, k and v are copied and
    12 where they are not; so N = f·product / (memory − workspaces − 8·G·N²).
    """
    quotient = product // head_dim
    for workspaces in known_workspaces():
        rest = memory - workspaces - 8 * quotient
        for copied, factor in ((True, 18), (False, 12)):
            n, remainder = divmod(factor * product, rest) if rest > 0 else (0, 1)
            if remainder or not 0 < n < MAX_SEQ_LEN or quotient % n**2:
                continue
            groups = quotient // n**2
            if copied and _smallest_factor(groups) == groups:
                continue  # B or H is 1 where B·H is prime
            yield Candidate(NAIVE, groups, n, head_dim, causal, copied, workspaces)


def _of_product(product: int, memory: int, causal: bool) -> Iterator[Candidate]:
    """All candidates with G·N²·d = product."""
    for d in costs.HEAD_DIMS:
        if product % d:
            continue
        quotient = product // d
        for n in _flash2_seq_lens(quotient, d, memory):
            if quotient % n**2 == 0:
                yield Candidate(FLASH2, quotient // n**2, n, d, causal)
        yield from _naive_candidates(product, d, memory, causal)


@lru_cache(maxsize=65536)
def candidates(flops: float, memory: float) -> tuple[Candidate, ...]:
    """Everything that takes `flops` operations forward and `memory` bytes, to the byte.

    In float16 on CUDA, within `costs.has_memory_model`; empty where nothing there makes these
    numbers.
    """
    if memory % 1:
        return ()
    found = []
    for causal, operations in ((False, 4), (True, 2)):
        product = round(flops / operations / 8) * 8  # d is a multiple of 8
        if product and agree(product * operations, flops):
            found += [
                candidate
                for candidate in _of_product(product, int(memory), causal)
                if _makes(candidate, int(memory))
            ]
    return tuple(found)


def fits(candidate: Candidate, declared: Declaration) -> bool:
    """Whether a declaration, complete or partial, names a member of the candidate's family."""
    b, h, e = declared.batch_size, declared.num_heads, declared.emb_dim
    groups, d = candidate.groups, candidate.head_dim
    heads = h if h is not None else (e // d if e is not None and e % d == 0 else None)
    if heads is None and b is not None and groups % b == 0:
        heads = groups // b
    if heads is not None:
        if groups % heads or b not in (None, groups // heads):
            return False
        copied = heads > 1 and groups // heads > 1
        if candidate.copied not in (None, copied):
            return False
    return (
        declared.implementation in (None, candidate.implementation)
        and declared.seq_len in (None, candidate.seq_len)
        and declared.causal in (None, candidate.causal)
        and (b is None or groups % b == 0)
        and (e is None or (heads is not None and heads * d == e))
    )


@dataclass(frozen=True)
class Identified:
    """The identity lines of a submission, and for every file the families that it may be of."""

    lines: tuple[Line, ...]
    candidates: Mapping[str, tuple[Candidate, ...]]


def _workspaces(results: Sequence[Result]) -> set[int]:
    """The workspaces that most files of a submission can hold; every known size where none tells.

    A submission has one device: where a known one is named, its own workspaces alone count.
    """
    named = {find_device(result.declaration.device_name) for result in results} - {None}
    if len(named) == 1:
        (device,) = named
        if device and device.cublas_workspaces is not None:
            return {device.cublas_workspaces}
    counts: Counter[int] = Counter()
    for result in results:
        counts.update(
            {
                candidate.workspaces
                for candidate in _candidates_of(result)
                if candidate.workspaces is not None and fits(candidate, result.declaration)
            }
        )
    most = max(counts.values(), default=0)
    return {size for size in known_workspaces() if counts[size] == most}


def _candidates_of(result: Result) -> tuple[Candidate, ...]:
    return candidates(result.numbers.forward_flops, result.numbers.peak_mib * costs.MIB)


def _listed(found: Sequence[Candidate]) -> str:
    shown = " | ".join(candidate.describe() for candidate in found[:SHOWN_CANDIDATES])
    more = len(found) - SHOWN_CANDIDATES
    return f"{shown} | +{more}" if more > 0 else shown


class _Judge:
    """Compares one file's candidates with its declaration."""

    def __init__(self, submission: str, result: Result, workspaces: set[int]) -> None:
        self.submission, self.result = submission, result
        self.declared = result.declaration
        self.all = _candidates_of(result)
        self.possible = tuple(
            candidate
            for candidate in self.all
            if candidate.workspaces is None or candidate.workspaces in workspaces
        )
        self.fitting = tuple(c for c in self.possible if fits(c, self.declared))
        self.workspaces = workspaces

    def _line(self, verdict: Verdict, code: str, **params: str) -> Line:
        expected = params.pop("expected", self.declared.said())
        found = params.pop("found", _listed(self.possible))
        return Line(
            *(self.submission, self.result.name, "identity", verdict, f"identity.{code}"),
            params,
            expected,
            found,
        )

    def line(self) -> Line:
        declared, result = self.declared, self.result
        if result.declared_again:
            others = " | ".join(again.said() for again in (declared, *result.declared_again))
            return self._line("fail", "declared_twice", found=others)
        recorded = result.recorded
        if recorded and declared.source == "runs.csv" and recorded.said() != declared.said():
            return self._line("fail", "record_differs", found=recorded.said())
        if not declared.says_something:
            code = "undeclared" if self.possible else "undeclared_unknown"
            return self._line("not_checked", code, expected="")
        flops = result.numbers.forward_flops
        if declared.shape is not None:
            wanted = costs.forward_flops(declared.shape)
            if not agree(flops, wanted):
                texts = {"expected": f"{wanted:.9g} FLOPs", "found": f"{flops:.9g} FLOPs"}
                return self._line("fail", "flops", declared=declared.said(), **texts)
        if not declared.gpu:
            return self._line("not_checked", "not_cuda")
        if declared.implementation not in (None, NAIVE, FLASH2):
            return self._line("not_checked", "other_kernel", kernel=str(declared.implementation))
        if self.fitting:
            return self._line("pass", "pass" if declared.shape else "pass_partly")
        if declared.shape is not None and not self._memory_is_exact(declared.shape):
            return self._line("not_checked", "not_exact")
        return self._contradicted()

    def _memory_is_exact(self, shape: Shape) -> bool:
        """Whether the memory of every implementation that the file can be is right to the byte."""
        ranges = {NAIVE: costs.naive_memory_is_exact, FLASH2: costs.flash2_memory_is_exact}
        implementation = self.declared.implementation
        chosen = ranges.values() if implementation is None else [ranges[implementation]]
        return all(is_exact(shape) for is_exact in chosen)

    def _contradicted(self) -> Line:
        """The line of a declaration that no possible candidate fits."""
        declared = self.declared
        if not self.possible:
            elsewhere = [c for c in self.all if fits(c, declared)]
            if elsewhere:
                return self._line("fail", "workspace", found=_listed(elsewhere), **self._sizes())
            if declared.shape is None:
                return self._line("not_checked", "partly_unknown", found="")
            return self._line("fail", "memory", **self._memory(declared.shape))
        made_by = {candidate.implementation for candidate in self.possible}
        if declared.implementation is not None and declared.implementation not in made_by:
            (other,) = made_by
            return self._line(
                "fail", "implementation", declared=declared.implementation, other=other
            )
        return self._line("fail", "shape", declared=declared.said())

    def _sizes(self) -> dict[str, str]:
        sizes = (f"{size / costs.MIB:g}" for size in sorted(self.workspaces))
        return {"workspaces": " / ".join(sizes)}

    def _memory(self, shape: Shape) -> dict[str, str]:
        """Bytes that the declared shape takes, and the bytes found."""
        wanted = []
        if self.declared.implementation in (None, FLASH2):
            wanted.append(costs.flash2_peak_memory(shape))
        if self.declared.implementation in (None, NAIVE):
            wanted += [costs.naive_peak_memory(shape, size) for size in sorted(self.workspaces)]
        found = self.result.numbers.peak_mib * costs.MIB
        return {
            "declared": self.declared.said(),
            "expected": " | ".join(f"{size} B" for size in wanted),
            "found": f"{found:.12g} B",
        }


def check_identity(submission: str, results: Sequence[Result]) -> Identified:
    """A line for each file, and the families that it may be of."""
    workspaces = _workspaces(results)
    lines, found = [], {}
    for result in results:
        judge = _Judge(submission, result, workspaces)
        lines.append(judge.line())
        found[result.name] = judge.fitting if result.declaration.says_something else judge.possible
    return Identified(tuple(lines), found)
