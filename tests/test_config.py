from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab import costs, plan
from flashlab.config import SCHEMA, ConfigError, resolve_config
from flashlab.implementations import Implementations
from flashlab.records import canonical

IMPLEMENTATIONS = ("Pytorch", "Flash2")
FILE = Path(__file__).parents[1] / "config" / "config.yaml"
DEFAULT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
Config = dict[str, Any]


def key_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key and list item."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from key_paths(inner, (*path, key))


def with_value(path: tuple[Any, ...], value: Any) -> Config:
    """The default configuration with one key set to another value."""
    config = copy.deepcopy(DEFAULT)
    holder = config
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return config


def error_of(config: Config, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve_config(config, IMPLEMENTATIONS, **options)
    return str(caught.value)


def sweep(**values: Any) -> Callable[[Config], None]:
    return lambda config: config["experiments"][0]["cuda"].update(values)


def experiment(**values: Any) -> Callable[[Config], None]:
    return lambda config: config["experiments"][0].update(values)


WRONG: dict[str, tuple[Callable[[Config], None], list[str]]] = {
    "unknown key": (lambda c: c.update(datset="local"), ["datset", "did you mean dataset?"]),
    "unknown key within": (
        lambda c: c["measure"].update(timeout=3), ["measure.timeout", "did you mean timeout_s?"]
    ),
    "wrong type": (
        lambda c: c["measure"].update(timeout_s="long"),
        ["measure.timeout_s", "must be a number", '"long"'],
    ),
    "a fraction for a size": (
        sweep(batch_size=1.5), ["experiments[0].cuda.batch_size", "a whole number", "1.5"]
    ),
    "a size written as a float": (
        sweep(batch_size=16.0), ["experiments[0].cuda.batch_size", "a whole number", "16.0"]
    ),
    "a size beyond any machine": (
        sweep(emb_dim=10**400), ["experiments[0].cuda.emb_dim", "at most"]
    ),
    "a size of zero": (sweep(num_heads=0), ["experiments[0].cuda.num_heads", "at least 1"]),
    "a share of zero": (
        lambda c: c["measure"]["sampled"].update(relative_interval=0),
        ["measure.sampled.relative_interval", "greater than 0"],
    ),
    "not one of the choices": (
        lambda c: c.update(dtype="float61"), ["dtype", "float16", "did you mean float16?"]
    ),
    "emb_dim not divisible": (
        sweep(emb_dim=2000), ["experiments[0].cuda.emb_dim", "32", "such as 1984"]
    ),
    "emb_dim of the summary not divisible": (
        lambda c: c["summary"]["cpu"].update(emb_dim=7), ["summary.cpu.emb_dim", "such as 8"]
    ),
    "empty sweep": (sweep(seq_len=[]), ["experiments[0].cuda.seq_len", "at least one value"]),
    "no list to sweep": (sweep(seq_len=8), ["experiments[0].cuda.seq_len", "a list of values"]),
    "lists of two lengths": (
        sweep(batch_size=[1, 2]), ["experiments[0].cuda.batch_size", "(4), found 2"]
    ),
    "no experiments": (lambda c: c.update(experiments=[]), ["experiments", "at least one"]),
    "a missing key": (lambda c: c.pop("summary"), ["summary", "is missing"]),
    "unknown implementation": (
        experiment(implementations=["Flash3"]),
        ["experiments[0].implementations[0]", "did you mean Flash2?", "Pytorch, Flash2"],
    ),
    "unknown baseline": (lambda c: c.update(baseline="Numpy"), ["baseline", "Pytorch, Flash2"]),
    "a sweep value twice": (sweep(seq_len=[8, 16, 8]), ["cuda.seq_len", "holds 8 twice"]),
    "an experiment's name twice": (
        experiment(name="causal"), ["experiments[1].name", "causal", "rename"]
    ),
    "an implementation twice": (
        experiment(implementations=["Flash2", "Flash2"]),
        ["experiments[0].implementations", "holds Flash2 twice"],
    ),
    "a figure twice": (
        experiment(supplement=["time"]), ["experiments[0].supplement[0]", "asked for twice"]
    ),
    "a figure of what is not measured": (
        experiment(implementations=["Flash2"], figures=[
            {"metric": "time", "implementations": ["Pytorch"]}]),
        ["experiments[0].figures[0].implementations", "add it"],
    ),
    "an unknown metric": (experiment(figures=["speed"]), ["figures[0]", "time, memory, rate"]),
    "the headline table's name": (experiment(name="summary"), ["experiments[0].name", "rename"]),
    "a name that is no file name": (experiment(name="a/b"), ["experiments[0].name", "letters"]),
    "a name that ends a line": (experiment(name="a\n"), ["experiments[0].name", "letters"]),
    "remarks on nothing": (
        lambda c: c.update(remarks={"seq": {"en": "x.md"}}), ["remarks.seq", "seq_len"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_gives_one_message_with_file_key_and_remedy(wrong: str) -> None:
    change, expected = WRONG[wrong]
    config = copy.deepcopy(DEFAULT)
    change(config)
    header, *lines = error_of(config, files=[FILE]).splitlines()
    assert header == "The configuration is not usable:"
    assert len(lines) == 1
    assert lines[0].startswith(f"  {FILE}: ")
    for part in expected:
        assert part in lines[0]


def test_all_mistakes_are_reported_at_once() -> None:
    config = {**with_value(("experiments", 0, "cuda", "seq_len"), []), "device": "tpu"}
    assert len(error_of(config).splitlines()) == 3


def test_a_mistake_on_the_command_line_is_said_to_be_there(tmp_path: Path) -> None:
    second = tmp_path / "own.yaml"
    second.write_text("device: tpu\n")
    config = {**DEFAULT, "device": "tpu", "dtype": "int8"}
    message = error_of(config, files=[FILE, second], overrides={"dtype": "int8"})
    assert "--config: dtype: " in message
    assert f"{second}: device: " in message


def test_a_yaml_key_given_twice_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("device: cpu\nmeasure:\n  timeout_s: 3\n  timeout_s: 4\n")
    message = error_of(DEFAULT, files=[file])
    assert message == f"{file}: line 4: the key timeout_s is given twice; keep one of them"


@pytest.mark.parametrize("text", [b"a: [", b"? [a]\n: 1\n", b"a: \xff\n", b"\x00"])
def test_a_file_that_is_no_yaml_is_named(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "own.yaml"
    file.write_bytes(text)
    assert error_of(DEFAULT, files=[file]).startswith(f"{file}: ")


def test_an_unknown_implementation_is_named_with_each_broken_kernel() -> None:
    known = Implementations({}, ["kernels/mine.py: line 3: invalid syntax"])
    with pytest.raises(ConfigError) as caught:
        resolve_config(DEFAULT, known)
    assert "baseline: unknown implementation Pytorch; kernels/ has " in str(caught.value)
    assert "unusable: kernels/mine.py: line 3: invalid syntax" in str(caught.value)


def test_yaml_merge_keys_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("author: &me {name: A}\nmeasure: {<<: *me, timeout_s: 3}\n")
    assert resolve_config(DEFAULT, IMPLEMENTATIONS, [file])["measure"]["timeout_s"] == 300


def test_the_default_file_says_what_the_schema_defaults_to() -> None:
    def check(schema: dict[str, Any], document: dict[str, Any], path: str) -> int:
        count = 0
        for key, part in schema["properties"].items():
            if part.get("type") == "object" and key in document and key != "remarks":
                count += check(part, document[key], f"{path}{key}.")
            elif "default" in part and key in document:
                assert document[key] == part["default"], f"{path}{key}"
                count += 1
        return count

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert check(schema, DEFAULT, "") == 11
    kept = {key: DEFAULT[key] for key in ("summary", "experiments")}
    assert resolve_config(kept, IMPLEMENTATIONS) == resolve_config(DEFAULT, IMPLEMENTATIONS)


def test_the_configuration_handed_over_stays_as_it_was() -> None:
    config = {key: copy.deepcopy(DEFAULT[key]) for key in ("summary", "experiments")}
    before = copy.deepcopy(config)
    resolve_config(config, IMPLEMENTATIONS)
    assert config == before


wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400 + 1) | st.floats() | st.text()
    | st.binary() | st.dates() | st.just({1, 2}) | st.sampled_from(["Flash2", "time", 0, 1.0]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text() | st.integers() | st.none() | st.dates(), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


@given(st.sampled_from(sorted(key_paths(DEFAULT), key=str)), wild)
@settings(max_examples=300, deadline=None)
def test_a_wild_value_is_refused_in_words_or_can_be_planned(path: Any, value: Any) -> None:
    config = with_value(path, value)
    try:
        resolved = resolve_config(config, IMPLEMENTATIONS, [FILE])
    except ConfigError:
        return
    for device in ("cuda", "cpu"):
        for planned in plan.experiments(resolved, device):
            for run in planned.runs("float16", device):
                assert costs.flops(run.shape)["forward"] > 0
                canonical({"run": run.to_json(), "protocol": plan.protocol_of(resolved)})


@pytest.mark.parametrize("value", [datetime.date(2026, 1, 1), {1}, b"x", {None: 1}, [[]]])
def test_values_that_json_has_not_are_refused_in_words(value: Any) -> None:
    assert f"{FILE}: " in error_of(with_value(("measure", "timeout_s"), value), files=[FILE])


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_limit_is_a_finite_number(number: float) -> None:
    for path in (("measure", "timeout_s"), ("measure", "sampled", "max_seconds")):
        assert path[-1] in error_of(with_value(path, number), files=[FILE])
