"""Texts in both languages: each has its place, its quotes, and a use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from planted.records import STATUSES, WARNINGS

from flashlab.labels import LABELS, LANGUAGES, messages


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("path", sorted(LABELS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_text_is_in_both_languages_which_quote_the_same(path: Path) -> None:
    texts = tomllib.loads(path.read_text(encoding="utf-8"))
    assert len(texts) > 1
    for key, of in texts.items():
        assert tuple(of) == LANGUAGES and all(text.strip() for text in of.values()), key
        names = [placeholders(text) for text in of.values()]
        assert names[0] == names[1], key
        for text in of.values() if names[0] else ():
            assert not {*"{}"} & {*text.format_map(dict.fromkeys(names[0], "7"))}, key


def test_every_label_of_the_report_is_asked_for(root: Path) -> None:
    """By itself, below a beginning such as ``table.``, or as a part of a fixed text."""
    sources = [*root.glob("workflow/flashlab/report/*.py"), root / "templates/report.html.j2"]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    fixed = re.compile(
        r"^\w+\.(how|title|no_gpu)\b|\b(caption|method)\.|"
        r"^(column|imported|map|status|warning)\.|\.label$"
    )
    for key in messages("en", "report"):
        parts = key.split(".")
        tails = (".".join(parts[n:]) for n in range(len(parts)))
        asked = any(f'"{tail}"' in text or f'.{tail}"' in text for tail in tails)
        assert asked or fixed.search(key), key


def test_every_status_and_warning_has_its_words_in_figures_and_in_the_report() -> None:
    warnings = {f"warning.{each}" for each in (*WARNINGS, "implausible", "processes_differ")}
    assert {f"status.{each}" for each in STATUSES} | warnings <= messages("en", "report").keys()
    assert {*STATUSES} - {"ok"} <= messages("en", "figures").keys()
