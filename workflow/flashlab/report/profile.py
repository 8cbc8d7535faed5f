"""A ladder step by step: each step's times beside the step before, and its counters."""

from __future__ import annotations

from collections.abc import Mapping

from flashlab.analysis.experiment import Experiment, ladder_of, step_metric
from flashlab.analysis.experiment import Row as RunRow
from flashlab.benchmarks.model import Metric
from flashlab.numbers import measured, scaled
from flashlab.report.compact import printed_value, ratio_cell
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table
from flashlab.story.ladder import HOST, KERNEL, WHOLE, Fall, gains, moved, number_of
from flashlab.story.tables import EQUAL, FASTER, SLOWER, UNDECIDED, Section, Speed
from flashlab.telling.values import Short, Tellable, heading, say

SHOWN_IN = {"B": (1e6, "GB/s"), "1": (1e6, "M"), "%": (1.0, "%"), "ms": (1.0, "ms")}
"""By a counter's unit: what its value is divided by, and the unit of the row. Bytes are shown per
second: those of a millisecond in millions are those of a second in billions."""

SIGNS = {FASTER: "above", SLOWER: "below", EQUAL: "equal", UNDECIDED: "inconclusive"}
"""The verdict of a ratio that is printed, by that of the speeds."""

CLOCKS = {KERNEL: "column.clock.kernel", HOST: "column.clock.host", WHOLE: "column.clock.process"}


def speed_cell(speed: Speed | None) -> Cell:
    """A speed-up with the sign of its verdict; a dash for None."""
    if speed is None:
        return Cell("–")
    return ratio_cell(speed.x, SIGNS[speed.verdict], speed.low, speed.high)


def _shown(counter: Metric, counted: Mapping[str, float]) -> Tellable:
    """A counter of a step as it is shown; bytes by the time in kernels."""
    divisor, _ = SHOWN_IN[counter.unit]
    time = counted["busy_time"] if counter.unit == "B" else 1.0
    return Short(counted[counter.quantity.name] / divisor / time)


FALLEN = {
    "global_load_bytes": "column.fell.global",
    "shared_load_bytes": "column.fell.shared",
    "bank_conflicts": "column.fell.conflicts",
    "instructions": "column.fell.instructions",
}
"""The message for each counter that a step can reduce."""


def _fallen(fall: Fall | None) -> list[Cell | Tellable]:
    """The counter that fell most with a step, before and after; a dash where none did."""
    if fall is None:
        return [Cell("–"), Cell("")]
    unit = "B" if fall["counter"].endswith("bytes") else ""
    before, after = (scaled(fall[key], unit) for key in ("before", "after"))
    return [say(FALLEN[fall["counter"]]), Cell(f"{before} → {after}")]


def _time(data: ReportData, ladder: Experiment, run: RunRow | None, clock: str) -> Cell:
    """A time of a step by a clock: that of the whole process in seconds."""
    cell = printed_value(ladder, run, data.benchmark.metric(clock))
    if clock != WHOLE or run is None or run["status"] != "ok":
        return cell
    value = ladder.metric_row(run, clock)["value"]
    return cell if value is None else Cell(measured(value / 1e3))


def render_steps(data: ReportData) -> Table | None:
    """Each step's times by three clocks, its gains, and what fell with it, at the last value.

    None without steps, and where a simulator ran them.
    """
    ladder = ladder_of(data.experiments)
    if ladder is None or ladder.is_simulated:
        return None
    section, value = Section(data.tables, ladder), ladder.values[-1]
    held = {metric.name for metric in data.benchmark.metrics}
    clocks = [name for name in CLOCKS if name in held]
    gains_by_clock = {clock: gains(section, clock, value) for clock in clocks}
    rows = []
    for name in ladder.step_names:
        run = ladder.run_at(name, ladder.variants[0], value)
        cells: list[Cell | Tellable] = [str(number_of(section, name)), name]
        for clock in clocks:
            cells.append(_time(data, ladder, run, clock))
            cells.append(speed_cell(gains_by_clock[clock].get(name)))
        speed = gains_by_clock[KERNEL].get(name)
        helps = speed is not None and speed.verdict == FASTER
        fall = moved(section, name, value) if helps else None
        cells += _fallen(fall)
        rows.append(Row(cells, implementation=name))
    columns: list[Tellable] = [say("column.step"), say("column.implementation")]
    groups: list[tuple[Tellable, int]] = [("", 2)]
    for clock in clocks:
        columns += ["s" if clock == WHOLE else "ms", say("column.gain")]
        groups.append((say(CLOCKS[clock]), 2))
    columns += ["", ""]
    groups.append((say("column.moved"), 2))
    caption = say("caption.steps.table", at=data.given({ladder.parameter.name: value}))
    numeric = [*range(2, len(columns) - 2), len(columns) - 1]
    return Table(columns, rows, numeric=numeric, caption=caption, groups=groups)


def render_profile(data: ReportData) -> Table | None:
    """The counters of the decisive metric's pass at the headline's problem; None without steps.

    Without the number of kernels.
    """
    ladder = ladder_of(data.experiments)
    if ladder is None:
        return None
    metric = step_metric(ladder)
    value = ladder.values[-1]
    counted, shape = dict[str, dict[str, float]](), None
    for name in ladder.step_names:
        run = ladder.run_at(name, ladder.variants[0], value)
        if run is not None and (found := ladder.counters_of(run, metric.name)):
            counted[name], shape = found, run
    if shape is None:
        return None
    rows = []
    for counter in data.benchmark.counters_on(shape["device"])[metric.name]:
        if counter.quantity.name != "kernels":
            label = say(
                "profile.row", label=heading(counter.labels), unit=SHOWN_IN[counter.unit][1]
            )
            rows.append(Row([label, *(_shown(counter, each) for each in counted.values())]))
    return Table(
        [say("column.counter"), *counted],
        rows,
        numeric=range(1, len(counted) + 1),
        caption=say("caption.profile", shape=data.shape(shape)),
    )
