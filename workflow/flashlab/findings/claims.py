"""Published claims: what each says, and whether it holds on this dataset.

Every test comes down to ratios: of a metric of one run to that of another, to that ratio elsewhere,
or of one rise to another. Each must lie in the range that the claim states.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema.exceptions
import numpy as np
import yaml

from flashlab.benchmarks.model import Benchmark, UnknownNameError
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
from flashlab.runs import Run
from flashlab.statistics import Estimate, Floats, function_interval
from flashlab.sweep import Row, Sweep, device_of, warning_codes

SCHEMA = Path(__file__).parents[2] / "schemas" / "claims.schema.json"

ABSOLUTE_DIGITS = 6
"""Significant digits of a figure in ms, TFLOP/s or MiB; ratios have `SIGNIFICANT_DIGITS`."""

DTYPE, DEVICE = "float16", "cuda"
"""What every published claim was measured on."""


class ClaimsError(Exception):
    """A file of claims that cannot be read, or is none by its schema."""


def read_claims(path: Path) -> dict[str, Any]:
    """The published claims and their sources, checked against their schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ClaimsError(f"{path}: the published claims cannot be read: {error}") from error
    problem = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(document)
    )
    if problem is not None:
        key = ".".join(str(part) for part in problem.absolute_path) or "the document"
        raise ClaimsError(f"{path}: {key}: {problem.message}")
    try:
        _check_names(document, find_benchmark(document["benchmark"]))
    except UnknownNameError as error:
        raise ClaimsError(f"{path}: {error}") from error
    names = [claim["id"] for claim in document["claims"]]
    for claim in document["claims"]:
        if claim["source"] not in document["sources"]:
            raise ClaimsError(f"{path}: {claim['id']}: there is no source {claim['source']}")
        if names.count(claim["id"]) > 1:
            raise ClaimsError(f"{path}: {claim['id']} names two claims; rename one")
    found: dict[str, Any] = document
    return found


def _check_names(document: Mapping[str, Any], benchmark: Benchmark) -> None:
    """UnknownNameError for a metric or parameter that the claims' benchmark does not declare."""
    for test in (claim["test"] for claim in document["claims"] if "test" in claim):
        for name in test["metrics"]:
            benchmark.metric(name)
        for keys in (*test["terms"], *test["at"]):
            for name in keys.keys() - {"implementation"}:
                benchmark.parameter(name)


@dataclass(frozen=True)
class _Measured:
    """A run that the dataset holds: its row of the run table, and its sweep."""

    sweep: Sweep
    row: Row


Index = Mapping[Run, _Measured]


def _index(sweeps: Sequence[Sweep]) -> dict[Run, _Measured]:
    """Each run of the dataset with the first sweep, in order of their names, that holds it."""
    found: dict[Run, _Measured] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        for row in sweep.runs:
            found.setdefault(Run.of(sweep.benchmark, row), _Measured(sweep, row))
    return found


def _rounded_or_none(value: float | None, digits: int) -> float | None:
    return None if value is None else rounded(value, digits)


@dataclass(frozen=True)
class _Comparison:
    """One ratio that a test asks for, and what came of it; no estimate where nothing rises."""

    metric: str
    runs: tuple[Run, ...]
    estimate: float | None
    low: float | None
    high: float | None
    samples: int
    holds: str

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "runs": [str(run) for run in self.runs],
            "estimate": _rounded_or_none(self.estimate, EVIDENCE_DIGITS),
            "low": _rounded_or_none(self.low, EVIDENCE_DIGITS),
            "high": _rounded_or_none(self.high, EVIDENCE_DIGITS),
            "n": self.samples,
            "holds": self.holds,
        }


def _places(at: Mapping[str, Any], benchmark: Benchmark) -> list[dict[str, Any]]:
    """The combinations of a test's values: lists of sizes go together, variants cross them."""
    variants = {parameter.name for parameter in benchmark.variants}
    lists = {key: value for key, value in at.items() if isinstance(value, list)}
    crossed = {key: lists.pop(key) for key in sorted(variants & lists.keys())}
    count = max(map(len, lists.values()), default=1)
    places = [{**at, **{key: values[i] for key, values in lists.items()}} for i in range(count)]
    return [
        {**place, **dict(zip(crossed, values, strict=True))}
        for place in places
        for values in itertools.product(*crossed.values())
    ]


def _why_incomparable(index: Index, run: Run) -> Reason | None:
    """Why a run cannot be compared, None where it can be."""
    found = index.get(run)
    if found is None:
        return Reason("missing", run.to_json())
    if found.row["status"] != "ok":
        return Reason("excluded", run.to_json(), found.row["status"])
    return None if found.row["protocol"] == "sampled" else Reason("not_sampled")


def _estimate(index: Index, run: Run, metric: str, estimates: Estimates) -> Estimate:
    """The metric of a run, in its unit."""
    found = index[run]
    return estimates.of_metric(found.sweep, found.row, metric)


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


@dataclass(frozen=True)
class _Judge:
    """The dataset that the claims are checked against."""

    benchmark: Benchmark
    index: Index
    device: str
    estimates: Estimates

    def run(self, keys: Mapping[str, Any]) -> Run:
        """The run that a claim's keys name."""
        return Run.of(self.benchmark, {"dtype": DTYPE, "device": DEVICE, **keys})


def _comparison(
    judge: _Judge,
    metric: str,
    runs: Sequence[Run],
    test: Mapping[str, Any],
    wanted: Mapping[str, float],
    digits: int,
) -> _Comparison:
    values = [_estimate(judge.index, run, metric, judge.estimates) for run in runs]
    amounts = test.get("compare") == "amounts"
    if amounts and not _rises(values[3], values[2]):
        samples = min(value.count for value in values)
        return _Comparison(metric, tuple(runs), None, None, None, samples, "undecided")
    found = function_of(0, _amounts if amounts else _times, values)
    low, high = found.low, found.high
    if judge.benchmark.metric(metric).exact:
        low = high = found.ratio
    holds = "undecided"
    if low is not None and high is not None:
        holds = _judged(low, high, wanted, digits)
    return _Comparison(metric, tuple(runs), found.ratio, low, high, found.samples, holds)


def wanted_range(claim: Mapping[str, Any]) -> dict[str, float]:
    """Where a claim's ratio must lie: as its test says, or its figure give or take the tolerance.

    A tolerance of 0.25 lets a figure f stand for f / 1.25 to f · 1.25.
    """
    if "wanted" in claim["test"]:
        return dict(claim["test"]["wanted"])
    figure, room = claim["published"]["figure"], 1 + claim["published"]["tolerance"]
    digits = _digits(claim)
    return {"least": rounded(figure / room, digits), "most": rounded(figure * room, digits)}


def _asked(judge: _Judge, test: Mapping[str, Any]) -> list[tuple[str, list[Run]]]:
    """The comparisons that a test asks for: a metric, and one, two or four runs."""
    return [
        (metric, [judge.run({**place, **term}) for term in test["terms"]])
        for at, metric in itertools.product(test["at"], test["metrics"])
        for place in _places(at, judge.benchmark)
    ]


def _given(keys: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The parameters that are given, each with its values."""
    return {
        name: value if isinstance(value, list) else [value]
        for name, value in keys.items()
        if name != "implementation"
    }


def _compared(test: Mapping[str, Any]) -> dict[str, Any]:
    """What a test compares, and where: the runs' names and parameters as far as they are given.

    A test of several implementations in turn names them in `each_of`, and none in its terms.
    """
    places = [_given(at) for at in test["at"]]
    return {
        "each_of": sorted({at["implementation"] for at in test["at"] if "implementation" in at}),
        "metrics": test["metrics"],
        "compare": test.get("compare", "times"),
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


def _verdict(found: Sequence[_Comparison]) -> str:
    holds = {comparison.holds for comparison in found}
    if "no" in holds:
        return "contradicted"
    return "confirmed" if holds == {"yes"} else "inconclusive"


def _sentence(verdict: str, found: Sequence[_Comparison]) -> str:
    missing = verdict == "other_device" and not found
    return f"claim.{verdict}" + (".missing" if missing else "")


def _decide(claim: Mapping[str, Any], judge: _Judge) -> tuple[str, list[_Comparison], list[Reason]]:
    """Verdict, comparisons and reasons."""
    index = judge.index
    if not any(run.device == DEVICE for run in index):
        return "other_device", [], []
    if "test" not in claim:
        return "not_tested", [], [Reason(claim["untested"])]
    asked = _asked(judge, claim["test"])
    needed = sorted({run for _, runs in asked for run in runs})
    lacking = [reason for run in needed if (reason := _why_incomparable(index, run))]
    if lacking:
        return "not_tested", [], [r for i, r in enumerate(lacking) if r not in lacking[:i]]
    wanted, digits = wanted_range(claim), _digits(claim)
    found = [
        _comparison(judge, metric, runs, claim["test"], wanted, digits) for metric, runs in asked
    ]
    if claim["bound_to_device"] and claim["device"] not in judge.device:
        return "other_device", found, []
    return _verdict(found), found, []


def _params(claim: Mapping[str, Any], source: Mapping[str, Any], ours: dict[str, Any]) -> Any:
    published, tested = claim.get("published", {}), "test" in claim
    wanted = wanted_range(claim) if tested else {}
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
        **(_compared(claim["test"]) if tested else {}),
        **ours,
    }


def claims(
    document: Mapping[str, Any], sweeps: Sequence[Sweep], estimates: Estimates
) -> Iterator[Finding]:
    """One finding a published claim, whether it could be tested here or not."""
    benchmark = find_benchmark(document["benchmark"])
    sweeps = [sweep for sweep in sweeps if sweep.benchmark == benchmark]
    if not sweeps:
        return
    device = device_of(row for sweep in sweeps for row in sweep.runs)
    judge = _Judge(benchmark, _index(sweeps), device, estimates)
    for claim in document["claims"]:
        source = document["sources"][claim["source"]]
        verdict, found, reasons = _decide(claim, judge)
        sampled = [each for each in found if not benchmark.metric(each.metric).exact]
        if sampled and source["statistic"] == "mean_of_30":
            reasons = [*reasons, Reason("published_mean")]
        yield Finding(
            kind="claim",
            experiment=None,
            device=device,
            subject={"claim": claim["id"], "source": claim["source"]},
            verdict=verdict,
            sentences=[_sentence(verdict, found)],
            params=_params(claim, source, _ours(found, _digits(claim))),
            evidence=_evidence(judge, found, "samples" if sampled else "metrics"),
            reasons=reasons,
            warnings=_warnings(judge, sampled),
        )


def _evidence(judge: _Judge, found: Sequence[_Comparison], table: str) -> Evidence:
    runs = sorted({run for comparison in found for run in comparison.runs})
    folders = sorted({judge.index[run].sweep.name for run in runs})
    return Evidence(
        table=", ".join(f"tables/{folder}/{table}.csv" for folder in folders),
        rows={"runs": [str(run) for run in runs]},
        method="ratio of the metric of the first run to that of the second, over that of the third "
        "to the fourth where there are four, or where amounts are compared the first less the "
        f"second over the third less the fourth; {INTERVALS}, exact metrics as they are",
        n=min((comparison.samples for comparison in found), default=0),
        estimates=[comparison.to_json() for comparison in found],
    )


def _warnings(judge: _Judge, sampled: Sequence[_Comparison]) -> list[str]:
    """The codes of the warnings on the runs compared, by the measured metrics behind theirs."""
    found: set[str] = set()
    for comparison in sampled:
        rows = [judge.index[run].row for run in comparison.runs]
        found.update(warning_codes(rows, *judge.benchmark.measured_behind(comparison.metric)))
    return sorted(found)
