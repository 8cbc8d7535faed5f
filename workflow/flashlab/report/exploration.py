"""The data of the HTML page's charts: every metric of every run, by experiment.

The page's script draws from it what a reader chooses. The static figures, which paper and a browser
without scripts show, are drawn by `flashlab.figures`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, Row
from flashlab.labels import messages
from flashlab.report.data import EXACT_DIGITS, SAMPLED_DIGITS, ReportData
from flashlab.report.document import Exploration, Section
from flashlab.telling.values import Label, Tellable, heading


def explore(data: ReportData, sections: Sequence[Section]) -> Exploration:
    """The charts of the report's experiments, each of which has its section."""
    return Exploration(
        metrics=[
            {
                "name": metric.name,
                "label": heading(metric.labels),
                "unit": metric.unit,
                "is_logarithmic": metric.quantity.logarithmic,
                "digits": EXACT_DIGITS if metric.exact else SAMPLED_DIGITS,
            }
            for metric in data.benchmark.metrics
        ],
        charts=[
            _chart(data, experiment, section)
            for experiment, section in zip(data.experiments, sections, strict=True)
        ],
        figure_texts=list(_figure_texts(data)),
    )


def _chart(data: ReportData, experiment: Experiment, section: Section) -> dict[str, Any]:
    """An experiment as a chart; `figures` has the first metric of each of its static figures.

    A line has the runs of an implementation and variant; `style` and `position` tell how it is
    drawn.
    """
    benchmark, several = data.benchmark, len(experiment.variants) > 1
    names = [metric.name for metric in benchmark.metrics]
    curves = {curve.name for curve in benchmark.curves}  # which are not drawn against the sweep
    return {
        "id": section.id,
        "title": section.title,
        "axis": heading(experiment.parameter.labels),
        "symbol": experiment.parameter.symbol,
        "figures": {
            entry.id: names.index(benchmark.panels(figure["quantity"])[0].name)
            for figure, entry in zip(experiment.plan["figures"], section.figures, strict=True)
            if figure["quantity"] not in curves
        },
        "lines": [
            {
                "implementation": name,
                "style": data.implementations[name]["style"],
                "variant": data.variant(variant) if several else None,
                "position": position,
                "points": [_point(data, experiment, run, names) for run in runs],
            }
            for name in experiment.implementations
            for position, variant in enumerate(experiment.variants)
            if (runs := experiment.run_rows(name, variant))
        ],
    }


def _point(
    data: ReportData, experiment: Experiment, run: Row, metrics: Sequence[str]
) -> dict[str, Any]:
    """A run in a chart: its position, its number in the appendix, and its measurements.

    `along` are the sizes that vary along with the swept one; `status` says why there are no values.
    `values` has the value and the ends of its 95% interval for each metric, in their units.
    """
    succeeded = run["status"] == "ok"
    rows = [experiment.metric_row(run, name) if succeeded else None for name in metrics]
    return {
        "at": experiment.value_of(run),
        "along": ", ".join(f"{size.symbol} = {run[size.name]:,}" for size in experiment.covarying),
        "run": data.number_of(run),
        "status": None if succeeded else data.status(run),
        "values": [
            None if row is None or row["value"] is None else (row["value"], row["low"], row["high"])
            for row in rows
        ],
    }


def _figure_texts(data: ReportData) -> Iterator[Tellable]:
    """The figures' texts in all languages, so that the page can show one language alone.

    One that names a setting (the reference of a curve) stays in all of them.
    """
    benchmark = data.benchmark
    for parameter in benchmark.parameters:
        yield heading(parameter.labels)
        yield from (heading(each) for each in parameter.words.values())
    for metric in benchmark.metrics:
        yield heading(metric.labels)
        yield heading(metric.quantity.labels)
        if metric.part:
            yield Label(metric.part)
    languages = data.languages
    for key in messages(languages[0], "figures"):
        label_of = {language: messages(language, "figures")[key] for language in languages}
        if any("{metric}" in text for text in label_of.values()):
            for metric in benchmark.metrics:
                for label in (Label(metric.labels), heading(metric.labels)):
                    texts = dict(zip(languages, data.in_words(label), strict=True))
                    yield Label(
                        {key: text.format(metric=texts[key]) for key, text in label_of.items()}
                    )
        elif not any("{" in text for text in label_of.values()):
            yield Label(label_of)
    yield from (Label(experiment.plan["title"]) for experiment in data.experiments)
