"""Every line that a check can give has its sentence, and every sentence has its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flashlab_grading
from flashlab import course, untrusted
from flashlab.labels import messages
from flashlab_grading.causes import DOMAIN, domain_of
from flashlab_grading.model import BADGES, CHECKS, VERDICTS

FOLDERS = [Path(package.__file__).parent for package in (flashlab_grading, course)]
FILES = [*(file for folder in FOLDERS for file in folder.glob("*.py")), Path(untrusted.__file__)]
SOURCE = "".join(path.read_text(encoding="utf-8") for path in FILES)
CODES = sorted({*re.findall(rf'"((?:{"|".join(CHECKS)})\.[a-z_0-9]+)"', SOURCE)})


@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_every_code_has_its_sentence(language: str) -> None:
    assert len(CODES) > 70
    words = [f"check.{check}" for check in CHECKS] + [f"badge.{badge}" for badge in BADGES]
    words += [f"verdict.{verdict}" for verdict in VERDICTS]
    lacking = [key for key in [*CODES, *words] if key not in messages(language, domain_of(key))]
    assert lacking == []


def test_no_sentence_of_a_check_is_left_over() -> None:
    texts = messages("en", DOMAIN) | messages("en", "course")
    told = {key for key in texts if key.partition(".")[0] in CHECKS}
    assert told - set(CODES) == set()
