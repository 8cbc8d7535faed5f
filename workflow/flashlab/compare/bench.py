"""``bench``: implementations measured in turns, each verdict as it is reached, and a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from flashlab import machine
from flashlab.analysis.ceilings import is_implausible, read_ceilings
from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.checking.command import aligned, claimed_with_notice
from flashlab.checking.shapes import shape_text
from flashlab.compare.interleave import Candidate, measure_in_turns
from flashlab.compare.looks import look_at, pair_ratios
from flashlab.compare.targets import DTYPE, opened_targets, shapes_of
from flashlab.devices import find_device
from flashlab.files import read_json, write_json
from flashlab.numbers import measured, percent, with_ends
from flashlab.plan import identity

PASSES = {m.name.removesuffix("_time"): m for m in ATTENTION.measured if m.work}
"""The timed metric of each pass."""

RECORDS = Path("results", "local", "records")
"""The folder in which a report's call keeps the ceilings that it has measured."""

Row = dict[str, Any]
"""What is known of a pass of an implementation, or of one that has no times, as JSON values."""


class Ceiling(NamedTuple):
    """A rate in TFLOP/s that no implementation is expected to exceed, of a `device` (cuda or cpu).

    `heading` is that of the column.
    """

    rate: float
    heading: str
    device: str


def find_ceiling(device: str, device_name: str, dtype: str) -> Ceiling | None:
    """The device's ceiling for a dtype; None where none was measured and none is stated.

    That measured by a large matrix product (``./run report``), or the vendor's peak rate.
    """
    file = RECORDS / identity.ceilings_name(device, device_name)
    if file.is_file():
        product = read_ceilings(read_json(file)).matrix.get(dtype)
        return Ceiling(product.rate / 1e12, "of ceiling", device) if product else None
    known = find_device(device_name)
    peak = known and known.peak_tflops.get("float16" if dtype == "bfloat16" else dtype)
    return Ceiling(peak, "of peak", device) if peak else None


# What is known


def describe(
    candidates: Sequence[Candidate], passes: Sequence[str], margin: float, ceiling: Ceiling | None
) -> list[Row]:
    """What is known by now: a row for each pass of each implementation, without what is not.

    The `time` of a call in ms is the median of all, the `rate` in TFLOP/s, a `share` that of the
    ceiling, a `ratio` of times to the first implementation's as of `looks.look_at`. An implausible
    time, by its rate, has no other verdict, and neither has a ratio to one. `warnings` are the
    codes of each process. What has another status than ``ok`` has one row, with its message.
    """
    first, rows = candidates[0], list[Row]()
    for candidate in candidates:
        codes = [sorted({each["code"] for each in of}) for of in candidate.warnings]
        about: Row = {
            "implementation": candidate.label,
            "status": candidate.status,
            "warnings": codes,
        }
        if candidate.status != "ok":
            rows.append({**about, "message": candidate.message})
        for name in passes if candidate.status == "ok" else ():
            metric, batches = PASSES[name], candidate.batches.get(PASSES[name].name, [])
            row, calls = {**about, "pass": name}, [*chain(*chain(*batches))]
            if calls and metric.work:
                row["time"] = statistics.median(calls) * 1e3
                row["rate"] = metric.work(candidate.run) / row["time"] / 1e9
            if calls and ceiling:
                row["share"] = row["rate"] / ceiling.rate
                row[IMPLAUSIBLE] = is_implausible(row["share"], ceiling.device)
            if candidate is not first and first.status == "ok":
                theirs = first.batches.get(metric.name, [])
                row |= look_at(pair_ratios(batches, theirs), metric, margin)
                wrong = row.get(IMPLAUSIBLE) or rows[passes.index(name)].get(IMPLAUSIBLE)
                row |= {"verdict": IMPLAUSIBLE} if wrong and "verdict" in row else {}
            rows.append(row)
    return rows


# In print


def _compared(row: Row) -> tuple[str, str]:
    """A pass's ratio, and its verdict in words; a provisional one has a question mark."""
    if "ratio" not in row:
        return "", ""
    ratio, *ends = with_ends(row["ratio"])
    verdict = "undecided" if row["verdict"] == "inconclusive" else row["verdict"]
    return f"{ratio} [{', '.join(ends)}]", verdict + ("" if row["final"] else "?")


NUMBERS: dict[str, Callable[[float], str]] = {"time": measured, "rate": measured, "share": percent}
"""The numbers of a pass, as they are printed."""

SIDES = (-1, -1, 1, 1, 1, 1, -1)
"""Of the columns, those of numbers are aligned on the right."""


def table(rows: Sequence[Row], ceiling: Ceiling | None) -> str:
    """The table, and below it the reasons for missing times, and the warnings."""
    share, below = ceiling.heading if ceiling else "of ceiling", list[str]()
    lines = [["implementation", "pass", "ms", "TFLOP/s", share]]
    if rows[-1]["implementation"] != (first := rows[0]["implementation"]):
        lines[0] += [f"time / that of {first}", "verdict"]
    for row in rows:
        name, is_first = row["implementation"], row["implementation"] != lines[-1][0]
        line = [name, row.get("pass", row["status"])]
        if "pass" in row:
            line += [told(row[key]) if key in row else "–" for key, told in NUMBERS.items()]
            line += _compared(row)
        else:
            below.append(f"{name}: {row['message']}")
        lines.append(line)
        if row.get(IMPLAUSIBLE):
            below.append(
                f"{name}: {row['pass']} at {percent(row['share'])} {share}, which this device "
                "cannot do: a time is wrong, or the ceiling was measured too low; no verdict rests "
                "on it"
            )
        if is_first and (codes := {*chain(*row["warnings"])}):
            several = f"{sum(map(bool, row['warnings']))} of {len(row['warnings'])} processes"
            below.append(f"{name}: {', '.join(sorted(codes))} in {several}")
    columns = zip(SIDES, zip_longest(*lines, fillvalue=""), strict=False)
    widths = [side * max(map(len, column)) for side, column in columns]
    return "\n".join([*(aligned(line, widths) for line in lines), *(["", *below] if below else [])])


# Measuring


def _measure(
    candidates: Sequence[Candidate],
    passes: Sequence[str],
    seconds: float,
    margin: float,
    ceiling: Ceiling | None,
) -> list[Row]:
    """Measure implementations at one shape, and print each verdict as it is reached, and a table.

    The last word on each pass (`describe`).
    """
    begun, said = time.monotonic(), dict[str, str]()

    def look() -> None:
        for row in describe(candidates, passes, margin, ceiling):
            which, (ratio, verdict) = f"{row['implementation']} {row.get('pass')}", _compared(row)
            if verdict != said.get(which, ""):
                print(
                    f"after {time.monotonic() - begun:.1f} s: {which} {verdict} {ratio}", flush=True
                )
            said[which] = verdict

    with claimed_with_notice(candidates[0].run.device) as variables:
        metrics = [PASSES[name].name for name in passes]
        measure_in_turns(ATTENTION, candidates, metrics, seconds, variables, look)
    rows = describe(candidates, passes, margin, ceiling)
    print(
        "", table(rows, ceiling), f"after {time.monotonic() - begun:.1f} s\n", sep="\n", flush=True
    )
    return rows


def bench(
    implementations: Sequence[str],
    shapes: Sequence[str],
    dtype: str | None,
    asked: Sequence[str],
    seconds: float,
    margin: float,
    timeout_s: float,
    output: Path | None,
) -> bool:
    """Measure and print; whether every one was right, could be measured, and is plausible.

    The arguments are the command's, `asked` the passes to measure, all where none is, `output` a
    JSON file to write.

    Raises:
        UsageError: an argument names no implementation, or a shape is malformed.
        SavedError: an implementation's file was saved while it was measured.
    """
    device = machine.detect_device("auto")
    dtype, name = dtype or DTYPE[device], machine.device_name(device)
    passes = [each for each in PASSES if not asked or each in asked]
    ceiling, every = find_ceiling(device, name, dtype), list[Row]()
    with opened_targets(implementations) as targets:
        for shape in shapes_of(shapes, device):
            print(f"{' against '.join(targets)}: {shape_text(shape)} {dtype} on {name}", flush=True)
            candidates = [
                Candidate(label, of, attention_run(of.name, shape, dtype, device), timeout_s)
                for label, of in targets.items()
            ]
            rows = _measure(candidates, passes, seconds, margin, ceiling)
            every += [{"shape": shape_text(shape), **row} for row in rows]
    if output:
        about = {"benchmark": ATTENTION.name, "device": name, "dtype": dtype, "margin": margin}
        write_json(output, {**about, "ceiling": ceiling and ceiling.rate, "rows": every})
    implausible = any(row.get(IMPLAUSIBLE) for row in every)
    return {row["status"] for row in every} <= {"ok", "unsupported"} and not implausible
