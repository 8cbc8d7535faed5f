"""The configuration: its layers merged, its defaults filled in, and all of it checked.

A layer is a file or the command line. Mappings merge key by key; any other value, a list too,
replaces the one below. Two keys do more:

- An item of `experiments` may be the name of an experiment of a layer below, or a mapping with that
  name as `use` and the keys to change.
- `implementations` applies to every experiment of the same layer that gives none of its own; in a
  layer without a list of experiments, to all experiments below.

All problems are reported at once, each with the file, the key and the remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_origin

import yaml
from pydantic import ValidationError

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.benchmarks.settings import EACH
from flashlab.config import model
from flashlab.config.model import SHARED, KeyPath, mistyped, nearest, shown
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
        at, begun, problem = error.problem_mark, error.context_mark, error.problem
        assert at and problem, error
        if at.buffer and at.buffer[at.pointer] == "\t":
            problem, error.note = "a tab", "replace it with spaces"
        elif begun and begun.line != at.line:
            problem += f" ({error.context} that begins on line {begun.line + 1})"
        said = f"line {at.line + 1}, column {at.column + 1}: {problem}; {error.note or _QUOTE}"
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

    def place(self, path: KeyPath) -> tuple[int, str]:
        """How many parts of a path the layer has; origin, line and path, as messages begin."""
        value: Any = self.keys
        node, line, depth = self.node, "", 0
        for part in path:
            try:
                value, depth, pairs = value[part], depth + 1, dict[str, Any]()
            except (LookupError, TypeError):  # the rest is not given here
                break
            if isinstance(node, yaml.MappingNode):
                pairs = {key.value: (key, inner) for key, inner in node.value}
            elif isinstance(node, yaml.SequenceNode):
                pairs = {str(i): (inner, inner) for i, inner in enumerate(node.value)}
            key, node = pairs.get(str(part), (None, None))
            line = f", line {key.start_mark.line + 1}" if key else line
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        return depth, f"{self.origin}{line}: {text.lstrip('.')}"


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


def parse_override(argument: str) -> dict[str, Any]:
    """One ``KEY=VALUE`` of ``--config``, with the value that a file's YAML would give the key.

    Snakemake hands over the leaves of nested values as text. Here the value of a key that takes
    text, or one of a few words, is that text unchanged, and any other value is YAML.

    Raises:
        ConfigError: no ``=``, or a value that is not YAML.
    """
    key, equals, value = argument.partition("=")
    if not equals:
        raise ConfigError(f"--config: {argument}: write KEY=VALUE, such as device=cpu")
    if depth := key.count("."):
        nested = key.replace(".", "={", 1).replace(".", ": {")
        raise ConfigError(f"--config: {argument}: write '{nested}: {value}{'}' * depth}'")
    value = value[1:-1] if len(value) > 1 and value[:1] + value[-1:] in ("''", '""') else value
    field = model.CONFIGURATION.model_fields.get(key)
    kind: Any = field.annotation if field else str
    if kind is str or get_origin(kind) is Literal:
        return {key: value}
    try:
        return {key: parse_yaml(value, f"--config: {key}: {value}")[0]}
    except ConfigError as error:
        raise ConfigError(f"{error}{model.example_text(key)}") from error


def override_layer(arguments: Iterable[str]) -> Layer:
    """The layer that the words of ``--config`` make; ConfigError as of `parse_override`."""
    return Layer("--config", reduce(_merged, map(parse_override, arguments), {}))


def config_file(benchmark: str) -> Path:
    """The configuration of a benchmark's report, relative to the project's folder."""
    return Path("config", "config.yaml" if benchmark == DEFAULT.name else f"{benchmark}.yaml")


def named_benchmark(layers: Sequence[Layer]) -> str:
    """The benchmark that the last layer to name one does, by ``benchmark`` or as ``ladder=t28``."""
    keys = [(k, of.keys) for of in layers for k in (*BENCHMARKS, "benchmark") if k in of.keys]
    names = [given[key] if key == "benchmark" else key for key, given in keys]
    return next((name for name in reversed(names) if name in [*BENCHMARKS]), DEFAULT.name)


def _merged(below: Any, over: Any) -> Any:
    """`over` merged into `below`: mappings merge key by key, any other value replaces.

    A block that gives two parameters of a product replaces the third.
    """
    if not (isinstance(below, Mapping) and isinstance(over, Mapping)):
        return over
    lacking = ({*p.names} - over.keys() for b in BENCHMARKS.values() for p in b.products)
    superseded = [names.pop() for names in lacking if len(names) == 1]
    kept = {key: each for key, each in below.items() if key not in superseded}
    return kept | {key: _merged(kept.get(key), each) for key, each in over.items()}


SOURCES = object()
"""The key of an experiment's sources among its keys while layers are merged, the last one last.

Each is a layer, a path in it, and the path of what that gives in the experiment, () for all of it.
"""


def _changed(experiment: dict[Any, Any], keys: Mapping[str, Any], *source: Any) -> dict[Any, Any]:
    """The experiment with the keys of one more source."""
    return {**_merged(experiment, keys), SOURCES: [*experiment[SOURCES], source]}


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """The layers merged into one configuration, whose experiments have their `SOURCES`.

    Raises:
        ConfigError: an item of a list of experiments cannot be used.
    """
    config, known, shared = dict[str, Any](), dict[str, dict[Any, Any]](), None
    for layer in layers:
        before, items = config.get("experiments"), layer.keys.get("experiments")
        config = _merged(config, layer.keys)
        shared = layer if SHARED in layer.keys else shared
        if isinstance(items, list):
            taken = [_taken(layer, i, layers, known, shared) for i in range(len(items))]
        elif shared is layer and isinstance(before, list):
            own = {SHARED: layer.keys[SHARED]}
            taken = [_changed(each, own, layer, (SHARED,), (SHARED,)) for each in before]
        else:
            continue
        config["experiments"] = taken
        known |= {each["name"]: each for each in taken if isinstance(each.get("name"), str)}
    return config


def _taken(
    layer: Layer, index: int, layers: Sequence[Layer], known: dict[str, Any], shared: Layer | None
) -> dict[Any, Any]:
    """The experiment of an item of a layer's list; ConfigError for one of no use.

    One that gives no `implementations` has those of `shared`, the last layer so far with some; one
    that is used by name, only those of the same layer. `known` are those of the layers below.
    """
    path, item = ("experiments", index), layer.keys["experiments"][index]
    taken: dict[Any, Any] = {SOURCES: []}
    keys = {"use": item} if isinstance(item, str) else item
    if not isinstance(keys, Mapping):
        raise unusable(f"{layer.place(path)[1]}: {mistyped(item, EACH)}")
    if "use" in keys:
        name = used if isinstance(used := keys["use"], str) else shown(used)
        if not known:
            built_in = merged([read_layer(BUILT_IN / config_file(named_benchmark(layers)))])
            known |= {each["name"]: each for each in built_in["experiments"]}
        if name not in known:
            text = f"there is no experiment {name}{nearest(name, known)}; known: {', '.join(known)}"
            raise unusable(f"{layer.place(path)[1]}: {text}")
        if "sweep" in keys:
            text = "cannot be changed; remove it here, or define an experiment of your own, without"
            raise unusable(f"{layer.place((*path, 'sweep'))[1]}: {text} use: {name}")
        taken = _changed(known[name], {"name": name}, layer, path, ("name",))
    if shared and (shared is layer or "use" not in keys):
        taken = _changed(taken, {SHARED: shared.keys[SHARED]}, shared, (SHARED,), (SHARED,))
    return _changed(taken, {key: keys[key] for key in keys if key != "use"}, layer, path, ())


def place_of(path: KeyPath, layers: Iterable[Layer], experiments: Sequence[Any] = ()) -> str:
    """The place in the layer that gives a path of the configuration, or the most of it.

    `experiments` are the sources of each. A later change in another layer to the experiment that
    has the path is named, too.
    """
    sources: list[tuple[Layer, KeyPath, KeyPath]] = [(layer, (), ()) for layer in layers]
    if experiments and len(path) > 1 and path[0] == "experiments":
        sources, path = experiments[int(path[1])], path[2:]
    found = []
    for layer, begin, at in sources:
        if path[: len(at)] == at:
            depth, place = layer.place((*begin, *path[len(at) :]))
            found.append((depth - len(begin) + len(at), place, layer, begin[:1]))
    _, place, layer, within = max(reversed(found), key=lambda each: each[0])
    last, changed, _ = sources[-1]
    if within != ("experiments",) or layer.origin == last.origin:
        return place
    return f"{place} (changed by {last.place(changed)[1]})"


def _with_chosen(benchmark: Benchmark, config: dict[str, Any], place: str) -> dict[str, Any]:
    """The configuration with only the problems that its key of the benchmark's name chooses.

    So ``ladder=t28`` measures the ladder's steps on that case and nothing else: the first
    experiment that sweeps problems remains, with those; the headline is the first of them. Without
    that key the configuration is as it is.
    """
    parameter = benchmark.stand_in
    if parameter is None or benchmark.name not in config:
        return config
    chosen, numbers = config.pop(benchmark.name), dict[int, None]()
    for named in chosen if isinstance(chosen, list) else str(chosen).split(","):
        digits = str(named).strip().removeprefix(parameter.symbol)  # t28, 28 or "28"
        if not (digits.isdecimal() and parameter.stands_for and parameter.stands_for(int(digits))):
            raise ConfigError(f"{place}: there is no {parameter.labels['en']} {named}")
        numbers[int(digits)] = None
    found = [each for each in config["experiments"] if each["sweep"] == parameter.name]
    if not found:
        raise ConfigError(f"{place}: no experiment sweeps {parameter.name} to choose from")
    for block, value in ((config[model.HEADLINE], next(iter(numbers))), (found[0], [*numbers])):
        block |= {device: {parameter.name: value} for device in ("cuda", "cpu")}
    return config | {"experiments": found[:1]}


def resolve_config(layers: Sequence[Layer], implementations: Collection[str]) -> dict[str, Any]:
    """The configuration that the layers make, with every default filled in, checked as a whole.

    Each experiment is given in full, so that no shared `implementations` are left.

    Args:
        layers: at least one; a later layer is merged into those before it.
        implementations: the names that the benchmark's folder of ``kernels/`` has.

    Raises:
        ConfigError: one message with a line for each problem (origin, key, remedy).
    """
    given, benchmark = merged(layers), BENCHMARKS[named_benchmark(layers)]
    items = given.get("experiments")
    sources = [each.pop(SOURCES) for each in items] if isinstance(items, list) else []
    keys_of = model.CONFIGURATION if benchmark is DEFAULT else model.configuration_of(benchmark)
    try:
        keys = keys_of.model_validate(given).model_dump(exclude_none=True)
        problems = [*model.problems_beside(keys, benchmark, implementations)]
    except ValidationError as error:
        problems = [model.problem_of(mistake, keys_of) for mistake in error.errors()]
    if problems:
        raise unusable(*(f"{place_of(at, layers, sources)}: {text}" for at, text in problems))
    keys.pop(SHARED, None)
    return _with_chosen(benchmark, keys, place_of((benchmark.name,), layers))


def reported_config(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a report depends on: all but those that the model marks as not reported.

    Of the protocols, only the chosen one has its settings: no other one measured anything.
    """
    measure, left_out = resolved["measure"], model.UNREPORTED
    chosen = {key: measure[key] for key in ("protocol", measure["protocol"], "timeout_s")}
    return {k: v for k, v in resolved.items() if k not in left_out} | {"measure": chosen}
