"""Method and definitions, the count of all checks, and the appendix with every run."""

from __future__ import annotations

import string
from collections import Counter
from pathlib import Path

from flashlab.catalogs import SYMBOLS
from flashlab.report.document import Cell, Row, Table
from flashlab.report.material import Material
from flashlab.report.selection import STRONGEST
from flashlab.report.wording import Texts, sentences


def method(material: Material) -> list[Texts]:
    """How it was measured and decided, a paragraph each."""
    words = material.words
    protocols = material.distinct("protocol")
    keys = ["inputs", "gate", "flops", *protocols, "memory", "difference", "growth", "doubt"]
    said = [words.each(f"method.{key}") for key in keys]
    return [*said, words.each("method.key", count=STRONGEST)]


def symbols(material: Material) -> Table:
    """The letters and signs that the report uses."""
    words = material.words
    letters = [(symbol, words.each(f"symbol.{key}")) for key, symbol in SYMBOLS.items()]
    others = [("d", "head_dim"), ("▲ ▼", "better"), ("= ◆ ○", "undecided"), ("×", "empty")]
    rows = [Row([Cell(letter), said]) for letter, said in letters]
    rows += [Row([Cell(letter), words.each(f"symbol.{key}")]) for letter, key in others]
    return Table([words.each("column.symbol"), words.each("column.meaning")], rows)


def checks(material: Material) -> Table:
    """How often each kind of finding came to each verdict, those that found nothing too."""
    words = material.words
    counts: dict[str, Counter[str]] = {}
    for finding in material.findings:
        counts.setdefault(finding["kind"], Counter())[finding["verdict"]] += 1
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


def runs_note(material: Material) -> Texts:
    """Where the records lie, and what the letters for the warnings stand for."""
    words = material.words
    folders = sorted({Path(run["record"]).parent.as_posix() for run in material.runs})
    letters = [
        words.each("warning.letter", letter=letter, warning=words.each(f"warning.{code}"))
        for code, letter in _letters(material).items()
    ]
    note = words.each("runs.note", folders=words.listed(folders))
    if not letters:
        return note
    return sentences([note, words.each("runs.letters", letters=words.listed(letters))])


def _letters(material: Material) -> dict[str, str]:
    codes = {w["code"] for run in material.runs for w in run["warnings"] or ()}
    return dict(zip(sorted(codes), string.ascii_lowercase, strict=False))


def runs(material: Material) -> Table:
    """Every run: its number, its record's file, status, warnings as letters, and the SHA-256.

    The status is the record's own word, as the file's name is.
    """
    words, letters = material.words, _letters(material)
    rows = []
    for run in material.runs:
        number = material.number_of(run)
        status = run["status"] if run["status"] != "ok" else ""
        marks = "".join(sorted({letters[w["code"]] for w in run["warnings"] or ()}))
        cells: list[Cell | Texts] = [
            Cell(str(number)),
            Cell(Path(run["record"]).name),
            Cell(status),
            Cell(marks),
            Cell(run["sha256"]),
        ]
        rows.append(Row(cells, id=f"run-{number}", implementation=run["implementation"]))
    headings = ("run", "record", "status", "warnings", "sha256")
    return Table([words.each(f"column.{key}") for key in headings], rows)
