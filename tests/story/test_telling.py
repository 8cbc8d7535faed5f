"""Observations in words: the same macros in each language, and an error where one is missing."""

import json
from pathlib import Path

import jinja2.nodes
import pytest

from flashlab.story import words
from flashlab.story.observation import Observation, read_observations, write_observations
from flashlab.story.registry import STORIES
from flashlab.story.telling import TEMPLATES, StoryError, _environment, tell


def macros_in(file: Path) -> list[str]:
    parsed = _environment().parse(file.read_text(encoding="utf-8"))
    return [macro.name for macro in parsed.find_all(jinja2.nodes.Macro)]


@pytest.mark.parametrize(
    "story", [*(words.TEMPLATES / name for name in STORIES), TEMPLATES / "attention"]
)
def test_both_languages_have_the_same_macros_in_the_same_order(story: Path) -> None:
    english, chinese = (macros_in(Path(f"{story}.{language}.j2")) for language in ("en", "zh_TW"))
    shared = [name for name in english if name in chinese]
    assert shared == [name for name in chinese if name in english]
    assert set(chinese) <= set(english)


def test_a_missing_fact_is_an_error_that_names_it() -> None:
    with pytest.raises(StoryError, match=r"attention\.en\.j2, memory_equal: .*count"):
        tell(Observation("memory_equal", "causal", {}), "attention", "en")


def test_a_missing_macro_is_an_error_that_names_it() -> None:
    with pytest.raises(StoryError, match=r"attention\.zh_TW\.j2 has no macro nobody"):
        tell(Observation("nobody", None, {}), "attention", "zh_TW")


def test_a_lines_end_is_a_space_in_english_alone() -> None:
    equal = Observation("why_none", "batch_size", {"p": "B", "nearly": True, "counted": False})
    assert "so operations are proportional" in tell(equal, "attention", "en")
    assert "  " not in tell(equal, "attention", "en")
    assert " " not in tell(equal, "attention", "zh_TW").replace("B ", "")


def test_observations_are_the_same_after_json(tmp_path: Path) -> None:
    """Numbers keep nine digits; what is no number is null."""
    file = tmp_path / "observations.json"
    facts = {"x": 1 / 3, "none": float("nan"), "values": (1, 2)}
    write_observations([Observation("take", "seq_len", facts, [{"ratio": 0.5}])], file)
    assert json.loads(file.read_text())[0]["facts"]["none"] is None
    (read,) = read_observations(file)
    assert read.facts == {"x": 0.333333333, "none": None, "values": [1, 2]}
    assert (read.name, read.section, read.evidence) == ("take", "seq_len", [{"ratio": 0.5}])
