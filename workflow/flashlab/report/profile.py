"""A ladder step by step: what each step does and gains, and what was counted of its kernels."""

from __future__ import annotations

from collections.abc import Mapping

from flashlab.analysis.experiment import ladder_of, step_metric
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Metric
from flashlab.report.compact import estimate_at, places_of, printed_value, ratio_cell
from flashlab.report.data import ReportData, with_unit
from flashlab.report.document import Cell, Row, Table
from flashlab.telling.values import Heading, Short, Tellable, heading, say

SHOWN_IN = {"B": (1e6, "GB/s"), "1": (1e6, "M"), "%": (1.0, "%"), "ms": (1.0, "ms")}
"""By a counter's unit: what its value is divided by, and the unit of the row. Bytes are shown per
second: those of a millisecond in millions are those of a second in billions."""


PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _shown(counter: Metric, counted: Mapping[str, float]) -> Tellable:
    """A counter of a step as it is shown; bytes by the time in kernels."""
    divisor, _ = SHOWN_IN[counter.unit]
    time = counted["busy_time"] if counter.unit == "B" else 1.0
    return Short(counted[counter.quantity.name] / divisor / time)


def _gain(data: ReportData, step: Finding | None, value: int) -> Cell:
    """How many times as good as the step before a step is at a value."""
    found = estimate_at(step, value)
    if found is None:
        return Cell("–")
    places = places_of(found["low"], found["estimate"], found["high"])
    return ratio_cell(data, found["estimate"], found["verdict"], places)


def _scaled(value: float, unit: str) -> str:
    """A count or a number of bytes in two digits: ``4.5 TB``, ``71 G``."""
    divisor, prefix = next((each for each in PREFIXES if value >= each[0]), (1.0, ""))
    return f"{Short(value / divisor).text} {prefix}{unit}".strip()


def _moved(step: Finding | None) -> list[Cell | Tellable]:
    """What fell most with a step, and how far, where it helps and was counted."""
    moved = step.facts.get("moved") if step else None
    if moved is None:
        return ["–", ""]
    before, after = (_scaled(moved[key], moved["unit"]) for key in ("before", "after"))
    return [Heading(moved["counter"]), Cell(f"{before} → {after}")]


def render_steps(data: ReportData) -> Table | None:
    """What each step does, its time, its gain, and what fell with it, at the ladder's last value.

    None without steps, and where a simulator ran them.
    """
    ladder = ladder_of(data.experiments)
    if ladder is None or ladder.is_simulated:
        return None
    metric, value, rows = step_metric(ladder), ladder.values[-1], []
    for name in ladder.step_names:
        step = data.find(ladder, "step", implementation=name, metric=metric.name)
        run = ladder.run_at(name, ladder.variants[0], value)
        cells: list[Cell | Tellable] = [
            name,
            heading(data.implementations[name]["label"]),
            printed_value(data, ladder, run, metric),
            _gain(data, step, value),
            *_moved(step),
        ]
        rows.append(Row(cells, implementation=name))
    columns = [
        *map(say, ("column.implementation", "column.label")),
        with_unit(metric),
        *map(say, ("column.gain", "column.moved")),
        "",
    ]
    caption = say("caption.steps.table", at=data.given({ladder.parameter.name: value}))
    return Table(columns, rows, numeric=(2, 3, 5), caption=caption)


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
