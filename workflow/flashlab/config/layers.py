"""The layers of a configuration, such as a file or the command line: read, and merged in order.

Mappings merge key by key; any other value, a list too, replaces the one below. Two keys do more:

- An item of `experiments` may be the name of an experiment of a layer below, or a mapping with that
  name as `use` and the keys to change.
- `implementations` applies to every experiment of the same layer that gives none of its own; in a
  layer without a list of experiments, to all experiments below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Layer:
    """Keys from one place, which messages call `origin`: a file, whose `node` is known, or else."""

    origin: str
    keys: Mapping[str, Any]
    node: yaml.Node | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Given:
    """A value and its place in a layer; what is within a mapping or a list is given in turn.

    An experiment whose `implementations` a later layer replaced has those as `changed`.
    """

    value: Any
    origin: str
    path: KeyPath
    line: int | None
    changed: Given | None = None

    def place(self, *within: str | int) -> str:
        """Origin, line and path of the value, or of what it lacks, as messages begin."""
        line = f", line {self.line}" if self.line else ""
        return f"{self.origin}{line}: {key_text((*self.path, *within))}"

    @property
    def items(self) -> Mapping[Any, Given]:
        """What is within the value, by key or position."""
        items = enumerate(self.value) if isinstance(self.value, list) else ()
        return self.value if isinstance(self.value, dict) else dict(items)

    @property
    def plain(self) -> Any:
        """The value itself."""
        inner = {key: each.plain for key, each in self.items.items()}
        return [*inner.values()] if isinstance(self.value, list) else inner or self.value


def _given(
    value: Any, origin: str, node: yaml.Node | None, path: KeyPath = (), line: int | None = None
) -> Given:
    """A value with the place of all that is within it."""
    pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    if isinstance(node, yaml.MappingNode):
        pairs = {str(key.value): (key, inner) for key, inner in node.value}
    elif isinstance(node, yaml.SequenceNode):
        pairs = {str(i): (item, item) for i, item in enumerate(node.value)}

    def within(key: Any, inner: Any) -> Given:
        first, of = pairs.get(str(key), (None, None))
        return _given(inner, origin, of, (*path, key), first.start_mark.line + 1 if first else line)

    if isinstance(value, Mapping):
        value = {key: within(key, inner) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [within(i, inner) for i, inner in enumerate(value)]
    return Given(value, origin, path, line)


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


def _merged(below: Given | None, over: Given) -> Given:
    """`over` merged into `below`: mappings merge key by key, any other value replaces.

    A block that gives two parameters of a product replaces the third.
    """
    if below is None or not (isinstance(below.value, dict) and isinstance(over.value, dict)):
        return over
    superseded = superseded_parameters(over.value)
    kept = {key: each for key, each in below.value.items() if key not in superseded}
    both = {key: _merged(kept.get(key), each) for key, each in over.value.items()}
    return replace(over, value={**kept, **both})


SHARED = "implementations"


def merged(layers: Sequence[Layer]) -> Given:
    """The layers merged into one configuration; of all of it, its place is the first layer.

    Raises:
        ConfigError: an item of a list of experiments cannot be used.
    """
    config, known = Given({}, layers[0].origin, (), None), dict[str, Given]()
    for layer in layers:
        own, before = _given(layer.keys, layer.origin, layer.node), config.value.get("experiments")
        config = replace(config, value=_merged(config, own).value)
        shared, given = own.value.get(SHARED), own.value.get("experiments")
        experiments = []
        if given and isinstance(given.value, list):
            for item in given.value:
                experiments.append(_taken(item, layers, known, shared, config.value.get(SHARED)))
        elif shared and before and isinstance(before.value, list):
            given = before
            for each in before.value:
                with_shared = {**each.value, SHARED: shared}
                experiments.append(replace(each, value=with_shared, changed=shared))
        else:
            continue
        config.value["experiments"] = replace(given, value=experiments)
        named = ((each.value["name"].value, each) for each in experiments if "name" in each.value)
        known |= {name: each for name, each in named if isinstance(name, str)}
    return config


def _taken(
    item: Given,
    layers: Sequence[Layer],
    known: Mapping[str, Given],
    shared: Given | None,
    shared_before: Given | None,
) -> Given:
    """The experiment of an item of a layer's list; ConfigError for one of no use.

    One that gives no `implementations` has those given so far, `shared_before`; one that is used by
    name, only those of the same layer, `shared`.
    """
    keys = {"use": item} if isinstance(item.value, str) else item.value
    if not isinstance(keys, dict):
        raise unusable(f"{item.place()}: {mistyped(item.plain, EACH)}")
    keys = dict(keys)
    used = keys.pop("use", None)
    if shared := shared if used else shared_before:
        keys.setdefault(SHARED, shared)
    if not used:
        return replace(item, value=keys)
    name = used.value if isinstance(used.value, str) else shown(used.plain)
    if not known:
        found = merged([read_layer(BUILT_IN / config_file(named_benchmark(layers)))])
        known = {each.value["name"].value: each for each in found.value["experiments"].value}
    if name not in known:
        names = ", ".join(known) or "none"
        text = f"there is no experiment {name}{nearest(name, known)}; known: {names}"
        raise unusable(f"{item.place()}: {text}")
    if "sweep" in keys:
        raise unusable(
            f"{keys['sweep'].place()}: cannot be changed; remove it here, or define an experiment "
            f"of your own, without use: {name}"
        )
    keys.setdefault("name", replace(item, value=name))
    return _merged(known[name], replace(item, value=keys))


def place_of(config: Given, path: KeyPath) -> str:
    """The place of the layer that gives a path of a configuration, or the most of it.

    A later change in another layer to the experiment that has the path is named, too.
    """
    at, depth, changed = config, 0, config
    while depth < len(path) and path[depth] in at.items:
        at, depth = at.items[path[depth]], depth + 1
        changed = (at.changed or at) if depth == 2 and path[0] == "experiments" else changed
    place = at.place(*path[depth:])
    if changed is config or at.path[:1] != ("experiments",) or at.origin == changed.origin:
        return place
    return f"{place} (changed by {changed.place()})"
