"""Page one: what is wrong, the decision, the conclusions, one figure, and the headline table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.model import Metric
from flashlab.files import read_json
from flashlab.report.alternatives import render_alternatives
from flashlab.report.compact import printed_value, ratio_cell
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
from flashlab.report.profile import render_steps
from flashlab.report.sections import sign_of
from flashlab.report.statements import render_conclusion, render_statements, sentences
from flashlab.report.story import answer, footnotes, lines
from flashlab.telling.glyphs import legible
from flashlab.telling.values import (
    Label,
    Listed,
    Range,
    Tellable,
    clauses,
    heading,
    in_turn,
    say,
    settings,
)

COLUMNS = 3
"""Most implementations of which the headline table has a row of ratios each."""

FEWEST_CONCLUSIONS = 3

MOST_IN_CELL = 3
"""Most implementations that a cell of the map names each."""

OVERVIEW = {
    "summary": ("summary.label", "caption.summary"),
    "roofline": ("roofline.label", "caption.roofline", "caption.roofline.short"),
    "clocks": ("clocks.label", "caption.clocks"),
    "steps": ("steps.label", "caption.steps"),
    "split": ("split.label", "caption.split"),
    "profile": ("profile.label", "caption.profile.sizes"),
}
"""The label of each kind of figure across experiments, its caption, and that in short."""

SUMMARY_FIGURE = "summary"
STEPS_FIGURE = "clocks"
"""The ids of the figures of page one: that of a dataset with a map, and that of a ladder."""

ROW_FIGURES = {"row-speedup": "caption.row-speedup", "row-memory": "caption.row-memory"}
"""The small figures of an experiment on page one, and their captions."""


def overview_figures(data: ReportData) -> dict[str, FigureEntry]:
    """The figures across experiments that were drawn, by id, in their order.

    An id is the kind of figure, and what tells several of a kind apart: ``roofline-float16``.
    """
    folder, ceilings, found = data.results / "overview", data.measured_ceilings, {}
    for figure in read_json(folder / "drawn.json"):
        kind, _, dtype = figure.partition("-")
        label, *captions = OVERVIEW[kind]
        product = ceilings.matrix.get(dtype) if ceilings and kind == "roofline" else None
        if kind == "roofline" and not _are_bytes_counted(data):
            captions[-1] = "caption.roofline.short.uncounted"
        told: list[Tellable] = [say(key, baseline=data.baseline) for key in captions]
        if product is not None and product.sustained is not None:
            told = [in_turn([each, say("caption.roofline.fallen")]) for each in told]
        path = folder / f"{figure}.svg"
        found[figure] = FigureEntry(f"figure-{figure}", path, say(label), told[0], told[-1])
    return found


def _are_bytes_counted(data: ReportData) -> bool:
    """Whether the counters tell how many bytes any run moved."""
    return any(
        "dram_bytes" in experiment.counters_of(run, metric.name)
        for experiment in data.experiments
        for run in experiment.runs
        for metric in data.benchmark.metrics
        if metric.work
    )


def shortened(front: Front) -> Front | None:
    """Page one with less on it; None where nothing is left to leave out beside its figure.

    First the text is set smaller; then the last of the conclusions goes, down to
    `FEWEST_CONCLUSIONS`. Without a figure, what is told of an experiment below its heading goes
    next, the longest first; then their figures are set smaller, and left out from the last one on;
    then the last of the experiments goes, and of the conclusions.
    """
    if not front.tight:
        return replace(front, tight=True)
    if len(front.conclusions) > FEWEST_CONCLUSIONS:
        return replace(front, conclusions=front.conclusions[:-1], cut=front.cut + 1)
    if front.figure is not None:
        return None
    told = [(e, e.conclusion) for e in front.experiments if e.conclusion and e.conclusion.brief]
    if told:
        longest, conclusion = max(told, key=lambda each: each[1].brief_length)
        shorter = replace(longest, conclusion=replace(conclusion, brief=None))
        rows = [shorter if each is longest else each for each in front.experiments]
        return replace(front, experiments=rows)
    if front.experiments and not front.small_figures:
        return replace(front, small_figures=True)
    if drawn := [each for each in front.experiments if each.figures]:
        rows = [replace(e, figures=[]) if e is drawn[-1] else e for e in front.experiments]
        return replace(front, experiments=rows)
    if len(front.experiments) > 1:
        return replace(front, experiments=front.experiments[:-1], cut=front.cut + 1)
    if len(front.conclusions) > 1:
        return replace(front, conclusions=front.conclusions[:-1], cut=front.cut + 1)
    return None


def fitted(front: Front, fits: Callable[[Front], bool]) -> Front:
    """Page one with as much on it as `fits`, which lays it out: a few times, as that takes long."""

    def ever_shorter(front: Front) -> list[Front]:
        fronts = [front]
        while (shorter := shortened(fronts[-1])) is not None:
            fronts.append(shorter)
        return fronts

    whole, *shorter = ever_shorter(front)
    if not shorter or fits(whole):
        return whole
    if front.figure is not None and not fits(shorter[-1]):
        # What made room for the figure in vain comes back.
        shorter = ever_shorter(replace(front, figure=None, tight=True))
    # Each takes less room than the one before.
    return shorter[bisect_left(shorter[:-1], True, key=fits)]


def _facts(data: ReportData) -> list[Tellable]:
    """Device, power limit, number format, versions, how much was compared, date and dataset."""
    shown = (data.summary, *data.experiments)
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
    """What each implementation is, where its name does not say it."""
    named = []
    for name, entry in _distinct(data).items():
        label: Tellable = Label(entry["label"])
        if name == data.baseline:  # what every ratio is relative to
            label = say("baseline", name, label=label)
        if kernel := kernel_of_torch(data, name):
            label = say("front.kernel_of_torch", label=label, kernel=kernel)
        # Without case and spaces, ``SDPA math`` says no more than ``SdpaMath``.
        if {text.casefold().replace(" ", "") for text in data.told(label)} != {name.casefold()}:
            named.append(say("front.name", name=name, label=label))
    return clauses(named)


# The choice map


def map_cell(data: ReportData, cell: Mapping[str, Any] | None) -> MapCell:
    """A cell as printed: a dot where nothing was measured; ``≈?`` only where it is undecided."""
    if cell is None:
        return MapCell("·")
    names, state = cell["names"], cell["state"]
    low, high = cell["lead_low"], cell["lead_high"]
    lead = low if low == high else f"{low}–{high}"
    others = ", ".join(names[1:] if len(names) <= MOST_IN_CELL else [names[1], "…"])
    told = {
        "level": f"≈ {others or '…'}",
        "partly": f"{lead}%",
        "changes": f"/ {others}",
        "undecided": f"{others or f'{lead}%'} ?",
    }.get(state, f"+{lead}%")
    if state == "level" and not others and cell["maybe"]:
        told = f"≈? {', '.join(cell['maybe'][:2])}"
    shown = names[:2] if state in ("level", "changes", "undecided") else names[:1]
    styles = [data.implementations[name]["style"] for name in shown]
    return MapCell(names[0], told, styles, "level" if state == "partly" else state)


def _rare(data: ReportData, facts: Mapping[str, Any], columns: Sequence[str]) -> Tellable | None:
    """The places beyond the maps, each with its cell in every map."""
    listed = []
    for entries in zip(*(chart["rare"] for chart in facts["charts"]), strict=True):
        cells = [map_cell(data, entry) for entry in entries]
        given = dict(
            zip(columns, entries[0]["column"], strict=True), **{facts["row"]: entries[0]["row"]}
        )
        listed.append(
            say(
                "conclusion.map.rare.each",
                where=data.given(given),
                cells=" | ".join(f"{cell.name} {cell.lead}".strip() for cell in cells),
            )
        )
    return clauses(listed) if listed else None


def _choice_map(data: ReportData, finding: Finding) -> PrintedMap:
    benchmark, facts = data.benchmark, finding.facts
    row = benchmark.parameter(facts["row"])
    columns = [*benchmark.derived_parameters, *benchmark.variants]
    names = [parameter.name for parameter in columns]
    places = [dict(zip(names, each, strict=True)) for each in facts["columns"]]
    headings = [Listed(settings(benchmark, place), "line.break") for place in places]
    charts = []

    def place(cell: Mapping[str, Any] | None, given: Mapping[str, Any]) -> MapCell:
        """A cell with the numbers of its runs: at these settings, of those that it names."""
        runs = [
            data.number_of(run)
            for run in data.runs
            if cell
            and run["implementation"] in cell["names"]
            and all(run[name] == value for name, value in given.items())
        ]
        return replace(map_cell(data, cell), runs=runs)

    for chart in facts["charts"]:
        metric = benchmark.metric(chart["metric"])
        use = say("use", metric.name, metric=heading(metric.labels))
        rows = [
            (
                value,
                [place(c, {**at, row.name: value}) for at, c in zip(places, cells, strict=True)],
            )
            for value, cells in zip(facts["rows"], chart["cells"], strict=True)
        ]
        charts.append(ChoiceChart(use, metric.name, row.symbol, headings, rows))
    notes = [sentences(data, finding)[0]]
    if rare := _rare(data, facts, names):
        metrics = Listed([Label(benchmark.metric(c.metric).labels) for c in charts])
        notes.append(say("conclusion.map.rare", rare=rare, metrics=metrics))
    return PrintedMap(charts, in_turn(notes))


# The headline table


def _headline_metrics(data: ReportData) -> list[Metric]:
    """The compared metrics that every run has, and those that follow from such alone."""
    compared = {metric.name for metric in data.benchmark.compared if not metric.optional}
    return [
        metric
        for metric in data.benchmark.metrics
        if metric.name in compared or (metric.derived and compared.issuperset(metric.derived.of))
    ]


def _comparison(data: ReportData, implementation: str, metric: Metric) -> Finding | None:
    """How an implementation compares with the baseline in the headline; None if nothing decides."""
    kind = "exact_comparison" if metric.exact else "comparison"
    about = {"implementation": implementation, "metric": metric.name}
    found = data.find(data.summary, kind, **about)
    return found if found and found.facts["count"] else None


def _ratio(data: ReportData, found: Finding) -> str:
    return data.ratio(found.facts["low"], found.facts["low_places"])


def _with_ratio(data: ReportData, run: RunRow, metric: Metric) -> Cell:
    """A value with the verdict's sign and the ratio beside it: ``▲ 4.00×``."""
    found, note = _comparison(data, run["implementation"], metric), ""
    if found:
        note = f"{sign_of(data, found)[0]} {_ratio(data, found)}×"
    return replace(data.value(data.summary.metric_row(run, metric.name)), note=note)


def _ratio_rows(data: ReportData, names: Iterable[str], metrics: Sequence[Metric]) -> Iterator[Row]:
    """A row of ratios for each implementation that is compared with the baseline."""
    for name in names:
        found = [_comparison(data, name, metric) for metric in metrics]
        if name != data.baseline and any(found):
            ratios = [
                ratio_cell(data, finding.facts["low"], finding.verdict, finding.facts["low_places"])
                if finding
                else Cell("")
                for finding in found
            ]
            label = say("headline.ratio", name=name, baseline=data.baseline)
            yield Row([label, *ratios], implementation=name, first=True)


def render_headline(data: ReportData) -> Table:
    """The headline table: a row an implementation at one setting.

    Of few, a row of ratios for each but the baseline under them; of more, each ratio stands beside
    its metric.
    """
    metrics, ordered = _headline_metrics(data), data.summary.ordered
    many = len({run["implementation"] for run in ordered}) > COLUMNS
    cell = partial(_with_ratio, data) if many else partial(printed_value, data, data.summary)
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
    """The small figures of an experiment on page one that were drawn."""
    folder = data.results / "figures" / name
    return [
        FigureEntry(f"{figure}-{name}", path, "", say(key, title=title))
        for figure, key in ROW_FIGURES.items()
        if (path := folder / f"{figure}.svg").is_file()
    ]


def _lines(data: ReportData, chapters: Sequence[Chapter]) -> list[ExperimentRow]:
    """The experiments, a line each, as the story has them."""
    by_name = {each.id.removeprefix("chapter-"): each for each in chapters}
    rows = []
    for observation, line in lines(data):
        name = observation.facts["target"]
        chapter, title = by_name[name], Label(data.experiment(name).plan["title"])
        figures = _figures_beside(data, name, title)
        rows.append(ExperimentRow(chapter.number, chapter.id, title, None, figures, line))
    return rows


def _experiments(data: ReportData, chapters: Sequence[Chapter]) -> list[ExperimentRow]:
    """The experiments that have a conclusion."""
    rows = []
    for chapter in chapters:
        if chapter.conclusion is not None:
            experiment = data.experiment(chapter.id.removeprefix("chapter-"))
            title, conclusion = chapter.title, chapter.conclusion
            if len(chapter.sections) == 1:
                title = Label(experiment.plan["title"])
            figures = _figures_beside(data, experiment.name, chapter.title)
            rows.append(ExperimentRow(chapter.number, chapter.id, title, conclusion, figures))
    return rows


def render_front(data: ReportData, chapters: Sequence[Chapter]) -> Front:
    """Page one."""
    author = data.config.get("author", {})
    notices = []
    if data.on_cpu:
        notices.append(say("no_gpu", *data.implementations))
    if data.of_kind("environment", "differs"):
        notices.append(say("disagree"))
    ranked = sorted((f for f in data.findings if f.rank is not None), key=lambda f: f.rank or 0)
    maps = [finding for finding in ranked if finding.subject["topic"] == "map"]
    answers = [finding for finding in ranked if finding.subject["topic"] == "answer"]
    others = [finding for finding in ranked if finding not in [*maps, *answers]]
    table = render_steps(data) or render_alternatives(data)
    wrong = [f for f in data.of_kind("correctness") if f.verdict != "none"]
    story = answer(data)
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
        wrong=render_statements(data, wrong).entries,
        answer=render_conclusion(data, answers[0]) if answers and not story else None,
        map=_choice_map(data, maps[0]) if maps else None,
        conclusions=[] if story else [render_conclusion(data, finding) for finding in others],
        experiments=_lines(data, chapters) or (_experiments(data, chapters) if answers else []),
        figure=overview_figures(data).get(SUMMARY_FIGURE if maps else STEPS_FIGURE),
        headline=table or (render_headline(data) if answers else None),
        story=story,
        footnotes=footnotes(data),
    )
