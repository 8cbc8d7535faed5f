"""The judge: runs the program on each case in its own process, compares the output and times it.

The assignment's own inputs are not public; these have its sizes and its range of values.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from flashlab.benchmarks.ladder import gate
from flashlab.benchmarks.ladder.cases import ASSIGNMENT
from flashlab.benchmarks.ladder.process import run_program
from flashlab.benchmarks.ladder.step import fill
from flashlab.hw4 import Hw4Error
from flashlab.hw4.program import HEADER, find_step, open_input, piece_shape, pieces, read_batches

CASES = {f"t{number:02}": sizes for number, sizes in ASSIGNMENT.items()}


def write_case(path: Path, name: str, seed: int) -> None:
    """Write a case's input file: float32, uniform in [-3, 3), the same for the same seed."""
    sizes = CASES[name]
    random = np.random.default_rng([seed, int(name[1:])])
    batch = np.empty((3, sizes.seq_len, sizes.head_dim), np.float32)
    with path.open("wb") as file:
        file.write(HEADER.pack(*sizes))
        for _ in range(sizes.batch_size):
            fill(random, batch)
            file.write(batch.data.cast("B"))


def worst_error(source: Path, target: Path) -> float:
    """The largest difference of an element of the output from the reference; infinite for NaN.

    Hw4Error where the output has another size than the input asks for.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open_input(source) as (file, sizes), target.open("rb") as results:
        expected = sizes.batch_size * sizes.matrix_bytes
        if target.stat().st_size != expected:
            raise Hw4Error(f"{target}: has {target.stat().st_size} bytes in place of {expected}")
        worst = 0.0
        for q, k, v, out in pieces(sizes, *np.empty((4, *piece_shape(sizes)), np.float32)):
            read_batches(file, q, k, v)
            results.readinto(out.data.cast("B"))
            worst = max(worst, gate.worst_error(q, k, v, out, device))
    return worst


def judge_case(case: str, step: str, seed: int) -> tuple[float, dict[str, float]]:
    """The largest error of a step on a case, and the seconds of the whole process and its parts.

    ProgramError with what it said, where the program failed.
    """
    with tempfile.TemporaryDirectory(prefix="flashlab-hw4-") as folder:
        source, target = Path(folder, "in.bin"), Path(folder, "out.bin")
        write_case(source, case, seed)
        seconds = run_program(step, source, target)
        return worst_error(source, target), seconds


ROW = "{:<5}{:<17}{:<13}{:<8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}"
COLUMNS = "case|B, N, d|step|verdict|error|whole|start|compile|buffers|files|copies|kernel|rest"


def line(case: str, step: str, error: float, part: Mapping[str, float]) -> str:
    """A judgement as a line of the table; one column where copies and kernel overlap.

    `rest` is the process beyond its parts, mostly its end.
    """
    rest = 2 * part["time"] - math.fsum(part.values())
    files, copies = part["file_in"] + part["file_out"], part["copy_in"] + part["copy_out"]
    times = (part["time"], part["start"], part["compilation"], part["buffers"], files, copies)
    shown = [f"{seconds:.3f}" for seconds in (*times, part["overlapped"] or part["kernel"], rest)]
    shown[5] = "" if part["overlapped"] else shown[5]
    verdict = "passed" if error <= gate.TOLERANCE else "FAILED"
    sizes = ", ".join(map(str, CASES[case]))
    return ROW.format(case, sizes, step, verdict, f"{error:.1e}", *shown)


def judge(step_names: Sequence[str], names: Sequence[str], seed: int) -> int:
    """Judge steps (default: the last) on cases (default: all), a line each; 1 if one failed."""
    if unknown := [name for name in names if name not in CASES]:
        raise Hw4Error(f"unknown case {unknown[0]}; the cases are t01 to t30")
    if seed < 0:
        raise Hw4Error(f"--seed {seed}: give 0 or a whole number above it")
    chosen = [find_step(name).name for name in step_names or (None,)]
    print(ROW.format(*COLUMNS.split("|")))
    passed, judged = 0, [*itertools.product(names or CASES, chosen)]
    for case, step in judged:
        error, seconds = judge_case(case, step, seed)
        print(line(case, step, error, seconds), flush=True)
        passed += error <= gate.TOLERANCE
    print(f"{passed} of {len(judged)} within {gate.TOLERANCE} of the reference in every element")
    return 0 if passed == len(judged) else 1
