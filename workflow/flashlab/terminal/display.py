"""Writes lines to a stream; on a terminal, with the progress in a line below them."""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn


class Display:
    """Lines on a stream; if it is no terminal, or `plain`, without control characters."""

    def __init__(self, stream: TextIO, plain: bool) -> None:
        is_dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        self._is_plain = bool(plain or is_dumb or os.environ.get("NO_COLOR") or not stream.isatty())
        self._stream = stream
        self._console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self._shown: Progress | None = None

    def line(self, text: str, crop: bool = False) -> None:
        """Write one line, above the progress; a terminal folds it or, with `crop`, cuts it off."""
        if self._is_plain:
            print(text, file=self._stream, flush=True)
        elif crop:
            self._console.print(text, no_wrap=True, overflow="ellipsis")
        else:
            indent = " " * (len(text) - len(text.lstrip()) + 4)
            folded = textwrap.wrap(
                text,
                self._console.width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            self._console.print("\n".join(folded), soft_wrap=True)

    def progress(self, activity: str | None, done: int, total: int) -> None:
        """Show the activity and the steps done on a terminal; None hides them until the next."""
        if self._shown and activity is None:
            self._shown.stop()
            self._shown = None
        if self._is_plain or activity is None:
            return
        if self._shown is None:
            self._shown = Progress(
                SpinnerColumn("line"),
                BarColumn(bar_width=16),
                TextColumn("{task.completed}/{task.total} steps"),
                TextColumn("{task.description}", markup=False),
                console=self._console,
                transient=True,
            )
            self._shown.add_task("", total=None)
            self._shown.start()
        task = self._shown.task_ids[0]
        self._shown.update(task, description=activity, completed=done, total=total)
