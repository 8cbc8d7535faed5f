"""Keeps the checking process: restarts it after a crash, ends it at its time limit.

Nothing here imports torch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.checking.cases import Case, Outcome
from flashlab.children import START_SECONDS, interpreter, signal_name
from flashlab.measuring.start import job_environment

END_SECONDS = 5.0
"""Seconds that a process that has closed its channel may take to exit."""


class KernelError(Exception):
    """A kernel file that has no function to check."""


class _EndedError(Exception):
    """The process ended without answering; the message says how."""


class _Worker:
    """One checking process, in its own session with whatever it starts."""

    def __init__(
        self, kernel: Path, benchmark: Benchmark, device: str, variables: Mapping[str, str]
    ) -> None:
        self._kernel = kernel
        self._trace = tempfile.NamedTemporaryFile()  # noqa: SIM115, `end` closes it
        self._process = interpreter(
            "flashlab.checking.worker:follow",
            [str(kernel), benchmark.name, device, self._trace.name],
            {**job_environment(), **benchmark.variables.get(device, {}), **variables},
            output=2,  # what a kernel prints is not part of the table
        )

    def load(self, timeout_s: float) -> None:
        """Wait until the kernel is imported; KernelError if it cannot be."""
        try:
            self._receive(START_SECONDS)
        except (TimeoutError, _EndedError) as error:
            raise KernelError(f"torch cannot be imported: {error}") from None
        try:
            message = self._receive(timeout_s)
        except TimeoutError:
            raise KernelError(
                f"{self._kernel} took more than {timeout_s:g} s to import; "
                "--timeout SECONDS allows more"
            ) from None
        except _EndedError as error:
            fatal = self._fatal()
            said = f"{error}\n{fatal}" if fatal else error
            raise KernelError(f"{self._kernel}, at import: {said}") from None
        if "failed" in message:
            raise KernelError(f"{self._kernel} {message['failed']}")

    def compare(self, case: Case, timeout_s: float) -> Outcome:
        """The outcome of a case, even if the process does not answer."""
        try:
            self._process.say({"dtype": case.dtype, "shape": asdict(case.shape)})
            return Outcome(**self._receive(timeout_s))
        except TimeoutError:
            return Outcome("error", f"timed out after {timeout_s:g} s", fatal=True)
        except _EndedError as error:
            return Outcome("error", str(error), traceback=self._fatal(), fatal=True)

    def end(self) -> None:
        """Kill the process and whatever it has started, and wait until it is gone."""
        self._process.kill()
        self._trace.close()

    def _receive(self, seconds: float) -> dict[str, Any]:
        """Its next message. Raises TimeoutError, or _EndedError if it ended without one."""
        message = self._process.answer(seconds)
        if message is None:
            raise _EndedError(self._ending())
        return message

    def _ending(self) -> str:
        """The end of the process in words: its status, or the signal."""
        status = self._process.wait(END_SECONDS)
        if status is None:
            return "the kernel closed its process's connection to the check"
        if status >= 0:
            return f"the kernel ended its process with status {status}"
        name = signal_name(status)
        memory = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        return f"crashed: ended by signal {name}{memory}"

    def _fatal(self) -> str:
        """The fault handler's traceback of a crash, if any, to the last line about the kernel."""
        lines = Path(self._trace.name).read_text(errors="replace").splitlines()
        own = [i for i, line in enumerate(lines) if f'"{self._kernel}"' in line]
        return "\n".join(lines[: own[-1] + 1] if own else lines[:1])


def check(
    kernel: Path,
    benchmark: Benchmark,
    device: str,
    variables: Mapping[str, str],
    cases: Iterable[Case],
    timeout_s: float,
) -> Generator[tuple[Case, Outcome], None, None]:
    """Compare the kernel in a file, an absolute path, with the reference, case by case.

    The process is confined to its device by `variables` of the environment. The kernel's import and
    each case may take `timeout_s` seconds.

    Raises:
        KernelError: the file cannot be imported or has no ``attention``.
    """
    worker: _Worker | None = None
    try:
        for case in cases:
            if worker is None:
                worker = _Worker(kernel, benchmark, device, variables)
                worker.load(timeout_s)
            outcome = worker.compare(case, timeout_s)
            if outcome.fatal:
                worker.end()
                worker = None
            yield case, outcome
    finally:
        if worker is not None:
            worker.end()
