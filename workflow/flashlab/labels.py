"""The labels: texts of figures, reports and grades, in ``templates/labels/``, by keys.

A file for each domain (``figures``, ``report``, ``compare``, ``grades``, ``course``) holds both
languages of a text side by side. A key that is missing is an error; it is never printed itself.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LABELS = Path(__file__).parents[2] / "templates" / "labels"
LANGUAGES = ("zh_TW", "en")


class MissingMessageError(Exception):
    """A text that a file of labels does not have."""


@cache
def messages(language: str, domain: str) -> Mapping[str, str]:
    """All texts of a domain in a language (``zh_TW`` or ``en``), by key."""
    texts = tomllib.loads((LABELS / f"{domain}.toml").read_text(encoding="utf-8"))
    return {key: of[language] for key, of in texts.items() if language in of}


def message(language: str, domain: str, key: str) -> str:
    """The text of a key; MissingMessageError naming the file where it is missing."""
    try:
        return messages(language, domain)[key]
    except KeyError:
        raise MissingMessageError(
            f"templates/labels/{domain}.toml has no text {key!r} in {language}"
        ) from None
