"""Writes lines to a stream; on a terminal, with the progress in a line below them."""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn


class Display:
    """Lines without control characters, for files, pipes and plain terminals."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, text: str, crop: bool = False) -> None:
        """Write one line; `crop` ends it at the edge of a terminal."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def progress(self, activity: str | None, done: int, total: int) -> None:
        """Show on a terminal what is being done; None shows nothing until the next call."""


class Live(Display):
    """Lines on a terminal, with the progress in a line that stays below them."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self._shown: Progress | None = None

    def line(self, text: str, crop: bool = False) -> None:
        """As of any display; the line stands above the progress."""
        if crop:
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
        """Start, update or remove the progress line."""
        if activity is None:
            if self._shown is not None:
                self._shown.stop()
                self._shown = None
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


def open_display(stream: TextIO, plain: bool) -> Display:
    """The display for a stream; `plain` where the caller asked for no colours."""
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    if plain or dumb or os.environ.get("NO_COLOR") or not stream.isatty():
        return Display(stream)
    return Live(stream)
