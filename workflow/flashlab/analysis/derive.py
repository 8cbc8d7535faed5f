"""From all tables to findings.json: every kind of finding over every experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from flashlab.analysis.ceilings import Ceilings, read_ceilings
from flashlab.analysis.conclusions.conclude import conclude
from flashlab.analysis.doubts import with_doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.anomaly import outliers, unstable
from flashlab.analysis.kinds.balance import balances
from flashlab.analysis.kinds.cause import causes, counted_runs
from flashlab.analysis.kinds.choice import choices, overall_choice
from flashlab.analysis.kinds.claim import claims
from flashlab.analysis.kinds.comparison import comparisons, variant_effects
from flashlab.analysis.kinds.correctness import correctness
from flashlab.analysis.kinds.crossover import crossovers
from flashlab.analysis.kinds.curve import curve_differences
from flashlab.analysis.kinds.derived_size import derived_sizes
from flashlab.analysis.kinds.environment import environments
from flashlab.analysis.kinds.exact_account import accounts
from flashlab.analysis.kinds.exact_comparison import exact_comparisons
from flashlab.analysis.kinds.jump import jumps
from flashlab.analysis.kinds.launch_bound import launch_bounds
from flashlab.analysis.kinds.monotonicity import monotonicities
from flashlab.analysis.kinds.out_of_memory import memory_limits
from flashlab.analysis.kinds.processes import processes
from flashlab.analysis.kinds.roofline import rooflines
from flashlab.analysis.kinds.saturation import saturations
from flashlab.analysis.kinds.scaling import scalings
from flashlab.analysis.kinds.sittings import sittings, with_sittings
from flashlab.analysis.kinds.step import steps
from flashlab.analysis.kinds.variant_gain import variant_gains
from flashlab.analysis.kinds.worse_than_naive import worse_than_naive
from flashlab.analysis.select import select
from flashlab.files import read_json, write_json
from flashlab.published import claims_of, read_claims
from flashlab.sweep import Sweep, read_planned_sweep

SCHEMA = Path(__file__).parents[2] / "schemas" / "finding.schema.json"

Kind = Callable[[Sweep, Estimates], Iterator[Finding]]
DatasetKind = Callable[[Sequence[Sweep], Estimates], Iterator[Finding]]

SWEEP_KINDS: tuple[Kind, ...] = (
    choices,
    *(variant_effects, comparisons, crossovers, exact_comparisons, memory_limits),
    *(scalings, monotonicities, unstable, outliers),
    *(balances, accounts, launch_bounds, saturations, jumps),
    steps,
)
UNORDERED_KINDS: tuple[Kind, ...] = (
    *(variant_effects, comparisons, exact_comparisons, memory_limits, unstable),
    steps,
)
"""What is asked of an experiment along which nothing grows."""

SUMMARY_KINDS: tuple[Kind, ...] = (comparisons, exact_comparisons)
DATASET_KINDS: tuple[DatasetKind, ...] = (
    *(overall_choice, variant_gains, derived_sizes, worse_than_naive, curve_differences),
)

ALTERNATIVES_KINDS: tuple[DatasetKind, ...] = (worse_than_naive, curve_differences)
"""What is asked of a dataset whose experiments are alternatives at one setting."""


def derive(
    sweeps: Sequence[Sweep],
    estimates: Estimates,
    published: Mapping[str, Any],
    ceilings: Ceilings | None,
) -> list[Finding]:
    """All findings: experiment by experiment in order of their names, then the dataset's.

    `sweeps` are the headline's and those of the sections, in the order of the report, and those
    that only the published claims are checked against.
    """
    found: list[Finding] = []
    sweeps = with_sittings(sweeps)
    shown = [sweep for sweep in sweeps if not sweep.is_of_claims]
    for sweep in sorted(shown, key=lambda sweep: sweep.name):
        for kind in _kinds_for(sweep):
            found += kind(sweep, estimates)
        if sweep.is_summary:
            continue
        if ceilings:
            found += rooflines(sweep, estimates, ceilings)
        found += () if sweep.is_simulated else causes(sweep, estimates, ceilings)
    found += correctness(shown)
    for dataset_kind in _dataset_kinds(shown):
        found += dataset_kind(shown, estimates)
    found += environments(shown)
    found += processes(shown)
    found += sittings(shown)
    found += counted_runs(shown)
    if not _are_simulated(shown):
        found += claims(published, sweeps, estimates)
    headline = {name for s in shown if s.is_summary for name in s.implementations}
    selected = select(found, [sweep for sweep in shown if not sweep.is_summary], headline)
    return [*selected, *conclude(selected, shown, estimates)]


def _dataset_kinds(sweeps: Sequence[Sweep]) -> tuple[DatasetKind, ...]:
    """The kinds of finding that are sought in the dataset as a whole."""
    if _are_simulated(sweeps):
        return ()
    are_alternatives = any(sweep.has_alternatives for sweep in sweeps)
    return ALTERNATIVES_KINDS if are_alternatives else DATASET_KINDS


def _are_simulated(sweeps: Sequence[Sweep]) -> bool:
    """Whether a simulator ran the implementations: their times are compared with nothing."""
    return any(sweep.is_simulated for sweep in sweeps)


def _kinds_for(sweep: Sweep) -> tuple[Kind, ...]:
    """The kinds of finding that are sought in an experiment, or in the headline."""
    if sweep.is_simulated:
        return ()
    if sweep.is_summary:
        return SUMMARY_KINDS
    return SWEEP_KINDS if sweep.is_ordered else UNORDERED_KINDS


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
    ceilings = read_ceilings(read_json(ceilings_file), estimates) if ceilings_file else None
    sweeps = [
        with_doubts(read_planned_sweep(file, tables, with_samples=True), estimates)
        for file in plan_files
    ]
    published = read_claims(claims_file)
    if sweeps:
        published = claims_of(published, sweeps[0].benchmark)
    findings = derive(sweeps, estimates, published, ceilings)
    documents = [finding.to_json() for finding in findings]
    jsonschema.validate(documents, read_json(SCHEMA))
    write_json(output, documents)
