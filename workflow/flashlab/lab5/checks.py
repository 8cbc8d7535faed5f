"""The checks of a submission's files one by one: form, arithmetic and identity.

The importer refuses a folder for what fails here, and by the same functions.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Literal

from flashlab.lab5.assigning import File, contradiction, matching, read_numbers, stated
from flashlab.lab5.results import EXACT, RATIOS, Result, is_on_gpu, read_folder
from flashlab.lab5.words import FLASH2, NAIVE

Verdict = Literal["pass", "warn", "fail", "not_checked"]


@dataclass(frozen=True)
class Line:
    """One check of one file: `code` is the key of its message, `text` the reason in English."""

    verdict: Verdict
    code: str
    file: str
    text: str = ""


def check_arithmetic(result: Result) -> Line:
    """Rates × times are F, 2.5 F and 3.5 F, times add up, and are the medians of their samples."""
    seconds, rates, error = result.seconds, result.rates, 2 * result.error
    metrics = result.document.get("record", {}).get("metrics", {})
    for name, ratio in RATIOS.items():
        found = rates[name] * seconds[name] * 1e12 / result.forward_flops
        if not isclose(found, ratio, rel_tol=error):
            return Line("fail", "arithmetic.flops", result.name, f"{name}: {found:.9g}")
        samples = metrics.get(f"{name}_time", {}).get("samples") or [1e3 * seconds[name]]
        if not isclose(statistics.median(samples) / 1e3, seconds[name], rel_tol=EXACT):
            return Line("fail", "arithmetic.samples", result.name, name)
    if not isclose(
        seconds["forward_backward"], seconds["forward"] + seconds["backward"], rel_tol=error
    ):
        return Line("fail", "arithmetic.sum", result.name)
    return Line("pass", "arithmetic.pass", result.name)


def check_identity(file: File) -> Line:
    """A file must be able to be the run that a row or its record states; a name accuses nobody."""
    result, option = file.result, stated(file.result.said)
    possible = matching(file.possible, result.said)

    def line(verdict: Verdict, code: str, text: str = "") -> Line:
        return Line(verdict, f"identity.{code}", result.name, text)

    if option and (problem := contradiction(file, option)):
        return Line("fail", problem[0], result.name, problem[1])
    if not is_on_gpu(result):
        is_cuda = option and option in read_numbers([without_device(result)])[0].possible
        return line("warn", "cuda_memory") if is_cuda else line("not_checked", "not_cuda")
    if option and option[0] not in (NAIVE, FLASH2):
        return line("not_checked", "other_kernel")
    if not possible and option:
        return line("not_checked", "not_exact")
    if not possible:
        return line("fail" if file.possible and result.said else "not_checked", "shape")
    return line("pass", "pass") if option else line("not_checked", "open")


def without_device(result: Result) -> Result:
    """A result as if nothing were said of its device."""
    said = {name: value for name, value in result.said.items() if name != "device"}
    return Result(**{**vars(result), "said": said, "run": None})


def check_files(folder: Path) -> Iterator[Line]:
    """The lines about each file of a submission; a file that fails one check is in no later one."""
    read = read_folder(folder)
    for name, problem in read.refused.items():
        yield Line("fail", problem.code, name, str(problem))
    sound = []
    for name, result in read.results.items():
        if name in read.contradicted:
            twice = result.source == "runs.csv" and result.run is None
            code = "declared_twice" if twice else "record_differs"
            yield Line("fail", f"identity.{code}", name, read.contradicted[name])
        elif result.status == "ok":
            yield (line := check_arithmetic(result))
            sound += [result] if line.verdict != "fail" else []
    yield from map(check_identity, read_numbers(sound))
