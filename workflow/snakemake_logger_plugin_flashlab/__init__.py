"""Passes Snakemake's events to `flashlab.terminal`: `snakemake --logger flashlab`.

Snakemake imports every plugin it finds at each call, so this loads nothing until it is used.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

BEFORE_WORK = ("Config file ", "Assuming unrestricted shared filesystem", "Building DAG of jobs")
"""Messages of Snakemake without an event that tell the reader nothing."""

ENDS_SOON = "Will exit after finishing currently running jobs"
"""Said, maybe twice, once SIGTERM has come."""
JOB_FAILED = re.compile(
    "Exiting because a job execution failed|WorkflowError:\nAt least one job did not"
    "|(.|\n)*CalledProcessError in file"
)
REFUSED = re.compile(r'WorkflowError in file ".*", line \d+:\n((?:.|\n)*?)(?:\n  File ".*)*\n?')
"""A message of ours, between the lines of ours that raise it."""


class LogHandler(LogHandlerBase):
    """Prints the lines of `flashlab.terminal.lines`; with ``--verbose``, Snakemake's own."""

    # Snakemake's own filter heeds --quiet, and its formatter words what is not worded here.
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False
    writes_to_stream = property(lambda self: not self.common_settings.verbose)

    def __post_init__(self) -> None:
        from flashlab.terminal.lines import Call

        settings, before = self.common_settings, sys.excepthook
        self._call, self._over = Call(settings.dryrun), settings.verbose
        self._stream = sys.stdout if settings.stdout else sys.stderr
        plain = settings.nocolor or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._shows_steps = self._stream.isatty() and not plain
        # No traceback when the user interrupts the call.
        sys.excepthook = lambda kind, *error: (
            None if issubclass(kind, KeyboardInterrupt) else before(kind, *error)
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Print the lines for an event, and on a terminal, below them, what is done."""
        from flashlab.terminal.lines import activity

        if self._over:
            return
        try:
            lines = self._lines(record)
            self._print(lines, activity(self._call) if self._shows_steps else "")
        except BrokenPipeError:
            self._over = True  # the reader has closed the pipe
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Print the summary; Snakemake closes its handlers when a call is over, however it ends."""
        from flashlab.terminal.lines import summary

        if not self._over:
            self._over = True
            self._call.interrupted |= sys.exc_info()[0] is KeyboardInterrupt
            with suppress(BrokenPipeError):
                self._print(summary(self._call), "")
        super().close()

    def _print(self, lines: Sequence[str], below: str) -> None:
        blank = "\r\x1b[K" if self._shows_steps else ""
        text = blank + "\n".join([*lines, ""]) if lines else ""
        below = blank + below[: shutil.get_terminal_size().columns - 1]
        print(text + below, end="", file=self._stream, flush=True)

    def _lines(self, record: logging.LogRecord) -> list[str]:
        """The lines for an event of Snakemake, or for a message outside these events."""
        from flashlab.plan import call as calls
        from flashlab.terminal.lines import MEASURE, UNPLANNED, Job, begin, ending, starting

        told, call = vars(record), self._call
        match told.get("event"):
            case LogEvent.WORKFLOW_STARTED:
                call.began, call.words = monotonic(), told["cmd"].split()
                begin(call, calls.begun or UNPLANNED)
            case LogEvent.RUN_INFO:
                call.counts = told["stats"]
            case LogEvent.JOB_INFO | LogEvent.JOB_ERROR as event:
                files = (tuple(map(str, told.get(key) or ())) for key in ("output", "log"))
                rule, number = told["rule_name"], told["jobid"]
                job = call.jobs.get(number) or Job(rule, told.get("rule_msg") or rule, *files)
                if event == LogEvent.JOB_ERROR:
                    call.failed.append(job)
                    return [] if call.interrupted else [f"{job.title}: failed"]
                if told["shellcmd"] is not None or job.outputs:
                    call.jobs[number] = job
                    return starting(call, job)
            case LogEvent.JOB_FINISHED:
                if job := call.jobs.get(told["job_id"]):
                    call.done.append(job)
                    call.measured_at += [monotonic()] if job.rule == MEASURE else []
                    return ending(call, job)
            case LogEvent.PROGRESS | LogEvent.JOB_STARTED | LogEvent.RESOURCES_INFO:
                pass
            case event:
                return self._others(self.format(record), record.levelno, event)
        return []

    def _others(self, text: str, level: int, event: LogEvent | None) -> list[str]:
        lines, call = text.splitlines(), self._call
        if text.startswith("Nothing to be done"):
            call.nothing_to_do = True
        elif text.startswith(("Terminating processes on user request", ENDS_SOON)):
            is_told, call.interrupted = call.interrupted, True
            return lines if text.startswith(ENDS_SOON) and not is_told else []
        elif JOB_FAILED.match(text):
            call.withheld += lines
            call.stopped = True
        elif level > logging.INFO:
            call.stopped |= event == LogEvent.ERROR
            refused = REFUSED.fullmatch(text)
            return f"error: {refused[1]}".splitlines() if refused else lines
        elif text != "None" if event else call.began is None and not text.startswith(BEFORE_WORK):
            return lines
        return []
