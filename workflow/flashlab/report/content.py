"""What the report holds, as data: its parts, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.remarks import Remark
from flashlab.report.appendix import checks, method, runs, runs_note, symbols
from flashlab.report.comparison import compose_implementations
from flashlab.report.data import ReportData
from flashlab.report.document import Report
from flashlab.report.environment import EnvironmentPage, disagreements
from flashlab.report.front import compose_front
from flashlab.report.ledger import LedgerPage
from flashlab.report.sections import compose_section
from flashlab.report.statements import FindingRenderer
from flashlab.report.wording import Texts


def compose(
    config: Mapping[str, Any],
    results: Path,
    ceilings: Path | None,
    remarks: Sequence[Remark],
) -> Report:
    """The report of the dataset in `results`, from its plans, tables and findings.

    `ceilings` is the file of the device's measured ceilings, if there is one; `remarks` are the
    author's.
    """
    data = ReportData(config, results, ceilings)
    renderer = FindingRenderer(data)
    return Report(
        languages=data.words.languages,
        front=compose_front(data, renderer, bool(disagreements(data))),
        sections=[
            compose_section(data, renderer, remarks, sweep, position)
            for position, sweep in enumerate(data.sweeps, start=1)
        ],
        implementations=compose_implementations(data, renderer),
        ledger=LedgerPage(data).ledger(),
        method=method(data),
        symbols=symbols(data),
        environment=EnvironmentPage(data).environment(),
        checks=checks(data),
        runs_note=runs_note(data),
        runs=runs(data),
        created=max(data.distinct("started")),
    )


def texts_joined(texts: Texts, languages: Sequence[str]) -> str:
    """The distinct texts, one after the other."""
    return " ".join(dict.fromkeys(texts[language] for language in languages))
