"""The chapters of the report: neighbouring experiments together, each with its conclusion."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from flashlab.analysis.experiment import Sweep, sections_of
from flashlab.analysis.finding import Finding
from flashlab.report.compact import compact_table, records_of
from flashlab.report.data import BETTER, ReportData
from flashlab.report.document import Chapter, FigureEntry, Section, Table
from flashlab.report.sections import values_along
from flashlab.report.statements import FindingRenderer, printed_figures
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


def _title(data: ReportData, group: Sequence[Sweep], first: int) -> Tellable:
    """``Experiment 2: Causal masking``, ``Experiments 6–9: Long sequences``."""
    if len(group) == 1:
        ordinal = say("experiment", number=first)
    else:
        ordinal = say("experiments", first=first, last=first + len(group) - 1)
    titles = [sweep.plan["title"] for sweep in group]
    shared = {
        language: shared_title([title[language] for title in titles]) for language in titles[0]
    }
    return Listed([ordinal, Label(shared)], "")


def _printed_figures(
    data: ReportData, group: Sequence[Sweep], sections: Sequence[Section]
) -> list[FigureEntry]:
    """The figures on paper; those of several experiments differ in the experiment alone."""
    found = []
    entries = {
        (sweep.name, figure["id"]): (section, figure, entry)
        for sweep, section in zip(group, sections, strict=True)
        for figure, entry in zip(sweep.plan["figures"], section.figures, strict=True)
    }
    for section, figure, entry in (entries[key] for key in printed_figures(data, group)):
        quantity = data.benchmark.quantities.get(figure["quantity"])
        if len(group) > 1 and quantity:
            short = say(
                "caption.of",
                title=section.title,
                better=say(BETTER[quantity.better]),
            )
            entry = replace(entry, short=short)
        found.append(entry)
    return found


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
        figures = _printed_figures(data, group, members)
        conclusion = conclusions.get(group[0].name)
        found.append(
            Chapter(
                id=f"chapter-{group[0].name}",
                number=number,
                title=_title(data, group, first),
                setting=members[0].setting if len(group) == 1 else _settings(data, group),
                conclusion=renderer.conclusion(conclusion) if conclusion else None,
                figures=figures,
                table=table and replace(table, caption=None),
                table_label=say("table", number=number),
                table_caption=_table_caption(data, group, table, told) if table else None,
                sections=members,
            )
        )
        for sweep in group:
            for variant in sweep.variants:
                told.setdefault(records_of(sweep, variant), number)
        first += len(group)
    return found


def _table_caption(
    data: ReportData, group: Sequence[Sweep], table: Table, told: dict[frozenset[str], int]
) -> Tellable:
    """A table's caption, and in which table the variants are that it leaves out."""
    assert table.caption is not None
    elsewhere = [
        say("table.elsewhere", variant=Heading(data.variant(variant)), number=number)
        for sweep in group
        for variant in sweep.variants
        if (number := told.get(records_of(sweep, variant))) and len(sweep.variants) > 1
    ]
    return in_turn([table.caption, *elsewhere])


def _settings(data: ReportData, group: Sequence[Sweep]) -> Tellable:
    """The settings of several experiments: what they share, and what each of them differs in."""
    sweep = group[0]
    rows = [row for each in group for row in each.runs]
    fixed, differing = [], []
    for parameter in data.benchmark.parameters:
        values = sorted({row[parameter.name] for row in rows})
        if parameter == sweep.parameter or parameter in sweep.covaried:
            continue
        if len(values) == 1:
            fixed.append(setting(parameter, values[0]))
        elif not any(p == parameter for p in sweep.varying):
            differing.append(setting(parameter, *values))
    along = [values_along(sweep, parameter) for parameter in sweep.covaried]
    told = [
        say(
            "setting.shared",
            parameter=ParameterName(sweep.parameter.name),
            values=Listed([str(value) for value in sweep.values]),
            fixed=Listed(fixed),
            differing=Listed(differing),
        )
    ]
    if along:
        told.append(say("setting.varied", parameters=Listed(along)))
    return in_turn(told)
