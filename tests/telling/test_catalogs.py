from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages import pofile
from babel.messages.catalog import Catalog

from flashlab.records import STATUSES
from flashlab.telling import codes
from flashlab.telling.catalogs import LOCALES, messages

LANGUAGES = ("zh_TW", "en")
FILES = sorted(LOCALES.glob("*/LC_MESSAGES/*.po"))
DOMAINS = sorted({path.stem for path in FILES})


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return pofile.read_po(file, abort_invalid=True)


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_languages_have_the_same_messages_which_quote_the_same(domain: str) -> None:
    assert {path.parts[-3] for path in FILES} == set(LANGUAGES)
    zh, en = (messages(language, domain) for language in LANGUAGES)
    assert zh.keys() == en.keys() and len(en) > 1
    assert [key for key in en if placeholders(en[key]) != placeholders(zh[key])] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_no_message_is_empty_fuzzy_obsolete_given_twice_or_cannot_be_filled(path: Path) -> None:
    catalog = read(path)
    assert [entry.id for entry in catalog if entry.id and not str(entry.string).strip()] == []
    assert [entry.id for entry in catalog if entry.id and entry.fuzzy] == []
    assert list(catalog.obsolete) == []
    keys = re.findall(r'^msgid "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(keys) == sorted(set(keys))
    for entry in catalog:
        if entry.id and (names := placeholders(text := str(entry.string))):
            filled = text.format_map(dict.fromkeys(names, "7"))
            assert "7" in filled and "{" not in filled, entry.id


def test_every_status_has_its_words_in_figures_and_in_the_report() -> None:
    assert codes.STATUSES.keys() >= set(STATUSES)
    for language in LANGUAGES:
        assert set(STATUSES) - {"ok"} <= messages(language, "figures").keys()
