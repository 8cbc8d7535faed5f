"""The report's content as data, composed of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.remarks import Remark
from flashlab.report.appendix import (
    describe_method,
    describe_runs,
    list_runs,
    list_symbols,
)
from flashlab.report.chapters import render_chapters
from flashlab.report.comparison import render_implementations
from flashlab.report.data import ReportData
from flashlab.report.document import Report
from flashlab.report.environment import render_environment
from flashlab.report.exploration import explore
from flashlab.report.front import render_front, render_headline
from flashlab.report.heat_map import render_heat_map
from flashlab.report.published import render_published
from flashlab.report.sections import render_section
from flashlab.telling.values import say

MIN_CHOICES = 3
"""Fewest implementations among which choosing is more than a comparison with the baseline."""


def compose(
    config: Mapping[str, Any], results: Path, ceilings: Path | None, remarks: Sequence[Remark]
) -> Report:
    """The report of the dataset in `results`, from its plans, tables and observations.

    `ceilings` is the file of the device's measured ceilings, if there is one; `remarks` are the
    author's.
    """
    data = ReportData(config, results, ceilings)
    sections = [render_section(data, remarks, experiment) for experiment in data.experiments]
    chapters = render_chapters(data, sections)
    front = render_front(data, chapters)
    is_of_few = front.map is not None and len(data.headline) < MIN_CHOICES  # the sections have it
    return Report(
        languages=tuple(config["languages"]),
        benchmark=data.benchmark,
        front=front,
        headline=None if front.headline or is_of_few else render_headline(data),
        heat_map=render_heat_map(data),
        chapters=chapters,
        sections=sections,
        implementations=render_implementations(data),
        published=render_published(data),
        method=describe_method(data),
        symbols=list_symbols(data),
        environment=render_environment(data),
        runs_note=describe_runs(data),
        runs=list_runs(data),
        elsewhere=say("elsewhere", page=f"report/{data.benchmark.report}.html"),
        created=max(data.distinct("started")),
        exploration=explore(data, sections),
    )
