"""Check 3, identity: a file must be able to be the run that it is declared to be.

A declaration is false only outside the set of runs that could have made the file
(`course.identity`), and only where the memory is exact. What a file's name seems to say never makes
it false: the numbers overrule it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flashlab.benchmarks.attention import costs
from flashlab.course.declaration import Declaration, device_is_gpu
from flashlab.course.identity import (
    Candidate,
    Identification,
    family_of,
    fits,
    identify,
    known_workspaces,
)
from flashlab.course.words import FLASH2, NAIVE
from flashlab_grading.model import Line, Result, Verdict

SHOWN_CANDIDATES = 3


@dataclass(frozen=True)
class Point:
    """One sound file and its family: implementation, B·H, N, d and the mask."""

    result: Result
    family: Candidate


def possible_families(result: Result, candidates: Sequence[Candidate]) -> set[Candidate]:
    """The families that a file can be of; only the declared one if the declaration is complete."""
    run = result.declaration.run
    return {family_of(*run)} if run else _families(candidates)


def _families(candidates: Iterable[Candidate]) -> set[Candidate]:
    """The families of candidates, without what only the memory reveals."""
    return {replace(candidate, copied=None, workspaces=None) for candidate in candidates}


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


def _listed(found: Sequence[Candidate]) -> str:
    shown = " | ".join(candidate.describe() for candidate in found[:SHOWN_CANDIDATES])
    more = len(found) - SHOWN_CANDIDATES
    return f"{shown} | +{more}" if more > 0 else shown


def _is_on_cpu(result: Result, declared: Declaration) -> bool:
    """True for a file declared to be of a CPU; bfloat16 takes as much memory as float16."""
    named, claim = declared.device_name, result.claim
    on_cpu = named is not None and not device_is_gpu(named)
    return on_cpu or (claim is not None and claim.run.device == "cpu")


def _judged(identified: Identification, result: Result) -> Line:
    """The line that compares one file's candidates with its declaration."""
    declared, possible = identified.declared, identified.possible
    hint, numbers, shape = result.declaration, result.numbers, declared.shape
    described = declared.describe()

    def line(
        verdict: Verdict,
        code: str,
        expected: str = described,
        found: str | None = None,
        **params: str,
    ) -> Line:
        texts = expected, _listed(possible) if found is None else found
        return Line(verdict, code, result.name, params, *texts)

    if again := result.declared_again:
        others = " | ".join(row.describe() for row in (declared, *again))
        return line("fail", "identity.declared_twice", found=others)
    recorded = result.recorded
    if recorded and declared.source == "runs.csv" and declared.contradicts(recorded):
        return line("fail", "identity.record_differs", found=recorded.describe())
    if not declared.stated:
        if hint.stated and possible:
            return line("not_checked", "identity.name_refuted", hint.describe())
        if not numbers.is_exact:
            return line("not_checked", "identity.rounded", "", "")
        code = "identity.undeclared" if possible else "identity.undeclared_unknown"
        return line("not_checked", code, "")
    match identified.reading:
        case "flops":
            assert shape is not None
            wanted, found = costs.forward_flops(shape), numbers.forward_flops
            texts = f"{wanted:.9g} FLOPs", f"{found:.9g} FLOPs"
            return line("fail", "identity.flops", *texts, declared=described)
        case "not_cuda":
            if identified.fitting and shape is not None and _is_on_cpu(result, declared):
                return line("warn", "identity.cuda_memory")
            return line("not_checked", "identity.not_cuda")
        case "other_kernel":
            kernel = str(declared.implementation)
            return line("not_checked", "identity.other_kernel", kernel=kernel)
        case "fits" if shape is None and len(_families(identified.fitting)) > 1:
            return line("not_checked", "identity.open", found=_listed(identified.fitting))
        case "fits" if declared != hint:
            return line("pass", "identity.name_differs", hint.describe())
        case "fits" if shape is None:
            return line("pass", "identity.pass_partly", found=_listed(identified.fitting))
        case "fits":
            return line("pass", "identity.pass")
        case "rounded":
            return line("not_checked", "identity.rounded", found="")
        case "not_exact":
            return line("not_checked", "identity.not_exact")
        case "rounded_memory":
            return line("pass", "identity.rounded_memory")  # but for its last digit
    # The memory contradicts the declaration.
    if made_by := {candidate.implementation for candidate in possible}:
        said = str(declared.implementation)
        if declared.implementation in {None, *made_by}:
            return line("fail", "identity.shape", declared=described)
        return line("fail", "identity.implementation", declared=said, other=made_by.pop())
    if elsewhere := [c for c in identified.every if fits(c, declared)]:
        sizes = " / ".join(f"{size / costs.MIB:g}" for size in identified.allowed)
        verdict: Verdict = "warn" if declared.hinted else "fail"
        return line(verdict, "identity.workspace", found=_listed(elsewhere), workspaces=sizes)
    if shape is None:
        return line("not_checked", "identity.partly_unknown", found="")
    expected = " | ".join(f"{size} B" for size in identified.memories(shape))
    held = f"{numbers.peak_mib * costs.MIB:.12g} B"
    return line("fail", "identity.memory", expected, held, declared=described)


def check_identity(
    results: Sequence[Result],
) -> tuple[list[Line], list[Result], dict[str, tuple[Candidate, ...]]]:
    """A line for each file, the files, and the families that each may be of.

    The files are without the hints of their names that the numbers contradict.
    """
    lines, files, families = [], [], {}
    identified, unexpected = identify(results)
    for each, result in zip(identified, results, strict=True):
        line = _judged(each, result)
        lines.append(line)
        files.append(replace(result, declaration=each.declared))
        found = each.fitting if each.declared.stated else each.possible
        families[result.name] = () if line.verdict == "fail" else found
    for workspace in unexpected:
        size = {"size": f"{workspace / costs.MIB:g}"}
        if workspace in known_workspaces():
            lines.append(Line("warn", "identity.workspace_of_another", params=size))
        else:
            lines.append(Line("pass", "identity.workspace_unusual", params=size))
    return lines, files, families
