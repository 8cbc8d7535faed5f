"""The layers of a configuration, such as a file or the command line: read, and merged in order.

Mappings merge key by key; any other value, a list too, replaces the one below. Two keys do more:

- An item of `experiments` may be the name of an experiment of a layer below, or a mapping with that
  name as `use` and the keys to change.
- `implementations` applies to every experiment of the same layer that gives none of its own; in a
  layer without a list of experiments, to all experiments below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.benchmarks.settings import EACH
from flashlab.config.messages import KeyPath, key_text, mistyped, nearest, shown
from flashlab.config.parameters import superseded_parameters
from flashlab.untrusted import UnsoundFileError, read_file

BUILT_IN = Path(__file__).parents[3]
"""The folder of the configuration files whose experiments can be used where no layer has any."""

MAX_SIZE = 10**6
"""Most characters, keys and items of a text in YAML, with what its aliases stand for."""

_QUOTE = "put text that holds : # * & ! or quotation marks in quotes, or check the indentation"


class ConfigError(Exception):
    """Everything that is wrong with a configuration, in one message."""


def unusable(*lines: str) -> ConfigError:
    """The error of a configuration with these problems."""
    return ConfigError("\n  ".join(["The configuration is not usable:", *sorted({*lines})]))


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key that is given twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if (name := str(key.value)) in lines:
                message = f"the key {name} is given twice (first on line {lines[name]})"
                raise yaml.MarkedYAMLError(None, None, message, key.start_mark, "keep one of them")
            lines[name] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """The characters, keys and items of a node, those of an alias each time that it stands."""
    if node not in known:
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        pairs = chain.from_iterable(inner) if isinstance(node, yaml.MappingNode) else inner
        known[node] = len(node.value) + sum(_size(each, known) for each in pairs)
    return known[node]


def parse_yaml(content: str | bytes, origin: str) -> tuple[Any, yaml.Node | None]:
    """The value of a YAML text (None for none), and its node.

    Raises:
        ConfigError: the first mistake, with its line and column where it has one, and a remedy.
    """
    try:
        loader = _StrictLoader(content if isinstance(content, str) else content.decode())
        node = loader.get_single_node()
        if node and _size(node, {}) > MAX_SIZE:
            message = f"with its aliases it has more than {MAX_SIZE:,} characters"
            raise yaml.MarkedYAMLError(None, None, message, node.start_mark, "use fewer of them")
        return node and loader.construct_document(node), node
    except yaml.MarkedYAMLError as error:
        at, begun = error.problem_mark or error.context_mark, error.context_mark
        assert at, error
        message = f"{error.problem or error.context}"
        if at.buffer and at.buffer[at.pointer] == "\t":
            message, error.note = "a tab", "replace it with spaces"
        elif error.problem and begun and begun.line != at.line:
            message += f" ({error.context} that begins on line {begun.line + 1})"
        said = f"line {at.line + 1}, column {at.column + 1}: {message}; {error.note or _QUOTE}"
    except UnicodeDecodeError as error:  # a file in Big5, say
        before = error.object[: error.start].decode()
        said = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}: "
        said += "not UTF-8 text; save the file as UTF-8"
    except RecursionError:
        said = "lists or mappings are nested too deeply, or within themselves"
    except Exception as error:  # such as a control character, or the date 2026-02-30
        said = f"{' '.join(str(error).split())}; put text in quotes"
    raise ConfigError(f"{origin}: {said}")


def _pairs(node: yaml.Node | None) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """What is within a node, by key or position: the node that stands first, and the value's."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): (key, value) for key, value in node.value}
    items = node.value if isinstance(node, yaml.SequenceNode) else ()
    return {str(i): (item, item) for i, item in enumerate(items)}


@dataclass(frozen=True)
class Layer:
    """Keys from one place, which messages call `origin`: a file, whose `node` is known, or else."""

    origin: str
    keys: Mapping[str, Any]
    node: yaml.Node | None = field(default=None, repr=False)

    def place_of(self, path: KeyPath) -> str:
        """Origin, line and path of a key or of what is below one, as messages begin."""
        node, line = self.node, None
        for part in map(str, path):
            pairs = _pairs(node)
            if part not in pairs:
                break
            key, node = pairs[part]
            line = key.start_mark.line + 1
        return f"{self.origin}{f', line {line}' if line else ''}: {key_text(path)}"


def read_layer(file: Path) -> Layer:
    """A configuration file as a layer.

    Raises:
        ConfigError: there is no such file, or it is not a mapping in YAML.
    """
    try:
        keys, node = parse_yaml(read_file(file), str(file))
    except UnsoundFileError as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(keys, dict):
        given = "nothing" if keys is None else shown(keys)
        raise ConfigError(f"{file}: must hold keys with values, such as device: cpu; found {given}")
    return Layer(str(file), keys, node)


def config_file(benchmark: str) -> Path:
    """The configuration of a benchmark's report, relative to the project's folder."""
    return Path("config", "config.yaml" if benchmark == DEFAULT.name else f"{benchmark}.yaml")


def named_benchmark(layers: Sequence[Layer]) -> str:
    """The benchmark that the last layer to name one does, by ``benchmark`` or as ``ladder=t28``."""
    known = (*BENCHMARKS, "benchmark")
    given = [(key, layer.keys[key]) for layer in layers for key in known if key in layer.keys]
    names = [value if key == "benchmark" else key for key, value in given]
    return next((name for name in reversed(names) if name in [*BENCHMARKS]), DEFAULT.name)


def merged(base: Mapping[Any, Any], over: Mapping[Any, Any]) -> dict[Any, Any]:
    """`over` merged into `base`: mappings merge key by key, any other value replaces.

    A block that gives two parameters of a product replaces the third.
    """
    superseded = superseded_parameters(over)
    result = {key: value for key, value in base.items() if key not in superseded}
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result


SHARED = "implementations"


@dataclass(frozen=True)
class _Given:
    """Keys that a layer gives to an experiment: its own at a path, or its shared ones."""

    layer: Layer
    path: KeyPath
    keys: Mapping[Any, Any]
    changes: bool = False
    """Whether the experiment was defined before."""


def _merged_keys(given: Sequence[_Given]) -> dict[Any, Any]:
    keys: dict[Any, Any] = {}
    for each in given:
        keys = merged(keys, each.keys)
    return keys


def _depth(value: Any, path: KeyPath) -> int:
    """The number of parts of a path that are there."""
    for depth, part in enumerate(path):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(path)


class MergedConfig:
    """The layers merged into one configuration, `keys`, and where each of them was given.

    Raises:
        ConfigError: an item of a list of experiments cannot be used.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers, self.keys = layers, dict[Any, Any]()
        self._experiments: list[list[_Given]] = []
        self._known: dict[str, list[_Given]] = {}
        shared: list[_Given] = []
        for layer in layers:
            self.keys, given = merged(self.keys, layer.keys), layer.keys
            own = [_Given(layer, (), {SHARED: given[SHARED]}, True)] if SHARED in given else []
            shared = own or shared
            if isinstance(items := given.get("experiments"), list):
                taken = (self._taken(layer, i, item, own, shared) for i, item in enumerate(items))
                self._experiments = [*taken]
            else:
                self._experiments = [[*each, *own] for each in self._experiments]
            if isinstance(self.keys.get("experiments"), list):
                made = [_merged_keys(each) for each in self._experiments]
                self.keys["experiments"] = made
                named = zip((each.get("name") for each in made), self._experiments, strict=True)
                self._known |= {name: each for name, each in named if isinstance(name, str)}

    def _taken(
        self, layer: Layer, i: int, item: Any, own: list[_Given], shared: list[_Given]
    ) -> list[_Given]:
        """What gives the experiment of an item of a layer's list; ConfigError for one of no use.

        One that gives no `implementations` has those given so far, `shared`; one that is used by
        name, only those of the same layer, `own`.
        """
        path: KeyPath = ("experiments", i)
        item = {"use": item} if isinstance(item, str) else item
        if not isinstance(item, Mapping):
            raise unusable(f"{layer.place_of(path)}: {mistyped(item, EACH)}")
        keys = {key: value for key, value in item.items() if key != "use"}
        if "use" not in item:
            return [*shared, _Given(layer, path, keys)]
        name = item["use"] if isinstance(item["use"], str) else shown(item["use"])
        file = BUILT_IN / config_file(named_benchmark(self._layers))
        known = self._known or MergedConfig([read_layer(file)])._known
        if name not in known:
            names = ", ".join(known) or "none"
            text = f"there is no experiment {name}{nearest(name, known)}; known: {names}"
            raise unusable(f"{layer.place_of(path)}: {text}")
        if "sweep" in keys:
            raise unusable(
                f"{layer.place_of((*path, 'sweep'))}: cannot be changed; remove it here, or define "
                f"an experiment of your own, without use: {name}"
            )
        return [*known[name], *own, _Given(layer, path, keys, True)]

    def place_of(self, path: KeyPath) -> str:
        """Origin, line and path of the layer that gives a path of `keys`, or the most of it.

        A later change in another layer to the experiment that has the path is named, too.
        """
        given, within = [_Given(each, (), each.keys) for each in self._layers], path
        if path[:1] == ("experiments",) and path[1:] and int(path[1]) < len(self._experiments):
            given, within = self._experiments[int(path[1])], path[2:]
        last = given[-1]
        if within[:1] == ("name",) and last.changes and last.path and "name" not in last.keys:
            return last.layer.place_of(last.path)  # which names it by `use`
        deepest = max(reversed(given), key=lambda each: _depth(each.keys, within))
        if not _depth(deepest.keys, within):  # where the experiment is listed, else the first file
            deepest = next((each for each in reversed(given) if each.path), given[0])
        place = deepest.layer.place_of((*deepest.path, *within))
        if not last.changes or last.layer.origin == deepest.layer.origin:
            return place
        return f"{place} (changed by {last.layer.place_of(last.path or (SHARED,))})"
