"""From all tables to findings.json: every kind of finding over every experiment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from flashlab.findings.comparisons import causal_effects, memory_limits, memory_ratios, speedups
from flashlab.findings.model import Finding, Sweep
from flashlab.findings.scaling import scalings
from flashlab.plan import SUMMARY
from flashlab.records import write_json
from flashlab.tables import read_csv

SCHEMA = Path(__file__).parents[2] / "schemas" / "finding.schema.json"

SWEEP_KINDS = (causal_effects, speedups, memory_ratios, memory_limits, scalings)
SUMMARY_KINDS = (speedups, memory_ratios)


def read_sweep(plan_file: Path, tables: Path) -> Sweep:
    """An experiment's plan and tables as the findings look them up."""
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    folder = tables / plan["name"]
    parameter = plan["sweep"] or "seq_len"
    samples: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
    for row in read_csv(folder / "samples.csv"):
        key = (row["implementation"], row["causal"], row["pass"], row[parameter])
        samples.setdefault(key, []).append((row["index"], row["time_ms"]))
    # In order of measurement, so that permuted rows give the same bootstrap.
    ordered = {key: [time for _, time in sorted(times)] for key, times in samples.items()}
    return Sweep(plan, read_csv(folder / "runs.csv"), read_csv(folder / "passes.csv"), ordered)


def derive(sweeps: Sequence[Sweep]) -> Iterator[Finding]:
    """All findings, experiment by experiment in the plan's order."""
    for sweep in sweeps:
        for kind in SUMMARY_KINDS if sweep.name == SUMMARY else SWEEP_KINDS:
            yield from kind(sweep)


def write_findings(plan_files: Sequence[Path], tables: Path, output: Path) -> None:
    """Write the findings of the planned experiments, checked against their schema."""
    findings = [
        finding.to_json()
        for finding in derive([read_sweep(plan_file, tables) for plan_file in plan_files])
    ]
    jsonschema.validate(findings, json.loads(SCHEMA.read_text(encoding="utf-8")))
    write_json(output, findings)
