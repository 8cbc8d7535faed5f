"""Whether the records of a dataset agree in what they must agree in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flashlab.analysis.experiment import Experiment, Row
from flashlab.analysis.finding import Finding
from flashlab.analysis.kind import EVERY, Given, Kind

MUST_AGREE = ("device_name", "driver", "torch", "dtype", "protocol")
"""Columns of the run table in which the records of one dataset must not differ; nor must the
provider of any one implementation."""


def environments(experiments: Sequence[Experiment], _: Given) -> Iterator[Finding]:
    """One finding for each field: ``agrees``, ``unstated`` by some records, or ``differs``."""
    every = {row["record"]: row for experiment in experiments for row in experiment.records}
    runs = [every[record] for record in sorted(every)]
    # A run that failed may have ended before it was known who would run it.
    measured = [run for run in runs if run["status"] == "ok"]
    for column in MUST_AGREE:
        yield _finding({"field": column}, runs)
    for name in sorted({run["implementation"] for run in measured}):
        mine = [run for run in measured if run["implementation"] == name]
        yield _finding({"field": "provider", "implementation": name}, mine)


def _finding(subject: dict[str, str], rows: Sequence[Row]) -> Finding:
    records_of: dict[str, list[str]] = {}
    for row in rows:
        records_of.setdefault(row[subject["field"]] or "", []).append(row["record"])
    if len(records_of.keys() - {""}) > 1:
        verdict = "differs"
    else:  # what no record states, as none states a driver on a CPU, is the same in all
        verdict = "unstated" if len(records_of) > 1 else "agrees"
    # Where all records agree, naming each of them tells nothing.
    estimates: list[dict[str, Any]] = [
        {"value": value} if verdict == "agrees" else {"value": value, "records": records}
        for value, records in sorted(records_of.items())
    ]
    return Finding("environment", None, subject, verdict, estimates=estimates)


ENVIRONMENT = Kind(
    label="kind.environment",
    verdicts=("agrees", "unstated", "differs"),
    of_dataset=[(EVERY, environments)],
)
