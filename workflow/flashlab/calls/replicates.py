"""How many processes measure each run: as configured, and more where a verdict is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashlab.analysis.finding import Finding, read_findings
from flashlab.files import read_json
from flashlab.plan.planning import PlannedExperiment, PlannedRun, value_on
from flashlab.runs import Run

MOST_ADDED = 8
"""Processes of a run from which on none is added to decide a verdict."""

OPEN = ("inconclusive", "mixed")
"""Verdicts of findings that further processes may decide, as far as single values are undecided."""


@dataclass(frozen=True)
class Replicates:
    """The number of processes of each run: `number`, or more for single runs.

    Those are `added` to decide a verdict, by the runs' names, or `asked` for by an experiment.
    """

    number: int
    added: Mapping[str, int]
    asked: Mapping[Run, int] = field(default_factory=dict)

    def of(self, run: Run) -> int:
        """The number of a run's processes."""
        return max(self.number, self.added.get(str(run), 1), self.asked.get(run, 1))

    def with_one_more(self, runs: Iterable[Run]) -> Replicates:
        """One process more of each of these runs that has fewer than `MOST_ADDED`."""
        more = {str(run): n + 1 for run in runs if (n := self.of(run)) < MOST_ADDED}
        return replace(self, added=dict(sorted({**self.added, **more}.items())))


def read_replicates(
    config: Mapping[str, Any], device: str, kept: Path, asked: Mapping[Run, int]
) -> Replicates:
    """What a resolved configuration asks for on a kind of device, with what was added before.

    `asked` is what its experiments ask for of single runs.
    """
    try:
        kept_counts = read_json(kept).items()
        added = {str(run): min(int(count), MOST_ADDED) for run, count in kept_counts}
    except (OSError, ValueError, AttributeError, TypeError):
        added = {}
    return Replicates(value_on(config["replicates"], device), added, asked)


def _undecided_values(finding: Finding) -> set[int]:
    """The values of the sweep at which a finding that the report tells is undecided."""
    if finding.verdict not in OPEN or not (finding.told or finding.rank is not None):
        return set()
    return {
        estimate["value"]
        for estimate in finding.estimates
        if "value" in estimate and estimate.get("verdict", finding.verdict) == "inconclusive"
    }


def open_runs(
    findings: Sequence[Finding], experiments: Sequence[PlannedExperiment], kind: tuple[str, str]
) -> set[Run]:
    """The runs of sampled metrics behind sentences whose verdict is open.

    `kind` is the dtype and device of the runs.
    """
    found: set[Run] = set()
    for experiment in experiments:
        runs = experiment.runs(*kind)
        for finding in findings:
            values = _undecided_values(finding) if finding.experiment == experiment.name else set()
            if not values or finding.metric is None:
                continue
            if experiment.benchmark.metric(finding.metric).exact:
                continue
            for run in runs:
                parameters = experiment.benchmark.all_parameters(run)
                if (
                    run.implementation in finding.implementations
                    and all(parameters[name] == value for name, value in finding.variant or ())
                    and (not experiment.sweep or parameters[experiment.sweep] in values)
                ):
                    found.add(run)
    return found


def _is_current(findings_file: Path, planned: PlannedRun) -> bool:
    """Whether the findings were derived from all planned processes of a run."""
    made = findings_file.stat().st_mtime_ns
    return all(
        part.path.exists() and part.path.stat().st_mtime_ns <= made for part in planned.processes
    )


def runs_to_decide(
    findings_file: Path,
    experiments: Sequence[PlannedExperiment],
    planned: Mapping[Run, PlannedRun],
    kind: tuple[str, str],
) -> list[Run]:
    """The planned runs that an open verdict depends on, in their order.

    Where a process of a run is planned and not measured, or is newer than the findings, nobody
    knows yet whether its verdicts are open.
    """
    try:
        findings = read_findings(findings_file)
    except (OSError, ValueError, TypeError, KeyError):
        return []
    found = open_runs(findings, experiments, kind)
    return sorted(run for run in found & planned.keys() if _is_current(findings_file, planned[run]))
