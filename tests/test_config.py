from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import config_keys
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementations
from flashlab.config import (
    ConfigError,
    Layer,
    merged,
    parse_override,
    read_config,
    read_layer,
    resolve_config,
)
from flashlab.config.model import Configuration
from flashlab.files import canonical
from flashlab.plan import planning as plan

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


def resolved(*layers: Config | Layer) -> Config:
    """The configuration that the layers make; keys alone are a file's."""
    return resolve_config(
        [layer if isinstance(layer, Layer) else Layer("config.yaml", layer) for layer in layers],
        IMPLEMENTATIONS,
    )


def error_of(*layers: Config | Layer) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(*layers)
    return str(caught.value)


def sweep(**values: Any) -> Callable[[Config], None]:
    return lambda config: config["experiments"][0]["cuda"].update(values)


def experiment(**values: Any) -> Callable[[Config], None]:
    return lambda config: config["experiments"][0].update(values)


def without(*sizes: str, **values: Any) -> Callable[[Config], None]:
    """Takes sizes out of the first experiment's shapes on CUDA, and gives others there."""

    def change(config: Config) -> None:
        cuda = config["experiments"][0]["cuda"]
        cuda.update(values)
        for size in sizes:
            del cuda[size]

    return change


def head_dim_sweep(**sizes: Any) -> Callable[[Config], None]:
    """Sweeps head_dim in the first experiment, with these sizes on CUDA."""
    others = {"batch_size": 1, "seq_len": 64, "causal": False}
    cpu = {**others, "num_heads": 2, "head_dim": [8, 16]}
    return experiment(sweep="head_dim", cuda={**others, **sizes}, cpu=cpu)


WRONG: dict[str, tuple[Callable[[Config], None], list[str]]] = {
    "unknown key": (lambda c: c.update(datset="local"), ["datset", "did you mean dataset?"]),
    "wrong type": (
        lambda c: c["measure"].update(timeout_s="long"),
        ["measure.timeout_s", "must be a number", '"long"'],
    ),
    "a word that is nearly one of some": (
        lambda c: c.update(counters="ye"), ["counters", "must be one of", "ye (did you mean yes?)"]
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
    "a number in quotes": (
        sweep(batch_size="16"), ["experiments[0].cuda.batch_size", "write 16 without quotes"]
    ),
    "a number that YAML takes for text": (
        lambda c: c["measure"]["sampled"].update(relative_interval="1e-3"),
        ["measure.sampled.relative_interval", "write 0.001 without quotes"],
    ),
    "a number for a text": (
        lambda c: c.update(author={"id": 113062000}), ["author.id", "put text in quotes"]
    ),
    "a value for a list": (
        experiment(implementations="Flash2"),
        ["experiments[0].implementations", "must be a list", "write [Flash2]"],
    ),
    "a dtype by another name": (lambda c: c.update(dtype="FP16"), ["dtype", "mean float16?"]),
    "a language by another name": (
        lambda c: c.update(languages=["zh-tw"]), ["languages[0]", "did you mean zh_TW?"]
    ),
    "no space after a colon": (
        lambda c: c["measure"].update({"timeout_s:3": None}),
        ["measure.timeout_s:3", "put a space after the colon of timeout_s"],
    ),
    "a text for a mapping": (
        lambda c: c.update(remarks="mine.md"),
        ["remarks", "must be a mapping of keys", 'for example {"seq_len": {"en": '],
    ),
    "a title in one language": (
        experiment(title="Length"),
        ["experiments[0].title", 'for example {"zh_TW": "序列長度", "en": "Sequence length"}'],
    ),
    "a blank title": (
        experiment(title={"zh_TW": " ", "en": "Length"}), ["experiments[0].title.zh_TW", "is empty"]
    ),
    "a list without brackets": (
        lambda c: c["experiments"][0]["cuda"].update({32: None}),
        ["experiments[0].cuda[32]", "a list is written in [ ]"],
    ),
    "a sweep by its symbol": (
        experiment(sweep="N"), ["experiments[0].sweep", "did you mean seq_len?"]
    ),
    "a word for true or false": (
        sweep(causal="maybe"), ["experiments[0].cuda.causal", "true or false without quotes"]
    ),
    "a key with nothing under it": (
        lambda c: c.update(author=None),
        ["author", "has no value", "remove the key", 'for example {"name": '],
    ),
    "experiments by name": (
        lambda c: c.update(experiments={"seq_len": {}}),
        ["experiments", "must be a list", "begin each item of the list with a hyphen"],
    ),
    "one side of a comparison": (
        lambda c: c.update(compare=["h200"]), ["compare", "holds 1 of at least 2 values"]
    ),
    "a name that no folder can have": (
        experiment(name="n" * 61), ["experiments[0].name", "at most 60 characters, found 61"]
    ),
    "a folder of no name": (lambda c: c.update(submissions=""), ["submissions", "is empty"]),
    "a figure with an unknown key": (
        experiment(figures=[{"metric": "time", "implementation": ["Flash2"]}]),
        ["experiments[0].figures[0].implementation", "did you mean implementations?"],
    ),
    "a long value": (
        lambda c: c.update(baseline=list(range(1000))), ["baseline", "must be text", "15, 16, 1"]
    ),
    "emb_dim not divisible": (
        sweep(emb_dim=2000), ["experiments[0].cuda.emb_dim", "32", "such as 1984"]
    ),
    "head_dim beside the two others": (
        sweep(head_dim=64), ["experiments[0].cuda: give two of", "the third follows", "remove one"]
    ),
    "head_dim that contradicts the two others": (
        sweep(head_dim=128), ["experiments[0].cuda", "32 × 128 is 4096, not 2048; remove one"]
    ),
    "num_heads alone": (
        without("emb_dim"), ["experiments[0].cuda: give two of", "found only num_heads"]
    ),
    "emb_dim that head_dim does not divide": (
        without("num_heads", head_dim=60),
        ["experiments[0].cuda.emb_dim", "head_dim 60 does not divide 2048", "such as 2040"],
    ),
    "a sweep of what follows": (
        head_dim_sweep(num_heads=8, emb_dim=[128, 256]),
        ["experiments[0].cuda: sweep is head_dim, which follows here from num_heads and emb_dim"],
    ),
    "a head_dim that is no list to sweep": (
        head_dim_sweep(num_heads=8, head_dim=64),
        ["experiments[0].cuda.head_dim", "a list of values, found 64"],
    ),
    "empty sweep": (sweep(seq_len=[]), ["experiments[0].cuda.seq_len", "at least one value"]),
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
    "a figure twice": (
        experiment(supplement=["time"]), ["experiments[0].supplement[0]", "asked for twice"]
    ),
    "a figure of what is not measured": (
        experiment(implementations=["Flash2"], figures=[
            {"metric": "time", "implementations": ["Pytorch"]}]),
        ["experiments[0].figures[0].implementations", "add it"],
    ),
    "an unknown metric": (experiment(figures=["speed"]), ["figures[0]", "time, rate, memory"]),
    "the headline table's name": (experiment(name="summary"), ["experiments[0].name", "rename"]),
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
    header, *lines = error_of(config).splitlines()
    assert header == "The configuration is not usable:"
    assert len(lines) == 1
    assert lines[0].startswith("  config.yaml: ")
    for part in expected:
        assert part in lines[0]


def test_all_mistakes_are_reported_at_once() -> None:
    config = {**with_value(("experiments", 0, "cuda", "seq_len"), []), "device": "tpu"}
    assert len(error_of(config).splitlines()) == 3


def test_a_mistake_on_the_command_line_is_said_to_be_there(tmp_path: Path) -> None:
    second = tmp_path / "own.yaml"
    second.write_text("device: tpu\n")
    message = error_of(DEFAULT, read_layer(second), Layer("--config", {"dtype": "int8"}))
    assert "--config: dtype: " in message
    assert f"{second}, line 1: device: " in message


def test_what_lacks_in_a_list_lacks_in_the_file_that_gave_the_list() -> None:
    own = {"experiments": [{**DEFAULT["experiments"][0], "title": {"en": "Length"}}]}
    message = error_of(DEFAULT, Layer("own.yaml", own))
    assert "own.yaml: experiments[0].title.zh_TW: is missing" in message


# Experiments by name


def own(*items: Any, **keys: Any) -> Layer:
    return Layer("own.yaml", {"experiments": list(items), **keys})


def test_an_experiment_is_taken_by_name_as_it_is_or_with_changes() -> None:
    titled = {"use": "causal", "title": {"en": "Mask"}, "cuda": {"seq_len": [64, 32]}}
    renamed = {"use": "seq_len", "name": "short", "supplement": ["rate"], "figures": ["time"]}
    found = resolved(DEFAULT, own("emb_dim", titled, "seq_len", renamed))["experiments"]
    before = {e["name"]: e for e in resolved(DEFAULT)["experiments"]}
    causal = before["causal"]
    assert found == [
        before["emb_dim"],
        {
            **causal,
            "title": {**causal["title"], "en": "Mask"},
            "cuda": {**causal["cuda"], "seq_len": [64, 32]},
        },
        before["seq_len"],
        {**before["seq_len"], "name": "short", "supplement": ["rate"], "figures": ["time"]},
    ]


def test_implementations_are_those_of_all_experiments_that_name_none_of_their_own() -> None:
    mine = {**resolved(DEFAULT)["experiments"][0], "name": "mine"}
    other = {"use": "emb_dim", "implementations": ["Pytorch"]}
    layer = own("seq_len", other, {k: v for k, v in mine.items() if k != "implementations"},
                {**mine, "name": "named"}, implementations=["Flash2"])  # fmt: skip
    config = resolved(DEFAULT, layer)
    measured = {e["name"]: e["implementations"] for e in config["experiments"]}
    assert measured == {
        "seq_len": ["Flash2"], "emb_dim": ["Pytorch"], "mine": ["Flash2"],
        "named": ["Pytorch", "Flash2"],
    }  # fmt: skip
    assert config["summary"]["implementations"] == ["Pytorch", "Flash2"]
    assert "implementations" not in config


def test_implementations_without_experiments_replace_those_of_all_below() -> None:
    explicit = {"use": "causal", "implementations": ["Pytorch", "Flash2"]}
    over = Layer("--config", {"implementations": ["Flash2", "Pytorch"]})
    config = resolved(DEFAULT, own("seq_len", explicit), over)
    assert [e["implementations"] for e in config["experiments"]] == [["Flash2", "Pytorch"]] * 2


def test_each_layer_takes_experiments_from_those_below() -> None:
    changed = own({"use": "seq_len", "cuda": {"seq_len": [1, 2]}}, {"use": "causal", "name": "c"})
    (seq_len, c, emb_dim) = resolved(
        DEFAULT, changed, Layer("--config", {"experiments": ["seq_len", "c", "emb_dim"]})
    )["experiments"]
    assert (seq_len["cuda"]["seq_len"], c["name"], emb_dim["name"]) == ([1, 2], "c", "emb_dim")


def test_where_nothing_lies_below_the_built_in_experiments_are_taken() -> None:
    """As in the configuration that a workflow gives which uses this one as a module."""
    given = {"summary": DEFAULT["summary"], "experiments": ["num_heads"]}
    assert resolved(given)["experiments"] == [resolved(DEFAULT)["experiments"][3]]


def test_two_sizes_of_the_heads_take_the_place_of_two_others_below() -> None:
    cuda = {"num_heads": 16, "head_dim": 128}
    config = resolved(
        DEFAULT, own({"use": "seq_len", "cuda": cuda}, summary={"cuda": {**cuda, "seq_len": 8}})
    )
    for block in (config["experiments"][0]["cuda"], config["summary"]["cuda"]):
        assert "emb_dim" not in block and block["batch_size"] == 16
        assert (block["num_heads"], block["head_dim"]) == (16, 128)


UNUSABLE: dict[str, tuple[list[Any], list[str]]] = {
    "a name that is not there": (
        ["seq_lem"],
        ["own.yaml: experiments[0]: there is no experiment seq_lem (did you mean seq_len?)",
         "known: seq_len, causal, batch_size, num_heads, emb_dim"],
    ),
    "a number": (["causal", 3], ["own.yaml: experiments[1]: must be a mapping of keys, found 3"]),
    "another sweep": (
        [{"use": "causal", "sweep": "emb_dim"}],
        ["own.yaml: experiments[0].sweep: cannot be changed", "define an experiment of your own"],
    ),
    "an unknown key": (
        [{"use": "causal", "figure": ["time"]}],
        ["own.yaml: experiments[0].figure: unknown key (did you mean figures?)"],
    ),
    "one experiment twice": (
        ["causal", {"use": "causal", "figures": ["time"]}],
        ["own.yaml: experiments[1]: causal names two experiments; rename or remove one"],
    ),
    "a changed value": (
        [{"use": "causal", "cuda": {"emb_dim": 100}}],
        ["own.yaml: experiments[0].cuda.emb_dim: num_heads 32 does not divide 100"],
    ),
    "processes of what is not measured": (
        [{"use": "causal", "replicates": {"Flex": 3}}],
        ["own.yaml: experiments[0].replicates.Flex: Flex is not measured in this experiment; add"],
    ),
    "a change that does not go with what stays": (
        [{"use": "causal", "implementations": ["Pytorch"]}],
        ["config.yaml: experiments[1].figures[0].implementations "
         "(changed by own.yaml: experiments[0])",
         "Flash2 is not measured in this experiment; add it"],
    ),
    "a head_dim beside what stays": (
        [{"use": "causal", "cuda": {"head_dim": 128}}],
        ["own.yaml: experiments[0].cuda: give two of num_heads, emb_dim, head_dim"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", UNUSABLE)
def test_an_item_that_cannot_be_used_is_named_where_it_is(wrong: str) -> None:
    items, expected = UNUSABLE[wrong]
    (line,) = error_of(DEFAULT, own(*items)).splitlines()[1:]
    assert line.startswith(f"  {expected[0]}")
    assert all(part in line for part in expected)


def test_a_mistake_in_shared_implementations_is_reported_once_and_there() -> None:
    layer = Layer("--config", {"implementations": ["Pytorch", "Flash3"]})
    lines = error_of(DEFAULT, layer).splitlines()[1:]
    assert "  --config: implementations[1]: unknown implementation Flash3 (did you mean" in lines[0]
    layer = Layer("--config", {"implementations": "Flash2"})
    (line,) = error_of(DEFAULT, layer).splitlines()[1:]
    assert line == '  --config: implementations: must be a list, found "Flash2"; write [Flash2]'


def test_the_experiments_that_the_readme_shows_are_usable() -> None:
    readme = FILE.with_name("README.md").read_text(encoding="utf-8")
    blocks = re.findall("```yaml\n(.*?)```", readme, re.DOTALL)
    by_name, defined = (yaml.safe_load(b) for b in blocks if "figures" in b)
    layers = [read_layer(FILE), Layer("by name", by_name), own(*defined)]
    resolve_config(layers[:2], (*IMPLEMENTATIONS, "Flex"))
    resolve_config(layers, (*IMPLEMENTATIONS, "Flex"))


def test_the_readme_has_every_key_with_its_default() -> None:
    readme = config_keys.README.read_text(encoding="utf-8")
    assert readme == config_keys.renewed(readme), "run: python tests/config_keys.py"
    assert "| `memory_mb` | MB of memory of a job" in readme


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a: [", "line 1, column 5: "),
        (b"a: \xff\n", "line 1, column 4: not UTF-8"),
        (b"", "must hold keys with values, such as device: cpu; found nothing"),
        (b"- a\n", 'must hold keys with values, such as device: cpu; found ["a"]'),
    ],
)
def test_a_file_that_holds_no_keys_is_named(tmp_path: Path, text: bytes, expected: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        read_config(file)
    assert str(caught.value).startswith(f"{file}: {expected}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        read_config(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("dataset=h200", {"dataset": "h200"}),
        ("name=0123", {"name": "0123"}),
        ("name=1e3", {"name": "1e3"}),
        ("pdf=a: b.pdf", {"pdf": "a: b.pdf"}),
        ("import=[x", {"import": "[x"}),
        ("reproduce=5", {"reproduce": 5}),
        ("languages=[en]", {"languages": ["en"]}),
        ('author={"name": "王小明"}', {"author": {"name": "王小明"}}),
        ('measure={"sampled": {"max_seconds": 1}}', {"measure": {"sampled": {"max_seconds": 1}}}),
        ("measure={sampled: {max_seconds: 1}}", {"measure": {"sampled": {"max_seconds": 1}}}),
        ("measure={'lab5': {'repeats': 3}}", {"measure": {"lab5": {"repeats": 3}}}),
        ("langauges=[en", {"langauges": "[en"}),  # to be refused for its key
    ],
)
def test_a_key_on_the_command_line_has_the_value_that_a_file_would_give_it(
    argument: str, expected: dict[str, Any]
) -> None:
    assert parse_override(argument) == expected


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("languages", "--config: languages: write KEY=VALUE, such as device=cpu"),
        ("measure.sampled.max_seconds=1", "write 'measure={sampled: {max_seconds: 1}}'"),
        ("measure={sampled: {max_seconds: 1}", "line 1, column 27: expected ',' or '}'"),
        ("measure={lab5: ]}", 'for example {"sampled": {"max_seconds": 1}}'),
    ],
)
def test_a_value_on_the_command_line_that_is_no_yaml_is_refused_with_the_right_form(
    argument: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_override(argument)
    assert str(caught.value).startswith("--config: ")
    assert expected in str(caught.value)


def test_mappings_merge_and_lists_replace() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    assert merged(base, {"a": {"c": [3]}, "d": {"e": 5}}) == {
        "a": {"b": 1, "c": [3]},
        "d": {"e": 5},
    }
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 4}


def test_the_forms_that_messages_show_are_usable() -> None:
    fields = Configuration.model_fields
    shown = {key: field.examples for key, field in fields.items() if field.examples}
    assert {"measure", "languages", "author", "remarks"} <= set(shown)
    for key, examples in shown.items():
        for example in examples:
            override = parse_override(f"{key}={json.dumps(example)}")
            assert override == {key: example}
            resolved(DEFAULT, Layer("--config", override))


def test_a_baseline_that_nothing_measures_is_refused_with_what_is_measured() -> None:
    known = (*IMPLEMENTATIONS, "FlashLab")
    layer = Layer("config.yaml", {**DEFAULT, "baseline": "FlashLab"})
    with pytest.raises(ConfigError) as caught:
        resolve_config([layer], known)
    _, line = str(caught.value).splitlines()
    assert line.startswith("  config.yaml: baseline: no experiment measures FlashLab")
    assert "take one of Pytorch, Flash2 (did you mean Flash2?)" in line
    summary = {"summary": {"implementations": ["FlashLab"]}}
    resolve_config([layer, Layer("--config", summary)], known)


def test_what_to_count_may_name_what_no_experiment_measures() -> None:
    assert resolved(DEFAULT, {"counted": ["SdpaCudnn"]})["counted"] == ["SdpaCudnn"]


def test_an_unknown_implementation_is_named_with_each_broken_kernel() -> None:
    known = Implementations({}, {"mine": "kernels/mine.py: line 3: invalid syntax"})
    with pytest.raises(ConfigError) as caught:
        resolve_config([Layer("config.yaml", DEFAULT)], known)
    assert "baseline: unknown implementation Pytorch; kernels/ has " in str(caught.value)
    assert "unusable: kernels/mine.py: line 3: invalid syntax" in str(caught.value)


def test_the_default_file_says_what_the_model_defaults_to() -> None:
    kept = {key: DEFAULT[key] for key in ("summary", "implementations", "experiments")}
    assert resolved(kept) == resolved(DEFAULT)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (0, "must be at least 1"),
        (21, "must be at most 20"),
        ({"gpu": 3}, "did you mean cuda?"),
        ({"cpu": 0}, "replicates.cpu: must be at least 1"),
        ("many", "must be a whole number or a mapping of keys"),
        (2.5, "must be a whole number or a mapping of keys"),
        (True, "must be a whole number or a mapping of keys"),
    ],
)
def test_replicates_that_are_no_number_of_processes_are_refused(given: Any, problem: str) -> None:
    assert problem in error_of(with_value(("replicates",), given))


def test_the_configuration_handed_over_stays_as_it_was() -> None:
    config = copy.deepcopy(DEFAULT)
    resolved(config, Layer("--config", {"implementations": ["Flash2", "Pytorch"]}))
    assert config == DEFAULT


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
    config = with_value(path, value)
    try:
        usable = resolved(config)
    except ConfigError as error:
        # What relates keys to one another is reported where it can be mended: at any of them.
        named = re.findall(r"^  .*?: ([^ :\[.]+)", str(error), re.MULTILINE)
        assert path[0] in named or named == ["baseline"], error
        return
    for device in ("cuda", "cpu"):
        for planned in plan.experiments(usable, ATTENTION, device):
            for run in planned.runs("float16", device):
                assert costs.flops(Shape.of(run))["forward"] > 0
                canonical({"run": run.to_json(), "protocol": plan.protocol_of(usable, device)})
