"""From the configuration to the files that the rules depend on, at each Snakemake call.

Nothing is written here: the plan's files are returned as documents (`Prepared.documents`), which
`flashlab.calls.call` writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import TABLES
from flashlab.anonymity import anonymous_text
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, reported_config, resolve_config
from flashlab.files import read_json
from flashlab.plan import datasets, identity, remaking
from flashlab.plan import planning as plan
from flashlab.plan.implementations import Implementations, implementations_of
from flashlab.plan.machines import HERE, Machine, machine_file, machine_of
from flashlab.plan.plan_files import (
    counters_file,
    experiment_file,
    processes_file,
    records_file,
    results_of,
    shown_file,
)
from flashlab.plan.published import CLAIMS, claimed_protocols, claimed_runs, claims_of, read_claims
from flashlab.plan.replicates import read_replicates, runs_to_decide
from flashlab.runs import Run

DATA = Path("data")
BUNDLED = Path(__file__).parents[3] / "data"
"""The recorded datasets of the project, also where the pipeline runs in a folder of its own."""

INTACT = Path(".snakemake", "flashlab-intact.json")
"""The records that a call found intact, kept for the next one; it may be deleted at any time."""

LOCAL = "local"
UNWANTED = ("no", False)
"""What `counters` may be where none are to be read; YAML takes a bare ``no`` for false."""
REPORTS = ("pdf", "html")
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")


Planning = tuple[plan.Experiment, Mapping[Run, plan.PlannedRun]]
"""An experiment with the file of each of its runs' records."""


@dataclass(frozen=True)
class Prepared:
    """What the rules look up: the dataset, its experiments, and what makes each record.

    `home` is the folder of the results, `report` the stem of the report's file name. `records` are
    each experiment's, with those of its `counters`. `orders` is what to measure and `imports` what
    to convert, by record file name; both are empty for a recorded dataset. `remade` holds the
    planned files that must be made again, each with the reason. `config` is the resolved
    configuration, and `machine` the file of the machine that it names. `intact` is what the next
    call is to know of the records. Paths are relative to the working directory.
    """

    dataset: str
    home: str
    report: str
    device: str
    protocol: str
    experiments: Sequence[str]
    drawn: Sequence[str]
    records: Mapping[str, Sequence[str]]
    counters: Sequence[str]
    ceilings: str | None
    orders: Mapping[str, dict[str, Any]]
    imports: Mapping[str, dict[str, Any]]
    remarks: Sequence[str]
    remade: Mapping[str, str]
    machine: str | None
    config: Mapping[str, Any]
    documents: Mapping[str, Any] = field(repr=False)
    intact: Mapping[str, Any] = field(repr=False)


def _imported(
    config: Mapping[str, Any],
) -> tuple[str, datasets.Dataset, dict[str, dict[str, Any]]]:
    """Name, dataset and orders of the folder that ``import`` names."""
    folder = Path(config["import"])
    name = config.get("name") or folder.resolve().name
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--config: import: the folder's name {name!r} cannot name a dataset: use "
            "letters, digits, - and _; give one with name=NAME"
        )
    if config["benchmark"] != DEFAULT.name:
        raise ConfigError(
            f"--config: import: takes results of the course's script, which measures "
            f"{DEFAULT.name}; leave it out, or leave out benchmark={config['benchmark']}"
        )
    if name == LOCAL or any((data / name).exists() for data in (DATA, BUNDLED)):
        raise ConfigError(
            f"--config: import: the name {name} is taken; give another one with name=NAME"
        )
    manifest = datasets.import_plan(folder, name)
    home = results_of(name, DEFAULT)
    entries = tuple(
        datasets.Entry(datasets.run_of(entry), entry["protocol"], home / entry["file"], "")
        for entry in manifest["records"]
    )
    orders = {Path(entry["file"]).name: entry for entry in manifest["records"]}
    dataset = datasets.Dataset(
        name=name,
        device=manifest["device"],
        dtype=manifest["dtype"],
        protocol=manifest["protocol"],
        config={},
        ceilings=None,
        entries=entries,
    )
    return name, dataset, orders


def _recorded(name: str, benchmark: Benchmark) -> datasets.Dataset:
    """The recorded dataset of this name, from the working directory or the project's own."""
    here, bundled = (datasets.dataset_folder(data, name, benchmark) for data in (DATA, BUNDLED))
    if not here.is_dir() and bundled.is_dir():
        return datasets.read_recorded(Path(os.path.relpath(BUNDLED)), name, benchmark)
    return datasets.read_recorded(DATA, name, benchmark)


def _record_damages(
    planned: Mapping[Run, plan.PlannedRun],
    protocol: Mapping[str, Any],
    intact: remaking.IntactRecords,
) -> dict[str, str]:
    """The records that must be made again, each with the reason."""
    timeout_s = protocol["timeout_s"]
    return {
        entry.path.as_posix(): found
        for run, every in planned.items()
        for entry in every.processes
        if (found := remaking.record_damage(entry.path, run, timeout_s, intact))
    }


def _known_intact() -> Any:
    """What the last call has kept of the records that it found intact, if anything."""
    try:
        return read_json(INTACT)
    except (OSError, ValueError):
        return None


def _counters_version(config: Mapping[str, Any], kept: Path, on: Machine) -> str | None:
    """The version of Nsight Compute by which a GPU's counters are read; None if none are.

    `auto` is resolved once: what it was found to be on a kind of device is read from `kept`, so
    that installing ncu later reruns nothing. Counters that were read stay where ncu is gone.

    Raises:
        ConfigError: counters were asked for where they cannot be read.
    """
    version = on.ncu_version()
    try:
        before = read_json(kept)
    except (OSError, ValueError):
        before = {}
    is_resolved = before.get("device") == "cuda"
    was = before["version"] if is_resolved else None
    if config["counters"] != "auto":
        if version is None and was is None:
            raise ConfigError(
                "config: counters: yes needs Nsight Compute on a GPU, but ncu is not on PATH; "
                "install it, or give counters: auto"
            )
        return version or was
    if is_resolved:
        return (version or was) if was else None
    return version


def _plan_counters(
    config: Mapping[str, Any],
    experiments: Sequence[plan.Experiment],
    implementations: Implementations,
    kind: tuple[str, str],
    version: str | None,
    records: Path,
    on: Machine,
) -> tuple[dict[Run, plan.PlannedRun], dict[str, Any]]:
    """The counters to read here, and their protocol: a GPU's by this version of Nsight Compute.

    Where ncu is gone, those that were read before. On a CPU there is nothing to install.
    """
    timeout_s = config["measure"]["timeout_s"]
    if version is None:
        protocol = plan.operators_protocol(timeout_s)
    else:
        protocol = plan.counters_protocol(experiments[0].benchmark, version, timeout_s)
    runs = [
        run
        for experiment in experiments
        if experiment.sweep
        for run in experiment.counted_runs(config["counted"], *kind)
    ]
    planned = plan.plan_local(
        experiments[0].benchmark, runs, protocol, implementations, records, on=on
    )
    if version is not None and on.ncu_version() is None:
        planned = {run: entry for run, entry in planned.items() if entry.path.exists()}
    return planned, protocol


def _orders(
    benchmark: Benchmark, planned: Mapping[Run, plan.PlannedRun], protocol: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What to measure, by record file name."""
    return {
        entry.path.name: plan.measuring_order(benchmark, entry, protocol)
        for every in planned.values()
        for entry in every.processes
    }


def _stage_damages(
    home: Path, report: str, experiments: Sequence[plan.Experiment]
) -> dict[str, str]:
    """Outputs of the stages after the records that must be made again, each with the reason."""
    paths = [home / "findings.json", home / "overview"]
    found: dict[str, str] = {}
    for experiment in experiments:
        tables = home / "tables" / experiment.name
        paths += [tables / f"{table}.csv" for table in TABLES]
        if experiment.figures:
            figures = home / "figures" / experiment.name
            if lacking := remaking.missing_figures(figures, (f.id for f in experiment.figures)):
                found[figures.as_posix()] = lacking
            paths.append(figures)
    # A report that was never requested is not missing.
    for kind in REPORTS:
        published = Path(f"report/{report}.{kind}")
        if published.exists():
            paths += [home / published.name, published]
    for path in paths:
        if damage := remaking.damage(path):
            found.setdefault(path.as_posix(), damage)
    return found


def _claims_planning(
    benchmark: Benchmark,
    recorded: datasets.Dataset,
    planned: Mapping[Run, plan.PlannedRun],
    implementations: Implementations,
    vouched: bool,
) -> list[Planning]:
    """The records of a dataset that published claims are about and no experiment plans.

    `vouched` says whether the manifest has the records' hashes. An implementation that is no longer
    in `kernels/` has no table, so its records are left out.
    """
    document = claims_of(read_claims(CLAIMS), benchmark)
    protocols = claimed_protocols(document)
    held = [
        (
            entry.protocol["name"],
            plan.PlannedRun(
                entry.run, entry.path, entry.sha256 if vouched else None, process=entry.process
            ),
        )
        for entry in recorded.entries
        if entry.run.implementation in implementations and entry.protocol["name"] in protocols
    ]
    return [*plan.plan_claims(benchmark, claimed_runs(document), held, planned)]


def _as_recorded(resolved: Mapping[str, Any], recorded: datasets.Dataset) -> dict[str, Any]:
    """The configuration with the settings by which the dataset's records were measured."""
    measure = resolved["measure"]
    by_name = {entry.protocol["name"]: entry.protocol for entry in recorded.entries}
    chosen = measure["protocol"] if measure["protocol"] in by_name else recorded.protocol
    stated = by_name.get(chosen, {})
    settings = {key: stated.get(key, value) for key, value in measure[chosen].items()}
    timeout_s = stated.get("timeout_s", measure["timeout_s"])
    changed = {"protocol": chosen, chosen: settings, "timeout_s": timeout_s}
    return {**resolved, "measure": {**measure, **changed}}


def _documents(
    home: Path,
    dataset: str,
    report: str,
    resolved: Mapping[str, Any],
    planning: Sequence[Planning],
    implementations: Implementations,
    kind: tuple[str, str],
) -> dict[str, Any]:
    """The plan's files: each holds what its stages need and no more, so that reruns are exact."""
    folder = home / "plan"
    config = {**reported_config(resolved), "dataset": dataset}
    if resolved["anonymous"] and "import" in config:
        config["import"] = anonymous_text(config["import"])
    documents: dict[Path, Any] = {
        folder / "config.json": config,
        folder / "languages.json": resolved["languages"],
        folder / "experiments.json": [experiment.name for experiment, _ in planning],
        shown_file(report): {"dataset": dataset},
    }
    for experiment, planned in planning:
        documents[experiment_file(home, experiment.name)] = plan.experiment_document(
            experiment, implementations, resolved, *kind
        )
        documents[records_file(home, experiment.name)] = plan.records_document(
            experiment, planned, implementations, *kind, resolved["anonymous"]
        )
    return {path.as_posix(): document for path, document in documents.items()}


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


def _with_dataset(base: Layer, dataset: datasets.Dataset) -> list[Layer]:
    """The experiments of a recorded dataset, in place of those of the configuration at the base."""
    kept = {key: value for key, value in base.keys.items() if key not in datasets.CONFIG_KEYS}
    return [Layer(base.origin, kept), Layer(f"dataset {dataset.name}", dataset.config)]


def _named_dataset(layers: Sequence[Layer]) -> str:
    """The dataset that the configuration names: `LOCAL` if it names none, or no valid name."""
    named = [layer.keys["dataset"] for layer in layers if "dataset" in layer.keys]
    name = named[-1] if named else LOCAL
    return name if isinstance(name, str) and NAME.fullmatch(name) else LOCAL


def _with_settings_file(layers: list[Layer], benchmark: Benchmark) -> list[Layer]:
    """The layers with the one that the file of the last ``hyper_param`` makes, before the last."""
    named = [layer.keys["hyper_param"] for layer in layers if "hyper_param" in layer.keys]
    if not named:
        return layers
    if benchmark.settings_file is None:
        raise ConfigError(f"config: hyper_param: {benchmark.name} has no such file; leave it out")
    items = [layer.keys["experiments"] for layer in layers if "experiments" in layer.keys]
    last = items[-1] if items and isinstance(items[-1], list) else []
    names = [e if isinstance(e, str) else e.get("name", e.get("use")) for e in last]
    try:
        keys = benchmark.settings_file(Path(str(named[-1])), names)
    except ValueError as error:
        raise ConfigError(f"config: hyper_param: {error}") from error
    return [*layers[:-1], Layer(str(named[-1]), keys), layers[-1]]


@dataclass(frozen=True)
class _Source:
    """Where the records come from: the dataset, and the configuration that holds for it.

    `recorded` is the dataset whose records are there already, None where they are measured here;
    `imports` is what to convert for it. `kind` is the dtype and the device of every run, and
    `machine` the one that they are planned for.
    """

    dataset: str
    recorded: datasets.Dataset | None
    imports: Mapping[str, dict[str, Any]]
    config: dict[str, Any]
    kind: tuple[str, str]
    machine: Machine = HERE


def _source(
    base: Layer, own: Sequence[Layer], benchmark: Benchmark, implementations: Implementations
) -> _Source:
    """What the layers ask for: local records, a recorded dataset, or an imported folder."""
    layers = [base, *own]
    imports: dict[str, dict[str, Any]] = {}
    recorded: datasets.Dataset | None = None
    dataset = _named_dataset(layers)
    importing = any("import" in layer.keys for layer in layers)
    if dataset != LOCAL and not importing:
        recorded = _recorded(dataset, benchmark)
        layers = [*_with_dataset(base, recorded), *own]
    layers = _with_settings_file(layers, benchmark)
    resolved = resolve_config(layers, implementations)
    if importing:
        dataset, recorded, imports = _imported(resolved)
    machine = HERE
    if recorded:
        kind = recorded.dtype, recorded.device
    else:
        machine = machine_of(resolved)
        device = machine.detect_device(resolved["device"])
        auto = resolved["dtype"] == "auto"
        kind = benchmark.dtypes[device] if auto else resolved["dtype"], device
    return _Source(dataset, recorded, imports, resolved, kind, machine)


@dataclass(frozen=True)
class _Counting:
    """What is counted here: the file of each run's counters, and by which protocol.

    `kept` are the documents that keep what `counters: auto` was found to be.
    """

    planned: Mapping[Run, plan.PlannedRun] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)


def _counting(
    source: _Source,
    experiments: Sequence[plan.Experiment],
    implementations: Implementations,
    home: Path,
) -> _Counting:
    """The counters to read here; none of a recorded dataset, or where none are wanted."""
    _, device = source.kind
    counted = experiments[0].benchmark.counters_on(device)
    if source.recorded or not counted or source.config["counters"] in UNWANTED:
        return _Counting()
    version, kept = None, {}
    if device == "cuda":
        file = counters_file(home)
        version = _counters_version(source.config, file, source.machine)
        kept = {file.as_posix(): {"device": device, "version": version}}
        if version is None:
            return _Counting(kept=kept)
    planned, protocol = _plan_counters(
        *(source.config, experiments, implementations, source.kind, version),
        *(home / "records", source.machine),
    )
    return _Counting(planned, protocol, kept)


def prepare(base: Layer, own: Sequence[Layer] = ()) -> Prepared:
    """Check the configuration and plan its runs.

    Nothing is written, except that records of an older naming scheme are kept under their new
    names (`identity.adopt`).

    Args:
        base: the configuration file of the benchmark's report (`config.config_file`), or what
            another workflow gives as this one's configuration.
        own: what this call itself gives: its ``--configfile`` files and ``--config``, in order.
            They are merged into the experiments of a recorded dataset, which replace `base`'s.

    Raises:
        ClaimsError, ConfigError, ImplementationError, MachineError, DatasetError, PlanError: each
            with one message: what is wrong, where, and what to do.
    """
    benchmark = find_benchmark(named_benchmark([base, *own]))
    implementations = implementations_of(benchmark)
    source = _source(base, own, benchmark, implementations)
    dataset, recorded, imports = source.dataset, source.recorded, source.imports
    resolved, (dtype, device) = source.config, source.kind
    protocol = plan.protocol_of(resolved, device)
    experiments = plan.experiments(resolved, benchmark, device)
    runs = [run for experiment in experiments for run in experiment.runs(dtype, device)]
    home = results_of(dataset, benchmark)
    ceilings = (
        recorded.ceilings
        if recorded
        else home / "records" / identity.ceilings_name(device, source.machine)
    )
    added: dict[str, Any] = {}
    if recorded and resolved["decide"]:
        raise ConfigError(
            "--config: decide: nothing is measured here: the records are recorded ones; leave it "
            "out, or leave out dataset= and import="
        )
    if recorded:
        planned = plan.plan_recorded(runs, protocol["name"], recorded, dataset)
        if imports:
            planned = {run: plan.PlannedRun(run, entry.path) for run, entry in planned.items()}
    else:
        replicates = read_replicates(resolved, device, processes_file(home))
        local = (benchmark, runs, protocol, implementations, home / "records")
        planned = plan.plan_local(*local, replicates.of, source.machine)
        if resolved["decide"]:
            undecided = runs_to_decide(home / "findings.json", experiments, planned, source.kind)
            replicates = replicates.with_one_more(undecided)
            planned = plan.plan_local(*local, replicates.of, source.machine)
        if replicates.added:
            added[processes_file(home).as_posix()] = dict(replicates.added)
        older = identity.records_by_run(home / "records")
        for run, every in planned.items():
            for entry in every.processes:
                if not entry.path.exists():
                    identity.adopt(
                        entry.path,
                        *(benchmark, run, protocol, implementations[run.implementation]),
                        *(entry.process, source.machine, older),
                    )
    counting = _counting(source, experiments, implementations, home)
    counters = plan.recorded_counters(planned, recorded) if recorded else counting.planned
    planned = plan.with_counters(planned, counters)
    orders = {}
    if not recorded:
        orders = _orders(benchmark, planned, protocol)
        orders |= _orders(benchmark, counters, counting.protocol)
    planning: list[Planning] = [(experiment, planned) for experiment in experiments]
    if recorded:
        vouched = not imports
        planning += _claims_planning(benchmark, recorded, planned, implementations, vouched)
    intact = remaking.IntactRecords(_known_intact())
    remade = _stage_damages(home, benchmark.report, [experiment for experiment, _ in planning])
    if recorded and not imports:
        entries = {entry.path: entry for _, found in planning for entry in found.values()}
        plan.check_recorded(entries.values(), dataset)
    else:
        for found in {id(found): found for _, found in planning}.values():
            remade |= _record_damages(found, protocol, intact)
        remade |= _record_damages(counters, protocol, intact)
    if ceilings and not recorded and (damage := remaking.damage(ceilings)):
        remade[ceilings.as_posix()] = damage
    if resolved["again"]:
        both = () if recorded else (*planned.values(), *counters.values())
        measured = {e.path.as_posix(): e.run for every in both for e in every.processes}
        remade |= remaking.runs_asked_for(resolved["again"], measured)
        if ceilings and not recorded and resolved["again"] == remaking.ALL:
            remade[ceilings.as_posix()] = remaking.ASKED_FOR
    return Prepared(
        dataset=dataset,
        home=home.as_posix(),
        report=benchmark.report,
        device=device,
        protocol=protocol["name"],
        experiments=tuple(experiment.name for experiment, _ in planning),
        drawn=tuple(experiment.name for experiment in experiments if experiment.figures),
        records={
            experiment.name: [
                path.as_posix()
                for path in plan.record_files(found[run] for run in experiment.runs(dtype, device))
            ]
            for experiment, found in planning
        },
        counters=[entry.path.as_posix() for entry in counters.values()],
        ceilings=None if ceilings is None else ceilings.as_posix(),
        orders=orders,
        imports=imports,
        remarks=_remark_files(resolved),
        remade=remade,
        machine=None if source.machine is HERE else machine_file(resolved["machine"]).as_posix(),
        config=resolved,
        documents={
            **_documents(
                home,
                dataset,
                benchmark.report,
                _as_recorded(resolved, recorded) if recorded else resolved,
                planning,
                implementations,
                (dtype, device),
            ),
            **added,
            **counting.kept,
        },
        intact=intact.to_json(),
    )


def prepare_description(base: Layer, own: Sequence[Layer] = ()) -> Prepared:
    """What a call prepares that only describes a machine: no run is planned, no file written.

    The machine's file may be missing, so that nothing that depends on it can be planned.

    Raises:
        ConfigError, ImplementationError: as of `prepare`.
    """
    benchmark = find_benchmark(named_benchmark([base, *own]))
    config = resolve_config([base, *own], implementations_of(benchmark))
    file = machine_file(config["machine"]).as_posix() if "machine" in config else None
    return Prepared(
        dataset=LOCAL,
        home=results_of(LOCAL, benchmark).as_posix(),
        report=benchmark.report,
        device=config["device"],
        protocol=config["measure"]["protocol"],
        experiments=(),
        drawn=(),
        records={},
        counters=(),
        ceilings=None,
        orders={},
        imports={},
        remarks=(),
        remade={file: remaking.ASKED_FOR} if file and Path(file).exists() else {},
        machine=file,
        config=config,
        documents={},
        intact={},
    )
