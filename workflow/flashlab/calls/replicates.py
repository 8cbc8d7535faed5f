"""The number of processes of each run: as configured, and more where a verdict is undecided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashlab.analysis.comparison_rows import (
    IMPLEMENTATIONS,
    Comparison,
    read_comparisons,
    variant_words,
)
from flashlab.analysis.experiment import COMPARISONS
from flashlab.benchmarks.model import Benchmark
from flashlab.files import read_json
from flashlab.plan.planning import (
    PlannedExperiment,
    PlannedRun,
    PlannedRuns,
    plan_local,
    value_on,
)
from flashlab.plan.source import Source
from flashlab.runs import Run

MOST_ADDED = 8
"""Processes of a run from which on none is added to decide a verdict."""


def plan_processes(
    source: Source,
    experiments: Sequence[PlannedExperiment],
    runs: Sequence[Run],
    protocol: Mapping[str, Any],
) -> tuple[PlannedRuns, dict[str, Any]]:
    """The record of each process of each run here, and the document of the processes added."""
    kept, asked = source.home / "plan" / "processes.json", processes_asked(experiments, source.kind)
    replicates = read_replicates(source.config, source.kind[1], kept, asked)

    def planned_with(replicates: Replicates) -> PlannedRuns:
        numbers = {run: replicates.of(run) for run in runs}
        records = source.home / "records"
        local = (source.benchmark, runs, protocol, source.implementations, records)
        return plan_local(*local, numbers.__getitem__, source.device_name)

    planned = planned_with(replicates)
    if source.config["decide"]:
        previous = {name: step.previous for name, step in source.implementations.items()}
        about = (source.kind, source.config["baseline"], previous)
        undecided = runs_to_decide(source.home / COMPARISONS, experiments, planned, *about)
        replicates = replicates.with_one_more(undecided)
        planned = planned_with(replicates)
    return planned, {kept.as_posix(): dict(replicates.added)} if replicates.added else {}


@dataclass(frozen=True)
class Replicates:
    """The number of processes of each run: `number`, or more for single runs.

    Those are `added` to decide a verdict, by the runs' names, or `asked` for by an experiment.
    """

    number: int
    added: Mapping[str, int]
    asked: Mapping[Run, int] = field(default_factory=dict)

    def of(self, run: Run) -> int:
        return max(self.number, self.added.get(str(run), 1), self.asked.get(run, 1))

    def with_one_more(self, runs: Iterable[Run]) -> Replicates:
        """One process more of each of these runs that has fewer than `MOST_ADDED`."""
        more = {str(run): n + 1 for run in runs if (n := self.of(run)) < MOST_ADDED}
        return replace(self, added=dict(sorted({**self.added, **more}.items())))


def processes_asked(
    experiments: Iterable[PlannedExperiment], kind: tuple[str, str]
) -> dict[Run, int]:
    """The processes that experiments ask for of single runs, the most where several do.

    `kind` is the dtype and device of the runs.
    """
    processes: dict[Run, int] = {}
    for experiment in experiments:
        for run in experiment.runs(*kind) if experiment.replicates else ():
            asked = experiment.replicates.get(run.implementation, 1)
            processes[run] = max(processes.get(run, 1), asked)
    return processes


def read_replicates(
    config: Mapping[str, Any], device: str, kept: Path, asked: Mapping[Run, int]
) -> Replicates:
    """The numbers of processes that a resolved configuration asks for, and those added before.

    `device` is a kind of device; `asked` are the processes that experiments ask for of single runs.
    """
    try:
        kept_counts = read_json(kept).items()
        added = {str(run): min(int(count), MOST_ADDED) for run, count in kept_counts}
    except (OSError, ValueError, AttributeError, TypeError):
        added = {}
    return Replicates(value_on(config["replicates"], device), added, asked)


def _rivals(rows: Iterable[Comparison], higher_is_better: bool) -> set[str]:
    """The best implementation at one setting, by its medians: that which no other one beats."""
    names: set[str] = set()
    beaten: set[str] = set()
    for row in rows:
        names |= {row.subject, row.reference}
        subject_is_better = row.ratio > 1 if higher_is_better else row.ratio < 1
        beaten.add(row.reference if subject_is_better else row.subject)
    return names - beaten


def undecided(
    comparisons: Iterable[Comparison],
    benchmark: Benchmark,
    baseline: str,
    previous: Mapping[str, str | None],
) -> list[Comparison]:
    """The comparisons at single settings that a reader asks for, and that are not decided.

    Those with the baseline, with the best implementation of the setting, with the step before
    (`previous`), and of a variant switched on with the same switched off; none of growth, nor of
    two implementations of which one alone has the variant.
    """
    single = [row for row in comparisons if row.experiment is not None and row.value is not None]
    pairs: dict[tuple[Any, ...], list[Comparison]] = {}
    for row in single:
        if row.compared == IMPLEMENTATIONS:
            at = (row.experiment, row.variant, row.metric, row.value)
            pairs.setdefault(at, []).append(row)
    switches = {parameter.name for parameter in benchmark.variants}
    asked = [row for row in single if row.compared in switches]
    for rows in pairs.values():
        best = _rivals(rows, benchmark.metric(rows[0].metric).higher_is_better) | {baseline}
        for row in rows:
            subject, reference = row.subject, row.reference
            is_step = previous.get(subject) == reference or previous.get(reference) == subject
            if is_step or best & {subject, reference}:
                asked.append(row)
    return [row for row in asked if row.verdict == "inconclusive"]


def open_runs(
    rows: Iterable[Comparison], experiments: Sequence[PlannedExperiment], kind: tuple[str, str]
) -> set[Run]:
    """The runs of both sides of these comparisons at single settings.

    `kind` is the dtype and device of the runs.
    """
    wanted: dict[str | None, set[tuple[str, str, int | None]]] = {}
    for row in rows:
        # Of a variant that is switched, its other state is the other side.
        variants = [row.variant]
        if row.compared != IMPLEMENTATIONS:
            variants.append(row.variant.replace(f"{row.compared}=true", f"{row.compared}=false"))
        for name in (row.subject, row.reference):
            for variant in variants:
                wanted.setdefault(row.experiment, set()).add((name, variant, row.value))
    runs: set[Run] = set()
    for experiment in experiments:
        mine, benchmark = wanted.get(experiment.name, set()), experiment.benchmark
        for run in experiment.runs(*kind) if mine else ():
            parameters = benchmark.all_parameters(run)
            variant = variant_words([(p.name, parameters[p.name]) for p in benchmark.variants])
            # Where nothing is swept, the value is that of the benchmark's first size.
            swept = experiment.sweep or next(p.name for p in benchmark.given if not p.is_variant)
            if (run.implementation, variant, parameters[swept]) in mine:
                runs.add(run)
    return runs


def _is_current(comparisons_file: Path, planned: PlannedRun) -> bool:
    """True if the comparisons were made from all planned processes of a run."""
    made = comparisons_file.stat().st_mtime_ns
    return all(
        part.path.exists() and part.path.stat().st_mtime_ns <= made for part in planned.processes
    )


def runs_to_decide(
    comparisons_file: Path,
    experiments: Sequence[PlannedExperiment],
    planned: Mapping[Run, PlannedRun],
    kind: tuple[str, str],
    baseline: str,
    previous: Mapping[str, str | None],
) -> list[Run]:
    """The planned runs that an open verdict depends on, in their order.

    Where a process of a run is planned and not measured, or is newer than the comparisons, nobody
    knows yet whether its verdicts are open.
    """
    try:
        rows = read_comparisons(comparisons_file)
    except (OSError, ValueError, TypeError, KeyError):
        return []
    asked = undecided(rows, experiments[0].benchmark, baseline, previous)
    runs = open_runs(asked, experiments, kind)
    current = (run for run in runs & planned.keys() if _is_current(comparisons_file, planned[run]))
    return sorted(current)
