"""The sections on the experiments: question, setting, figures, remarks, and the data."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flashlab.analysis.experiment import Experiment
from flashlab.analysis.experiment import Row as RunRow
from flashlab.benchmarks.model import Metric, Parameter
from flashlab.figures.forms import (
    ceiling_bounds,
    has_guides,
    has_room,
    is_of_many,
    is_wide,
    ratio_below,
)
from flashlab.remarks import Remark
from flashlab.report.compact import printed_value
from flashlab.report.data import BETTER, ReportData, with_unit
from flashlab.report.document import Cell, FigureEntry, Row, Section, Table, run_cell
from flashlab.report.remarks import rendered
from flashlab.telling.values import (
    Label,
    Listed,
    ParameterName,
    Range,
    Run,
    Tellable,
    heading,
    in_turn,
    say,
    setting,
)

_logger = logging.getLogger(__name__)


def row_id(experiment: Experiment, run: RunRow) -> str:
    """The anchor of a run's row in its experiment's table."""
    parts = (experiment.name, run["implementation"], *dict(experiment.variant_of(run)).values())
    return "-".join(map(str, ("row", *parts, experiment.value_of(run))))


def _setting(data: ReportData, experiment: Experiment) -> Tellable:
    others = experiment.covarying
    fixed = [
        f"{parameter.symbol} = {experiment.runs[0][parameter.name]}"
        for parameter in experiment.stated
        if parameter.derive is None
        and not parameter.is_variant
        and parameter not in (experiment.parameter, *experiment.varying)
    ]
    key = "setting" if fixed else "setting.alone"
    asked = say(
        "setting.variants" if data.benchmark.variants else key,
        parameter=ParameterName(experiment.parameter.name),
        values=Listed([str(value) for value in experiment.values]),
        fixed=Listed(fixed),
        variants=Listed([data.variant(variant) for variant in experiment.variants], "and"),
    )
    if not others:
        return asked
    varied = Listed([values_along(experiment, parameter) for parameter in others])
    return in_turn([asked, say("setting.varied", parameters=varied)])


def values_along(experiment: Experiment, parameter: Parameter) -> Tellable:
    """A size that varies along with the swept one, with its values in order of the sweep's."""
    at = {experiment.value_of(row): str(row[parameter.name]) for row in experiment.runs}
    values = Listed([at[value] for value in experiment.values])
    return say("setting.varied.values", parameter=ParameterName(parameter.name), values=values)


def _question(data: ReportData, experiment: Experiment) -> Tellable:
    """The question of the experiment; a variant with several values comes first."""
    if experiment.packed:
        return say("question.packed")
    asked = [*experiment.varying_variants, experiment.parameter]
    return say(
        "question",
        *(parameter.name for parameter in asked),
        parameter=ParameterName(experiment.parameter.name),
        quantities=Listed([Label(metric.labels) for metric in data.benchmark.compared]),
    )


# Figures


def _range(
    data: ReportData, experiment: Experiment, runs: Sequence[RunRow], metric: Metric, several: bool
) -> Tellable:
    """A sentence on the lowest and the highest median of a metric, and the runs they are of."""
    params: dict[str, Tellable] = {"metric": Label(metric.labels), "unit": metric.unit}

    def value(run: RunRow) -> Any:
        return experiment.metric_row(run, metric.name)["value"]

    def label(run: RunRow) -> Tellable:
        variant = data.variant(experiment.variant_of(run))
        if several and len(experiment.variants) > 1:
            return say("of_variant", implementation=run["implementation"], variant=variant)
        return run["implementation"] if several else variant

    measured = sorted((run for run in runs if value(run) is not None), key=value)
    for end, run in (("low", measured[0]), ("high", measured[-1])):
        params[end] = printed_value(experiment, run, metric).text
        params[f"{end}_of"] = label(run)
    return say("see.level" if params["low"] == params["high"] else "see.range", **params)


def _see(data: ReportData, experiment: Experiment, figure: Mapping[str, Any]) -> list[Tellable]:
    """A sentence on a figure: the lowest and highest line at their last common value."""
    shown = [
        run
        for run in experiment.ordered
        if run["implementation"] in figure["implementations"] and run["status"] == "ok"
    ]
    at_value: dict[int, list[RunRow]] = {}
    for run in shown:
        at_value.setdefault(experiment.value_of(run), []).append(run)
    if not at_value:
        return []
    at, runs = max(at_value.items(), key=lambda item: (len(item[1]), item[0]))
    if len(runs) < 2:
        return []
    several = len(figure["implementations"]) > 1
    ranges = [
        _range(data, experiment, runs, metric, several)
        for metric in data.benchmark.panels(figure["quantity"])
        if any(experiment.metric_row(run, metric.name)["value"] is not None for run in runs)
    ]
    joined = Listed(ranges, "see.separator")
    if experiment.has_alternatives:
        return [say("see.alternatives", ranges=joined)]
    return [say("see", symbol=experiment.parameter.symbol, at=at, ranges=joined)]


def _ceiling(
    data: ReportData, experiment: Experiment, names: Sequence[str], metrics: Sequence[Metric]
) -> list[Tellable]:
    """The measured ceiling of rates, where the figure has no room for it."""
    dtypes = {run["dtype"] for run in experiment.runs}
    if data.measured_ceilings is None or len(dtypes) != 1:
        return []
    bounds = ceiling_bounds(data.measured_ceilings.matrix.get(dtypes.pop()), metrics[0])
    shown = {metric.name for metric in metrics}
    rates = [
        row["value"]
        for row in experiment.metrics
        if row["metric"] in shown and row["implementation"] in names and row["status"] == "ok"
    ]
    if bounds is None or not rates or has_room(bounds, max(rates)):
        return []
    ends = Range(*(data.number(end, 3) for end in bounds))
    return [say("caption.ceiling", rates=ends, unit=metrics[0].unit)]


def _figure(data: ReportData, experiment: Experiment, figure: Mapping[str, Any]) -> FigureEntry:
    number = data.figure_numbers[experiment.name, figure["id"]]
    names = figure["implementations"]
    count = say("implementations.count", count=len(names))
    named: Tellable = count if len(names) > 2 else Listed(names, "and")
    curve = next((c for c in data.benchmark.curves if c.name == figure["quantity"]), None)
    shown: set[str] = set()
    wide, notes = False, list[Tellable]()
    if curve is not None:
        first = data.variant(experiment.variants[0])  # what the lower panel is relative to
        if len(experiment.values) > 1:
            first = setting(experiment.parameter, experiment.values[0])
        caption: list[Tellable] = [
            say(
                "caption.curve",
                curve=heading(curve.labels),
                along=Label(curve.along),
                implementations=named,
                reference=Run(experiment.baseline, [first]),
            )
        ]
    else:
        panels = data.benchmark.panels(figure["quantity"])
        quantity, shown = panels[0].quantity, {metric.name for metric in panels}
        wide = not experiment.has_alternatives and is_wide(experiment, names, panels)
        notes += _ceiling(data, experiment, names, panels)
        caption = [
            say(
                "caption.quantity.alternatives"
                if experiment.has_alternatives
                else "caption.quantity",
                quantity.name,
                quantity=heading(quantity.labels),
                better=say(BETTER[quantity.better]),
                parameter=ParameterName(experiment.parameter.name),
                implementations=named,
            ),
            *_see(data, experiment, figure),
        ]
        if below := ratio_below(experiment, names, panels):
            base, other = names if len(names) > 1 else map(data.variant, experiment.variants)
            key = "caption.below.speed" if below == "speed" else "caption.below.share"
            notes.append(say(key, base=base, other=other))
        if has_guides(experiment, names, panels[0]):
            notes.append(say("caption.guides"))
        if is_of_many(experiment, names) and quantity.logarithmic and not quantity.exact:
            notes.append(say("caption.marks"))
    if any(row["low"] is not None for row in experiment.metrics if row["metric"] in shown):
        several = len(experiment.records) > len(experiment.runs)
        caption.append(say("caption.interval" if several else "caption.interval.one"))
    return FigureEntry(
        id=f"figure-{number}",
        path=data.results / "figures" / experiment.name / f"{figure['id']}.svg",
        label=say("figure", number=number),
        caption=in_turn([*caption, *notes]),
        short=in_turn([caption[0], *notes]),
        wide=wide,
    )


# Tables


def _data(data: ReportData, experiment: Experiment, number: int) -> Table:
    """A row a run: what tells it from the others, its metrics, and its number in the appendix.

    The metrics are those that figures show, totals of others left out; the measured ones with
    intervals.
    """
    benchmark, variants = data.benchmark, experiment.varying_variants
    panels = [m for m in benchmark.metrics if m in benchmark.panels(m.quantity.name)]
    sizes = [experiment.parameter, *experiment.covarying]
    columns = [
        say("column.implementation"),
        *(heading(variant.labels) for variant in variants),
        *(size.symbol for size in sizes),
        *(with_unit(metric, data.panel(metric)) for metric in panels),
        say("column.run"),
    ]
    rows: list[Row] = []
    name, variant = "", None

    def value(run: RunRow, metric: Metric) -> Cell:
        cell = data.value(experiment.metric_row(run, metric.name))
        return Cell(cell.text) if metric.derived else cell

    for run in experiment.ordered:
        first = (run["implementation"], experiment.variant_of(run)) != (name, variant)
        cells: list[Cell | Tellable] = [
            run["implementation"] if run["implementation"] != name else "",
            *(setting(p, run[p.name]) if first else "" for p in variants),
            *(run[size.name] for size in sizes),
            *data.metric_cells(run, panels, value),
            run_cell(data.number_of(run)),
        ]
        rows.append(Row(cells, row_id(experiment, run), run["implementation"], first=first))
        name, variant = run["implementation"], experiment.variant_of(run)
    return Table(
        columns,
        rows,
        numeric=range(1 + len(variants), len(columns)),
        caption=say("caption.data", number=number),
        id=f"table-{experiment.name}",
    )


def _remarks(data: ReportData, remarks: Sequence[Remark], experiment: str) -> dict[str, Markup]:
    """The author's own words, in the languages of the report; others cause a warning."""
    by_language = {}
    for remark in remarks:
        if remark.experiment != experiment:
            continue
        if remark.language in data.languages:
            by_language[remark.language] = rendered(remark)
        else:
            _logger.warning(
                "%s: the remark on %s is left out, since %s is not among the languages of the "
                "report (%s)",
                remark.file,
                experiment,
                remark.language,
                ", ".join(data.languages),
            )
    return by_language


def render_section(
    data: ReportData,
    remarks: Sequence[Remark],
    experiment: Experiment,
) -> Section:
    """The section of an experiment."""
    name, position = experiment.name, data.ordinals[experiment.name]
    silent = None
    if all(run["status"] != "ok" for run in experiment.runs):
        silent = say("section.no_numbers", count=len(experiment.runs))
    ordinal, title = say("experiment", number=position), Label(experiment.plan["title"])
    return Section(
        id=f"experiment-{name}",
        title=Listed([ordinal, title], ""),
        question=_question(data, experiment),
        setting=_setting(data, experiment),
        figures=[_figure(data, experiment, figure) for figure in experiment.plan["figures"]],
        silent=silent,
        remarks=_remarks(data, remarks, name),
        table=_data(data, experiment, position),
    )
