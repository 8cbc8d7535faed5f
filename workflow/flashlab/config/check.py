"""The configuration: filled with its defaults and checked before any job starts.

The JSON Schema holds each key's type, bounds and default; relations between keys (a name used
twice, a baseline that nothing measures) are checked here. All problems are reported at once, each
with the file, the key and the remedy.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT, find_benchmark
from flashlab.config.layers import ConfigError, Layer, MergedConfig, named_benchmark
from flashlab.config.messages import KeyPath, example_text, nearest, schema_problems
from flashlab.config.parameters import block_problems, block_schema, sweep_problems
from flashlab.config.problems import choose_problems, problems_of
from flashlab.config.strict_yaml import StrictYamlError, parse_yaml
from flashlab.plan.implementations import describe_unknown

SCHEMA = Path(__file__).parents[2] / "schemas" / "config.schema.json"
RESERVED_EXPERIMENT_NAMES = ("summary", "claims-lab5", "claims-sampled")

# YAML has numbers that JSON does not have: infinities. And 16.0 is no size.
_Validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda _, value: (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and abs(value) < float("inf")
            ),
        }
    ),
)


def _is_text(part: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    return "enum" in part or part.get("type") == "string"


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
    schema = _schema()
    part = schema["properties"].get(key)
    if part is None or _is_text(part, schema):
        return {key: value}
    try:
        return {key: parse_yaml(value)}
    except StrictYamlError as error:
        raise ConfigError(f"--config: {key}: {value}: {error}{example_text(part)}") from error


def _schema(benchmark: Benchmark = DEFAULT) -> dict[str, Any]:
    """The schema, with the parameters and quantities that a benchmark declares."""
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions = schema["$defs"]
    definitions["block"] = block_schema(benchmark, many=False)
    definitions["sweep"] = block_schema(benchmark, many=True)
    sizes = [p.name for p in benchmark.parameters if not p.is_variant]
    definitions["parameter"] = {"enum": sizes}
    curves = [curve.name for curve in benchmark.curves]
    definitions["quantity"] = {"enum": [*benchmark.quantities, *curves]}
    measure = schema["properties"]["measure"]["properties"]
    if benchmark.protocols:
        measure["protocol"] = {
            "enum": list(benchmark.protocols),
            "default": next(iter(benchmark.protocols)),
        }
    for name, settings in benchmark.protocols.items():
        measure[name] = {
            "type": "object",
            "additionalProperties": False,
            "default": {},
            "properties": dict(settings),
        }
    schema["properties"]["benchmark"]["enum"] = list(BENCHMARKS)
    if problems_of(benchmark):
        one = {"type": ["string", "integer"]}
        chosen = {"type": ["string", "integer", "array"], "items": one, "minItems": 1}
        schema["properties"][benchmark.name] = {**chosen, "examples": [["t28", "t10"]]}
    return schema


def _fill_defaults(schema: Mapping[str, Any], document: Any) -> None:
    if isinstance(document, dict):
        for key, part in schema.get("properties", {}).items():
            if "default" in part:
                document.setdefault(key, copy.deepcopy(part["default"]))
            if key in document:
                _fill_defaults(part, document[key])
    elif isinstance(document, list) and "items" in schema:
        for item in document:
            _fill_defaults(schema["items"], item)


def _check_relations(
    config: Mapping[str, Any], benchmark: Benchmark, known: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Problems in the relations between keys, in a configuration that the schema accepts."""

    def unknown(path: KeyPath, name: str) -> Iterator[tuple[KeyPath, str]]:
        if name not in known:
            yield path, describe_unknown(name, known, nearest(name, known))

    baseline = config["baseline"]
    blocks = (config["summary"], *config["experiments"])
    measured = dict.fromkeys(name for block in blocks for name in block["implementations"])
    yield from unknown(("baseline",), baseline)
    if baseline in known and baseline not in measured:
        yield (
            ("baseline",),
            f"no experiment measures {baseline}, nor does the summary; take one of "
            f"{', '.join(measured)}{nearest(baseline, measured)}, or add {baseline} to their "
            "implementations",
        )
    usually_counted = _schema()["properties"]["counted"]["default"]
    for i, name in enumerate(config["counted"]):
        if name not in usually_counted:  # whose kernels a project may have removed
            yield from unknown(("counted", i), name)
    for i, name in enumerate(config["summary"]["implementations"]):
        yield from unknown(("summary", "implementations", i), name)
    for device in ("cuda", "cpu"):
        shape = config["summary"][device]
        for key, text in block_problems(benchmark, shape):
            yield ("summary", device, *key), text
    names: set[str] = set()
    for i, experiment in enumerate(config["experiments"]):
        path: KeyPath = ("experiments", i)
        if experiment["name"] in names:
            yield (
                (*path, "name"),
                f"{experiment['name']} names two experiments; rename or remove one",
            )
        if experiment["name"] in RESERVED_EXPERIMENT_NAMES:
            yield (*path, "name"), f"{experiment['name']} is the headline table's name; rename it"
        names.add(experiment["name"])
        for device in ("cuda", "cpu"):
            for key, text in sweep_problems(benchmark, experiment["sweep"], experiment[device]):
                yield (*path, device, *key), text
        for j, name in enumerate(experiment["implementations"]):
            yield from unknown((*path, "implementations", j), name)
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
                        yield (
                            (*path, group, j, "implementations"),
                            f"{name} is not measured in this experiment; add it to its "
                            "implementations, or remove it here",
                        )
    for name in config["remarks"]:
        if name not in names:
            yield (
                ("remarks", name),
                f"no experiment has this name; known: {', '.join(sorted(names))}",
            )


def _refuse(problems: Iterable[str]) -> None:
    """ConfigError with a line for each problem, if there is one."""
    if lines := sorted(set(problems)):
        raise ConfigError("The configuration is not usable:\n  " + "\n  ".join(lines))


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
    schema = _schema(benchmark)
    _fill_defaults(schema, config.keys)
    validator = _Validator(schema)
    problems = [
        found for error in validator.iter_errors(config.keys) for found in schema_problems(error)
    ]
    if config.unusable:  # the list of experiments may be empty only because of these
        problems = [(path, text) for path, text in problems if path != ("experiments",)]
    elif not problems:
        problems = list(_check_relations(config.keys, benchmark, implementations))
    _refuse([*config.unusable, *(f"{config.place_of(path)}: {text}" for path, text in problems)])
    config.keys.pop("implementations", None)
    try:
        return choose_problems(benchmark, config.keys)
    except ValueError as error:
        raise ConfigError(f"{config.place_of((benchmark.name,))}: {error}") from None


def reported_config(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a report depends on: all but those that the schema marks as not reported.

    Of the protocols, only the chosen one has its settings: no other one measured anything.
    """
    properties = _schema()["properties"]
    found = {key: value for key, value in resolved.items() if properties[key].get("reported", True)}
    measure = resolved["measure"]
    chosen = ("protocol", measure["protocol"], "timeout_s")
    return {**found, "measure": {key: measure[key] for key in measure if key in chosen}}
