"""The published claims: their file, read and checked, and the runs that each is tested on."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flashlab.benchmarks.model import Benchmark, UnknownNameError, Value
from flashlab.benchmarks.registry import find_benchmark
from flashlab.records import schema_problem
from flashlab.runs import Run

CLAIMS = Path(__file__).parents[3] / "data" / "published" / "claims.yaml"

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, at every call

SAMPLED = "sampled"
"""The protocol whose records hold samples, and so have intervals."""


class ClaimsError(Exception):
    """A file of claims that cannot be read, or is none by its schema."""


def read_claims(path: Path) -> dict[str, Any]:
    """The published claims and their sources, checked against their schema.

    Raises:
        ClaimsError: with one message: what is wrong, and where.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ClaimsError(f"{path}: the published claims cannot be read: {error}") from error
    if problem := schema_problem(document, "claims"):
        raise ClaimsError(f"{path}: {problem}")
    own = (claim["benchmark"] for claim in document["claims"] if "benchmark" in claim)
    try:
        for name in dict.fromkeys([document["benchmark"], *own]):
            benchmark = find_benchmark(name)
            _check_names(claims_of(document, benchmark), benchmark)
    except UnknownNameError as error:
        raise ClaimsError(f"{path}: {error}") from error
    names = [claim["id"] for claim in document["claims"]]
    for claim in document["claims"]:
        if claim["source"] not in document["sources"]:
            raise ClaimsError(f"{path}: {claim['id']}: there is no source {claim['source']}")
        if names.count(claim["id"]) > 1:
            raise ClaimsError(f"{path}: {claim['id']} names two claims; rename one")
    claims: dict[str, Any] = document
    return claims


@dataclass(frozen=True)
class PublishedFigure:
    """A figure that a document gives of a run on a device, in the metric's unit.

    `named` is the document's name of the implementation; `parameters` are the run's without the
    nominal ones.
    """

    device: str
    implementation: str
    named: str
    parameters: Mapping[str, Value]
    metric: str
    value: float


def read_figures(benchmark: Benchmark) -> list[PublishedFigure]:
    """The published figures of a benchmark's runs, in the order of their file; none without one."""
    path = CLAIMS.with_name(f"{benchmark.name}.csv")
    if not path.is_file():
        return []
    given = [parameter for parameter in benchmark.given if not parameter.nominal]
    with path.open(encoding="utf-8", newline="") as file:
        return [
            PublishedFigure(
                device=row["device"],
                implementation=row["implementation"],
                named=row["named"],
                parameters={
                    p.name: row[p.name] == "true" if p.kind is bool else p.kind(row[p.name])
                    for p in given
                    if p.name in row
                },
                metric=benchmark.metric(row["metric"]).name,
                value=float(row["value"]),
            )
            for row in csv.DictReader(file)
        ]


def claims_of(document: Mapping[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    """The document with the claims about a benchmark alone, which all of its claims are then about.

    A claim is about the benchmark that it names, or else about that of the document. `dtype` is
    that of the runs of every benchmark, or one for each.
    """
    default = document["benchmark"]
    claims = [c for c in document["claims"] if c.get("benchmark", default) == benchmark.name]
    dtype = document["dtype"]
    if isinstance(dtype, Mapping):
        dtype = dtype.get(benchmark.name)
    return {**document, "benchmark": benchmark.name, "dtype": dtype, "claims": claims}


def _check_names(document: Mapping[str, Any], benchmark: Benchmark) -> None:
    """UnknownNameError for a metric or parameter that the claims' benchmark does not declare."""
    for test in (claim["test"] for claim in document["claims"] if "test" in claim):
        for name in test["metrics"]:
            benchmark.metric(name)
        for keys in (*test["terms"], *test["at"]):
            for name in keys.keys() - {"implementation"}:
                benchmark.parameter(name)


def asked_comparisons(
    document: Mapping[str, Any], test: Mapping[str, Any]
) -> list[tuple[str, tuple[Run, ...]]]:
    """The comparisons that a test asks for: a metric, and one, two or four runs."""
    benchmark = find_benchmark(document["benchmark"])
    kind = {"dtype": document["dtype"], "device": document["device"]}
    return [
        (metric, tuple(Run.of(benchmark, {**kind, **setting, **term}) for term in test["terms"]))
        for at, metric in itertools.product(test["at"], test["metrics"])
        for setting in benchmark.combinations(at)
    ]


def claim_protocols(claim_source: Mapping[str, Any]) -> list[str]:
    """The protocols by whose records a claim of this source is judged, in order.

    First those of samples, which have intervals; then those of the document's own way of timing.
    """
    return list(dict.fromkeys([SAMPLED, claim_source.get("protocol", SAMPLED)]))


def claimed_protocols(document: Mapping[str, Any]) -> set[str]:
    """The protocols by whose records any claim is tested."""
    return {SAMPLED, *(source.get("protocol", SAMPLED) for source in document["sources"].values())}


def claimed_runs(document: Mapping[str, Any]) -> set[Run]:
    """Every run that the test of some claim asks for."""
    return {
        run
        for claim in document["claims"]
        if "test" in claim
        for _, runs in asked_comparisons(document, claim["test"])
        for run in runs
    }
