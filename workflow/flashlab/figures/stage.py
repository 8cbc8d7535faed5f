"""Figures from a plan, tables and comparisons, as SVG files that are always the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from flashlab.analysis.ceilings import Ceiling, read_ceilings
from flashlab.analysis.comparisons import read_comparisons
from flashlab.analysis.experiment import COMPARISONS, Experiment, ladder_of, read_experiment
from flashlab.figures.bars import draw_bars
from flashlab.figures.curves import draw_curves
from flashlab.figures.effects import draw_effects
from flashlab.figures.forms import FEW, is_of_many, size_of
from flashlab.figures.lines import draw_lines
from flashlab.figures.many import draw_bands, draw_groups, draw_longest, draw_marks
from flashlab.figures.speedups import draw_speedups
from flashlab.figures.steps import draw_clocks, draw_profile, draw_split, draw_steps
from flashlab.figures.strips import draw_strips
from flashlab.figures.style import drawing, save
from flashlab.files import read_json, write_json
from flashlab.telling.glyphs import legible_plan

MM = 25.4
"""Millimetres in an inch."""

HEIGHTS_MM = (45, 60, 80, 110, 150, 200)
"""The heights of figures: each has the first at which it is legible."""


def draw(
    experiment: Experiment,
    languages: Sequence[str],
    figure: Mapping[str, Any],
    height: float,
    product: Ceiling | None = None,
    comparisons: pd.DataFrame | None = None,
) -> Figure:
    """One figure of an experiment, so many inches high: of a curve, or a panel for each metric.

    The panels hold bars where the runs are alternatives at one setting, lines, or of many
    implementations what `figures.many` has. `product` is the ceiling of rates in the runs' number
    format, if it was measured, `comparisons` the frame that speed-ups are from.

    Raises:
        UnknownNameError: the benchmark has no such quantity.
    """
    names, quantity = figure["implementations"], figure["quantity"]
    for curve in experiment.benchmark.curves:
        if curve.name == quantity:
            return draw_curves(experiment, languages, names, curve, height)
    metrics = experiment.benchmark.panels(quantity)
    panel = size_of(experiment, figure).panel_at(height)
    if experiment.has_alternatives:
        return draw_bars(experiment, languages, names, metrics, panel, height)
    if not is_of_many(experiment, names):
        return draw_lines(
            experiment, languages, names, metrics, product, comparisons, panel, height
        )
    quantity = metrics[0].quantity
    if quantity.exact:
        return draw_bands(experiment, languages, names, metrics[0], panel, height)
    if quantity.logarithmic:
        return draw_marks(experiment, languages, names, metrics, panel, height)
    return draw_groups(experiment, languages, names, metrics, product, panel, height)


def product_of(experiment: Experiment, ceilings_file: Path | None) -> Ceiling | None:
    """The measured matrix product in the one number format of an experiment's runs."""
    dtypes = {row["dtype"] for row in experiment.runs}
    if ceilings_file is None or len(dtypes) != 1:
        return None
    return read_ceilings(read_json(ceilings_file)).matrix.get(dtypes.pop())


def draw_figures(
    plan_files: Sequence[Path],
    tables: Path,
    ceilings_file: Path | None,
    languages_file: Path,
    cores: int,
    output: Path,
) -> None:
    """Draw the figures of all experiments as ``output/<experiment>/<id>.svg``.

    Labels are drawn as `legible_plan` gives them; any other character that the vendored fonts lack
    is an error.

    Args:
        plan_files: the experiments' plans (``plan/experiments/<experiment>.json``).
        tables: the folder of all experiments' tables.
        ceilings_file: the machine's ceilings, if they were measured.
        languages_file: the languages of the words in the figures.
        cores: how many processes draw.
        output: the folder of the figures.
    """
    plans = [plan for file in plan_files if (plan := legible_plan(read_json(file)))["figures"]]
    languages = read_json(languages_file)
    draw_them = partial(_draw_planned, tables, ceilings_file, languages, output)
    if cores > 1 and len(plans) > 1:
        with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
            list(pool.map(draw_them, plans))
    else:
        for plan in plans:
            draw_them(plan)
    output.mkdir(parents=True, exist_ok=True)


def _draw_planned(
    tables: Path,
    ceilings_file: Path | None,
    languages: Sequence[str],
    output: Path,
    plan: Mapping[str, Any],
) -> None:
    """Draw the figures of a planned experiment."""
    experiment = read_experiment(plan, tables)
    product = product_of(experiment, ceilings_file)
    comparisons = read_comparisons(tables.with_name(COMPARISONS))
    with drawing():
        for figure in plan["figures"]:
            least = MM * size_of(experiment, figure).least
            height = next((each for each in HEIGHTS_MM if each >= least), least) / MM
            drawn = draw(experiment, languages, figure, height, product, comparisons)
            save(drawn, output / plan["name"] / f"{figure['id']}.svg")


def draw_overview(
    plan_files: Sequence[Path],
    tables: Path,
    comparisons_file: Path,
    languages_file: Path,
    output: Path,
) -> None:
    """Draw the figures across experiments into `output`, and ``drawn.json``, the list of their ids.

    Of many implementations there are how far each is from the best (``strips``) and their rates
    at the longest sweep (``longest``); of two, the speed-ups of each sweep
    (``speedups-<experiment>``); and what a variant does to each implementation
    (``effects-<experiment>``). Where implementations are steps, there are their times by every
    clock (``clocks``) and bar charts of them (``steps``, both unless a simulator ran them) and of
    where a time goes (``split``).
    """
    plans = [legible_plan(read_json(path)) for path in plan_files]
    experiments = [read_experiment(plan, tables) for plan in plans]
    names = []
    languages = read_json(languages_file)
    with drawing():
        for name, figure in _across(experiments, comparisons_file, languages):
            save(figure, output / f"{name}.svg")
            names.append(name)
    write_json(output / "drawn.json", names)


def _across(
    experiments: Sequence[Experiment], comparisons_file: Path, languages: Sequence[str]
) -> Iterator[tuple[str, Figure]]:
    """The figures across experiments, by their ids."""
    swept = [experiment for experiment in experiments if not experiment.is_summary]
    ladder = ladder_of(swept)
    alone = [each for each in swept if not each.packed and not each.has_alternatives]
    if ladder is None and any(len(each.implementations) > FEW for each in alone):
        for name, draw_across in (("strips", draw_strips), ("longest", draw_longest)):
            if figure := draw_across(alone, languages):
                yield name, figure
    comparisons = read_comparisons(comparisons_file)
    yield from draw_speedups(swept, comparisons, languages)
    yield from draw_effects(swept, comparisons, languages)
    if ladder:
        if not ladder.is_simulated and (clocks := draw_clocks(ladder, languages)):
            yield "clocks", clocks
        if not ladder.is_simulated:
            yield "steps", draw_steps(ladder, comparisons, languages)
        if split := draw_split(ladder, languages):
            yield "split", split
        climbing = (each for each in swept if each.steps and not each.is_of_problems)
        for profile in (draw_profile(each, languages) for each in climbing):
            if profile is not None:
                yield "profile", profile
                break
