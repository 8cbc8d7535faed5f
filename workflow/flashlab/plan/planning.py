"""The plan: which runs the configuration asks for, and the file that holds each one's record.

A local record carries its identity in its name (`flashlab.plan.identity`). A recorded dataset is
looked up in its manifest instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashlab import nsight
from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark, Value
from flashlab.files import read_json
from flashlab.plan import identity
from flashlab.plan.datasets import Dataset, Entry
from flashlab.plan.plan_files import OTHERS_PREFIX, SUMMARY
from flashlab.records import COUNTERS
from flashlab.runs import Run

if TYPE_CHECKING:
    from flashlab.plan.source import Source


class PlanError(Exception):
    """The plan cannot be made, as where a dataset lacks records: one message with the remedy."""


@dataclass(frozen=True)
class PlannedRun:
    """A run and the file of its record; `sha256` only where a manifest vouches for the file.

    `process` numbers the process that measures it. That of number 0 has the others as `replicates`,
    and `counters`, the file of the run's counters, where they are planned.
    """

    run: Run
    path: Path
    sha256: str | None = None
    counters: PlannedRun | None = None
    process: int = 0
    replicates: tuple[PlannedRun, ...] = ()

    @property
    def processes(self) -> tuple[PlannedRun, ...]:
        """The record of each process, in their order."""
        return (self, *self.replicates)


PlannedRuns = Mapping[Run, PlannedRun]


def value_on(value: Any, device: str) -> Any:
    """A key's value on ``cuda`` or ``cpu``, where it is one value for both or a mapping."""
    return value[device] if isinstance(value, Mapping) and device in value else value


ENERGY = "energy_seconds"
"""Setting of how long each pass runs on a GPU for its energy; 0 for not at all."""


def protocol_of(config: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The measuring protocol of a resolved configuration on a kind of device, with its settings."""
    measure = config["measure"]
    name = measure["protocol"]
    settings = {key: value_on(value, device) for key, value in measure[name].items()}
    if device == "cpu" or not settings.get(ENERGY):  # a protocol without it is that of before
        settings.pop(ENERGY, None)
    return {"name": name, **settings, "timeout_s": measure["timeout_s"]}


@dataclass(frozen=True)
class Figure:
    """One figure: a quantity (such as time) of some implementations."""

    id: str
    quantity: str
    implementations: list[str]
    supplement: bool


@dataclass(frozen=True)
class PlannedExperiment:
    """A sweep of one parameter, as planned on one kind of device.

    Counters are read of the runs of one that is `counted`. `replicates` are the processes of each
    run of an implementation that has more here than elsewhere.
    `held` are the runs that there are; None where all are planned.
    """

    benchmark: Benchmark
    name: str
    implementations: tuple[str, ...]
    problems: tuple[Mapping[str, Any], ...] = ()
    title: Mapping[str, str] = field(default_factory=dict)
    sweep: str = ""
    figures: tuple[Figure, ...] = ()
    counted: bool = True
    replicates: Mapping[str, int] = field(default_factory=dict)
    held: frozenset[Run] | None = None

    def runs(self, dtype: str, device: str) -> list[Run]:
        """Every implementation at every set of parameters."""
        runs = self._runs(self.problems, self.implementations, dtype, device)
        return runs if self.held is None else [run for run in runs if run in self.held]

    def of_held(self, held: Collection[Run], kind: tuple[str, str]) -> PlannedExperiment | None:
        """The experiment with those of its runs that are held, on a dtype and a device.

        None where these do not vary, or leave out a variant that it is about.
        """
        runs = replace(self, held=frozenset(held)).runs(*kind)
        given = [parameter.name for parameter in self.benchmark.given]
        settings = {tuple(run[name] for name in given) for run in runs}
        if len(settings) < min(2, len(self.problems)) or not runs:
            return None
        for variant in self.benchmark.variants:
            asked = {problem[variant.name] for problem in self.problems}
            if asked != {run[variant.name] for run in runs}:
                return None
        names = {run.implementation for run in runs}
        figures = [
            replace(figure, implementations=[n for n in figure.implementations if n in names])
            for figure in self.figures
            if names & {*figure.implementations}
        ]
        return replace(
            self,
            held=frozenset(runs),
            implementations=tuple(name for name in self.implementations if name in names),
            figures=tuple(figures),
        )

    def counted_runs(self, names: Collection[str], dtype: str, device: str) -> list[Run]:
        """The runs to count: the ends of the sweep, of these names."""
        if not self.counted:
            return []
        variants = [tuple(p[v.name] for v in self.benchmark.variants) for p in self.problems]
        chosen: list[Mapping[str, Any]] = []
        for variant in dict.fromkeys(variants):
            along = [p for p, own in zip(self.problems, variants, strict=True) if own == variant]
            positions = {0, len(along) - 1}
            chosen += [along[position] for position in sorted(positions)]
        own = [name for name in self.implementations if name in names]
        return self._runs(chosen, own, dtype, device)

    def _runs(
        self, problems: Iterable[Mapping[str, Any]], names: Sequence[str], dtype: str, device: str
    ) -> list[Run]:
        common = {"dtype": dtype, "device": device}
        return [
            Run.of(self.benchmark, {"implementation": name, **problem, **common})
            for problem in problems
            for name in names
        ]


def _figures(experiment: Mapping[str, Any]) -> tuple[Figure, ...]:
    figures = []
    for group in ("figures", "supplement"):
        for entry in experiment[group]:
            chosen = [] if isinstance(entry, str) else entry.get("implementations", [])
            metric = entry if isinstance(entry, str) else entry["metric"]
            name = "-".join([metric, *(name.lower() for name in chosen)])
            names = list(chosen or experiment["implementations"])
            figures.append(Figure(name, metric, names, supplement=group == "supplement"))
    return tuple(figures)


def experiments(
    config: Mapping[str, Any], benchmark: Benchmark, device: str
) -> list[PlannedExperiment]:
    """The experiments of a resolved configuration on a kind of device, the summary first."""
    summary = config["summary"]
    problems = (benchmark.complete(summary[device]),)
    return [
        PlannedExperiment(benchmark, SUMMARY, tuple(summary["implementations"]), problems),
        *(
            PlannedExperiment(
                benchmark=benchmark,
                name=experiment["name"],
                title=experiment["title"],
                sweep=experiment["sweep"],
                problems=tuple(map(benchmark.complete, benchmark.combinations(experiment[device]))),
                implementations=tuple(experiment["implementations"]),
                figures=_figures(experiment),
                counted=experiment.get("counted", True),
                replicates=experiment.get("replicates", {}),
            )
            for experiment in config["experiments"]
        ),
    ]


def of_held(
    experiments: Iterable[PlannedExperiment], held: Collection[Run], kind: tuple[str, str]
) -> list[PlannedExperiment]:
    """The experiments of an imported folder, each with the runs that the folder has.

    Each setting that is in none of them follows as one like the headline, so that what is said of
    the whole dataset is said of every run. PlanError where the experiments have no run.
    """
    kept = [kept for e in experiments if (kept := e.of_held(held, kind))]
    if not any(experiment.sweep for experiment in kept):
        raise PlanError(
            "the imported folder has none of the runs that the configuration asks for; leave its "
            "experiments and summary out, and they follow from the files"
        )
    shown = {run for experiment in kept for run in experiment.runs(*kind)}
    rest: dict[tuple[Value, ...], list[Run]] = {}
    for run in sorted({*held} - shown):
        rest.setdefault(tuple(run.values()), []).append(run)
    return kept + [
        PlannedExperiment(
            kept[0].benchmark,
            f"{OTHERS_PREFIX}{number}",
            tuple(run.implementation for run in runs),
            ({parameter.name: runs[0][parameter.name] for parameter in kept[0].benchmark.given},),
        )
        for number, runs in enumerate(rest.values(), start=1)
    ]


def plan_local(
    benchmark: Benchmark,
    runs: Sequence[Run],
    protocol: Mapping[str, Any],
    implementations: Mapping[str, Implementation],
    records: Path,
    replicates: Callable[[Run], int] = lambda run: 1,
    device_name: str | None = None,
) -> dict[Run, PlannedRun]:
    """Each run once, with the files in `records` that the identities of its processes name.

    `replicates` gives the number of a run's processes, `device_name` the device to measure them, if
    it is not this machine's.
    """

    def planned(run: Run, process: int) -> PlannedRun:
        implementation = implementations[run.implementation]
        decided_by = identity.identity(
            benchmark, run, protocol, implementation, process, device_name
        )
        path = records / identity.record_name(run, decided_by)
        return PlannedRun(run, path, process=process)

    return {
        run: with_replicates(planned(run, process) for process in range(replicates(run)))
        for run in dict.fromkeys(runs)
    }


def with_replicates(processes: Iterable[PlannedRun]) -> PlannedRun:
    """A run with all of its processes, of which there is at least one."""
    first, *others = sorted(processes, key=lambda planned: planned.process)
    return replace(first, replicates=tuple(others))


def plan_recorded(
    runs: Sequence[Run], protocol: str, dataset: Dataset, where: str
) -> dict[Run, PlannedRun]:
    """Each run once, with its file in the dataset; PlanError lists the runs that it lacks."""
    planned, missing = {}, []
    for run in dict.fromkeys(runs):
        if entries := dataset.find(run, protocol):
            planned[run] = with_replicates(map(planned_entry, entries))
        else:
            missing.append(run)
    if missing:
        lines = "\n  ".join(str(run) for run in missing)
        raise PlanError(
            f"The dataset {where} lacks {len(missing)} of the {len(planned) + len(missing)} runs "
            f"that the configuration asks for:\n  {lines}\n"
            "Remove these shapes or implementations from the configuration, or measure them."
        )
    return planned


def planned_entry(entry: Entry) -> PlannedRun:
    """A record of a dataset as one that is planned."""
    return PlannedRun(entry.run, entry.path, entry.sha256, process=entry.process)


UNWANTED = ("no", False)
"""The values of `counters` that read none; YAML takes a bare ``no`` for false."""


@dataclass(frozen=True)
class Counting:
    """The counters to read on this machine: a planned record for each run, and the protocol.

    `kept` is the document with the version of Nsight Compute, by which the counters that were read
    are known where it is gone.
    """

    planned: Mapping[Run, PlannedRun] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)


def counting_of(source: Source, experiments: Sequence[PlannedExperiment]) -> Counting:
    """The counters to read here, or those that a recorded dataset has of the experiments' runs.

    Raises:
        PlanError: counters were asked for where they cannot be read.
    """
    benchmark, (_, device) = source.benchmark, source.kind
    if source.recorded:
        asked = (run for experiment in experiments for run in experiment.runs(*source.kind))
        read = {run: source.recorded.find_counters(run) for run in dict.fromkeys(asked)}
        return Counting({run: planned_entry(entry) for run, entry in read.items() if entry})
    if not benchmark.counters_on(device) or source.config["counters"] in UNWANTED:
        return Counting()
    runs = [
        run
        for experiment in experiments
        if experiment.sweep
        for run in experiment.counted_runs(source.config["counted"], *source.kind)
    ]

    def planned_by(protocol: Mapping[str, Any]) -> dict[Run, PlannedRun]:
        return plan_local(
            benchmark,
            runs,
            protocol,
            source.implementations,
            source.home / "records",
            device_name=source.device_name,
        )

    timeout_s = source.config["measure"]["timeout_s"]
    if device != "cuda":
        protocol = operators_protocol(timeout_s)
        return Counting(planned_by(protocol), protocol)
    file = source.home / "plan" / "counters.json"
    version = _counters_version(source.config, file)
    if version is None:
        return Counting()
    protocol = counters_protocol(benchmark, version, timeout_s)
    planned = planned_by(protocol)
    if nsight.version() is None:  # those that were read before ncu was gone
        planned = {run: entry for run, entry in planned.items() if entry.path.exists()}
    return Counting(planned, protocol, {file.as_posix(): {"version": version}})


def _counters_version(config: Mapping[str, Any], kept: Path) -> str | None:
    """The version of Nsight Compute on PATH, else that which has read counters here; else None.

    Raises:
        PlanError: counters were asked for where they cannot be read.
    """
    version = nsight.version()
    if version is None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            version = read_json(kept)["version"]
    if version is None and config["counters"] != "auto":
        raise PlanError(
            "config: counters: yes needs Nsight Compute on a GPU, but ncu is not on PATH; "
            "install it, or give counters: auto"
        )
    return version


def counters_protocol(benchmark: Benchmark, version: str, timeout_s: float) -> dict[str, Any]:
    """The protocol by which this version of Nsight Compute reads a benchmark's counters."""
    counted = {metric.quantity.name for metric in benchmark.all_counters("cuda")}
    metrics = sorted(nsight.metrics_for(counted).values())
    return {"name": COUNTERS, "ncu": version, "metrics": metrics, "timeout_s": timeout_s}


def operators_protocol(timeout_s: float) -> dict[str, Any]:
    """The protocol by which the operators of runs on a CPU are counted."""
    return {"name": COUNTERS, "profiler": "torch.profiler", "timeout_s": timeout_s}


def with_counters(
    planned: Mapping[Run, PlannedRun], counters: Mapping[Run, PlannedRun]
) -> dict[Run, PlannedRun]:
    """The planned runs, each with its planned counters if it has any."""
    return {run: replace(entry, counters=counters.get(run)) for run, entry in planned.items()}


def check_recorded(planned: Iterable[PlannedRun], where: str) -> None:
    """PlanError listing the records in a dataset's manifest whose files are missing."""
    missing = [path.as_posix() for path in record_files(planned) if not path.is_file()]
    if missing:
        lines = "\n  ".join(missing)
        raise PlanError(
            f"The dataset {where} lacks {len(missing)} of its records:\n  {lines}\n"
            "Restore them (git checkout, or a copy): recorded datasets are not measured again."
        )


def record_files(planned: Iterable[PlannedRun]) -> list[Path]:
    """The files of these runs' records and counters."""
    parts = [part for entry in planned for part in (*entry.processes, entry.counters)]
    return [part.path for part in parts if part is not None]


def measuring_order(
    benchmark: Benchmark,
    planned: PlannedRun,
    protocol: Mapping[str, Any],
    device_name: str | None = None,
) -> dict[str, Any]:
    """The order for a record, from which ``measure`` makes it, on a device of this name."""
    return {
        "device_name": device_name,
        "benchmark": benchmark.name,
        "run": planned.run.to_json(),
        "protocol": dict(protocol),
        "process": planned.process,
    }
