"""The configuration: its layers merged, its defaults filled in, and all of it checked.

`flashlab.config.model` holds each key's type, bounds and default; relations between keys (a name
used twice, a baseline that nothing measures, sizes that do not divide one another) are checked
here. All problems are reported at once, each with the file, the key and the remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from flashlab.benchmarks.implementations import describe_unknown
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.config.layers import (
    SHARED,
    ConfigError,
    Layer,
    config_file,
    merged,
    named_benchmark,
    override_layer,
    parse_override,
    read_layer,
    unusable,
)
from flashlab.config.model import (
    CONFIGURATION,
    UNREPORTED,
    KeyPath,
    configuration_of,
    nearest,
    problem_of,
)

__all__ = ["ConfigError", "Layer", "config_file", "named_benchmark", "override_layer"]
__all__ += ["parse_override", "read_layer", "reported_config", "resolve_config"]

HEADLINE = "summary"
"""The name of the headline table, which no experiment can have."""

Problems = Iterator[tuple[KeyPath, str]]
"""The key of each problem, below what is checked (none: all of that), and the message about it."""


def _unknown_names(
    config: Mapping[str, Any], blocks: Mapping[KeyPath, Any], known: Collection[str]
) -> Problems:
    """The implementations that there are not, and a baseline that nothing measures."""
    baseline, measured = config["baseline"], [n for block in blocks.values() for n in block[SHARED]]
    # The kernels that are counted by default a project may have removed.
    usual = CONFIGURATION.model_fields["counted"].default
    used: dict[KeyPath, str] = {("baseline",): baseline}
    used |= {("counted", i): n for i, n in enumerate(config["counted"]) if n not in usual}
    for path, block in blocks.items():
        used |= {(*path, SHARED, i): name for i, name in enumerate(block[SHARED])}
    for path, name in used.items():
        if name not in known:
            yield path, describe_unknown(name, nearest(name, known), known)
    if baseline in known and baseline not in measured:
        yield (
            ("baseline",),
            f"no experiment measures {baseline}, nor does the summary; take one of "
            f"{', '.join(dict.fromkeys(measured))}{nearest(baseline, measured)}, or add {baseline} "
            "to their implementations",
        )


def _experiment_problems(experiment: Mapping[str, Any], before: Collection[str]) -> Problems:
    """Problems of an experiment's keys beside one another, and of its name."""
    if (name := experiment["name"]) in before:
        yield ("name",), f"{name} names two experiments; rename or remove one"
    if name == HEADLINE:
        yield ("name",), f"{name} is the headline table's name; rename it"
    named: list[tuple[KeyPath, str]] = [
        (("replicates", each), each) for each in experiment.get("replicates", {})
    ]
    drawn = set[tuple[str, ...]]()
    for group in ("figures", "supplement"):
        for i, figure in enumerate(experiment[group]):
            given = {"metric": figure} if isinstance(figure, str) else figure
            if (what := (given["metric"], *given.get(SHARED, []))) in drawn:
                yield (group, i), f"the {what[0]} figure is asked for twice; keep one"
            drawn.add(what)
            named += [((group, i, SHARED), each) for each in what[1:]]
    for path, each in named:
        if each not in experiment[SHARED]:
            text = f"{each} is not measured in this experiment; add it to its implementations"
            yield path, f"{text}, or remove it here"


# The parameters of a block, as the benchmark declares them


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _given_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Problems:
    """Problems of which parameters a block gives: any two of a product, and no third."""
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


def _sweep_problems(benchmark: Benchmark, sweep: str, block: Mapping[str, Any]) -> Problems:
    """Problems of the swept parameter's own values, and of the lists beside it."""
    values = block.get(sweep)
    if values is None:
        product = next((p.names for p in benchmark.products if sweep in p.names), ())
        beside = " and ".join(name for name in product if name in block)
        follows = f", which follows here from {beside}" if beside else ""
        remedy = ", in place of one of these" if beside else ""
        yield (), f"sweep is {sweep}{follows}; give its values as a list{remedy}"
    elif not isinstance(values, list):
        yield (sweep,), f"sweep is {sweep}, so this must be a list of values, found {values}"
    else:
        for value in (each for each in values if values.count(each) > 1):
            yield (sweep,), f"holds {value} twice; keep one of them"
        text = f"a list beside the sweep must have as many values as {sweep} ({len(values)})"
        for each in benchmark.parameters:
            column = block.get(each.name)
            if isinstance(column, list) and len(column) != len(values) and not each.is_variant:
                yield (each.name,), f"{text}, found {len(column)}"


def _divisor_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Problems:
    """Problems of sizes that do not divide those that they must divide."""
    runs = [*benchmark.combinations(block)]
    for product in benchmark.products:
        if product.whole in block:
            (divisor,) = set(product.factors) & block.keys()
            for whole, size in ((run[product.whole], run[divisor]) for run in runs):
                if whole % size:
                    text = f"{divisor} {size} does not divide {whole}; use a multiple of {size}"
                    yield (product.whole,), f"{text}, such as {max(1, round(whole / size)) * size}"
                    return
    for parameter in benchmark.parameters:
        if (of := parameter.divides) and parameter.name in block:
            for run in map(benchmark.complete, runs):
                value, whole = int(run[parameter.name]), int(run[of])
                if whole % value:
                    text = f"{value} does not divide {of} {whole}; use 1, or another divisor"
                    yield (parameter.name,), text


def _relations(config: Mapping[str, Any], benchmark: Benchmark, known: Collection[str]) -> Problems:
    """Problems in the relations between keys, in a configuration that the schema accepts."""
    blocks: dict[KeyPath, Any] = {(HEADLINE,): config[HEADLINE]}
    blocks |= {("experiments", i): block for i, block in enumerate(config["experiments"])}
    names = [experiment["name"] for experiment in config["experiments"]]
    yield from _unknown_names(config, blocks, known)
    for path, block in blocks.items():
        if path != (HEADLINE,):
            for at, text in _experiment_problems(block, names[: int(path[1])]):
                yield (*path, *at), text
        for device in ("cuda", "cpu"):
            given, sweep = block[device], block.get("sweep")
            problems = (
                [*_given_problems(benchmark, given)]
                or (sweep and [*_sweep_problems(benchmark, sweep, given)])
                or [*_divisor_problems(benchmark, given)]
            )
            for at, text in problems:
                yield (*path, device, *at), text
    for name in config["remarks"].keys() - names:
        text = f"no experiment has this name; known: {', '.join(sorted({*names}))}"
        yield ("remarks", name), text


def _with_chosen(benchmark: Benchmark, config: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The configuration with only the problems that its key of the benchmark's name chooses.

    So ``ladder=t28`` measures the ladder's steps on that case and nothing else: the first
    experiment that sweeps problems remains, with those; the headline is the first of them. Without
    that key the configuration is as it is.
    """
    kept = {key: value for key, value in config.items() if key != benchmark.name}
    parameter = benchmark.stand_in
    if parameter is None or benchmark.name not in config:
        return kept
    chosen, numbers = config[benchmark.name], dict[int, None]()
    for named in chosen.split(",") if isinstance(chosen, str) else _many(chosen):
        digits = str(named).strip().removeprefix(parameter.symbol)  # t28, 28 or "28"
        if not (digits.isdecimal() and parameter.stands_for and parameter.stands_for(int(digits))):
            raise ConfigError(f"{place}: there is no {parameter.labels['en']} {named}")
        numbers[int(digits)] = None
    found = [each for each in config["experiments"] if each["sweep"] == parameter.name]
    if not found:
        raise ConfigError(f"{place}: no experiment sweeps {parameter.name} to choose from")
    for block, value in ((config[HEADLINE], next(iter(numbers))), (found[0], [*numbers])):
        block |= {device: {parameter.name: value} for device in ("cuda", "cpu")}
    return kept | {"experiments": found[:1]}


def resolve_config(layers: Sequence[Layer], implementations: Collection[str]) -> dict[str, Any]:
    """The configuration that the layers make, with every default filled in, checked as a whole.

    Each experiment is given in full, so that no shared `implementations` are left.

    Args:
        layers: at least one; a later layer is merged into those before it.
        implementations: the names that the benchmark's folder of ``kernels/`` has.

    Raises:
        ConfigError: one message with a line for each problem (origin, key, remedy).
    """
    given, benchmark = merged(layers), find_benchmark(named_benchmark(layers))
    model = CONFIGURATION if benchmark is DEFAULT else configuration_of(benchmark)
    try:
        keys = model.model_validate(given.config).model_dump(exclude_none=True)
        problems = [*_relations(keys, benchmark, implementations)]
    except ValidationError as error:
        problems = [problem_of(mistake, model) for mistake in error.errors()]
    if problems:
        raise unusable(*(f"{given.place_of(at)}: {text}" for at, text in problems))
    keys.pop(SHARED, None)
    return _with_chosen(benchmark, keys, given.place_of((benchmark.name,)))


def reported_config(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a report depends on: all but those that the model marks as not reported.

    Of the protocols, only the chosen one has its settings: no other one measured anything.
    """
    kept, measure = {k: v for k, v in resolved.items() if k not in UNREPORTED}, resolved["measure"]
    chosen = ("protocol", measure["protocol"], "timeout_s")
    return kept | {"measure": {key: measure[key] for key in measure if key in chosen}}
