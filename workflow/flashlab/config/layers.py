"""The layers of a configuration, such as a file or the command line, merged in their order.

Mappings merge key by key; any other value, a list too, replaces the one below. Two keys do more:

- An item of `experiments` may be the name of an experiment of a layer below, or a mapping with that
  name as `use` and the keys to change.
- `implementations` applies to every experiment of the same layer that gives none of its own; in a
  layer without a list of experiments, to all experiments below.
"""

from __future__ import annotations

import copy
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


@dataclass(frozen=True)
class _Experiment:
    """An item of the list of experiments, in full (`keys`; anything else if it is no mapping).

    `places` holds where each of its keys was given, and `changed` where it was taken by name or
    given other implementations.
    """

    keys: Any
    here: Place
    places: Mapping[str, Place]
    changed: Place | None = None

    def with_implementations(self, layer: Layer) -> _Experiment:
        """The same experiment with a layer's `implementations`."""
        if not isinstance(self.keys, Mapping):
            return self
        place = Place(layer.origin, ("implementations",))
        return replace(
            self,
            keys={**self.keys, "implementations": layer.keys["implementations"]},
            places={**self.places, "implementations": place},
            changed=self.changed or place,
        )

    def place_of(self, rest: KeyPath) -> str:
        """Where one of its keys was given, and where the experiment was changed, if elsewhere."""
        found = self.places.get(str(rest[0])) if rest else None
        if found is None:
            return str(Place(self.here.origin, (*self.here.path, *rest)))
        text = str(Place(found.origin, (*found.path, *rest[1:])))
        if self.changed is None or self.changed.origin == found.origin:
            return text
        return f"{text} (changed by {self.changed})"


class _UnusableItemError(Exception):
    """An item that names no experiment, or changes a key that it must not change.

    The message is a line of a ConfigError.
    """


def _own(item: Any, here: Place, shared: Layer | None) -> _Experiment:
    """An experiment that a layer defines; `shared` gives its implementations by default."""
    if not isinstance(item, Mapping):
        return _Experiment(item, here, {})
    places = {str(key): Place(here.origin, (*here.path, key)) for key in item}
    experiment = _Experiment(item, here, places)
    if shared is None or "implementations" in item:
        return experiment
    return replace(experiment.with_implementations(shared), changed=None)


def _taken(
    item: Mapping[str, Any], here: Place, shared: Layer | None, known: Mapping[str, _Experiment]
) -> _Experiment:
    """An experiment that a layer takes by name, with the keys that the item changes."""
    changes = {key: value for key, value in item.items() if key != "use"}
    name = item["use"]
    names = ", ".join(known) or "none"
    if not isinstance(name, str) or name not in known:
        near = nearest(name, known) if isinstance(name, str) else ""
        found = name if isinstance(name, str) else shown(name)
        raise _UnusableItemError(f"{here}: there is no experiment {found}{near}; known: {names}")
    if "sweep" in changes:
        raise _UnusableItemError(
            f"{Place(here.origin, (*here.path, 'sweep'))}: cannot be changed; remove it here, or "
            f"define an experiment of your own, without use: {name}"
        )
    base = known[name]
    places = {str(key): Place(here.origin, (*here.path, key)) for key in changes}
    places = {**base.places, "name": here, **places}
    experiment = _Experiment(merged(base.keys, changes), here, places, changed=here)
    if shared is None or "implementations" in changes:
        return experiment
    return experiment.with_implementations(shared)


def _built_in(benchmark: str) -> dict[str, _Experiment]:
    return _by_name(MergedConfig([read_layer(BUILT_IN / config_file(benchmark))]).experiments)


def _by_name(experiments: Sequence[_Experiment]) -> dict[str, _Experiment]:
    """The experiments that have a name, which others can take them by."""
    found = {}
    for experiment in experiments:
        name = experiment.keys.get("name") if isinstance(experiment.keys, Mapping) else None
        if isinstance(name, str):
            found[name] = experiment
    return found


class MergedConfig:
    """The layers merged into one configuration, and where each of its keys was given.

    `keys` is the configuration, `experiments` its list of experiments. Unusable items of that are
    left out; `unusable` has a line for each.

    Raises:
        ConfigError: the built-in experiments are needed and cannot be read.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._benchmark = named_benchmark(layers)
        self.experiments: list[_Experiment] = []
        self.unusable: list[str] = []
        keys: dict[str, Any] = {}
        known: dict[str, _Experiment] = {}
        shared: Layer | None = None
        for layer in layers:
            if "implementations" in layer.keys:
                shared = layer
            if isinstance(layer.keys.get("experiments"), list):
                self._read_experiments(layer, shared, known)
            elif shared is layer:
                self.experiments = [e.with_implementations(layer) for e in self.experiments]
            known |= _by_name(self.experiments)
            keys = merged(keys, layer.keys)
        self.keys: dict[str, Any] = copy.deepcopy(keys)
        if isinstance(keys.get("experiments"), list):
            self.keys["experiments"] = [copy.deepcopy(e.keys) for e in self.experiments]

    def _read_experiments(
        self, layer: Layer, shared: Layer | None, known: Mapping[str, _Experiment]
    ) -> None:
        """Put a layer's list of experiments in place of the one below."""
        self.experiments, self.unusable = [], []
        for i, item in enumerate(layer.keys["experiments"]):
            here = Place(layer.origin, ("experiments", i))
            if isinstance(item, str):
                item = {"use": item}
            if not isinstance(item, Mapping) or "use" not in item:
                self.experiments.append(_own(item, here, shared))
                continue
            try:
                own = shared if shared is layer else None
                self.experiments.append(
                    _taken(item, here, own, known or _built_in(self._benchmark))
                )
            except _UnusableItemError as error:
                self.unusable.append(str(error))

    def place_of(self, path: KeyPath) -> str:
        """Where the value at a path of `keys` was given: in which layer, and at which of its keys.

        For a missing value, the last layer that has the longest part of its path.
        """
        if path[:1] == ("experiments",) and len(path) > 1 and isinstance(path[1], int):
            return self.experiments[path[1]].place_of(path[2:])
        # A list replaces the one below, so that all of its items come from one layer.
        first_item = next((i for i, part in enumerate(path) if isinstance(part, int)), len(path))
        for length in range(first_item, 0, -1):
            for layer in reversed(self._layers):
                if _contains(layer.keys, path[:length]):
                    return str(Place(layer.origin, path))
        return str(Place(self._layers[0].origin, path))


def _contains(document: Any, path: KeyPath) -> bool:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
