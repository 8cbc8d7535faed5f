"""A mistake in YAML is one message: where it is, what it is, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab.config.strict_yaml import StrictYamlError, line_of, parse_yaml

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"

MISTAKES = {
    "too many levels": ("[" * 5000, "lists or mappings are nested too deeply"),
    "bytes that are no text": (
        "author:\n  name: 王".encode() + b"\xff\n",
        "line 2, column 10: not UTF-8 text; save the file as UTF-8",
    ),
    "another encoding": (
        "a: 1\n".encode("utf-16"),
        "line 1, column 1: not UTF-8 text; save the file as UTF-8",
    ),
}
"""Those that tests/config_mistakes.toml cannot hold."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_place_and_a_remedy(tmp_path: Path, mistake: str) -> None:
    text, expected = MISTAKES[mistake]
    file = tmp_path / "own.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(StrictYamlError) as caught:
        parse_yaml(file.read_bytes())
    assert str(caught.value) == expected


def test_what_is_sound_is_read_as_yaml_reads_it(tmp_path: Path) -> None:
    text = CONFIG.read_text(encoding="utf-8")
    assert parse_yaml(text) == yaml.safe_load(text)
    assert parse_yaml("") is None
    assert parse_yaml("a: &x {b: 1}\nc: {<<: *x, d: *x}\n")["c"] == {"b": 1, "d": {"b": 1}}
    marked = tmp_path / "marked.yaml"
    marked.write_text("a: 1\n", encoding="utf-8-sig")
    assert parse_yaml(marked.read_bytes()) == {"a": 1}


@given(st.text(alphabet="ab1 \n\t:-[]{},'\"&*!|>%@#?<~.\\\x00é", max_size=30))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_value_or_a_mistake_in_words(text: str) -> None:
    try:
        parse_yaml(text)
    except StrictYamlError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("measure", "sampled", "max_seconds"), 3),
        (("experiments", 1, "sweep"), 8),
        (("experiments", 1, "title"), 7),
        (("experiments", 2), 4),
        (("missing",), None),
    ],
)
def test_the_line_of_a_key_or_of_the_innermost_one_above_it(
    tmp_path: Path, path: tuple[str | int, ...], line: int | None
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "measure:\n  sampled: {\n    max_seconds: 1}\n"
        "experiments:\n- {name: a,\n   sweep: b}\n- name: c\n  sweep: d\n"
    )
    assert line_of(file, path) == line
    assert line_of(tmp_path / "none.yaml", path) is None
