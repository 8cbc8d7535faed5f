"""Page one: failed checks, the answer, the map with its figures, or a line an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.ratios import rounded_off_one
from flashlab.benchmarks.model import Metric
from flashlab.figures.forms import EFFECTS
from flashlab.files import read_json
from flashlab.numbers import leads, times
from flashlab.report.chapters import title_of
from flashlab.report.compact import printed_value, ratio_cell
from flashlab.report.correctness import render_wrong
from flashlab.report.data import ReportData
from flashlab.report.document import (
    Cell,
    Chapter,
    ChoiceChart,
    ExperimentRow,
    FigureEntry,
    Front,
    MapCell,
    PrintedMap,
    Row,
    Table,
)
from flashlab.report.environment import disagreements, how_far_records_agree
from flashlab.report.ladder import render_steps
from flashlab.report.story import answer, choice_map, footnotes, lines, sentence
from flashlab.report.training import render_alternatives
from flashlab.story.observation import Observation
from flashlab.telling.glyphs import legible
from flashlab.telling.values import (
    Label,
    Listed,
    Range,
    Tellable,
    clauses,
    heading,
    say,
    settings,
)

COLUMNS = 3
"""Most implementations of which the headline table has a row of ratios each."""

MOST_IN_CELL = 3
"""Most implementations that a cell of the map names each."""

MASK = "causal"
"""The parameter that the columns of the map are of."""

OVERVIEW = {
    "strips": ("strips.label", "caption.strips", "short.strips"),
    "longest": ("longest.label", "caption.longest", "short.longest"),
    "clocks": ("clocks.label", "caption.clocks"),
    "profile": ("profile.label", "caption.profile"),
}
"""The messages of each figure across experiments: its label, caption, and printed caption."""

PAGE_ONE = ("strips", "longest", "clocks")
"""The ids of the figures that stand on page one where they are drawn."""

SPEEDUPS = "speedups"
"""The beginning of the id of the figure of an experiment on page one."""

SIGNS = {"above": "▲", "below": "▼", "equal": "=", "inconclusive": "○"}
"""The sign of a verdict in a table, where above is better."""


def overview_figures(data: ReportData) -> dict[str, FigureEntry]:
    """The figures across experiments that were drawn, by id, in their order.

    Those of single experiments are left out.
    """
    folder, figures = data.results / "overview", {}
    for figure in read_json(folder / "drawn.json"):
        if not figure.startswith((SPEEDUPS, EFFECTS)):
            label, caption, *short = map(say, OVERVIEW[figure])
            printed = short[0] if short else None
            path = folder / f"{figure}.svg"
            figures[figure] = FigureEntry(f"figure-{figure}", path, label, caption, printed)
    return figures


def _facts(data: ReportData) -> list[Tellable]:
    """Device, power limit, number format, versions, number of runs, date and dataset."""
    shown = data.shown
    days = sorted({r["started"][:10] for each in shown for r in each.records if r["started"]})
    devices = data.distinct("device_name")
    limits = ", ".join(f"{float(limit):g}" for limit in data.distinct("power_limit_W"))
    versions = [f"torch {version}" for version in data.distinct("torch")]
    compared = {
        tuple(run[parameter.name] for parameter in data.benchmark.given)
        for experiment in shown
        for run in experiment.runs
    }
    processes = {len(each.processes_of(run)) for each in shown for run in each.runs} - {0}
    others = sum(len(experiment.runs) for experiment in data.others)
    origin: Tellable = f"data/{data.config['dataset']}"
    if data.is_imported:
        origin = say("warning.imported")
    elif data.config["dataset"] == "local":
        origin = say("dataset.local")
    return [
        ", ".join(devices) if devices else say("device.unknown"),
        *([say("front.power_limit", watts=limits)] if limits else []),
        *(", ".join(each) for each in (data.distinct("dtype"), versions) if each),
        say("front.compared", implementations=len(_distinct(data)), settings=len(compared)),
        *([say("front.others", count=others)] if others else []),
        *(
            [
                say(
                    "front.files" if data.is_imported else "front.processes",
                    range=Range(min(processes), max(processes)),
                )
            ]
            if processes
            else []
        ),
        Range(days[0], days[-1]),
        origin,
    ]


def _distinct(data: ReportData) -> Mapping[str, Mapping[str, Any]]:
    """The implementations, each once: not again with packed inputs."""
    every = data.implementations
    return {name: entry for name, entry in every.items() if entry.get("packed_of") not in every}


def kernel_of_torch(data: ReportData, name: str) -> str | None:
    """The PyTorch whose kernel an implementation ran on a GPU; None if it ran one of its own."""
    providers = {run["provider"] or "" for run in data.runs if run["implementation"] == name}
    words = [each.split() for each in providers if each.startswith("torch ")]
    carried = sorted({" ".join(each[:2]) for each in words if len(each) > 2})
    return None if data.on_cpu or not carried else ", ".join(carried)


def _names(data: ReportData) -> Tellable:
    """The implementations' labels, where the name does not say the same."""
    named = []
    for name, entry in _distinct(data).items():
        label: Tellable = Label(entry["label"])
        if name == data.baseline:  # what every ratio is relative to
            label = say("baseline", name, label=label)
        if kernel := kernel_of_torch(data, name):
            label = say("front.kernel_of_torch", label=label, kernel=kernel)
        # Without case and spaces, ``SDPA math`` says no more than ``SdpaMath``.
        if {text.casefold().replace(" ", "") for text in data.in_words(label)} != {name.casefold()}:
            named.append(say("front.name", name=name, label=label))
    return clauses(named)


# The map of choices


def map_cell(data: ReportData, cell: Mapping[str, Any] | None) -> MapCell:
    """A cell as printed: a dot where nothing was measured, else the fastest implementation.

    Below it stands its least lead, where it is faster than all others; else what will do as well.
    """
    if cell is None:
        return MapCell("·")
    names, state = cell["names"], cell["state"]
    first, *others = names
    if state == "clear":
        below = f"+{leads([min(cell['lead'])] * 2)}"
    else:
        shown = others if len(others) < MOST_IN_CELL else [*others[: MOST_IN_CELL - 1], "…"]
        below = " ".join(f"/ {name}" for name in shown)
    count = 1 if state == "clear" else 2
    styles = [data.implementations[name]["style"] for name in names[:count]]
    return MapCell(first, below, styles, state)


def _choice_map(data: ReportData, observation: Observation) -> PrintedMap:
    """The map of the fastest, a table for each use: rows of d and N, with and without the mask."""
    benchmark, masks = data.benchmark, observation.facts["masks"]
    head_dim, length, mask = (benchmark.parameter(name) for name in ("head_dim", "seq_len", MASK))
    headings = [Listed(settings(benchmark, {MASK: value})) for value in masks]

    def map_cell_at(cell: Mapping[str, Any] | None, given: Mapping[str, Any]) -> MapCell:
        """A cell with the run numbers of the implementations that it names at these settings."""
        runs = [
            data.number_of(run)
            for run in data.runs
            if cell
            and run["implementation"] in cell["names"]
            and all(run[name] == value for name, value in given.items())
        ]
        return replace(map_cell(data, cell), runs=runs)

    charts = []
    for chart in observation.facts["charts"]:
        metric = benchmark.metric(chart["metric"])
        rows = []
        for row in chart["rows"]:
            given = {head_dim.name: row[head_dim.symbol], length.name: row[length.symbol]}
            cells = zip(masks, row["cells"], strict=True)
            row_cells = [map_cell_at(cell, {**given, mask.name: value}) for value, cell in cells]
            rows.append((" · ".join(str(size) for size in given.values()), row_cells))
        use = say("use", metric.name, metric=heading(metric.labels))
        corner = f"{head_dim.symbol} · {length.symbol}"
        charts.append(ChoiceChart(use, metric.name, corner, headings, rows))
    return PrintedMap(charts, sentence(data, observation).text)


# The headline table


def _headline_metrics(data: ReportData) -> list[Metric]:
    """The compared metrics that every run has, and the metrics derived only from these."""
    compared = {metric.name for metric in data.benchmark.compared if not metric.optional}
    return [
        metric
        for metric in data.benchmark.metrics
        if metric.name in compared or (metric.derived and compared.issuperset(metric.derived.of))
    ]


def _compared(
    data: ReportData, name: str, metric: Metric
) -> tuple[float, str, float | None, float | None] | None:
    """The ratio of an implementation to the baseline in the headline: value, verdict, interval.

    The ratio of a sampled metric is how many times as good it is; of an exact one, its share. The
    verdict is above where it is better. None where nothing is compared.
    """
    summary, names = data.summary, (name, data.baseline)
    (value, *_), (variant, *_) = summary.values, summary.variants
    if not metric.exact:
        gain = data.gain(summary, variant, metric, names, value)
        return None if gain is None else (gain.x, gain.verdict, gain.low, gain.high)
    runs = [summary.run_at(each, variant, value) for each in names]
    ends = [summary.metric_row(run, metric.name)["value"] for run in runs if run]
    if len(ends) < 2 or None in ends:
        return None
    share = rounded_off_one(ends[0] / ends[1])
    better = (share > 1) == metric.higher_is_better
    return share, "equal" if share == 1 else "above" if better else "below", None, None


def _with_ratio(data: ReportData, run: RunRow, metric: Metric) -> Cell:
    """A value with the verdict's sign and the ratio beside it: ``▲ 4.00×``."""
    name, note = run["implementation"], ""
    if name != data.baseline and (comparison := _compared(data, name, metric)):
        ratio, verdict, *ends = comparison
        note = f"{SIGNS[verdict]} {times(ratio, *ends)}×"
    return replace(data.value(data.summary.metric_row(run, metric.name)), note=note)


def _ratio_rows(data: ReportData, names: Iterable[str], metrics: Sequence[Metric]) -> Iterator[Row]:
    """A row of ratios for each implementation that is compared with the baseline."""
    for name in names:
        comparisons = [_compared(data, name, metric) for metric in metrics]
        if name != data.baseline and any(comparisons):
            ratios = [ratio_cell(*each) if each else Cell("") for each in comparisons]
            label = say("headline.ratio", name=name, baseline=data.baseline)
            yield Row([label, *ratios], implementation=name, first=True)


def render_headline(data: ReportData) -> Table:
    """The headline table: a row an implementation at one setting.

    Of few, a row of ratios for each but the baseline under them; of more, each ratio stands beside
    its metric.
    """
    metrics, ordered = _headline_metrics(data), data.summary.ordered
    many = len({run["implementation"] for run in ordered}) > COLUMNS
    cell = partial(_with_ratio, data) if many else partial(printed_value, data.summary)
    names = [run["implementation"] for run in ordered]
    rows = [
        Row([name, *data.metric_cells(run, metrics, cell)], implementation=name)
        for name, run in zip(names, ordered, strict=True)
    ]
    if not many and data.baseline in names:
        rows += _ratio_rows(data, names, metrics)
    given = {parameter.name: ordered[0][parameter.name] for parameter in data.benchmark.given}
    size = map(Label, data.benchmark.size(given))
    setting = Listed((*settings(data.benchmark, given), *size))
    caption = say("headline.setting", run=setting)
    if many:
        caption = say("headline.setting.ratios", run=setting, baseline=data.baseline)
    columns = [say("column.implementation"), *map(data.heading_in_short, metrics)]
    return Table(columns, rows, numeric=range(1, len(columns)), caption=caption)


# The page


def _figures_beside(data: ReportData, name: str, title: Tellable) -> list[FigureEntry]:
    """The figure of an experiment on page one, if one was drawn."""
    path = data.results / "overview" / f"{SPEEDUPS}-{name}.svg"
    caption = say("caption.speedups", title=title)
    return [FigureEntry(f"{SPEEDUPS}-{name}", path, "", caption)] if path.is_file() else []


def _lines(data: ReportData, chapters: Sequence[Chapter]) -> list[ExperimentRow]:
    """The story's line on each experiment."""
    by_name = {each.id.removeprefix("chapter-"): each for each in chapters}
    groups = {group[0].name: group for _, group in data.chapters}
    rows = []
    for observation, line in lines(data):
        name = observation.facts["target"]
        if name not in by_name:  # of a chapter's other experiments
            continue
        chapter = by_name[name]
        title = title_of(groups[name])
        figures = _figures_beside(data, name, title)
        rows.append(ExperimentRow(chapter.number, chapter.id, title, figures, line))
    return rows


def render_front(data: ReportData, chapters: Sequence[Chapter]) -> Front:
    """Page one."""
    author = data.config.get("author", {})
    notices = []
    if data.on_cpu:
        notices.append(say("no_gpu", *data.implementations))
    if how_far_records_agree(disagreements(data)) == "differs":
        notices.append(say("disagree"))
    if all(run["status"] != "ok" for run in data.runs):
        notices.append(say("front.no_numbers", count=len(data.runs)))
    table, choices = render_steps(data) or render_alternatives(data), choice_map(data)
    drawn = overview_figures(data)
    return Front(
        title=say("title", benchmark=data.benchmark.name),
        author_name=author.get("name", "FlashLab"),
        author=[
            (say(label), legible(author[entry], f"author.{entry}"))
            for entry, label in (("name", "author"), ("id", "student_id"), ("course", "course"))
            if entry in author
        ],
        facts=_facts(data),
        names=_names(data),
        preview=say("quick") if data.config.get("quick") else None,
        notices=notices,
        wrong=list(render_wrong(data)),
        map=_choice_map(data, choices) if choices else None,
        experiments=[] if choices else _lines(data, chapters),
        figures=[drawn[each] for each in PAGE_ONE if each in drawn],
        headline=table or (None if choices else render_headline(data)),
        story=answer(data),
        footnotes=footnotes(data),
    )
