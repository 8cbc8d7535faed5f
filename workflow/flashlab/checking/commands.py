"""The command that checks a kernel, and options that it shares with those that time one."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from flashlab.checking.shapes import FORM, ShapeError
from flashlab.cli import Command, UsageError, option

DTYPES = ("float16", "bfloat16", "float32")


def seconds(text: str) -> float:
    """A time limit above 0, finite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _check(
    name: str, shapes: Sequence[str], dtypes: Sequence[str], timeout_s: float, fail_fast: bool
) -> int:
    from flashlab import machine
    from flashlab.benchmarks.implementations import ImplementationError
    from flashlab.checking import cases, command

    device = machine.detect_device("auto")
    try:
        kernel, benchmark = command.find_kernel(name)
        grid = cases.GRIDS[benchmark.name]
        given = [shape for text in shapes for shape in grid.parse(text, device)]
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error
    asked = dict.fromkeys(dtypes or grid.dtypes[device])
    shapes_asked = dict.fromkeys(given or grid.shapes(device))
    chosen = [cases.Case(dtype, shape) for dtype in asked for shape in shapes_asked]
    passed = command.print_check(kernel, benchmark, device, chosen, timeout_s, fail_fast)
    return 0 if passed else 1


COMMANDS = (
    Command(
        "check",
        _check,
        "Compare one implementation with the float64 reference.",
        (
            option(
                "name",
                metavar="NAME",
                help="its NAME in kernels/ or kernels/ladder/, or the path of a file",
            ),
            option(
                "--shape",
                action="append",
                default=[],
                help=f"check this shape and not the grid, such as {FORM}; E2048 (emb_dim) may be "
                "given in place of D64 (head_dim); a size left out takes the grid's values, and "
                "the mask both; may be repeated",
            ),
            option(
                "--dtype",
                action="append",
                choices=DTYPES,
                help="check this dtype and not all of the device's; may be repeated",
            ),
            option(
                "--timeout",
                type=seconds,
                metavar="SECONDS",
                default=60.0,
                help="time limit of the kernel's import and of each case (60)",
            ),
            option("--fail-fast", action="store_true", help="end at the first case that fails"),
        ),
        epilog="Exit status: 0 if every case is ok or unsupported, 1 if one is not or the kernel "
        "cannot be imported, 2 if the command line is wrong, 130 if it is interrupted.",
    ),
)
