"""Every command of ``python -m flashlab``: the function that it calls, its help and its options."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flashlab.calls.digests import write_digests
from flashlab.calls.watching import end_with_workflow
from flashlab.checking.shapes import FORM
from flashlab.usage import UsageError, new_file, seconds, share

FUNCTIONS = {
    "measure": "flashlab.measuring.jobs:measure",
    "ceilings": "flashlab.measuring.jobs:measure_ceilings",
    "describe-machine": "flashlab.plan.machines:describe_machine",
    "import": "flashlab.plan.importing:import_record",
    "freeze": "flashlab.plan.freezing:freeze_records",
    "freeze-counters": "flashlab.plan.freezing:freeze_counters",
    "clean": "flashlab.calls.cleaning:print_clean",
    "tables": "flashlab.analysis.stage:make_tables",
    "observations": "flashlab.story.stage:observe",
    "verdicts": "flashlab.analysis.verdict_changes:print_changes",
    "figures": "flashlab.figures.kept:draw_figures",
    "overview": "flashlab.figures.stage:draw_overview",
    "layout": "flashlab.report.layout:write_layout",
    "report": "flashlab.report.render:write_report",
    "page": "flashlab.report.render:write_page",
    "statements": "flashlab.report.evidence:print_statements",
    "check": "flashlab.checking.command:check_kernel",
    "bench": "flashlab.compare.command:bench",
    "profile": "flashlab.compare.command:profile",
    "compare": "flashlab.compare.command:compare",
    "comparison": "flashlab.compare.comparison:write_comparison",
    "comparison-figures": "flashlab.compare.forest_plot:draw_comparison",
    "comparison-pdf": "flashlab.compare.rendered:write_pdf",
    "comparison-page": "flashlab.compare.rendered:write_page",
    "hw4": "flashlab.hw4.program:print_program",
    "hw4-cases": "flashlab.hw4.cases:write_cases",
    "hw4-judge": "flashlab.hw4.judge:judge",
    "grade": "flashlab_grading.sheets:write_stage",
    "verify": "flashlab_grading.verification:verify",
    "selfcheck": "flashlab_grading.selfcheck:self_check",
}
"""The function of each command. It takes the options in the order in which they are added below."""

MEASURING = ("measure", "ceilings")
"""Commands that look after the process that they start, and end by themselves with their call."""

DIGESTED = (*MEASURING, "import", "tables", "observations", "overview", "layout", "figures")
"""Commands whose outputs are compared, at each call, with the digests written here."""

BESIDE = {
    "tables": ("comparisons.csv", "estimates.csv"),
    "layout": ("heights.json",),
}
"""Files that a command makes beside its ``--output``."""

AddOption = Callable[..., argparse.Action]
Keywords = Mapping[str, Any]

PATH: Keywords = {"type": Path, "required": True}
PATHS: Keywords = {"type": Path, "nargs": "+"}
FLAG: Keywords = {"action": "store_true"}
SEVERAL: Keywords = {"action": "append", "default": []}
SECONDS: Keywords = {"type": seconds, "metavar": "SECONDS"}

CEILINGS: Keywords = {"type": Path, "help": "the device's ceilings, if measured"}
LANGUAGE: Keywords = {
    "choices": ("zh_TW", "en"),
    "default": "zh_TW" if os.environ.get("LANG", "").startswith("zh") else "en",
    "help": "language of the output (zh_TW if LANG begins with zh, otherwise en)",
}
DTYPES = ("float16", "bfloat16", "float32")
SIZES = (
    "E2048 (emb_dim) may be given in place of D64 (head_dim), and KV8 (num_kv_heads) where keys "
    "are shared; a size left out takes"
)
SHAPE: Keywords = {
    **SEVERAL,
    "help": f"a shape such as {FORM}; {SIZES} a default, and the mask both; may be repeated",
}
DTYPE: Keywords = {
    "choices": DTYPES,
    "help": "number format of the inputs (float16 on a GPU, float32 on a CPU)",
}
STEP = "a step in kernels/ladder/, in capitals or not (the last one)"
CASES: Keywords = {"metavar": "CASE", "nargs": "*", "help": "t01 to t30 (all)"}
SEED: Keywords = {"type": int, "default": 0, "help": "seed of the values (0)"}


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m flashlab",
        description="FlashLab's stages, one command each. Snakemake calls them; so can you.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")

    def add(name: str, help: str, epilog: str | None = None, one_of: bool = False) -> AddOption:
        """Add a command; what adds its options, of which exactly one is given where `one_of`."""
        command = commands.add_parser(name, help=help, description=help, epilog=epilog)
        group = command.add_mutually_exclusive_group(required=True) if one_of else command
        adder: AddOption = group.add_argument
        return adder

    # Records

    option = add("measure", "Measure one run and write its record.")
    option("--order", type=json.loads, required=True, help="run and protocol, JSON")
    option("--output", **PATH, help="the record to write")
    option("--machine", type=Path, help="file of the machine it was planned for")

    option = add("ceilings", "Measure the device's ceilings.")
    option("--device", choices=("cuda", "cpu"), required=True)
    option("--output", **PATH, help="JSON file to write")
    option("--machine", type=Path, help="file of the machine they were planned for")

    option = add("describe-machine", "Describe this machine in a file.")
    option("--device", choices=("auto", "cuda", "cpu"), required=True)
    option("--output", **PATH, help="JSON file to write")

    option = add("import", "Turn a result of the course's script into a record.")
    option("--entry", type=json.loads, required=True, help="what it is, JSON")
    option("--output", **PATH, help="the record to write")

    option = add("freeze", "Copy the planned records into a recorded dataset.")
    option("--name", required=True, help="the dataset's name")
    option("--config", **PATH, help="the resolved configuration")
    option("--ceilings", **PATH, help="the device's ceilings")
    option("--data", **PATH, help="folder of the datasets")
    option("--anyway", **FLAG, help="also what leaves doubts")
    option("plans", **PATHS, help="plan/records/*.json")

    option = add("freeze-counters", "Add counters to a recorded dataset.")
    option("--name", required=True, help="the dataset's name")
    option("--data", **PATH, help="folder of the datasets")
    option("plans", **PATHS, help="plan/records/*.json")

    option = add("clean", "Say what can be deleted, and how much disk it takes.")
    option("--yes", **FLAG, help="delete it")
    option("--records", **FLAG, help="the measured records, too")

    # The report

    option = add("tables", "Aggregate the records of a dataset into CSV, and compare all runs.")
    option("--results", **PATH, help="folder of the dataset, with its plan")
    option("--ceilings", **CEILINGS)
    option("--output", **PATH, help="folder of all tables, with those of the dataset beside it")

    option = add("observations", "Observe what the report says.")
    option("plans", **PATHS, help="plan/sweeps/*.json")
    option("--tables", **PATH, help="folder of all tables")
    option("--ceilings", **CEILINGS)
    option("--output", **PATH, help="observations.json to write")

    option = add("verdicts", "Say which verdicts differ from the report before.")
    option("--results", **PATH, help="folder of the dataset")

    option = add("figures", "Draw those of the experiments' figures that changed, as SVG.")
    option("plans", **PATHS, help="plan/experiments/*.json")
    option("--tables", **PATH, help="folder of all CSV tables")
    option("--ceilings", **CEILINGS)
    option("--languages", **PATH, help="languages.json")
    option("--heights", **PATH, help="heights.json, the height of each figure in mm")
    option("--cores", type=int, default=1, help="how many processes draw")
    option("--output", **PATH, help="folder to draw into")

    option = add("overview", "Draw the figures across experiments as SVG.")
    option("plans", **PATHS, help="plan/sweeps/*.json")
    option("--tables", **PATH, help="folder of all tables")
    option("--comparisons", **PATH, help="comparisons.csv")
    option("--languages", **PATH, help="languages.json")
    option("--output", **PATH, help="folder to draw into")

    for name, help, file in (
        ("layout", "Lay out the report: its text, and the heights of its figures.", "layout.html"),
        ("report", "Render the report as a PDF.", "PDF"),
        ("page", "Write the report as one HTML file.", "HTML file"),
    ):
        option = add(name, help)
        option("--config", **PATH, help="the resolved configuration")
        option("--results", **PATH, help="folder of the dataset")
        option("--ceilings", **CEILINGS)
        option("--output", **PATH, help=f"{file} to write")

    option = add("statements", "Print every statement of a report with the rows that it rests on.")
    option("results", type=Path, help="folder of the dataset: results/NAME")
    option("--language", **LANGUAGE)

    # Kernels

    option = add(
        "check",
        "Compare one implementation with the float64 reference.",
        "Exit status: 0 if every case is ok or unsupported, 1 if one is not or the kernel cannot "
        "be imported, 2 if the command line is wrong, 130 if it is interrupted.",
    )
    option(
        "name",
        metavar="NAME",
        help="its NAME in kernels/ or kernels/ladder/, or the path of a file",
    )
    option(
        "--shape",
        **SEVERAL,
        help=f"check this shape and not the grid, such as {FORM}; {SIZES} the grid's values, and "
        "the mask both; may be repeated",
    )
    option(
        "--dtype",
        action="append",
        choices=DTYPES,
        help="check this dtype and not all of the device's; may be repeated",
    )
    option(
        "--timeout",
        **SECONDS,
        default=60.0,
        help="time limit of the kernel's import and of each case (60)",
    )
    option("--fail-fast", **FLAG, help="end at the first case that fails")

    option = add(
        "bench",
        "Measure implementations in turns, with verdicts.",
        "Exit status: 0 if every implementation was measured or does not support the shape, 1 if "
        "one is incorrect or failed, 2 if the command line is wrong, 130 if it is interrupted. "
        "docs/comparing.md explains the table.",
    )
    option(
        "implementations",
        metavar="IMPLEMENTATION",
        nargs="+",
        help="a NAME in kernels/, the path of a file, or REVISION:PATH for a file as it is at a "
        "git revision; the others are compared with the first",
    )
    option("--shape", **SHAPE)
    option(
        "--sweep",
        metavar="PARAMETER=FIRST:LAST",
        help="measure at sizes doubled from FIRST to LAST, such as seq_len=128:8192, or at those "
        "of a list, such as head_dim=64,96,128",
    )
    option("--dtype", **DTYPE)
    option(
        "--pass", **SEVERAL, choices=("forward", "backward"), help="measure this pass and not both"
    )
    option(
        "--seconds",
        type=seconds,
        default=20.0,
        help="how long to measure each shape, without the time that processes take to start (20)",
    )
    option(
        "--margin",
        type=share,
        default=0.05,
        help="difference up to which two times are equal (5%%)",
    )
    option("--counters", **FLAG, help="count each pass too, as the command profile does")
    option(
        "--timeout",
        **SECONDS,
        help="time limit of a kernel's import, its check and each further step (60, or ten times "
        "what the slowest of the others took)",
    )
    option("--json", type=new_file, metavar="FILE", help="write what the table says to a file, too")
    option("--watch", **FLAG, help="measure again whenever a file they depend on is saved")

    option = add("profile", "Count what an implementation does in each pass.")
    option("name", metavar="NAME", help="as IMPLEMENTATION of the command bench")
    option("--shape", **SHAPE)
    option("--dtype", **DTYPE)
    option("--timeout", **SECONDS, default=300.0, help="time limit for each shape (300)")

    # Comparisons of records

    option = add(
        "compare",
        "Compare two sets of records, run by run.",
        "A side is `local`, a recorded dataset, a folder (of a dataset, of results, or of "
        "records) or a git revision whose kernels were measured here. Exit status: 0, or 1 where a "
        "verdict given by --fail-on stands or the sides cannot be compared.",
    )
    option("one", metavar="ONE", help="the reference: before")
    option("other", metavar="OTHER", help="what is judged against it: after")
    option("--benchmark", default="attention", help="benchmark (attention)")
    option("--format", choices=("text", "markdown", "json"), default="text")
    option(
        "--fail-on",
        **SEVERAL,
        choices=("slower", "worse", "failed", "inconclusive"),
        help="exit with status 1 if any run has this verdict; may be repeated",
    )
    option("--language", **LANGUAGE)

    option = add("comparison", "Compare the sides that a call has planned.")
    option("--plan", **PATH, help="the sides, JSON")
    option("--output", **PATH, help="comparison.json to write")

    option = add("comparison-figures", "Draw a comparison as SVG.")
    option("--comparison", **PATH, help="comparison.json")
    option("--output", **PATH, help="folder to draw into")

    for name, help in (
        ("comparison-pdf", "Render a comparison as a PDF."),
        ("comparison-page", "Write a comparison as one HTML file."),
    ):
        option = add(name, help)
        option("--comparison", **PATH, help="comparison.json")
        option("--figures", **PATH, help="folder of its figures")
        option("--output", **PATH, help="file to write")

    # Homework 4

    option = add("hw4", "Homework 4's program: read Q, K, V from a file, write the output.")
    option("input", type=Path, metavar="IN.bin", help="B, N, d, then Q, K, V by batch")
    option("output", type=Path, metavar="OUT.bin", help="the output to write")
    option("--step", metavar="NAME", help=STEP)
    option("--json", **FLAG, help="print the times as JSON, in seconds")

    option = add("hw4-cases", "Generate the input files of homework 4's cases.")
    option("folder", type=Path, metavar="FOLDER", help="folder to write into")
    option("cases", **CASES)
    option("--seed", **SEED)

    option = add(
        "hw4-judge",
        "Check and time steps on homework 4's cases.",
        "Exit status: 0 if every case is within the tolerance, 1 if one is not.",
    )
    option("--step", metavar="NAME", **SEVERAL, help=f"{STEP}; may be repeated")
    option("cases", **CASES)
    option("--seed", **SEED)

    # Grading

    option = add("grade", "Grade a folder of submissions.")
    option("--order", **PATH, help="what to grade, JSON")
    option("--grades", **PATH, help="CSV file to write")
    option("--summary", **PATH, help="CSV file to write")
    option("--pdf", **PATH, help="PDF to write")

    option = add(
        "verify",
        "Check a report against the data attached to it.",
        "Exit status: 0 if its data give the report byte for byte, 1 if they do not or it is "
        "no report, 2 if the command line is wrong, 3 if it takes other software to tell, 4 if "
        "pages and attachments are those that its data give, but the file is not.",
        one_of=True,
    )
    option("--pdf", type=Path, metavar="PATH", help="the report")
    option("--order", type=Path, help="what a Snakemake call is to verify, JSON")

    option = add("selfcheck", "Check one submission before it is handed in.")
    option("folder", type=Path, metavar="FOLDER", help="the submission, or its archive")
    option("--device", help="the class's GPU, for results that name none")
    option("--language", **LANGUAGE)
    return parser


def get_ready(name: str) -> None:
    """Import a command's modules for forks of this process, and read the files that they share."""
    _imported(FUNCTIONS[name])
    if name in MEASURING:
        _imported("flashlab.measuring.jobs:read_ahead")()


ALLOCATIONS = 50_000
"""Python collects garbage after so many: after 700, as by default, it takes a tenth of a stage's
time to go through tables, boxes and artists that all still live."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did its work, 1 with one message when it could not.

    2 where the command line is wrong; 130, and no message, when it is interrupted from the
    keyboard, and 141 when what reads its output, such as ``head``, has closed the pipe.
    """
    gc.set_threshold(ALLOCATIONS)
    try:
        options = vars(make_parser().parse_args(argv))  # in the order in which they were added
        status = _run(options.pop("command"), options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "flashlab", "flashlab_grading"):
            raise
        print(
            f"error: the Python package {package} is not installed; set up with ./run, or run "
            "python -m pip install -r envs/cpu/requirements.txt",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _is_unread():
            os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # for what Python flushes at its end
            return 141
        said = f"{error.filename}: {error.strerror}" if error.filename else error
        print(f"error: {said}", file=sys.stderr)
        return 1
    except Exception as error:
        if not type(error).__module__.startswith("flashlab"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


STDOUT = 1


def _is_unread() -> bool:
    """True if the reader of standard output has closed the pipe."""
    state = select.poll()
    state.register(STDOUT, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in state.poll(0))


def _imported(name: str) -> Callable[..., int | None]:
    """The function of this ``module:name``."""
    module, _, function = name.partition(":")
    imported: Callable[..., int | None] = getattr(importlib.import_module(module), function)
    return imported


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print the package's warnings on standard error, each text once: ``warning: …``."""
    logger, handler = logging.getLogger("flashlab"), logging.StreamHandler()
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        before = len(seen)
        seen.add(record.getMessage())
        return len(seen) > before

    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.addFilter(is_new)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _run(name: str, options: Mapping[str, Any]) -> int:
    """Run a command; its exit status."""
    if name not in MEASURING:
        end_with_workflow()
    with _warnings_shown():
        status = _imported(FUNCTIONS[name])(*options.values()) or 0
        if name in DIGESTED:
            write_digests(options["output"], BESIDE.get(name, ()))
    return status
