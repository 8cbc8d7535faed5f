"""Observations in words.

A kind of sentence is a macro for each of its variants in ``templates/sentences/``: facts choose the
variant and the clauses, so that no macro decides anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2

from flashlab.labels import message
from flashlab.numbers import FILTERS
from flashlab.story.observation import Facts, Observation
from flashlab.telling.compiled import bytecode_cache

TEMPLATES = Path(__file__).parents[3] / "templates" / "sentences"

COMMON = "common"
"""The template of what all stories say."""

Refs = Mapping[str, Mapping[str, str]]
"""By experiment, the numbers of what a sentence points to: ``table``, and figures by quantity, as
they are printed: ``{"seq_len": {"table": "2", "time": "1", "memory": "2"}}``."""

REFERS = {"time": ("table", "time"), "leaders": ("table", "time"), "memory": ("memory",)}
REFERS |= {"mask_time": ("table", "time"), "shared": ("table", "memory")}
"""What a kind of sentence points to, if it is there; each is pointed to once in a section."""

POINTS = {"en": ("Table {}", "Fig. {}", ", ", " ({})"), "zh_TW": ("表 {}", "圖 {}", "、", "（{}）")}
LISTS = {
    "en": {"comma": ", ", "and": " and ", "or": " or "},
    "zh_TW": {"comma": "、", "and": "與", "or": "或"},
}
COUNTS = {
    "en": ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    "zh_TW": ("零", "一", "兩", "三", "四", "五", "六", "七", "八", "九", "十"),
}
"""Small numbers in words."""

_HAN, _LATIN = "\u4e00-\u9fff", "A-Za-z0-9"


class StoryError(Exception):
    """An observation that a template cannot tell: a macro that it lacks, or a fact."""


@dataclass(frozen=True)
class Texts:
    """All that a report says, in a language.

    Attributes:
        answer: page one's, empty where nothing can be said.
        lines: a line an experiment, for page one.
        notices: what page one warns of, a sentence each.
        sections: a paragraph an experiment.
        conclusion: at the end of the report.
    """

    answer: str
    lines: Mapping[str, str]
    notices: Sequence[str]
    sections: Mapping[str, str]
    conclusion: str


def paragraphs(
    observations: Iterable[Observation], language: str, refs: Refs | None = None, story: str = ""
) -> Texts:
    """What a report says in a language: the sentences in their order.

    Args:
        observations: of a dataset (`observation.read_observations`).
        language: ``en`` or ``zh_TW``.
        refs: numbers of tables and figures, for a sentence to point to.
        story: the benchmark, which names the template.

    Raises:
        StoryError: a template lacks a macro, or a fact that it prints.
    """
    every = list(observations)
    open_refs = {section: dict(of) for section, of in (refs or {}).items()}

    def of(place: str, section: str | None = None) -> list[str]:
        found = [each for each in every if each.place == place and each.section == section]
        return [sentence(each, language, story, open_refs.get(section or "")) for each in found]

    sections = dict.fromkeys(e.section for e in every if e.section and e.place == "section")
    lines = dict.fromkeys(e.section for e in every if e.section and e.place == "line")
    return Texts(
        joined(of("answer"), language),
        {name: joined(of("line", name), language) for name in lines},
        of("notice"),
        {name: joined(of("section", name), language) for name in sections},
        joined(of("conclusion"), language),
    )


def sentence(
    observation: Observation, language: str, story: str, refs: dict[str, str] | None = None
) -> str:
    """An observation in words, with a pointer to its table and figures; these leave `refs`."""
    text = tidy(_teller(story, language)(observation.macro, observation.facts), language)
    named = [name for name in REFERS.get(observation.name, ()) if refs and name in refs]
    if not named or refs is None:
        return text
    table, figure, comma, brackets = POINTS[language]
    points = [(table if name == "table" else figure).format(refs.pop(name)) for name in named]
    return f"{text[:-1]}{brackets.format(comma.join(points))}{text[-1]}"


def joined(sentences: Iterable[str], language: str) -> str:
    """Sentences one after the other."""
    return (" " if language == "en" else "").join(filter(None, sentences))


def tidy(text: str, language: str) -> str:
    """A text as it is set: single spaces, in Chinese between it and Latin; numbers with units."""
    text = re.sub(r"\s+", " ", text).strip()
    if language == "zh_TW":
        text = re.sub(rf"(?<=[{_HAN}])(?=[{_LATIN}])|(?<=[{_LATIN}%†])(?=[{_HAN}])", " ", text)
        text = re.sub(rf" *([，。；：、（）]) *|(?<=[{_HAN}]) (?=[{_HAN}])", r"\1", text)
    text = re.sub(r" (?=[,.;:)])", "", text)
    text = re.sub(r"\b(\w+) = (?=\d)", "\\1\u00a0=\u00a0", text).replace(" → ", "\u00a0→\u00a0")
    text = text.replace("N × N", "N\u00a0×\u00a0N")
    return re.sub(r"(\d) (?=(?:ms|MiB|GiB)\b)", "\\1\u00a0", text)


@cache
def _teller(story: str, language: str) -> Callable[[str, Facts], str]:
    """What says facts by a macro of a story's template, or of the common one."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        bytecode_cache=bytecode_cache(TEMPLATES),
    )
    files = [f"{name}.{language}.j2" for name in (story, COMMON)]

    def say(macro: str, facts: Facts) -> str:
        for module in modules:
            if found := getattr(module, macro, None):
                try:
                    return str(found(facts))
                except jinja2.UndefinedError as error:
                    raise StoryError(f"templates/sentences, {macro}: {error}") from error
        raise StoryError(f"templates/sentences/{files[0]} has no macro {macro}")

    environment.filters |= {
        **FILTERS,
        "say": lambda part: say(part["says"], part) if part else "",
        "listed": partial(_listed, LISTS[language]),
        "label": lambda code, kind: message(language, "report", f"{kind}.{code}"),
        "count": lambda number: dict(enumerate(COUNTS[language])).get(number, f"{number:,}"),
        "verb": lambda of, one, many: one if _is_one(of) else many,
    }
    modules = [environment.get_template(file).module for file in files]
    return say


def _listed(between: Mapping[str, str], items: Iterable[Any], last: str = "and") -> str:
    *rest, end = map(str, items)
    return f"{between['comma'].join(rest)}{between[last]}{end}" if rest else end


def _is_one(of: Any) -> bool:
    """True of a list of one thing, or of a clause about one."""
    return len(of["names"] if isinstance(of, Mapping) else of) == 1
