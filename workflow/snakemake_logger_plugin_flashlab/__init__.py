"""Passes Snakemake's events to `flashlab.terminal`: `snakemake --logger flashlab`.

Snakemake imports every plugin it finds at each call, so this loads nothing until it is used.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Prints the lines of `flashlab.terminal.lines`; with ``--verbose``, Snakemake's own."""

    # Snakemake's own filter heeds --quiet, and its formatter words what is not worded here.
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False
    writes_to_stream = property(lambda self: not self.common_settings.verbose)

    def __post_init__(self) -> None:
        from flashlab.terminal.lines import Call

        settings, before = self.common_settings, sys.excepthook
        self._call, self._over = Call(settings.dryrun, self.format), settings.verbose
        self._stream = sys.stdout if settings.stdout else sys.stderr
        plain = settings.nocolor or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._shows_steps = self._stream.isatty() and not (plain or settings.dryrun)
        # No traceback when the user interrupts the call.
        sys.excepthook = lambda kind, *of: issubclass(kind, KeyboardInterrupt) or before(kind, *of)

    def emit(self, record: logging.LogRecord) -> None:
        """Print the lines for an event, and on a terminal, below them, what is done."""
        try:
            if not self._over:
                self._print(self._call.lines(record), self._call.activity())
        except BrokenPipeError:
            self._over = True  # the reader has closed the pipe
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Print the summary; Snakemake closes its handlers when a call is over, however it ends."""
        if not self._over:
            self._over = True
            self._call.interrupted |= sys.exc_info()[0] is KeyboardInterrupt
            with suppress(BrokenPipeError):
                self._print(self._call.summary(), "")
        super().close()

    def _print(self, lines: Sequence[str], below: str) -> None:
        below = below[: shutil.get_terminal_size().columns - 1] if self._shows_steps else ""
        blank = "\r\x1b[K" if self._shows_steps else ""
        text = blank + "\n".join([*lines, ""]) if lines else ""
        print(f"{text}{blank}{below}", end="", file=self._stream, flush=True)
