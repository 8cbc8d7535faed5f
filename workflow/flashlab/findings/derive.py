"""From all tables to findings.json: every kind of finding over every experiment."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from flashlab.findings.anomalies import outliers, unstable
from flashlab.findings.claims import claims, read_claims
from flashlab.findings.comparisons import causal_effects, crossovers, speedups
from flashlab.findings.memory import memory_limits, memory_ratios
from flashlab.findings.model import PASS_KEY, Estimates, Finding, Sweep
from flashlab.findings.monotonicity import monotonicities
from flashlab.findings.roofline import Ceilings, read_ceilings, rooflines
from flashlab.findings.scaling import scalings
from flashlab.plan_files import SUMMARY
from flashlab.records import write_json
from flashlab.tables import parsed, read_csv

SCHEMA = Path(__file__).parents[2] / "schemas" / "finding.schema.json"

SWEEP_KINDS = (
    *(causal_effects, speedups, crossovers, memory_ratios, memory_limits),
    *(scalings, monotonicities, unstable, outliers),
)
SUMMARY_KINDS = (speedups, memory_ratios)


def read_samples(path: Path) -> dict[tuple[Any, ...], list[float]]:
    """Milliseconds of every call in a sample table, in order of measurement, by pass and run.

    In order, so that permuted rows give the same resamples.
    """
    found: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows)
        keys = [header.index(column) for column in PASS_KEY]
        index, time = header.index("index"), header.index("time_ms")
        for row in rows:
            key = tuple([row[i] for i in keys])
            found.setdefault(key, []).append((int(row[index]), float(row[time])))
    return {
        tuple(parsed(column, cell) for column, cell in zip(PASS_KEY, key, strict=True)): [
            milliseconds for _, milliseconds in sorted(calls)
        ]
        for key, calls in found.items()
    }


def read_sweep(plan_file: Path, tables: Path, estimates: Estimates) -> Sweep:
    """An experiment's plan and tables as the findings look them up."""
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    folder = tables / plan["name"]
    return Sweep(
        plan,
        read_csv(folder / "runs.csv"),
        read_csv(folder / "passes.csv"),
        read_samples(folder / "samples.csv"),
        estimates,
    )


def derive(
    sweeps: Sequence[Sweep], published: Mapping[str, Any], ceilings: Ceilings | None
) -> Iterator[Finding]:
    """All findings: experiment by experiment in order of their names, then the claims."""
    for sweep in sorted(sweeps, key=lambda sweep: sweep.name):
        for kind in SUMMARY_KINDS if sweep.name == SUMMARY else SWEEP_KINDS:
            yield from kind(sweep)
        if ceilings and sweep.name != SUMMARY:
            yield from rooflines(sweep, ceilings)
    yield from claims(published, sweeps)


def write_findings(
    plan_files: Sequence[Path],
    tables: Path,
    claims_file: Path,
    ceilings_file: Path | None,
    output: Path,
) -> None:
    """Write the findings of the planned experiments, checked against their schema.

    Raises:
        ClaimsError: the file of published claims is no such file.
    """
    estimates = Estimates()
    ceilings = None
    if ceilings_file:
        document = json.loads(ceilings_file.read_text(encoding="utf-8"))
        ceilings = read_ceilings(document, estimates)
    sweeps = [read_sweep(plan_file, tables, estimates) for plan_file in plan_files]
    findings = [finding.to_json() for finding in derive(sweeps, read_claims(claims_file), ceilings)]
    jsonschema.validate(findings, json.loads(SCHEMA.read_text(encoding="utf-8")))
    write_json(output, findings)
