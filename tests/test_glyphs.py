"""Which characters the report's fonts have, and what stands in for the others."""

from __future__ import annotations

import logging

import pytest
import yaml
from fontTools.ttLib import TTFont
from planted.project import ROOT

from flashlab.remarks import MAX_BYTES
from flashlab.telling.glyphs import FONTS, STAND_IN, covered, legible

NAMES = "翊瑄瑋芊叡旻霈晟煒喆峯堃犇淼"
"""Characters of common Taiwanese names that Big5 level 1 lacks."""


def big5() -> str:
    """All of Big5's Han characters: level 1, and level 2 from 0xC9 on."""
    trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
    leads = [*range(0xA4, 0xC7), *range(0xC9, 0xFA)]
    codes = (bytes([lead, trail]) for lead in leads for trail in trails)
    return "".join(code.decode("big5", errors="ignore") for code in codes)


def test_each_weight_has_all_of_big5_and_what_names_use() -> None:
    characters = big5()
    assert len(characters) > 13_000
    assert [c for c in characters + NAMES + STAND_IN if ord(c) not in covered()] == []
    paths = sorted(FONTS.glob("NotoSansTC-*.ttf"))
    assert len(paths) == 2
    for path in paths:
        with TTFont(path, lazy=True) as font:
            assert frozenset(font.getBestCmap()) == covered()


def test_a_file_that_is_touched_reruns_nothing_up_to_the_size_of_a_font_or_image() -> None:
    profile = yaml.safe_load((ROOT / "profiles" / "default" / "config.yaml").read_text("utf-8"))
    sizes = [path.stat().st_size for path in FONTS.glob("*.ttf")]
    assert max(*sizes, MAX_BYTES) < profile["max-checksum-file-size"]


@pytest.mark.parametrize(
    ("text", "shown", "warned"),
    [
        (f"陳{NAMES}\n\tFlash–Attention ≥ 2×", f"陳{NAMES}\n\tFlash–Attention ≥ 2×", None),
        ("王😀", "王〓", "😀 (U+1F600 GRINNING FACE); 〓 is"),
        ("𪛖𪛖", "〓〓", "𪛖 (U+2A6D6 CJK UNIFIED"),
        ("a\x1b[2J", "a〓[2J", "(U+001B); 〓 is"),
        # What shows nothing or has another form is no loss.
        ("峯\U000e0101", "峯", None),  # a variation of the glyph
        ("葛\ufe00 a\u202eb", "葛 ab", None),
        ("e\u0301\u2060", "é", None),
    ],
)
def test_a_character_that_they_lack_is_replaced_and_named(
    text: str, shown: str, warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert legible(text, "author.name") == shown
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == len(caplog.records) == (warned is not None)
    assert all(each.startswith(f"author.name: the report's fonts lack {warned}") for each in said)
