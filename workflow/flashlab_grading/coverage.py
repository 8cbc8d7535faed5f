"""Check 6, coverage: five experiments with both implementations and at least three values each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import FLASH2, NAIVE
from flashlab_grading.identity import Candidate
from flashlab_grading.model import Line, Result, Verdict
from flashlab_grading.points import possible_families

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
VALUES = 3


def _largest_sweep(groups: Iterable[tuple[object, object]]) -> set[object]:
    """Of (fixed, varied) pairs, the varied values of the fixed part that has most of them."""
    found: dict[object, set[object]] = defaultdict(set)
    for fixed, varied in groups:
        found[fixed].add(varied)
    return max(found.values(), key=len, default=set())


def _with_both_masks(fixed_and_mask: Iterable[tuple[object, bool]]) -> set[object]:
    masks: dict[object, set[bool]] = defaultdict(set)
    for fixed, mask in fixed_and_mask:
        masks[fixed].add(mask)
    return {fixed for fixed, both in masks.items() if len(both) == 2}


def _values(shapes: Sequence[Shape], experiment: str) -> set[object]:
    """The values of an experiment: of the size that it varies, or the shapes with both masks."""
    sizes = ("batch_size", "seq_len", "num_heads", "emb_dim")
    if experiment == "causal":
        return _with_both_masks((tuple(getattr(s, x) for x in sizes), s.causal) for s in shapes)
    return _largest_sweep(
        (
            (*(getattr(s, x) for x in sizes if x != experiment), s.causal),
            getattr(s, experiment),
        )
        for s in shapes
    )


def _possible_values(families: Iterable[Candidate], experiment: str) -> set[object]:
    """The values of the largest experiment that these families allow, for any B and H."""
    match experiment:
        case "causal":
            return _with_both_masks(((f.groups, f.seq_len, f.head_dim), f.causal) for f in families)
        case "batch_size":
            return _largest_sweep(((f.seq_len, f.head_dim, f.causal), f.groups) for f in families)
        case "seq_len":
            return _largest_sweep(((f.groups, f.head_dim, f.causal), f.seq_len) for f in families)
        case "num_heads":
            return _largest_sweep(
                ((f.groups * f.head_dim, f.seq_len, f.causal), f.groups) for f in families
            )
        case _:
            return _largest_sweep(((f.groups, f.seq_len, f.causal), f.head_dim) for f in families)


def _declared_shapes(results: Iterable[Result], implementation: str) -> list[Shape]:
    return [
        shape
        for result in results
        if result.declaration.implementation == implementation
        and (shape := result.declaration.shape) is not None
    ]


def check_coverage(
    submission: str,
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
        shapes = _declared_shapes(results, implementation)
        # Two implementations' labels may have been exchanged.
        all_shapes = [*shapes, *(s for r in doubted if (s := r.declaration.shape) is not None)]
        families = {
            family
            for result in results
            for family in possible_families(result, candidates.get(result.name, ()))
            if family.implementation == implementation
        }
        for experiment in EXPERIMENTS:
            values = _values(shapes, experiment)
            params = {"experiment": experiment, "implementation": implementation}
            verdict: Verdict = "pass"
            code = "coverage.pass"
            if len(values) < VALUES:
                possible = len(_possible_values(families, experiment))
                if possible >= VALUES:
                    verdict, code = "not_checked", "coverage.possible"
                elif len(_values(all_shapes, experiment)) >= VALUES:
                    verdict, code = "not_checked", "coverage.doubted"
                elif experiment == "causal" and values:
                    verdict, code = "warn", "coverage.few_masks"
                else:
                    verdict, code = "fail", "coverage.missing"
            lines.append(
                Line(
                    *(submission, "", "coverage", verdict, code),
                    params,
                    f"≥ {VALUES}",
                    str(len(values)),
                )
            )
    return lines
