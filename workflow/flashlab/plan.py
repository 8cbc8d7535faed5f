"""The plan: which runs the configuration asks for, and the file that holds each one's record.

A local record carries its identity in its name, so that a record is measured again exactly when
something that decides its numbers has changed, with or without Snakemake's own bookkeeping. A
recorded dataset is looked up in its manifest instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashlab import costs, machine
from flashlab.datasets import Dataset
from flashlab.implementations import Implementation
from flashlab.records import VERSION, Run, Shape, canonical

MEASURING_CODE = Path(__file__).parent / "measuring"
SUMMARY = "summary"
"""Name of the headline table, which is planned like an experiment of one shape."""

AUTO_DTYPE = {"cuda": "float16", "cpu": "float32"}


class PlanError(Exception):
    """A plan that cannot be made: records of a dataset that are missing."""


@dataclass(frozen=True)
class PlannedRun:
    """A run and the file of its record; `sha256` only where a manifest vouches for the file."""

    run: Run
    path: Path
    sha256: str | None = None


@dataclass(frozen=True)
class Figure:
    """One figure: a metric (time, memory, rate) of some implementations."""

    metric: str
    implementations: tuple[str, ...]
    supplement: bool
    id: str


@dataclass(frozen=True)
class Experiment:
    """A sweep of one parameter, as planned on one kind of device."""

    name: str
    title: dict[str, str]
    sweep: str
    shapes: tuple[Shape, ...]
    implementations: tuple[str, ...]
    figures: tuple[Figure, ...]

    def runs(self, dtype: str, device: str) -> list[Run]:
        """Every implementation at every shape."""
        return [
            Run(implementation, shape, dtype, device)
            for shape in self.shapes
            for implementation in self.implementations
        ]


def _shapes(sweep: str, block: Mapping[str, Any]) -> tuple[Shape, ...]:
    """The shapes of a config block: lists go together, value by value; causal crosses them."""
    count = len(block[sweep])
    columns = {
        key: value if isinstance(value, list) else [value] * count
        for key, value in block.items()
        if key != "causal"
    }
    causal = block["causal"] if isinstance(block["causal"], list) else [block["causal"]]
    return tuple(
        Shape(causal=c, **{key: column[i] for key, column in columns.items()})
        for c in causal
        for i in range(count)
    )


def _figures(experiment: Mapping[str, Any]) -> tuple[Figure, ...]:
    figures = []
    for group in ("figures", "supplement"):
        for entry in experiment[group]:
            chosen = () if isinstance(entry, str) else tuple(entry.get("implementations", ()))
            metric = entry if isinstance(entry, str) else entry["metric"]
            figures.append(
                Figure(
                    metric=metric,
                    implementations=chosen or tuple(experiment["implementations"]),
                    supplement=group == "supplement",
                    id="-".join([metric, *(name.lower() for name in chosen)]),
                )
            )
    return tuple(figures)


def experiments(config: Mapping[str, Any], device: str) -> list[Experiment]:
    """The experiments of a resolved configuration on a kind of device, the summary first."""
    summary = config["summary"]
    planned = [
        Experiment(
            name=SUMMARY,
            title={},
            sweep="",
            shapes=(Shape(**summary[device]),),
            implementations=tuple(summary["implementations"]),
            figures=(),
        )
    ]
    for experiment in config["experiments"]:
        planned.append(
            Experiment(
                name=experiment["name"],
                title=experiment["title"],
                sweep=experiment["sweep"],
                shapes=_shapes(experiment["sweep"], experiment[device]),
                implementations=tuple(experiment["implementations"]),
                figures=_figures(experiment),
            )
        )
    return planned


def protocol_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The measuring protocol of a resolved configuration, with all that it depends on."""
    measure = config["measure"]
    name = measure["protocol"]
    return {"name": name, **measure[name], "timeout_s": measure["timeout_s"]}


@cache
def measuring_digest() -> str:
    """SHA-256 over the measuring code, ``flashlab/measuring/``."""
    digest = hashlib.sha256()
    for path in sorted(MEASURING_CODE.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def identity(
    run: Run, protocol: Mapping[str, Any], implementation: Implementation
) -> dict[str, Any]:
    """Everything that decides the numbers of a local record, on this machine as it is now."""
    packages = {"torch", *implementation.packages}
    versions = {name: machine.package_version(name) for name in sorted(packages)}
    if run.device == "cuda":
        versions["driver"] = machine.driver_version()
    return {
        "format": VERSION,
        "run": run.to_json(),
        "protocol": dict(protocol),
        "flops": costs.flops(run.shape),
        "implementation": implementation.sha256,
        "measuring": measuring_digest(),
        "device": machine.device_name(run.device),
        "versions": versions,
    }


def sources(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What a record keeps of its identity beside the run and the protocol."""
    return {
        "implementation_sha256": identity["implementation"],
        "measuring_sha256": identity["measuring"],
        "versions": identity["versions"],
    }


def ceilings_name(device: str) -> str:
    """File name of the machine's ceilings, which carries their identity as a record's does."""
    identity = {
        "measuring": measuring_digest(),
        "device": machine.device_name(device),
        "versions": {"torch": machine.package_version("torch"), "driver": machine.driver_version()},
    }
    digest = hashlib.sha256(canonical(identity).encode()).hexdigest()
    return f"ceilings-{device}-{digest[:12]}.json"


def record_name(run: Run, identity: Mapping[str, Any]) -> str:
    """File name of a local record: the run in words and twelve digits of its identity's hash."""
    return f"{run.slug}-{hashlib.sha256(canonical(identity).encode()).hexdigest()[:12]}.json"


def plan_local(
    runs: Sequence[Run],
    protocol: Mapping[str, Any],
    implementations: Mapping[str, Implementation],
    records: Path,
) -> dict[Run, PlannedRun]:
    """Each run once, with the file in `records` that its identity names."""
    return {
        run: PlannedRun(
            run,
            records
            / record_name(run, identity(run, protocol, implementations[run.implementation])),
        )
        for run in dict.fromkeys(runs)
    }


def plan_recorded(
    runs: Sequence[Run], protocol: str, dataset: Dataset, where: str
) -> dict[Run, PlannedRun]:
    """Each run once, with the dataset's file for it; PlanError listing the runs it lacks."""
    found, missing = {}, []
    for run in dict.fromkeys(runs):
        entry = dataset.find(run, protocol)
        if entry is None:
            missing.append(run)
        else:
            found[run] = PlannedRun(run, entry.path, entry.sha256)
    if missing:
        lines = "\n  ".join(str(run) for run in missing)
        raise PlanError(
            f"The dataset {where} lacks {len(missing)} of the {len(found) + len(missing)} runs "
            f"that the configuration asks for:\n  {lines}\n"
            "Remove these shapes or implementations from the configuration, or measure them."
        )
    return found


def plan_document(
    experiment: Experiment,
    planned: Mapping[Run, PlannedRun],
    implementations: Mapping[str, Implementation],
    config: Mapping[str, Any],
    dtype: str,
    device: str,
) -> dict[str, Any]:
    """What the later stages need to know of one experiment, as ``plan/<experiment>.json``.

    ``style`` numbers an implementation's colour and marker, the same in every experiment.
    """
    styles = list(
        dict.fromkeys(
            name
            for block in (config["summary"], *config["experiments"])
            for name in block["implementations"]
        )
    )
    return {
        "name": experiment.name,
        "title": experiment.title,
        "sweep": experiment.sweep,
        "baseline": config["baseline"],
        "implementations": [
            {
                "name": name,
                "style": styles.index(name),
                "label": implementations[name].label,
                "source_sha256": implementations[name].sha256,
            }
            for name in experiment.implementations
        ],
        "records": [
            {
                "run": run.to_json(),
                "path": planned[run].path.as_posix(),
                "sha256": planned[run].sha256,
            }
            for run in experiment.runs(dtype, device)
        ],
        "figures": [
            {
                "id": figure.id,
                "metric": figure.metric,
                "implementations": list(figure.implementations),
                "supplement": figure.supplement,
            }
            for figure in experiment.figures
        ],
    }
