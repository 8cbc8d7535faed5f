"""Configurations: layers of files and calls, and what is said of a mistake, to the character."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementations
from flashlab.config import (
    BUILT_IN,
    ConfigError,
    Layer,
    config_file,
    named_benchmark,
    parse_override,
    parse_yaml,
    place_of,
    read_layer,
    resolve_config,
)
from flashlab.config.model import CONFIGURATION, EXAMPLES
from flashlab.files import canonical
from flashlab.hw4.program import steps
from flashlab.plan.experiments import experiments_of, protocol_of, runs_of

IMPLEMENTATIONS = ("Pytorch", "Flash2", "FlashLab")
FILE = BUILT_IN / "config" / "config.yaml"
DEFAULT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
Config = dict[str, Any]


def key_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key and list item."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from key_paths(inner, (*path, key))


def resolved(*layers: Config | Layer) -> Config:
    """The configuration that the layers make; keys alone are a file's."""
    made = (each if isinstance(each, Layer) else Layer("config.yaml", each) for each in layers)
    return resolve_config([*made], IMPLEMENTATIONS)


def own(*items: Any, **keys: Any) -> Layer:
    """A user's file with these experiments and keys."""
    return Layer("own.yaml", {"experiments": list(items), **keys})


def test_the_last_layer_that_names_a_benchmark_decides_which_it_is() -> None:
    layers = [own(benchmark="training"), Layer("--config", {"ladder": "t28"}), own(device="cpu")]
    found = [named_benchmark(each) for each in (layers, layers[::-1], layers[2:])]
    assert found == ["ladder", "training", "attention"]


# Experiments by name


def test_an_experiment_is_taken_by_name_as_it_is_or_with_changes() -> None:
    changed = {"use": "causal", "name": "short", "title": {"en": "Mask"}, "figures": ["time"]}
    found = resolved(DEFAULT, own("emb_dim", changed, "causal"))["experiments"]
    before = {e["name"]: e for e in resolved(DEFAULT)["experiments"]}
    causal = before["causal"]
    mine = {**causal, **changed, "title": {**causal["title"], "en": "Mask"}}
    assert found == [before["emb_dim"], {k: mine[k] for k in causal}, causal]


def test_implementations_are_those_of_all_experiments_that_name_none_of_their_own() -> None:
    """A layer above that names no experiments replaces them all."""
    other = {"use": "emb_dim", "implementations": ["Pytorch"]}
    layer = own("seq_len", other, implementations=["Flash2"])
    both = ["Flash2", "Pytorch"]
    over = Layer("--config", {"implementations": both})
    for layers, measured in (([layer], [["Flash2"], ["Pytorch"]]), ([layer, over], [both, both])):
        experiments = resolved(DEFAULT, *layers)["experiments"]
        assert [each["implementations"] for each in experiments] == measured


def test_each_layer_takes_experiments_from_those_below_and_two_sizes_the_place_of_others() -> None:
    cuda = {"num_heads": 16, "head_dim": 128}
    changed = own({"use": "seq_len", "cuda": cuda}, {"use": "causal", "name": "c"},
                  summary={"cuda": {**cuda, "seq_len": 8}})  # fmt: skip
    last = {"experiments": ["seq_len", "c", "emb_dim"]}
    config = resolved(DEFAULT, changed, Layer("--config", last))
    assert [each["name"] for each in config["experiments"]] == last["experiments"]
    for block in (config["experiments"][0]["cuda"], config["summary"]["cuda"]):
        assert "emb_dim" not in block and block["batch_size"] == 16
        assert (block["num_heads"], block["head_dim"]) == (16, 128)


# What the documents say


def test_the_experiments_that_the_readme_shows_are_usable() -> None:
    readme = FILE.with_name("README.md").read_text(encoding="utf-8")
    blocks = re.findall("```yaml\n(.*?)```", readme, re.DOTALL)
    by_name, defined = (yaml.safe_load(b) for b in blocks if "figures" in b)
    layers = [read_layer(FILE), Layer("by name", by_name), own(*defined)]
    for count in (2, 3):
        resolve_config(layers[:count], (*IMPLEMENTATIONS, "Flex"))


def test_the_forms_that_messages_show_are_usable() -> None:
    for key, example in EXAMPLES.items():
        override = parse_override(f"{key}={json.dumps(example)}")
        if key != "title":  # of an experiment
            assert override == {key: example}
            resolved(DEFAULT, Layer("--config", override))


def test_the_default_file_says_what_the_model_defaults_to() -> None:
    kept = {key: DEFAULT[key] for key in ("summary", "implementations", "experiments")}
    assert resolved(kept) == resolved(DEFAULT)


# Files and the command line


LAUGHS = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c {<<: {x: *%c}, y: *%c}\n" % (key, key, key - 1, key - 1)
    for key in b"bcdefghijklmnopq"
)
"""Half a kilobyte whose aliases stand for a hundred thousand lists."""


def test_a_file_that_holds_no_keys_is_named(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    for text, said in {
        b"": "It cannot be read: No such file",
        b"author:\n  name: \xe7\x8e\x8b\xff\n": "line 2, column 10: not UTF-8 text; save ",
        LAUGHS: "line 1, column 1: with its aliases it has more than 1,000,000 characters; use",
    }.items():
        if text:
            file.write_bytes(text)
        with pytest.raises(ConfigError, match=re.escape(f"{file}: {said}")):
            read_layer(file)


def test_a_key_on_the_command_line_has_the_value_that_a_file_would_give_it() -> None:
    given = {
        **{"dataset=h200": "h200", "reproduce=5": 5, "pdf=a: b.pdf": "a: b.pdf", 'pdf="b\'"': "b'"},
        **{"measure={sampled: {max_seconds: 1}}": {"sampled": {"max_seconds": 1}}, 'pdf="': '"'},
        **{"import=[x": "[x", "langauges=[en": "[en"},  # to be refused for its key
    }
    for argument, value in given.items():
        assert parse_override(argument) == {argument.partition("=")[0]: value}


def test_what_is_sound_is_read_as_yaml_reads_it_and_each_key_has_its_line(tmp_path: Path) -> None:
    layer = read_layer(FILE)
    assert layer.keys == DEFAULT
    line = FILE.read_text(encoding="utf-8").splitlines().index("summary:") + 1
    assert place_of(("summary", "none"), [layer]) == f"{FILE}, line {line}: summary.none"
    marked = tmp_path / "marked.yaml"
    marked.write_text("a: &x {b: 1}\nc: {<<: *x, d: *x}\n", encoding="utf-8-sig")
    assert read_layer(marked).keys["c"] == {"b": 1, "d": {"b": 1}}


@given(st.text(alphabet="ab1 \n\t:-[]{},'\"&*!|>%@#?<~.\\\x00é", max_size=30))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_value_or_a_mistake_in_words(text: str) -> None:
    try:
        parse_yaml(text, "text")
    except ConfigError as error:
        assert "\n" not in str(error)


# Mistakes


MISTAKES = tomllib.loads(Path(__file__).with_name("config_mistakes.toml").read_text("utf-8"))
KEYS = ", ".join(CONFIGURATION.model_fields)


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_the_message_of_a_mistake_says_where_it_is_what_is_wrong_and_the_remedy(
    mistake: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("own.yaml")
    file.write_text(mistake.get("file", ""), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        call = mistake.get("call")
        resolved(DEFAULT, Layer("--config", parse_override(call)) if call else read_layer(file))
    _, _, text = f"\n{caught.value}".rpartition("is not usable:")
    says = [mistake["says"]] if isinstance(mistake["says"], str) else mistake["says"]
    assert text.strip().split("\n  ") == [line.replace("{keys}", KEYS) for line in says]


def test_an_unknown_implementation_is_named_with_each_broken_kernel() -> None:
    known = Implementations({}, {"mine": "kernels/mine.py: line 3: invalid syntax"})
    said = "unusable: kernels/mine.py: line 3: invalid syntax; kernels/ has "
    with pytest.raises(ConfigError, match=f"baseline: unknown implementation Pytorch; {said}"):
        resolve_config([Layer("config.yaml", DEFAULT)], known)


# Cases of the ladder: in place of their sizes, and chosen by ``ladder=``

STEPS = [*steps()]


def ladder(**keys: Any) -> Config:
    base = read_layer(BUILT_IN / config_file("ladder"))
    return resolve_config([base, Layer("--config", keys)], STEPS)


def test_only_the_chosen_cases_are_measured_by_every_step() -> None:
    config = ladder(ladder="t28, t12")
    (experiment,) = config["experiments"]
    assert (experiment["cuda"], experiment["implementations"]) == ({"case": [28, 12]}, STEPS)
    assert config["summary"]["cuda"] == {"case": 28} and "ladder" not in config


def case(**cuda: Any) -> Config:
    """An experiment of these sizes on a GPU."""
    (experiment,) = ladder(ladder="t28")["experiments"]
    return {"experiments": [{**experiment, "cuda": cuda}]}


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"ladder": "t31"}, "--config: ladder: there is no test case"),
        (case(case=[28], seq_len=128), r"cuda\.case: stands for batch_size, .* remove seq_len"),
        (case(batch_size=2, seq_len=128, head_dim=32), "sweep is case; give its values"),
    ],
)
def test_a_case_that_there_is_not_or_that_is_half_given_is_named(keys: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ladder(**keys)


# Anything


wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400 + 1) | st.floats() | st.text()
    | st.binary() | st.dates() | st.just({1, 2}) | st.sampled_from(["Flash2", "time", 0, 1.0]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text() | st.integers() | st.none() | st.dates(), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


@given(st.sampled_from(sorted(key_paths(DEFAULT), key=str)), wild)
@settings(max_examples=150, deadline=None)
def test_a_wild_value_is_refused_in_words_or_can_be_planned(path: Any, value: Any) -> None:
    config = deepcopy(DEFAULT)
    reduce(getitem, path[:-1], config)[path[-1]] = value
    try:
        usable = resolved(config)
    except ConfigError as error:
        # What relates keys to one another is reported where it can be mended: at any of them.
        named = re.findall(r"^  .*?: ([^ :\[.]+)", str(error), re.MULTILINE)
        assert path[0] in named or named == ["baseline"], error
        return
    for device in ("cuda", "cpu"):
        for run in runs_of(experiments_of(usable, ATTENTION, ("float16", device))):
            assert costs.flops(Shape.of(run))["forward"] > 0
            canonical({"run": run.to_json(), "protocol": protocol_of(usable, device)})
