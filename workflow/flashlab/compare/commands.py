"""The commands that compare: kernels in turns, two sets of records, and the same over time."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

from flashlab.benchmarks.implementations import ImplementationError
from flashlab.checking.commands import DTYPES, seconds
from flashlab.checking.shapes import FORM, ShapeError
from flashlab.cli import LANGUAGE, Command, UsageError, new_file, option, path, require


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


def _bench(*options: Any) -> int:
    """Bench as `bench.Order` says; the last option is whether to watch."""
    from flashlab.measuring.start import start_own_parent

    require("torch")
    start_own_parent()  # before the imports below, which take a while too
    from flashlab.compare import bench

    *ordered, watch = options
    order = bench.Order(*ordered)
    try:
        if watch:
            bench.watch_bench(order)
        return 0 if bench.run_bench(order) else 1
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error


def _profile(name: str, shapes: Sequence[str], dtype: str | None, timeout_s: float) -> int:
    from flashlab.compare import bench

    require("torch")
    try:
        return 0 if bench.profile(name, shapes, dtype, timeout_s) else 1
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error


def _compare(
    one: str, other: str, name: str, form: str, fail_on: Sequence[str], language: str
) -> int:
    """Print a comparison; 1 where a verdict stands that the call is to fail on."""
    from flashlab.benchmarks.registry import find_benchmark
    from flashlab.compare.comparison import compare
    from flashlab.compare.listing import blocks, compared_of, runs
    from flashlab.compare.printing import publish
    from flashlab.compare.sides import find_side

    benchmark = find_benchmark(name)
    document = compare(find_side(one, benchmark), find_side(other, benchmark))
    publish(form, document, blocks(document, language, markdown=form == "markdown"))
    return 1 if runs(document, compared_of(document).table, fail_on) else 0


SHAPES = option(
    "--shape",
    action="append",
    default=[],
    help=f"a shape such as {FORM}; E2048 (emb_dim) may be given in place of D64 (head_dim); a "
    "size left out takes a default, and the mask both; may be repeated",
)
DTYPE = option(
    "--dtype",
    choices=DTYPES,
    help="number format of the inputs (float16 on a GPU, float32 on a CPU)",
)
RENDERED = (
    path("--comparison", "comparison.json"),
    path("--figures", "folder of its figures"),
    path("--output", "file to write"),
)

COMMANDS = (
    Command(
        "bench",
        _bench,
        "Measure implementations in turns, with verdicts.",
        (
            option(
                "implementations",
                metavar="IMPLEMENTATION",
                nargs="+",
                help="a NAME in kernels/, the path of a file, or REVISION:PATH for a file as it is "
                "at a git revision; the others are compared with the first",
            ),
            SHAPES,
            option(
                "--sweep",
                metavar="PARAMETER=FIRST:LAST",
                help="measure at sizes doubled from FIRST to LAST, such as seq_len=128:8192, or at "
                "those of a list, such as head_dim=64,96,128",
            ),
            DTYPE,
            option(
                "--pass",
                dest="passes",
                action="append",
                choices=("forward", "backward"),
                help="measure this pass and not both",
            ),
            option(
                "--seconds",
                type=seconds,
                default=20.0,
                help="how long to measure each shape, without the time that processes take to "
                "start (20)",
            ),
            option(
                "--margin",
                type=_share,
                default=0.05,
                help="difference up to which two times are equal (5%%)",
            ),
            option(
                "--counters",
                action="store_true",
                help="count each pass too, as the command profile does",
            ),
            option(
                "--timeout",
                type=seconds,
                metavar="SECONDS",
                help="time limit of a kernel's import, its check and each further step (60, or "
                "ten times what the slowest of the others took)",
            ),
            option(
                "--json",
                type=new_file,
                metavar="FILE",
                help="write what the table says to a file, too",
            ),
            option(
                "--watch",
                action="store_true",
                help="measure again whenever a file they depend on is saved",
            ),
        ),
        epilog="Exit status: 0 if every implementation was measured or does not support the "
        "shape, 1 if one is incorrect or failed, 2 if the command line is wrong, 130 if it is "
        "interrupted. docs/comparing.md explains the table.",
    ),
    Command(
        "profile",
        _profile,
        "Count what an implementation does in each pass.",
        (
            option("name", metavar="NAME", help="as IMPLEMENTATION of the command bench"),
            SHAPES,
            DTYPE,
            option(
                "--timeout",
                type=seconds,
                metavar="SECONDS",
                default=300.0,
                help="time limit for each shape (300)",
            ),
        ),
    ),
    Command(
        "compare",
        _compare,
        "Compare two sets of records, run by run.",
        (
            option("one", metavar="ONE", help="the reference: before"),
            option("other", metavar="OTHER", help="what is judged against it: after"),
            option("--benchmark", default="attention", help="benchmark (attention)"),
            option("--format", choices=("text", "markdown", "json"), default="text"),
            option(
                "--fail-on",
                action="append",
                choices=("slower", "worse", "failed", "inconclusive"),
                default=[],
                help="exit with status 1 if any run has this verdict; may be repeated",
            ),
            LANGUAGE,
        ),
        epilog="A side is `local`, a recorded dataset, a folder (of a dataset, of results, or of "
        "records) or a git revision whose kernels were measured here. Exit status: 0, or 1 where a "
        "verdict given by --fail-on stands or the sides cannot be compared.",
    ),
    Command(
        "comparison",
        "flashlab.compare.comparison:write_comparison",
        "Compare the sides that a call has planned.",
        (path("--plan", "the sides, JSON"), path("--output", "comparison.json to write")),
    ),
    Command(
        "comparison-figures",
        "flashlab.compare.forest_plots:draw_comparison",
        "Draw a comparison as SVG.",
        (path("--comparison", "comparison.json"), path("--output", "folder to draw into")),
    ),
    Command(
        "comparison-pdf",
        "flashlab.compare.rendered:write_pdf",
        "Render a comparison as a PDF.",
        RENDERED,
    ),
    Command(
        "comparison-page",
        "flashlab.compare.rendered:write_page",
        "Write a comparison as one HTML file.",
        RENDERED,
    ),
)
