"""Remarks, their pictures and characters: what is printed, what is refused or replaced."""

from __future__ import annotations

import io
import logging
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from fontTools.ttLib import TTFont
from PIL import Image, ImageFile

from flashlab import remarks
from flashlab.remarks import MAX_BYTES, PictureError, RemarkError
from flashlab.telling.glyphs import FONTS, STAND_IN, covered, legible

FILE = Path("remarks", "seq_len.en.md")
HUGE = "The file has 1099511627776 bytes"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.joinpath("remarks").mkdir(parents=True)
    monkeypatch.chdir(project)


def raster(kind: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (8, 4)) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind)
    return file.getvalue()


def put(path: str | Path, content: bytes) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def huge(path: str | Path) -> None:
    put(path, b"")
    os.truncate(path, 2**40)  # takes no room on the disk


def remark(text: str | bytes) -> dict[str, Any]:
    """A configuration with one remark."""
    put(FILE, text.encode() if isinstance(text, str) else text)
    return {"remarks": {"seq_len": {"en": str(FILE)}}}


def test_images_lie_beside_the_remark_and_have_flat_names_in_the_pdf() -> None:
    put("remarks/shots/圖 1.PNG", raster("JPEG"))
    put("figures/b.png", raster())
    text = "One\n![a](<shots/圖 1.PNG>)\n\n- ![b](../figures/b.png)\n\n![a](<shots/圖 1.PNG>)"
    assert remarks.image_addresses(text) == {"shots/%E5%9C%96%201.PNG": 2, "../figures/b.png": 4}
    (found,) = remarks.read_remarks(config := remark(text))
    names = (".md", "-1.png", "-2.png")
    assert [*found.attachments()] == [f"remark-seq_len-en{name}" for name in names]
    types = {image.media_type for image in found.images.values()}
    assert types == {"image/jpeg", "image/png"}  # whatever they are called
    files = (str(FILE), "remarks/shots/圖 1.PNG", "remarks/../figures/b.png")
    assert remarks.remark_files(config) == files


def test_every_image_that_cannot_be_shown_is_in_one_message(tmp_path: Path) -> None:
    put("../outside.png", raster())
    Path("remarks/link.png").symlink_to(tmp_path / "outside.png")
    put("remarks/broken.jpg", b"\xff\xd8\xff broken")
    huge("remarks/huge.png")
    Path("remarks/folder.png").mkdir()
    put("remarks/a.gif", b"GIF89a")
    outside = ("../../outside.png", "link.png", str(tmp_path / "outside.png"))
    elsewhere = ("https://example.org/a.png", "//example.org/a.png", "file:///etc/a.png")
    addresses = {
        "gone.png": "there is no file remarks/gone.png; add it, or correct the name",
        **dict.fromkeys(outside, "outside the project's folder"),
        "broken.jpg": "it is neither PNG nor JPEG",
        "huge.png": f"{HUGE}; the limit is 67108864",
        "folder.png": "is not a file",
        "a.gif": "only .png, .jpg, .jpeg can be shown",
        **dict.fromkeys(elsewhere, "it is no file beside the remark"),
        "a{b}.png": "a brace",
    }
    with pytest.raises(RemarkError) as caught:
        remarks.remark_files(remark("".join(f"![x]({address})\n" for address in addresses)))
    lines = str(caught.value).splitlines()[1:]
    for number, (line, why) in enumerate(zip(lines, addresses.values(), strict=True), start=1):
        assert line.startswith(f"  {FILE}: line {number}: the image ") and why in line


def test_a_remark_that_cannot_be_read_is_named() -> None:
    (found,) = remarks.read_remarks(remark(b"\xef\xbb\xbf# Heading"))
    assert found.text == "# Heading"
    with pytest.raises(RemarkError, match=r"seq_len\.en\.md: line 2: it is not UTF-8; save it as"):
        remarks.read_remarks(remark(b"first\n" + "注意力".encode("big5")))
    config = remark("")
    huge(FILE)
    with pytest.raises(RemarkError, match=rf"remarks/seq_len\.en\.md: {HUGE}"):
        remarks.read_remarks(config)
    with pytest.raises(RemarkError, match=r"remarks\.seq_len\.zh_TW: there is no file remarks"):
        remarks.remark_files({"remarks": {"seq_len": {"zh_TW": "remarks/gone.md"}}})


def huge_png(side: int) -> bytes:
    """A few bytes that claim to decode to so many pixels a side."""
    small = raster()
    header = b"IHDR" + struct.pack(">II", side, side) + small[24:29]
    return small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        *((raster(*of), None) for of in (("PNG", "P"), ("PNG", "RGBA"), ("JPEG", "L"))),
        (raster("GIF", "P"), "it is neither PNG nor JPEG"),
        (raster(size=(200, 200))[:-40], "cannot be read as PNG or JPEG"),
        (raster("JPEG", "CMYK"), "its colours are CMYK; save it as 8-bit RGB"),
        *((huge_png(side), "more than 20,000,000 pixels") for side in (5_000, 100_000)),
        (b"\0" * (MAX_BYTES + 1), "5.0 MiB, and the most is 5 MiB"),
    ],
)
def test_a_picture_is_kept_or_refused(content: bytes, why: str | None, monkeypatch: Any) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as WeasyPrint sets it
    if why is None:
        assert remarks.picture_of(content).content == content
    else:
        with pytest.raises(PictureError, match=why):
            remarks.picture_of(content)
    assert ImageFile.LOAD_TRUNCATED_IMAGES


# Which characters the report's fonts have, and what stands in for the others

NAMES = "翊瑄瑋芊叡旻霈晟煒喆峯堃犇淼"
"""Characters of common Taiwanese names that Big5 level 1 lacks."""


def test_each_weight_has_all_of_big5_and_what_names_use() -> None:
    """Of its Han characters level 1, and level 2 from 0xC9 on."""
    trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
    leads = [*range(0xA4, 0xC7), *range(0xC9, 0xFA)]
    codes = (bytes([lead, trail]) for lead in leads for trail in trails)
    characters = "".join(code.decode("big5", errors="ignore") for code in codes)
    assert len(characters) > 13_000
    assert [c for c in characters + NAMES + STAND_IN if ord(c) not in covered()] == []
    paths = sorted(FONTS.glob("NotoSansTC-*.ttf"))
    assert len(paths) == 2
    for path in paths:
        with TTFont(path, lazy=True) as font:
            assert frozenset(font.getBestCmap()) == covered()


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
def test_what_they_lack_is_replaced(text: str, shown: str, warned: Any, caplog: Any) -> None:
    """And named, where anything is lost."""
    assert legible(text, "author.name") == shown
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == len(caplog.records) == (warned is not None)
    assert all(each.startswith(f"author.name: the report's fonts lack {warned}") for each in said)
