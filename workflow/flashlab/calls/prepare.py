"""From the configuration to the files that the rules depend on, at each Snakemake call.

Nothing is written here: the plan's files are returned as documents (`Prepared.documents`), which
`flashlab.calls.call` writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import COMPARISONS
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.registry import find_benchmark
from flashlab.calls import remaking
from flashlab.calls.replicates import processes_asked, read_replicates, runs_to_decide
from flashlab.config import ConfigError, Layer, named_benchmark, resolve_config
from flashlab.plan import datasets, identity, planning
from flashlab.plan.blocks import blocks_of, cards_of
from flashlab.plan.counting import Counting, counting_of
from flashlab.plan.documents import plan_documents
from flashlab.plan.machines import machine_file
from flashlab.plan.plan_files import processes_file, results_of
from flashlab.plan.published import CLAIMS, claimed_protocols, claimed_runs, claims_of, read_claims
from flashlab.plan.source import LOCAL, Source, source_of
from flashlab.plan.upgrades import upgrade_notices

Planning = tuple[planning.PlannedExperiment, planning.PlannedRuns]
"""An experiment with the file of each of its runs' records."""


@dataclass(frozen=True)
class Prepared:
    """A call's plan for the rules: the dataset, its experiments, and the order for each record.

    `home` is the folder of the results, `report` the stem of the report's file name. `records` are
    each experiment's, with those of its `counters`. `orders` are the records to measure, `imports`
    those to convert, by file name; both are empty for a recorded dataset. `remade` holds the
    planned files that must be made again, each with the reason, and `upgrades` says why runs that
    were measured before are measured again; `notices` say how imported files were read. `config` is
    the resolved configuration, and `machine` the file of the machine that it names.
    Paths are relative to the working directory.
    """

    dataset: str
    home: str
    report: str
    device: str
    protocol: str
    machine: str | None
    config: Mapping[str, Any]
    remade: Mapping[str, str]
    experiments: Sequence[str] = ()
    records: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counters: Sequence[str] = ()
    ceilings: str | None = None
    orders: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    imports: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    notices: Sequence[str] = ()
    upgrades: Sequence[str] = ()
    documents: Mapping[str, Any] = field(default_factory=dict, repr=False)


def prepare(base: Layer, own: Sequence[Layer] = ()) -> Prepared:
    """Check the configuration and plan its runs.

    Nothing is written.

    Args:
        base: the configuration file of the benchmark's report (`config.config_file`), or the
            configuration that another workflow gives this one as its module.
        own: the layers of this call itself: its ``--configfile`` files and ``--config``, in order.
            They are merged into the experiments of a recorded dataset, which replace `base`'s.

    Raises:
        ClaimsError, ConfigError, ImplementationError, MachineError, DatasetError, PlanError: each
            with one message: what is wrong, where, and what to do.
    """
    source = source_of(base, own)
    config = source.config
    protocol = planning.protocol_of(config, source.device)
    experiments = planning.experiments(config, source.benchmark, source.device)
    if source.imports and source.recorded:
        held = {entry.run for entry in source.recorded.entries}
        experiments = planning.of_held(experiments, held, source.kind)
    planned, added = _planned_records(source, experiments, protocol)
    counting = counting_of(source, experiments)
    counters = counting.planned
    every = _with_claims(source, experiments, planning.with_counters(planned, counters))
    ceilings = (
        source.recorded.ceilings
        if source.recorded
        else source.records / identity.ceilings_name(source.device, source.machine)
    )
    orders = _orders(source, planned, protocol, counting)
    remade = remaking.files_to_remake(source, [runs for _, runs in every], counters, ceilings)
    upgrades = (
        []
        if source.recorded
        else upgrade_notices(
            source.benchmark, planned, protocol, source.implementations, source.machine
        )
    )
    left_out = _left_out(source, experiments)
    remarks = _remark_files(config)
    documents = plan_documents(source, every)
    return Prepared(
        dataset=source.dataset,
        home=source.home.as_posix(),
        report=source.benchmark.report,
        device=source.device,
        protocol=protocol["name"],
        machine=None if source.machine.is_here else machine_file(config["machine"]).as_posix(),
        config=config,
        remade=remade,
        experiments=tuple(experiment.name for experiment, _ in every),
        records={
            experiment.name: [
                path.as_posix()
                for path in planning.record_files(
                    runs[run] for run in experiment.runs(*source.kind)
                )
            ]
            for experiment, runs in every
        },
        counters=[entry.path.as_posix() for entry in counters.values()],
        ceilings=None if ceilings is None else ceilings.as_posix(),
        orders=orders,
        imports=source.imports,
        remarks=remarks,
        notices=(*source.notices, *left_out),
        upgrades=upgrades,
        documents={**documents, **added, **counting.kept},
    )


def _planned_records(
    source: Source, experiments: Sequence[planning.PlannedExperiment], protocol: Mapping[str, Any]
) -> tuple[planning.PlannedRuns, dict[str, Any]]:
    """The file of each run's records, and the document of the processes that were added."""
    runs = [run for experiment in experiments for run in experiment.runs(*source.kind)]
    if source.recorded:
        recorded = planning.plan_recorded(runs, protocol["name"], source.recorded, source.dataset)
        if source.imports:
            # Their hashes are not known before they are made.
            recorded = {
                run: planning.with_replicates(replace(p, sha256=None) for p in entry.processes)
                for run, entry in recorded.items()
            }
        return recorded, {}
    local = (source.benchmark, runs, protocol, source.implementations, source.records)
    asked = processes_asked(experiments, source.kind)
    kept = processes_file(source.home)
    replicates = read_replicates(source.config, source.device, kept, asked)
    planned = planning.plan_local(*local, replicates.of, source.machine)
    if source.config["decide"]:
        previous = {name: step.previous for name, step in source.implementations.items()}
        about = (source.kind, source.config["baseline"], previous)
        undecided = runs_to_decide(source.home / COMPARISONS, experiments, planned, *about)
        replicates = replicates.with_one_more(undecided)
        planned = planning.plan_local(*local, replicates.of, source.machine)
    added = dict(replicates.added)
    return planned, {kept.as_posix(): added} if added else {}


def _with_claims(
    source: Source, experiments: Sequence[planning.PlannedExperiment], planned: planning.PlannedRuns
) -> list[Planning]:
    """The experiments, and of a recorded dataset the records that claims alone are about.

    Raises:
        PlanError: records of a dataset are missing, or not those of its manifest.
    """
    every: list[Planning] = [(experiment, planned) for experiment in experiments]
    if not source.recorded:
        return every
    document = claims_of(read_claims(CLAIMS), source.benchmark)
    protocols = claimed_protocols(document)
    held = [
        (
            entry.protocol["name"],
            planning.PlannedRun(
                entry.run,
                entry.path,
                entry.sha256 if source.is_vouched_for else None,
                process=entry.process,
            ),
        )
        for entry in source.recorded.entries
        # One that is no longer in `kernels/` has no table.
        if entry.run.implementation in source.implementations
        and entry.protocol["name"] in protocols
    ]
    every += planning.plan_claims(source.benchmark, claimed_runs(document), held, planned)
    if source.is_vouched_for:
        entries = {entry.path: entry for _, runs in every for entry in runs.values()}
        planning.check_recorded(entries.values(), source.dataset)
    return every


def _orders(
    source: Source, planned: planning.PlannedRuns, protocol: Mapping[str, Any], counting: Counting
) -> dict[str, dict[str, Any]]:
    """The orders to measure, by record file name, as they run; none of a recorded dataset."""
    if source.recorded:
        return {}
    blocks = blocks_of(planned)
    cards = zip(cards_of(blocks), blocks, strict=True)
    placed = [(card, entry, protocol) for card, block in cards for entry in block]
    counters = enumerate(counting.planned.values())
    placed += [(card, entry, counting.protocol) for card, entry in counters]
    return {
        entry.path.name: {**planning.measuring_order(source.benchmark, entry, by), "card": card}
        for card, entry, by in placed
    }


def _left_out(source: Source, experiments: Sequence[planning.PlannedExperiment]) -> list[str]:
    """The notice that names the imported files that no experiment shows; empty if all are shown."""
    shown = {run for experiment in experiments for run in experiment.runs(*source.kind)}
    left = [o["file"] for o in source.imports.values() if datasets.run_of(o) not in shown]
    return [f"{', '.join(left)}: in no experiment of the report"] if left else []


def _remark_files(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of the remarks and their images; ConfigError where one cannot be shown."""
    if not config["remarks"]:
        return ()
    try:
        from flashlab.remarks import RemarkError, remark_files
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"config: remarks: reading them needs {error.name}, which is not installed beside "
            "Snakemake; pip install markdown-it-py pillow there, or leave the remarks out"
        ) from error
    try:
        return remark_files(config)
    except RemarkError as error:
        raise ConfigError(str(error)) from None


def prepare_description(base: Layer, own: Sequence[Layer] = ()) -> Prepared:
    """The preparation of a call that only describes a machine: no runs.

    The machine's file may be missing, so that nothing that depends on it can be planned.

    Raises:
        ConfigError, ImplementationError: as of `prepare`.
    """
    benchmark = find_benchmark(named_benchmark([base, *own]))
    config = resolve_config([base, *own], implementations_of(benchmark))
    if "machine" not in config:
        raise ConfigError("machine: say under which name: snakemake machine --config machine=NAME")
    file = machine_file(config["machine"]).as_posix()
    return Prepared(
        dataset=LOCAL,
        home=results_of(LOCAL, benchmark).as_posix(),
        report=benchmark.report,
        device=config["device"],
        protocol=config["measure"]["protocol"],
        remade={file: remaking.ASKED_FOR} if Path(file).exists() else {},
        machine=file,
        config=config,
    )
