"""Lines in words: one whole sentence each, from the catalogs."""

from __future__ import annotations

from collections.abc import Callable

from flashlab.catalogs import message
from flashlab.grading.model import Line

DOMAIN = "grades"
TRANSLATED = ("pass", "experiment")
"""Parameters whose values are keys of the catalog themselves."""


def domain_of(key: str) -> str:
    """The catalog that a message is in: what reading a file finds is worded with the reader."""
    return "course" if key.startswith("form.") else DOMAIN


def word(key: str, language: str, /, **params: object) -> str:
    """A message in a language, with its parameters filled in."""
    return message(language, domain_of(key), key).format_map(params)


def sentence(line: Line, language: str, show: Callable[[str], str]) -> str:
    """A line as a sentence, its parameters made safe by `show`."""
    params = {
        name: word(f"{name}.{value}", language) if name in TRANSLATED else show(value)
        for name, value in line.params.items()
        if value or name not in TRANSLATED
    }
    return word(line.code, language, **params)
