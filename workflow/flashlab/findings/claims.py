"""Published claims: what each says, and whether it holds on this dataset.

Every test comes down to ratios: of a metric of one run to that of another, to that ratio elsewhere,
or of one rise to another. Each must lie in the range that the claim states.

A claim may be read in several ways (`Reading`): where a document compares the growth of two
quantities and does not say how, by what they grow and by what factor; and where the dataset holds
the runs by more than one protocol, by the document's own way of timing and by samples. The first
reading that decides gives the verdict; where another one points the other way, the claim is
``ambiguous``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashlab import statistics
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import find_benchmark
from flashlab.findings.model import Evidence, Finding, Reason
from flashlab.findings.ratios import (
    EVIDENCE_DIGITS,
    INTERVALS,
    SIGNIFICANT_DIGITS,
    Estimates,
    function_of,
    rounded,
)
from flashlab.published import SAMPLED, asked_comparisons, claim_protocols
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats, function_interval
from flashlab.sweep import Row, Sweep, device_of, sitting_doubts, warning_codes

ABSOLUTE_DIGITS = 6
"""Significant digits of a figure in ms, TFLOP/s or MiB; ratios have `SIGNIFICANT_DIGITS`."""

DECIDED = ("confirmed", "contradicted")


@dataclass(frozen=True)
class _Measured:
    """A run that the dataset holds: its row of the run table, and its sweep."""

    sweep: Sweep
    row: Row


@dataclass(frozen=True)
class _Dataset:
    """What the claims are checked against: each run by protocol, in the first sweep that has it."""

    benchmark: Benchmark
    runs: Mapping[tuple[Run, str], _Measured]
    device: str
    estimates: Estimates


def _read_dataset(sweeps: Sequence[Sweep], benchmark: Benchmark, estimates: Estimates) -> _Dataset:
    found: dict[tuple[Run, str], _Measured] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        for row in sweep.runs:
            key = Run.of(benchmark, row), str(row["protocol"])
            found.setdefault(key, _Measured(sweep, row))
    device = device_of(row for sweep in sweeps for row in sweep.runs)
    return _Dataset(benchmark, found, device, estimates)


@dataclass(frozen=True)
class Reading:
    """One way to read a claim: how its terms are compared, and by records of which protocol.

    `compare` is ``times`` (a / b over c / d) or ``amounts`` (a − b over c − d).
    """

    compare: str
    protocol: str


def _rounded_or_none(value: float | None, digits: int) -> float | None:
    return None if value is None else rounded(value, digits)


@dataclass(frozen=True)
class _Comparison:
    """One ratio that a test asks for, and what came of it; no estimate where nothing rises.

    `holds` is decided by the interval. `leans` also by an estimate without one, where it lies
    farther than the margin from the ends of the range.
    """

    metric: str
    runs: tuple[Run, ...]
    reading: Reading
    estimate: float | None
    low: float | None
    high: float | None
    samples: int
    holds: str
    leans: str

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "runs": [str(run) for run in self.runs],
            "compare": self.reading.compare,
            "protocol": self.reading.protocol,
            "estimate": _rounded_or_none(self.estimate, EVIDENCE_DIGITS),
            "low": _rounded_or_none(self.low, EVIDENCE_DIGITS),
            "high": _rounded_or_none(self.high, EVIDENCE_DIGITS),
            "n": self.samples,
            "holds": self.holds,
        }


def _why_incomparable(dataset: _Dataset, run: Run, protocol: str) -> Reason | None:
    """Why a run cannot be compared, None where it can be."""
    found = dataset.runs.get((run, protocol))
    if found is None:
        return Reason("missing", run.to_json())
    if found.row["status"] != "ok":
        return Reason("excluded", run.to_json(), found.row["status"])
    return None


def _times(*values: Floats) -> Floats:
    """a, a / b, or (a / b) / (c / d)."""
    first, *others = values
    result = np.asarray(first, dtype=float)
    for power, value in zip((-1, -1, 1), others, strict=False):
        result = result * value**power
    return result


def _amounts(*values: Floats) -> Floats:
    """(a - b) / (c - d)."""
    a, b, c, d = values
    rises: Floats = np.subtract(a, b) / np.subtract(c, d)
    return rises


def _rises(before: Estimate, after: Estimate) -> bool:
    """Whether there is a rise to divide by, interval included where there is one."""
    least, _ = function_interval(np.subtract, (after, before)) or (after.median - before.median, 0)
    return least > 0


def _judged(low: float, high: float, wanted: Mapping[str, float], digits: int) -> str:
    """``yes`` where the interval lies in the wanted range, ``no`` where outside, else neither."""
    least, most = wanted.get("least", 0.0), wanted.get("most", float("inf"))
    low, high = rounded(low, digits), rounded(high, digits)
    if least <= low and high <= most:
        return "yes"
    return "no" if high < least or low > most else "undecided"


def _digits(claim: Mapping[str, Any]) -> int:
    """How many significant digits of a claim's figure are printed and compared."""
    terms = claim["test"]["terms"] if "test" in claim else ()
    return ABSOLUTE_DIGITS if len(terms) == 1 else SIGNIFICANT_DIGITS


def wanted_range(claim: Mapping[str, Any]) -> dict[str, float]:
    """Where a claim's ratio must lie: as its test says, or its figure give or take the tolerance.

    A tolerance of 0.25 lets a figure f stand for f / 1.25 to f · 1.25.
    """
    if "wanted" in claim["test"]:
        return dict(claim["test"]["wanted"])
    figure, room = claim["published"]["figure"], 1 + claim["published"]["tolerance"]
    digits = _digits(claim)
    return {"least": rounded(figure / room, digits), "most": rounded(figure * room, digits)}


def _compare(
    dataset: _Dataset,
    metric: str,
    runs: tuple[Run, ...],
    reading: Reading,
    wanted: Mapping[str, float],
    digits: int,
) -> _Comparison:
    measured = [dataset.runs[run, reading.protocol] for run in runs]
    values = [dataset.estimates.of_metric(each.sweep, each.row, metric) for each in measured]
    amounts = reading.compare == "amounts"
    if amounts and not _rises(values[3], values[2]):
        samples = min(value.count for value in values)
        nothing = (None, None, None, samples, "undecided", "undecided")
        return _Comparison(metric, runs, reading, *nothing)
    found = function_of(0, _amounts if amounts else _times, values)
    low, high = found.low, found.high
    if dataset.benchmark.metric(metric).exact:
        low = high = found.ratio
    if low is None or high is None:
        holds, room = "undecided", 1 + statistics.MARGIN
        least, most = sorted((found.ratio / room, found.ratio * room))
        leans = _judged(least, most, wanted, digits)
    else:
        holds = leans = _judged(low, high, wanted, digits)
    return _Comparison(metric, runs, reading, found.ratio, low, high, found.samples, holds, leans)


def _given(keys: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The parameters that are given, each with its values."""
    return {
        name: value if isinstance(value, list) else [value]
        for name, value in keys.items()
        if name != "implementation"
    }


def _ways_to_compare(test: Mapping[str, Any]) -> list[str]:
    """How a test's terms are compared, the document's most likely sense first."""
    ways = test.get("compare", "times")
    return [ways] if isinstance(ways, str) else list(ways)


def _what_is_compared(test: Mapping[str, Any]) -> dict[str, Any]:
    """What a test compares, and where: the runs' names and parameters as far as they are given.

    A test of several implementations in turn names them in `each_of`, and none in its terms.
    """
    places = [_given(at) for at in test["at"]]
    return {
        "each_of": sorted({at["implementation"] for at in test["at"] if "implementation" in at}),
        "metrics": test["metrics"],
        "compare": _ways_to_compare(test)[0],
        "terms": [
            {"name": term.get("implementation", ""), "given": _given(term)}
            for term in test["terms"]
        ],
        "at": [place for i, place in enumerate(places) if place not in places[:i]],
    }


def _figures(found: Sequence[_Comparison], digits: int) -> dict[str, Any]:
    """One figure with its interval, or the range of several, and how many lie in what range."""
    estimates = [each.estimate for each in found if each.estimate is not None]
    ours: dict[str, Any] = {
        "count": len(found),
        "interval_count": sum(each.low is not None for each in found),
        "ours_lowest": _rounded_or_none(min(estimates, default=None), digits),
        "ours_highest": _rounded_or_none(max(estimates, default=None), digits),
        **{
            f"{word}_count": sum(comparison.holds == holds for comparison in found)
            for word, holds in (("held", "yes"), ("failed", "no"), ("undecided", "undecided"))
        },
    }
    if len(found) == 1:
        (only,) = found
        ours |= {
            "ours": _rounded_or_none(only.estimate, digits),
            "ours_low": _rounded_or_none(only.low, digits),
            "ours_high": _rounded_or_none(only.high, digits),
        }
    return ours


def _ours(found: Sequence[_Comparison], digits: int) -> dict[str, Any]:
    """What the ledger prints as ours; of several metrics, also each by itself (`by_metric`)."""
    if not found:
        return {"count": 0}
    ours = _figures(found, digits)
    metrics = list(dict.fromkeys(comparison.metric for comparison in found))
    if len(metrics) > 1:
        ours["by_metric"] = [
            {"metric": metric, **_figures([c for c in found if c.metric == metric], digits)}
            for metric in metrics
        ]
    return ours


def _summed_up(judged: Sequence[str]) -> str:
    """The verdict of comparisons of which each holds (``yes``), fails (``no``), or neither."""
    if "no" in judged:
        return "contradicted"
    return "confirmed" if set(judged) == {"yes"} else "inconclusive"


Readings = Mapping[Reading, Sequence[_Comparison]]
"""The comparisons by each way to read a claim, the one to show first at the front."""


def _verdict(readings: Readings) -> str:
    """What the first reading that decides comes to, unless another one points the other way."""
    held = [_summed_up([c.holds for c in found]) for found in readings.values()]
    leaning = {_summed_up([c.leans for c in found]) for found in readings.values()}
    decided = [verdict for verdict in held if verdict in DECIDED]
    if not decided:
        return "inconclusive"
    return "ambiguous" if leaning >= set(DECIDED) else decided[0]


def _read_claim(
    claim: Mapping[str, Any],
    asked: Sequence[tuple[str, tuple[Run, ...]]],
    protocols: Sequence[str],
    dataset: _Dataset,
) -> tuple[Readings, list[Reason]]:
    """The comparisons by each reading for which the dataset holds the runs; else what it lacks."""
    needed = sorted({run for _, runs in asked for run in runs})
    lacking = {
        protocol: [r for run in needed if (r := _why_incomparable(dataset, run, protocol))]
        for protocol in protocols
    }
    complete = [protocol for protocol in protocols if not lacking[protocol]]
    if not complete:
        reasons = min(lacking.values(), key=len)
        return {}, [reason for i, reason in enumerate(reasons) if reason not in reasons[:i]]
    if all(dataset.benchmark.metric(metric).exact for metric, _ in asked):
        complete = complete[:1]  # the same by every protocol
    wanted, digits = wanted_range(claim), _digits(claim)
    return {
        reading: [_compare(dataset, *pair, reading, wanted, digits) for pair in asked]
        for protocol, compare in itertools.product(complete, _ways_to_compare(claim["test"]))
        for reading in [Reading(compare, protocol)]
    }, []


def _decide(
    document: Mapping[str, Any], claim: Mapping[str, Any], dataset: _Dataset
) -> tuple[str, Readings, list[Reason]]:
    """Verdict, comparisons by each reading, and reasons."""
    if not any(run.device == document["device"] for run, _ in dataset.runs):
        return "other_device", {}, []
    if "test" not in claim:
        return "not_tested", {}, [Reason(claim["untested"])]
    asked = asked_comparisons(document, claim["test"])
    source = document["sources"][claim["source"]]
    protocols = claim_protocols(source, has_figure="published" in claim)
    readings, lacking = _read_claim(claim, asked, protocols, dataset)
    if lacking:
        return "not_tested", {}, lacking
    if claim["bound_to_device"] and claim["device"] not in dataset.device:
        return "other_device", readings, []
    return _verdict(readings), readings, []


def _caveats(
    readings: Readings, source: Mapping[str, Any], benchmark: Benchmark
) -> Iterator[Reason]:
    """What to know of the figures: means without samples, or published means beside medians."""
    sampled = [
        comparison
        for found in readings.values()
        for comparison in found
        if not benchmark.metric(comparison.metric).exact
    ]
    if not sampled:
        return
    protocols = {comparison.reading.protocol for comparison in sampled}
    if source.get("protocol", SAMPLED) not in protocols:
        yield Reason("published_mean")
    if all(comparison.low is None for comparison in sampled if comparison.estimate is not None):
        yield Reason("no_samples")


def _params(
    claim: Mapping[str, Any], source: Mapping[str, Any], readings: Readings
) -> dict[str, Any]:
    published, tested = claim.get("published", {}), "test" in claim
    wanted = wanted_range(claim) if tested else {}
    digits, (first, *_) = _digits(claim), (*readings.values(), [])
    return {
        "says": claim["says"],
        "source_title": source["title"],
        "place": claim["place"],
        "published_device": claim["device"],
        "published": published.get("figure"),
        "unit": published.get("unit"),
        "tolerance": published.get("tolerance"),
        "wanted_least": wanted.get("least"),
        "wanted_most": wanted.get("most"),
        **(_what_is_compared(claim["test"]) if tested else {}),
        **_ours(first, digits),
        "readings": [
            {
                **vars(reading),
                "leans": _summed_up([comparison.leans for comparison in found]),
                **_ours(found, digits),
            }
            for reading, found in readings.items()
        ],
    }


def claims(
    document: Mapping[str, Any], sweeps: Sequence[Sweep], estimates: Estimates
) -> Iterator[Finding]:
    """One finding a published claim, whether it could be tested here or not."""
    benchmark = find_benchmark(document["benchmark"])
    sweeps = [sweep for sweep in sweeps if sweep.benchmark.name == benchmark.name]
    if not sweeps:
        return
    dataset = _read_dataset(sweeps, benchmark, estimates)
    for claim in document["claims"]:
        source = document["sources"][claim["source"]]
        verdict, readings, reasons = _decide(document, claim, dataset)
        missing = verdict == "other_device" and not readings
        yield Finding(
            kind="claim",
            experiment=None,
            device=dataset.device,
            subject={"claim": claim["id"], "source": claim["source"]},
            verdict=verdict,
            sentences=[f"claim.{verdict}" + (".missing" if missing else "")],
            params=_params(claim, source, readings),
            evidence=_evidence(dataset, readings),
            reasons=[*reasons, *_caveats(readings, source, benchmark)],
            warnings=_warnings(dataset, readings),
        )


def _evidence(dataset: _Dataset, readings: Readings) -> Evidence:
    found = [comparison for comparisons in readings.values() for comparison in comparisons]
    measured = {
        (run, c.reading.protocol): dataset.runs[run, c.reading.protocol]
        for c in found
        for run in c.runs
    }
    is_sampled = any(not dataset.benchmark.metric(c.metric).exact for c in found)
    table = "samples" if is_sampled else "metrics"
    folders = sorted({each.sweep.name for each in measured.values()})
    return Evidence(
        table=", ".join(f"tables/{folder}/{table}.csv" for folder in folders),
        rows={
            "runs": sorted({str(run) for run, _ in measured}),
            "record": sorted({each.row["record"] for each in measured.values()}),
        },
        method="ratio of the metric of the first run to that of the second, over that of the third "
        "to the fourth where there are four, or where amounts are compared the first less the "
        f"second over the third less the fourth; {INTERVALS}, exact metrics and means without "
        "samples as they are",
        n=min((comparison.samples for comparison in found), default=0),
        estimates=[comparison.to_json() for comparison in found],
    )


def _warnings(dataset: _Dataset, readings: Readings) -> list[str]:
    """The codes of the warnings on the runs compared, by the measured metrics behind theirs."""
    found: set[str] = set()
    for comparison in (c for comparisons in readings.values() for c in comparisons):
        if not dataset.benchmark.metric(comparison.metric).exact:
            rows = [dataset.runs[run, comparison.reading.protocol].row for run in comparison.runs]
            measured = dataset.benchmark.measured_behind(comparison.metric)
            found.update(warning_codes(rows, *measured), sitting_doubts([rows]))
    return sorted(found)
