"""Observations of published claims: the number that hold on this dataset, and those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from flashlab.analysis.claims import AMBIGUOUS, CONTRADICTED, OTHER_DEVICE, VERDICTS
from flashlab.analysis.experiment import CLAIMS
from flashlab.benchmarks.model import Benchmark, Metric
from flashlab.benchmarks.registry import find_benchmark
from flashlab.story.observation import CLAIMS_SECTION, Observation

LANGUAGES = ("zh_TW", "en")


def _sides(benchmark: Benchmark, *terms: Mapping[str, Any]) -> list[list[Mapping[str, str]]]:
    """The names and sizes in which two runs of a claim differ, of each run, in each language."""
    one, other = terms
    parameters = {parameter.name: parameter for parameter in benchmark.parameters}

    def named(key: str, value: Any) -> Mapping[str, str]:
        if key not in parameters:
            return dict.fromkeys(LANGUAGES, str(value))
        words = parameters[key].words.get(value)
        return words or dict.fromkeys(LANGUAGES, f"{parameters[key].symbol} = {value}")

    differing = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [[named(key, term[key]) for key in differing if key in term] for term in terms]


def _kind(metric: Metric) -> str:
    """``rate``, ``time`` or ``memory``."""
    return "rate" if metric.higher_is_better else "memory" if metric.unit == "MiB" else "time"


def _failing(claim: Mapping[str, Any], rows: pd.DataFrame, benchmark: Benchmark) -> dict[str, Any]:
    """A claim that does not hold: its words, our figures in its first sense, and its range."""
    first = rows[rows["compare"] == rows["compare"].iloc[0]]
    least, most = (None if pd.isna(end) else float(end) for end in first[["least", "most"]].iloc[0])
    terms, metrics = claim["test"]["terms"], claim["test"]["metrics"]
    kinds = dict.fromkeys(_kind(benchmark.metric(name)) for name in metrics)
    of_growth = len(terms) == 4
    return {
        "says": {language: text.rstrip("。. ") for language, text in claim["says"].items()},
        "ours": [float(first["estimate"].min()), float(first["estimate"].max())],
        "unit": claim["published"]["unit"] if len(terms) == 1 else None,
        "of": {
            **{"kinds": list(kinds), "growth": of_growth},
            "sides": _sides(benchmark, terms[0], terms[2 if of_growth else 1]),
        }
        if len(terms) > 1
        else None,
        **{"least": least, "most": most},
    }


def claims(judged: pd.DataFrame, document: Mapping[str, Any]) -> Iterator[Observation]:
    """The number of published claims that hold, then each one that does not.

    Args:
        judged: the table of them (`analysis.claims`); nothing is said where it is empty.
        document: the claims about the benchmark, in the form of the file that states them.
    """
    if judged.empty:
        return
    benchmark = find_benchmark(document["benchmark"])
    verdicts = judged.drop_duplicates("claim").verdict.value_counts()
    by_id = {claim["id"]: claim for claim in document["claims"]}
    ambiguous = judged[judged.verdict == AMBIGUOUS]
    of_rates = ambiguous[ambiguous["compare"] == "whole_work"].claim.nunique()
    counts = {verdict: int(verdicts.get(verdict, 0)) for verdict in VERDICTS}
    facts = {
        "total": len(by_id),
        "documents": int(judged.source.nunique()),
        "devices": sorted({claim["device"] for claim in by_id.values() if claim["device"]}),
        "counts": counts,
        "judged": len(by_id) - counts[OTHER_DEVICE],
        "ways": {"amounts": counts[AMBIGUOUS] - of_rates, "whole_work": of_rates},
    }
    yield Observation("claims", CLAIMS_SECTION, facts)
    contradicted = judged[judged.verdict == CONTRADICTED]
    for claim, rows in contradicted.groupby("claim", sort=False):
        failing = _failing(by_id[str(claim)], rows, benchmark)
        evidence = [
            {"table": CLAIMS, **{str(n): each for n, each in row.items() if not pd.isna(each)}}
            for row in rows[rows.holds == "no"].to_dict("records")
        ]
        yield Observation("claim_failing", CLAIMS_SECTION, failing, evidence)
