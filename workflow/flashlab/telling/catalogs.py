"""The message catalogs: every text of the figures and the report, in each language.

Messages are looked up by keys such as ``comparison.better``. A key missing from a language is an
error; the key itself is never printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from babel.messages import pofile

LOCALES = Path(__file__).parents[3] / "templates" / "locale"


class MissingMessageError(Exception):
    """A message that a catalog does not have."""


@cache
def messages(language: str, domain: str) -> Mapping[str, str]:
    """All messages of a domain (``figures`` or ``report``) in a language (``zh_TW`` or ``en``)."""
    path = LOCALES / language / "LC_MESSAGES" / f"{domain}.po"
    with path.open("rb") as file:
        catalog = pofile.read_po(file, locale=language, domain=domain, abort_invalid=True)
    return {
        str(message.id): str(message.string)
        for message in catalog
        if message.id and message.string and not message.fuzzy
    }


def catalog_files(domain: str) -> list[Path]:
    """The catalogs of a domain, one a language."""
    return sorted(LOCALES.glob(f"*/LC_MESSAGES/{domain}.po"))


def message(language: str, domain: str, key: str) -> str:
    """The text of a key; MissingMessageError naming the catalog where it is missing."""
    try:
        return messages(language, domain)[key]
    except KeyError:
        raise MissingMessageError(
            f"templates/locale/{language}/LC_MESSAGES/{domain}.po has no message {key!r}"
        ) from None
