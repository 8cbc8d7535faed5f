"""Page one: what was measured, the key findings, one figure, and the headline table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flashlab.benchmarks.model import Metric
from flashlab.files import read_json
from flashlab.findings.model import Finding
from flashlab.glyphs import legible
from flashlab.report.data import ReportData, with_unit
from flashlab.report.document import Cell, FigureEntry, Front, Row, Statements, Table
from flashlab.report.sections import sign_of
from flashlab.report.statements import FindingRenderer
from flashlab.report.wording import Texts
from flashlab.sweep import Row as RunRow

COLUMNS = 3
"""How many implementations the headline table can show side by side, a column each."""

SUMMARY_FIGURE = "summary"


def overview_figures(data: ReportData) -> dict[str, FigureEntry]:
    """The figures across experiments that were drawn, by id, in their order.

    An id is the kind of figure, and what tells several of a kind apart: ``roofline-float16``.
    """
    folder = data.results / "overview"
    found = {}
    for figure in read_json(folder / "drawn.json"):
        kind = figure.partition("-")[0]
        caption = data.specialised(f"caption.{kind}", baseline=data.baseline)
        label = data.words.each(f"{kind}.label")
        found[figure] = FigureEntry(f"figure-{figure}", folder / f"{figure}.svg", label, caption)
    return found


def without_weakest(front: Front) -> Front | None:
    """Page one without the weakest of its key findings; None where only one is left.

    The nearest approach to the ceiling, which comes after the ranked findings, goes last.
    """
    entries = list(front.key.entries)
    if len(entries) < 2:
        return None
    del entries[front.ranked - 1 if front.ranked else -1]
    doubts = front.key.doubts if any(entry.mark for entry in entries) else None
    return replace(front, key=Statements(entries, doubts), ranked=max(front.ranked - 1, 0))


def _facts(data: ReportData) -> list[tuple[Texts, Texts]]:
    words, dataset = data.words, data.config["dataset"]
    started = data.distinct("started")
    ends = (started[0][:16], started[-1][:16])
    if ends[0][:10] == ends[1][:10]:
        ends = (ends[0], ends[1][11:])
    span = " – ".join(dict.fromkeys(ends)).replace("T", " ")
    devices = data.distinct("device_name")
    named = words.each("dataset.recorded", name=dataset)
    return [
        (words.each("device"), data.same(", ".join(devices)) if devices else words.each("unknown")),
        (words.each("measured"), data.same(span)),
        (words.each("dataset"), words.each("dataset.local") if dataset == "local" else named),
        (words.each("dtype"), data.same(", ".join(data.distinct("dtype")))),
        (words.each("baseline"), _baseline(data)),
    ]


def _baseline(data: ReportData) -> Texts:
    """What every ratio is relative to, in the benchmark's words for it if it has any."""
    key = f"{data.benchmark.name}.baseline.{data.baseline}"
    if key in data.words.keys_below(f"{data.benchmark.name}.baseline"):
        return data.words.each(key)
    return data.same(data.baseline)


# The headline table


def _headline_metrics(data: ReportData) -> list[Metric]:
    """The measured metrics, and those that follow from measured ones alone."""
    measured = {metric.name for metric in data.benchmark.measured}
    return [
        metric
        for metric in data.benchmark.metrics
        if metric.derived is None or measured.issuperset(metric.derived.of)
    ]


def _comparison(data: ReportData, implementation: str, metric: Metric) -> Finding | None:
    """How an implementation compares with the baseline in the headline; None if nothing decides."""
    kind = "exact_comparison" if metric.exact else "comparison"
    about = {"implementation": implementation, "metric": metric.name}
    found = data.find(data.summary, kind, **about)
    return found if found and found.params["count"] else None


def _ratio_in_short(data: ReportData, finding: Finding) -> str:
    """The verdict's sign and the ratio: ``▲ 4.00×``."""
    sign, _ = sign_of(data, finding)
    return f"{sign} {data.ratio(finding.params['low'])}×"


def _ratio_in_words(data: ReportData, metric: Metric, finding: Finding) -> Texts:
    """The ratio in words, or the verdict that it is no difference with the ratio behind it."""
    ratio = data.ratio(finding.params["low"])
    if finding.verdict in ("equivalent", "equal", "inconclusive"):
        verdict = data.words.each(f"verdict.{finding.verdict}")
        return data.words.each("ratio.no_difference", verdict=verdict, ratio=ratio)
    return data.specialised(f"ratio.{finding.kind}", metric.quantity.name, ratio=ratio)


def _by_implementation(data: ReportData, runs: Mapping[str, RunRow]) -> Table:
    """A row an implementation; beside its metrics, how they compare with the baseline's."""
    words, metrics, rows = data.words, _headline_metrics(data), []
    for name, run in runs.items():
        cells: list[Cell | Texts] = [Cell(name)]
        if run["status"] != "ok":
            cells += [data.status(run), *[Cell("–")] * (len(metrics) - 1)]
            rows.append(Row(cells, implementation=name))
            continue
        for metric in metrics:
            found = _comparison(data, name, metric)
            value = data.value(data.summary.metric_row(run, metric.name))
            cells.append(replace(value, note=_ratio_in_short(data, found) if found else ""))
        rows.append(Row(cells, implementation=name))
    return Table(
        [
            words.each("column.implementation"),
            *(with_unit(words.heading(metric.labels), metric) for metric in metrics),
        ],
        rows,
        numeric=range(1, 1 + len(metrics)),
        caption=data.specialised(
            "headline.setting.ratios", run=_headline_run(data), baseline=data.baseline
        ),
    )


def _by_metric(data: ReportData, runs: Mapping[str, RunRow]) -> Table:
    """A row a metric, a column an implementation, and each against the baseline."""
    words = data.words
    compared = [name for name in runs if data.baseline in runs and name != data.baseline]
    rows = []
    for metric in _headline_metrics(data):
        cells: list[Cell | Texts] = [with_unit(words.heading(metric.labels), metric)]
        for run in runs.values():
            row = data.summary.metric_row(run, metric.name)
            cells.append(data.value(row) if run["status"] == "ok" else data.status(run))
        for name in compared:
            found = _comparison(data, name, metric)
            none = Cell("" if metric.derived else "–")
            cells.append(_ratio_in_words(data, metric, found) if found else none)
        rows.append(Row(cells))
    against = words.each("ratio", baseline=data.baseline)
    return Table(
        [
            words.each("column.quantity"),
            *(data.same(name) for name in runs),
            *(data.same(name) if len(compared) > 1 else against for name in compared),
        ],
        rows,
        numeric=range(1, 1 + len(runs) + len(compared)),
        caption=words.each("headline.setting", run=_headline_run(data)),
    )


def _headline_run(data: ReportData) -> Texts:
    """The parameters of the headline table."""
    run = data.summary.ordered[0]
    given = {parameter.name: run[parameter.name] for parameter in data.benchmark.given}
    return data.words.listed(data.words.settings(data.benchmark, given))


def render_front(data: ReportData, renderer: FindingRenderer) -> Front:
    """Page one."""
    words = data.words
    author = data.config.get("author", {})
    notices = []
    if data.on_cpu:
        notices.append(data.specialised("no_gpu"))
    if any(f.kind == "environment" and f.verdict == "differs" for f in data.findings):
        notices.append(words.each("disagree"))
    labels = [words.label(entry["label"]) for entry in data.implementations.values()]
    ranks = {f.front: f for f in data.findings if f.front is not None}
    key = [ranks[rank] for rank in sorted(ranks)]
    runs = {run["implementation"]: run for run in data.summary.ordered}
    return Front(
        title=data.specialised("title", benchmark=data.benchmark.name),
        subtitle=words.each("subtitle", implementations=words.listed(labels)),
        author_name=author.get("name", "FlashLab"),
        author=[
            (words.each(label), legible(author[entry], f"author.{entry}"))
            for entry, label in (("name", "author"), ("id", "student_id"), ("course", "course"))
            if entry in author
        ],
        facts=_facts(data),
        notices=notices,
        key=renderer.render(key, front=True),
        ranked=sum(finding.kind != "roofline" for finding in key),
        figure=overview_figures(data).get(SUMMARY_FIGURE),
        headline=(_by_implementation if len(runs) > COLUMNS else _by_metric)(data, runs),
    )
