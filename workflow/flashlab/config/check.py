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
from flashlab.benchmarks.registry import find_benchmark
from flashlab.config.layers import (
    ConfigError,
    Layer,
    Located,
    MergedConfig,
    merged,
    named_benchmark,
    parse_yaml,
    unusable,
)
from flashlab.config.messages import KeyPath, example_text, nearest, problem_of
from flashlab.config.model import UNREPORTED, Configuration, configuration_of
from flashlab.config.parameters import block_problems, choose_problems, preview_of

RESERVED_EXPERIMENT_NAMES = ("summary",)


def _takes_text(key: str) -> bool:
    """True if a top-level key's value is text or one of a few words, or the key is unknown."""
    field = Configuration.model_fields.get(key)
    kind: Any = field.annotation if field else str
    return kind is str or get_origin(kind) is Literal


def parse_override(argument: str) -> dict[str, Any]:
    """One ``KEY=VALUE`` of ``--config``, with the value that a file's YAML would give the key.

    Snakemake hands over the leaves of nested values as text. Here the value of a key that takes
    text is that text unchanged, whatever it means in YAML, and any other value is YAML.

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
    if _takes_text(key):
        return {key: value}
    try:
        return {key: parse_yaml(value, f"--config: {key}: {value}")[0]}
    except ConfigError as error:
        raise ConfigError(f"{error}{example_text(Configuration.model_fields[key])}") from error


def override_layer(arguments: Iterable[str]) -> Layer:
    """The layer that the words of ``--config`` make; ConfigError as of `parse_override`."""
    keys = Located({}, Layer("--config", {}))
    for argument in arguments:
        keys = merged(keys, Located(parse_override(argument), Layer("--config", {})))
    return Layer("--config", keys)


def _check_relations(
    config: Mapping[str, Any], benchmark: Benchmark, known: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Problems in the relations between keys, in a configuration that the schema accepts."""
    baseline = config["baseline"]
    blocks: dict[KeyPath, Any] = {("summary",): config["summary"]}
    blocks |= {("experiments", i): block for i, block in enumerate(config["experiments"])}
    used: dict[KeyPath, str] = {
        (*path, "implementations", i): name
        for path, block in blocks.items()
        for i, name in enumerate(block["implementations"])
    }
    measured = dict.fromkeys(used.values())
    usually_counted = Configuration.model_fields["counted"].default
    for i, name in enumerate(config["counted"]):
        if name not in usually_counted:  # whose kernels a project may have removed
            used["counted", i] = name
    for path, name in {("baseline",): baseline, **used}.items():
        if name not in known:
            yield path, describe_unknown(name, nearest(name, known), known)
    for path, block in blocks.items():
        for device in ("cuda", "cpu"):
            for key, text in block_problems(benchmark, block[device], block.get("sweep")):
                yield (*path, device, *key), text
    if baseline in known and baseline not in measured:
        yield (
            ("baseline",),
            f"no experiment measures {baseline}, nor does the summary; take one of "
            f"{', '.join(measured)}{nearest(baseline, measured)}, or add {baseline} to their "
            "implementations",
        )
    names: set[str] = set()
    for i, experiment in enumerate(config["experiments"]):
        path = ("experiments", i)
        if experiment["name"] in names:
            yield (
                (*path, "name"),
                f"{experiment['name']} names two experiments; rename or remove one",
            )
        if experiment["name"] in RESERVED_EXPERIMENT_NAMES:
            yield (*path, "name"), f"{experiment['name']} is the headline table's name; rename it"
        names.add(experiment["name"])
        for name in experiment.get("replicates", {}):
            if name not in experiment["implementations"]:
                yield (*path, "replicates", name), _not_measured(name)
        drawn: set[tuple[str, tuple[str, ...]]] = set()
        for group in ("figures", "supplement"):
            for j, figure in enumerate(experiment[group]):
                metric = figure if isinstance(figure, str) else figure["metric"]
                chosen = [] if isinstance(figure, str) else figure.get("implementations", [])
                if (metric, tuple(chosen)) in drawn:
                    yield (*path, group, j), f"the {metric} figure is asked for twice; keep one"
                drawn.add((metric, tuple(chosen)))
                for name in chosen:
                    if name not in experiment["implementations"]:
                        yield (*path, group, j, "implementations"), _not_measured(name)
    for name in config["remarks"]:
        if name not in names:
            yield (
                ("remarks", name),
                f"no experiment has this name; known: {', '.join(sorted(names))}",
            )


def _not_measured(name: str) -> str:
    return (
        f"{name} is not measured in this experiment; add it to its implementations, or remove it "
        "here"
    )


def resolve_config(layers: Sequence[Layer], implementations: Collection[str]) -> dict[str, Any]:
    """The configuration that the layers make, with every default filled in, checked as a whole.

    Each experiment is given in full, so that no shared `implementations` are left.

    Args:
        layers: at least one; a later layer is merged into those before it.
        implementations: the names that the benchmark's folder of ``kernels/`` has.

    Raises:
        ConfigError: one message with a line for each problem (origin, key, remedy).
    """
    config = MergedConfig(layers)
    benchmark = find_benchmark(named_benchmark(layers))
    model = configuration_of(benchmark)
    problems: list[tuple[KeyPath, str]] = []
    keys: dict[str, Any] = {}
    try:
        checked = model.model_validate(config.keys)
        keys = checked.model_dump(by_alias=True, exclude_none=True)
    except ValidationError as error:
        problems = [problem_of(mistake, model) for mistake in error.errors()]
    problems = problems or list(_check_relations(keys, benchmark, implementations))
    if problems:
        raise unusable(*(f"{config.place_of(at)}: {text}" for at, text in problems))
    keys.pop("implementations", None)
    try:
        return preview_of(choose_problems(benchmark, keys))
    except ValueError as error:
        raise ConfigError(f"{config.place_of((benchmark.name,))}: {error}") from None


def reported_config(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a report depends on: all but those that the model marks as not reported.

    Of the protocols, only the chosen one has its settings: no other one measured anything.
    """
    reported = {
        field.alias or name: resolved[field.alias or name]
        for name, field in Configuration.model_fields.items()
        if field.json_schema_extra != UNREPORTED and (field.alias or name) in resolved
    }
    measure = resolved["measure"]
    chosen = ("protocol", measure["protocol"], "timeout_s")
    return {**reported, "measure": {key: measure[key] for key in measure if key in chosen}}
