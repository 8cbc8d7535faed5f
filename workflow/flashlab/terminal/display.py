"""Writes lines to a stream; on a terminal, with the progress in a line below them."""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

from rich.console import Console
from rich.status import Status
from rich.text import Text


class Display:
    """Lines on a stream; if it is no terminal, or `plain`, without control characters."""

    def __init__(self, stream: TextIO, plain: bool) -> None:
        is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        self._is_plain = bool(plain or is_dumb or os.environ.get("NO_COLOR") or not stream.isatty())
        self._console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self._shown: Status | None = None

    def line(self, text: str, crop: bool = False) -> None:
        """Write one line, above the progress; a terminal folds it or, with `crop`, cuts it off."""
        if self._is_plain:
            print(text, file=self._console.file, flush=True)
        elif crop:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        else:
            lines = textwrap.TextWrapper(self._console.width, break_long_words=False)
            lines.subsequent_indent = " " * (len(text) - len(text.lstrip()) + 4)
            lines.break_on_hyphens = False
            self._console.print(lines.fill(text), soft_wrap=True)

    def progress(self, activity: str | None, done: int, total: int) -> None:
        """Show the activity and the steps done on a terminal; None hides them until the next."""
        if self._shown and activity is None:
            self._shown.stop()
            self._shown = None
        elif activity is not None and not self._is_plain:
            said = Text(f"{done}/{total} steps {activity}")
            said.truncate(self._console.width - 2, overflow="ellipsis")  # beside the spinner
            if self._shown:
                self._shown.update(said)
            else:
                self._shown = Status(said, console=self._console, spinner="line")
                self._shown.start()
