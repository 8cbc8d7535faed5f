"""The layers of a configuration, such as a file or the command line, merged in their order.

Mappings merge key by key; any other value, a list too, replaces the one below. Two keys do more:

- An item of `experiments` may be the name of an experiment of a layer below, or a mapping with that
  name as `use` and the keys to change.
- `implementations` applies to every experiment of the same layer that gives none of its own; in a
  layer without a list of experiments, to all experiments below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.benchmarks.settings import EACH
from flashlab.config.messages import KeyPath, key_text, mistyped, nearest, shown
from flashlab.config.parameters import superseded_parameters
from flashlab.config.strict_yaml import StrictYamlError, line_of, parse_yaml

BUILT_IN = Path(__file__).parents[3]
"""The folder of whose configuration files the experiments can be taken by name if no layer below
has a list of experiments."""


def config_file(benchmark: str) -> Path:
    """The configuration of a benchmark's report, relative to the project's folder."""
    return Path("config", "config.yaml" if benchmark == DEFAULT.name else f"{benchmark}.yaml")


class ConfigError(Exception):
    """Everything that is wrong with a configuration, in one message."""


@dataclass(frozen=True)
class Layer:
    """Keys from one place, which messages call `origin`: a file, or ``--config``.

    The keys of an item of its list of experiments have the item's `path`.
    """

    origin: str
    keys: Mapping[str, Any]
    path: KeyPath = ()

    def place_of(self, path: KeyPath = ()) -> str:
        """Origin, line and whole path of a path of the keys, as messages begin."""
        whole = (*self.path, *path)
        line = line_of(Path(self.origin), whole)
        return f"{self.origin}{f', line {line}' if line else ''}: {key_text(whole)}"

    def depth(self, path: KeyPath) -> int:
        """The number of leading parts of a path that the keys have; a list ends it."""
        value: Any = self.keys
        for i, part in enumerate(path):
            if not isinstance(value, Mapping) or part not in value:
                return i
            value = value[part]
        return len(path)


def read_config(file: Path) -> dict[str, Any]:
    """The keys of one configuration file, unchanged.

    Raises:
        ConfigError: there is no such file, or it is not a mapping in YAML; with line and column.
    """
    try:
        document = parse_yaml(file.read_bytes())
    except StrictYamlError as error:
        raise ConfigError(f"{file}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    if not isinstance(document, dict):
        given = "nothing" if document is None else shown(document)
        raise ConfigError(f"{file}: must hold keys with values, such as device: cpu; found {given}")
    return document


def named_benchmark(layers: Sequence[Layer]) -> str:
    """The benchmark that the last layer to name one does; the default where it is none of ours.

    A key of a benchmark's name, as ``ladder=t28``, names it too.
    """
    named = [
        layer.keys[key] if key == "benchmark" else key
        for layer in layers
        for key in ("benchmark", *BENCHMARKS)
        if key in layer.keys
    ]
    name = [DEFAULT.name, *named][-1]
    return name if isinstance(name, str) and name in BENCHMARKS else DEFAULT.name


def read_layer(file: Path) -> Layer:
    """A configuration file as a layer; ConfigError as in `read_config`."""
    return Layer(str(file), read_config(file))


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` merged into `base`: mappings merge key by key, any other value replaces.

    A block that gives two parameters of a product replaces the third.
    """
    superseded = superseded_parameters(over)
    result = {key: value for key, value in base.items() if key not in superseded}
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = merged(below, value)
        result[key] = value
    return result


def _keys_of(layers: Sequence[Layer]) -> dict[str, Any]:
    return reduce(merged, (layer.keys for layer in layers), {})


def _giver(layers: Sequence[Layer], path: KeyPath) -> Layer | None:
    """The last layer with a path, or with the longest part of it; None where none has any."""
    giver = max(reversed(layers), key=lambda layer: layer.depth(path))
    return giver if giver.depth(path) else None


_Experiment = tuple[Layer, ...]
"""An experiment as the layers that make it: its definition, changes to it, and the shared
`implementations`, which have no path."""


def _place_in(experiment: _Experiment, path: KeyPath) -> str:
    """Origin, line and key of the layer that gives a path, and of the last change if elsewhere."""
    first, *changes = (part for part in experiment if part.path)
    if path == ("name",) and changes and "name" not in changes[-1].keys:
        return changes[-1].place_of()  # which takes an experiment by that name
    giver, last = _giver(experiment, path) or first, experiment[-1]
    if last is first or last.origin == giver.origin:
        return giver.place_of(path)
    changed = last.place_of(() if last.path else tuple(last.keys))
    return f"{giver.place_of(path)} (changed by {changed})"


class MergedConfig:
    """The layers merged into one configuration, and where each of its keys was given.

    `keys` is the configuration. Unusable items of its list of experiments are left out; `unusable`
    has a line of a ConfigError for each.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._experiments: list[_Experiment] = []
        self._known: dict[str, _Experiment] = {}
        self.keys, self.unusable = _keys_of(layers), list[str]()
        shared: _Experiment = ()
        for layer in layers:
            given = {key: layer.keys[key] for key in ("implementations",) if key in layer.keys}
            beside = (Layer(layer.origin, given),) if given else ()
            shared = beside or shared
            if isinstance(items := layer.keys.get("experiments"), list):
                self._experiments, self.unusable = [], []
                for i, item in enumerate(items):
                    try:
                        self._experiments.append(self._experiment(layer, i, item, shared, beside))
                    except ConfigError as error:
                        self.unusable.append(str(error))
            else:
                self._experiments = [(*experiment, *beside) for experiment in self._experiments]
            self._known |= {
                name: experiment
                for experiment in self._experiments
                if isinstance(name := _keys_of(experiment).get("name"), str)
            }
        if isinstance(self.keys.get("experiments"), list):
            self.keys["experiments"] = [_keys_of(experiment) for experiment in self._experiments]

    def _experiment(
        self, layer: Layer, i: int, item: Any, shared: _Experiment, beside: _Experiment
    ) -> _Experiment:
        """The experiment of an item of a layer's list; ConfigError if the item is unusable.

        One that gives no `implementations` has those of `shared`; one that is taken by name, only
        those `beside` the list.
        """
        here = Layer(layer.origin, {}, ("experiments", i))
        item = {"use": item} if isinstance(item, str) else item
        if not isinstance(item, Mapping):
            raise ConfigError(f"{here.place_of()}: {mistyped(item, EACH)}")
        keys = {key: value for key, value in item.items() if key != "use"}
        base: _Experiment = ()
        if "use" in item:
            name, known = item["use"], self._known or self._built_in()
            if not isinstance(name, str) or name not in known:
                unknown = f"{name}{nearest(name, known)}" if isinstance(name, str) else shown(name)
                names = ", ".join(known) or "none"
                raise ConfigError(
                    f"{here.place_of()}: there is no experiment {unknown}; known: {names}"
                )
            if "sweep" in keys:
                raise ConfigError(
                    f"{here.place_of(('sweep',))}: cannot be changed; remove it here, or define an "
                    f"experiment of your own, without use: {name}"
                )
            base, shared = known[name], beside
        return (*base, *(() if "implementations" in keys else shared), replace(here, keys=keys))

    def _built_in(self) -> dict[str, _Experiment]:
        file = BUILT_IN / config_file(named_benchmark(self._layers))
        return MergedConfig([read_layer(file)])._known

    def place_of(self, path: KeyPath) -> str:
        """Origin, line and key of the last layer that gives the value at a path of `keys`.

        For a missing value, of the last that gives the longest part of its path.
        """
        if path[:1] == ("experiments",) and len(path) > 1 and isinstance(path[1], int):
            return _place_in(self._experiments[path[1]], path[2:])
        return (_giver(self._layers, path) or self._layers[0]).place_of(path)
