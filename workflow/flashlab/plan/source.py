"""The source of a call's records: this machine, a recorded dataset, or an imported folder."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashlab import machine
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementations, implementations_of
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, resolve_config
from flashlab.lab5.experiments import experiments_of
from flashlab.lab5.importing import import_plan
from flashlab.plan import datasets
from flashlab.plan.plan_files import results_of

DATA = Path("data")
BUNDLED = Path(__file__).parents[3] / "data"
"""The recorded datasets of the project, also where the pipeline runs in a folder of its own."""

LOCAL = "local"


@dataclass(frozen=True)
class Source:
    """The source of the records: the dataset, and its resolved configuration.

    `recorded` is the dataset whose records are there already, None where they are measured here;
    `imports` has the entries of the files to convert. `kind` is the dtype and the device of every
    run, `device_name` the device that they are planned for, and `home` the folder of the results.
    `notices` are lines about imported files, and about what is not taken of ``hyper_param``.
    """

    benchmark: Benchmark
    implementations: Implementations
    dataset: str
    recorded: datasets.Dataset | None
    imports: Mapping[str, dict[str, Any]]
    config: Mapping[str, Any]
    home: Path
    kind: tuple[str, str]
    device_name: str = ""
    notices: Sequence[str] = ()


@dataclass(frozen=True)
class _Imported:
    """A folder that ``import`` names: as a dataset, its orders by record file name, and notices."""

    dataset: datasets.Dataset
    orders: dict[str, dict[str, Any]]
    notices: list[str]


def _name_of(folder: Path, given: str | None) -> str:
    """The name of an imported dataset: the given one, or one like the folder's.

    ConfigError where the given one is taken.
    """

    def is_taken(name: str) -> bool:
        return name == LOCAL or any((data / name).exists() for data in (DATA, BUNDLED))

    if given is not None:
        if is_taken(given):
            raise ConfigError(
                f"--config: import: the name {given} is taken; give another one with name=NAME"
            )
        return given
    name = re.sub("[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-_") or "imported"
    return f"{name}-imported" if is_taken(name) else name


def _imported(layers: Sequence[Layer], known: Collection[str]) -> _Imported:
    """The folder that ``import`` names, planned; FolderError as of `importing.import_plan`."""
    folder = Path(str(_last(layers, "import")))
    given, device = _last(layers, "name"), _last(layers, "device_name")
    name = _name_of(folder, given if isinstance(given, str) else None)
    orders, notices = import_plan(folder, known, device if isinstance(device, str) else None)
    home = results_of(name, DEFAULT)
    entries = tuple(
        datasets.Entry(
            datasets.run_of(order),
            order["protocol"],
            home / order["record"],
            None,
            order["process"],
        )
        for order in orders
    )
    implementations: dict[Shape, set[str]] = {}
    for entry in entries:
        implementations.setdefault(Shape.of(entry.run), set()).add(entry.run.implementation)
    protocols = Counter(str(entry.protocol["name"]) for entry in entries)
    run = entries[0].run
    experiments = experiments_of(implementations, run.device)
    return _Imported(
        datasets.Dataset(
            name=name,
            device=run.device,
            dtype=run.dtype,
            protocol=protocols.most_common(1)[0][0],
            config=experiments,
            ceilings=None,
            entries=entries,
        ),
        {Path(order["record"]).name: order for order in orders},
        notices,
    )


def _recorded(name: str, benchmark: Benchmark) -> datasets.Dataset:
    """The recorded dataset of this name, from the working directory or the project's own."""
    here, bundled = (datasets.dataset_folder(data, name, benchmark) for data in (DATA, BUNDLED))
    is_bundled = bundled.is_dir() and not here.is_dir()
    data = Path(os.path.relpath(BUNDLED)) if is_bundled else DATA
    return datasets.read_recorded(data, name, benchmark)


def _last(layers: Sequence[Layer], key: str) -> Any:
    """The value of a key in the last layer that has it; None without one."""
    return next((layer.keys[key] for layer in reversed(layers) if key in layer.keys), None)


def _with_settings_file(layers: list[Layer], benchmark: Benchmark) -> tuple[list[Layer], list[str]]:
    """The layers with the one that the file of the last ``hyper_param`` makes, before the last.

    Beside them lines about what is not taken of that file.
    """
    file = _last(layers, "hyper_param")
    if file is None:
        return layers, []
    if benchmark.settings_file is None:
        raise ConfigError(f"config: hyper_param: {benchmark.name} has no such file; leave it out")
    items = _last(layers, "experiments")
    items = items if isinstance(items, list) else []
    names = [item if isinstance(item, str) else item.get("name", item.get("use")) for item in items]
    try:
        keys, notices = benchmark.settings_file(Path(str(file)), names)
    except ValueError as error:
        raise ConfigError(f"config: hyper_param: {error}") from error
    return [*layers[:-1], Layer(str(file), keys), layers[-1]], notices


def source_of(base: Layer, own: Sequence[Layer]) -> Source:
    """The source that the layers name: this machine, a recorded dataset, or an imported folder.

    Raises:
        ConfigError, ImplementationError, MachineError, DatasetError: as of `prepare.prepare`.
    """
    layers = [base, *own]
    benchmark = find_benchmark(named_benchmark(layers))
    implementations = implementations_of(benchmark)
    imports: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    recorded: datasets.Dataset | None = None
    named = _last(layers, "dataset")
    dataset = named if isinstance(named, str) and datasets.NAME.fullmatch(named) else LOCAL
    if any("import" in layer.keys for layer in layers):
        if benchmark != DEFAULT:
            raise ConfigError(
                f"--config: import: takes results of the course's script, which measures "
                f"{DEFAULT.name}; leave it out, or leave out benchmark={benchmark.name}"
            )
        imported = _imported(layers, implementations)
        recorded, imports, notices = imported.dataset, imported.orders, imported.notices
    elif dataset != LOCAL:
        recorded = _recorded(dataset, benchmark)
    if recorded:
        dataset = recorded.name
        # Its experiments take the place of those of the configuration at the base.
        kept = {key: value for key, value in base.keys.items() if key not in datasets.CONFIG_KEYS}
        of_dataset = Layer(f"dataset {recorded.name}", recorded.config)
        layers = [replace(base, keys=kept), of_dataset, *own]
    layers, not_taken = _with_settings_file(layers, benchmark)
    resolved, notices = resolve_config(layers, implementations), [*notices, *not_taken]
    home = results_of(dataset, benchmark)
    of = (benchmark, implementations, dataset, recorded, imports, resolved, home)
    if recorded:
        return Source(*of, (recorded.dtype, recorded.device), notices=notices)
    device, device_name = planned_device(resolved)
    auto = resolved["dtype"] == "auto"
    kind = (benchmark.dtypes[device] if auto else resolved["dtype"], device)
    return Source(*of, kind, device_name, notices)


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
