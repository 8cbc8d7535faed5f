"""Curves: the values of runs step by step, and below them the differences from the naive one's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from flashlab.analysis.experiment import Experiment
from flashlab.benchmarks.model import Curve
from flashlab.figures.forms import HALF_INCHES, LOWER_INCHES, UPPER_INCHES
from flashlab.figures.labels import capitalised, in_languages, label_variant, said
from flashlab.figures.panel import draw_reference, draw_series
from flashlab.figures.style import (
    DASHES,
    GREY,
    Style,
    draw_legend,
    handle,
    lay_out,
    looks_of,
    new_panels,
    scale_linearly,
    title_panel,
)

LOOK: Style = {"marker": "none", "linewidth": 0.8, "alpha": 0.85}


def _curve_frame(experiment: Experiment, names: Sequence[str], curve: Curve) -> pd.DataFrame:
    """A row for each step of each run, with its ``difference`` from the first of the baseline's."""
    curves = [
        pd.DataFrame({"value": values, "place": np.arange(1, len(values) + 1)}).assign(
            implementation=run["implementation"],
            variant=experiment.variants.index(experiment.variant_of(run)),
            run=number,
            low=np.nan,
            high=np.nan,
        )
        for number, run in enumerate(experiment.ordered)
        if run["implementation"] in names and run["status"] == "ok"
        if (values := experiment.curve_of(run, curve.name))
    ]
    if not curves:
        return pd.DataFrame(columns=["implementation", "run"])
    data = pd.concat(curves, ignore_index=True)
    is_first = data["run"] == data[data["implementation"] == experiment.baseline]["run"].min()
    first = data[is_first].set_index("place")["value"]
    return data.assign(difference=(data["value"] - data["place"].map(first)).mask(is_first))


def _difference(experiment: Experiment, languages: Sequence[str]) -> list[str]:
    """The title of the differences, which names the run that the curves differ from."""
    reference = {}
    for language in languages:
        setting = label_variant(experiment.benchmark, experiment.variants[0], [language])
        if len(experiment.values) > 1:
            setting = f"{experiment.parameter.symbol} = {experiment.values[0]}"
        reference[language] = experiment.baseline + (f" [{setting}]" if setting else "")
    return said("difference", languages, reference=reference)


def draw_curves(
    experiment: Experiment,
    languages: Sequence[str],
    names: Sequence[str],
    curve: Curve,
    whole: float,
) -> Figure:
    """The curves of an experiment, and their differences from the first one of the baseline."""
    data = _curve_frame(experiment, names, curve)
    looks = looks_of(experiment.plan["implementations"])
    shares = [UPPER_INCHES, LOWER_INCHES]
    figure, panels = new_panels(HALF_INCHES, 2, sharex=True, height_ratios=shares)
    upper, lower = panels[:, 0]
    for _, run in data.groupby("run"):
        draw_series(upper, run, looks, **LOOK)
        draw_series(lower, run.assign(value=run["difference"]), looks, **LOOK)
    draw_reference(lower, 0.0)
    title = in_languages(capitalised(curve.labels), languages)
    title_panel(upper, [f"{title} ({curve.unit})"])
    title_panel(lower, _difference(experiment, languages))
    scale_linearly(upper.yaxis, 4)
    scale_linearly(lower.yaxis, 3)
    lower.set_xlabel(in_languages(capitalised(curve.along), languages))
    handles = [
        handle(name, name, color=looks[name].shade) for name in data["implementation"].unique()
    ]
    for dashes, variant in zip(DASHES, experiment.variants, strict=False):
        if len(experiment.variants) > 1:
            words = label_variant(experiment.benchmark, variant, languages)
            handles.append(handle(words, color=GREY, linestyle=(0, dashes or None)))
    draw_legend(figure, handles)
    lay_out(figure, UPPER_INCHES, whole)
    return figure
