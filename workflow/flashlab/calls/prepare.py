"""From the configuration to the files that the rules depend on, at each Snakemake call.

Nothing is written here: the plan's files are returned as documents (`Prepared.documents`), which
`flashlab.calls.call` writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashlab.calls.remaking import files_to_remake
from flashlab.calls.replicates import plan_processes
from flashlab.config import ConfigError, Layer
from flashlab.plan import identity, planning
from flashlab.plan.blocks import orders_of
from flashlab.plan.documents import plan_documents
from flashlab.plan.source import source_of
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
    the resolved configuration, and `device_name` the device that runs are planned for.
    Paths are relative to the working directory.
    """

    dataset: str
    home: str
    report: str
    device: str
    protocol: str
    device_name: str
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
        ConfigError, ImplementationError, MachineError, DatasetError, PlanError: each
            with one message: what is wrong, where, and what to do.
    """
    source = source_of(base, own)
    config, home, device_name = source.config, source.home, source.device_name
    protocol = planning.protocol_of(config, source.kind[1])
    experiments = planning.experiments(config, source.benchmark, source.kind[1])
    if source.imports and source.recorded:
        held = {entry.run for entry in source.recorded.entries}
        experiments = planning.of_held(experiments, held, source.kind)
    runs = [run for experiment in experiments for run in experiment.runs(*source.kind)]
    planned: planning.PlannedRuns
    if source.recorded:
        planned = planning.plan_recorded(runs, protocol["name"], source.recorded, source.dataset)
    else:
        planned = plan_processes(source, experiments, runs, protocol)
    counting = planning.counting_of(source, experiments)
    planned = planning.with_counters(planned, counting.planned)
    every: list[Planning] = [(experiment, planned) for experiment in experiments]
    if source.recorded and not source.imports:  # which are yet to be made
        planning.check_recorded(planned.values(), source.dataset)
    records = {
        experiment.name: [
            path.as_posix()
            for path in planning.record_files(runs[run] for run in experiment.runs(*source.kind))
        ]
        for experiment, runs in every
    }
    if source.recorded:
        ceilings, orders, upgrades = source.recorded.ceilings, {}, []
    else:
        ceilings = home / "records" / identity.ceilings_name(source.kind[1], device_name)
        orders = orders_of(source.benchmark, planned, protocol, counting, device_name)
        upgrades = upgrade_notices(
            source.benchmark, planned, protocol, source.implementations, device_name
        )
    remade = files_to_remake(source, [runs for _, runs in every], counting.planned, ceilings)
    documents = plan_documents(source, every)
    return Prepared(
        dataset=source.dataset,
        home=home.as_posix(),
        report=source.benchmark.report,
        device=source.kind[1],
        protocol=protocol["name"],
        device_name=device_name,
        config=config,
        remade=remade,
        experiments=tuple(records),
        records=records,
        counters=[entry.path.as_posix() for entry in counting.planned.values()],
        ceilings=None if ceilings is None else ceilings.as_posix(),
        orders=orders,
        imports=source.imports,
        remarks=_remark_files(config),
        notices=source.notices,
        upgrades=upgrades,
        documents={**documents, **counting.kept},
    )


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
