"""From the configuration to the files that the rules stand on, at each call of Snakemake.

Everything is written only where it changed, so that a file's time of change means a change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab import datasets, machine, plan
from flashlab.config import ConfigError, resolve_config
from flashlab.implementations import find_implementations
from flashlab.records import Run, write_json_if_changed
from flashlab.remarks import remark_files

RESULTS = Path("results")
DATA = Path("data")
LOCAL = "local"
GRADING_KEYS = ("grading", "pdf", "reproduce", "submissions")
"""Keys of the configuration that no report depends on."""

NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Prepared:
    """What the rules look up: the dataset, its experiments, and what makes each record.

    `orders` is what to measure and `imports` what to convert, by record file name; both are empty
    for a recorded dataset. `config` is the resolved configuration.
    """

    dataset: str
    device: str
    protocol: str
    experiments: tuple[str, ...]
    drawn: tuple[str, ...]
    records: dict[str, list[str]]
    ceilings: str | None
    orders: dict[str, dict[str, Any]]
    imports: dict[str, dict[str, Any]]
    remarks: tuple[str, ...]
    config: dict[str, Any]


def _imported(
    config: Mapping[str, Any],
) -> tuple[str, datasets.Dataset, dict[str, dict[str, Any]]]:
    """Name, dataset and orders of the folder that ``import`` names."""
    folder = Path(config["import"])
    name = config.get("name") or folder.resolve().name
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--config: import: the folder's name {name!r} is no name for a dataset (letters, "
            "digits, - and _); give one with name=NAME"
        )
    if name == LOCAL or (DATA / name).exists():
        raise ConfigError(
            f"--config: import: the name {name} is taken; give another one with name=NAME"
        )
    manifest = datasets.import_plan(folder, name)
    home = RESULTS / name
    entries = tuple(
        datasets.Entry(Run.from_json(entry["run"]), entry["protocol"], home / entry["file"], "")
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


def prepare(
    config: Mapping[str, Any],
    files: Sequence[Path],
    overrides: Mapping[str, Any],
    own: Collection[str] = (),
) -> Prepared:
    """Check the configuration, plan its runs, and write the plan and the resolved configuration.

    Args:
        config: the merged configuration.
        files: the files it was merged from, in order.
        overrides: what ``--config`` gave.
        own: the keys that this call itself gave (``--configfile`` or ``--config``); for the
            others, a recorded dataset brings the experiments that it was recorded for.

    Writes ``results/<dataset>/plan/<experiment>.json``, ``results/<dataset>/languages.json`` and
    ``report/config.json``.

    Raises:
        ConfigError, ImplementationError, MachineError, DatasetError, PlanError: each with one
            message that says what is wrong, where, and what to do.
    """
    implementations = find_implementations()
    resolved = resolve_config(config, implementations, files, overrides)
    remarks = remark_files(resolved)
    dataset = resolved["dataset"]
    imports: dict[str, dict[str, Any]] = {}
    recorded: datasets.Dataset | None = None
    if "import" in resolved:
        dataset, recorded, imports = _imported(resolved)
    elif dataset != LOCAL:
        recorded = datasets.read_dataset(DATA / dataset)
        kept = {key: value for key, value in recorded.config.items() if key not in own}
        resolved = resolve_config({**config, **kept}, implementations, files, overrides)
    if recorded:
        device, dtype = recorded.device, recorded.dtype
    else:
        device = machine.detect_device(resolved["device"])
        dtype = plan.AUTO_DTYPE[device] if resolved["dtype"] == "auto" else resolved["dtype"]
    protocol = plan.protocol_of(resolved)
    experiments = plan.experiments(resolved, device)
    runs = [run for experiment in experiments for run in experiment.runs(dtype, device)]
    home = RESULTS / dataset
    ceilings = recorded.ceilings if recorded else home / "records" / plan.ceilings_name(device)
    if recorded:
        planned = plan.plan_recorded(runs, protocol["name"], recorded, dataset)
        if imports:
            planned = {run: plan.PlannedRun(run, entry.path) for run, entry in planned.items()}
    else:
        planned = plan.plan_local(runs, protocol, implementations, home / "records")
    for experiment in experiments:
        document = plan.plan_document(experiment, planned, implementations, resolved, dtype, device)
        write_json_if_changed(home / "plan" / f"{experiment.name}.json", document)
    write_json_if_changed(home / "languages.json", resolved["languages"])
    reported = {key: value for key, value in resolved.items() if key not in GRADING_KEYS}
    write_json_if_changed(Path("report/config.json"), {**reported, "dataset": dataset})
    return Prepared(
        dataset=dataset,
        device=device,
        protocol=protocol["name"],
        experiments=tuple(experiment.name for experiment in experiments),
        drawn=tuple(experiment.name for experiment in experiments if experiment.figures),
        records={
            experiment.name: [
                planned[run].path.as_posix() for run in experiment.runs(dtype, device)
            ]
            for experiment in experiments
        },
        ceilings=None if ceilings is None else ceilings.as_posix(),
        orders={}
        if recorded
        else {
            entry.path.name: {"run": run.to_json(), "protocol": protocol}
            for run, entry in planned.items()
        },
        imports=imports,
        remarks=remarks,
        config=resolved,
    )
