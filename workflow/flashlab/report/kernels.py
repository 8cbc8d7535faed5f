"""The kernels that each implementation launches at the headline's shape, by class."""

from __future__ import annotations

from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.launched import CLASS_LABELS, Launched, by_class, read_kernels
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table, grouped, table_of
from flashlab.telling.values import Heading, MetricName, Tellable, say

NEAR_PERCENT = 80
"""From here on, as it is printed, a unit is near its peak."""

OF_A_PASS = (
    *("column.launched", "column.time_share", "column.least"),
    *("column.tensor", "column.compute", "column.memory"),
)


def _runs(data: ReportData) -> list[RunRow]:
    """The runs at the headline's shape whose kernels were counted."""
    names = [*(p.name for p in data.benchmark.given), "dtype", "device"]
    shape = [data.summary.runs[0][name] for name in names]
    return [run for run in data.runs if run["kernels"] and [run[name] for name in names] == shape]


def _cells(launched: Launched | None, total: float, least: float) -> list[Cell | Tellable]:
    """The counters of a class of kernels in a pass; empty cells where it has none."""
    if launched is None:
        return [""] * len(OF_A_PASS)
    return [
        launched.count,
        f"{100 * launched.milliseconds / total:.0f}",
        f"{launched.bytes / least:.1f}",
        f"{launched.tensor:.0f}",
        *(
            Cell(f"{share:.0f}", strong=round(share) >= NEAR_PERCENT)
            for share in (launched.compute, launched.memory)
        ),
    ]


def render_kernels(data: ReportData) -> Table | None:
    """A row for each implementation and class of kernel; None where none were counted."""
    timed = [(metric, metric.work) for metric in data.benchmark.measured if metric.work]
    rows: list[Row] = []
    runs = _runs(data)
    for run in sorted(runs, key=lambda run: [*data.implementations].index(run["implementation"])):
        name = run["implementation"]
        passes = [read_kernels(run["kernels"], metric.name) for metric, _ in timed]
        classes = [{launched.kind: launched for launched in by_class(each)} for each in passes]
        totals = [sum(kernel.milliseconds for kernel in each) for each in passes]
        least = [work.compulsory_bytes(run, run["dtype"]) for _, work in timed]
        both = by_class([kernel for each in passes for kernel in each])
        for launched in both:
            cells: list[Cell | Tellable] = [name, say(CLASS_LABELS[launched.kind])]
            for found, total, bytes_ in zip(classes, totals, least, strict=True):
                cells += _cells(found.get(launched.kind), total, bytes_)
            rows.append(Row(cells, implementation=name))
    groups: list[tuple[Tellable, int]] = [("", 2)]
    groups += [(Heading(MetricName(metric.name, part=True)), len(OF_A_PASS)) for metric, _ in timed]
    keys = ("column.implementation", "column.kernels", *OF_A_PASS * len(timed))
    caption = say("caption.kernels", shape=data.shape(runs[0])) if runs else None
    numeric = range(2, len(keys))
    return table_of(keys, grouped(rows), numeric=numeric, caption=caption, groups=groups)
