"""``bench``: implementations measured in turns, each verdict as it is reached, and a table.

Testing the same data repeatedly raises the rate of false alarms. So the looks are planned, one at
the end of each process, and the error of 5% is divided among them: the alpha spending of Lan and
DeMets (Biometrika 70, 1983), in the form that holds however the looks depend on one another
(Bonferroni). The interval at each look is a repeated confidence interval (Jennison and Turnbull,
Journal of the Royal Statistical Society B 51, 1989): with 95% confidence, all of them hold at once.
`docs/comparing.md` says how often the verdicts are right on planted data.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from flashlab import machine
from flashlab.analysis.ceilings import is_implausible, read_ceilings
from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.analysis.ratios import verdict_of
from flashlab.analysis.replication import Spread, combine_processes, combine_with_spread
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.checking.command import claimed_with_notice
from flashlab.checking.shapes import LETTERS, ShapeError, parse_shapes, shape_text
from flashlab.compare.interleave import PROCESSES, Batches, Candidate, measure_in_turns
from flashlab.compare.sides import find_targets
from flashlab.devices import find_device
from flashlab.files import read_json, write_json
from flashlab.numbers import measured, percent, with_ends
from flashlab.plan import identity
from flashlab.statistics import CONFIDENCE, MIN_SAMPLES, estimate_median, interval_of
from flashlab.usage import UsageError

PASSES = {m.name.removesuffix("_time"): m for m in ATTENTION.measured if m.work}
"""The timed metric of each pass."""

Row = dict[str, Any]
"""What is known of a pass of an implementation, or of one that has no times, as JSON values."""

USUAL = {
    "cuda": ("float16", Shape(16, 1024, 32, 2048, True)),
    "cpu": ("float32", Shape(1, 512, 8, 512, True)),
}
"""What is measured if none is given, by kind of device; a size left out is taken from it too."""

PROVISIONAL_ERROR = 0.002
"""The error of each look before the last."""

ASSUMED_SPREAD = Spread(deviation=0.01, freedom=1e6)
"""The standard deviation between processes of the logarithm of a ratio, assumed while too few were
measured to estimate it; what several differ by counts where it is more. On an H200, processes of
one implementation differed by 0.02 to 1.4%."""


def shapes_of(texts: Sequence[str], device: str) -> list[Shape]:
    """The shapes to measure, each once, in order; UsageError for one that is malformed."""
    _, usual = USUAL[device]
    sizes = {name: [getattr(usual, name)] for name in LETTERS}
    try:
        every = [shape for text in texts for shape in parse_shapes(text, **sizes)]
    except ShapeError as error:
        raise UsageError(str(error)) from error
    return [*dict.fromkeys(every or [usual])]


def find_ceiling(device: str, device_name: str, dtype: str) -> tuple[float | None, str]:
    """A rate in TFLOP/s that no implementation should exceed, and the heading of shares of it.

    That measured by a large matrix product (``./run report``), or the vendor's peak rate; None
    where none was measured and none is stated.
    """
    file = Path("results/local/records", identity.ceilings_name(device, device_name))
    if file.is_file():
        product = read_ceilings(read_json(file)).matrix.get(dtype)
        return product.rate / 1e12 if product else None, "of ceiling"
    known = find_device(device_name)
    peak = known.peak_tflops.get("float16" if dtype == "bfloat16" else dtype) if known else None
    return peak, "of peak" if peak else "of ceiling"


def error_after(processes: int) -> float:
    """The error that the look after so many processes may spend: 5% together, most of it last."""
    is_last = processes == PROCESSES
    return 1 - CONFIDENCE - (PROCESSES - 1) * PROVISIONAL_ERROR if is_last else PROVISIONAL_ERROR


def pair_ratios(ones: Sequence[Batches], others: Sequence[Batches]) -> list[list[float]]:
    """The ratios of neighbouring batches' medians, of each process, in order of time."""
    medians = ([[*map(statistics.median, of)] for of in side] for side in (ones, others))
    both = zip(*medians, strict=False)
    return [[one / other for one, other in zip(*each, strict=False)] for each in both]


def look_at(processes: Sequence[Sequence[float]], margin: float | None = None) -> dict[str, Any]:
    """What the ratios of neighbouring batches' times say, by process, in their order.

    It is the ``ratio`` with the ends of its interval, its ``verdict`` by a margin, and whether that
    is ``final``; nothing while there are too few batches. Within a process the interval allows for
    ratios that depend on one another (`statistics`); between processes it is Student's t once all
    have been measured (`replication`), and before that it is computed from `ASSUMED_SPREAD`.
    """
    if not processes or any(len(ratios) < MIN_SAMPLES for ratios in processes):
        return {}
    estimates, is_final = [estimate_median(of) for of in processes], len(processes) == PROCESSES
    (combined,) = combine_processes([estimates])
    estimate = combined.estimate
    if not is_final:
        deviation = combined.spread.deviation if combined.spread else 0.0
        spread = replace(ASSUMED_SPREAD, deviation=max(deviation, ASSUMED_SPREAD.deviation))
        estimate = combine_with_spread(estimates, spread)
    low, high = interval_of(estimate, error_after(len(processes))) or (None, None)
    found = verdict_of(low, high, margin)
    verdict = {"above": "slower", "below": "faster"}.get(found, found)
    return {"ratio": [estimate.median, low, high], "verdict": verdict, "final": is_final}


def describe(
    candidates: Sequence[Candidate], passes: Sequence[str], margin: float, ceiling: float | None
) -> list[Row]:
    """What is known by now: a row for each pass of each implementation, without what is not.

    The `time` of a call in ms is the median of all, the `rate` in TFLOP/s, a `share` that of the
    ceiling, a `ratio` of times to the first implementation's as of `look_at`. An implausible
    time, by its rate, has no other verdict, and neither has a ratio to one. `warnings` are the
    codes of each process. What has another status than ``ok`` has one row, with its message.
    """
    first, rows = candidates[0], list[Row]()
    for each in candidates:
        told: Row = {"implementation": each.label, "status": each.status, "warnings": each.warnings}
        if each.status != "ok":
            rows.append({**told, "message": each.message})
            continue
        for at, name in enumerate(passes):
            row, metric = {**told, "pass": name}, PASSES[name]
            batches = each.batches.get(metric.name, [])
            if metric.work and (calls := [*chain(*chain(*batches))]):
                row["time"] = statistics.median(calls) * 1e3
                row["rate"] = metric.work(each.run) / row["time"] / 1e9
                if ceiling:
                    row["share"] = row["rate"] / ceiling
                    row[IMPLAUSIBLE] = is_implausible(row["share"], each.run.device)
            if each is not first and first.status == "ok":
                row |= look_at(pair_ratios(batches, first.batches.get(metric.name, [])), margin)
                if "verdict" in row and (row.get(IMPLAUSIBLE) or rows[at].get(IMPLAUSIBLE)):
                    row["verdict"] = IMPLAUSIBLE
            rows.append(row)
    return rows


# In print

NUMBERS: dict[str, Callable[[float], str]] = {"time": measured, "rate": measured, "share": percent}
"""The numbers of a pass, as they are printed."""


def _compared(row: Row) -> tuple[str, str]:
    """A pass's ratio, and its verdict in words; a provisional one has a question mark."""
    if "ratio" not in row:
        return "", ""
    ratio, *ends = with_ends(row["ratio"])
    verdict = "undecided" if row["verdict"] == "inconclusive" else row["verdict"]
    return f"{ratio} [{', '.join(ends)}]", verdict + ("" if row["final"] else "?")


def _notes(row: Row, share: str) -> Iterator[str]:
    """Why a row has no times, or what puts them in doubt."""
    name, codes = row["implementation"], row["warnings"]
    if "message" in row:
        yield f"{name}: {row['message']}"
    if row.get(IMPLAUSIBLE):
        yield (
            f"{name}: {row['pass']} at {percent(row['share'])} {share}, which this device cannot "
            "do: a time is wrong, or the ceiling was measured too low; no verdict rests on it"
        )
    if any(codes):
        several = f"{sum(map(bool, codes))} of {len(codes)} processes"
        yield f"{name}: {', '.join(sorted({*chain(*codes)}))} in {several}"


def table(rows: Sequence[Row], share: str) -> str:
    """The table, and below it the reasons for missing times, and the warnings."""
    first = rows[0]["implementation"]
    heads = ["implementation", "pass", "ms", "TFLOP/s", share, f"time / that of {first}", "verdict"]
    lines = [heads if rows[-1]["implementation"] != first else heads[:5]]
    for row in rows:
        none = "–" if "pass" in row else ""
        told = (of(row[key]) if key in row else none for key, of in NUMBERS.items())
        cells = row["implementation"], row.get("pass", row["status"]), *told, *_compared(row)
        lines.append([*cells[: len(lines[0])]])
    sides = ["left", "left", *["right"] * 4, "left"][: len(lines[0])]
    how: dict[str, Any] = {"tablefmt": "plain", "disable_numparse": True, "colalign": sides}
    text = pd.DataFrame(lines).to_markdown(index=False, headers=(), **how)
    notes = dict.fromkeys(chain.from_iterable(_notes(row, share) for row in rows))
    return "\n".join([str(text), *(["", *notes] if notes else [])])


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
    JSON file to write. UsageError where one names no implementation or a shape is malformed,
    SavedError where an implementation's file was saved while it was measured.
    """
    device = machine.detect_device("auto")
    dtype, name = dtype or USUAL[device][0], machine.device_name(device)
    passes = {each: metric.name for each, metric in PASSES.items() if not asked or each in asked}
    (ceiling, share), every = find_ceiling(device, name, dtype), list[Row]()
    with tempfile.TemporaryDirectory(prefix="flashlab-bench-") as folder:
        targets = find_targets(implementations, folder)
        for shape in shapes_of(shapes, device):
            text, said = shape_text(shape), dict[str, str]()
            print(f"{' against '.join(targets)}: {text} {dtype} on {name}", flush=True)
            candidates = [
                Candidate(label, of, attention_run(of.name, shape, dtype, device), timeout_s)
                for label, of in targets.items()
            ]
            known = partial(describe, candidates, [*passes], margin, ceiling)
            begun, metrics = time.monotonic(), [*passes.values()]
            with claimed_with_notice(device) as variables:
                for _ in measure_in_turns(candidates, metrics, seconds, variables):
                    after = f"after {time.monotonic() - begun:.1f} s"
                    for row in known():
                        which = f"{row['implementation']} {row.get('pass')}"
                        ratio, verdict = _compared(row)
                        if verdict != said.get(which, ""):
                            print(f"{after}: {which} {verdict} {ratio}", flush=True)
                        said[which] = verdict
            after = f"after {time.monotonic() - begun:.1f} s\n"
            print("", table(known(), share), after, sep="\n", flush=True)
            every += [{"shape": text, **row} for row in known()]
    if output:
        about = {"benchmark": ATTENTION.name, "device": name, "dtype": dtype, "margin": margin}
        write_json(output, {**about, "ceiling": ceiling, "rows": every})
    is_complete = {row["status"] for row in every} <= {"ok", "unsupported"}
    return is_complete and not any(row.get(IMPLAUSIBLE) for row in every)
