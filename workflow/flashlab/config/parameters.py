"""The parameters in the configuration's blocks, and how they depend on one another.

They come from the benchmark's declaration: its parameters, and its products, of which a
block gives any two. Of a configuration, ``ladder=`` keeps some problems and `quick` the ends of
each sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark, Parameter, Product
from flashlab.benchmarks.registry import BENCHMARKS

Problem = tuple[tuple[str, ...], str]
"""A key of a block (none: the whole block), and the message about it."""


def letters_of_parameters() -> dict[str, str]:
    """The parameter that each letter stands for, in lower case: in the first benchmark with it."""
    return {
        parameter.symbol.lower(): parameter.name
        for benchmark in reversed(BENCHMARKS.values())
        for parameter in benchmark.parameters
    }


def superseded_parameters(over: Mapping[str, Any]) -> set[str]:
    """The parameters that a block replaces by giving the other two of a product."""
    products = (product for benchmark in BENCHMARKS.values() for product in benchmark.products)
    others = (set(product.names) - over.keys() for product in products)
    return {name for names in others if len(names) == 1 for name in names}


def is_linked(benchmark: Benchmark, name: str) -> bool:
    """True if a parameter may be left out of a block, as it follows from others."""
    stood_for = benchmark.stand_in.derived_from if benchmark.stand_in else ()
    return name in stood_for or any(name in product.names for product in benchmark.products)


def _stand_in_problems(parameter: Parameter, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a parameter that stands for others: given beside them, or without such a value.

    Where it is not given, all of the others must be.
    """
    others, name = parameter.derived_from, parameter.name
    if name not in block:
        if missing := [other for other in others if other not in block]:
            yield (), f"give {', '.join(missing)}, or {name} in place of {', '.join(others)}"
        return
    if beside := [other for other in others if other in block]:
        yield (name,), f"stands for {', '.join(others)}; remove {', '.join(beside)}, or {name}"
    for value in block[name] if isinstance(block[name], list) else [block[name]]:
        if not (parameter.stands_for and parameter.stands_for(value)):
            yield (name,), f"there is no {name} {value}"


def _link_problems(product: Product, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a block that does not give exactly two of the parameters of a product."""
    names = ", ".join(product.names)
    given = [name for name in product.names if name in block]
    if len(given) < 2:
        count = f"only {given[0]}" if given else "none of them"
        yield (), f"give two of {names} (as {product}); found {count}"
    if len(given) > 2:
        first, whole, second = (block[name] for name in product.names)
        text = f"give two of {names}, as the third follows ({product})"
        if all(isinstance(v, int) for v in (first, whole, second)) and first * second != whole:
            text += f"; {first} × {second} is {first * second}, not {whole}"
        yield (), f"{text}; remove one of them"


def _sweep_problems(
    benchmark: Benchmark, sweep: str, block: Mapping[str, Any]
) -> Iterator[Problem]:
    """Problems of the swept parameter's own values."""
    if sweep in block:
        if not isinstance(block[sweep], list):
            text = f"sweep is {sweep}, so this must be a list of values, found {block[sweep]}"
            yield (sweep,), text
        return
    follows, remedy = "", "give its values as a list"
    if benchmark.stand_in and sweep != benchmark.stand_in.name:
        follows = f", which follows here from {benchmark.stand_in.name}"
    elif product := next((p for p in benchmark.products if sweep in p.names), None):
        beside = " and ".join(name for name in product.names if name in block)
        follows, remedy = (
            f", which follows here from {beside}",
            f"{remedy}, in place of one of these",
        )
    yield (), f"sweep is {sweep}{follows}; {remedy}"


def _divisor_problems(product: Product, columns: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    """Problems of columns whose product is not a multiple of the factor beside it."""
    if product.whole not in columns:
        return
    (divisor,) = set(product.factors) & columns.keys()
    for whole, size in sorted(set(zip(columns[product.whole], columns[divisor], strict=True))):
        if whole % size:
            nearest = max(1, round(whole / size)) * size
            yield (
                (product.whole,),
                f"{divisor} {size} does not divide {whole}; "
                f"use a multiple of {size}, such as {nearest}",
            )


def _sharing_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of values that do not divide those of the parameter that they must divide."""
    for parameter in benchmark.parameters:
        if (multiple := parameter.divides) is None or parameter.name not in block:
            continue
        runs = map(benchmark.complete, benchmark.combinations(block))
        sizes = {(int(run[parameter.name]), int(run[multiple])) for run in runs}
        for value, whole in sorted(sizes):
            if whole % value:
                text = f"{value} does not divide {multiple} {whole}; use 1, or another divisor"
                yield (parameter.name,), text


def block_problems(
    benchmark: Benchmark, block: Mapping[str, Any], sweep: str | None = None
) -> Iterator[Problem]:
    """Problems between the parameters of a block, with one value of each or with a sweep of one."""
    problems = [p for product in benchmark.products for p in _link_problems(product, block)]
    if benchmark.stand_in:
        problems += _stand_in_problems(benchmark.stand_in, block)
    if sweep and not problems:
        problems += _sweep_problems(benchmark, sweep, block)
    if problems:
        yield from problems
        return
    values = block[sweep] if sweep else [None]
    for value, count in Counter(values).items():
        if count > 1:
            yield (str(sweep),), f"holds {value} twice; keep one of them"
    columns = {}
    for parameter in benchmark.parameters:
        if parameter.is_variant or parameter.name not in block:
            continue
        given = block[parameter.name]
        column = given if isinstance(given, list) else [given] * len(values)
        if len(column) != len(values):
            yield (
                (parameter.name,),
                f"a list beside the sweep must have as many values as {sweep} "
                f"({len(values)}), found {len(column)}",
            )
            return
        columns[parameter.name] = column
    undivided = [p for product in benchmark.products for p in _divisor_problems(product, columns)]
    yield from undivided or _sharing_problems(benchmark, block)


def _number(parameter: Parameter, named: str | int) -> int:
    """The value that ``t28``, ``28`` or 28 names; ValueError for one that there is not."""
    digits = str(named).strip().removeprefix(parameter.symbol)
    if not digits.isdecimal() or not (parameter.stands_for and parameter.stands_for(int(digits))):
        raise ValueError(f"there is no {parameter.labels['en']} {named}")
    return int(digits)


def choose_problems(benchmark: Benchmark, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with only the problems that its key of the benchmark's name chooses.

    So ``ladder=t28`` measures the ladder's steps on that case and nothing else: the first
    experiment that sweeps problems remains, with those; the headline is the first of them. Without
    that key the configuration is as it is.

    Raises:
        ValueError: there is no such problem, or no experiment sweeps any.
    """
    kept = {key: value for key, value in config.items() if key != benchmark.name}
    parameter = benchmark.stand_in
    if parameter is None or benchmark.name not in config:
        return kept
    chosen = config[benchmark.name]
    names = chosen.split(",") if isinstance(chosen, str) else chosen
    numbers = [_number(parameter, n) for n in (names if isinstance(names, list) else [names])]
    experiment = next((e for e in config["experiments"] if e["sweep"] == parameter.name), None)
    if experiment is None:
        raise ValueError(f"no experiment sweeps {parameter.name}, so nothing can be chosen")
    blocks = {device: {parameter.name: list(dict.fromkeys(numbers))} for device in ("cuda", "cpu")}
    headline = {device: {parameter.name: numbers[0]} for device in blocks}
    return {
        **kept,
        "summary": {**config["summary"], **headline},
        "experiments": [{**experiment, **blocks}],
    }


DEVICES = ("cuda", "cpu")


def _ends(block: Mapping[str, Any], sweep: str) -> dict[str, Any]:
    """A block with the first and the last value of its sweep, and of parameters swept with it."""
    values = block.get(sweep)
    if not isinstance(values, list) or len(values) < 3:
        return dict(block)
    return {
        name: [value[0], value[-1]]
        if isinstance(value, list) and len(value) == len(values)
        else value
        for name, value in block.items()
    }


def preview_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The ends of each sweep, measured in one process by the same protocol, without counters.

    Its records are records of the whole, so the next call without ``quick`` keeps them. The
    configuration itself where it does not ask for a preview.
    """
    if not config["quick"]:
        return dict(config)
    return {
        **config,
        "counters": "no",
        "replicates": dict.fromkeys(DEVICES, 1),
        "experiments": [
            {
                **{key: value for key, value in experiment.items() if key != "replicates"},
                **{device: _ends(experiment[device], experiment["sweep"]) for device in DEVICES},
            }
            for experiment in config["experiments"]
        ],
    }
