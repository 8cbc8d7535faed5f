"""From the configuration to the plan of a call. Nothing is written here."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.anonymity import anonymous_text
from flashlab.benchmarks.implementations import implementations_of
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, reported_config, resolve_config
from flashlab.plan import datasets, identity, state
from flashlab.plan.datasets import Dataset, DatasetError
from flashlab.plan.experiments import experiments_of, protocol_of
from flashlab.plan.importing import Imports, imported, of_held
from flashlab.plan.plan_files import CONFIG, Plan, results_of
from flashlab.plan.runs import Namer, counting_protocol, orders_of, plan_local, plan_recorded
from flashlab.plan.views import as_recorded, shown_file, views_of
from flashlab.runs import Run

DATA = Path("data")
BUNDLED = Path(__file__).parents[3] / "data"
"""The recorded datasets of the project, also where the pipeline runs in a folder of its own."""

LOCAL = "local"


def make(base: Layer, own: Sequence[Layer] = ()) -> Plan:
    """The plan of a call.

    Args:
        base: the configuration file of the benchmark's report (`config.config_file`), or the
            configuration that another workflow gives this one as its module.
        own: the layers of this call itself: its ``--configfile`` files and ``--config``, in order.
            They are merged into the experiments of a recorded dataset, which replace `base`'s.

    Raises:
        ConfigError, ImplementationError, MachineError, DatasetError, FolderError: each with one
            message: what is wrong, where, and what to do.
    """
    layers = [base, *own]
    benchmark = find_benchmark(named_benchmark(layers))
    implementations = implementations_of(benchmark)
    recorded, imports, notices = _recorded(layers, benchmark, implementations)
    if recorded:  # whose experiments take the place of those at the base
        kept = {key: value for key, value in base.keys.items() if key not in datasets.CONFIG_KEYS}
        of_dataset = Layer(f"dataset {recorded.name}", recorded.config)
        layers = [replace(base, keys=kept), of_dataset, *own]
    if (file := _last(layers, "hyper_param")) is not None:
        settings, not_taken = _settings(Path(str(file)), layers, benchmark)
        layers.insert(-1, settings)
        notices += not_taken
    config = resolve_config(layers, implementations)
    dataset = recorded.name if recorded else LOCAL
    home = results_of(dataset, benchmark)
    if recorded:
        kind, device_name = (recorded.dtype, recorded.device), ""
    else:
        device, device_name = planned_device(config)
        auto = config["dtype"] == "auto"
        kind = (benchmark.dtypes[device] if auto else config["dtype"], device)
    protocol = protocol_of(config, kind[1])
    experiments = experiments_of(config, benchmark, kind)
    namer = Namer(benchmark, implementations, home / "records", device_name)
    counters_file, counting = home / "plan" / "counters.json", dict[str, Any]()
    orders, upgrades, made = dict[str, dict[str, Any]](), list[str](), dict[Path, Run | None]()
    if recorded:
        if config["again"]:
            said = "nothing is measured here: the records are recorded ones"
            raise ConfigError(f"--config: again: {said}")
        if imports:
            held = {entry.run for entry in recorded.entries}
            experiments = of_held(experiments, held, benchmark)
        planned = plan_recorded(experiments, protocol["name"], recorded, imported=bool(imports))
        ceilings, reported = recorded.ceilings, as_recorded(config, recorded)
    else:
        counting = counting_protocol(benchmark, kind[1], config, counters_file)
        planned = plan_local(experiments, config, protocol, counting, namer)
        ceilings, reported = namer.folder / identity.ceilings_name(kind[1], device_name), config
        orders = orders_of(planned, namer)
        upgrades = state.upgrade_notices((e for e in planned.entries if not e.has_counters), namer)
        made[ceilings] = None
    made |= {entry.path: entry.run for entry in planned.entries if imports or not recorded}
    redo = state.damaged_records(made, home, config["measure"]["timeout_s"])
    again = state.asked_again(config["again"] or (), planned, ceilings)
    redo |= dict.fromkeys(again, state.ASKED)
    redo |= state.damaged_outputs(home, {each.name for each in experiments})
    redo |= state.damaged_reports(home, benchmark.report)
    shown = {**reported_config(reported), "dataset": dataset}
    if config["anonymous"] and "import" in shown:
        shown["import"] = anonymous_text(shown["import"])
    return Plan(
        benchmark=benchmark.name,
        report=benchmark.report,
        dataset=dataset,
        home=home.as_posix(),
        device=kind[1],
        device_name=device_name,
        config=config,
        experiments={each.name: planned.files_of(each.runs) for each in experiments},
        counters=[entry.path.as_posix() for entry in planned.counters.values()],
        ceilings=ceilings.as_posix() if ceilings else None,
        orders=orders,
        imports=imports,
        remarks=_remark_files(config),
        redo=redo,
        notices=notices,
        upgrades=upgrades,
        views={
            (home / CONFIG).as_posix(): shown,
            **views_of(benchmark, implementations, reported, home, experiments, planned),
            shown_file(benchmark.report): {"dataset": dataset},
            **({counters_file.as_posix(): counting} if "ncu" in counting else {}),
        },
    )


def planned_device(config: Mapping[str, Any]) -> tuple[str, str]:
    """The kind and the name of the device that jobs will meet: the configuration's, or this one's.

    Raises:
        MachineError: ``cuda`` is wanted here and cannot be had.
    """
    wanted, name = config["device"], config.get("device_name")
    if name is None:
        device = machine.detect_device(wanted)
        return device, machine.device_name(device)
    return (machine.kind_of(name) if wanted == "auto" else wanted), name


def _remark_files(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of the remarks and their images; ConfigError where one cannot be shown."""
    if not config["remarks"]:
        return ()
    try:
        from flashlab.remarks import RemarkError, remark_files

        return remark_files(config)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"config: remarks: reading them needs {error.name}, which is not installed beside "
            "Snakemake; pip install markdown-it-py pillow there, or leave the remarks out"
        ) from error
    except RemarkError as error:
        raise ConfigError(str(error)) from None


# Datasets and files that the configuration names


def _last(layers: Sequence[Layer], key: str) -> Any:
    """The value of a key in the last layer that has it; None without one."""
    return next((layer.keys[key] for layer in reversed(layers) if key in layer.keys), None)


def _recorded(
    layers: Sequence[Layer], benchmark: Benchmark, known: Collection[str]
) -> tuple[Dataset | None, Imports, list[str]]:
    """The dataset whose records there are, of an imported folder with what to convert and say.

    None where they are measured here.
    """
    name = _last(layers, "dataset")
    if any("import" in layer.keys for layer in layers):
        if benchmark != DEFAULT:
            raise ConfigError(
                f"--config: import: takes results of the course's script, which measures "
                f"{DEFAULT.name}; leave it out, or leave out benchmark={benchmark.name}"
            )
        folder, own = Path(str(_last(layers, "import"))), _last(layers, "name")
        taken = {path.name for data in (DATA, BUNDLED) for path in data.glob("*/")} | {LOCAL}
        return imported(folder, known, taken, own, _last(layers, "device_name"))
    if not isinstance(name, str) or name == LOCAL or not datasets.NAME.fullmatch(name):
        return None, {}, []
    here, bundled = (datasets.dataset_folder(data, name, benchmark) for data in (DATA, BUNDLED))
    is_bundled = bundled.is_dir() and not here.is_dir()
    data = Path(os.path.relpath(BUNDLED)) if is_bundled else DATA
    folder = datasets.dataset_folder(data, name, benchmark)
    if not (folder / datasets.MANIFEST).is_file():
        others = ", ".join(datasets.recorded_names(data, benchmark)) or "none"
        raise DatasetError(
            f"config: dataset: there is no {folder / datasets.MANIFEST}; recorded datasets of "
            f"{benchmark.name}: {others}, and `local` measures on this machine"
        )
    return datasets.read_dataset(folder), {}, []


def _settings(file: Path, layers: Sequence[Layer], benchmark: Benchmark) -> tuple[Layer, list[str]]:
    """The layer that the file of ``hyper_param`` makes, and lines about what is not taken of it."""
    if benchmark.settings_file is None:
        raise ConfigError(f"config: hyper_param: {benchmark.name} has no such file; leave it out")
    items = _last(layers, "experiments")
    items = items if isinstance(items, list) else []
    names = [item if isinstance(item, str) else item.get("name", item.get("use")) for item in items]
    try:
        keys, not_taken = benchmark.settings_file(file, names)
    except ValueError as error:
        raise ConfigError(f"config: hyper_param: {error}") from error
    return Layer(str(file), keys), not_taken
