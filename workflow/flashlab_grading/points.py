"""Which run each file of a submission is: certain, or one of several that are possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, NAIVE
from flashlab_grading.identity import Candidate
from flashlab_grading.model import Result


@dataclass(frozen=True)
class Point:
    """One sound file and its family: implementation, B·H, N, d and the mask."""

    result: Result
    family: Candidate


def family_of(implementation: str, shape: Shape) -> Candidate:
    """The family of a declared run."""
    groups = shape.batch_size * shape.num_heads
    return Candidate(implementation, groups, shape.seq_len, shape.head_dim, shape.causal)


def _without_memory(family: Candidate) -> Candidate:
    """A family without the attributes that only its memory reveals."""
    return Candidate(
        *(family.implementation, family.groups, family.seq_len, family.head_dim, family.causal)
    )


def possible_families(result: Result, candidates: Sequence[Candidate]) -> set[Candidate]:
    """The families that a file can be of; just the declared one if the declaration is complete."""
    declared = result.declaration
    if declared.shape is not None and declared.implementation is not None:
        return {family_of(declared.implementation, declared.shape)}
    return {_without_memory(candidate) for candidate in candidates}


def settled_points(
    results: Iterable[Result], candidates: Mapping[str, Sequence[Candidate]]
) -> Iterator[Point]:
    """The files whose family is certain: declared, or the only one that the numbers allow."""
    for result in results:
        families = possible_families(result, candidates.get(result.name, ()))
        if len(families) == 1:
            (family,) = families
            if family.implementation in (NAIVE, FLASH2):
                yield Point(result, family)
