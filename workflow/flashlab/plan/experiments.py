"""The experiments of a resolved configuration, and their runs on one kind of device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.plan.plan_files import SUMMARY
from flashlab.runs import Run


@dataclass(frozen=True)
class Experiment:
    """A sweep of one parameter; without one, the headline, or an imported setting beside sweeps.

    Its `counted` runs are those whose counters are read; `replicates` are the processes of each run
    of an implementation that has more here than elsewhere.
    """

    name: str
    implementations: tuple[str, ...]
    runs: tuple[Run, ...]
    title: Mapping[str, str] = field(default_factory=dict)
    sweep: str = ""
    figures: tuple[Mapping[str, Any], ...] = ()
    counted: tuple[Run, ...] = ()
    replicates: Mapping[str, int] = field(default_factory=dict)


def on_device(value: Any, device: str) -> Any:
    """A key's value on ``cuda`` or ``cpu``, where it is one value for both or a mapping."""
    return value[device] if isinstance(value, Mapping) and device in value else value


def protocol_of(config: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The measuring protocol of a resolved configuration on a kind of device, with its settings."""
    measure = config["measure"]
    settings = {key: on_device(v, device) for key, v in measure[measure["protocol"]].items()}
    return {"name": measure["protocol"], **settings, "timeout_s": measure["timeout_s"]}


def figures_of(experiment: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The figures that a configured experiment asks for, those of the supplement last."""
    groups = [(group, each) for group in ("figures", "supplement") for each in experiment[group]]
    asked = [(of, {"metric": each} if isinstance(each, str) else each) for of, each in groups]
    return tuple(
        {
            "id": "-".join([given["metric"], *map(str.lower, given.get("implementations", []))]),
            "quantity": given["metric"],
            "implementations": [*given.get("implementations", experiment["implementations"])],
            "supplement": group == "supplement",
        }
        for group, given in asked
    )


def _ends(problems: Iterable[dict[str, Any]], benchmark: Benchmark) -> list[dict[str, Any]]:
    """The first and the last problem of each variant."""
    along: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for problem in problems:
        along.setdefault(tuple(problem[v.name] for v in benchmark.variants), []).append(problem)
    return [each[at] for each in along.values() for at in sorted({0, len(each) - 1})]


def experiments_of(
    config: Mapping[str, Any], benchmark: Benchmark, kind: tuple[str, str]
) -> list[Experiment]:
    """The experiments of a dtype and a kind of device, the headline first.

    Those of a preview (`quick`) are the ends of each sweep alone.
    """
    (dtype, device), is_quick = kind, config["quick"]

    def runs(problems: Iterable[Mapping[str, Any]], names: Collection[str]) -> tuple[Run, ...]:
        common = {"dtype": dtype, "device": device}
        return tuple(
            Run.of(benchmark, {"implementation": name, **problem, **common})
            for problem in problems
            for name in names
        )

    headline, names = config["summary"][device], tuple(config["summary"]["implementations"])
    found = [Experiment(SUMMARY, names, runs([benchmark.complete(headline)], names))]
    for each in config["experiments"]:
        problems = [benchmark.complete(p) for p in benchmark.combinations(each[device])]
        ends, names = _ends(problems, benchmark), tuple(each["implementations"])
        counted = [n for n in names if n in config["counted"] and each.get("counted", True)]
        found.append(
            Experiment(
                name=each["name"],
                implementations=names,
                runs=runs(ends if is_quick else problems, names),
                title=each["title"],
                sweep=each["sweep"],
                figures=figures_of(each),
                counted=runs(ends, counted),
                replicates={} if is_quick else each.get("replicates", {}),
            )
        )
    return found


def runs_of(experiments: Iterable[Experiment]) -> Sequence[Run]:
    """The runs of all experiments, each once."""
    return [*dict.fromkeys(run for experiment in experiments for run in experiment.runs)]
