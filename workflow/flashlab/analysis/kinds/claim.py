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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flashlab import statistics
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row, comparison_warnings, device_of
from flashlab.analysis.finding import Finding, Reason
from flashlab.analysis.kind import MEASURED, Given, Kind
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
from flashlab.plan.published import SAMPLED, asked_comparisons, claim_protocols
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats, function_interval
from flashlab.telling.codes import by_code
from flashlab.telling.values import (
    Heading,
    Label,
    Listed,
    Measured,
    Number,
    Range,
    Statement,
    Tellable,
    clauses,
    in_turn,
    say,
    settings,
)
from flashlab.telling.values import Run as ToldRun

ABSOLUTE_DIGITS = 6
"""Significant digits of a figure in ms, TFLOP/s or MiB; ratios have `SIGNIFICANT_DIGITS`."""

PUBLISHED_DIGITS = 4
"""Most significant digits of a published figure that are printed."""

DECIDED = ("confirmed", "contradicted")

FORMULAS = {
    (1, "times"): "{}",
    (2, "times"): "{} ÷ {}",
    (2, "whole_work"): "{} ÷ {}",
    (4, "times"): "({} ÷ {}) ÷ ({} ÷ {})",
    (4, "amounts"): "({} − {}) ÷ ({} − {})",
}
"""What a test computes, by the number of its terms and how it compares them."""

WAYS = by_code(
    *("claim.reading.times", "claim.reading.amounts", "claim.reading.sampled"),
    *("claim.reading.lab5", "claim.reading.training"),
)
"""What sets a reading apart: how it compares, and the protocol of the records."""

COUNTS = {"times": "claim.reading.halved_work", "whole_work": "claim.reading.whole_work"}
"""The same where two rates are compared with the operations counted in two ways."""


@dataclass(frozen=True)
class _Dataset:
    """What the claims are checked against: each run by protocol, in the first sweep that has it.

    `runs` holds that sweep, and the run's row of its table.
    """

    benchmark: Benchmark
    runs: Mapping[tuple[Run, str], tuple[Experiment, Row]]
    device: str
    estimates: Estimates

    def lacks(self, run: Run, protocol: str) -> Reason | None:
        """Why a run cannot be compared, None where it can be."""
        if (run, protocol) not in self.runs:
            return Reason("missing", run.to_row())
        status = self.runs[run, protocol][1]["status"]
        return None if status == "ok" else Reason("excluded", run.to_row(), status)

    def rows_of(self, compared: _Comparison) -> list[Row]:
        """The runs that are compared."""
        return [self.runs[run, compared.reading.protocol][1] for run in compared.runs]

    def is_exact(self, metric: str) -> bool:
        """Whether a metric has no scatter."""
        return self.benchmark.metric(metric).exact


@dataclass(frozen=True)
class Reading:
    """One way to read a claim: how its terms are compared, and by records of which protocol.

    `compare` is ``times`` (a / b over c / d), ``amounts`` (a − b over c − d), or of two rates
    ``whole_work`` (a / b, with as many operations counted of a as of b).
    """

    compare: str
    protocol: str


@dataclass(frozen=True)
class _Comparison:
    """One ratio that a test asks for, and what came of it; no estimate where nothing rises.

    `holds` is decided by the interval. `leans` also by an estimate without one, where it lies
    farther than the margin from the ends of the range.
    """

    metric: str
    runs: tuple[Run, ...]
    reading: Reading
    samples: int
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    holds: str = "undecided"
    leans: str = "undecided"

    def to_json(self) -> dict[str, Any]:
        ends = {name: getattr(self, name) for name in ("estimate", "low", "high")}
        return {
            "metric": self.metric,
            "runs": [str(run) for run in self.runs],
            **vars(self.reading),
            **{k: None if v is None else rounded(v, EVIDENCE_DIGITS) for k, v in ends.items()},
            "n": self.samples,
            "holds": self.holds,
        }


def _times(a: Floats, b: Floats | float = 1, c: Floats | float = 1, d: Any = 1) -> Floats:
    """a, a / b, or (a / b) / (c / d)."""
    found: Floats = a / b / (c / d)
    return found


def _amounts(a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
    """(a - b) / (c - d)."""
    rises: Floats = (a - b) / (c - d)
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
    return ABSOLUTE_DIGITS if len(claim["test"]["terms"]) == 1 else SIGNIFICANT_DIGITS


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
    values = [dataset.estimates.of_metric(*at, metric) for at in measured]
    amounts = reading.compare == "amounts"
    if amounts and not _rises(values[3], values[2]):
        return _Comparison(metric, runs, reading, min(value.count for value in values))
    if amounts or len(values) != 2:
        found = function_of(0, _amounts if amounts else _times, values)
    else:
        found = ratio(0, values[0], values[1])
    if reading.compare == "whole_work":
        found = _of_whole_work(dataset.benchmark, metric, runs, found)
    low, high = found.low, found.high
    if dataset.is_exact(metric):
        low = high = found.ratio
    if low is None or high is None:
        holds, room = "undecided", 1 + statistics.MARGIN
        least, most = sorted((found.ratio / room, found.ratio * room))
        leans = _judged(least, most, wanted, digits)
    else:
        holds = leans = _judged(low, high, wanted, digits)
    return _Comparison(metric, runs, reading, found.samples, found.ratio, low, high, holds, leans)


def _of_whole_work(benchmark: Benchmark, rate: str, runs: tuple[Run, ...], found: Ratio) -> Ratio:
    """The ratio of two rates as if the first run had the operations of the second."""
    derived = benchmark.metric(rate).derived
    work = benchmark.metric(derived.of[0]).work if derived else None
    assert work is not None  # a rate is that of a timed pass
    mine, whole = (work.operations(run) for run in runs)
    factor = whole / mine
    low, high = (None if end is None else end * factor for end in (found.low, found.high))
    return replace(found, ratio=found.ratio * factor, low=low, high=high)


def _ways_to_compare(test: Mapping[str, Any]) -> list[str]:
    """How a test's terms are compared, the document's most likely sense first."""
    ways = test.get("compare", "times")
    return [ways] if isinstance(ways, str) else list(ways)


def _summed_up(judged: Sequence[str]) -> str:
    """The verdict of comparisons of which each holds (``yes``), fails (``no``), or neither."""
    if "no" in judged:
        return "contradicted"
    return "confirmed" if set(judged) == {"yes"} else "inconclusive"


Readings = Mapping[Reading, Sequence[_Comparison]]
"""The comparisons by each way to read a claim, the one to show first at the front."""


def _leaning(readings: Readings) -> set[str]:
    """Where readings point, whether or not they decide."""
    return {_summed_up([c.leans for c in found]) for found in readings.values()}


def _verdict(readings: Readings) -> str:
    """What the first reading that decides comes to, unless another one points the other way."""
    held = [_summed_up([c.holds for c in found]) for found in readings.values()]
    decided = [verdict for verdict in held if verdict in DECIDED]
    if not decided:
        return "inconclusive"
    return "ambiguous" if _leaning(readings) >= set(DECIDED) else decided[0]


def _read_claim(
    claim: Mapping[str, Any],
    asked: Sequence[tuple[str, tuple[Run, ...]]],
    protocols: Sequence[str],
    dataset: _Dataset,
) -> tuple[Readings, list[Reason]]:
    """The comparisons by each reading for which the dataset holds the runs; else what it lacks."""
    needed = sorted({run for _, runs in asked for run in runs})
    lacking = {
        protocol: [reason for run in needed if (reason := dataset.lacks(run, protocol))]
        for protocol in protocols
    }
    complete = [protocol for protocol in protocols if not lacking[protocol]]
    if not complete:
        return {}, min(lacking.values(), key=len)
    if all(dataset.is_exact(metric) for metric, _ in asked):
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
    found: Sequence[_Comparison], source: Mapping[str, Any], dataset: _Dataset
) -> Iterator[Reason]:
    """What to know of the figures: means without samples, or published means beside medians."""
    sampled = [comparison for comparison in found if not dataset.is_exact(comparison.metric)]
    if not sampled:
        return
    protocols = {comparison.reading.protocol for comparison in sampled}
    if source.get("protocol", SAMPLED) not in protocols:
        yield Reason("published_mean")
    if all(comparison.low is None for comparison in sampled if comparison.estimate is not None):
        yield Reason("no_samples")


# How a claim is told: cells of the ledger


def _terms_compared(test: Mapping[str, Any], benchmark: Benchmark) -> Tellable:
    """What a test compares: ``Flash2 [causal] ÷ Pytorch [causal]``.

    A test of several implementations in turn names them once, and none in its terms.
    """
    terms = [
        ToldRun(term.get("implementation", ""), settings(benchmark, term)) for term in test["terms"]
    ]
    *before, after = FORMULAS[len(terms), _ways_to_compare(test)[0]].split("{}")
    pieces = [piece for pair in zip(before, terms, strict=True) for piece in pair]
    formula: Tellable = Listed([*pieces, after], "")
    names = sorted({at["implementation"] for at in test["at"] if "implementation" in at})
    return say("claim.each_of", names=Listed(names), formula=formula) if names else formula


def _figure(found: Sequence[_Comparison], digits: int) -> Tellable:
    """A figure with its interval, or the range of several and how many lie as the claim wants."""
    if len(found) == 1:
        figure, low, high = (
            _printed(end, digits) for end in (found[0].estimate, found[0].low, found[0].high)
        )
        key = "claim.figure.exact" if low == high else "claim.figure.interval"
        return say(key, ours=figure, ours_low=low, ours_high=high)
    held = sum(comparison.holds == "yes" for comparison in found)
    key = "claim.figure.range.some"
    if not any(comparison.low is not None for comparison in found):
        key = "claim.figure.range.means"
    elif held in (0, len(found)):
        key = "claim.figure.range.all" if held else "claim.figure.range.none"
    lowest, highest = _ends(found, digits)
    counts: dict[str, Tellable] = {"count": len(found), "held_count": held}
    return say(key, ours_lowest=lowest, ours_highest=highest, **counts)


def _ends(found: Sequence[_Comparison], digits: int) -> list[Tellable]:
    estimates = [each.estimate for each in found if each.estimate is not None]
    return [_printed(choose(estimates, default=None), digits) for choose in (min, max)]


def _printed(figure: float | None, digits: int) -> Tellable:
    return Number(None) if figure is None else Measured(rounded(figure, digits))


def _by_metric(
    found: Sequence[_Comparison],
    benchmark: Benchmark,
    tell: Callable[[Sequence[_Comparison]], Tellable],
    separator: str,
) -> Tellable:
    """The comparisons, of several metrics each metric's by themselves."""
    metrics = list(dict.fromkeys(comparison.metric for comparison in found))
    if len(metrics) == 1:
        return tell(found)
    told = []
    for metric in metrics:
        figure = tell([comparison for comparison in found if comparison.metric == metric])
        label = Label(benchmark.metric(metric).labels)
        told.append(say("claim.figure.of_metric", metric=label, figure=figure))
    return Listed(told, separator)


def _readings_to_show(
    readings: Readings, verdict: str, is_published: bool
) -> list[tuple[Reading, Sequence[_Comparison]]]:
    """All readings by the first protocol, and by the other one where that tells anything more.

    It does beside a published figure, and where a claim is ambiguous because the protocols differ.
    """
    every = list(readings.items())
    first = [each for each in every if each[0].protocol == every[0][0].protocol]
    told_by_first = verdict != "ambiguous" or set(DECIDED) <= _leaning(dict(first))
    return first if told_by_first and not is_published else every


def _how(test: Mapping[str, Any], reading: Reading, protocols: Collection[str]) -> list[Tellable]:
    """What sets a reading apart: how terms are compared, and the protocol of the records."""
    told: list[Tellable] = []
    if len(test["terms"]) == 4:
        told.append(say(WAYS[reading.compare]))
    elif len(_ways_to_compare(test)) > 1:
        told.append(say(COUNTS[reading.compare]))
    if set(protocols) != {SAMPLED}:
        told.append(say(WAYS[reading.protocol]))
    return told


def _told_readings(
    claim: Mapping[str, Any], readings: Readings, verdict: str, benchmark: Benchmark
) -> dict[str, Tellable]:
    """Our figure by each way to read a claim, and `in_short` without intervals.

    In short, a claim that is ambiguous has each of its readings, any other the first. What compares
    runs is a factor.
    """
    shown = _readings_to_show(readings, verdict, "published" in claim)
    digits, terms = _digits(claim), len(claim["test"]["terms"])
    unit = "×" if terms > 1 else f" {claim['published']['unit']}"
    protocols = {reading.protocol for reading, _ in shown}
    figure = partial(_figure, digits=digits)

    def in_short(found: Sequence[_Comparison]) -> Tellable:
        return Listed([Range(*_ends(found, digits)), unit], "")

    whole, short = [], []
    for reading, found in shown:
        how = _how(claim["test"], reading, protocols)
        told = _by_metric(found, benchmark, figure, "claim.place.separator")
        brief = _by_metric(found, benchmark, in_short, "list.separator")
        whole.append(Heading(say("claim.reading", how=Listed(how), figure=told)) if how else told)
        is_named = verdict == "ambiguous" and how
        short.append(
            say("claim.reading.short", how=Listed(how), figure=brief) if is_named else brief
        )
    return {
        "figure": in_turn(whole),
        "in_short": clauses(short) if verdict == "ambiguous" else short[0],
    }


def _told_range(wanted: Mapping[str, float]) -> Statement:
    """The range that a claim states."""
    ends = {f"wanted_{end}": Number(figure) for end, figure in wanted.items()}
    if len(ends) == 2:
        return say("claim.wanted.between", **ends)
    return say("claim.wanted.least" if "least" in wanted else "claim.wanted.most", **ends)


def _told_publication(claim: Mapping[str, Any]) -> Tellable:
    """The published figure with its unit; what the claim calls for where it gives none."""
    if "published" not in claim:
        wanted: Tellable = _told_range(wanted_range(claim)) if "test" in claim else "–"
        return say("ledger.wanted", wanted=wanted)
    figure, unit = claim["published"]["figure"], claim["published"]["unit"]
    parts: list[Tellable] = [
        Number(figure, PUBLISHED_DIGITS),
        "" if unit == "ratio" else f" {unit}",
    ]
    device = claim["device"] or say("unknown")
    return say("ledger.published", figure=Listed(parts, ""), device=device)


def claims(experiments: Sequence[Experiment], given: Given) -> Iterator[Finding]:
    """One finding a published claim, whether it could be tested here or not."""
    document = given.published
    benchmark = find_benchmark(document["benchmark"])
    runs: dict[tuple[Run, str], tuple[Experiment, Row]] = {}
    for experiment in sorted(experiments, key=lambda experiment: experiment.name):
        for row in experiment.runs:
            runs.setdefault((Run.of(benchmark, row), str(row["protocol"])), (experiment, row))
    device = device_of(row for experiment in experiments for row in experiment.runs)
    dataset = _Dataset(benchmark, runs, device, given.estimates)
    for claim in document["claims"]:
        source = document["sources"][claim["source"]]
        verdict, readings, reasons = _decide(document, claim, dataset)
        found = [comparison for comparisons in readings.values() for comparison in comparisons]
        facts: dict[str, Any] = {
            "says": Label(claim["says"]),
            "place": Label(claim["place"]),
            "source": Label(source["title"]),
            "published": _told_publication(claim),
            "device": claim["device"] or "",
        }
        if readings:
            facts["compared"] = _terms_compared(claim["test"], benchmark)
            facts |= _told_readings(claim, readings, verdict, benchmark)
            rows = itertools.chain.from_iterable(map(dataset.rows_of, found))
            facts["records"] = sorted({row["record"] for row in rows})
        yield Finding(
            "claim",
            None,
            {"claim": claim["id"], "source": claim["source"]},
            verdict,
            facts=facts,
            estimates=[comparison.to_json() for comparison in found],
            reasons=[*reasons, *_caveats(found, source, dataset)],
            warnings=_warnings(dataset, found),
        )


def _warnings(dataset: _Dataset, found: Sequence[_Comparison]) -> list[str]:
    """The codes of the warnings on the runs compared, by the measured metrics behind theirs."""
    codes: set[str] = set()
    for comparison in found:
        if not dataset.is_exact(comparison.metric):
            rows = [dataset.rows_of(comparison)]
            codes.update(comparison_warnings(dataset.benchmark, comparison.metric, rows))
    return sorted(codes)


CLAIM = Kind(
    label="kind.claim",
    verdicts=(*DECIDED, "ambiguous", "inconclusive", "other_device", "not_tested"),
    of_dataset=[(MEASURED, claims)],
)
