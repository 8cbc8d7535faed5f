"""Method and definitions, the count of all checks, and the appendix with every run."""

from __future__ import annotations

import string
from collections import Counter
from pathlib import Path

from flashlab.findings.model import Finding
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table
from flashlab.report.wording import Texts, join_sentences

SIGNS = {"▲ ▼": "better", "= ◆ ○": "undecided", "×": "empty"}


def describe_method(data: ReportData) -> list[Texts]:
    """How it was measured and decided, a paragraph each: the benchmark's own, then the common ones.

    The benchmark's are the messages below ``<benchmark>.method``, in the order of the catalog.
    """
    words = data.words
    protocols = data.distinct("protocol")
    keys = [
        *words.keys_below(f"{data.benchmark.name}.method"),
        *(f"method.{key}" for key in protocols),
        *(f"method.processes.{_processes_key(f)}" for f in data.findings if f.kind == "processes"),
        *(f"method.{key}" for key in ("difference", "growth", "conclusions")),
    ]
    params = {k: v for f in data.findings if f.kind == "processes" for k, v in f.params.items()}
    return [words.each(key, **params) for key in keys]


def _processes_key(finding: Finding) -> str:
    """Which message tells of the processes; means have no interval, so no spread is known."""
    return (
        finding.verdict if finding.verdict == "single" or "largest" in finding.params else "means"
    )


def list_symbols(data: ReportData) -> Table:
    """The letters and signs that the report uses."""
    words, rows = data.words, []
    for parameter in data.benchmark.parameters:
        if parameter.is_variant:
            continue
        meaning = words.label(parameter.labels)
        if parameter.derived_from:
            sources = [data.benchmark.parameter(name).symbol for name in parameter.derived_from]
            meaning = words.each("symbol.derived", meaning=meaning, symbols=words.listed(sources))
        rows.append(Row([Cell(parameter.symbol), meaning]))
    rows += [Row([Cell(sign), words.each(f"symbol.{key}")]) for sign, key in SIGNS.items()]
    return Table([words.each("column.symbol"), words.each("column.meaning")], rows)


def count_checks(data: ReportData) -> Table:
    """How often each kind of finding came to each verdict, those that found nothing too."""
    words = data.words
    counts: dict[str, Counter[str]] = {}
    for finding in data.findings:
        counts.setdefault(finding.kind, Counter())[finding.verdict] += 1
    rows = []
    for kind, verdicts in counts.items():
        listed = [
            words.each("check.verdict", verdict=words.each(f"verdict.{verdict}"), count=count)
            for verdict, count in verdicts.most_common()
        ]
        total = sum(verdicts.values())
        rows.append(Row([words.each(f"kind.{kind}"), Cell(str(total)), words.listed(listed)]))
    headings = ("check", "count", "verdicts")
    return Table([words.each(f"column.{key}") for key in headings], rows, numeric=range(1, 2))


def describe_runs(data: ReportData) -> Texts:
    """Where the records lie, and what the letters for the warnings stand for."""
    words = data.words
    folders = sorted({Path(run["record"]).parent.as_posix() for run in data.runs})
    letters = [
        words.each("warning.letter", letter=letter, warning=words.each(f"warning.{code}"))
        for code, letter in _warning_letters(data).items()
    ]
    note = words.each("runs.note", folders=words.listed(folders))
    if not letters:
        return note
    return join_sentences([note, words.each("runs.letters", letters=words.listed(letters))])


def _warning_letters(data: ReportData) -> dict[str, str]:
    codes = {w["code"] for run in data.runs for w in run["warnings"] or ()}
    return dict(zip(sorted(codes), string.ascii_lowercase, strict=False))


def list_runs(data: ReportData) -> Table:
    """Every run: its number, and of each process's record the file, status and warnings.

    The status is the record's own word, as the file's name is; the warnings are letters. Those on
    the run as a whole stand at its first record.
    """
    words, letters = data.words, _warning_letters(data)
    rows = []
    for run, records in zip(data.runs, data.records_of_runs, strict=True):
        number = data.number_of(run)
        of_records = [w for record in records for w in record["warnings"] or ()]
        of_run = [w for w in run["warnings"] or () if w not in of_records]
        for position, record in enumerate(records):
            warnings = [*(record["warnings"] or ()), *(() if position else of_run)]
            cells: list[Cell | Texts] = [
                Cell("" if position else str(number)),
                Cell(Path(record["record"]).name, file=record["record"]),
                Cell(record["status"] if record["status"] != "ok" else ""),
                Cell("".join(sorted({letters[w["code"]] for w in warnings}))),
            ]
            place = "" if position else f"run-{number}"
            rows.append(Row(cells, id=place, implementation=run["implementation"]))
    headings = ("run", "record", "status", "warnings")
    return Table([words.each(f"column.{key}") for key in headings], rows)
