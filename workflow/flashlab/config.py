"""The configuration: filled with its defaults and checked before any job starts.

The JSON Schema holds each key's type, bounds and default; what relates keys to one another (an
emb_dim that num_heads does not divide, a name used twice) is checked here. Every problem is
reported at once, each with the file, the key and what would be right.
"""

from __future__ import annotations

import copy
import difflib
import json
import math
import reprlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema

from flashlab.implementations import available
from flashlab.strict_yaml import StrictYamlError, parse_yaml, read_yaml

SCHEMA = Path(__file__).parents[1] / "schemas" / "config.schema.json"
SIZES = ("batch_size", "seq_len", "num_heads", "emb_dim")
RESERVED_EXPERIMENT_NAMES = ("summary",)
MOST_SHOWN = 80
"""Characters of a value that an error message shows."""

SYNONYMS = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "single": "float32",
    "english": "en",
    "zh": "zh_TW",
    "chinese": "zh_TW",
    "speed": "rate",
    "b": "batch_size",
    "n": "seq_len",
    "h": "num_heads",
    "e": "emb_dim",
}
"""What people call a value by another name."""

KeyPath = tuple[str | int, ...]

_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping of keys",
}


# YAML has numbers that JSON has not: sizes such as 16.0, and infinities.
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


class ConfigError(Exception):
    """Everything that is wrong with a configuration, in one message."""


def read_config(file: Path) -> dict[str, Any]:
    """The keys of one configuration file, as they stand there.

    Raises:
        ConfigError: there is no such file, or it is not a mapping in YAML; with line and column.
    """
    try:
        document = read_yaml(file)
    except StrictYamlError as error:
        raise ConfigError(f"{file}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    if not isinstance(document, dict):
        found = "nothing" if document is None else _shown(document)
        raise ConfigError(f"{file}: must hold keys with values, such as device: cpu; found {found}")
    return document


def _is_text(part: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    return "enum" in part or part.get("type") == "string"


def parse_override(argument: str) -> dict[str, Any]:
    """One ``KEY=VALUE`` of ``--config``, with the value that a file's YAML would give the key.

    Snakemake hands over the leaves of nested values as text. Here the value of a key that takes
    text is that text as it stands, whatever YAML would make of it, and any other value is YAML.

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
        raise ConfigError(f"--config: {key}: {value}: {error}{_example(part)}") from error


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on it: mappings merge key by key, anything else replaces."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merged(below, value)
        result[key] = value
    return result


def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return schema


def _example(part: Mapping[str, Any]) -> str:
    """How a key is written, where the schema shows it."""
    return f"; for example {_shown(part['examples'][0])}" if "examples" in part else ""


def _key(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".") or "the top level"


def _contains(document: Any, path: Sequence[str | int]) -> bool:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


class _Origins:
    """Which file, or the command line, a key of the merged configuration came from."""

    def __init__(self, files: Sequence[Path], overrides: Mapping[str, Any]) -> None:
        self.overrides = overrides
        self.documents: list[tuple[Path, Any]] = []
        for file in files:
            self.documents.append((file, read_config(file)))

    def of(self, path: Sequence[str | int]) -> str:
        """The last place that holds the longest part of `path`, or the list that it leads into."""
        # A list replaces the one below it, so that what lies in it is all from one place.
        first_item = next((i for i, part in enumerate(path) if isinstance(part, int)), len(path))
        for length in range(first_item, 0, -1):
            if _contains(self.overrides, path[:length]):
                return "--config"
            for file, document in reversed(self.documents):
                if _contains(document, path[:length]):
                    return str(file)
        return str(self.documents[-1][0]) if self.documents else "--config"


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


def _shown(value: Any) -> str:
    """A value on one short line, whatever it is."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML has dates, sets and bytes, which JSON has not
        shown = reprlib.repr(value)
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"


def _nearest(word: str, known: Collection[str]) -> str:
    """The known name that a word stands for, if one does: by meaning, else by spelling."""
    meant = SYNONYMS.get(word.casefold())
    if meant not in known:
        folded = {name.casefold(): name for name in known}
        close = difflib.get_close_matches(word.casefold(), folded, n=1)
        meant = folded[close[0]] if close else None
    return f" (did you mean {meant}?)" if meant else ""


def _remedy(value: Any, wanted: Collection[str]) -> str:
    """What would make a value of the wanted type, where that is easily stated."""
    if "string" in wanted and isinstance(value, (int, float, date)):
        return "; put text in quotes"
    if isinstance(value, str) and not set(wanted).isdisjoint(("integer", "number")):
        try:
            number = float(value)  # YAML takes 1e-3 for text
        except ValueError:
            return ""
        if math.isfinite(number):
            return f"; write {number:.12f}".rstrip("0").rstrip(".") + " without quotes"
    elif isinstance(value, str) and "boolean" in wanted:
        return "; write true or false without quotes"
    elif isinstance(value, str) and "array" in wanted:
        return f"; write [{value}]"
    elif isinstance(value, dict) and "array" in wanted:
        return "; begin each item of the list with a hyphen"
    return ""


def _in_words(error: jsonschema.ValidationError) -> Iterator[tuple[KeyPath, str]]:
    """A schema error as (key path, what is wrong and what would be right)."""
    path: KeyPath = tuple(error.absolute_path)
    value: Any = error.instance
    rule: Any = error.validator_value
    schema: Mapping[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    match error.validator:
        case "additionalProperties":
            known = list(schema.get("properties", {}))
            for key in value:
                if key in known:
                    continue
                before, colon, _ = str(key).partition(":")
                if colon and before in known:
                    yield (*path, key), f"put a space after the colon of {before}"
                else:
                    listed = "" if value[key] is not None else " (a list is written in [ ])"
                    text = f"unknown key{_nearest(str(key), known) or listed}; known: "
                    text += ", ".join(known)
                    yield (*path, key), text
        case "required":
            for key in rule:
                if key not in value:
                    yield (*path, key), "is missing; add it"
        case "type":
            wanted = [rule] if isinstance(rule, str) else rule
            words = " or ".join(_TYPES[name] for name in wanted)
            remedy = _example(schema) or _remedy(value, wanted)
            if value is None:
                yield path, f"has no value; give it {words}, or remove the key{remedy}"
            else:
                yield path, f"must be {words}, found {_shown(value)}{remedy}"
        case "enum":
            allowed = ", ".join(map(str, rule))
            found = value if isinstance(value, str) and value else _shown(value)
            nearest = _nearest(value, rule) if isinstance(value, str) else ""
            yield path, f"must be one of {allowed}; found {found}{nearest}"
        case "minItems" | "minLength" | "minProperties":
            yield path, "is empty: give at least one value"
        case "uniqueItems":
            # Items that the schema calls equal need not be so for Python, such as [] and b"".
            twice = next((item for item in value if value.count(item) > 1), "an item")
            shown = twice if isinstance(twice, str) else _shown(twice)
            yield path, f"holds {shown} twice; keep one of them"
        case "maximum":
            yield path, f"must be at most {rule}, found {_shown(value)}"
        case "minimum":
            yield path, f"must be at least {rule}, found {_shown(value)}"
        case "exclusiveMinimum":
            yield path, f"must be greater than {rule}, found {_shown(value)}"
        case "pattern":
            text = "must be letters, digits, - and _, the first a letter or a digit"
            yield path, f"{text}; found {_shown(value)}"
        case "anyOf" if isinstance(value, dict):
            for inner in error.context or ():
                if inner.validator != "enum" or inner.path:  # of the form that is a mapping
                    yield from _in_words(inner)
        case "anyOf":
            names = rule[0]["enum"]
            nearest = _nearest(value, names) if isinstance(value, str) else ""
            text = f"must be {', '.join(names)}, or {{metric: …}}; found {_shown(value)}"
            yield path, text + nearest
        case _:
            yield path, error.message


def _check_divisible(path: KeyPath, emb_dim: int, num_heads: int) -> Iterator[tuple[KeyPath, str]]:
    if emb_dim % num_heads:
        nearest = max(1, round(emb_dim / num_heads)) * num_heads
        yield (
            (*path, "emb_dim"),
            f"num_heads {num_heads} does not divide {emb_dim}; "
            f"use a multiple of {num_heads}, such as {nearest}",
        )


def _check_sweep(
    path: KeyPath, sweep: str, block: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, str]]:
    values = block[sweep]
    if not isinstance(values, list):
        yield (*path, sweep), f"sweep is {sweep}, so this must be a list of values, found {values}"
        return
    for value, count in Counter(values).items():
        if count > 1:
            yield (*path, sweep), f"holds {value} twice; keep one of them"
    columns = {}
    for size in SIZES:
        column = block[size] if isinstance(block[size], list) else [block[size]] * len(values)
        if len(column) != len(values):
            yield (
                (*path, size),
                f"a list beside the sweep must have as many values as {sweep} "
                f"({len(values)}), found {len(column)}",
            )
            return
        columns[size] = column
    for emb_dim, num_heads in sorted(
        set(zip(columns["emb_dim"], columns["num_heads"], strict=True))
    ):
        yield from _check_divisible(path, emb_dim, num_heads)


def _check_relations(
    config: Mapping[str, Any], known: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Problems that lie between keys, in a configuration that the schema accepts."""

    def unknown(path: KeyPath, name: str) -> Iterator[tuple[KeyPath, str]]:
        if name not in known:
            yield (
                path,
                f"unknown implementation {name}{_nearest(name, known)}; {available(known)}",
            )

    yield from unknown(("baseline",), config["baseline"])
    for i, name in enumerate(config["summary"]["implementations"]):
        yield from unknown(("summary", "implementations", i), name)
    for device in ("cuda", "cpu"):
        shape = config["summary"][device]
        yield from _check_divisible(("summary", device), shape["emb_dim"], shape["num_heads"])
    names: set[str] = set()
    for i, experiment in enumerate(config["experiments"]):
        path: KeyPath = ("experiments", i)
        if experiment["name"] in names:
            yield (*path, "name"), f"{experiment['name']} names two experiments; rename one"
        if experiment["name"] in RESERVED_EXPERIMENT_NAMES:
            yield (*path, "name"), f"{experiment['name']} is the headline table's name; rename it"
        names.add(experiment["name"])
        for device in ("cuda", "cpu"):
            yield from _check_sweep((*path, device), experiment["sweep"], experiment[device])
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


def _refuse(origins: _Origins, problems: Sequence[tuple[KeyPath, str]]) -> None:
    if problems:
        lines = sorted({f"{origins.of(path)}: {_key(path)}: {text}" for path, text in problems})
        raise ConfigError("The configuration is not usable:\n  " + "\n  ".join(lines))


def resolve_config(
    config: Mapping[str, Any],
    implementations: Collection[str],
    files: Sequence[Path] = (),
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The configuration with every default filled in, checked as a whole.

    Args:
        config: the merged configuration, as Snakemake hands it over.
        implementations: the names that ``kernels/`` has.
        files: the configuration files it was merged from, in order; named in errors.
        overrides: what ``--config`` gave; named in errors.

    Raises:
        ConfigError: one message with a line for each problem (file, key, what would be right).
    """
    origins = _Origins(files, overrides or {})
    resolved: dict[str, Any] = copy.deepcopy(dict(config))
    schema = _schema()
    _fill_defaults(schema, resolved)
    validator = _Validator(schema)
    problems = [found for error in validator.iter_errors(resolved) for found in _in_words(error)]
    if not problems:
        problems = list(_check_relations(resolved, implementations))
    _refuse(origins, problems)
    return resolved


def reported_config(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a report depends on: all but those that the schema marks as not reported."""
    properties = _schema()["properties"]
    return {key: value for key, value in resolved.items() if properties[key].get("reported", True)}


def check_baseline(
    resolved: Mapping[str, Any],
    files: Sequence[Path] = (),
    overrides: Mapping[str, Any] | None = None,
) -> None:
    """ConfigError where nothing that a resolved configuration measures is the baseline.

    Not part of `resolve_config`: which experiments there are is known only once a recorded
    dataset has brought its own.
    """
    measured = dict.fromkeys(
        name
        for block in (resolved["summary"], *resolved["experiments"])
        for name in block["implementations"]
    )
    baseline = resolved["baseline"]
    if baseline not in measured:
        text = (
            f"no experiment measures {baseline}, nor does the summary; take one of "
            f"{', '.join(measured)}{_nearest(baseline, measured)}, or add {baseline} to their "
            "implementations"
        )
        _refuse(_Origins(files, overrides or {}), [(("baseline",), text)])
