"""Lines in words: one whole sentence for each verdict, from the catalogs (domain ``grades``)."""

from __future__ import annotations

from collections.abc import Callable

from flashlab.catalogs import message
from flashlab.grading.model import Line

DOMAIN = "grades"
TRANSLATED = ("pass", "experiment")
"""Parameters that are words of the catalog themselves."""


def word(key: str, language: str, /, **params: object) -> str:
    """A message of the grades in a language, with the parameters set in."""
    return message(language, DOMAIN, key).format_map(params)


def sentence(line: Line, language: str, show: Callable[[str], str]) -> str:
    """What a line says, its parameters made safe by `show`."""
    params = {
        name: word(f"{name}.{value}", language) if name in TRANSLATED else show(value)
        for name, value in line.params.items()
        if value or name not in TRANSLATED
    }
    return word(line.code, language, **params)
