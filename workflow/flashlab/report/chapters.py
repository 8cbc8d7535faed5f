"""The chapters of the report: neighbouring experiments together, each with its conclusion."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from flashlab.findings.model import Finding
from flashlab.report.compact import compact_table, records_of
from flashlab.report.conclusions import render_conclusion
from flashlab.report.data import ReportData
from flashlab.report.document import Chapter, FigureEntry, Section
from flashlab.report.statements import FindingRenderer
from flashlab.report.wording import Texts, join_sentences
from flashlab.sweep import Sweep, sections_of

FIGURES_OF_MANY = 2
"""Figures of an experiment that are printed where its implementations are too many for all."""

_WORD = re.compile(r"[A-Za-z0-9]{2}")
"""The end of what is shared and what follows, within a word."""

_BRACKETS = {")": "(", "）": "（"}


def shared_title(titles: Sequence[str]) -> str:
    """What titles have in common at their beginning: whole words, and no bracket left open."""
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


def _title(data: ReportData, group: Sequence[Sweep], first: int) -> Texts:
    """``Experiment 2: Causal masking``, ``Experiments 6–9: Long sequences``."""
    words = data.words
    if len(group) == 1:
        ordinal = words.each("experiment", number=first)
    else:
        ordinal = words.each("experiments", first=first, last=first + len(group) - 1)
    titles = [words.label(sweep.plan["title"]) for sweep in group]
    return {
        language: ordinal[language] + shared_title([title[language] for title in titles])
        for language in words.languages
    }


def _printed_figures(data: ReportData, sections: Sequence[Section]) -> list[FigureEntry]:
    """The figures on paper: all of one experiment with the headline's implementations alone.

    Of several experiments the first figure of each, with what it is of.
    """
    if len(sections) > 1:
        return [
            replace(figure, short=data.words.each("caption.of", title=section.title, caption=text))
            for section in sections
            for figure in section.figures[:1]
            if (text := figure.short or figure.caption)
        ]
    (section,) = sections
    name = section.id.removeprefix("experiment-")
    if set(data.implementations) <= set(data.headline) or data.sweep(name).has_alternatives:
        return section.figures
    return section.figures[:FIGURES_OF_MANY]


def render_chapters(
    data: ReportData, renderer: FindingRenderer, sections: Sequence[Section]
) -> list[Chapter]:
    """The chapters, of the sections on the experiments in their order."""
    by_name = {sweep.name: section for sweep, section in zip(data.sweeps, sections, strict=True)}
    conclusions: dict[str | None, Finding] = {
        finding.experiment: finding
        for finding in data.findings
        if finding.kind == "conclusion" and finding.subject["topic"] == "section"
    }
    found: list[Chapter] = []
    told: dict[frozenset[str], int] = {}
    first = 1
    for number, group in enumerate(sections_of(data.sweeps), start=1):
        members = [by_name[sweep.name] for sweep in group]
        table = compact_table(data, group, told)
        figures = _printed_figures(data, members)
        conclusion = conclusions.get(group[0].name)
        found.append(
            Chapter(
                id=f"chapter-{group[0].name}",
                number=number,
                title=_title(data, group, first),
                setting=members[0].setting if len(group) == 1 else _settings(data, group),
                conclusion=render_conclusion(renderer, conclusion) if conclusion else None,
                figures=figures,
                table=table,
                table_label=data.words.each("table", number=number),
                elsewhere=_elsewhere(data, group, told),
                sections=members,
            )
        )
        for sweep in group:
            for variant in sweep.variants:
                told.setdefault(records_of(sweep, variant), number)
        first += len(group)
    return found


def _elsewhere(
    data: ReportData, group: Sequence[Sweep], told: dict[frozenset[str], int]
) -> Texts | None:
    """In which table the variants are that this one leaves out."""
    parts = [
        data.words.each("table.elsewhere", variant=data.variant(variant), number=number)
        for sweep in group
        for variant in sweep.variants
        if (number := told.get(records_of(sweep, variant))) and len(sweep.variants) > 1
    ]
    return join_sentences(parts) if parts else None


def _settings(data: ReportData, group: Sequence[Sweep]) -> Texts:
    """The settings of several experiments: what they share, and what each of them differs in."""
    words, sweep = data.words, group[0]
    rows = [row for each in group for row in each.runs]
    fixed, differing = [], []
    for parameter in data.benchmark.parameters:
        values = sorted({row[parameter.name] for row in rows})
        if parameter == sweep.parameter or parameter in sweep.covaried:
            continue
        if len(values) == 1:
            fixed.append(words.setting(parameter, values[0]))
        elif not any(p == parameter for p in sweep.varying):
            differing.append(words.setting(parameter, *values))
    along = [
        words.each(
            "setting.varied.values",
            parameter=words.parameter(parameter),
            values=words.listed(
                [
                    str({sweep.value_of(r): r[parameter.name] for r in sweep.runs}[value])
                    for value in sweep.values
                ]
            ),
        )
        for parameter in sweep.covaried
    ]
    told = [
        data.words.each(
            "setting.shared",
            parameter=words.parameter(sweep.parameter),
            values=words.listed([str(value) for value in sweep.values]),
            fixed=words.listed(fixed),
            differing=words.listed(differing),
        )
    ]
    if along:
        told.append(words.each("setting.varied", parameters=words.listed(along)))
    return join_sentences(told)
