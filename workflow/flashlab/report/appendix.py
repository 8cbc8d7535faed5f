"""Method, definitions, and the appendix with every run."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

from flashlab.labels import messages
from flashlab.report.data import ReportData
from flashlab.report.document import Cell, Row, Table
from flashlab.report.processes import describe_processes
from flashlab.telling.codes import WARNINGS
from flashlab.telling.values import Label, Listed, Tellable, in_turn, say

SIGNS = {"▲ ▼": "symbol.better", "= ○": "symbol.undecided", "×": "symbol.empty"}
PROTOCOLS = {"sampled": "method.sampled", "lab5": "method.lab5", "training": "method.training"}
PROTOCOLS_ON = {
    ("sampled", "cuda"): "method.sampled.cuda",
    ("lab5", "cuda"): "method.lab5.cuda",
}
"""The message on a protocol's particulars on a kind of device."""

DEVICES = frozenset({"cuda", "cpu"})
CHECKED = frozenset({"once", "again"})
"""Runs are checked before their timing alone, or again after it."""

ORIGINS = frozenset({"measured", "imported"})
INPUTS = {(): "inputs.packed", ("packed",): "inputs.packed", ("separate",): "inputs.separate"}
"""The message on the inputs, by their forms in the records; older records state none."""


def describe_method(data: ReportData) -> list[Tellable]:
    """Measuring and verdicts, a paragraph each: those of the benchmark, then those of all.

    The benchmark's are the messages below ``<benchmark>.method``, in the order of their file. A
    part of a key that is in `DEVICES`, `CHECKED` or `ORIGINS` restricts the message to reports on
    such runs.
    """
    checked = {"again" if "again" in run["gate"] else "once" for run in data.runs if run["gate"]}
    others = (DEVICES | CHECKED).difference(data.distinct("device"), checked)
    others |= ORIGINS - {"imported" if data.is_unchecked else "measured"}
    beginning = f"{data.benchmark.name}.method."
    of_protocols = []
    for protocol in data.distinct("protocol"):
        more = (PROTOCOLS_ON.get((protocol, device)) for device in data.distinct("device"))
        of_protocols.append(in_turn([say(PROTOCOLS[protocol]), *(say(key) for key in more if key)]))
    forms = tuple(data.distinct("inputs"))
    has_forms = data.benchmark.packed_protocols is not None
    return [
        *([say(INPUTS.get(forms, "inputs.both"))] if has_forms else []),
        *(
            say(key)
            for key in messages(data.languages[0], "report")
            if key.startswith(beginning) and others.isdisjoint(key.split("."))
        ),
        *of_protocols,
        *describe_processes(data),
        *map(say, ("method.difference", "method.stories")),
    ]


def list_symbols(data: ReportData) -> Table:
    """The letters and signs that the report uses."""
    rows = []
    for parameter in data.benchmark.stated(data.runs):
        if parameter.is_variant:
            continue
        meaning: Tellable = Label(parameter.labels)
        if parameter.derived_from:
            sources = [data.benchmark.parameter(name).symbol for name in parameter.derived_from]
            meaning = say("symbol.derived", meaning=meaning, symbols=Listed(sources))
        rows.append(Row([parameter.symbol, meaning]))
    rows += [Row([sign, say(key)]) for sign, key in SIGNS.items()]
    return Table([say("column.symbol"), say("column.meaning")], rows)


def describe_runs(data: ReportData) -> Tellable:
    """The records' folders, and the meanings of the letters for warnings."""
    folders = sorted({Path(run["record"]).parent.as_posix() for run in data.runs})
    letters = [
        say("warning.letter", letter=letter, warning=say(WARNINGS[code]))
        for code, letter in _warning_letters(data).items()
    ]
    note = say("runs.note", folders=Listed(folders))
    if not letters:
        return note
    return in_turn([note, say("runs.letters", letters=Listed(letters))])


def _warning_letters(data: ReportData) -> dict[str, str]:
    return dict(zip(sorted(data.warned), string.ascii_lowercase, strict=False))


def list_runs(data: ReportData) -> Table:
    """Every run: its number, the files of its processes, and their status and warnings.

    The status is the records' own word, as the files' names are; the warnings are letters, those on
    the run as a whole with the first record's. Where processes differ, each has its own.
    """
    letters = _warning_letters(data)
    rows = []
    for run, records in zip(data.runs, data.records_of_runs, strict=True):
        number = data.number_of(run)
        files = [record["record"] for record in records]
        names = [Path(files[0]).name, *map(str, range(2, len(files) + 1))]
        of_records = [w for record in records for w in record["warnings"] or ()]
        of_run = [w for w in run["warnings"] or () if w not in of_records]
        warnings = [
            "".join(sorted({letters[w["code"]] for w in [*(record["warnings"] or ()), *more]}))
            for record, more in zip(records, [of_run, *[[]] * (len(records) - 1)], strict=True)
        ]
        cells: list[Cell | Tellable] = [
            number,
            Cell("", files=[*zip(names, files, strict=True)]),
            Cell(_of_each([record["status"].replace("ok", "") for record in records])),
            Cell(_of_each(warnings)),
        ]
        rows.append(Row(cells, id=f"run-{number}", implementation=run["implementation"]))
    keys = ("column.run", "column.record", "column.status", "column.warnings")
    return Table([*map(say, keys)], rows)


def _of_each(words: Sequence[str]) -> str:
    """A word for each process of a run, or one where all are the same."""
    return words[0] if len(set(words)) == 1 else " / ".join(word or "–" for word in words)
