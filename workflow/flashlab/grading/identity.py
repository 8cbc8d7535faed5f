"""Check 3, identity: the implementation and the shapes that could have made a file.

A result names neither, but its FLOPs (rate × time) are 4·(B·H)·N²·d, half of that when causal,
and its peak memory is exact for float16 on CUDA (`costs`). Together they leave a small set; only
B·H, N, d and the mask matter to them, so a declaration is false only outside that set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from flashlab import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, NAIVE, agree
from flashlab.grading.gpus import WORKSPACES, find_gpu
from flashlab.grading.model import Declaration, Line, Result, Verdict

HEAD_DIMS = range(8, 257, 8)
"""Head sizes for which the memory is exact: flash-attn pads others to a multiple of 8."""

MAX_SEQ_LEN = 2**24
_ALLOCATION = 512
"""Bytes to which CUDA's allocator rounds a tensor; where that matters the model is not exact."""

SHOWN_CANDIDATES = 3


@dataclass(frozen=True)
class Candidate:
    """One implementation and family of shapes that makes these FLOPs and this memory.

    `groups` is B·H. `single` is whether B is 1, where the memory depends on it (the naive
    implementation), and `workspace` the bytes of the cuBLAS workspaces in it; else None.
    """

    implementation: str
    groups: int
    seq_len: int
    head_dim: int
    causal: bool
    single: bool | None = None
    workspace: int | None = None

    @property
    def shape(self) -> Shape:
        """The member with H = 1, or with B = 1 where that is so; its costs are the others'."""
        batch, heads = (1, self.groups) if self.single else (self.groups, 1)
        return Shape(batch, self.seq_len, heads, heads * self.head_dim, self.causal)

    def said(self) -> str:
        """``Flash2 B·H=512 N=1024 d=64 full``."""
        mask = "causal" if self.causal else "full"
        single = " B=1" if self.single else ""
        return (
            f"{self.implementation} B·H={self.groups} N={self.seq_len} d={self.head_dim} "
            f"{mask}{single}"
        )


def exact(shape: Shape) -> bool:
    """Whether the memory of both implementations is known to the byte at a shape."""
    groups, n, d = shape.batch_size * shape.num_heads, shape.seq_len, shape.head_dim
    tensors = (2 * groups * n * d, 4 * groups * n, 2 * groups * n * n)
    return d in HEAD_DIMS and n >= 2 * d and all(size % _ALLOCATION == 0 for size in tensors)


def naive_memory(shape: Shape, workspace: int) -> int:
    """Peak bytes of the naive implementation: `costs.naive_peak_memory`, B = 1 included."""
    peak = costs.naive_peak_memory(shape, workspace)
    if shape.batch_size == 1:
        peak -= 6 * shape.seq_len * shape.emb_dim
    return peak


def _makes(candidate: Candidate, memory: int) -> bool:
    shape = candidate.shape
    if not exact(shape):
        return False
    if candidate.workspace is None:
        return costs.flash2_peak_memory(shape) == memory
    return naive_memory(shape, candidate.workspace) == memory


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


def _of_product(product: int, memory: int, causal: bool) -> Iterator[Candidate]:
    """All candidates with G·N²·d = product."""
    for d in HEAD_DIMS:
        if product % d:
            continue
        quotient = product // d
        for n in _flash2_seq_lens(quotient, d, memory):
            if quotient % n**2 == 0:
                yield Candidate(FLASH2, quotient // n**2, n, d, causal)
        for workspace in WORKSPACES:
            rest = memory - workspace - 8 * quotient
            for single, factor in ((False, 18), (True, 12)):
                n, remainder = divmod(factor * product, rest) if rest > 0 else (0, 1)
                if remainder == 0 and 0 < n < MAX_SEQ_LEN and quotient % n**2 == 0:
                    yield Candidate(NAIVE, quotient // n**2, n, d, causal, single, workspace)


@lru_cache(maxsize=65536)
def candidates(flops: float, memory: float) -> tuple[Candidate, ...]:
    """Everything that takes `flops` operations forward and `memory` bytes, to the byte.

    Exact for float16 on CUDA, N ≥ 2d and head sizes that are multiples of 8 up to 256; empty where
    nothing of that kind makes these numbers.
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


def fits(candidate: Candidate, said: Declaration) -> bool:
    """Whether a declaration, whole or in part, names a member of the candidate's family."""
    b, h, e = said.batch_size, said.num_heads, said.emb_dim
    groups, d = candidate.groups, candidate.head_dim
    heads = h if h is not None else (e // d if e is not None and e % d == 0 else None)
    return (
        said.implementation in (None, candidate.implementation)
        and said.seq_len in (None, candidate.seq_len)
        and said.causal in (None, candidate.causal)
        and (b is None or candidate.single is None or (b == 1) == candidate.single)
        and (e is None or (heads is not None and heads * d == e))
        and all(groups % part == 0 for part in (b, heads) if part is not None)
        and (b is None or heads is None or b * heads == groups)
    )


@dataclass(frozen=True)
class Identified:
    """The identity lines of a submission, and for every file the families that it may be of."""

    lines: tuple[Line, ...]
    candidates: Mapping[str, tuple[Candidate, ...]]


def _workspaces(results: Sequence[Result]) -> set[int]:
    """The workspaces that most files of a submission can hold; all where none tells.

    A known GPU's own counts alone: a submission has one device.
    """
    named = {find_gpu(result.declaration.device_name) for result in results} - {None}
    known = {gpu.workspace for gpu in named if gpu and gpu.workspace is not None}
    if len(named) == 1 and known:
        return {workspace for workspace in known if workspace is not None}
    counts: Counter[int] = Counter()
    for result in results:
        counts.update(
            {
                candidate.workspace
                for candidate in _candidates_of(result)
                if candidate.workspace is not None and fits(candidate, result.declaration)
            }
        )
    most = max(counts.values(), default=0)
    return {workspace for workspace in WORKSPACES if counts[workspace] == most}


def _candidates_of(result: Result) -> tuple[Candidate, ...]:
    return candidates(result.numbers.forward_flops, result.numbers.peak_mib * costs.MIB)


def _listed(found: Sequence[Candidate]) -> str:
    shown = " | ".join(candidate.said() for candidate in found[:SHOWN_CANDIDATES])
    more = len(found) - SHOWN_CANDIDATES
    return f"{shown} | +{more}" if more > 0 else shown


class _Judge:
    """One file's identity: its candidates held against what it is said to be."""

    def __init__(self, submission: str, result: Result, workspaces: set[int]) -> None:
        self.submission, self.result = submission, result
        self.said = result.declaration
        self.all = _candidates_of(result)
        self.possible = tuple(
            candidate
            for candidate in self.all
            if candidate.workspace is None or candidate.workspace in workspaces
        )
        self.fitting = tuple(c for c in self.possible if fits(c, self.said))
        self.workspaces = workspaces

    def _line(self, verdict: Verdict, code: str, **params: str) -> Line:
        expected = params.pop("expected", self.said.said())
        found = params.pop("found", _listed(self.possible))
        return Line(
            *(self.submission, self.result.name, "identity", verdict, f"identity.{code}"),
            params,
            expected,
            found,
        )

    def line(self) -> Line:
        said, result = self.said, self.result
        if result.declared_again:
            others = " | ".join(again.said() for again in (said, *result.declared_again))
            return self._line("fail", "declared_twice", found=others)
        claimed = result.recorded
        if claimed and said.source == "runs.csv" and claimed.said() != said.said():
            return self._line("fail", "record_differs", found=claimed.said())
        if not said.says_something:
            code = "undeclared" if self.possible else "undeclared_unknown"
            return self._line("not_checked", code, expected="")
        flops = result.numbers.forward_flops
        if said.shape is not None:
            wanted = costs.forward_flops(said.shape)
            if not agree(flops, wanted):
                texts = {"expected": f"{wanted:.9g} FLOPs", "found": f"{flops:.9g} FLOPs"}
                return self._line("fail", "flops", declared=said.said(), **texts)
        if not said.gpu:
            return self._line("not_checked", "not_cuda")
        if said.implementation not in (None, NAIVE, FLASH2):
            return self._line("not_checked", "other_kernel", kernel=str(said.implementation))
        if said.shape is not None and not exact(said.shape):
            return self._line("not_checked", "not_exact")
        if self.fitting:
            return self._line("pass", "pass" if said.shape else "pass_partly")
        return self._contradicted()

    def _contradicted(self) -> Line:
        """What to say of a declaration that nothing possible fits."""
        said = self.said
        if not self.possible:
            elsewhere = [c for c in self.all if fits(c, said)]
            if elsewhere:
                return self._line("fail", "workspace", found=_listed(elsewhere), **self._sizes())
            if said.shape is None:
                return self._line("not_checked", "partly_unknown", found="")
            return self._line("fail", "memory", **self._memory(said.shape))
        made_by = {candidate.implementation for candidate in self.possible}
        if said.implementation is not None and said.implementation not in made_by:
            (other,) = made_by
            return self._line("fail", "implementation", declared=said.implementation, other=other)
        return self._line("fail", "shape", declared=said.said())

    def _sizes(self) -> dict[str, str]:
        sizes = (f"{size / costs.MIB:g}" for size in sorted(self.workspaces))
        return {"workspaces": " / ".join(sizes)}

    def _memory(self, shape: Shape) -> dict[str, str]:
        """Bytes that the declared shape takes, and the bytes found."""
        wanted = []
        if self.said.implementation in (None, FLASH2):
            wanted.append(costs.flash2_peak_memory(shape))
        if self.said.implementation in (None, NAIVE):
            wanted += [naive_memory(shape, size) for size in sorted(self.workspaces)]
        found = self.result.numbers.peak_mib * costs.MIB
        return {
            "declared": self.said.said(),
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
