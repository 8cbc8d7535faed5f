"""The check on the command line: the kernel's file, a line for each case, and a summary."""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
from flashlab.checking.shapes import ShapeError, parse_shapes, shape_text
from flashlab.forks import START_SECONDS, Child, signal_name, start
from flashlab.measuring.devices import claimed
from flashlab.measuring.supervise import job_environment
from flashlab.usage import UsageError

NOTICE_SECONDS = 2.0
"""The wait for the device, in seconds, after which a notice is printed."""

END_SECONDS = 5.0
"""Seconds that a process that has closed its channel may take to exit."""

MAX_NAMED = 10
"""Failed cases that the summary names."""

_STEP = re.compile(rb"^def attention\(\s*q\b", re.MULTILINE)
"""The beginning of a step of the ladder; a kernel of attention takes qkv."""


def find_kernel(name: str) -> tuple[Path, Benchmark]:
    """The kernel's file, by its NAME or its path, and the benchmark whose problem it solves.

    Raises ImplementationError if there is no such file or name.
    """
    if name.endswith(".py") or os.sep in name:
        path = Path(name).absolute()
        if not path.is_file():
            raise ImplementationError(f"there is no file {name}")
        return path, LADDER if _STEP.search(path.read_bytes()) else ATTENTION
    kernels, steps = implementations_of(ATTENTION), implementations_of(LADDER)
    if name in kernels or name in steps:
        return (kernels[name].path, ATTENTION) if name in kernels else (steps[name].path, LADDER)
    close = difflib.get_close_matches(name, [*kernels, *steps], n=1)
    meant = f" (did you mean {close[0]}?)" if close else ""
    raise ImplementationError(describe_unknown(name, meant, kernels, steps))


def _takes(kernel: Path, case: Case) -> bool:
    """True if a kernel's file says that it takes a shape of the grid."""
    try:
        return case.shape.beyond <= {*read_kernel_file(kernel).takes}
    except ImplementationError:  # the check says what is wrong with it
        return not case.shape.beyond


@contextmanager
def claimed_with_notice(device: str) -> Iterator[dict[str, str]]:
    """Claim the device, with a notice if another process holds it for long."""
    said = "waiting: a measurement runs on the device"
    notice = threading.Timer(NOTICE_SECONDS, print, [said], {"file": sys.stderr})
    notice.daemon = True
    notice.start()
    try:
        with claimed(device) as variables:
            notice.cancel()
            yield variables
    finally:
        notice.cancel()


class KernelError(Exception):
    """A kernel file that has no function to check."""


class _EndedError(Exception):
    """The process ended without answering; the message says how."""


def _received(child: Child, seconds: float) -> dict[str, Any]:
    """The checking process's next message; TimeoutError, or _EndedError if it ended without one."""
    message = child.answer(seconds)
    if message is not None:
        return message
    status = child.wait(END_SECONDS)
    if status is None:
        raise _EndedError("the kernel closed its process's connection to the check")
    if status >= 0:
        raise _EndedError(f"the kernel ended its process with status {status}")
    name = signal_name(status)
    memory = ", perhaps for lack of memory" if name == "SIGKILL" else ""
    raise _EndedError(f"crashed: ended by signal {name}{memory}")


def _fatal(trace: str, kernel: Path) -> str:
    """The fault handler's traceback of a crash, if any, to the last line about the kernel."""
    lines = Path(trace).read_text(errors="replace").splitlines()
    own = [i for i, line in enumerate(lines) if f'"{kernel}"' in line]
    return "\n".join(lines[: own[-1] + 1] if own else lines[:1])


def _refuse_unloaded(child: Child, kernel: Path, timeout_s: float, trace: str) -> None:
    """Wait until the kernel is imported; KernelError if it cannot be."""
    try:
        _received(child, START_SECONDS)
    except (TimeoutError, _EndedError) as error:
        raise KernelError(f"torch cannot be imported: {error}") from None
    try:
        message = _received(child, timeout_s)
    except TimeoutError:
        raise KernelError(
            f"{kernel} took more than {timeout_s:g} s to import; --timeout SECONDS allows more"
        ) from None
    except _EndedError as error:
        said = "\n".join(filter(None, [str(error), _fatal(trace, kernel)]))
        raise KernelError(f"{kernel}, at import: {said}") from None
    if "failed" in message:
        raise KernelError(f"{kernel} {message['failed']}")


def check(
    kernel: Path,
    benchmark: Benchmark,
    device: str,
    variables: Mapping[str, str],
    cases: Sequence[Case],
    timeout_s: float,
) -> Generator[tuple[Case, Outcome], None, None]:
    """Compare the kernel in a file, an absolute path, with the reference, case by case.

    One process does all cases, and another the rest of them where it dies. It is confined to its
    device by `variables` of the environment. The kernel's import and each case may take `timeout_s`
    seconds. Raises KernelError: the file cannot be imported or has no ``attention``.
    """
    variables = {**job_environment(), **benchmark.variables.get(device, {}), **variables}
    left = [*cases]
    while left:
        with tempfile.NamedTemporaryFile() as trace:
            arguments = [str(kernel), benchmark.name, device, trace.name, [*map(asdict, left)]]
            child = start("flashlab.checking.worker:follow", arguments, variables)
            try:
                _refuse_unloaded(child, kernel, timeout_s, trace.name)
                fatal = False
                while left and not fatal:
                    try:
                        outcome = Outcome(**_received(child, timeout_s))
                    except TimeoutError:
                        outcome = Outcome("error", f"timed out after {timeout_s:g} s", fatal=True)
                    except _EndedError as error:
                        said = _fatal(trace.name, kernel)
                        outcome = Outcome("error", str(error), traceback=said, fatal=True)
                    fatal = outcome.fatal
                    yield left.pop(0), outcome
            finally:
                child.kill()


def _row(case: Case, outcome: Outcome, width: int) -> str:
    """The case as a line of the table, its shape as ``--shape`` takes it."""
    errors = (outcome.errors.get(name) for name in ("out", "dqkv"))
    cells = "  ".join(f"{'–':>8}" if error is None else f"{error:8.1e}" for error in errors)
    tolerance = "–" if outcome.tolerance is None else f"{outcome.tolerance:.0e}"
    message = f": {outcome.message}" if outcome.message else ""
    shape = f"{case.dtype:8}  {shape_text(case.shape):{width}}"
    return f"{shape}  {cells}  {tolerance:>9}  {outcome.status}{message}"


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
    with claimed_with_notice(device) as variables:
        names = {gpu.uuid: gpu.name for gpu in machine.gpus()}
        name = names.get(variables["CUDA_VISIBLE_DEVICES"]) or machine.device_name(device)
        print(f"{kernel} on {name}, against float64")
        print(f"dtype     {'shape':{width}}       out      dqkv  tolerance  status", flush=True)
        with closing(check(kernel, benchmark, device, variables, cases, timeout_s)) as outcomes:
            for case, outcome in outcomes:
                print(_row(case, outcome, width), flush=True)
                if outcome.traceback and not any(other.traceback for _, other in done):
                    print(textwrap.indent(outcome.traceback, "    "), flush=True)
                done.append((case, outcome))
                if fail_fast and not outcome.passed:
                    break
    statuses = Counter(outcome.status for _, outcome in done)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    left = f"; {len(cases) - len(done)} not checked" if len(cases) > len(done) else ""
    print(f"{len(done)} cases: {counts}{left}")
    failed = [f"failed: {case}: {outcome.status}" for case, outcome in done if not outcome.passed]
    more = len(failed) - MAX_NAMED
    print(*failed[:MAX_NAMED], sep="\n", end="\n" if failed else "")
    if more > 0:
        print(f"failed: {more} more, in the table above")
    return not failed


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
        given = [shape for text in shapes for shape in parse_shapes(text, **grid.usual(device))]
        if benchmark is LADDER:
            given = [shape for shape in given if not shape.causal]
            if any(shape.beyond for shape in given) or (shapes and not given):
                raise ShapeError("a step of the ladder has no mask, and takes B, N, H and D alone")
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error
    asked = dict.fromkeys(dtypes or grid.dtypes[device])
    every = dict.fromkeys(given or grid.shapes(device))
    cases = [Case(dtype, shape) for dtype in asked for shape in every]
    cases = [case for case in cases if given or _takes(kernel, case)]
    return 0 if print_check(kernel, benchmark, device, cases, timeout_s, fail_fast) else 1
