"""The command line behind the Snakemake rules: one command for each stage."""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flashlab.benchmarks.attention.shape import Shape
from flashlab.implementations import ImplementationError
from flashlab.processes import end_with_workflow
from flashlab.shapes import FORM, ShapeError

Arguments = argparse.Namespace


def _require(package: str) -> None:
    """ModuleNotFoundError where a package is missing that only the measuring process imports.

    Without it, what is missing here would be recorded as an error of every single run.
    """
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(name=package)


def _measure(arguments: Arguments) -> None:
    from flashlab import identity, implementations, plan
    from flashlab.benchmarks.registry import find_benchmark
    from flashlab.machines import check_described
    from flashlab.measuring import supervise
    from flashlab.runs import Run

    _require("torch")
    order = arguments.order
    benchmark = find_benchmark(order["benchmark"])
    run, protocol = Run.of(benchmark, order["run"]), order["protocol"]
    implementation = implementations.implementations_of(benchmark)[run.implementation]
    decided_by = identity.identity(benchmark, run, protocol, implementation, order["process"])
    if identity.record_name(run, decided_by) != arguments.output.name:
        if arguments.machine:
            check_described(arguments.machine, run.device, implementation.packages)
        raise plan.PlanError(
            f"{arguments.output}: the kernel, the measuring code or the environment has changed "
            "since this run was planned; call snakemake again"
        )
    sources = identity.sources(decided_by, implementation)
    if benchmark.fetch and protocol["name"] in benchmark.protocols:
        benchmark.fetch(protocol)
    record = supervise.measure_run(
        benchmark, run, protocol, implementation, sources, arguments.output
    )
    print(f"{run}: {record.status}" + (f": {record.message}" if record.message else ""))


def _ceilings(arguments: Arguments) -> None:
    from flashlab.machines import check_described
    from flashlab.measuring import supervise

    _require("torch")
    if arguments.machine:
        check_described(arguments.machine, arguments.device, ())
    supervise.measure_ceilings(arguments.device, arguments.output)


def _describe_machine(arguments: Arguments) -> None:
    from flashlab import machines
    from flashlab.benchmarks.registry import BENCHMARKS
    from flashlab.implementations import implementations_of

    known = [one for each in BENCHMARKS.values() for one in implementations_of(each).values()]
    packages = {"torch", *(package for one in known for package in one.packages)}
    machines.describe_machine(arguments.device, packages, arguments.output)


def _shapes(text: str) -> list[Shape]:
    from flashlab.checking.cases import shapes_of

    try:
        return shapes_of(text)
    except ShapeError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _check(arguments: Arguments) -> None:
    from flashlab import machine
    from flashlab.checking import cases, command

    try:
        kernel = command.find_kernel(arguments.name)
    except ImplementationError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    device = machine.detect_device("auto")
    shapes = [shape for given in arguments.shape for shape in given] or cases.grid()
    chosen = cases.cases_of(shapes, arguments.dtype or cases.DTYPES[device])
    if not command.print_check(kernel, device, chosen, arguments.timeout, arguments.fail_fast):
        raise SystemExit(1)


def _share(text: str) -> float:
    """A share as ``1%`` or ``0.01``."""
    number, percent = (text[:-1], 100) if text.endswith("%") else (text, 1)
    try:
        share = float(number) / percent
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 1% or 0.01")
    return share


def _bench(arguments: Arguments) -> None:
    from flashlab.measuring.start import start_own_parent

    _require("torch")
    start_own_parent()  # before the imports below, which take a while too
    from flashlab.bench import command

    passes = tuple(
        name
        for name in command.PASSES
        if not arguments.passes or name.removesuffix("_time") in arguments.passes
    )
    order = command.Order(
        tuple(arguments.implementations),
        tuple(arguments.shape),
        arguments.sweep,
        arguments.dtype,
        passes,
        arguments.seconds,
        arguments.margin,
        arguments.counters,
    )
    try:
        if arguments.watch:
            command.watch_bench(order)
        elif not command.run_bench(order):
            raise SystemExit(1)
    except (ImplementationError, ShapeError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def _profile(arguments: Arguments) -> None:
    from flashlab.bench import command

    _require("torch")
    try:
        ended = command.profile(
            arguments.name, tuple(arguments.shape), arguments.dtype, arguments.timeout
        )
    except (ImplementationError, ShapeError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    if not ended:
        raise SystemExit(1)


def _clean(arguments: Arguments) -> None:
    from flashlab.cleaning import clean

    print("\n".join(clean(Path(), arguments.yes, arguments.records)))


def _import(arguments: Arguments) -> None:
    from flashlab.datasets import import_record

    import_record(arguments.entry, arguments.output)


def _freeze(arguments: Arguments) -> None:
    from flashlab.datasets import freeze

    folder = freeze(
        arguments.name, arguments.config, arguments.plans, arguments.ceilings, arguments.data
    )
    print(f"{folder} now holds these records; render it with --config dataset={folder.name}")


def _freeze_counters(arguments: Arguments) -> None:
    from flashlab.datasets import freeze_counters

    count = freeze_counters(arguments.name, arguments.plans, arguments.data)
    print(f"{arguments.data / arguments.name} now holds {count} more records of counters")


def _tables(arguments: Arguments) -> None:
    from flashlab.tables import write_tables

    write_tables(arguments.plan, arguments.output)


def _figures(arguments: Arguments) -> None:
    from flashlab.figures import draw_figures

    draw_figures(arguments.plan, arguments.tables, arguments.languages, arguments.output)


def _overview(arguments: Arguments) -> None:
    from flashlab.figures import draw_overview

    draw_overview(
        arguments.plans,
        arguments.tables,
        arguments.findings,
        arguments.ceilings,
        arguments.languages,
        arguments.output,
    )


def _findings(arguments: Arguments) -> None:
    from flashlab.findings.derive import write_findings

    write_findings(
        arguments.plans, arguments.tables, arguments.claims, arguments.ceilings, arguments.output
    )


def _report(arguments: Arguments) -> None:
    from flashlab.report import write_report

    write_report(arguments.config, arguments.results, arguments.ceilings, arguments.output)


def _page(arguments: Arguments) -> None:
    from flashlab.report import write_page

    write_page(arguments.config, arguments.results, arguments.ceilings, arguments.output)


def _verdicts(arguments: Arguments) -> None:
    from flashlab.verdicts import CHANGED, compare_verdicts

    for line in compare_verdicts(arguments.results):
        print(f"{CHANGED}{line}")


def _grade(arguments: Arguments) -> None:
    from collections import Counter

    from flashlab_grading.stage import write_stage

    outputs = (arguments.grades, arguments.summary, arguments.document)
    grades = write_stage(arguments.order, *outputs)
    counts = Counter(line.verdict for line in grades.lines)
    said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{len(grades.summaries)} submissions: {said}")


def _grades_pdf(arguments: Arguments) -> None:
    from flashlab_grading.sheets import write_pages

    write_pages(arguments.document, arguments.output)


def _self_check(arguments: Arguments) -> None:
    from flashlab_grading.model import GradingError
    from flashlab_grading.selfcheck import self_check

    try:
        sound = self_check(arguments.folder, arguments.device, arguments.language)
    except GradingError as error:
        raise SystemExit(str(error)) from error
    if not sound:
        raise SystemExit(1)


def _verify(arguments: Arguments) -> None:
    """Verify in a process of its own, which is ended where it takes too much."""
    from flashlab_grading.apart import LimitError, run_within_limits

    given = ("--order", arguments.order) if arguments.order else ("--pdf", arguments.pdf)
    command = (sys.executable, "-m", "flashlab", "verify-unlimited", *map(str, given))
    try:
        status = run_within_limits(command)
    except LimitError as error:
        print(f"error: the report was not verified to its end: {error}", file=sys.stderr)
        status = 1
    raise SystemExit(status)


def _verify_unlimited(arguments: Arguments) -> None:
    from flashlab_grading.verification import write_verification

    raise SystemExit(write_verification(arguments.pdf, arguments.order))


def _hw4(arguments: Arguments) -> None:
    from flashlab.hw4.program import run_program

    parts = run_program(arguments.input, arguments.output, arguments.step)
    print(json.dumps(parts.to_json()) if arguments.json else parts)


def _hw4_cases(arguments: Arguments) -> None:
    from flashlab.hw4.cases import write_cases

    write_cases(arguments.folder, arguments.cases, arguments.seed)


def _hw4_judge(arguments: Arguments) -> None:
    from flashlab.hw4.judge import print_judgements

    if not print_judgements(arguments.cases, arguments.step, arguments.seed):
        raise SystemExit(1)


def _compare(arguments: Arguments) -> None:
    """Print a comparison; exit status 1 where a verdict stands that the call is to fail on."""
    from flashlab.benchmarks.registry import find_benchmark
    from flashlab.comparing.comparison import compare
    from flashlab.comparing.formats import formatted
    from flashlab.comparing.sides import find_side

    benchmark = find_benchmark(arguments.benchmark)
    document = compare(*(find_side(n, benchmark) for n in (arguments.one, arguments.other)))
    print(formatted(document, arguments.format, arguments.language), end="")
    if {pair["verdict"] for pair in document["pairs"]} & set(arguments.fail_on):
        raise SystemExit(1)


def _comparison(arguments: Arguments) -> None:
    from flashlab.comparing.comparison import write_comparison

    write_comparison(arguments.plan, arguments.output)


def _comparison_figures(arguments: Arguments) -> None:
    from flashlab.comparing.figures import draw_comparison

    draw_comparison(arguments.comparison, arguments.output)


def _comparison_pdf(arguments: Arguments) -> None:
    from flashlab.comparing.pages import write_pdf

    write_pdf(arguments.comparison, arguments.figures, arguments.output)


def _comparison_page(arguments: Arguments) -> None:
    from flashlab.comparing.pages import write_page

    write_page(arguments.comparison, arguments.figures, arguments.output)


def _history(arguments: Arguments) -> None:
    from flashlab.files import open_atomically
    from flashlab.history.formats import formatted
    from flashlab.history.series import read_history

    document = read_history(arguments.folders, arguments.repository)
    text = formatted(document, arguments.format, arguments.language)
    if arguments.output is None:
        print(text, end="")
        return
    with open_atomically(arguments.output) as file:
        file.write(text)


def _check_call(arguments: Arguments) -> None:
    from flashlab.config import parse_override, read_config

    for file in arguments.configfile:
        read_config(file)
    for argument in arguments.config:
        parse_override(argument)


def _add_language(command: argparse.ArgumentParser) -> None:
    """The option for the language of what is printed."""
    command.add_argument(
        "--language",
        choices=("zh_TW", "en"),
        default="zh_TW" if os.environ.get("LANG", "").startswith("zh") else "en",
        help="language of the output (zh_TW if LANG begins with zh, otherwise en)",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flashlab",
        description="FlashLab's stages, one command each. Snakemake calls them; so can you.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Any, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=help)
        added.set_defaults(function=function)
        return added

    measure = command("measure", _measure, "Measure one run and write its record.")
    measure.add_argument("--order", type=json.loads, required=True, help="run and protocol, JSON")
    measure.add_argument("--output", type=Path, required=True, help="the record to write")
    measure.add_argument("--machine", type=Path, help="file of the machine it was planned for")

    ceilings = command("ceilings", _ceilings, "Measure the device's ceilings.")
    ceilings.add_argument("--device", choices=("cuda", "cpu"), required=True)
    ceilings.add_argument("--output", type=Path, required=True, help="JSON file to write")
    ceilings.add_argument("--machine", type=Path, help="file of the machine they were planned for")

    described = command("describe-machine", _describe_machine, "Describe this machine in a file.")
    described.add_argument("--device", choices=("auto", "cuda", "cpu"), required=True)
    described.add_argument("--output", type=Path, required=True, help="JSON file to write")

    check = command("check", _check, "Compare one implementation with the float64 reference.")
    check.epilog = (
        "Exit status: 0 if every case is ok or unsupported, 1 if one is not or the kernel cannot "
        "be imported, 2 if the command line is wrong, 130 if it is interrupted."
    )
    check.add_argument("name", metavar="NAME", help="its NAME in kernels/, or the path of a file")
    check.add_argument(
        "--shape",
        type=_shapes,
        action="append",
        default=[],
        help=f"check this shape and not the grid, such as {FORM}; E2048 (emb_dim) may be given in "
        "place of D64 (head_dim); a size left out takes the grid's values, and the mask both; "
        "may be repeated",
    )
    check.add_argument(
        "--dtype",
        action="append",
        choices=("float16", "bfloat16", "float32"),
        help="check this dtype and not all of the device's; may be repeated",
    )
    check.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        default=60.0,
        help="time limit of the kernel's import and of each case (60)",
    )
    check.add_argument("--fail-fast", action="store_true", help="end at the first case that fails")

    bench = command("bench", _bench, "Measure implementations in turns, with verdicts.")
    bench.epilog = (
        "Exit status: 0 if every implementation was measured or does not support the shape, 1 if "
        "one is incorrect or failed, 2 if the command line is wrong, 130 if it is interrupted. "
        "docs/bench.md explains the table."
    )
    bench.add_argument(
        "implementations",
        metavar="IMPLEMENTATION",
        nargs="+",
        help="a NAME in kernels/, the path of a file, or REVISION:PATH for a file as it is at a "
        "git revision; the others are compared with the first",
    )
    bench.add_argument(
        "--sweep",
        metavar="PARAMETER=FIRST:LAST",
        help="measure at sizes doubled from FIRST to LAST, such as seq_len=128:8192, or at those "
        "of a list, such as head_dim=64,96,128",
    )
    bench.add_argument(
        "--pass",
        dest="passes",
        action="append",
        choices=("forward", "backward"),
        help="measure this pass and not both",
    )
    bench.add_argument(
        "--seconds",
        type=_seconds,
        default=20.0,
        help="how long to measure each shape, without the time that processes take to start (20)",
    )
    bench.add_argument(
        "--margin",
        type=_share,
        default=0.05,
        help="difference up to which two times are equal (5%%)",
    )
    bench.add_argument(
        "--counters", action="store_true", help="count each pass too, as the command profile does"
    )
    bench.add_argument(
        "--watch", action="store_true", help="measure again whenever a file they depend on is saved"
    )

    profile = command("profile", _profile, "Count what an implementation does in each pass.")
    profile.add_argument("name", metavar="NAME", help="as IMPLEMENTATION of the command bench")
    profile.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        default=300.0,
        help="time limit for each shape (300)",
    )
    for added in (bench, profile):
        added.add_argument(
            "--shape",
            action="append",
            default=[],
            help=f"a shape such as {FORM}; E2048 (emb_dim) may be given in place of D64 "
            "(head_dim); a size left out takes a default, and the mask both; may be repeated",
        )
        added.add_argument(
            "--dtype",
            choices=("float16", "bfloat16", "float32"),
            help="number format of the inputs (float16 on a GPU, float32 on a CPU)",
        )

    clean = command("clean", _clean, "Say what can be deleted, and how much disk it takes.")
    clean.add_argument("--yes", action="store_true", help="delete it")
    clean.add_argument("--records", action="store_true", help="the measured records, too")

    imported = command("import", _import, "Turn a result of the course's script into a record.")
    imported.add_argument("--entry", type=json.loads, required=True, help="what it is, JSON")
    imported.add_argument("--output", type=Path, required=True, help="the record to write")

    freeze = command("freeze", _freeze, "Copy the planned records into a recorded dataset.")
    freeze.add_argument("--name", required=True, help="the dataset's name")
    freeze.add_argument("--config", type=Path, required=True, help="the resolved configuration")
    freeze.add_argument("--ceilings", type=Path, required=True, help="the device's ceilings")
    freeze.add_argument("--data", type=Path, required=True, help="folder of the datasets")
    freeze.add_argument("plans", type=Path, nargs="+", help="plan/records/*.json")

    counters = command("freeze-counters", _freeze_counters, "Add counters to a recorded dataset.")
    counters.add_argument("--name", required=True, help="the dataset's name")
    counters.add_argument("--data", type=Path, required=True, help="folder of the datasets")
    counters.add_argument("plans", type=Path, nargs="+", help="plan/records/*.json")

    tables = command("tables", _tables, "Aggregate an experiment's records into CSV.")
    tables.add_argument("--plan", type=Path, required=True, help="plan/records/<experiment>.json")
    tables.add_argument("--output", type=Path, required=True, help="folder to write into")

    figures = command("figures", _figures, "Draw an experiment's figures as SVG.")
    figures.add_argument(
        "--plan", type=Path, required=True, help="plan/experiments/<experiment>.json"
    )
    figures.add_argument("--tables", type=Path, required=True, help="folder of all CSV tables")
    figures.add_argument("--languages", type=Path, required=True, help="languages.json")
    figures.add_argument("--output", type=Path, required=True, help="folder to draw into")

    overview = command("overview", _overview, "Draw the figures across experiments as SVG.")
    overview.add_argument("--tables", type=Path, required=True, help="folder of all tables")
    overview.add_argument("--ceilings", type=Path, help="the device's ceilings, if measured")
    overview.add_argument("--findings", type=Path, required=True, help="findings.json")
    overview.add_argument("--languages", type=Path, required=True, help="languages.json")
    overview.add_argument("--output", type=Path, required=True, help="folder to draw into")
    overview.add_argument("plans", type=Path, nargs="+", help="plan/experiments/*.json")

    findings = command("findings", _findings, "Derive the findings from the tables.")
    findings.add_argument("--tables", type=Path, required=True, help="folder of all tables")
    findings.add_argument("--claims", type=Path, required=True, help="the published claims")
    findings.add_argument("--ceilings", type=Path, help="the device's ceilings, if measured")
    findings.add_argument("--output", type=Path, required=True, help="findings.json to write")
    findings.add_argument("plans", type=Path, nargs="+", help="plan/experiments/*.json")

    for name, function, help, output in (
        ("report", _report, "Render the report as a PDF.", "PDF to write"),
        ("page", _page, "Write the report as one HTML file.", "HTML file to write"),
    ):
        report = command(name, function, help)
        report.add_argument("--config", type=Path, required=True, help="the resolved configuration")
        report.add_argument("--results", type=Path, required=True, help="folder of the dataset")
        report.add_argument("--ceilings", type=Path, help="the device's ceilings, if measured")
        report.add_argument("--output", type=Path, required=True, help=output)

    verdicts = command("verdicts", _verdicts, "Say which verdicts differ from the report before.")
    verdicts.add_argument("--results", type=Path, required=True, help="folder of the dataset")

    grade = command("grade", _grade, "Grade a folder of submissions.")
    grade.add_argument("--order", type=Path, required=True, help="what to grade, JSON")
    grade.add_argument("--grades", type=Path, required=True, help="CSV file to write")
    grade.add_argument("--summary", type=Path, required=True, help="CSV file to write")
    grade.add_argument("--document", type=Path, required=True, help="the pages' content to write")

    for name, function, help in (
        ("verify", _verify, "Check a report against the data attached to it."),
        (
            "verify-unlimited",
            _verify_unlimited,
            "What verify does, without its limits of memory and time.",
        ),
    ):
        verify = command(name, function, help)
        verify.epilog = (
            "Exit status: 0 if the report is consistent, 1 if it is not or is no report, 2 if the "
            "command line is wrong, 3 if the data is consistent and another version rendered it."
        )
        what = verify.add_mutually_exclusive_group(required=True)
        what.add_argument("--order", type=Path, help="what a Snakemake call is to verify, JSON")
        what.add_argument("--pdf", type=Path, metavar="PATH", help="the report")

    grades_pdf = command("grades-pdf", _grades_pdf, "Render the grades as a PDF.")
    grades_pdf.add_argument("--document", type=Path, required=True, help="the pages' content")
    grades_pdf.add_argument("--output", type=Path, required=True, help="PDF to write")

    compare = command("compare", _compare, "Compare two sets of records, run by run.")
    compare.epilog = (
        "A side is `local`, a recorded dataset, a folder (of a dataset, of results, or of records) "
        "or a git revision whose kernels were measured here. Exit status: 0, or 1 where a verdict "
        "given by --fail-on stands or the sides cannot be compared."
    )
    compare.add_argument("one", metavar="ONE", help="the reference: before")
    compare.add_argument("other", metavar="OTHER", help="what is judged against it: after")
    compare.add_argument("--benchmark", default="attention", help="benchmark (attention)")
    compare.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    compare.add_argument(
        "--fail-on",
        action="append",
        choices=("slower", "worse", "failed", "inconclusive"),
        default=[],
        help="exit with status 1 if any run has this verdict; may be repeated",
    )
    _add_language(compare)

    history = command("history", _history, "Say at which commits the numbers changed.")
    history.add_argument(
        "folders", type=Path, nargs="+", metavar="FOLDER", help="folder of records or of results"
    )
    history.add_argument(
        "--repository",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="git checkout with the commits (this folder)",
    )
    history.add_argument("--format", choices=("text", "markdown", "json", "html"), default="text")
    history.add_argument("--output", type=Path, metavar="FILE", help="write to a file, not print")
    _add_language(history)

    comparison = command("comparison", _comparison, "Compare the sides that a call has planned.")
    comparison.add_argument("--plan", type=Path, required=True, help="the sides, JSON")
    comparison.add_argument("--output", type=Path, required=True, help="comparison.json to write")

    drawn = command("comparison-figures", _comparison_figures, "Draw a comparison as SVG.")
    drawn.add_argument("--comparison", type=Path, required=True, help="comparison.json")
    drawn.add_argument("--output", type=Path, required=True, help="folder to draw into")

    for name, function, help in (
        ("comparison-pdf", _comparison_pdf, "Render a comparison as a PDF."),
        ("comparison-page", _comparison_page, "Write a comparison as one HTML file."),
    ):
        rendered = command(name, function, help)
        rendered.add_argument("--comparison", type=Path, required=True, help="comparison.json")
        rendered.add_argument("--figures", type=Path, required=True, help="folder of its figures")
        rendered.add_argument("--output", type=Path, required=True, help="file to write")

    own = command("selfcheck", _self_check, "Check one submission before it is handed in.")
    own.add_argument("folder", type=Path, metavar="FOLDER", help="the submission, or its archive")
    own.add_argument("--device", help="the class's GPU, for results that name none")
    _add_language(own)

    hw4 = command("hw4", _hw4, "Homework 4's program: read Q, K, V from a file, write the output.")
    hw4.add_argument("input", type=Path, metavar="IN.bin", help="B, N, d, then Q, K, V by batch")
    hw4.add_argument("output", type=Path, metavar="OUT.bin", help="the output to write")
    hw4.add_argument("--step", metavar="NAME", help="a step in kernels/ladder/ (the last one)")
    hw4.add_argument("--json", action="store_true", help="print the times as JSON, in seconds")

    cases = command("hw4-cases", _hw4_cases, "Generate the input files of homework 4's cases.")
    cases.add_argument("folder", type=Path, metavar="FOLDER", help="folder to write into")
    judge = command("hw4-judge", _hw4_judge, "Check and time steps on homework 4's cases.")
    judge.epilog = "Exit status: 0 if every case is within the tolerance, 1 if one is not."
    judge.add_argument(
        "--step", metavar="NAME", action="append", default=[],
        help="a step in kernels/ladder/ (the last one); may be repeated",
    )  # fmt: skip
    for added in (cases, judge):
        added.add_argument("cases", metavar="CASE", nargs="*", help="t01 to t30 (all)")
        added.add_argument("--seed", type=int, default=0, help="seed of the values (0)")

    call = command("check-call", _check_call, "Check what a Snakemake call gives as configuration.")
    call.set_defaults(others_ignored=True)
    call.add_argument("--configfile", "--configfiles", type=Path, nargs="+", default=[])
    call.add_argument("--config", "-C", nargs="*", default=[])
    return parser


class _Once(logging.Filter):
    """Lets a message through the first time only: the same text may be printed in many places."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = message not in self._seen
        self._seen.add(message)
        return new


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print what the package warns of on standard error, a line each: ``warning: …``."""
    logger, handler = logging.getLogger("flashlab"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.addFilter(_Once())
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did its work, 1 with one message when it could not.

    130, and no message, when it is interrupted from the keyboard.
    """
    try:
        parser = _parser()
        arguments, others = parser.parse_known_args(argv)
        if others and not hasattr(arguments, "others_ignored"):
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        # What measures looks after the process that it starts, and then ends by itself.
        if arguments.function not in (_measure, _ceilings):
            end_with_workflow()
        with _warnings_shown():
            arguments.function(arguments)
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
        said = f"{error.filename}: {error.strerror}" if error.filename else error
        print(f"error: {said}", file=sys.stderr)
        return 1
    except Exception as error:
        if not type(error).__module__.startswith("flashlab"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
