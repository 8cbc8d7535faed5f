"""Observations in words: the macros of ``templates/story/<benchmark>.<language>.j2``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from flashlab.numbers import FILTERS
from flashlab.story import words
from flashlab.story.observation import Observation
from flashlab.telling.compiled import bytecode_cache

TEMPLATES = Path(__file__).parents[3] / "templates" / "story"

RETOLD = ("ladder", "training")
"""The stories that `words` tells."""

COMMON = "common"
"""The templates of what reports on every benchmark say."""

_LINE_END = re.compile(r"\s*\n\s*")
_SPACES = re.compile(r"\s+")


class StoryError(Exception):
    """An observation that a template cannot tell: a macro that it lacks, or a fact."""


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        bytecode_cache=bytecode_cache(TEMPLATES),
    )
    environment.filters.update(FILTERS)
    return environment


@cache
def macros(benchmark: str, language: str) -> Any:
    """The module of a story's macros in a language, each of which is an attribute of it."""
    return _environment().get_template(f"{benchmark}.{language}.j2").module


def tell(observation: Observation, benchmark: str, language: str) -> str:
    """The text of an observation in a language.

    Raises:
        StoryError: there is no macro of its name, or it uses a fact that is missing.
    """
    if benchmark in RETOLD:
        return words.sentence(observation, language, benchmark)
    name = observation.name
    template = COMMON if hasattr(macros(COMMON, language), name) else benchmark
    where = f"templates/story/{template}.{language}.j2"
    macro = getattr(macros(template, language), name, None)
    if macro is None:
        raise StoryError(f"{where} has no macro {name}")
    try:
        text = str(macro(observation.facts))
    except jinja2.UndefinedError as error:
        raise StoryError(f"{where}, {name}: {error}") from error
    joined = _LINE_END.sub("" if language == "zh_TW" else " ", text.strip())
    return _SPACES.sub(" ", joined)
