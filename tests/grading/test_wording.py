"""Every line that a check can give has its sentence, with the same numbers in both languages."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from flashlab import grading
from flashlab.catalogs import messages
from flashlab.grading.model import BADGES, CHECKS, VERDICTS
from flashlab.grading.wording import DOMAIN

SOURCE = "".join(
    path.read_text(encoding="utf-8") for path in Path(grading.__file__).parent.glob("*.py")
)
# Identity's codes are given without their check.
CODES = sorted(
    {
        *re.findall(rf'"((?:{"|".join(CHECKS)})\.[a-z_0-9]+)"', SOURCE),
        *(f"identity.{code}" for code in re.findall(r'_line\(\s*"[a-z_]+", "([a-z_]+)"', SOURCE)),
    }
)


@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_every_code_has_its_sentence(language: str) -> None:
    known = messages(language, DOMAIN)
    assert len(CODES) > 70
    words = [f"check.{check}" for check in CHECKS] + [f"badge.{badge}" for badge in BADGES]
    words += [f"verdict.{verdict}" for verdict in VERDICTS]
    assert [code for code in [*CODES, *words] if code not in known] == []


def test_both_languages_are_told_the_same() -> None:
    def fields(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    zh, en = (messages(language, DOMAIN) for language in ("zh_TW", "en"))
    assert [key for key in en if fields(en[key]) != fields(zh[key])] == []


def test_no_sentence_of_a_check_is_left_over() -> None:
    told = {key for key in messages("en", DOMAIN) if key.partition(".")[0] in CHECKS}
    conditional = {"identity.undeclared", "identity.undeclared_unknown", "identity.pass_partly"}
    assert told - set(CODES) - conditional == set()
