"""Every command of ``python -m flashlab``: a table of their functions, options and helps."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import pkgutil
import select
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.checking.shapes import FORM
from flashlab.plan.digests import refuse_changed, write_digests
from flashlab.plan.watching import end_with_workflow
from flashlab.usage import UsageError, new_file, seconds, share

COMMANDS = {
    "measure": "flashlab.measuring.supervise:measure --order --output",
    "ceilings": "flashlab.measuring.supervise:measure_ceilings --device --device-name --output",
    "import": "flashlab.lab5.importing:import_record --entry --output",
    "freeze": "flashlab.plan.freezing:freeze",
    "clean": "flashlab.plan.cleaning:clean --yes --records",
    "tables": "flashlab.analysis.stage:make_tables --results --ceilings --output",
    "observations": "flashlab.story.stage:observe --results --ceilings --output",
    "verdicts": "flashlab.analysis.verdict_changes:print_changes --results",
    "figures": "flashlab.figures.stage:draw_figures --results --ceilings --output --overview",
    "report": "flashlab.report.render:write_report --config --results --ceilings --output",
    "page": "flashlab.report.render:write_page --config --results --ceilings --output",
    "statements": "flashlab.report.content:print_statements results --language",
    "check": "flashlab.checking.command:check_kernel name --shape --dtype --timeout --fail-fast",
    "bench": "flashlab.compare:run_bench implementations --shape --dtype --pass --seconds "
    "--margin --timeout --json",
    "compare": "flashlab.compare.report:print_comparison "
    "one other --benchmark --format --fail-on --language",
    "comparison": "flashlab.compare.report:write_comparison --plan --output",
    "hw4": "flashlab.hw4.program:print_program input output --step --json",
    "hw4-judge": "flashlab.hw4.judge:judge --step cases --seed",
    "grade": "flashlab_grading.sheets:write_stage --order --grades --summary --pdf",
    "verify": "flashlab_grading.verification:verify --pdf | --order",
    "selfcheck": "flashlab_grading.sheets:self_check folder --device --language",
}
"""The function of each command, and the options whose values it takes, in this order. Exactly one
is given of those with a bar between them."""

HELP = {
    "measure": "Measure one run and write its record.",
    "ceilings": "Measure the device's ceilings.",
    "import": "Turn a result of the course's script into a record.",
    "freeze": "Copy the planned records into a recorded dataset.",
    "clean": "Say what can be deleted, and how much disk it takes.",
    "tables": "Aggregate the records of a dataset into CSV, and compare all runs.",
    "observations": "Observe what the report says.",
    "verdicts": "Say which verdicts differ from the report before.",
    "figures": "Draw the figures as SVG.",
    "report": "Render the report as a PDF.",
    "page": "Write the report as one HTML file.",
    "statements": "Print every statement of a report with the rows that it rests on.",
    "check": "Compare one implementation with the float64 reference.",
    "bench": "Measure implementations in turns, with verdicts; docs/comparing.md explains them.",
    "compare": "Compare two sets of records, run by run.",
    "comparison": "Compare the sides that a call has planned, as a PDF and a page.",
    "hw4": "Homework 4's program: read Q, K, V from a file, write the output.",
    "hw4-judge": "Check and time steps on homework 4's cases.",
    "grade": "Grade a folder of submissions.",
    "verify": "Check a report against the data attached to it.",
    "selfcheck": "Check one submission before it is handed in.",
}

ENDS = {
    "check": "0 if every case is ok or unsupported, otherwise 1",
    "bench": "0 if every implementation was measured plausibly or is unsupported, otherwise 1",
    "compare": "1 where a verdict of --fail-on stands or the sides cannot be compared, otherwise 0",
    "hw4-judge": "0 if every case is judged and within the tolerance, otherwise 1",
    "verify": "0 if its data give the report byte for byte, 1 if they do not or it is no report, "
    "3 if it takes other software to tell, 4 if another program saved it and it shows the same",
}
"""The exit statuses that are of a command alone."""

MEASURING = ("measure", "ceilings")
"""Commands that look after the process that they start, and end by themselves with their call."""

DIGESTED = (*MEASURING, "import", "tables", "observations", "figures")
"""Commands whose outputs are compared, at each call, with the digests written here."""

OF_RECORDS = {"tables": False, "report": True, "page": True}
"""Commands that read records; whether what was made of them, too. What has changed is refused."""

BESIDE = dict(tables=("comparisons.csv", "estimates.csv"), figures=("overview",))
"""Files and folders that a command makes beside its ``--output``."""

SEVERAL: Mapping[str, Any] = {"action": "append", "default": []}
FLAG: Mapping[str, Any] = {"action": "store_true"}
SECONDS: Mapping[str, Any] = {"type": seconds, "metavar": "SECONDS"}
DTYPES: Mapping[str, Any] = {"choices": ("float16", "bfloat16", "float32")}
STEP = "a step in kernels/ladder/, in capitals or not (the last one)"
SIDE = "`local`, a recorded dataset, a folder of records or a git revision measured here"

OPTIONS: Mapping[str, str | Mapping[str, Any]] = {
    "--benchmark": {"default": "attention", "help": "benchmark (attention)"},
    "--ceilings": {"type": Path, "help": "the device's ceilings, if measured"},
    "--config": "the resolved configuration",
    "--device": {"choices": ("cuda", "cpu"), "required": True},
    "--device-name": {"help": "the device that they were planned for"},
    "--dtype": dict(DTYPES, help="format of the inputs (float16 on a GPU, float32 on a CPU)"),
    "--entry": {"type": json.loads, "required": True, "help": "what it is, JSON"},
    "--fail-fast": {**FLAG, "help": "end at the first case that fails"},
    "--fail-on": {
        **{**SEVERAL, "choices": ("slower", "worse", "failed", "inconclusive")},
        "help": "exit with status 1 if any run has this verdict; may be repeated",
    },
    "--format": {"choices": ("text", "markdown", "json"), "default": "text"},
    "--grades": "CSV file to write",
    "--json": dict(type=new_file, metavar="FILE", help="write what the table says to a file, too"),
    "--language": {
        "choices": ("zh_TW", "en"),
        "default": "zh_TW" if os.environ.get("LANG", "").startswith("zh") else "en",
        "help": "language of the output (zh_TW if LANG begins with zh, otherwise en)",
    },
    "--margin": dict(type=share, default=0.05, help="difference up to which times are equal (5%%)"),
    "--order": "what to grade, JSON",
    "--output": "file or folder to write",
    "--overview": "folder of the figures across experiments",
    "--pass": dict(SEVERAL, choices=("forward", "backward"), help="measure this pass and not both"),
    "--pdf": "PDF to write",
    "--plan": "the sides, JSON",
    "--records": {**FLAG, "help": "the measured records, too"},
    "--results": "folder of the dataset, with its plan",
    "--seconds": dict(type=seconds, default=20.0, help="how long to measure each shape (20)"),
    "--seed": {"type": int, "default": 0, "help": "seed of the values (0)"},
    "--shape": {
        **SEVERAL,
        "help": f"a shape such as {FORM}; E2048 (emb_dim) may be given in place of D64 (head_dim), "
        "and KV8 (num_kv_heads) where keys are shared; a size left out takes its usual values, "
        "and the mask both; may be repeated",
    },
    "--step": {"metavar": "NAME", "help": STEP},
    "--summary": "CSV file to write",
    "--timeout": dict(SECONDS, default=60.0, help="limit of a kernel's import and each step (60)"),
    "--yes": {**FLAG, "help": "delete it"},
    "cases": {"metavar": "CASE", "nargs": "*", "help": "t01 to t30 (all)"},
    "folder": {"type": Path, "metavar": "FOLDER", "help": "the submission, or its archive"},
    "implementations": {
        **{"metavar": "IMPLEMENTATION", "nargs": "+"},
        "help": "a NAME in kernels/, a path, or REVISION:PATH; the first is the reference",
    },
    "input": {"type": Path, "metavar": "IN.bin", "help": "B, N, d, then Q, K, V by batch"},
    "name": {"metavar": "NAME", "help": "in kernels/ or kernels/ladder/, or the path of a file"},
    "one": {"metavar": "ONE", "help": f"the reference, before: {SIDE}"},
    "other": {"metavar": "OTHER", "help": "what is judged against it, after: likewise"},
    "output": {"type": Path, "metavar": "OUT.bin", "help": "the output to write"},
    "results": {"type": Path, "help": "folder of the dataset: results/NAME"},
    # Those of one command
    "measure --order": {"type": json.loads, "required": True, "help": "run and protocol, JSON"},
    "tables --output": "folder of all tables, with those of the dataset beside it",
    "check --dtype": dict(DTYPES, action="append", help="this and not all; may be repeated"),
    "check --timeout": dict(SECONDS, default=60.0, help="limit of its import and each case (60)"),
    "hw4 --json": {**FLAG, "help": "print the times as JSON, in seconds"},
    "hw4-judge --step": dict(SEVERAL, metavar="NAME", help=f"{STEP}; may be repeated"),
    "verify --order": {"type": Path, "help": "what a Snakemake call is to verify, JSON"},
    "verify --pdf": {"type": Path, "metavar": "PATH", "help": "the report"},
    "selfcheck --device": {"help": "the class's GPU, for results that name none"},
}
"""What argparse is told of an option; text alone is the help of a path that must be given."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m flashlab",
        description="FlashLab's stages, one command each. Snakemake calls them; so can you.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, line in COMMANDS.items():
        options, usual = line.split()[1:], "2 if the command line is wrong, 130 if interrupted."
        ends = f"Exit status: {ENDS[name]}, {usual}" if name in ENDS else None
        about: dict[str, Any] = {"help": HELP[name], "description": HELP[name], "epilog": ends}
        command = commands.add_parser(name, **about, allow_abbrev=False)
        group = command.add_mutually_exclusive_group(required=True) if "|" in options else command
        for option in filter("|".__ne__, options):
            told = OPTIONS.get(f"{name} {option}", OPTIONS[option])
            path = {"type": Path, "required": True, "help": told}
            group.add_argument(option, **(path if isinstance(told, str) else told))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did its work, 1 with one message when it could not.

    2 where the command line is wrong; 130, and no message, when it is interrupted from the
    keyboard, and 141 when what reads its output, such as ``head``, has closed the pipe.
    """
    # After 700 allocations, as by default, it takes a tenth of a stage's time to go through tables,
    # boxes and artists that all still live.
    gc.set_threshold(50_000)
    logger, handler = logging.getLogger("flashlab"), logging.StreamHandler()
    first: dict[str, logging.LogRecord] = {}  # each warning is printed once
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.addFilter(lambda record: first.setdefault(record.getMessage(), record) is record)
    logger.addHandler(handler)
    try:
        options = vars(make_parser().parse_args(argv))  # in the order in which they were added
        name = options.pop("command")
        if name not in MEASURING:
            end_with_workflow()
        function = pkgutil.resolve_name(COMMANDS[name].split()[0])
        if name in OF_RECORDS:
            refuse_changed(options["results"], OF_RECORDS[name])
        status: int = function(*options.values()) or 0
        if name in DIGESTED:
            write_digests(options["output"], BESIDE.get(name, ()))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_unread():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python flushes at its end
            return 141
        if (said := _said(error)) is None:
            raise
        print(f"error: {said}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    finally:
        logger.removeHandler(handler)


def _said(error: Exception) -> str | None:
    """The message of an error that is the user's to mend; None if it is the program's."""
    package = str(getattr(error, "name", None) or "flashlab").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package not in ("flashlab", "flashlab_grading"):
        remedy = "set up with ./run, or run python -m pip install -r envs/cpu/requirements.txt"
        return f"the Python package {package} is not installed; {remedy}"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error) if type(error).__module__.startswith("flashlab") else None


def _is_unread() -> bool:
    """True if the reader of standard output, which is 1, has closed the pipe."""
    state = select.poll()
    state.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in state.poll(0))
