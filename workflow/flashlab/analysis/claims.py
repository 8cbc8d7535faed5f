"""Published claims: what each says, and whether it holds on this dataset, as a table: claims.csv.

Every test comes down to ratios: of a metric of one run to that of another, to that ratio elsewhere,
or of one rise to another. Each must lie in the range that the claim states. Where a document
compares the growth of two quantities and does not say how, by what they grow or by what factor,
or counts the operations of a rate in its own way, the claim is judged in both ways (`compare`), and
is ``ambiguous`` where it holds in one of them and fails in the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, device_of
from flashlab.analysis.ratios import (
    EVIDENCE_DIGITS,
    SIGNIFICANT_DIGITS,
    Ratio,
    function_of,
    ratio,
    rounded,
)
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.plan.published import asked_comparisons, claim_protocols
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats, function_interval

CONFIRMED, CONTRADICTED, AMBIGUOUS = "confirmed", "contradicted", "ambiguous"
INCONCLUSIVE, OTHER_DEVICE, NOT_TESTED = "inconclusive", "other_device", "not_tested"
VERDICTS = (CONFIRMED, CONTRADICTED, AMBIGUOUS, INCONCLUSIVE, OTHER_DEVICE, NOT_TESTED)

COLUMNS = (
    *("claim", "source", "says", "verdict", "reason", "protocol", "compare", "metric", "runs"),
    *("estimate", "low", "high", "least", "most", "holds"),
)

ABSOLUTE_DIGITS = 6
"""Significant digits in which a figure in ms or MiB is compared; ratios have those of ratios."""

UNTESTED = "device"
"""The reason where nothing was measured on the kind of device that the claims are about."""


@dataclass(frozen=True)
class _Dataset:
    """The runs that claims are judged by: by run and protocol, with the first experiment."""

    benchmark: Benchmark
    runs: Mapping[tuple[Run, str], tuple[Experiment, Row]]
    device: str
    estimates: Estimates

    def lacking(self, runs: Collection[Run], protocol: str) -> list[str]:
        """``run: status`` of each of these runs that has no numbers, or ``run: missing``."""
        statuses = {
            run: self.runs[run, protocol][1]["status"]
            if (run, protocol) in self.runs
            else "missing"
            for run in sorted(runs)
        }
        return [f"{run}: {status}" for run, status in statuses.items() if status != "ok"]


def _times(a: Floats, b: Floats | float = 1, c: Floats | float = 1, d: Any = 1) -> Floats:
    """a, a / b, or (a / b) / (c / d)."""
    found: Floats = a / b / (c / d)
    return found


def _amounts(a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
    """(a - b) / (c - d)."""
    rises: Floats = (a - b) / (c - d)
    return rises


def _rises(before: Estimate, after: Estimate) -> bool:
    """True if a value rises, by its interval's lower end where there is one."""
    least, _ = function_interval(np.subtract, (after, before)) or (after.median - before.median, 0)
    return least > 0


def _digits(claim: Mapping[str, Any]) -> int:
    """The number of significant digits in which a claim's figure is compared."""
    return ABSOLUTE_DIGITS if len(claim["test"]["terms"]) == 1 else SIGNIFICANT_DIGITS


def wanted_range(claim: Mapping[str, Any]) -> dict[str, float]:
    """The bounds ``least`` and ``most`` of a claim's ratio: the test's, or its figure ± tolerance.

    A tolerance of 0.25 lets a figure f stand for f / 1.25 to f · 1.25.
    """
    if "wanted" in claim["test"]:
        return dict(claim["test"]["wanted"])
    figure, room = claim["published"]["figure"], 1 + claim["published"]["tolerance"]
    digits = _digits(claim)
    return {"least": rounded(figure / room, digits), "most": rounded(figure * room, digits)}


def _holds(found: Ratio | None, wanted: Mapping[str, float], digits: int) -> str:
    """``yes`` where the interval lies in the wanted range, ``no`` where outside, else neither."""
    if found is None or found.low is None or found.high is None:
        return "undecided"
    least, most = wanted.get("least", 0.0), wanted.get("most", float("inf"))
    low, high = rounded(found.low, digits), rounded(found.high, digits)
    if least <= low and high <= most:
        return "yes"
    return "no" if high < least or low > most else "undecided"


def _of_whole_work(benchmark: Benchmark, rate: str, runs: Sequence[Run], found: Ratio) -> Ratio:
    """The ratio of two rates as if the first run had the operations of the second."""
    derived = benchmark.metric(rate).derived
    work = benchmark.metric(derived.of[0]).work if derived else None
    assert work is not None  # a rate is that of a timed pass
    mine, whole = (work.operations(run) for run in runs)
    factor = whole / mine
    low, high = (None if end is None else end * factor for end in (found.low, found.high))
    return replace(found, ratio=found.ratio * factor, low=low, high=high)


def _figure(
    dataset: _Dataset, metric: str, runs: Sequence[Run], compare: str, protocol: str
) -> Ratio | None:
    """The ratio of a test with its interval; None where a difference to divide by is not above 0.

    `compare` is ``times`` (a / b over c / d), ``amounts`` (a - b over c - d), or of two rates
    ``whole_work`` (a / b, with as many operations counted of a as of b).
    """
    values = [dataset.estimates.of_metric(*dataset.runs[run, protocol], metric) for run in runs]
    if compare == "amounts":
        if not _rises(values[3], values[2]):
            return None
        found = function_of(0, _amounts, values)
    else:
        pair = len(values) == 2
        found = ratio(0, values[0], values[1]) if pair else function_of(0, _times, values)
    if compare == "whole_work":
        found = _of_whole_work(dataset.benchmark, metric, runs, found)
    if dataset.benchmark.metric(metric).exact:
        return replace(found, low=found.ratio, high=found.ratio)
    return found


def _ways(test: Mapping[str, Any]) -> list[str]:
    """A test's ways to compare its terms, the document's most likely sense first."""
    ways = test.get("compare", "times")
    return [ways] if isinstance(ways, str) else list(ways)


def _figures(
    document: Mapping[str, Any], claim: Mapping[str, Any], dataset: _Dataset, protocol: str
) -> Iterator[dict[str, Any]]:
    """The rows of a claim: each comparison that its test asks for, in each way to compare."""
    wanted, digits = wanted_range(claim), _digits(claim)
    asked = asked_comparisons(document, claim["test"])
    for compare, (metric, runs) in itertools.product(_ways(claim["test"]), asked):
        found = _figure(dataset, metric, runs, compare, protocol)
        ends = (found.ratio, found.low, found.high) if found else (None, None, None)
        yield {
            **{"protocol": protocol, "compare": compare, "metric": metric},
            "runs": " / ".join(map(str, runs)),
            **dict(zip(("estimate", "low", "high"), ends, strict=True)),
            **wanted,
            "holds": _holds(found, wanted, digits),
        }


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """The verdict on a claim: decided in each way to compare, then in all of them together."""
    decided = set()
    for compare in dict.fromkeys(row["compare"] for row in rows):
        held = {row["holds"] for row in rows if row["compare"] == compare}
        if "no" in held:
            decided.add(CONTRADICTED)
        elif held == {"yes"}:
            decided.add(CONFIRMED)
    if len(decided) == 2:
        return AMBIGUOUS
    return decided.pop() if decided else INCONCLUSIVE


def _judge(
    document: Mapping[str, Any], claim: Mapping[str, Any], dataset: _Dataset
) -> tuple[str, str, list[dict[str, Any]]]:
    """The verdict on a claim, why it is not tested, and its rows."""
    if not any(run.device == document["device"] for run, _ in dataset.runs):
        return OTHER_DEVICE, UNTESTED, []
    if "test" not in claim:
        return NOT_TESTED, claim["untested"], []
    needed = {run for _, runs in asked_comparisons(document, claim["test"]) for run in runs}
    protocols = claim_protocols(document["sources"][claim["source"]])
    lacking = {protocol: dataset.lacking(needed, protocol) for protocol in protocols}
    complete = next((protocol for protocol in protocols if not lacking[protocol]), None)
    if complete is None:
        fewest = min(lacking.values(), key=lambda runs: len(runs))
        return NOT_TESTED, "; ".join(fewest), []
    rows = list(_figures(document, claim, dataset, complete))
    if claim["bound_to_device"] and claim["device"] not in dataset.device:
        return OTHER_DEVICE, "", rows
    return _verdict(rows), "", rows


def judge_claims(
    document: Mapping[str, Any], experiments: Sequence[Experiment], estimates: Estimates
) -> pd.DataFrame:
    """Every published claim about a benchmark, judged by the runs of these experiments.

    Args:
        document: the published claims, those about the experiments' benchmark alone.
        experiments: all of the dataset, those that only claims are about among them.
        estimates: what the medians and their intervals come from.

    Returns:
        `COLUMNS`, in the order of the document, with a running index: a row for each comparison of
        a claim and way to compare, or one for a claim that cannot be compared. ``verdict`` is that
        of the whole claim; ``reason`` says why it is not tested; ``runs`` are the terms of the
        figure, which must lie between ``least`` and ``most``; ``holds`` is yes, no or undecided.
    """
    benchmark = find_benchmark(document["benchmark"])
    runs: dict[tuple[Run, str], tuple[Experiment, Row]] = {}
    for experiment in sorted(experiments, key=lambda experiment: experiment.name):
        for row in experiment.runs:
            runs.setdefault((Run.of(benchmark, row), str(row["protocol"])), (experiment, row))
    device = device_of(row for experiment in experiments for row in experiment.runs)
    dataset = _Dataset(benchmark, runs, device, estimates)
    found = []
    for claim in document["claims"]:
        verdict, reason, rows = _judge(document, claim, dataset)
        about = {"claim": claim["id"], "source": claim["source"], "says": claim["says"]["en"]}
        found += [{**about, "verdict": verdict, "reason": reason, **row} for row in rows or [{}]]
    return pd.DataFrame(found, columns=list(COLUMNS))


def read_claims_table(file: Path) -> pd.DataFrame:
    """The table as it was written; what is missing is not a number."""
    return pd.read_csv(file, dtype=dict.fromkeys(COLUMNS[:9], str))


def claims_csv(table: pd.DataFrame) -> str:
    """The table as it is written, with numbers of `EVIDENCE_DIGITS`."""
    text: str = table.to_csv(index=False, float_format=f"%.{EVIDENCE_DIGITS}g", lineterminator="\n")
    return text
