"""Some problems alone: ``ladder=t28`` measures the ladder's steps on that case and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashlab.benchmarks.model import Benchmark, Parameter


def problems_of(benchmark: Benchmark) -> Parameter | None:
    """The parameter whose values name whole problems; None for a benchmark without one."""
    return next((p for p in benchmark.parameters if p.stands_for), None)


def _number(parameter: Parameter, named: str | int) -> int:
    """The value that ``t28``, ``28`` or 28 names; ValueError for one that there is not."""
    digits = str(named).strip().removeprefix(parameter.symbol)
    if not digits.isdecimal() or not (parameter.stands_for and parameter.stands_for(int(digits))):
        raise ValueError(f"there is no {parameter.labels['en']} {named}")
    return int(digits)


def choose_problems(benchmark: Benchmark, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with only the problems that its key of the benchmark's name chooses.

    The first experiment that sweeps problems remains, with those; the headline is the first of
    them. Without that key the configuration is as it is.

    Raises:
        ValueError: there is no such problem, or no experiment sweeps any.
    """
    kept = {key: value for key, value in config.items() if key != benchmark.name}
    parameter = problems_of(benchmark)
    if parameter is None or benchmark.name not in config:
        return kept
    chosen = config[benchmark.name]
    names = chosen.split(",") if isinstance(chosen, str) else chosen
    numbers = [_number(parameter, n) for n in (names if isinstance(names, list) else [names])]
    swept = (e for e in config["experiments"] if e["sweep"] == parameter.name)
    experiment = next(swept, None)
    if experiment is None:
        raise ValueError(f"no experiment sweeps {parameter.name}, so nothing can be chosen")
    blocks = {device: {parameter.name: list(dict.fromkeys(numbers))} for device in ("cuda", "cpu")}
    headline = {device: {parameter.name: numbers[0]} for device in blocks}
    return {
        **kept,
        "summary": {**config["summary"], **headline},
        "experiments": [{**experiment, **blocks}],
    }
