"""What the records say beside their numbers: device, versions, what is unusual, and every run.

Text that others wrote is shown as the report's fonts can, and cut where it is long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pandas as pd

from flashlab.analysis.comparisons import sittings
from flashlab.analysis.experiment import DIRTY, ESTIMATES, IMPORTED, chosen_metrics, run_keys
from flashlab.analysis.frames import Dataset, read_table
from flashlab.analysis.replication import UNREPLICATED
from flashlab.benchmarks.model import FLOPS
from flashlab.labels import LANGUAGES, messages
from flashlab.numbers import measured, two
from flashlab.report.document import Cell, Row, Table, Text, Words, says
from flashlab.report.tables import head, label_of
from flashlab.statistics import MARGIN
from flashlab.telling.glyphs import cut, legible

LONGEST_TEXT = 500
"""Characters of others' text that a report shows; a word of 20,000 would take minutes to set."""

MOST_FILES = 3
"""Most files that a notice names."""

_NUMBER = re.compile(r"[\d.]+")

AGREE = ("device_name", "driver", "torch", "dtype", "protocol")
"""Columns of the run table in which the records of a dataset must not differ."""

LEFT_OUT = {"unknown_kernel": "left_out", "not_measured": "left_out"}
"""Remarks on imported files that are said alike; each other one has the label of its code."""

DEVICES, CHECKED = frozenset({"cuda", "cpu"}), frozenset({"once", "again"})
ORIGINS = frozenset({"measured", "imported"})
"""Parts of a method's key that restrict it to reports on such runs."""


@cache
def told(kind: str) -> dict[str, Text]:
    """The texts of the codes of a kind, ``status`` or ``warning``, which alone a report tells."""
    keys = (key.split(".") for key in messages(LANGUAGES[0], "report"))
    return {of[-1]: says(".".join(of)) for of in keys if of[0] == kind}


def read_records(data: Dataset) -> pd.DataFrame:
    """Every record once, in the plan's order, with the number of its run in ``run``.

    ``warnings`` and ``gate`` are read, ``codes`` are those of the warnings.
    """
    tables = [read_table(data.folder / "tables" / n / "runs.csv", dtype=str) for n in data.plans]
    found = pd.concat(tables, ignore_index=True).drop_duplicates("record").fillna("")
    found["run"] = found.groupby([*run_keys(data.benchmark)], sort=False).ngroup() + 1
    for column in ("warnings", "gate"):
        found[column] = found[column].map(lambda cell: json.loads(cell) if cell else None)
    found["codes"] = found.warnings.map(lambda own: {w["code"] for w in own or ()})
    return found


def shown(text: str, place: str) -> str:
    """Others' text: a stand-in for each character that the fonts lack, and no longer than that."""
    return cut(legible(text, place), LONGEST_TEXT)


def ends(counts: pd.Series[int]) -> str:
    """The least and the greatest of some counts, once where they are the same."""
    return "–".join(dict.fromkeys(map(str, (counts.min(), counts.max()))))


def distinct(records: pd.DataFrame, column: str) -> list[str]:
    """The values of a column, sorted, without the empty ones."""
    return [shown(each, f"records: {column}") for each in sorted({*records[column]} - {""})]


def is_imported(records: pd.DataFrame) -> bool:
    """True if all records were made from files of the course's script, which checks no result."""
    return bool(records.codes.map(lambda codes: IMPORTED in codes).all())


def disagreements(records: pd.DataFrame) -> list[str]:
    """The columns in which records state different things that must not differ."""
    ok = records[records.status == "ok"]
    providers = ok[ok.provider != ""].groupby("implementation").provider.nunique()
    found = [name for name in AGREE if len({*records[name]} - {""}) > 1]
    return found + (["provider"] if (providers > 1).any() else [])


# Device and versions


def machine_table(data: Dataset, records: pd.DataFrame) -> Table:
    """Device, versions, sessions and ceilings; of what differs, how many records say which."""
    rows = []
    for column in (*AGREE, "commit"):
        counts = records[column][records[column] != ""].value_counts()
        values = [
            shown(str(value), f"records: {column}") + f" ({count})" * (len(counts) > 1)
            for value, count in counts.items()
        ]
        rows += [Row([head(column), ", ".join(values)])] if values else []
    rows += [Row([head("sessions"), each]) for each in _sessions(records)]
    if ceilings := data.ceilings:
        units = [quantity.unit for quantity in data.benchmark.quantities.values()]
        unit = next((each for each in units if each in FLOPS), "TFLOP/s")
        rates = {each: measured(of.rate / FLOPS[unit]) for each, of in ceilings.matrix.items()}
        rows += [Row([head("ceiling.matrix", dtype=d), f"{x} {unit}"]) for d, x in rates.items()]
        rows.append(Row([head("ceiling.copy"), f"{measured(ceilings.copy.rate / 1e9)} GB/s"]))
    return Table([head("item"), head("value")], rows, text=2, kind="facts")


def _sessions(records: pd.DataFrame) -> Iterator[str]:
    known = records[~records.codes.map(lambda codes: IMPORTED in codes)]
    if len(known):
        first, last = known.started.min(), known.started.max()
        begun, ended = (f"{stamp[:10]} {stamp[11:16]}" for stamp in (first, last))
        said = f"{begun} – {ended if ended[:10] != begun[:10] else ended[11:]} UTC"
        yield f"{sittings(known).nunique()}: {said}"


def implementations_table(data: Dataset, records: pd.DataFrame) -> Table:
    """A row an implementation: what it is, its package, its runs with numbers, largest errors."""
    gated = {} if is_imported(records) else data.benchmark.gated
    rows = []
    for name in data.declared:
        mine = records[records.implementation == name]
        ok = mine[mine.status == "ok"]
        provider = ", ".join(distinct(mine, "provider")) or "–"
        outcome = f"{ok.run.nunique()} / {mine.run.nunique()}"
        errors = [_largest(ok, compared) for compared in gated]
        rows.append(Row([name, label_of(data, name), provider, outcome, *errors]))
    columns: list[Words] = [head(key) for key in ("implementation", "what", "provider", "ok")]
    columns += [says("table.error", compared=text) for text in gated.values()]
    return Table(columns, rows, text=3, kind="facts")


def _largest(ok: pd.DataFrame, compared: str) -> str:
    """The largest relative error of records, and in brackets that of the plain formula."""
    gates = [each for gate in ok.gate if gate for each in (gate, gate.get("again") or {})]
    found = []
    for kind in ("errors", "plain_errors"):
        known = [(gate.get(kind) or {}).get(compared) for gate in gates]
        worst = max((f"{x:.1e}" for x in known if x is not None), key=float, default="")
        found.append(worst.replace("e-0", "e-"))
    return f"{found[0] or '–'}{f' ({found[1]})' if found[1] else ''}"


# What is unusual


def notices(data: Dataset, records: pd.DataFrame, config: Mapping[str, Any]) -> Iterator[Text]:
    """What the appendix says of records: changed sources, other code, imported files."""
    changed = sorted({*records.implementation[records.source_changed == "true"]})
    if changed:
        yield says("source_changed", implementations=", ".join(changed))
    dirty = records.run[records.commit.str.endswith(DIRTY)].nunique()
    if dirty:
        yield says("environment.dirty", count=dirty, total=records.run.nunique())
    yield from _of_imports(records)
    others = {*data.swept} - {each["name"] for each in config["experiments"]}
    if others and "import" in config:
        own = sum(len(data.plans[name]["runs"]) for name in others)
        yield says("imported.others", count=own, total=records.run.nunique())
    known = read_table(data.folder / ESTIMATES).dropna(subset=["low", "high"])
    count = int(((known.high - known.low) / (known.high + known.low) > MARGIN).sum())
    if count:
        yield says("environment.wide", count=count, total=len(known), margin=f"{100 * MARGIN:g}")


def _of_imports(records: pd.DataFrame) -> Iterator[Text]:
    """The remarks on imported files, each once with the files that it is on."""
    files: dict[tuple[str, ...], list[str]] = {}
    for warning in (each for own in records.warnings if own for each in own):
        for remark in warning.get("remarks", ()):
            key = (remark["code"], *map(str, remark["params"].values()))
            files.setdefault(key, []).append(remark["file"])
    known = messages(LANGUAGES[0], "report")
    for (code, *params), named in sorted(files.items()):
        name = code.removeprefix("form.")
        if (label := f"imported.{LEFT_OUT.get(name, name)}") in known:
            listed = [legible(each, "runs.csv") for each in sorted(named)[:MOST_FILES]]
            said = ", ".join([*listed, *["…"] * (len(named) > MOST_FILES)])
            what = legible(params[0], "runs.csv") if params else ""
            yield says(label, files=said, count=len(named), what=what)


def warnings_table(records: pd.DataFrame) -> Table | None:
    """How many runs carry each warning; None where none does."""
    texts = told("warning")
    codes = records[["run", "codes"]].explode("codes").drop_duplicates().codes
    known = {code: int((codes == code).sum()) for code in texts if code != IMPORTED}
    ordered = sorted(known.items(), key=lambda item: -item[1])
    rows = [Row([texts[code], str(count)]) for code, count in ordered if count]
    return Table([head("warning"), head("runs")], rows, kind="facts") if rows else None


def failures_table(data: Dataset) -> Table | None:
    """Every run without numbers with its message, once where they differ in numbers alone."""
    rows, seen = [], dict[str, int]()
    failed = data.failed.reset_index().drop_duplicates("number")
    for run in failed.to_dict("records"):
        number, message = int(run["number"]), "" if pd.isna(run["message"]) else str(run["message"])
        first = seen.setdefault(_NUMBER.sub("", message), number)
        said: Words = shown(message, f"{Path(str(run['record'])).name}: message") or "–"
        if first != number and message:
            said = says("table.as", number=first)
        rows.append(Row([Cell(str(number), number), described(data, run), _status(run), said]))
    columns = [head(key) for key in ("run", "setting", "status", "message")]
    return Table(columns, rows, text=4, kind="failures") if rows else None


def described(data: Dataset, run: Any) -> str:
    """A run as it is named: ``Flash2 B 16 N 1024 …``."""
    return " ".join([str(run["implementation"]), *data.benchmark.describe(run)])


def _status(run: Any) -> Text:
    return told("status").get(run["status"], told("status")["error"])


def runs_table(data: Dataset, records: pd.DataFrame) -> Table:
    """Every run: its number, setting, status, warnings and the files of its records."""
    every = pd.concat([data.runs, data.failed]).reset_index().drop_duplicates("number")
    runs = {run["number"]: run for run in every.to_dict("records")}
    rows, known = [], told("warning")
    for number, own in records.groupby("run"):
        run = runs[cast(int, number)]
        codes = sorted(set().union(*own.codes) - {IMPORTED})
        texts = [known[code] for code in codes if code in known]
        warned = {each: ", ".join(text[each] for text in texts) for each in LANGUAGES}
        files = Cell("", None, [(str(n), file) for n, file in enumerate(own.record, start=1)])
        status: Words = "" if run["status"] == "ok" else _status(run)
        row = [str(number), described(data, run), status, warned, files]
        rows.append(Row(row, id=f"run-{number}"))
    columns = [head(key) for key in ("run", "setting", "status", "warning", "records")]
    return Table(columns, rows, text=5, kind="runs")


# The method


def method(data: Dataset, records: pd.DataFrame) -> list[Text]:
    """How runs were measured and compared, a paragraph each.

    The benchmark's own are the labels below ``<benchmark>.method``, in the order of their file.
    """
    gates = [gate for gate in records.gate if gate]
    here = {"again" if any("again" in gate for gate in gates) else "once"}
    here |= {*records.device, "imported" if is_imported(records) else "measured"}
    others = (DEVICES | CHECKED | ORIGINS) - here
    beginning = f"{data.benchmark.name}.method."
    own = [
        says(key)
        for key in messages(LANGUAGES[0], "report")
        if key.startswith(beginning) and others.isdisjoint(key.split("."))
    ]
    timed = [says(f"method.{name}") for name in distinct(records, "protocol")]
    paired = [says("method.pairs")] if data.comparisons.query("settings == 1").pairs.any() else []
    return [*own, *timed, *_processes(data, records), says("method.difference"), *paired]


def _processes(data: Dataset, records: pd.DataFrame) -> Iterator[Text]:
    """In how many processes each run was measured, and how far apart these are."""
    counts = records[records.status == "ok"].groupby("run").size()
    if counts.empty:
        return
    if counts.max() == 1:
        assumed = f"{100 * UNREPLICATED.deviation:g}"
        key = "method.files" if is_imported(records) else "method.processes.single"
        yield says(key, assumed=assumed)
        return
    sampled = {metric.name for metric in chosen_metrics(data.benchmark)}
    tables = [read_table(data.folder / "tables" / n / "metrics.csv") for n in data.plans]
    every = pd.concat(tables, ignore_index=True).drop_duplicates()  # experiments share runs
    known = every[every.metric.isin(sampled)].dropna(subset=["deviation"])
    if known.empty:
        yield says("method.processes.means", number=ends(counts))
        return
    largest = known.sort_values("deviation", kind="stable").iloc[-1]
    middle, most = (two(100 * float(x)) for x in (known.deviation.median(), largest.deviation))
    own = {"middle": middle, "largest": most, "number": ends(counts)}
    key = "method.processes.files" if is_imported(records) else "method.processes"
    yield says(key, None, implementation=str(largest.implementation), **own)
