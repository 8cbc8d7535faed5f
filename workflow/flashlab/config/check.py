"""The configuration: filled with its defaults and checked before any job starts.

`flashlab.config.model` holds each key's type, bounds and default; relations between keys (a name
used twice, a baseline that nothing measures) are checked here. All problems are reported at once,
each with the file, the key and the remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_origin

from pydantic import ValidationError

from flashlab.benchmarks.implementations import describe_unknown
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import DEFAULT, find_benchmark
from flashlab.config.layers import (
    SHARED,
    ConfigError,
    Layer,
    merged,
    named_benchmark,
    parse_yaml,
    place_of,
    unusable,
)
from flashlab.config.messages import KeyPath, example_text, nearest, problem_of
from flashlab.config.model import CONFIGURATION, UNREPORTED, configuration_of
from flashlab.config.parameters import DEVICES, block_problems, choose_problems

HEADLINE = "summary"
"""The name of the headline table, which no experiment can have."""


def parse_override(argument: str) -> dict[str, Any]:
    """One ``KEY=VALUE`` of ``--config``, with the value that a file's YAML would give the key.

    Snakemake hands over the leaves of nested values as text. Here the value of a key that takes
    text, or one of a few words, is that text unchanged, and any other value is YAML.

    Raises:
        ConfigError: no ``=``, or a value that is not YAML.
    """
    key, equals, value = argument.partition("=")
    if not equals:
        raise ConfigError(f"--config: {argument}: write KEY=VALUE, such as device=cpu")
    if "." in key:
        key, *within = key.split(".")
        for inner in reversed(within):
            value = f"{{{inner}: {value}}}"
        raise ConfigError(f"--config: {argument}: write '{key}={value}'")
    value = value.strip("'\"")  # as Snakemake does
    field = CONFIGURATION.model_fields.get(key)
    kind: Any = field.annotation if field else str
    if kind is str or get_origin(kind) is Literal:
        return {key: value}
    try:
        return {key: parse_yaml(value, f"--config: {key}: {value}")[0]}
    except ConfigError as error:
        raise ConfigError(f"{error}{example_text(key)}") from error


def override_layer(arguments: Iterable[str]) -> Layer:
    """The layer that the words of ``--config`` make; ConfigError as of `parse_override`."""
    given = [Layer("--config", parse_override(argument)) for argument in arguments]
    return Layer("--config", merged(given).plain if given else {})


def _unknown_names(
    config: Mapping[str, Any], known: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """The implementations that there are not, and a baseline that nothing measures."""
    blocks: dict[KeyPath, Any] = {(HEADLINE,): config[HEADLINE]}
    blocks |= {("experiments", i): block for i, block in enumerate(config["experiments"])}
    lists = {(*path, SHARED): block[SHARED] for path, block in blocks.items()}
    measured = [name for names in lists.values() for name in names]
    # The kernels that are counted by default a project may have removed.
    usual = CONFIGURATION.model_fields["counted"].default
    lists["counted",] = [None if name in usual else name for name in config["counted"]]
    used: dict[KeyPath, str | None] = {("baseline",): (baseline := config["baseline"])}
    used |= {(*path, i): name for path, names in lists.items() for i, name in enumerate(names)}
    for path, name in used.items():
        if name and name not in known:
            yield path, describe_unknown(name, nearest(name, known), known)
    if baseline in known and baseline not in measured:
        yield (
            ("baseline",),
            f"no experiment measures {baseline}, nor does the summary; take one of "
            f"{', '.join(dict.fromkeys(measured))}{nearest(baseline, measured)}, or add {baseline} "
            "to their implementations",
        )


def _experiment_problems(
    experiment: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Problems of an experiment's keys beside one another, and of its name beside others'."""
    if (name := experiment["name"]) in names:
        yield ("name",), f"{name} names two experiments; rename or remove one"
    if name == HEADLINE:
        yield ("name",), f"{name} is the headline table's name; rename it"
    drawn, named = set[tuple[Any, ...]](), list[tuple[KeyPath, str]]()
    named += [(("replicates", name), name) for name in experiment.get("replicates", {})]
    for group in ("figures", "supplement"):
        for i, figure in enumerate(experiment[group]):
            given = {"metric": figure} if isinstance(figure, str) else figure
            if (what := (given["metric"], *given.get(SHARED, []))) in drawn:
                yield (group, i), f"the {what[0]} figure is asked for twice; keep one"
            drawn.add(what)
            named += [((group, i, SHARED), name) for name in what[1:]]
    for path, name in named:
        if name not in experiment[SHARED]:
            text = f"{name} is not measured in this experiment; add it to its implementations"
            yield path, f"{text}, or remove it here"


def _relations(
    config: Mapping[str, Any], benchmark: Benchmark, known: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Problems in the relations between keys, in a configuration that the schema accepts."""
    yield from _unknown_names(config, known)
    names, blocks = list[str](), list[tuple[KeyPath, Any]]([((HEADLINE,), config[HEADLINE])])
    for i, experiment in enumerate(config["experiments"]):
        blocks.append((("experiments", i), experiment))
        for at, text in _experiment_problems(experiment, names):
            yield ("experiments", i, *at), text
        names.append(experiment["name"])
    for path, block in blocks:
        for device in DEVICES:
            for key, text in block_problems(benchmark, block[device], block.get("sweep")):
                yield (*path, device, *key), text
    for name in config["remarks"].keys() - names:
        text = f"no experiment has this name; known: {', '.join(sorted({*names}))}"
        yield ("remarks", name), text


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
        keys = model.model_validate(given.plain).model_dump(exclude_none=True)
        problems = [*_relations(keys, benchmark, implementations)]
    except ValidationError as error:
        problems = [problem_of(mistake, model) for mistake in error.errors()]
    if problems:
        raise unusable(*(f"{place_of(given, at)}: {text}" for at, text in problems))
    keys.pop(SHARED, None)
    try:
        return choose_problems(benchmark, keys)
    except ValueError as error:
        raise ConfigError(f"{place_of(given, (benchmark.name,))}: {error}") from None


def reported_config(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a report depends on: all but those that the model marks as not reported.

    Of the protocols, only the chosen one has its settings: no other one measured anything.
    """
    measure = resolved["measure"]
    chosen = {
        key: measure[key]
        for key in measure
        if key in ("protocol", measure["protocol"], "timeout_s")
    }
    return {key: value for key, value in resolved.items() if key not in UNREPORTED} | {
        "measure": chosen
    }
