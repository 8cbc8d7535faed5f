"""What a bench prints: a row for each implementation and pass, renewed while it is measured."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flashlab.analysis.replication import combine_processes
from flashlab.bench.ceilings import Ceiling
from flashlab.bench.interleave import Batches, Measured, Progress
from flashlab.bench.looks import MIN_PAIRS, PROCESSES, Ratio
from flashlab.benchmarks.model import Benchmark
from flashlab.statistics import estimate_median, function_interval

PLAIN_WIDTH = 120
"""Columns of the table where it goes to a file or a pipe."""

REFRESH_SECONDS = 0.5
"""How often the table is renewed on a terminal while nothing but its numbers changes."""

COLOURS = {"faster": "green", "slower": "red", "equal": "cyan"}
NOTHING = "–"


@dataclass(frozen=True)
class _Time:
    """A time in ms with its 95% interval, if there is one."""

    value: float
    interval: tuple[float, float] | None


def time_of(processes: Sequence[Batches]) -> _Time | None:
    """The time of a call, from all batches so far; None before there are enough of them."""
    samples = [[*itertools.chain.from_iterable(batches)] for batches in processes]
    begun = [calls for calls in samples if len(calls) >= MIN_PAIRS]
    if not begun:
        return None
    (found,) = combine_processes([[estimate_median(calls) for calls in begun]])
    interval = function_interval(lambda median: median, [found.estimate])
    milliseconds = found.estimate.median * 1e3
    return _Time(milliseconds, (interval[0] * 1e3, interval[1] * 1e3) if interval else None)


def _time_cell(found: _Time) -> str:
    """The time, and the half-width of its interval as a share of it."""
    if found.interval is None:
        return f"{found.value:.4g}"
    half = (found.interval[1] - found.interval[0]) / 2 / found.value
    return f"{found.value:.4g} ± {half:.1%}" if half < 1 else f"{found.value:.4g} ± {NOTHING}"


def _ratio_cell(ratio: Ratio) -> str:
    return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def _verdict_cell(ratio: Ratio, margin: float) -> Text:
    verdict = ratio.verdict(margin)
    text = verdict if ratio.is_final else f"{verdict}?"
    return Text(text, style=COLOURS.get(verdict, ""))


def table_of(
    benchmark: Benchmark,
    measured: Sequence[Measured],
    passes: Sequence[str],
    margin: float,
    ceiling: Ceiling | None,
) -> Table:
    """The table as it stands: what is not yet known is left out of its cells.

    Below it stands why an implementation has no time.
    """
    messages = [f"{each.target.label}: {each.message}" for each in measured if each.status != "ok"]
    table = Table(box=None, pad_edge=False, caption_justify="left", caption_style="")
    table.caption = "\n".join(messages)
    table.add_column("implementation")
    table.add_column("pass")
    for heading in ("ms", "TFLOP/s", ceiling.heading if ceiling else "ceiling", "MiB"):
        table.add_column(heading, justify="right")
    is_compared = len(measured) > 1
    if is_compared:
        table.add_column(f"time / that of {measured[0].target.label}", justify="right")
        table.add_column("verdict")
    for each in measured:
        if each.status != "ok":
            table.add_row(each.target.label, each.status)
            continue
        memory = each.metrics.get("peak_memory", {}).get("value")
        for name in passes:
            found = time_of(each.batches.get(name, []))
            cells: list[Any] = [NOTHING] * 3
            if found is not None:
                work = benchmark.metric(name).work
                assert work is not None  # a pass is a timed metric
                rate = work.operations(each.run) / found.value / 1e9
                share = f"{rate / ceiling.rate:.0%}" if ceiling else NOTHING
                cells = [_time_cell(found), f"{rate:.4g}", share]
            ratio = each.ratios.get(name)
            compared = (_ratio_cell(ratio), _verdict_cell(ratio, margin)) if ratio else ()
            table.add_row(
                each.target.label,
                name.removesuffix("_time"),
                *cells,
                f"{memory:.1f}" if memory and name == passes[0] else "",
                *compared,
            )
    return table


class Shown:
    """Shows a table: renewed in place on a terminal, else printed after the first process and last.

    `of` gives the table as it stands.
    """

    def __init__(self, console: Console, of: Callable[[], Table]) -> None:
        self._console, self._of = console, of
        # Refreshed between batches: a thread of its own would take time from what is measured.
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._begun = time.monotonic()
        self._doing, self._refreshed = "", 0.0

    def __enter__(self) -> Shown:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, progress: Progress) -> None:
        """Show what is being done, and the numbers that there are."""
        is_new = progress.looked or progress.doing != self._doing
        if self._live is None:
            if progress.process == 0 and progress.measured:
                self._console.print(self._of())
                self._console.print(f"provisional, after {time.monotonic() - self._begun:.1f} s\n")
        elif is_new or time.monotonic() - self._refreshed >= REFRESH_SECONDS:
            table = self._of()
            doing = f"{progress.doing} (process {progress.process + 1} of {PROCESSES})"
            table.caption = "\n".join(filter(None, [str(table.caption), doing]))
            self._live.update(table, refresh=True)
            self._refreshed = time.monotonic()
        self._doing = progress.doing

    def end(self) -> None:
        """Show the table as it has become."""
        if self._live is None:
            self._console.print(self._of())
        else:
            self._live.update(self._of(), refresh=True)
            self._live.stop()
        self._console.print(f"after {time.monotonic() - self._begun:.1f} s\n")


def open_console() -> Console:
    """The console that the table is printed on."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console
