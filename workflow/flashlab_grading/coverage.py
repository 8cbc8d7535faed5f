"""Check 6, coverage: five experiments with both implementations and at least three values each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course.identity import Candidate
from flashlab.course.words import FLASH2, NAIVE
from flashlab_grading.identity import possible_families
from flashlab_grading.model import Line, Result, Verdict

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
VALUES = 3


Point = tuple[tuple[int, ...], int, bool]
"""A run as a point of an experiment: the sizes that are fixed, the one that varies, the mask."""


def _of_shape(shape: Shape, experiment: str) -> Point:
    sizes = {name: getattr(shape, name) for name in EXPERIMENTS if name != "causal"}
    varied = sizes.pop(experiment, 0)
    return tuple(sizes.values()), varied, shape.causal


def _of_family(family: Candidate, experiment: str) -> Point:
    """The same for a family, which allows any B and H of its product."""
    groups, n, d = family.groups, family.seq_len, family.head_dim
    fixed, varied = {
        "causal": ((groups, n, d), 0),
        "batch_size": ((n, d), groups),
        "seq_len": ((groups, d), n),
        "num_heads": ((groups * d, n), groups),
        "emb_dim": ((groups, n), d),
    }[experiment]
    return fixed, varied, family.causal


def _count(points: Iterable[Point], experiment: str) -> int:
    """The number of values of the largest experiment among these points; of masks, of shapes."""
    found: dict[object, set[int]] = defaultdict(set)
    for fixed, varied, causal in points:
        if experiment == "causal":
            found[fixed].add(causal)
        else:
            found[fixed, causal].add(varied)
    if experiment == "causal":
        return sum(len(masks) == 2 for masks in found.values())
    return max(map(len, found.values()), default=0)


def check_coverage(
    results: Sequence[Result],
    candidates: Mapping[str, Sequence[Candidate]],
    doubted: Sequence[Result] = (),
) -> list[Line]:
    """A line for each experiment and implementation: present, missing, or possibly present.

    If files are not fully declared, an experiment is possibly present if their FLOPs and memory
    allow it. `doubted` are the files that other checks refute or could not check: an experiment
    that lacks only these is not missing, because the cause is reported there.
    """
    lines = []
    for implementation in (NAIVE, FLASH2):
        own = [r.declaration for r in results if r.declaration.implementation == implementation]
        shapes = [said.shape for said in own if said.shape is not None]
        # Two implementations' labels may have been exchanged.
        all_shapes = [*shapes, *(s for r in doubted if (s := r.declaration.shape) is not None)]
        families = {
            family
            for result in results
            for family in possible_families(result, candidates.get(result.name, ()))
            if family.implementation == implementation
        }
        for experiment in EXPERIMENTS:
            values = _count((_of_shape(s, experiment) for s in shapes), experiment)
            params = {"experiment": experiment, "implementation": implementation}
            verdict: Verdict = "pass"
            code = "coverage.pass"
            if values < VALUES:
                possible = (_of_family(family, experiment) for family in families)
                if _count(possible, experiment) >= VALUES:
                    verdict, code = "not_checked", "coverage.possible"
                elif _count((_of_shape(s, experiment) for s in all_shapes), experiment) >= VALUES:
                    verdict, code = "not_checked", "coverage.doubted"
                elif experiment == "causal" and values:
                    verdict, code = "warn", "coverage.few_masks"
                else:
                    verdict, code = "fail", "coverage.missing"
            lines.append(Line(verdict, code, "", params, f"≥ {VALUES}", str(values)))
    return lines
