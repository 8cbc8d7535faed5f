"""Where a call's records come from: this machine, a recorded dataset, or an imported folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import Implementations, implementations_of
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.config import ConfigError, Layer, named_benchmark, resolve_config
from flashlab.plan import datasets
from flashlab.plan.machines import HERE, Machine, machine_of
from flashlab.plan.plan_files import results_of

DATA = Path("data")
BUNDLED = Path(__file__).parents[3] / "data"
"""The recorded datasets of the project, also where the pipeline runs in a folder of its own."""

LOCAL = "local"
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Source:
    """Where the records come from: the dataset, and the configuration that holds for it.

    `recorded` is the dataset whose records are there already, None where they are measured here;
    `imports` is what to convert for it. `dtype` and `device` are those of every run, and `machine`
    the one that they are planned for.
    """

    benchmark: Benchmark
    implementations: Implementations
    dataset: str
    recorded: datasets.Dataset | None
    imports: Mapping[str, dict[str, Any]]
    config: Mapping[str, Any]
    dtype: str
    device: str
    machine: Machine = HERE

    @property
    def kind(self) -> tuple[str, str]:
        """The dtype and the device of every run."""
        return self.dtype, self.device

    @property
    def home(self) -> Path:
        """The folder of the results."""
        return results_of(self.dataset, self.benchmark)

    @property
    def records(self) -> Path:
        """The folder of the records that are measured here."""
        return self.home / "records"

    @property
    def is_vouched_for(self) -> bool:
        """Whether a manifest has the hashes of the records."""
        return self.recorded is not None and not self.imports


def _imported(config: Mapping[str, Any]) -> tuple[datasets.Dataset, dict[str, dict[str, Any]]]:
    """Dataset and orders of the folder that ``import`` names."""
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
    orders, home = datasets.import_plan(folder), results_of(name, DEFAULT)
    dataset = datasets.Dataset(
        name=name,
        device=datasets.COURSE_DEVICE,
        dtype=datasets.COURSE_DTYPE,
        protocol=str(datasets.COURSE_PROTOCOL["name"]),
        config={},
        ceilings=None,
        entries=tuple(
            datasets.Entry(datasets.run_of(order), order["protocol"], home / order["file"], None)
            for order in orders
        ),
    )
    return dataset, {Path(order["file"]).name: order for order in orders}


def _recorded(name: str, benchmark: Benchmark) -> datasets.Dataset:
    """The recorded dataset of this name, from the working directory or the project's own."""
    here, bundled = (datasets.dataset_folder(data, name, benchmark) for data in (DATA, BUNDLED))
    is_bundled = bundled.is_dir() and not here.is_dir()
    data = Path(os.path.relpath(BUNDLED)) if is_bundled else DATA
    return datasets.read_recorded(data, name, benchmark)


def _last(layers: Sequence[Layer], key: str) -> Any:
    """The value of a key in the last layer that has it; None without one."""
    return next((layer.keys[key] for layer in reversed(layers) if key in layer.keys), None)


def _with_settings_file(layers: list[Layer], benchmark: Benchmark) -> list[Layer]:
    """The layers with the one that the file of the last ``hyper_param`` makes, before the last."""
    file = _last(layers, "hyper_param")
    if file is None:
        return layers
    if benchmark.settings_file is None:
        raise ConfigError(f"config: hyper_param: {benchmark.name} has no such file; leave it out")
    items = _last(layers, "experiments")
    items = items if isinstance(items, list) else []
    names = [item if isinstance(item, str) else item.get("name", item.get("use")) for item in items]
    try:
        keys = benchmark.settings_file(Path(str(file)), names)
    except ValueError as error:
        raise ConfigError(f"config: hyper_param: {error}") from error
    return [*layers[:-1], Layer(str(file), keys), layers[-1]]


def source_of(base: Layer, own: Sequence[Layer]) -> Source:
    """What the layers ask for: local records, a recorded dataset, or an imported folder.

    Raises:
        ConfigError, ImplementationError, MachineError, DatasetError: as of `prepare.prepare`.
    """
    layers = [base, *own]
    benchmark = find_benchmark(named_benchmark(layers))
    implementations = implementations_of(benchmark)
    imports: dict[str, dict[str, Any]] = {}
    recorded: datasets.Dataset | None = None
    named = _last(layers, "dataset")
    dataset = named if isinstance(named, str) and NAME.fullmatch(named) else LOCAL
    importing = any("import" in layer.keys for layer in layers)
    if dataset != LOCAL and not importing:
        recorded = _recorded(dataset, benchmark)
        # Its experiments take the place of those of the configuration at the base.
        kept = {key: value for key, value in base.keys.items() if key not in datasets.CONFIG_KEYS}
        of_dataset = Layer(f"dataset {recorded.name}", recorded.config)
        layers = [Layer(base.origin, kept), of_dataset, *own]
    resolved = resolve_config(_with_settings_file(layers, benchmark), implementations)
    if importing:
        recorded, imports = _imported(resolved)
        dataset = recorded.name
    if recorded and resolved["decide"]:
        raise ConfigError(
            "--config: decide: nothing is measured here: the records are recorded ones; leave it "
            "out, or leave out dataset= and import="
        )
    at = (benchmark, implementations, dataset, recorded, imports, resolved)
    if recorded:
        return Source(*at, recorded.dtype, recorded.device)
    machine = machine_of(resolved)
    device = machine.detect_device(resolved["device"])
    auto = resolved["dtype"] == "auto"
    return Source(*at, benchmark.dtypes[device] if auto else resolved["dtype"], device, machine)
