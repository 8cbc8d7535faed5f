"""The PDF: what stands in it, and what keeps it from being made. From the finished folder."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from pdf import is_cut_off, text_of
from report.reading import parts

from flashlab.report import render
from flashlab.report.document import Lines
from flashlab.report.render import ProjectFetcher

SHORT_TEMPLATE = Path(__file__).parents[1] / "short_report.html.j2"
CHINESE = re.compile(r"[\u3400-\u9fff]")


# What stands in it


def test_all_figures_are_there_and_say_what_they_show_and_no_hash_is_printed(
    finished: Any, results: Any
) -> None:
    text, numbers = text_of(finished.pdf), [*range(1, 12), "S1", "S2", "S3"]
    assert all(f"圖{n}" in text and f"Figure{n}" in text for n in numbers)
    with pikepdf.open(finished.pdf) as pdf:
        found = [each for each in pdf.objects if isinstance(each, pikepdf.Dictionary)]
        alternatives = [str(each.Alt) for each in found if "/Alt" in each]
    (lines,) = parts(results.compose(), "key", Lines)
    small = sum(line.figure is not None for line in lines.lines)
    assert len(alternatives) == len(numbers) + small
    assert all(CHINESE.search(alt) and re.search("[a-z]{3}", alt) for alt in alternatives)
    digests = [path.stem.rpartition("-")[2] for path in results.local.glob("records/*.json")]
    assert digests and not any(digest in text for digest in digests)
    assert not re.search("(?=[0-9]*[a-f])[0-9a-f]{16}", text)  # the ticks of an axis are digits


def test_it_is_sound_tagged_and_an_archive_whose_ways_lead_somewhere(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        assert pdf.check_pdf_syntax() == []
        assert pdf.Root.MarkInfo.Marked and "/StructTreeRoot" in pdf.Root
        assert str(pdf.Root.Lang) == "zh-TW"
        with pdf.open_metadata() as metadata:
            assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("3", "A")
        with pdf.open_outline() as outline:
            titles = [item.title for item in outline.root[0].children]
        there = {str(name) for name in pdf.Root.Names.Dests.Names[::2]}
        notes = [note for page in pdf.pages for note in page.get("/Annots", [])]
        links = [note for note in notes if note.Subtype == "/Link"]
        asked = {str(note.A.D) for note in links if "/A" in note and note.A.get("/S") == "/GoTo"}
        asked |= {str(note.Dest) for note in links if "/Dest" in note}
    assert asked and asked <= there
    assert any("實驗 1" in title and "Experiment 1" in title for title in titles)
    assert len(titles) >= 8


def test_every_font_is_embedded_and_ours_and_no_text_is_cut_off_or_tiny(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        objects = [found for found in pdf.objects if isinstance(found, pikepdf.Dictionary)]
        for font in (found for found in objects if found.get("/Type") == "/Font"):
            # Arrows are of the font for code.
            ours = r"/[A-Z]{6}\+(Noto-?Sans-?TC(-Regular|-Bold)?|DejaVu-?Sans-?Mono)"
            assert re.fullmatch(ours, str(font.BaseFont))
            is_embedded = "/FontDescriptor" in font and "/FontFile2" in font.FontDescriptor
            assert font.Subtype == "/Type0" or (font.Subtype == "/CIDFontType2" and is_embedded)
    matrix = pdfium_c.FS_MATRIX()
    for page in pdfium.PdfDocument(finished.pdf):
        assert not is_cut_off(page)
        text = page.get_textpage()
        for i in range(text.count_chars()):
            letter = chr(pdfium_c.FPDFText_GetUnicode(text, i))
            if not letter.isspace() and pdfium_c.FPDFText_GetMatrix(text, i, ctypes.byref(matrix)):
                size = pdfium_c.FPDFText_GetFontSize(text, i) * math.hypot(matrix.c, matrix.d)
                assert size >= 5.95, letter


# What keeps it from being made


def use_a_character_that_no_font_has(brief: Any, patch: pytest.MonkeyPatch) -> None:
    """Of the report's own; a font of the system would lend it, as others would."""
    shutil.copytree(render.TEMPLATES, brief.folder / "templates")
    template = SHORT_TEMPLATE.read_text("utf-8") + "<p>क</p>"
    brief.folder.joinpath("templates/report.html.j2").write_text(template, encoding="utf-8")
    patch.setattr(render, "TEMPLATES", brief.folder / "templates")


def lose_a_figure(brief: Any, patch: pytest.MonkeyPatch) -> None:
    (brief.local / "figures" / "causal" / "rate-flash2.svg").unlink()


def show_an_image_that_is_not_there(brief: Any, patch: pytest.MonkeyPatch) -> None:
    brief.remark("\n![x](gone.png)\n", "en")


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (use_a_character_that_no_font_has, ("issing glyph", "templates/fonts/")),
        (lose_a_figure, ("rate-flash2.svg",)),
        (show_an_image_that_is_not_there, ("line 2: the image gone.png: there is no file gone",)),
    ],
)
def test_an_error_leaves_the_report_that_was_there(
    brief: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[..., None],
    parts: tuple[str, ...],
) -> None:
    spoil(brief, monkeypatch)
    brief.pdf.write_bytes(b"the one before")
    assert brief.call("report") == 1
    said = capsys.readouterr().err
    assert all(part in said for part in parts)
    assert brief.pdf.read_bytes() == b"the one before"
    assert [path.name for path in brief.pdf.parent.iterdir()] == ["lab5.pdf"]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("in.css", None),
        *((address, "outside") for address in ("../outside.css", "%2e%2e/outside.css", "link.css")),
        *(
            (address, "disallowed protocol")
            for address in ("http://127.0.0.1:9/x", "https://example.org/x", "ftp://a/b")
        ),
    ],
)
def test_files_of_the_projects_folders_are_opened_and_nothing_else(
    tmp_path: Path, address: str, why: str | None
) -> None:
    folder = tmp_path / "a project"
    folder.mkdir()
    folder.joinpath("in.css").write_text("p {}")
    tmp_path.joinpath("outside.css").write_text("p {}")
    folder.joinpath("link.css").symlink_to(tmp_path / "outside.css")
    url = address if ":" in address else f"{folder.as_uri()}/{address}"
    with pytest.raises(ValueError, match=why) if why else nullcontext():
        assert ProjectFetcher((folder,)).fetch(url).read() == b"p {}"
