"""Check 3, identity: whether a file can be what it is declared to be.

A declaration is false only outside the set of runs that could have made the file
(`course.identity`), and only where the memory is exact. What a file's name seems to say never makes
it false: the numbers overrule it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flashlab.benchmarks.attention import costs
from flashlab.course.declaration import device_is_gpu
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


# Which run a file is: certain, or one of several that are possible


@dataclass(frozen=True)
class Point:
    """One sound file and its family: implementation, B·H, N, d and the mask."""

    result: Result
    family: Candidate


def possible_families(result: Result, candidates: Sequence[Candidate]) -> set[Candidate]:
    """The families that a file can be of; just the declared one if the declaration is complete."""
    if run := result.declaration.run:
        return {family_of(*run)}
    # Without what only the memory reveals.
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


# The check


def _listed(found: Sequence[Candidate]) -> str:
    shown = " | ".join(candidate.describe() for candidate in found[:SHOWN_CANDIDATES])
    more = len(found) - SHOWN_CANDIDATES
    return f"{shown} | +{more}" if more > 0 else shown


class _Judge:
    """Compares one file's candidates with its declaration."""

    def __init__(self, identified: Identification, result: Result) -> None:
        self.identified, self.hint = identified, result.declaration
        self.possible, self.declared = identified.possible, identified.declared
        self.result = replace(result, declaration=self.declared)

    def _line(self, verdict: Verdict, code: str, **params: str) -> Line:
        expected = params.pop("expected", self.declared.describe())
        found = params.pop("found", _listed(self.possible))
        return Line(verdict, code, self.result.name, params, expected, found)

    def line(self) -> Line:
        declared, numbers, shape = self.declared, self.result.numbers, self.declared.shape
        if again := self.result.declared_again:
            others = " | ".join(row.describe() for row in (declared, *again))
            return self._line("fail", "identity.declared_twice", found=others)
        recorded = self.result.recorded
        if recorded and declared.source == "runs.csv" and declared.contradicts(recorded):
            return self._line("fail", "identity.record_differs", found=recorded.describe())
        if not declared.stated:
            return self._undeclared()
        reading = self.identified.reading
        if reading == "flops":
            assert shape is not None
            found = f"{numbers.forward_flops:.9g} FLOPs"
            texts = {"expected": f"{costs.forward_flops(shape):.9g} FLOPs", "found": found}
            return self._line("fail", "identity.flops", declared=declared.describe(), **texts)
        if reading == "not_cuda":
            if self.identified.fitting and shape is not None and self._is_on_cpu():
                return self._line("warn", "identity.cuda_memory")
            return self._line("not_checked", "identity.not_cuda")
        if reading == "other_kernel":
            return self._line(
                "not_checked", "identity.other_kernel", kernel=str(declared.implementation)
            )
        if reading == "fits":
            if declared != self.hint:
                return self._line("pass", "identity.name_differs", expected=self.hint.describe())
            return self._line("pass", "identity.pass" if shape else "identity.pass_partly")
        if reading == "rounded":
            return self._line("not_checked", "identity.rounded", found="")
        if reading == "not_exact":
            return self._line("not_checked", "identity.not_exact")
        if reading == "rounded_memory":
            return self._line("pass", "identity.rounded_memory")  # but for its last digit
        return self._contradicted()

    def _is_on_cpu(self) -> bool:
        """Whether the file is declared to be of a CPU; bfloat16 takes as much memory as float16."""
        named, claim = self.declared.device_name, self.result.claim
        on_cpu = named is not None and not device_is_gpu(named)
        return on_cpu or (claim is not None and claim.run.device == "cpu")

    def _undeclared(self) -> Line:
        """The line of a file of which nothing is known but its numbers."""
        if self.hint.stated and self.possible:
            return self._line("not_checked", "identity.name_refuted", expected=self.hint.describe())
        if not self.result.numbers.is_exact:
            return self._line("not_checked", "identity.rounded", expected="", found="")
        code = "identity.undeclared" if self.possible else "identity.undeclared_unknown"
        return self._line("not_checked", code, expected="")

    def _contradicted(self) -> Line:
        """The line of a declaration that no possible candidate fits."""
        declared, described = self.declared, self.declared.describe()
        made_by = {candidate.implementation for candidate in self.possible}
        if made_by:
            if declared.implementation in {None, *made_by}:
                return self._line("fail", "identity.shape", declared=described)
            (other,) = made_by
            said = str(declared.implementation)
            return self._line("fail", "identity.implementation", declared=said, other=other)
        if elsewhere := [c for c in self.identified.every if fits(c, declared)]:
            text = " / ".join(f"{size / costs.MIB:g}" for size in self.identified.allowed)
            verdict: Verdict = "warn" if declared.hinted else "fail"
            return self._line(
                verdict, "identity.workspace", found=_listed(elsewhere), workspaces=text
            )
        if declared.shape is None:
            return self._line("not_checked", "identity.partly_unknown", found="")
        expected = " | ".join(f"{size} B" for size in self.identified.memories(declared.shape))
        found = f"{self.result.numbers.peak_mib * costs.MIB:.12g} B"
        return self._line(
            "fail", "identity.memory", declared=described, expected=expected, found=found
        )


def check_identity(
    results: Sequence[Result],
) -> tuple[list[Line], list[Result], dict[str, tuple[Candidate, ...]]]:
    """A line for each file, the files, and the families that each may be of.

    The files are without the hints of their names that the numbers contradict.
    """
    lines, files, families = [], [], {}
    identified, unexpected = identify(results)
    for each, result in zip(identified, results, strict=True):
        judge = _Judge(each, result)
        line = judge.line()
        lines.append(line)
        files.append(judge.result)
        found = each.fitting if each.declared.stated else each.possible
        families[result.name] = () if line.verdict == "fail" else found
    for workspace in unexpected:
        size = {"size": f"{workspace / costs.MIB:g}"}
        if workspace in known_workspaces():
            lines.append(Line("warn", "identity.workspace_of_another", params=size))
        else:
            lines.append(Line("pass", "identity.workspace_unusual", params=size))
    return lines, files, families
