"""Passes Snakemake's events to `flashlab.terminal`: `snakemake --logger flashlab`.

Snakemake imports every plugin it finds at each call, so this loads nothing until it is used.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

BEFORE_WORK = ("Config file ", "Assuming unrestricted shared filesystem", "Building DAG of jobs")
"""Messages of Snakemake without an event that tell the reader nothing."""

NOTHING_TO_DO = "Nothing to be done"
INTERRUPTED = "Terminating processes on user request"
ENDS_SOON = "Will exit after finishing currently running jobs"
JOB_FAILED = ("Exiting because a job execution failed", "WorkflowError:\nAt least one job did not")
COMMAND_FAILED = "CalledProcessError in file"
REFUSED = re.compile(r'WorkflowError in file ".*", line \d+:\n((?:.|\n)*?)(?:\n  File ".*)*\n?')
"""A message of ours, between the lines of ours that raise it."""


class LogHandler(LogHandlerBase):
    """Prints the lines of `flashlab.terminal.call`; with ``--verbose``, Snakemake's own."""

    def __post_init__(self) -> None:
        from flashlab.terminal.call import Call
        from flashlab.terminal.display import open_display

        self._call = Call(Path(), self.common_settings.dryrun)
        stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self._display = open_display(stream, self.common_settings.nocolor)
        self._withheld: list[str] = []
        self._over = self.common_settings.verbose
        _quiet_interrupts()

    @property
    def writes_to_stream(self) -> bool:
        """Whether this replaces Snakemake's own output."""
        return not self.common_settings.verbose

    @property
    def writes_to_file(self) -> bool:
        """It does not."""
        return False

    @property
    def has_filter(self) -> bool:
        """It does not: Snakemake's filter handles --quiet, --printshellcmds and --debug-dag."""
        return False

    @property
    def has_formatter(self) -> bool:
        """It does not: Snakemake's formatter words what is not worded here."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """It does not."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Print the lines for an event."""
        if self._over:
            return
        try:
            is_row = getattr(record, "event", None) == LogEvent.JOB_FINISHED
            for number, line in enumerate(self._lines(record)):
                self._display.line(line, crop=is_row and not number)
            activity = self._call.activity()
            self._display.progress(activity, *self._call.step)
        except BrokenPipeError:
            self._over = True  # the reader has closed the pipe
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Print the summary; Snakemake closes its handlers when a call is over, however it ends."""
        if not self._over:
            self._over = True
            if sys.exc_info()[0] is KeyboardInterrupt:
                self._call.interrupted = True
            try:
                self._display.progress(None, 0, 0)
                self._print(self._call.ends())
                if not self._call.reports_failures:
                    self._print(self._withheld)
            except BrokenPipeError:
                pass
        super().close()

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._display.line(line)

    def _lines(self, record: logging.LogRecord) -> list[str]:
        from flashlab.terminal.call import Job

        told: dict[str, Any] = record.__dict__
        match told.get("event"):
            case LogEvent.WORKFLOW_STARTED:
                self._call.begins(told["cmd"])
            case LogEvent.RUN_INFO:
                self._call.plans(told["stats"])
            case LogEvent.JOB_INFO:
                job = Job(
                    id=told["jobid"],
                    rule=told["rule_name"],
                    message=told["rule_msg"] or "",
                    outputs=tuple(map(str, told["output"])),
                    inputs=tuple(map(str, told["input"])),
                    logs=tuple(map(str, told["log"])),
                    works=told["shellcmd"] is not None or bool(told["output"]),
                )
                return self._call.starts(job)
            case LogEvent.JOB_FINISHED:
                return self._call.finishes(told["job_id"])
            case LogEvent.JOB_ERROR:
                job = Job(told["jobid"], told["rule_name"], "", logs=tuple(map(str, told["log"])))
                return self._call.fails(job)
            case LogEvent.PROGRESS:
                self._call.step = (told["done"], told["total"])
            case LogEvent.JOB_STARTED | LogEvent.RESOURCES_INFO:
                pass
            case _:
                return self._others(record)
        return []

    def _others(self, record: logging.LogRecord) -> list[str]:
        """Lines for Snakemake's messages outside the events above."""
        text = self.format(record)
        if text.startswith(NOTHING_TO_DO):
            self._call.nothing_to_do = True
        elif text.startswith(INTERRUPTED):
            self._call.interrupted = True
        elif text.startswith(JOB_FAILED) or COMMAND_FAILED in text:
            self._withheld += text.splitlines()
            self._call.stopped = True
        elif record.levelno > logging.INFO or text.startswith(ENDS_SOON):
            if getattr(record, "event", None) == LogEvent.ERROR:
                self._call.stopped = True
            refused = REFUSED.fullmatch(text)
            return (f"error: {refused[1]}" if refused else text).splitlines()
        elif getattr(record, "event", None) is not None:
            return text.splitlines() if text != "None" else []
        elif not self._call.began and not text.startswith(BEFORE_WORK):
            return text.splitlines()
        return []


def _quiet_interrupts() -> None:
    """Print no traceback when the user interrupts the call."""
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            before(kind, error, traceback)

    sys.excepthook = hook
