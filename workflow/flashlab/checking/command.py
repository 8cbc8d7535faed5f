"""The check on the command line: the kernel's file, a line for each case, and a summary."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import (
    ImplementationError,
    describe_unknown,
    implementations_of,
    read_kernel_file,
)
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.benchmarks.model import Benchmark
from flashlab.checking.shapes import ShapeError, parse_shapes, shape_text
from flashlab.forks import START_SECONDS, Child, signal_name
from flashlab.measuring.supervise import claimed, identified, job_environment
from flashlab.usage import UsageError

PASSED = ("ok", "unsupported")
"""The statuses of a kernel that is right, or does not support the case."""

_STEP = re.compile(rb"^def attention\(\s*q\b", re.MULTILINE)
"""The beginning of a step of the ladder; a kernel of attention takes qkv."""

Case = tuple[str, Shape]
Outcome = Mapping[str, Any]
"""A comparison to make, by dtype and shape, and what came of it (`checking.worker.follow`)."""


def find_kernel(name: str) -> tuple[Path, Benchmark]:
    """The kernel's file, by its NAME or path, and whose problem it solves; ImplementationError."""
    if name.endswith(".py") or os.sep in name:
        path = Path(name).absolute()
        if path.suffix != ".py" or not path.is_file():
            raise ImplementationError(f"there is no Python file {name}")
        return path, LADDER if _STEP.search(path.read_bytes()) else ATTENTION
    known = [implementations_of(ATTENTION), implementations_of(LADDER)]
    for benchmark, implementations in zip((ATTENTION, LADDER), known, strict=True):
        if name in implementations:
            return implementations[name].path, benchmark
    raise ImplementationError(describe_unknown(name, *known))


@contextmanager
def claimed_with_notice(device: str) -> Iterator[dict[str, str]]:
    """Claim the device, with a notice if another process holds it for two seconds."""
    said = "waiting: a measurement runs on the device"
    notice = threading.Timer(2.0, print, [said], {"file": sys.stderr})
    notice.daemon = True
    notice.start()
    with claimed(device) as variables:
        notice.cancel()
        yield variables


def _answer(child: Child, seconds: float, trace: str, kernel: Path) -> Outcome:
    """The checking process's next message, or how it ended without one.

    Of a crash it has the traceback in the file `trace`, up to its last line about the kernel.
    """
    ended: dict[str, Any] = {"status": "error", "fatal": True}
    try:
        if (message := child.answer(seconds)) is not None:
            return message
    except TimeoutError:
        return {**ended, "message": f"timed out after {seconds:g} s; --timeout SECONDS allows more"}
    status = child.wait() or 0
    said = f"the kernel ended its process with status {status}"
    if status < 0:
        memory = ", perhaps for lack of memory" if status == -signal.SIGKILL else ""
        said = f"crashed: ended by signal {signal_name(status)}{memory}"
    lines = Path(trace).read_text(errors="replace").splitlines()
    own = [i for i, line in enumerate(lines) if f'"{kernel}"' in line] or [0]
    return {**ended, "message": said, "traceback": "\n".join(lines[: own[-1] + 1])}


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
    seconds. Raises ImplementationError: the file cannot be imported or has no ``attention``.
    """
    variables = {**job_environment(), **benchmark.variables.get(device, {}), **variables}
    left = [*cases]
    while left:
        with tempfile.NamedTemporaryFile() as trace:
            given = [str(kernel), benchmark.name, device, trace.name]
            sizes = [(dtype, asdict(shape)) for dtype, shape in left]
            child = Child("flashlab.checking.worker:follow", [*given, sizes], variables)
            try:
                for name, seconds in (("torch", START_SECONDS), (kernel, timeout_s)):
                    if failed := _answer(child, seconds, trace.name, kernel):
                        said = f"{name} cannot be imported: {failed['message']}".strip()
                        raise ImplementationError(f"{said}\n{failed.get('traceback', '')}".strip())
                outcome: Outcome = {}
                while left and not outcome.get("fatal"):
                    outcome = _answer(child, timeout_s, trace.name, kernel)
                    yield left.pop(0), outcome
            finally:
                child.kill()


def grid_of(
    benchmark: Benchmark, device: str
) -> tuple[Sequence[str], dict[str, Sequence[int]], Sequence[str]]:
    """The dtypes, usual sizes and shapes that a kernel is checked at unless a call names its own.

    A size that a shape leaves out takes each of those that are usual. A step of the ladder takes
    heads as further batches, and a simulator of it is slow.
    """
    # Such lengths as fill a kernel's tiles, and such as do not.
    sizes = dict[str, Sequence[int]](batch_size=(2,), seq_len=(1, 37, 128, 129, 1000))
    if benchmark is LADDER:
        sizes |= {"num_heads": (1,), "head_dim": (32, 64)}
        sizes |= {} if device == "cuda" else {"seq_len": (1, 16, 33)}
        return ("float32",), sizes, ("full",)
    sizes |= {"num_heads": (3,), "head_dim": (32, 64, 128, 256)}
    shapes = ("B2", "B5,N129,H12,D64", "N129,H12,KV3,D64", "N129,H12,KV1,D64")
    return ("float16" if device == "cuda" else "float32", "bfloat16"), sizes, shapes


def _cases(
    kernel: Path, benchmark: Benchmark, device: str, shapes: Sequence[str], dtypes: Sequence[str]
) -> list[Case]:
    """The cases of the given shapes and dtypes, or of the grid where the kernel's file takes it.

    ShapeError for a malformed shape.
    """
    grid_dtypes, usual, texts = grid_of(benchmark, device)
    every = [shape for text in shapes or texts for shape in parse_shapes(text, **usual)]
    if benchmark is LADDER:
        every = [shape for shape in every if not shape.causal]
        if any(shape.beyond for shape in every) or not every:
            raise ShapeError("a step of the ladder has no mask, and takes B, N, H and D alone")
    elif not shapes:
        takes = set[str]()
        with suppress(ImplementationError):  # the check says what is wrong with it
            takes = {*read_kernel_file(kernel).takes}
        every = [shape for shape in every if shape.beyond <= takes]
    return [*dict.fromkeys(itertools.product(dtypes or grid_dtypes, every))]


def check_kernel(
    name: str, shapes: Sequence[str], dtypes: Sequence[str], timeout_s: float, fail_fast: bool
) -> int:
    """Check an implementation by its NAME or file, on its grid or given shapes; 0 if all passed.

    1 if a case did not. The device is claimed meanwhile. Only the first traceback is shown. With
    `fail_fast` it stops at the first case that did not pass. Raises UsageError, as there is no such
    implementation or a shape is malformed, and what `check` raises.
    """
    device = machine.detect_device("auto")
    try:
        kernel, benchmark = find_kernel(name)
        cases = _cases(kernel, benchmark, device, shapes, dtypes)
    except (ImplementationError, ShapeError) as error:
        raise UsageError(str(error)) from error
    width = max(len(shape_text(shape)) for _, shape in cases)
    line = f"{{:8}}  {{:{width}}}  {{:>8}}  {{:>8}}  {{:>9}}  {{}}".format
    statuses, failed, traceback = Counter[str](), list[str](), ""
    with claimed_with_notice(device) as variables:
        print(f"{kernel} on {identified(device, variables)['device_name']}, against float64")
        print(line("dtype", "shape", "out", "dqkv", "tolerance", "status"), flush=True)
        with closing(check(kernel, benchmark, device, variables, cases, timeout_s)) as outcomes:
            for (dtype, shape), outcome in outcomes:
                text, status = shape_text(shape), outcome["status"]
                errors = [outcome.get("errors", {}).get(name) for name in ("out", "dqkv")]
                cells = ["–" if error is None else f"{error:.1e}" for error in errors]
                cells.append(f"{outcome['tolerance']:.0e}" if "tolerance" in outcome else "–")
                said = f"{status}: {outcome['message']}".removesuffix(": ")
                print(line(dtype, text, *cells, said), flush=True)
                if not traceback and (traceback := outcome.get("traceback", "")):
                    print(textwrap.indent(traceback, "    "), flush=True)
                statuses[status] += 1
                failed += [] if status in PASSED else [f"failed: {dtype} {text}: {status}"]
                if failed and fail_fast:
                    break
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    left = len(cases) - (done := statuses.total())
    print(f"{done} cases: {counts}" + f"; {left} not checked" * bool(left), *failed, sep="\n")
    return int(bool(failed))
