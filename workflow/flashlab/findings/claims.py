"""Published claims checked against the dataset: what each states, and whether it holds here.

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

from flashlab import costs
from flashlab.findings.model import (
    BOOTSTRAP,
    EVIDENCE_DIGITS,
    SIGNIFICANT_DIGITS,
    Finding,
    Sweep,
    device_of,
    function_of,
    mask_name,
    rounded,
    warning_codes,
)
from flashlab.records import Run
from flashlab.statistics import Estimate, Floats, function_interval

SCHEMA = Path(__file__).parents[2] / "schemas" / "claims.schema.json"

SYMBOLS = {"batch_size": "B", "seq_len": "N", "num_heads": "H", "emb_dim": "E"}

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
    names = [claim["id"] for claim in document["claims"]]
    for claim in document["claims"]:
        if claim["source"] not in document["sources"]:
            raise ClaimsError(f"{path}: {claim['id']}: there is no source {claim['source']}")
        if names.count(claim["id"]) > 1:
            raise ClaimsError(f"{path}: {claim['id']} names two claims; rename one")
    found: dict[str, Any] = document
    return found


@dataclass(frozen=True)
class _Measured:
    """A run that the dataset holds: its row of the run table, and the sweep that it stands in."""

    sweep: Sweep
    row: Mapping[str, Any]


Index = Mapping[Run, _Measured]


def _index(sweeps: Sequence[Sweep]) -> dict[Run, _Measured]:
    """Each run of the dataset with the first sweep, in order of their names, that holds it."""
    found: dict[Run, _Measured] = {}
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        for row in sweep.runs:
            found.setdefault(Run.from_json(row), _Measured(sweep, row))
    return found


def _printed(value: float | None, digits: int) -> float | None:
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
            "estimate": _printed(self.estimate, EVIDENCE_DIGITS),
            "low": _printed(self.low, EVIDENCE_DIGITS),
            "high": _printed(self.high, EVIDENCE_DIGITS),
            "n": self.samples,
            "holds": self.holds,
        }


def _shapes(at: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The combinations of a test's values; lists of one length go together, ``causal`` crosses."""
    lists = {key: value for key, value in at.items() if isinstance(value, list)}
    masks = lists.pop("causal", None)
    count = max(map(len, lists.values()), default=1)
    shapes = [{**at, **{key: values[i] for key, values in lists.items()}} for i in range(count)]
    if masks is None:
        return shapes
    return [{**shape, "causal": mask} for shape in shapes for mask in masks]


def _run(keys: Mapping[str, Any]) -> Run:
    return Run.from_json({"dtype": DTYPE, "device": DEVICE, **keys})


def _lack(index: Index, run: Run) -> str | None:
    """Why a run cannot be compared, None where it can be."""
    found = index.get(run)
    if found is None:
        return f"missing: {run}"
    if found.row["status"] != "ok":
        return f"excluded: {run}: {found.row['status']}"
    return None if found.row["protocol"] == "sampled" else "not_sampled"


def _value(index: Index, run: Run, metric: str) -> Estimate:
    """The metric of a run: milliseconds, TFLOP/s, or MiB, which are exact."""
    found = index[run]
    if metric == "memory":
        return Estimate(found.row["peak_memory_MiB"], 1, None)
    timed, quantity = metric.rsplit("_", 1)
    shape = run.shape
    (row,) = [
        row
        for row in found.sweep.pass_rows(run.implementation, shape.causal, timed)
        if Run.from_json(row) == run
    ]
    time = found.sweep.estimate(row)
    if quantity == "time":
        return time
    work = costs.flops(shape)[timed] / 1e9  # per millisecond, in TFLOP/s
    return Estimate(
        work / time.median,
        time.count,
        None if time.resampled is None else work / time.resampled,
    )


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


def _comparison(
    index: Index,
    metric: str,
    runs: Sequence[Run],
    test: Mapping[str, Any],
    wanted: Mapping[str, float],
    digits: int,
) -> _Comparison:
    values = [_value(index, run, metric) for run in runs]
    amounts = test.get("compare") == "amounts"
    if amounts and not _rises(values[3], values[2]):
        samples = min(value.count for value in values)
        return _Comparison(metric, tuple(runs), None, None, None, samples, "undecided")
    found = function_of(0, _amounts if amounts else _times, values)
    low, high = found.low, found.high
    if metric == "memory":
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


def _asked(test: Mapping[str, Any]) -> list[tuple[str, list[Run]]]:
    """The comparisons that a test asks for: a metric, and one, two or four runs."""
    return [
        (metric, [_run({**shape, **term}) for term in test["terms"]])
        for at, metric in itertools.product(test["at"], test["metrics"])
        for shape in _shapes(at)
    ]


def _sizes(keys: Mapping[str, Any]) -> list[str]:
    """The sizes that are given, as ``B = 16`` and ``N = 128 / 256``."""
    return [
        f"{symbol} = {' / '.join(map(str, size)) if isinstance(size, list) else size}"
        for key, symbol in SYMBOLS.items()
        if (size := keys.get(key)) is not None
    ]


def _masks(keys: Mapping[str, Any]) -> list[str]:
    causal = keys.get("causal", [])
    return [mask_name(mask) for mask in (causal if isinstance(causal, list) else [causal])]


def _said(test: Mapping[str, Any]) -> dict[str, Any]:
    """What a test compares, and where: the runs' names, sizes and masks as far as they are given.

    A test of several implementations in turn names them in `each_of`, and none in its terms.
    """
    return {
        "each_of": sorted({at["implementation"] for at in test["at"] if "implementation" in at}),
        "metrics": test["metrics"],
        "compare": test.get("compare", "times"),
        "terms": [
            {
                "name": term.get("implementation", ""),
                "sizes": _sizes(term),
                "masks": _masks(term),
            }
            for term in test["terms"]
        ],
        "at": [
            {"sizes": list(sizes), "masks": list(masks)}
            for sizes, masks in dict.fromkeys(
                (tuple(_sizes(at)), tuple(_masks(at))) for at in test["at"]
            )
        ],
    }


def _figures(found: Sequence[_Comparison], digits: int) -> dict[str, Any]:
    """One figure with its interval, or the range of several, and how many lie in what range."""
    estimates = [each.estimate for each in found if each.estimate is not None]
    ours: dict[str, Any] = {
        "count": len(found),
        "ours_lowest": _printed(min(estimates, default=None), digits),
        "ours_highest": _printed(max(estimates, default=None), digits),
        **{
            f"{word}_count": sum(comparison.holds == holds for comparison in found)
            for word, holds in (("held", "yes"), ("failed", "no"), ("undecided", "undecided"))
        },
    }
    if len(found) == 1:
        (only,) = found
        ours |= {
            "ours": _printed(only.estimate, digits),
            "ours_low": _printed(only.low, digits),
            "ours_high": _printed(only.high, digits),
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


def _held_against(
    claim: Mapping[str, Any], index: Index, device: str
) -> tuple[str, list[_Comparison], list[str]]:
    """Verdict, comparisons and reasons."""
    if not any(run.device == DEVICE for run in index):
        return "other_device", [], []
    if "test" not in claim:
        return "not_tested", [], [claim["untested"]]
    asked = _asked(claim["test"])
    needed = sorted({run for _, runs in asked for run in runs})
    lacks = [lack for run in needed if (lack := _lack(index, run))]
    if lacks:
        return "not_tested", [], list(dict.fromkeys(lacks))
    wanted, digits = wanted_range(claim), _digits(claim)
    found = [
        _comparison(index, metric, runs, claim["test"], wanted, digits) for metric, runs in asked
    ]
    if claim["bound_to_device"] and claim["device"] not in device:
        return "other_device", found, []
    return _verdict(found), found, []


def claims(document: Mapping[str, Any], sweeps: Sequence[Sweep]) -> Iterator[Finding]:
    """One finding a published claim, whether it could be tested here or not."""
    index = _index(sweeps)
    device = device_of(row for sweep in sweeps for row in sweep.runs)
    for claim in document["claims"]:
        source = document["sources"][claim["source"]]
        verdict, found, reasons = _held_against(claim, index, device)
        runs = sorted({run for comparison in found for run in comparison.runs})
        published = claim.get("published", {})
        tested = "test" in claim
        kinds = sorted({comparison.metric for comparison in found})
        tables = sorted(
            {
                f"tables/{index[run].sweep.name}/"
                + ("runs.csv" if kinds == ["memory"] else "samples.csv")
                for run in runs
            }
        )
        if any(kind != "memory" for kind in kinds) and source["statistic"] == "mean_of_30":
            reasons = [*reasons, "published_mean"]
        yield Finding(
            kind="claim",
            experiment=None,
            device=device,
            subject={"claim": claim["id"], "source": claim["source"]},
            verdict=verdict,
            params={
                "says": claim["says"],
                "source_title": source["title"],
                "place": claim["place"],
                "published_device": claim["device"],
                "published": published.get("figure"),
                "unit": published.get("unit"),
                "tolerance": published.get("tolerance"),
                "wanted_least": wanted_range(claim).get("least") if tested else None,
                "wanted_most": wanted_range(claim).get("most") if tested else None,
                **(_said(claim["test"]) if tested else {}),
                **_ours(found, _digits(claim)),
            },
            evidence={
                "table": ", ".join(tables),
                "rows": {"runs": [str(run) for run in runs]},
                "method": "ratio of the metric of the first run to that of the second, over that "
                "of the third to the fourth where there are four, or where amounts are compared "
                "the first less the second over the third less the fourth; times by "
                f"{BOOTSTRAP}; peaks are exact",
                "n": min((comparison.samples for comparison in found), default=0),
                "estimates": [comparison.to_json() for comparison in found],
            },
            reasons=reasons,
            warnings=sorted(
                {
                    code
                    for comparison in found
                    if comparison.metric != "memory"
                    for code in warning_codes(
                        (index[run].row for run in comparison.runs),
                        comparison.metric.rsplit("_", 1)[0],
                    )
                }
            ),
        )
