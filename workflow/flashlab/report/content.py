"""What the report holds, as data: its parts, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.remarks import Remark
from flashlab.report.appendix import checks, method, runs, runs_note, symbols
from flashlab.report.comparison import Comparison
from flashlab.report.document import Report
from flashlab.report.environment import EnvironmentPage, disagreements
from flashlab.report.front import FrontPage
from flashlab.report.ledger import LedgerPage
from flashlab.report.material import Material
from flashlab.report.sections import Sections
from flashlab.report.statements import Speaker
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
    material = Material(config, results, ceilings)
    speaker = Speaker(material)
    sections = Sections(material, speaker, remarks)
    return Report(
        languages=material.words.languages,
        front=FrontPage(material, speaker).front(bool(disagreements(material))),
        sections=[
            sections.section(position, experiment)
            for position, experiment in enumerate(material.experiments, start=1)
        ],
        implementations=Comparison(material, speaker).implementations(),
        ledger=LedgerPage(material).ledger(),
        method=method(material),
        symbols=symbols(material),
        environment=EnvironmentPage(material).environment(),
        checks=checks(material),
        runs_note=runs_note(material),
        runs=runs(material),
        created=max(material.distinct("started")),
    )


def texts_joined(texts: Texts, languages: Sequence[str]) -> str:
    """The distinct texts, one after the other."""
    return " ".join(dict.fromkeys(texts[language] for language in languages))
