"""The implementation and the shapes that could have made a file, by its FLOPs and its memory.

A result names neither, but its FLOPs (rate × time) are 4·(B·H)·N²·d, half of that when causal,
and its peak memory in float16 on CUDA is known to the byte (`costs`). Together they leave a small
set of candidates. Hardly more than B·H, N, d and the mask matter to either.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import combinations
from typing import Literal

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.declaration import ATTRIBUTES, Declaration, DeclaredFile, kind_of_device
from flashlab.course.results import agree
from flashlab.course.words import FLASH2, NAIVE
from flashlab.devices import find_device, known_devices

MAX_SEQ_LEN = 2**24

ALIKE = 3
"""Fewest files with the same unexpected workspace for it to be a setting, not a mistake."""

ALIKE_SHARE = 0.8
"""Least share of the files with a naive implementation's memory that must have that workspace."""


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
    product: int, head_dim: int, memory: int, causal: bool, sizes: Sequence[int]
) -> Iterator[Candidate]:
    """The naive implementation's candidates with G·N²·d = product, for one head size.

    Its memory is 8·G·N² + f·G·N·d and the workspaces, with f = 18 where q, k and v are copied and
    12 where they are not; so N = f·product / (memory − workspaces − 8·G·N²).
    """
    quotient = product // head_dim
    for workspaces in sizes:
        rest = memory - workspaces - 8 * quotient
        for copied, factor in ((True, 18), (False, 12)):
            n, remainder = divmod(factor * product, rest) if rest > 0 else (0, 1)
            if remainder or not 0 < n < MAX_SEQ_LEN or quotient % n**2:
                continue
            groups = quotient // n**2
            if copied and _smallest_factor(groups) == groups:
                continue  # B or H is 1 where B·H is prime
            yield Candidate(NAIVE, groups, n, head_dim, causal, copied, workspaces)


def _of_product(
    product: int, memory: int, causal: bool, sizes: Sequence[int]
) -> Iterator[Candidate]:
    """All candidates with G·N²·d = product."""
    for d in costs.HEAD_DIMS:
        if product % d:
            continue
        quotient = product // d
        for n in _flash2_seq_lens(quotient, d, memory):
            if quotient % n**2 == 0:
                yield Candidate(FLASH2, quotient // n**2, n, d, causal)
        yield from _naive_candidates(product, d, memory, causal, sizes)


@lru_cache(65536)
def candidates(flops: float, memory: float, workspaces: tuple[int, ...]) -> tuple[Candidate, ...]:
    """The candidates that take `flops` operations forward and `memory` bytes, to the byte.

    `workspaces` are the bytes that the cuBLAS workspaces can have. In float16 on CUDA, within
    `costs.has_memory_model`; empty where nothing there makes these numbers.
    """
    fitting: list[Candidate] = []
    for causal, operations in ((False, 4), (True, 2)):
        product = round(flops / operations / 8) * 8  # d is a multiple of 8
        if memory % 1 == 0 and product and agree(product * operations, flops):
            made = _of_product(product, int(memory), causal, workspaces)
            fitting += [candidate for candidate in made if _makes(candidate, int(memory))]
    return tuple(fitting)


def fits(candidate: Candidate, declared: Declaration) -> bool:
    """True if a declaration, complete or partial, is of a member of the candidate's family."""
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


def family_of(implementation: str, shape: Shape) -> Candidate:
    """The family of a declared run."""
    groups = shape.batch_size * shape.num_heads
    return Candidate(implementation, groups, shape.seq_len, shape.head_dim, shape.causal)


# Which candidates a file has, in its folder


def _candidates_of(result: DeclaredFile, allowed: Iterable[int]) -> tuple[Candidate, ...]:
    """The candidates for a file's run, with these cuBLAS workspaces or a known device's."""
    shape, numbers = result.declaration.shape, result.numbers
    flops = numbers.forward_flops
    if shape is not None and not numbers.is_exact:
        wanted = costs.forward_flops(shape)
        flops = wanted if numbers.has_flops(wanted) else flops  # rounding hides the difference
    sizes = tuple(sorted({*known_workspaces(), *allowed}))
    return candidates(flops, numbers.peak_mib * costs.MIB, sizes)


def _agreed_workspace(results: Sequence[DeclaredFile]) -> int | None:
    """The workspace that nearly all files declared as naive share, None if there is none."""
    sizes: Counter[float] = Counter()
    for result in results:
        declared = result.declaration
        shape = declared.shape
        if declared.implementation != NAIVE or not declared.gpu or shape is None:
            continue
        if costs.naive_memory_is_exact(shape) and result.numbers.has_flops(
            costs.forward_flops(shape)
        ):
            without = costs.naive_peak_memory(shape, workspaces=0)
            sizes[result.numbers.peak_mib * costs.MIB - without] += 1
    size, count = max(sizes.items(), key=lambda item: item[1], default=(0.0, 0))
    agreed = count >= max(ALIKE, ALIKE_SHARE * sizes.total())
    return int(size) if agreed and size >= 0 and size % costs.ALLOCATION == 0 else None


def _workspaces(results: Sequence[DeclaredFile]) -> tuple[set[int], int | None]:
    """The cuBLAS workspaces that files of one device may have, which all have one setting.

    They are those that nearly all its naive files agree on; failing that, those of the device that
    it names; failing that, the known ones that most files can have.

    The second is the size that the files agree on though it is not that of the named device, or of
    any: ``CUBLAS_WORKSPACE_CONFIG`` sets it.
    """
    known = {*known_workspaces()}
    device = find_device(results[0].declaration.device_name)
    expected = {size for size in (device.cublas_workspaces if device else None,) if size}
    agreed = _agreed_workspace(results)
    if agreed is not None and agreed not in (expected or known):
        return {agreed}, agreed
    if expected:
        return expected, None
    counts = dict.fromkeys(known, 0)
    for result in results:
        made = _candidates_of(result, ())
        fitting = (c for c in made if fits(c, result.declaration))
        for size in {c.workspaces for c in fitting if c.workspaces is not None}:
            counts[size] += 1
    most = max(counts.values())
    return {size for size, count in counts.items() if count == most}, None


def memory_is_exact(declared: Declaration, shape: Shape) -> bool:
    """True if the memory model is exact for every implementation that the file can be of."""
    ranges = {NAIVE: costs.naive_memory_is_exact, FLASH2: costs.flash2_memory_is_exact}
    implementation = declared.implementation
    if implementation is None:
        return all(is_exact(shape) for is_exact in ranges.values())
    return implementation in ranges and ranges[implementation](shape)


Reading = Literal[
    "fits", "rounded_memory", "flops", "memory", "not_cuda", "other_kernel", "rounded", "not_exact"
]
"""The result of comparing a file's numbers with its declaration: they fit (the second: but for the
last digit of the memory), they contradict it by their FLOPs or memory, or cannot be compared."""


class Identification:
    """A file, the candidates for its run, and the declarations that its numbers do not refute.

    `allowed` are the bytes that its cuBLAS workspaces may have, ascending. `every` are the
    candidates with the workspaces of any known device, `possible` those with allowed ones, and
    `fitting` those of them that fit `declared`, the declaration without the hints of the file's
    name that the numbers refute.
    """

    def __init__(self, file: DeclaredFile, allowed: Iterable[int]) -> None:
        self.file = file
        self.allowed = sorted(allowed)
        self.every = _candidates_of(file, allowed)
        self.possible = tuple(c for c in self.every if c.workspaces in {None, *allowed})
        self.declared = self._without_refuted_hints()
        self.fitting = tuple(c for c in self.possible if fits(c, self.declared))

    def _without_refuted_hints(self) -> Declaration:
        """The declaration without the fewest hints of the file's name that the numbers refute."""
        declared, shape = self.file.declaration, self.file.declaration.shape
        hints = [name for name in ATTRIBUTES if name in declared.hinted]
        right = shape is not None and self.file.numbers.has_flops(costs.forward_flops(shape))
        if shape is not None and right and not memory_is_exact(declared, shape):
            return declared
        for count in range(len(hints) + 1):
            for dropped in combinations(reversed(hints), count):
                kept = declared.without(dropped)
                if any(fits(candidate, kept) for candidate in self.possible):
                    return kept
        elsewhere = any(fits(candidate, declared) for candidate in self.every)
        return declared if elsewhere else declared.without(hints)

    def memories(self, shape: Shape) -> list[int]:
        """The bytes that the declared implementation can take at a shape."""
        wanted = []
        if self.declared.implementation in (None, FLASH2):
            wanted.append(costs.flash2_peak_memory(shape))
        if self.declared.implementation in (None, NAIVE):
            wanted += [costs.naive_peak_memory(shape, size) for size in self.allowed]
        return wanted

    @cached_property
    def reading(self) -> Reading:
        """The result of comparing the numbers with the declaration."""
        declared, numbers, shape = self.declared, self.file.numbers, self.declared.shape
        if shape is not None and not numbers.has_flops(costs.forward_flops(shape)):
            return "flops"
        if not declared.gpu:
            return "not_cuda"
        if declared.implementation not in (None, NAIVE, FLASH2):
            return "other_kernel"
        if self.fitting:
            return "fits"
        if shape is None:
            return "memory" if numbers.is_exact else "rounded"
        if not memory_is_exact(declared, shape):
            return "not_exact"
        errors = (abs(size / costs.MIB - numbers.peak_mib) for size in self.memories(shape))
        return "rounded_memory" if min(errors) <= numbers.memory_error else "memory"


def identify(files: Sequence[DeclaredFile]) -> tuple[list[Identification], list[int]]:
    """Each file of a folder with the candidates for its run.

    The second are workspaces that the files of a device agree on though they are not those of the
    device, or of any.
    """
    by_device: dict[str | None, list[DeclaredFile]] = defaultdict(list)
    for file in files:
        by_device[kind_of_device(file.declaration.device_name)].append(file)
    workspaces = {name: _workspaces(own) for name, own in by_device.items()}
    identified = [
        Identification(file, workspaces[kind_of_device(file.declaration.device_name)][0])
        for file in files
    ]
    return identified, [size for _, size in workspaces.values() if size is not None]
