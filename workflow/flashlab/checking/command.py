"""The check on the command line: the kernel's file, a line for each case, and a summary."""

from __future__ import annotations

import ast
import difflib
import os
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import (
    ImplementationError,
    describe_unknown,
    implementations_of,
    read_kernel_file,
)
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.benchmarks.model import Benchmark
from flashlab.checking.cases import GRIDS, Case, Outcome
from flashlab.checking.process import check
from flashlab.checking.shapes import ShapeError, shape_text
from flashlab.measuring.devices import claimed
from flashlab.usage import UsageError

NOTICE_SECONDS = 2.0
"""The wait for the device, in seconds, after which a notice is printed."""

MAX_NAMED = 10
"""Failed cases that the summary names."""


def _arguments(source: str) -> list[str] | None:
    """The names of the arguments of a source's function ``attention``, None for no such source."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = (node for node in body if isinstance(node, ast.FunctionDef))
    return next(([a.arg for a in f.args.args] for f in functions if f.name == "attention"), None)


def find_kernel(name: str) -> tuple[Path, Benchmark]:
    """The kernel's file, by its NAME or its path, and the benchmark whose problem it solves.

    Raises ImplementationError if there is no such file or name.
    """
    if name.endswith(".py") or os.sep in name:
        path = Path(name).absolute()
        if not path.is_file():
            raise ImplementationError(f"there is no file {name}")
        is_step = _arguments(path.read_text(errors="replace")) == _arguments(
            f"def {LADDER.entry_point}: ..."
        )
        return path, LADDER if is_step else ATTENTION
    kernels, steps = implementations_of(ATTENTION), implementations_of(LADDER)
    if name in kernels or name in steps:
        return (kernels[name].path, ATTENTION) if name in kernels else (steps[name].path, LADDER)
    close = difflib.get_close_matches(name, [*kernels, *steps], n=1)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise ImplementationError(describe_unknown(name, meant, kernels, steps))


def taken_by(kernel: Path) -> Collection[str]:
    """The optional parameters that a kernel's file declares in ``TAKES``."""
    try:
        return read_kernel_file(kernel).takes
    except ImplementationError:
        return ()  # the check says what is wrong with it


@contextmanager
def claimed_with_notice(device: str) -> Iterator[dict[str, str]]:
    """Claim the device, with a notice if another process holds it for long."""
    notice = threading.Timer(
        NOTICE_SECONDS, print, ["waiting: a measurement runs on the device"], {"file": sys.stderr}
    )
    notice.daemon = True
    notice.start()
    try:
        with claimed(device) as variables:
            notice.cancel()
            yield variables
    finally:
        notice.cancel()


def _device_name(device: str, variables: dict[str, str]) -> str:
    names = {gpu.uuid: gpu.name for gpu in machine.gpus()}
    return names.get(variables["CUDA_VISIBLE_DEVICES"]) or machine.device_name(device)


def _row(case: Case, outcome: Outcome, width: int) -> str:
    """The case as a line of the table, its shape as ``--shape`` takes it."""
    errors = (outcome.errors.get(name) for name in ("out", "dqkv"))
    cells = "  ".join(f"{'–':>8}" if error is None else f"{error:8.1e}" for error in errors)
    tolerance = "–" if outcome.tolerance is None else f"{outcome.tolerance:.0e}"
    message = f": {outcome.message}" if outcome.message else ""
    return (
        f"{case.dtype:8}  {shape_text(case.shape):{width}}  {cells}  {tolerance:>9}  "
        f"{outcome.status}{message}"
    )


def _summary(done: Sequence[tuple[Case, Outcome]], planned: int) -> Iterator[str]:
    """Counts, the largest error of an ok case as a share of the tolerance, and the failed cases."""
    statuses = Counter(outcome.status for _, outcome in done)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    left = f"; {planned - len(done)} not checked" if planned > len(done) else ""
    yield f"{len(done)} cases: {counts}{left}"
    shares = [
        (error / outcome.tolerance, f"{name}, {case}")
        for case, outcome in done
        if outcome.tolerance is not None
        for name, error in outcome.errors.items()
    ]
    if shares:
        share, where = max(shares)
        yield f"largest error of an ok case: {share:.2g} of the tolerance ({where})"
    failed = [(case, outcome.status) for case, outcome in done if not outcome.passed]
    for case, status in failed[:MAX_NAMED]:
        yield f"failed: {case}: {status}"
    if len(failed) > MAX_NAMED:
        yield f"failed: {len(failed) - MAX_NAMED} more, in the table above"


def print_check(
    kernel: Path,
    benchmark: Benchmark,
    device: str,
    cases: Sequence[Case],
    timeout_s: float,
    fail_fast: bool,
) -> bool:
    """Print the table row by row, then its summary; True if every case passed.

    The device is claimed for as long as the check takes (`check`). The first traceback is shown
    under its case; later ones are not. With `fail_fast` it stops at the first case that did not
    pass.

    Raises:
        KernelError: the file cannot be imported or has no ``attention``.
    """
    width = max(len(shape_text(case.shape)) for case in cases)
    done: list[tuple[Case, Outcome]] = []
    shown = False
    with claimed_with_notice(device) as variables:
        print(f"{kernel} on {_device_name(device, variables)}, against float64")
        print(f"dtype     {'shape':{width}}       out      dqkv  tolerance  status", flush=True)
        with closing(check(kernel, benchmark, device, variables, cases, timeout_s)) as outcomes:
            for case, outcome in outcomes:
                print(_row(case, outcome, width), flush=True)
                done.append((case, outcome))
                if outcome.traceback and not shown:
                    print(textwrap.indent(outcome.traceback, "    "), flush=True)
                    shown = True
                if fail_fast and not outcome.passed:
                    break
    print("\n".join(_summary(done, len(cases))))
    return all(outcome.passed for _, outcome in done)


def check_kernel(
    name: str, shapes: Sequence[str], dtypes: Sequence[str], timeout_s: float, fail_fast: bool
) -> int:
    """Check an implementation by its NAME or file, on its grid or given shapes; 0 if all passed.

    1 if a case did not.

    Raises:
        UsageError: there is no such implementation, or a shape is malformed.
        KernelError: the file cannot be imported or has no ``attention``.
    """
    device = machine.detect_device("auto")
    try:
        kernel, benchmark = find_kernel(name)
        grid = GRIDS[benchmark.name]
        given = [shape for text in shapes for shape in grid.parse(text, device)]
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error
    asked = dict.fromkeys(dtypes or grid.dtypes[device])
    shapes_asked = dict.fromkeys(given or grid.shapes(device, taken_by(kernel)))
    cases = [Case(dtype, shape) for dtype in asked for shape in shapes_asked]
    return 0 if print_check(kernel, benchmark, device, cases, timeout_s, fail_fast) else 1
