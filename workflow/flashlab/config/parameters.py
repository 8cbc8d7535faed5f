"""The parameters in the configuration's blocks, and how they depend on one another.

They come from the benchmark's declaration: its parameters, and its products, of which a
block gives any two. Of a configuration, ``ladder=`` keeps some problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS

DEVICES = ("cuda", "cpu")

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
    stood_for = [p.name for p in benchmark.given] if benchmark.stand_in else []
    return name in stood_for or any(name in product.names for product in benchmark.products)


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _given_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of which parameters a block gives."""
    for product in benchmark.products:
        names, given = ", ".join(product.names), [name for name in product.names if name in block]
        if len(given) < 2:
            count = f"only {given[0]}" if given else "none of them"
            yield (), f"give two of {names} (as {product}); found {count}"
        if len(given) > 2:
            first, whole, second = (block[name] for name in product.names)
            text = f"give two of {names}, as the third follows ({product})"
            if all(isinstance(v, int) for v in (first, whole, second)) and first * second != whole:
                text += f"; {first} × {second} is {first * second}, not {whole}"
            yield (), f"{text}; remove one of them"
    if stand_in := benchmark.stand_in:
        name, others = stand_in.name, [p.name for p in benchmark.given]
        beside = [other for other in others if (other in block) == (name in block)]
        if name not in block and beside:
            yield (), f"give {', '.join(beside)}, or {name} in place of {', '.join(others)}"
        elif beside:
            yield (name,), f"stands for {', '.join(others)}; remove {', '.join(beside)}, or {name}"
        for value in _many(block.get(name, [])):
            if not (stand_in.stands_for and stand_in.stands_for(value)):
                yield (name,), f"there is no {name} {value}"


def _sweep_problems(
    benchmark: Benchmark, sweep: str, block: Mapping[str, Any]
) -> Iterator[Problem]:
    """Problems of the swept parameter's own values, and of the lists beside it."""
    values = block.get(sweep)
    if values is None:
        product = next((p for p in benchmark.products if sweep in p.names), None)
        follows, remedy = "", "give its values as a list"
        if benchmark.stand_in and sweep != benchmark.stand_in.name:
            follows = f", which follows here from {benchmark.stand_in.name}"
        elif product:
            beside = " and ".join(name for name in product.names if name in block)
            follows = f", which follows here from {beside}"
            remedy += ", in place of one of these"
        yield (), f"sweep is {sweep}{follows}; {remedy}"
    elif not isinstance(values, list):
        yield (sweep,), f"sweep is {sweep}, so this must be a list of values, found {values}"
    else:
        for value in dict.fromkeys(v for v in values if values.count(v) > 1):
            yield (sweep,), f"holds {value} twice; keep one of them"
        text = f"a list beside the sweep must have as many values as {sweep} ({len(values)})"
        for each in benchmark.parameters:
            column = block.get(each.name)
            if isinstance(column, list) and len(column) != len(values) and not each.is_variant:
                yield (each.name,), f"{text}, found {len(column)}"


def _divisor_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of sizes that do not divide those that they must divide."""
    for product in benchmark.products:
        if product.whole in block:
            (divisor,) = set(product.factors) & block.keys()
            pairs = ((each[product.whole], each[divisor]) for each in benchmark.combinations(block))
            for whole, size in sorted({(whole, size) for whole, size in pairs if whole % size})[:1]:
                nearest = max(1, round(whole / size)) * size
                text = f"{divisor} {size} does not divide {whole}; use a multiple of {size}, such "
                yield (product.whole,), f"{text}as {nearest}"
                return
    for parameter in benchmark.parameters:
        if (multiple := parameter.divides) and parameter.name in block:
            runs = map(benchmark.complete, benchmark.combinations(block))
            sizes = {(int(run[parameter.name]), int(run[multiple])) for run in runs}
            for value, whole in sorted(size for size in sizes if size[1] % size[0]):
                text = f"{value} does not divide {multiple} {whole}; use 1, or another divisor"
                yield (parameter.name,), text


def block_problems(
    benchmark: Benchmark, block: Mapping[str, Any], sweep: str | None = None
) -> list[Problem]:
    """Problems between the parameters of a block, with one value of each or with a sweep of one."""
    return (
        [*_given_problems(benchmark, block)]
        or (sweep and [*_sweep_problems(benchmark, sweep, block)])
        or [*_divisor_problems(benchmark, block)]
    )


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
    chosen, numbers = config[benchmark.name], dict[int, None]()
    for named in chosen.split(",") if isinstance(chosen, str) else _many(chosen):
        digits = str(named).strip().removeprefix(parameter.symbol)  # t28, 28 or "28"
        known = digits.isdecimal() and parameter.stands_for and parameter.stands_for(int(digits))
        if not known:
            raise ValueError(f"there is no {parameter.labels['en']} {named}")
        numbers[int(digits)] = None
    experiment = next((e for e in config["experiments"] if e["sweep"] == parameter.name), None)
    if experiment is None:
        raise ValueError(f"no experiment sweeps {parameter.name}, so nothing can be chosen")
    swept = {device: {parameter.name: [*numbers]} for device in DEVICES}
    headline = {device: {parameter.name: next(iter(numbers))} for device in DEVICES}
    summary, experiments = {**config["summary"], **headline}, [{**experiment, **swept}]
    return {**kept, "summary": summary, "experiments": experiments}
