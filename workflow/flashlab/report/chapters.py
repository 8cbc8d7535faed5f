"""The chapters of the report: neighbouring experiments together, each with its story."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flashlab.analysis.experiment import Experiment
from flashlab.figures.forms import EFFECTS, FEW
from flashlab.report.compact import compact_table, records_of
from flashlab.report.data import BETTER, ReportData
from flashlab.report.document import Chapter, FigureEntry, Section, Table
from flashlab.report.sections import values_along
from flashlab.report.story import section_story
from flashlab.telling.values import (
    Heading,
    Label,
    Listed,
    ParameterName,
    Tellable,
    in_turn,
    say,
    setting,
)

_WORD = re.compile(r"[A-Za-z0-9]{2}")
"""A position within a word, where titles may not be parted."""

_BRACKETS = {")": "(", "）": "（"}


def shared_title(titles: Sequence[str]) -> str:
    """The common beginning of titles: whole words, and no bracket left open."""
    if len(titles) == 1:
        return titles[0]
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*titles, strict=False))
    common = "".join(letters[0] for letters in alike)
    if any(_WORD.match(title[len(common) - 1 : len(common) + 1]) for title in titles if common):
        common = common.rpartition(" ")[0]
    for closing, opening in _BRACKETS.items():
        if common.count(opening) > common.count(closing):
            common = common[: common.rindex(opening)]
    return common.strip(" ,，、·(（") or titles[0]


def _title(data: ReportData, group: Sequence[Experiment]) -> Tellable:
    """``Experiment 2: Causal masking``, ``Experiments 6–9: Long sequences``."""
    first, last = (data.ordinals[group[i].name] for i in (0, -1))
    ordinal = say("experiment", number=first)
    if len(group) > 1:
        ordinal = say("experiments", first=first, last=last)
    return Listed([ordinal, title_of(group)], "")


def title_of(group: Sequence[Experiment]) -> Label:
    """The common beginning of several experiments' titles: ``Long sequences``."""
    titles = [experiment.plan["title"] for experiment in group]
    return Label(
        {language: shared_title([title[language] for title in titles]) for language in titles[0]}
    )


def _printed_figures(
    data: ReportData, group: Sequence[Experiment], sections: Sequence[Section]
) -> list[FigureEntry]:
    """The figures on paper; those of several experiments differ in the experiment alone."""
    figures, printed = [], data.printed_figures(group)
    for experiment, section in zip(group, sections, strict=True):
        for figure, entry in zip(experiment.plan["figures"], section.figures, strict=True):
            quantity = data.benchmark.quantities.get(figure["quantity"])
            if (experiment.name, figure["id"]) not in printed:
                continue
            if len(group) > 1 and quantity:
                better = say(BETTER[quantity.better])
                short = say("caption.of", title=section.title, better=better)
                entry = replace(entry, short=short)
            figures.append(entry)
    if (group[0].name, EFFECTS) in printed:
        figures.append(_effects(data, group[0]))
    return figures


def _effects(data: ReportData, experiment: Experiment) -> FigureEntry:
    """The figure of what a variant does to the time of each implementation."""
    number = data.figure_numbers[experiment.name, EFFECTS]
    (variant,) = experiment.varying_variants
    return FigureEntry(
        id=f"figure-{number}",
        path=data.results / "overview" / f"{EFFECTS}-{experiment.name}.svg",
        label=say("figure", number=number),
        caption=say("caption.effects", variant=Label(variant.labels)),
    )


def render_chapters(data: ReportData, sections: Sequence[Section]) -> list[Chapter]:
    """The chapters, of the sections on the experiments in their order."""
    chapters: list[Chapter] = []
    numbers: dict[frozenset[str], int] = {}
    captions: list[tuple[Tellable, int]] = []
    first = 1
    for number, group in data.chapters:
        members = sections[first - 1 : first - 1 + len(group)]
        figures = _printed_figures(data, group, members)
        is_single = len(figures) == 1 and len(group[0].implementations) <= FEW
        beside = sum(not figure.wide for figure in figures) == 1 and not is_single
        story = section_story(data, group)
        table = compact_table(data, group, numbers, narrow=beside)
        caption = _table_caption(data, group, table, numbers, captions) if table else None
        chapters.append(
            Chapter(
                id=f"chapter-{group[0].name}",
                number=number,
                title=_title(data, group),
                setting=members[0].setting if len(group) == 1 else _settings(data, group),
                story=story,
                figures=figures,
                table=table and replace(table, caption=None),
                table_label=say("table", number=number),
                table_caption=caption,
                sections=members,
                beside=beside and table is not None,
            )
        )
        if table and table.caption:
            captions.append((table.caption, number))
        for experiment in group if table else ():
            for variant in experiment.variants:
                numbers.setdefault(records_of(experiment, variant), number)
        first += len(group)
    return chapters


def _table_caption(
    data: ReportData,
    group: Sequence[Experiment],
    table: Table,
    numbers: Mapping[frozenset[str], int],
    captions: Sequence[tuple[Tellable, int]],
) -> Tellable:
    """A table's caption, with the number of the table that has the variants it leaves out.

    One that an earlier table has is not repeated.
    """
    assert table.caption is not None
    before = next((number for said, number in captions if said == table.caption), None)
    caption = table.caption if before is None else say("table.as", number=before)
    elsewhere = [
        say("table.elsewhere", variant=Heading(data.variant(variant)), number=number)
        for experiment in group
        for variant in experiment.variants
        if (number := numbers.get(records_of(experiment, variant))) and len(experiment.variants) > 1
    ]
    return in_turn([caption, *elsewhere])


def _settings(data: ReportData, group: Sequence[Experiment]) -> Tellable:
    """The settings of several experiments: those that they share, and those of each."""
    experiment = group[0]
    rows = [row for each in group for row in each.runs]
    fixed, differing = [], []
    for parameter in data.benchmark.stated(rows):
        values = sorted({row[parameter.name] for row in rows})
        if parameter == experiment.parameter or parameter in experiment.covaried:
            continue
        if len(values) == 1:
            fixed.append(setting(parameter, values[0]))
        elif not any(p == parameter for p in experiment.varying):
            differing.append(setting(parameter, *values))
    along = [values_along(experiment, parameter) for parameter in experiment.covaried]
    parts = [
        say(
            "setting.shared",
            parameter=ParameterName(experiment.parameter.name),
            values=Listed([str(value) for value in experiment.values]),
            fixed=Listed(fixed),
            differing=Listed(differing),
        )
    ]
    if along:
        parts.append(say("setting.varied", parameters=Listed(along)))
    return in_turn(parts)
