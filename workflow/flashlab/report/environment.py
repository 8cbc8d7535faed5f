"""The machine and its ceilings, disagreements between records, and warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flashlab import statistics
from flashlab.analysis.experiment import DIRTY, metrics_of
from flashlab.analysis.experiment import Row as RunRow
from flashlab.analysis.sittings import at_once, find_sittings
from flashlab.benchmarks.model import FLOPS
from flashlab.devices import find_device, known_devices
from flashlab.report.data import ReportData, stretches
from flashlab.report.document import Cell, Environment, Row, Table, grouped, run_cell, table_of
from flashlab.telling.codes import WARNINGS, by_code
from flashlab.telling.glyphs import legible
from flashlab.telling.values import Listed, Tellable, say

_NUMBER = re.compile(r"[\d.]+")

FACTS = {
    **{"device_name": "device", "driver": "environment.driver", "torch": "environment.torch"},
    **{"dtype": "dtype", "protocol": "environment.protocol"},
}
"""Columns of the run table that describe the machine, and the message that names each."""

AGREEMENT = by_code("environment.differs", "environment.unstated", "environment.agrees")
"""The agreement of the records: a field differs, some do not state it, or neither."""

STATES = by_code("peaks.initial", "peaks.sustained", "peaks.measured")
"""The name of each state that a ceiling was measured in."""

KERNELS = by_code("counters.counted", "counters.partly", "counters.uncounted")
OPERATORS = {
    "counted": "counters.counted.operators",
    "partly": "counters.partly.operators",
    "uncounted": "counters.uncounted.operators",
}
"""The message on the runs with counters, of a GPU's kernels or of a CPU's operators."""

MUST_AGREE = ("device_name", "driver", "torch", "dtype", "protocol")
"""Columns of the run table in which the records of one dataset must not differ."""

FIELDS = by_code(
    *("field.device_name", "field.driver", "field.torch", "field.dtype", "field.protocol"),
    "field.provider",
)
"""The fields in which records must agree."""

VENDORS_DTYPES = ("float16", "float32")
"""The number formats of vendors' peak rates."""

IMPORTED = {
    "form.double": "imported.double",
    "form.assumed": "imported.assumed",
    "form.name_refuted": "imported.name_refuted",
    "form.converted": "imported.converted",
    "form.exact_memory": "imported.exact_memory",
    "form.unknown_kernel": "imported.left_out",
    "form.not_measured": "imported.left_out",
    "form.not_a_result": "imported.not_a_result",
}
"""The message on imported files, by the code of the remark."""

MOST_STRETCHES = 8
"""Most stretches of runs that a sentence lists."""


def render_environment(data: ReportData) -> Environment:
    """The section on environment and warnings."""
    total = len(data.runs)
    changed = sorted({run["implementation"] for run in data.runs if run["source_changed"]})
    notices: list[Tellable] = []
    if changed:
        notices.append(say("source_changed", implementations=Listed(changed)))
    if dirty := {data.number_of(r) for r in data.records if str(r["commit"]).endswith(DIRTY)}:
        listed = [*stretches(dirty).values()]
        notice = say("environment.dirty", count=len(dirty), runs=Listed(listed))
        if len(listed) > MOST_STRETCHES:
            notice = say("environment.dirty.many", count=len(dirty), total=total)
        notices.append(notice)
    notices += _import_notices(data)
    if data.others:
        count = sum(len(experiment.runs) for experiment in data.others)
        notices.append(say("imported.others", count=count, total=total))
    if warned := len({n for code, runs in data.warned.items() for n in runs if code != "imported"}):
        notices.append(say("environment.warned", count=warned, total=total))
    once = sum(bool(run["gate"] and "again" not in run["gate"]) for run in data.runs)
    if once and data.benchmark.checked_again:
        notices.append(say("environment.checked_once", count=once, total=total))
    notices += [*_sittings(data), *_counted(data), *_wide(data)]
    differing = disagreements(data)
    return Environment(
        facts=[
            (say(key), ", ".join(values))
            for column, key in FACTS.items()
            if (values := data.distinct(column))
        ],
        peaks=_peaks(data),
        own_peaks=_peaks(data, own_alone=True),
        agreement=say(AGREEMENT[how_far_records_agree(differing)]),
        varying=_varying(data, differing),
        notices=notices,
        warnings=_warnings(data),
        failures=_failures(data),
    )


RUNS = "runs.csv"
MOST_FILES = 3
"""Most files that a notice names."""


def _import_notices(data: ReportData) -> Iterator[Tellable]:
    """The remarks on imported files, each once with the files that it is on."""
    files: dict[tuple[str, ...], list[str]] = {}
    for record in data.records:
        for warning in record["warnings"] or ():
            for remark in warning.get("remarks", ()):
                key = (remark["code"], *map(str, remark["params"].values()))
                files.setdefault(key, []).append(remark["file"])
                files[key].sort()
    for (code, *params), named in sorted(files.items()):
        more = ["…"] if len(named) > MOST_FILES else []
        shown = Listed([*(legible(name, RUNS) for name in named[:MOST_FILES]), *more])
        if code in IMPORTED:
            first = legible(params[0], RUNS) if params else ""
            yield say(IMPORTED[code], files=shown, count=len(named), what=first)


# Ceilings


def _measured(data: ReportData, dtypes: Sequence[str]) -> Iterator[list[Tellable]]:
    """A row for each state that a ceiling was measured in: its name, each rate, the bandwidth.

    A ceiling whose rate did not fall has the same figure in every state.
    """
    ceilings = data.measured_ceilings
    if ceilings is None:
        return
    unit = FLOPS[data.benchmark.rate_unit]
    scales = [(ceilings.matrix.get(dtype), unit) for dtype in dtypes] + [(ceilings.copy, 1e9)]
    falling = any(ceiling is not None and ceiling.sustained for ceiling, _ in scales)
    for state in ("initial", "sustained") if falling else ("measured",):
        rates = [
            ceiling.rates.get(state, ceiling.rate) / per if ceiling else None
            for ceiling, per in scales
        ]
        name = say(STATES[state], device=", ".join(data.distinct("device_name")))
        yield [name, *(data.number(rate, 3) for rate in rates)]


def _peaks(data: ReportData, own_alone: bool = False) -> Table | None:
    """The measured ceilings, a row for each state.

    Those of GPUs stand above the peak figures that vendors publish, with `own_alone` only of the
    devices that were measured. None where neither is known.
    """
    unit = data.benchmark.rate_unit
    if data.on_cpu:
        if data.ceilings is None:
            return None
        dtypes = list(data.ceilings["matrix_product"])
        keys, caption = ["column.bandwidth"], "caption.ceilings"
        rows = [Row(cells) for cells in _measured(data, dtypes)]
    else:
        dtypes = [each for each in data.distinct("dtype") if each not in VENDORS_DTYPES]
        dtypes += VENDORS_DTYPES
        keys, caption = ["column.bandwidth", "column.source"], "caption.peaks"
        rows = grouped((Row([*cells, "–"]) for cells in _measured(data, dtypes)), 0)
        own = {each.name for each in map(find_device, data.distinct("device_name")) if each}
        for device in known_devices():
            if own_alone and device.name not in own:
                continue
            figures = (*map(device.peak_tflops.get, dtypes), device.bandwidth)
            name = say("peaks.vendor", device=device.name) if device.name in own else device.name
            rows.append(Row([name, *map(data.number, figures), Cell(device.source)]))
    if not rows:
        return None
    columns: list[Tellable] = [
        say("column.gpu"),
        *(f"{dtype} ({unit})" for dtype in dtypes),
        *map(say, keys),
    ]
    numeric = range(1, len(dtypes) + 2)
    return Table(columns, rows, numeric=numeric, caption=say(caption))


# What is to be doubted


def _name_runs(numbers: Iterable[int]) -> str:
    """Runs by their numbers: 1–4, 9."""
    return ", ".join(stretches(numbers).values())


def _run_cells(data: ReportData, run: RunRow) -> list[Cell]:
    """A run's number, linked to the appendix, and the parameters that vary between runs."""
    # Dtype and device hardly ever vary.
    description = " ".join([run["implementation"], *data.benchmark.describe(run)])
    return [run_cell(data.number_of(run)), Cell(description)]


@dataclass(frozen=True)
class Disagreement:
    """A column of the run table in which records differ: the records by what they state of it.

    The column may be that of one `implementation` alone.
    """

    column: str
    implementation: str
    records: Mapping[str, Sequence[RunRow]]


def disagreements(data: ReportData) -> list[Disagreement]:
    """The columns in which the records of the experiments must not differ, and do.

    Nor must the provider of any one implementation. What no record states, as none states a driver
    on a CPU, is the same in all.
    """
    every = {row["record"]: row for experiment in data.shown for row in experiment.records}
    records = [every[name] for name in sorted(every)]
    # A run that failed may have ended before it was known who would run it.
    measured = [record for record in records if record["status"] == "ok"]
    asked: list[tuple[str, str, list[RunRow]]] = [(c, "", records) for c in MUST_AGREE]
    for name in sorted({record["implementation"] for record in measured}):
        mine = [record for record in measured if record["implementation"] == name]
        asked.append(("provider", name, mine))
    fields = []
    for column, implementation, rows in asked:
        stated: dict[str, list[RunRow]] = {}
        for row in rows:
            stated.setdefault(row[column] or "", []).append(row)
        if len(stated) > 1:
            fields.append(Disagreement(column, implementation, dict(sorted(stated.items()))))
    return fields


def how_far_records_agree(fields: Sequence[Disagreement]) -> str:
    """``differs`` where two records state different things, else ``unstated`` or ``agrees``."""
    if any(len(each.records.keys() - {""}) > 1 for each in fields):
        return "differs"
    return "unstated" if fields else "agrees"


def _varying(data: ReportData, fields: Sequence[Disagreement]) -> Table | None:
    """A row for each value of a field in which records disagree, with these records."""
    rows = []
    for each in fields:
        name = say(FIELDS[each.column], implementation=each.implementation)
        for stated, records in each.records.items():
            cells: list[Cell | Tellable] = [
                name,
                Cell(stated) if stated else say("unknown"),
                len(records),
                _name_runs(map(data.number_of, records)),
            ]
            rows.append(Row(cells))
    keys = ("column.field", "column.value", "column.count", "column.which_runs")
    return table_of(keys, grouped(rows), numeric=range(2, 3))


def _between(first: str, last: str) -> str:
    """A span of time, to the minute: ``2026-11-20 16:33–16:50 UTC``."""
    begun, ended = (
        f"{datetime.fromisoformat(each).astimezone(UTC):%Y-%m-%d %H:%M}" for each in (first, last)
    )
    if begun[:10] != ended[:10]:
        return f"{begun} – {ended} UTC"
    return "–".join(dict.fromkeys((begun, ended[11:] if ended != begun else begun))) + " UTC"


def _sittings(data: ReportData) -> Iterator[Tellable]:
    """The time and device of each sitting, those on several GPUs of a host at once in one line."""
    sittings = find_sittings(record for experiment in data.shown for record in experiment.records)
    devices = list(dict.fromkeys(sitting.device for sitting in sittings))
    named_alike = len({name for name, _ in devices}) < len(devices)
    for own in at_once(sittings):
        on = dict.fromkeys(sitting.device for sitting in own)
        # The UUID itself would be of no use to a reader, and identifies the machine.
        gpus = f" ({_name_runs(devices.index(each) + 1 for each in on)})" if named_alike else ""
        params: dict[str, Tellable] = {
            "number": _name_runs(sittings.index(sitting) + 1 for sitting in own),
            "device": f"{own[0].device[0]}{gpus}",
            "count": sum(len(sitting.records) for sitting in own),
            "when": _between(own[0].first, max(sitting.last for sitting in own)),
        }
        if len(own) > 1:
            yield say("environment.sittings_at_once", gpus=len(on), **params)
        else:
            yield say("environment.sitting", **params)


def _counted(data: ReportData) -> Iterator[Tellable]:
    """The number of runs whose counters were read."""
    if not data.benchmark.counters:
        return
    kinds = sorted({run["device"] for run in data.runs})
    names = {each.name for kind in kinds for each in data.benchmark.all_counters(kind)}
    statuses: dict[Any, set[str]] = {}
    for experiment in data.shown:
        for row in experiment.metrics:
            if row["metric"] in names:
                statuses.setdefault(experiment.key_of(row), set()).add(row["status"])
    count = sum(found == {"ok"} for found in statuses.values())
    failed = len(statuses) - count
    state = "partly" if failed else "counted" if count else "uncounted"
    key = (OPERATORS if kinds == ["cpu"] else KERNELS)[state]
    yield say(key, count=count, failed=failed)


def _wide(data: ReportData) -> Iterator[Tellable]:
    """The number of medians with a wider interval than the margin, and their runs."""
    sampled = {metric.name for metric in metrics_of(data.benchmark, exact=False)}
    rows = {
        (experiment.key_of(row), row["metric"]): (data.number_of(run), row)
        for experiment in data.shown
        for run in experiment.runs
        for row in (experiment.metric_row(run, name) for name in sorted(sampled))
        if row["status"] == "ok" and row["low"] is not None
    }
    wide = [
        number
        for number, row in rows.values()
        if (row["high"] - row["low"]) / 2 > statistics.MARGIN * row["value"]
    ]
    if wide:
        margin = f"{100 * statistics.MARGIN:g}"
        yield say("environment.wide", count=len(wide), total=len(rows), margin=margin)


def _warnings(data: ReportData) -> Table | None:
    """A row for each warning: the number of runs that carry it, and these runs."""
    rows = [
        Row([say(WARNINGS[code]), len(numbers), _name_runs(numbers)])
        for code, numbers in sorted(data.warned.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    keys = ("column.warning", "column.count", "column.which_runs")
    return table_of(keys, rows, numeric=range(1, 2))


def _failures(data: ReportData) -> Table | None:
    """Every run without numbers: its status, and its message, where no run before has the same.

    Those that differ in their numbers alone are the same.
    """
    rows, first = [], dict[str, int]()
    for run in data.runs:
        if run["status"] != "ok":
            message: Tellable | Cell = Cell(run["message"] or "–")
            number = first.setdefault(_NUMBER.sub("", run["message"] or ""), data.number_of(run))
            if number != data.number_of(run) and run["message"]:
                message = say("environment.failed.as", number=number)
            cells = [*_run_cells(data, run), data.status(run), message]
            rows.append(Row(cells, implementation=run["implementation"]))
    caption = say("environment.failed", count=len(rows), total=len(data.runs))
    keys = ("column.run", "column.shape", "column.status", "column.message")
    return table_of(keys, rows, caption=caption)
