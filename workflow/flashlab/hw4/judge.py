"""The judge: runs the program on each case in its own process, compares the output and times it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from flashlab.hw4 import Hw4Error
from flashlab.hw4.cases import CASES, chosen_cases, write_case
from flashlab.hw4.program import Parts
from flashlab.hw4.steps import find_step

TOLERANCE = 5e-3
"""The assignment's tolerance: the most by which an element may differ from the reference."""


@dataclass(frozen=True)
class Judgement:
    """The result of one process on one case: its largest error, and its times in seconds."""

    case: str
    step: str
    error: float
    whole: float
    parts: Parts

    @property
    def passed(self) -> bool:
        """True if every element is within the tolerance."""
        return self.error <= TOLERANCE

    @property
    def rest(self) -> float:
        """Seconds of the process beyond its parts, mostly its end."""
        return self.whole - math.fsum(asdict(self.parts).values())


def _run(source: Path, target: Path, step: str) -> tuple[float, Parts]:
    """Run the program as a user does, timed from outside."""
    command = [sys.executable, "-m", "flashlab", "hw4", str(source), str(target), "--step", step]
    begin = time.perf_counter()
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    whole = time.perf_counter() - begin
    if done.returncode:
        raise Hw4Error(f"{step}: {done.stderr.strip().removeprefix('error: ')}")
    return whole, Parts(**json.loads(done.stdout))


def judge_case(case: str, step: str, seed: int, folder: Path) -> Judgement:
    """Write a case, run a step on it, and compare; the files are deleted afterwards.

    Raises:
        Hw4Error: the program failed, with what it said.
    """
    from flashlab.hw4.reference import worst_error

    source, target = folder / f"{case}.bin", folder / f"{case}.out"
    try:
        write_case(source, case, seed)
        whole, parts = _run(source, target, step)
        return Judgement(case, step, worst_error(source, target), whole, parts)
    finally:
        source.unlink(missing_ok=True)
        target.unlink(missing_ok=True)


COLUMNS = (
    f"{'case':<5}{'B, N, d':<17}{'step':<13}{'verdict':<8}{'error':>8}"
    f"{'whole':>8}{'start':>8}{'compile':>8}{'buffers':>8}{'files':>8}"
    f"{'copies':>8}{'kernel':>8}{'rest':>7}"
)


def line(judgement: Judgement) -> str:
    """A judgement as a line of the table; one column where copies and kernel overlap."""
    sizes, parts = CASES[judgement.case], judgement.parts
    shape = f"{sizes.batch_size}, {sizes.seq_len}, {sizes.head_dim}"
    if parts.overlapped:
        device = f"{parts.overlapped:>16.3f}"
    else:
        device = f"{parts.copy_in + parts.copy_out:>8.3f}{parts.kernel:>8.3f}"
    return (
        f"{judgement.case:<5}{shape:<17}{judgement.step:<13}"
        f"{'passed' if judgement.passed else 'FAILED':<8}{judgement.error:>8.1e}"
        f"{judgement.whole:>8.3f}{parts.start:>8.3f}{parts.compilation:>8.3f}"
        f"{parts.buffers:>8.3f}{parts.files:>8.3f}{device}{judgement.rest:>7.3f}"
    )


def judge(step_names: Sequence[str], names: Sequence[str], seed: int) -> int:
    """Judge steps (default: the last) on cases (default: all), a line for each; 0 if all passed.

    1 if one did not. Times are in seconds. The files lie in the system's temporary folder, two at a
    time.
    """
    cases = chosen_cases(names)
    chosen = [find_step(name).name for name in step_names or (None,)]
    print(COLUMNS)
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            for step in chosen:
                judgement = judge_case(case, step, seed, Path(folder))
                print(line(judgement), flush=True)
                passed += judgement.passed
    total = len(cases) * len(chosen)
    print(f"{passed} of {total} within {TOLERANCE} of the reference in every element")
    return 0 if passed == total else 1
