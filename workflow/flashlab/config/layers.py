"""The layers of a configuration, such as a file or the command line: read, and merged in order.

Mappings merge key by key; any other value, a list too, replaces the one below. Two keys do more:

- An item of `experiments` may be the name of an experiment of a layer below, or a mapping with that
  name as `use` and the keys to change.
- `implementations` applies to every experiment of the same layer that gives none of its own; in a
  layer without a list of experiments, to all experiments below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def _lines(node: yaml.Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, int]]:
    """The line of each key and item below a node, by its path."""
    for i, item in enumerate(node.value if isinstance(node, yaml.CollectionNode) else ()):
        key, value = item if isinstance(node, yaml.MappingNode) else (item, item)
        own = (*path, str(i if key is value else key.value))
        yield own, key.start_mark.line + 1
        yield from _lines(value, own)


def parse_yaml(content: str | bytes, origin: str) -> tuple[Any, dict[tuple[str, ...], int]]:
    """The value of a YAML text (None for none), and the line of each of its keys and items.

    Raises:
        ConfigError: the first mistake, with its line and column where it has one, and a remedy.
    """
    try:
        loader = _StrictLoader(content if isinstance(content, str) else content.decode())
        node = loader.get_single_node()
        if node and _size(node, {}) > MAX_SIZE:
            message = f"with its aliases it has more than {MAX_SIZE:,} characters"
            raise yaml.MarkedYAMLError(None, None, message, node.start_mark, "use fewer of them")
        return node and loader.construct_document(node), dict(_lines(node))
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


@dataclass(frozen=True)
class Layer:
    """Keys from one place, which messages call `origin`: a file, whose `lines` are known, or else.

    `lines` has the line of each key and item by its path.
    """

    origin: str
    keys: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict, repr=False)

    def place_of(self, path: KeyPath) -> str:
        """Origin, line and path of a key or of what is below one, as messages begin."""
        above = (tuple(map(str, path[:end])) for end in range(len(path), 0, -1))
        line = next((self.lines[part] for part in above if part in self.lines), None)
        return f"{self.origin}{f', line {line}' if line else ''}: {key_text(path)}"


def read_layer(file: Path) -> Layer:
    """A configuration file as a layer.

    Raises:
        ConfigError: there is no such file, or it is not a mapping in YAML.
    """
    try:
        keys, lines = parse_yaml(read_file(file), str(file))
    except UnsoundFileError as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(keys, dict):
        given = "nothing" if keys is None else shown(keys)
        raise ConfigError(f"{file}: must hold keys with values, such as device: cpu; found {given}")
    return Layer(str(file), keys, lines)


def config_file(benchmark: str) -> Path:
    """The configuration of a benchmark's report, relative to the project's folder."""
    return Path("config", "config.yaml" if benchmark == DEFAULT.name else f"{benchmark}.yaml")


def named_benchmark(layers: Sequence[Layer]) -> str:
    """The benchmark that the last layer to name one does, by ``benchmark`` or as ``ladder=t28``."""
    known = (*BENCHMARKS, "benchmark")
    given = [(key, layer.keys[key]) for layer in layers for key in known if key in layer.keys]
    names = [value if key == "benchmark" else key for key, value in given]
    return next((name for name in reversed(names) if name in [*BENCHMARKS]), DEFAULT.name)


Origin = tuple[Layer, KeyPath]


class Located(dict[Any, Any]):
    """Keys, each with its origin: the layer that gives it, and its path there.

    An experiment is `changed` where it was taken by name, or given other implementations.
    """

    origins: dict[Any, Origin]
    changed: Origin | None = None

    def __init__(self, keys: Mapping[str, Any], layer: Layer, path: KeyPath = ()) -> None:
        for key, value in keys.items():
            is_inner = isinstance(value, Mapping)
            self[key] = Located(value, layer, (*path, key)) if is_inner else value
        self.origins = {key: (layer, (*path, key)) for key in keys}

    def only(self, *names: str) -> Located:
        """The keys of these names."""
        kept = Located({}, Layer("", {}))
        kept.update({name: self[name] for name in names if name in self})
        kept.origins = {name: self.origins[name] for name in kept}
        return kept


def merged(base: Located, over: Located) -> Located:
    """`over` merged into `base`: mappings merge key by key, any other value replaces.

    A block that gives two parameters of a product replaces the third.
    """
    superseded = superseded_parameters(over)
    result = base.only(*(key for key in base if key not in superseded))
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Located) and isinstance(below, Located):
            value = merged(below, value)
        result[key] = value
    result.origins |= over.origins
    return result


class MergedConfig:
    """The layers merged into one configuration, `keys`, and where each of them was given.

    Raises:
        ConfigError: an item of a list of experiments cannot be used.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._known: dict[str, Located] = {}
        self.keys = Located({}, layers[0])
        for layer in layers:
            own = Located(layer.keys, layer)
            self.keys = merged(self.keys, own)
            experiments: Any = self.keys.get("experiments")
            if not isinstance(experiments, list):
                continue
            if "experiments" in own:
                experiments = [
                    self._experiment(layer, i, item) for i, item in enumerate(experiments)
                ]
            elif "implementations" in own:
                experiments = [merged(each, own.only("implementations")) for each in experiments]
                for experiment in experiments:
                    experiment.changed = (layer, ("implementations",))
            self.keys["experiments"] = experiments
            named = ((experiment.get("name"), experiment) for experiment in experiments)
            self._known |= {name: each for name, each in named if isinstance(name, str)}

    def _experiment(self, layer: Layer, i: int, item: Any) -> Located:
        """The experiment of an item of a layer's list; ConfigError where it cannot be used.

        One that gives no `implementations` has those given so far; one that is used by name, only
        those of the same layer.
        """
        path: KeyPath = ("experiments", i)
        item = {"use": item} if isinstance(item, str) else item
        if not isinstance(item, Mapping):
            raise unusable(f"{layer.place_of(path)}: {mistyped(item, EACH)}")
        own = Located({key: value for key, value in item.items() if key != "use"}, layer, path)
        if "use" not in item:
            return merged(self.keys.only("implementations"), own)
        name = item["use"] if isinstance(item["use"], str) else shown(item["use"])
        known = self._known or self._built_in()
        if name not in known:
            names = ", ".join(known) or "none"
            text = f"there is no experiment {name}{nearest(name, known)}; known: {names}"
            raise unusable(f"{layer.place_of(path)}: {text}")
        if "sweep" in own:
            raise unusable(
                f"{layer.place_of((*path, 'sweep'))}: cannot be changed; remove it here, or define "
                f"an experiment of your own, without use: {name}"
            )
        shared = Located(layer.keys, layer).only("implementations")
        experiment = merged(merged(known[name], shared), own)
        experiment.changed = (layer, path)
        experiment.origins |= {"name": (layer, path)} | own.origins
        return experiment

    def _built_in(self) -> dict[str, Located]:
        file = BUILT_IN / config_file(named_benchmark(self._layers))
        return MergedConfig([read_layer(file)])._known

    def place_of(self, path: KeyPath) -> str:
        """Origin, line and path of the layer that gives a path of `keys`, or the most of it.

        A later change in another layer to the experiment that has the path is named, too.
        """
        (layer, at), changed = (self._layers[0], path), None
        value: Any = self.keys
        for i, part in enumerate(path):
            if isinstance(value, Located):
                changed = value.changed or changed
                if part not in value:
                    break
                layer, at = value.origins[part][0], (*value.origins[part][1], *path[i + 1 :])
            elif not isinstance(value, list):
                break
            value = value[part]
        if changed is None or changed[0].origin == layer.origin:
            return layer.place_of(at)
        return f"{layer.place_of(at)} (changed by {changed[0].place_of(changed[1])})"
