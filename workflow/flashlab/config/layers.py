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
from pathlib import Path
from typing import Any

from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.config.messages import KeyPath, key_text, nearest, shown
from flashlab.config.parameters import superseded_parameters
from flashlab.config.strict_yaml import StrictYamlError, line_of, read_yaml

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
    """Keys from one place, which messages call `origin`: a file, or ``--config``."""

    origin: str
    keys: Mapping[str, Any]


def read_config(file: Path) -> dict[str, Any]:
    """The keys of one configuration file, unchanged.

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
        found = "nothing" if document is None else shown(document)
        raise ConfigError(f"{file}: must hold keys with values, such as device: cpu; found {found}")
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
    name = named[-1] if named else DEFAULT.name
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


@dataclass(frozen=True)
class Place:
    """Where in which layer something is."""

    origin: str
    path: KeyPath

    def __str__(self) -> str:
        line = line_of(Path(self.origin), self.path)
        place = f"{self.origin}, line {line}" if line else self.origin
        return f"{place}: {key_text(self.path)}"


def _places(keys: Mapping[str, Any], at: Place) -> dict[KeyPath, Place]:
    """The place of each key at any depth, by its path; what is in a list has none of its own."""
    found: dict[KeyPath, Place] = {}
    for key, value in keys.items():
        here = Place(at.origin, (*at.path, key))
        found[(key,)] = here
        if isinstance(value, Mapping):
            found |= {(key, *path): place for path, place in _places(value, here).items()}
    return found


@dataclass(frozen=True)
class _Given:
    """Keys, of one layer or merged from several, and by their paths the places where they are.

    `keys` may be anything else for an item of the list of experiments. `changed` is where an
    experiment was taken by name or given other implementations.
    """

    keys: Any
    places: Mapping[KeyPath, Place]
    changed: Place | None = None

    def with_keys(self, over: Mapping[str, Any], at: Place) -> _Given:
        """With the keys of a mapping that is at a place."""
        return replace(
            self, keys=merged(self.keys, over), places={**self.places, **_places(over, at)}
        )

    def with_implementations(self, layer: Layer) -> _Given:
        """An experiment with a layer's `implementations`."""
        if not isinstance(self.keys, Mapping):
            return self
        shared = {"implementations": layer.keys["implementations"]}
        changed = self.changed or Place(layer.origin, ("implementations",))
        return replace(self.with_keys(shared, Place(layer.origin, ())), changed=changed)

    def place_of(self, path: KeyPath) -> str:
        """Where the value at a path was given, and where the experiment was changed, if elsewhere.

        For a missing value, where the longest part of its path was given last.
        """
        length = next(n for n in range(len(path), -1, -1) if path[:n] in self.places)
        found = self.places[path[:length]]
        text = str(Place(found.origin, (*found.path, *path[length:])))
        if self.changed is None or self.changed.origin == found.origin:
            return text
        return f"{text} (changed by {self.changed})"


def _by_name(experiments: Sequence[_Given]) -> dict[str, _Given]:
    """The experiments that have a name, which others can take them by."""
    mappings = (each for each in experiments if isinstance(each.keys, Mapping))
    return {each.keys["name"]: each for each in mappings if isinstance(each.keys.get("name"), str)}


class MergedConfig:
    """The layers merged into one configuration, and where each of its keys was given.

    `keys` is the configuration. Unusable items of its list of experiments are left out; `unusable`
    has a line for each.

    Raises:
        ConfigError: the built-in experiments are needed and cannot be read.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._whole = _Given({}, {(): Place(layers[0].origin, ())})
        self._benchmark = named_benchmark(layers)
        self._experiments: list[_Given] = []
        self._known: dict[str, _Given] = {}
        self.unusable: list[str] = []
        shared: Layer | None = None
        for layer in layers:
            self._whole = self._whole.with_keys(layer.keys, Place(layer.origin, ()))
            if "implementations" in layer.keys:
                shared = layer
            if isinstance(items := layer.keys.get("experiments"), list):
                found = [self._experiment(layer, i, item, shared) for i, item in enumerate(items)]
                self._experiments = [each for each in found if isinstance(each, _Given)]
                self.unusable = [each for each in found if isinstance(each, str)]
            elif shared is layer:
                self._experiments = [e.with_implementations(layer) for e in self._experiments]
            self._known |= _by_name(self._experiments)
        self.keys: dict[str, Any] = self._whole.keys
        if isinstance(self.keys.get("experiments"), list):
            self.keys = {**self.keys, "experiments": [each.keys for each in self._experiments]}

    def _experiment(self, layer: Layer, i: int, item: Any, shared: Layer | None) -> _Given | str:
        """What an item of a layer's list stands for; a line of a ConfigError if it is unusable.

        `shared` gives the implementations of an experiment that gives none of its own, and of one
        that is taken by name if it is the same layer.
        """
        here = Place(layer.origin, ("experiments", i))
        item = {"use": item} if isinstance(item, str) else item
        if not isinstance(item, Mapping):
            return _Given(item, {(): here})
        if "use" not in item:
            own = _Given(item, {(): here, **_places(item, here)})
            if shared is None or "implementations" in item:
                return own
            return replace(own.with_implementations(shared), changed=None)
        changes = {key: value for key, value in item.items() if key != "use"}
        name, known = item["use"], self._known or self._built_in()
        if not isinstance(name, str) or name not in known:
            found = f"{name}{nearest(name, known)}" if isinstance(name, str) else shown(name)
            names = ", ".join(known) or "none"
            return f"{here}: there is no experiment {found}; known: {names}"
        if "sweep" in changes:
            return (
                f"{Place(here.origin, (*here.path, 'sweep'))}: cannot be changed; remove it here, "
                f"or define an experiment of your own, without use: {name}"
            )
        base = replace(known[name], places={**known[name].places, (): here, ("name",): here})
        taken = replace(base.with_keys(changes, here), changed=here)
        if shared is not layer or "implementations" in changes:
            return taken
        return taken.with_implementations(layer)

    def _built_in(self) -> dict[str, _Given]:
        file = BUILT_IN / config_file(self._benchmark)
        return _by_name(MergedConfig([read_layer(file)])._experiments)

    def place_of(self, path: KeyPath) -> str:
        """Where the value at a path of `keys` was given: in which layer, and at which of its keys.

        For a missing value, where the longest part of its path was given last.
        """
        if path[:1] == ("experiments",) and len(path) > 1 and isinstance(path[1], int):
            return self._experiments[path[1]].place_of(path[2:])
        return self._whole.place_of(path)
