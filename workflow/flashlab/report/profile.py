"""What was counted of the headline's problem, step by step: a row a counter, a column a step."""

from __future__ import annotations

from flashlab.analysis.experiment import step_metric
from flashlab.benchmarks.model import Metric
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table
from flashlab.telling.values import Heading, Label, Listed, Short, Tellable, say, settings

SHOWN_IN = {"B": (1e6, "GB/s"), "1": (1e6, "M"), "%": (1.0, "%"), "ms": (1.0, "ms")}
"""By a counter's unit: what its value is divided by, and the unit of the row. Bytes are shown per
second: those of a millisecond in millions are those of a second in billions."""


def _cell(counter: Metric, counted: dict[str, float]) -> Cell:
    """A counter of a step as it is shown; bytes by the time in kernels."""
    divisor, _ = SHOWN_IN[counter.unit]
    value = counted[counter.quantity.name] / divisor
    if counter.unit == "B":
        value /= counted["busy_time"]
    return Cell(Short(value).text)


def render_profile(data: ReportData) -> Table | None:
    """The counters of the decisive metric's pass at the headline's problem; None without steps.

    Without the number of kernels.
    """
    ladder = next((each for each in data.experiments if each.steps), None)
    if ladder is None:
        return None
    metric = step_metric(ladder)
    value = ladder.values[-1]
    names = dict.fromkeys(name for pair in ladder.steps for name in pair)
    runs = {name: ladder.run_at(name, ladder.variants[0], value) for name in names}
    counted = {
        name: found
        for name, run in runs.items()
        if run is not None and (found := ladder.counters_of(run, metric.name))
    }
    if not counted:
        return None
    first = next(iter(counted))
    counters = data.benchmark.counters_on(ladder.runs[0]["device"])[metric.name]
    rows = []
    for counter in counters:
        if counter.quantity.name == "kernels":
            continue
        unit = SHOWN_IN[counter.unit][1]
        label: Tellable = say("profile.row", label=Heading(Label(counter.labels)), unit=unit)
        rows.append(Row([label, *(_cell(counter, each) for each in counted.values())]))
    run = runs[first]
    assert run is not None  # it was counted
    shape = settings(data.benchmark, {p.name: run[p.name] for p in data.benchmark.given})
    return Table(
        [say("column.counter"), *counted],
        rows,
        numeric=range(1, len(counted) + 1),
        caption=say("caption.profile", shape=Listed(shape)),
    )
