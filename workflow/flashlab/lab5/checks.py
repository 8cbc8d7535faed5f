"""The checks of results one by one, arithmetic and identity, by the importer's own functions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Literal

from flashlab.benchmarks.attention import costs
from flashlab.lab5 import assigning
from flashlab.lab5.assigning import COARSE, File, Option, known_workspaces, possible_runs, stated
from flashlab.lab5.documents import listed
from flashlab.lab5.results import EXACT, RATIOS, Result
from flashlab.lab5.words import ATTRIBUTES, FLASH2, NAIVE, described

Verdict = Literal["pass", "warn", "fail", "not_checked"]


@dataclass(frozen=True)
class Line:
    """One check of one file, or of a whole submission if `file` is empty.

    `code` is the key of its message in the labels and begins with its check, `params` are that
    message's parameters. Names are verbatim: they are escaped where they are shown.
    """

    verdict: Verdict
    code: str
    file: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    expected: str = ""
    found: str = ""
    submission: str = ""

    @property
    def check(self) -> str:
        """The check that it belongs to."""
        return self.code.partition(".")[0]


def check_arithmetic(result: Result) -> Line:
    """Rates × times are F, 2.5 F and 3.5 F, times add up, and are the medians of their samples."""
    seconds, rates, error = result.seconds, result.rates, 2 * result.error

    def failed(code: str, name: str, expected: float, found: float) -> Line:
        texts = f"{expected:.9g}", f"{found:.9g}"
        return Line("fail", f"arithmetic.{code}", result.name, {"pass": name}, *texts)

    for name, ratio in RATIOS.items():
        found = rates[name] * seconds[name] * 1e12 / result.forward_flops
        if not isclose(found, ratio, rel_tol=error):
            return failed("flops", name, ratio, found)
        median = statistics.median(result.samples.get(name) or [seconds[name]])
        if not isclose(median, seconds[name], rel_tol=max(EXACT, result.error)):
            return failed("samples", name, median, seconds[name])
    total = seconds["forward"] + seconds["backward"]
    if not isclose(seconds["forward_backward"], total, rel_tol=error):
        return failed("sum", "forward_backward", total, seconds["forward_backward"])
    if result.error > COARSE:
        return Line("not_checked", "arithmetic.coarse", result.name)
    code = "arithmetic.rounded" if result.error > EXACT else "arithmetic.pass"
    return Line("pass", code, result.name)


def check_identity(file: File) -> Line:
    """A file must be able to be the run that a row or its record states; a name accuses nobody."""
    result, said, told = file.result, file.result.said, file.result.told
    option, fitting = stated(said), assigning.matching(file.possible, told)
    is_said, who = bool(said.keys() & {*ATTRIBUTES}), said.get("implementation", NAIVE)

    def line(verdict: Verdict, code: str, found: Iterable[Option] = (), **params: str) -> Line:
        families = listed([*dict.fromkeys(map(assigning.describe, found))], " | ")
        declared = described(said if is_said else told)
        return Line(verdict, f"identity.{code}", result.name, params, declared, families)

    if problem := assigning.contradiction(file, said):
        makers = {who for who, _ in file.possible} - {said.get("implementation")}
        sizes = " / ".join(f"{size / costs.MIB:g}" for size in sorted(file.workspaces))
        params = {"declared": described(said), "other": " / ".join(sorted(makers))}
        failed = line("fail", problem[0], file.possible, workspaces=sizes, **params)
        shown = failed.found or f"{result.peak_mib!r} MiB"
        is_flops = problem[0] == "flops"
        return replace(failed, found=f"{result.forward_flops:.9g} FLOPs" if is_flops else shown)
    is_cpu = not result.is_on_gpu and (result.run is None or result.run.device == "cpu")
    if is_cpu and option in possible_runs(result):
        return line("warn", "cuda_memory", filter(None, [option]))
    if not result.is_on_gpu or who not in (NAIVE, FLASH2):
        return line("not_checked", "no_model")
    if option:
        is_exact = result.peak_mib * costs.MIB in assigning.memories(file, option)
        is_checked = is_exact or assigning.has_exact_memory(option)
        verdict: Verdict = "pass" if is_checked else "not_checked"
        code = "pass" if is_exact else "rounded_memory" if is_checked else "no_model"
        return line(verdict, code, [option])
    possible = assigning.matching(file.possible, said)
    if not possible:
        return line("not_checked", "partly_unknown")
    if stated(told) and fitting:
        return line("pass", "pass", fitting)
    if is_said and len({*map(assigning.describe, possible)}) == 1:
        return line("pass", "pass_partly", possible)
    return line("not_checked", "open", possible)


def check_results(results: Iterable[Result]) -> tuple[list[Line], list[File]]:
    """The lines on results, and those that no line refutes, with the runs that their numbers allow.

    A result that fails a check is in no later one, so that a fault is told once.
    """
    lines, computed = list[Line](), list[Result]()
    for result in results:
        line = check_arithmetic(result)
        lines.append(line)
        computed += [result] if line.verdict == "pass" else []
        if line.verdict != "pass":
            codes = ("identity.no_flops", "physics.no_flops")
            lines += [Line("not_checked", code, result.name) for code in codes]
    files = assigning.read_numbers(computed)
    unusual = {size for f in files for size in f.workspaces - assigning.own_workspaces(f.result)}
    for size in sorted(unusual):
        code = "of_another" if size in known_workspaces() else "unusual"
        verdict: Verdict = "warn" if size in known_workspaces() else "pass"
        params = {"size": f"{size / costs.MIB:g}"}
        lines.append(Line(verdict, f"identity.workspace_{code}", "", params))
    judged = [(file, check_identity(file)) for file in files]
    lines += [line for _, line in judged]
    return lines, [file for file, line in judged if line.verdict != "fail"]
