"""The checks of results one by one, arithmetic and identity, by the importer's own functions."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Any, Literal

from flashlab.benchmarks.attention import costs
from flashlab.lab5.assigning import File, contradiction, describe, matching, read_numbers, stated
from flashlab.lab5.possible import Option, known_workspaces, workspaces_of
from flashlab.lab5.results import EXACT, RATIOS, Result, is_on_gpu
from flashlab.lab5.said import ATTRIBUTES, described
from flashlab.lab5.words import FLASH2, NAIVE, PASSES

Verdict = Literal["pass", "warn", "fail", "not_checked"]

COARSE = 0.02
"""Relative rounding above which numbers determine no run."""

ALIKE = 3
"""Fewest naive results that show a setting of cuBLAS's workspaces."""


@dataclass(frozen=True)
class Line:
    """One check of one file, or of a whole submission if `file` is empty.

    `code` is the key of its message in the catalogs and begins with its check, `params` are that
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


def samples_of(result: Result) -> dict[str, list[float]]:
    """The seconds of each call by pass, of a record that has them."""
    metrics = result.document.get("record", {}).get("metrics") or {}
    found = {name: (metrics.get(f"{name}_time") or {}).get("samples") for name in PASSES}
    return {name: [sample / 1e3 for sample in own] for name, own in found.items() if own}


def check_arithmetic(result: Result) -> Line:
    """Rates × times are F, 2.5 F and 3.5 F, times add up, and are the medians of their samples."""
    seconds, rates, error = result.seconds, result.rates, 2 * result.error
    samples = samples_of(result)

    def failed(code: str, name: str, expected: float, found: float) -> Line:
        texts = f"{expected:.9g}", f"{found:.9g}"
        return Line("fail", f"arithmetic.{code}", result.name, {"pass": name}, *texts)

    for name, ratio in RATIOS.items():
        found = rates[name] * seconds[name] * 1e12 / result.forward_flops
        if not isclose(found, ratio, rel_tol=error):
            return failed("flops", name, ratio, found)
        median = statistics.median(samples.get(name) or [seconds[name]])
        if not isclose(median, seconds[name], rel_tol=max(EXACT, result.error)):
            return failed("samples", name, median, seconds[name])
    total = seconds["forward"] + seconds["backward"]
    if not isclose(seconds["forward_backward"], total, rel_tol=error):
        return failed("sum", "forward_backward", total, seconds["forward_backward"])
    if result.error > COARSE:
        return Line("not_checked", "arithmetic.coarse", result.name)
    code = "arithmetic.rounded" if result.error > EXACT else "arithmetic.pass"
    return Line("pass", code, result.name)


def listed(options: Iterable[Option]) -> str:
    """The families of runs in one line, three of them at most."""
    families = [*dict.fromkeys(map(describe, options))]
    return " | ".join(families[:3] + ([f"+{len(families) - 3}"] if len(families) > 3 else []))


def check_identity(file: File) -> Line:
    """A file must be able to be the run that a row or its record states; a name accuses nobody."""
    result, said = file.result, file.result.said
    hinted = {**result.hinted, **said}
    option, possible = stated(said), matching(file.possible, said)
    is_said = bool(said.keys() & {*ATTRIBUTES})

    def line(verdict: Verdict, code: str, found: str = "", **params: str) -> Line:
        declared = described(hinted if option is None and not is_said else said)
        return Line(verdict, f"identity.{code}", result.name, params, declared, found)

    if problem := contradiction(file, option) if option else None:
        code = problem[0].removeprefix("identity.")
        makers = {who for who, _ in file.possible} - {said["implementation"]}
        sizes = " / ".join(f"{size / costs.MIB:g}" for size in sorted(file.workspaces))
        flops = f"{result.forward_flops:.9g} FLOPs"
        found = flops if code == "flops" else listed(file.possible) or f"{result.peak_mib!r} MiB"
        more = {"other": " / ".join(sorted(makers)), "workspaces": sizes}
        return line("fail", code, found, declared=described(said), **more)
    if not is_on_gpu(result):
        is_cpu = result.run.device == "cpu" if result.run else True
        anywhere = read_numbers([replace(result, said={}, run=None)])[0]
        if is_cpu and option and option in anywhere.possible:
            return line("warn", "cuda_memory", listed([option]))
        return line("not_checked", "not_cuda")
    if said.get("implementation", NAIVE) not in (NAIVE, FLASH2):
        return line("not_checked", "other_kernel", kernel=str(said["implementation"]))
    if option:
        return line(*_of_stated(file, option), listed([option]))
    if is_said and file.possible and not possible:
        who = said.get("implementation")
        makers = {maker for maker, _ in file.possible} - {who}
        is_other = {maker for maker, _ in file.possible} == makers and who
        params = {"declared": described(said), "other": " / ".join(sorted(makers))}
        return line(
            "fail", "implementation" if is_other else "shape", listed(file.possible), **params
        )
    if (not possible and result.error > EXACT) or result.peak_mib * costs.MIB % 1:
        return line("not_checked", "rounded")
    if not possible:
        return line("not_checked", "partly_unknown" if is_said else "undeclared_unknown")
    fitting, families = matching(possible, hinted), {*map(describe, possible)}
    if stated(hinted) and fitting:
        return line("pass", "pass", listed(fitting))
    if is_said and len(families) > 1:
        return line("not_checked", "open", listed(possible))
    if is_said:
        return line("pass", "pass_partly", listed(possible))
    code = "undeclared" if fitting else "name_refuted"
    return line("not_checked", code, listed(possible))


def _of_stated(file: File, option: Option) -> tuple[Verdict, str]:
    """Verdict and code of a result on a GPU that nothing contradicts, whose whole run is stated."""
    who, shape = option
    is_exact = costs.flash2_memory_is_exact if who == FLASH2 else costs.naive_memory_is_exact
    held = [costs.naive_peak_memory(shape, size) for size in file.workspaces]
    held = [costs.flash2_peak_memory(shape)] if who == FLASH2 else held
    if file.result.peak_mib * costs.MIB not in held:
        return ("pass", "rounded_memory") if is_exact(shape) else ("not_checked", "not_exact")
    own = {"implementation": who, **shape.parameters}
    is_other = any(own[name] != value for name, value in file.result.hinted.items() if name in own)
    return "pass", "name_differs" if is_other else "pass"


def _share_workspaces(files: Sequence[File]) -> list[Line]:
    """Lines on workspaces that all naive results of a device have, though it has others by default.

    CUBLAS_WORKSPACE_CONFIG sets them: these files are taken to have them.
    """
    by_device: dict[Any, list[tuple[File, int]]] = {}
    for file in files:
        option = stated(file.result.said)
        size = file.result.peak_mib * costs.MIB
        if (
            option
            and option[0] == NAIVE
            and costs.naive_memory_is_exact(option[1])
            and not size % 1
        ):
            own = file, workspaces_of(option[1], int(size))
            by_device.setdefault(file.result.said.get("device"), []).append(own)
    lines = []
    for those in by_device.values():
        ((size, count),) = Counter(size for _, size in those).most_common(1)
        is_known = size in known_workspaces()
        is_usual = is_known and size in those[0][0].workspaces
        if is_usual or size < 0 or not ALIKE <= count == len(those):
            continue
        for file, _ in those:
            file.workspaces |= {size}
        code, params = "of_another" if is_known else "unusual", {"size": f"{size / costs.MIB:g}"}
        lines.append(Line("warn" if is_known else "pass", f"identity.workspace_{code}", "", params))
    return lines


def check_results(
    results: Iterable[Result],
) -> tuple[list[Line], list[File]]:
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
    files = read_numbers(computed)
    lines += _share_workspaces(files)
    judged = [(file, check_identity(file)) for file in files]
    lines += [line for _, line in judged]
    return lines, [file for file, line in judged if line.verdict != "fail"]
