"""The configuration: filled with its defaults and checked before any job starts.

The JSON Schema holds each key's type, bounds and default; what relates keys to one another (an
emb_dim that num_heads does not divide, a name used twice) is checked here. Every problem is
reported at once, each with the file, the key and what would be right.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from flashlab.implementations import available

SCHEMA = Path(__file__).parents[1] / "schemas" / "config.schema.json"
SIZES = ("batch_size", "seq_len", "num_heads", "emb_dim")
RESERVED_EXPERIMENT_NAMES = ("summary",)

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


class _DuplicateKey(Exception):
    pass


class _StrictLoader(yaml.SafeLoader):
    """YAML as the safe loader reads it, except that a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                break  # the safe loader says what is wrong with it
            if key in seen:
                line = key_node.start_mark.line + 1
                raise _DuplicateKey(f"line {line}: the key {key} is given twice; keep one of them")
            seen.add(key)
        return super().construct_mapping(node, deep)


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
            try:
                text = file.read_text(encoding="utf-8")
                # The loader is a SafeLoader that refuses duplicate keys.
                document = yaml.load(text, Loader=_StrictLoader)
            except _DuplicateKey as error:
                raise ConfigError(f"{file}: {error}") from error
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                raise ConfigError(f"{file}: {error}") from error
            self.documents.append((file, document))

    def of(self, path: Sequence[str | int]) -> str:
        """The last place that holds the longest part of `path`."""
        for length in range(len(path), 0, -1):
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


def _said(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML has dates, sets and bytes, which JSON has not
        return str(value)


def _nearest(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _in_words(error: jsonschema.ValidationError) -> Iterator[tuple[KeyPath, str]]:
    """A schema error as (key path, what is wrong and what would be right)."""
    path: KeyPath = tuple(error.absolute_path)
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "additionalProperties" if isinstance(error.schema, dict):
            known = list(error.schema.get("properties", {}))
            for key in value:
                if key not in known:
                    yield (
                        (*path, key),
                        f"unknown key{_nearest(str(key), known)}; known: {', '.join(known)}",
                    )
        case "required":
            for key in rule:
                if key not in value:
                    yield (*path, key), "is missing"
        case "type":
            wanted = [rule] if isinstance(rule, str) else rule
            words = " or ".join(_TYPES[name] for name in wanted)
            yield path, f"must be {words}, found {_said(value)}"
        case "enum":
            allowed = ", ".join(map(str, rule))
            yield path, f"must be one of {allowed}; found {value}{_nearest(str(value), rule)}"
        case "minItems":
            yield path, "is empty: give at least one value"
        case "uniqueItems":
            # Items that the schema calls equal need not be so for Python, such as [] and b"".
            twice = next((item for item in value if value.count(item) > 1), "an item")
            yield path, f"holds {twice} twice; keep one of them"
        case "maximum":
            yield path, f"must be at most {rule}, found {value}"
        case "minimum":
            yield path, f"must be at least {rule}, found {value}"
        case "exclusiveMinimum":
            yield path, f"must be greater than {rule}, found {value}"
        case "pattern":
            yield path, f"must be letters, digits, - and _ only, found {value!r}"
        case "anyOf":
            yield path, f"must be time, memory, rate, or {{metric: …}}; found {value}"
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
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    _fill_defaults(schema, resolved)
    validator = _Validator(schema)
    problems = [found for error in validator.iter_errors(resolved) for found in _in_words(error)]
    if not problems:
        problems = list(_check_relations(resolved, implementations))
    if problems:
        lines = sorted({f"{origins.of(path)}: {_key(path)}: {said}" for path, said in problems})
        raise ConfigError("The configuration is not usable:\n  " + "\n  ".join(lines))
    return resolved
