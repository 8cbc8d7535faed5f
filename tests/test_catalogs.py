from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from babel.messages import pofile
from babel.messages.catalog import Catalog

from flashlab.catalogs import LOCALES, MissingMessageError, in_all, message, messages
from flashlab.records import STATUSES

LANGUAGES = ("zh_TW", "en")
FILES = sorted(LOCALES.glob("*/LC_MESSAGES/*.po"))
DOMAINS = sorted({path.stem for path in FILES})


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return pofile.read_po(file, abort_invalid=True)


def catalogs(domain: str) -> dict[str, Catalog]:
    return {
        language: read(LOCALES / language / "LC_MESSAGES" / f"{domain}.po")
        for language in LANGUAGES
    }


def test_figures_and_report_have_catalogs_in_two_languages() -> None:
    assert {"figures", "report"} <= set(DOMAINS)
    assert {path.parts[-3] for path in FILES} == set(LANGUAGES)


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_languages_have_the_same_messages(domain: str) -> None:
    zh, en = ({entry.id for entry in catalog} for catalog in catalogs(domain).values())
    assert zh == en
    assert len(en) > 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_no_message_is_empty_fuzzy_obsolete_or_given_twice(path: Path) -> None:
    catalog = read(path)
    assert [entry.id for entry in catalog if entry.id and not str(entry.string).strip()] == []
    assert [entry.id for entry in catalog if entry.id and entry.fuzzy] == []
    assert list(catalog.obsolete) == []
    keys = re.findall(r'^msgid "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(keys) == sorted(set(keys))


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("domain", DOMAINS)
def test_both_languages_are_told_the_same_numbers(domain: str) -> None:
    zh, en = catalogs(domain).values()
    differing = [
        entry.id
        for entry in en
        if entry.id and placeholders(str(entry.string)) != placeholders(str(zh[entry.id].string))
    ]
    assert differing == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_placeholder_can_be_filled(path: Path) -> None:
    for entry in read(path):
        text = str(entry.string)
        if entry.id and placeholders(text):
            filled = text.format_map(dict.fromkeys(placeholders(text), "7"))
            assert "7" in filled and "{" not in filled, entry.id


def test_a_figure_can_name_every_status_but_ok() -> None:
    for language in LANGUAGES:
        assert set(STATUSES) - {"ok"} <= messages(language, "figures").keys()


def test_a_message_that_a_catalog_lacks_is_an_error_that_names_the_catalog() -> None:
    with pytest.raises(MissingMessageError, match=r"en/LC_MESSAGES/figures\.po .* 'colour'"):
        message("en", "figures", "colour")


def test_a_text_in_all_languages_is_said_once_where_they_agree() -> None:
    assert in_all(["zh_TW", "en"], "figures", "time") == "時間 Time"
    assert in_all(["en"], "figures", "time") == "Time"
    assert in_all(["en", "en"], "figures", "time") == "Time"


SCHEMAS = LOCALES.parents[1] / "workflow" / "schemas"
SINGLE_FORMS = {"speedup", "causal_effect"}
"""Kinds of finding that say it in another way where one value alone has numbers."""


def verdict_keys() -> list[str]:
    schema = json.loads((SCHEMAS / "finding.schema.json").read_text(encoding="utf-8"))
    keys = []
    for rule in schema["items"]["allOf"]:
        kind = rule["if"]["properties"]["kind"]["const"]
        verdicts = rule["then"]["properties"]["verdict"]["enum"]
        keys += [f"{kind}.{verdict}" for verdict in verdicts]
        if kind in SINGLE_FORMS:
            keys += [f"{kind}.{verdict}.one" for verdict in verdicts if verdict != "mixed"]
    return keys


@pytest.mark.parametrize("key", verdict_keys())
def test_every_verdict_has_its_sentence(key: str) -> None:
    """By its own key or, where the sentence depends on more than the verdict, below it."""
    for language in ("zh_TW", "en"):
        found = messages(language, "report")
        assert any(name == key or name.startswith(f"{key}.") for name in found)


@pytest.mark.parametrize("status", STATUSES)
def test_the_report_can_name_every_status(status: str) -> None:
    for language in LANGUAGES:
        assert message(language, "report", f"status.{status}")
