"""A submission's files as points that can be compared: of a settled family, or a possible one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, NAIVE
from flashlab.grading.identity import Candidate
from flashlab.grading.model import Result


@dataclass(frozen=True)
class Point:
    """One sound file and the family that it is of: implementation, B·H, N, d and the mask."""

    result: Result
    family: Candidate


def family_of(implementation: str, shape: Shape) -> Candidate:
    """The family of a declared run."""
    groups = shape.batch_size * shape.num_heads
    return Candidate(implementation, groups, shape.seq_len, shape.head_dim, shape.causal)


def _plain(family: Candidate) -> Candidate:
    """A family without what only its memory tells."""
    return Candidate(
        *(family.implementation, family.groups, family.seq_len, family.head_dim, family.causal)
    )


def possible_families(result: Result, candidates: Sequence[Candidate]) -> set[Candidate]:
    """The families that a file can be of: the declared run's alone, where it is declared whole."""
    said = result.declaration
    if said.shape is not None and said.implementation is not None:
        return {family_of(said.implementation, said.shape)}
    return {_plain(candidate) for candidate in candidates}


def settled_points(
    results: Iterable[Result], candidates: Mapping[str, Sequence[Candidate]]
) -> Iterator[Point]:
    """The files whose family is settled: declared, or the only one that the numbers allow."""
    for result in results:
        families = possible_families(result, candidates.get(result.name, ()))
        if len(families) == 1:
            (family,) = families
            if family.implementation in (NAIVE, FLASH2):
                yield Point(result, family)
