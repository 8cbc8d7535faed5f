"""The commands of homework 4: its program, its cases and its judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from flashlab.cli import Command, option


def _run(source: Path, target: Path, step: str | None, as_json: bool) -> None:
    from flashlab.hw4.program import run_program

    parts = run_program(source, target, step)
    print(json.dumps(asdict(parts)) if as_json else parts)


def _judge(steps: Sequence[str], cases: Sequence[str], seed: int) -> int:
    from flashlab.hw4.judge import print_judgements

    return 0 if print_judgements(cases, steps, seed) else 1


CASES = option("cases", metavar="CASE", nargs="*", help="t01 to t30 (all)")
SEED = option("--seed", type=int, default=0, help="seed of the values (0)")

COMMANDS = (
    Command(
        "hw4",
        _run,
        "Homework 4's program: read Q, K, V from a file, write the output.",
        (
            option("input", type=Path, metavar="IN.bin", help="B, N, d, then Q, K, V by batch"),
            option("output", type=Path, metavar="OUT.bin", help="the output to write"),
            option(
                "--step",
                metavar="NAME",
                help="a step in kernels/ladder/, in capitals or not (the last one)",
            ),
            option("--json", action="store_true", help="print the times as JSON, in seconds"),
        ),
    ),
    Command(
        "hw4-cases",
        "flashlab.hw4.cases:write_cases",
        "Generate the input files of homework 4's cases.",
        (option("folder", type=Path, metavar="FOLDER", help="folder to write into"), CASES, SEED),
    ),
    Command(
        "hw4-judge",
        _judge,
        "Check and time steps on homework 4's cases.",
        (
            option(
                "--step",
                metavar="NAME",
                action="append",
                default=[],
                help="a step in kernels/ladder/, in capitals or not (the last one); may be "
                "repeated",
            ),
            CASES,
            SEED,
        ),
        epilog="Exit status: 0 if every case is within the tolerance, 1 if one is not.",
    ),
)
