"""The parameters in the configuration's blocks, and how they depend on one another.

What there is comes from the benchmark's declaration: its parameters, and its products, of which a
block gives any two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flashlab.benchmarks.model import Benchmark, Product
from flashlab.benchmarks.registry import BENCHMARKS

Problem = tuple[tuple[str, ...], str]
"""A key of a block (none: the whole block), and what is wrong with it."""


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
    """Whether a parameter may be left out where others are given, of which it follows."""
    stood_for = (p.derived_from for p in benchmark.parameters if p.stands_for)
    return any(name in product.names for product in benchmark.products) or any(
        name in names for names in stood_for
    )


def _stand_in_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a parameter that stands for others: given beside them, or without such a value.

    Where it is not given, all of the others must be.
    """
    for parameter in benchmark.parameters:
        if parameter.stands_for is None:
            continue
        others, name = parameter.derived_from, parameter.name
        if name not in block:
            if missing := [other for other in others if other not in block]:
                yield (), f"give {', '.join(missing)}, or {name} in place of {', '.join(others)}"
            continue
        if beside := [other for other in others if other in block]:
            yield (name,), f"stands for {', '.join(others)}; remove {', '.join(beside)}, or {name}"
        values = block[name] if isinstance(block[name], list) else [block[name]]
        for value in values:
            if parameter.stands_for(value) is None:
                yield (name,), f"there is no {name} {value}"


def _link_problems(product: Product, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of a block that does not give exactly two of the parameters of a product."""
    names = ", ".join(product.names)
    given = [name for name in product.names if name in block]
    if len(given) < 2:
        found = f"only {given[0]}" if given else "none of them"
        yield (), f"give two of {names} (as {product}); found {found}"
    if len(given) > 2:
        first, whole, second = (block[name] for name in product.names)
        text = f"give two of {names}, as the third follows ({product})"
        if all(isinstance(v, int) for v in (first, whole, second)) and first * second != whole:
            text += f"; {first} × {second} is {first * second}, not {whole}"
        yield (), f"{text}; remove one of them"


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


def _all_link_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> list[Problem]:
    linked = [p for product in benchmark.products for p in _link_problems(product, block)]
    return [*linked, *_stand_in_problems(benchmark, block)]


def block_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems between the parameters of a block with one value of each."""
    if problems := _all_link_problems(benchmark, block):
        yield from problems
        return
    columns = {name: [value] for name, value in block.items()}
    for product in benchmark.products:
        yield from _divisor_problems(product, columns)


def _sweep_problems(
    benchmark: Benchmark, sweep: str, block: Mapping[str, Any]
) -> Iterator[Problem]:
    """Problems of the swept parameter's own values."""
    if sweep not in block and benchmark.parameter(sweep).stands_for:
        yield (), f"sweep is {sweep}; give its values as a list"
    elif sweep not in block and benchmark.parameter(sweep).derive is None:
        stand_in = next(p.name for p in benchmark.parameters if p.stands_for)
        yield (), f"sweep is {sweep}, which follows here from {stand_in}; give its values as a list"
    elif sweep not in block:
        (product,) = (product for product in benchmark.products if sweep in product.names)
        beside = " and ".join(name for name in product.names if name in block)
        yield (
            (),
            f"sweep is {sweep}, which follows here from {beside}; give its values as a list, in "
            "place of one of these",
        )
    elif not isinstance(block[sweep], list):
        text = f"sweep is {sweep}, so this must be a list of values, found {block[sweep]}"
        yield (sweep,), text


def sweep_problems(benchmark: Benchmark, sweep: str, block: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems between the parameters of an experiment's block."""
    problems = _all_link_problems(benchmark, block) or list(
        _sweep_problems(benchmark, sweep, block)
    )
    if problems:
        yield from problems
        return
    values = block[sweep]
    for value, count in Counter(values).items():
        if count > 1:
            yield (sweep,), f"holds {value} twice; keep one of them"
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
    for product in benchmark.products:
        yield from _divisor_problems(product, columns)
