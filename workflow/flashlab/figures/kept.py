"""The stage of the experiments' figures, which draws only those that would change.

Where all of them are, nothing that draws is imported, which takes longer than all else.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import COMPARISONS
from flashlab.files import canonical, read_json
from flashlab.labels import labels_file
from flashlab.plan.digests import damage, read_digests, write_digests
from flashlab.sources import sources_of
from flashlab.telling.glyphs import FONTS, legible_plan

DRAWN = "drawn"
"""The folder beside that of the figures in which they are kept."""

Plan = Mapping[str, Any]
Heights = Mapping[str, Mapping[str, float]]
"""The height of each figure in mm, by its experiment and id."""


Missing = tuple[Plan, Mapping[Path, tuple[Mapping[str, Any], float]]]
"""Figures of a planned experiment to draw: each with its height in mm, by its file."""


def draw_figures(
    plan_files: Sequence[Path],
    tables: Path,
    ceilings_file: Path | None,
    languages_file: Path,
    heights_file: Path,
    cores: int,
    output: Path,
) -> None:
    """Draw the figures of all experiments as ``output/<experiment>/<id>.svg``.

    What is drawn is kept in the folder ``drawn`` beside it, under a name with the digest of all
    that it is drawn from, and copied from there: Snakemake empties the folder of a job's output.
    Labels are drawn as `legible_plan` gives them; any other character that the vendored fonts lack
    is an error.

    Args:
        plan_files: the experiments' plans (``plan/experiments/<experiment>.json``).
        tables: the folder of all experiments' tables.
        ceilings_file: the machine's ceilings, if they were measured.
        languages_file: the languages of the words in the figures.
        heights_file: the height of each figure in mm (`report.layout`).
        cores: how many processes draw.
        output: the folder of the figures.
    """
    heights, languages = read_json(heights_file), read_json(languages_file)
    plans = [plan for file in plan_files if (plan := legible_plan(read_json(file)))["figures"]]
    shared = hashlib.sha256()
    common = [*sources_of(__name__), labels_file("figures"), *sorted(FONTS.glob("*.ttf"))]
    for file in (languages_file, ceilings_file, *common):
        shared.update(file.read_bytes() if file else b"")
    folder = output.with_name(DRAWN)
    kept = {
        folder / f"{plan['name']}-{figure['id']}-{digest[:16]}.svg": (plan, figure)
        for plan in plans
        for figure, digest in _digests(plan, tables, heights, shared.digest())
    }
    digests = read_digests(output.parent)
    whole = {path for path in kept if path in digests and damage(path, digests) is None}
    _draw([*_missing(plans, kept, heights, whole)], tables, ceilings_file, languages, cores)
    output.mkdir(parents=True, exist_ok=True)
    for path, (plan, figure) in kept.items():
        copy = output / plan["name"] / f"{figure['id']}.svg"
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
    for path in set(folder.glob("*")) - kept.keys():
        path.unlink()
    if folder.is_dir():
        write_digests(folder)


def _digests(
    plan: Plan, tables: Path, heights: Heights, shared: bytes
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each figure of an experiment with the digest of its inputs.

    `shared` is the digest of what all figures are drawn from.
    """
    name, data = plan["name"], hashlib.sha256(shared)
    data.update(canonical({key: value for key, value in plan.items() if key != "figures"}).encode())
    for file in sorted((tables / name).glob("*.csv")):
        data.update(file.read_bytes())
    with tables.with_name(COMPARISONS).open("rb") as compared:
        data.update(b"".join(line for line in compared if line.startswith(f"{name},".encode())))
    for figure in plan["figures"]:
        of_figure = data.copy()
        of_figure.update(canonical([figure, heights[name][figure["id"]]]).encode())
        yield figure, of_figure.hexdigest()


def _missing(
    plans: Sequence[Plan],
    kept: Mapping[Path, tuple[Plan, Mapping[str, Any]]],
    heights: Heights,
    whole: Collection[Path],
) -> Iterator[Missing]:
    """The figures that are not kept yet, or not as they were drawn, by experiment."""
    for plan in plans:
        figures = {
            path: (figure, heights[plan["name"]][figure["id"]])
            for path, (of, figure) in kept.items()
            if of is plan and path not in whole
        }
        if figures:
            yield plan, figures


def _draw(
    missing: Sequence[Missing],
    tables: Path,
    ceilings_file: Path | None,
    languages: Sequence[str],
    cores: int,
) -> None:
    if not missing:
        return
    from flashlab.figures.stage import draw_missing

    draw_them = partial(
        draw_missing, tables=tables, ceilings_file=ceilings_file, languages=languages
    )
    if cores > 1 and len(missing) > 1:
        with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
            list(pool.map(draw_them, missing))
    else:
        for each in missing:
            draw_them(each)
