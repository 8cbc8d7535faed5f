"""The PDF: what stands in it, and what keeps it from being made. From the finished folder."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from conftest import elsewhere
from pdf import depths, is_cut_off
from report.conftest import Results
from report.reading import elements, parts, section

from flashlab.remarks import read_remarks
from flashlab.report import render
from flashlab.report.attachments import attached_files
from flashlab.report.document import Lines
from flashlab.report.render import ProjectFetcher, RenderError, write_report

SHORT_TEMPLATE = Path(__file__).parents[1] / "short_report.html.j2"
CHINESE = re.compile(r"[\u3400-\u9fff]")


@pytest.fixture(scope="module")
def text(finished: Any, text_of: Callable[[Path], str]) -> str:
    """The finished report's text, squeezed."""
    return text_of(finished.pdf)


@pytest.fixture(scope="module")
def page(finished: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished folder's report as an HTML page."""
    copied = Results(finished.folder, tmp_path_factory.mktemp("page") / "copy")
    with chdir(copied.folder):
        return copied.write_page()


# What stands in it


def test_no_hash_is_printed(finished: Any, text: str) -> None:
    for path in finished.folder.glob("results/local/records/*.json"):
        digest = path.stem.rpartition("-")[2]
        assert len(digest) > 6 and digest not in text
    assert not re.search("(?=[0-9]*[a-f])[0-9a-f]{16}", text)  # the ticks of an axis are digits


def test_all_figures_are_there_and_say_what_they_show(
    finished: Any, results: Any, text: str, squeezed: Callable[[str], str]
) -> None:
    numbers = [*range(1, 12), "S1", "S2", "S3"]
    for number in numbers:
        assert squeezed(f"圖 {number}") in text and squeezed(f"Figure {number}") in text
    alternatives = []
    with pikepdf.open(finished.pdf) as pdf:
        for found in pdf.objects:
            if isinstance(found, pikepdf.Dictionary) and "/Alt" in found:
                alternatives.append(str(found.Alt))
    (lines,) = parts(section(results.compose(), "key"), Lines)
    small = sum(line.figure is not None for line in lines.lines)
    assert len(alternatives) == len(numbers) + small
    assert all(CHINESE.search(alt) and re.search("[a-z]{3}", alt) for alt in alternatives)


def test_every_font_is_embedded_and_ours(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        objects = [found for found in pdf.objects if isinstance(found, pikepdf.Dictionary)]
        fonts = [found for found in objects if found.get("/Type") == "/Font"]
        assert {str(font.Subtype) for font in fonts} == {"/Type0", "/CIDFontType2"}
        for font in fonts:
            # Arrows are of the font for code.
            ours = r"/[A-Z]{6}\+(Noto-?Sans-?TC(-Regular|-Bold)?|DejaVu-?Sans-?Mono)"
            assert re.fullmatch(ours, str(font.BaseFont))
            assert font.Subtype == "/Type0" or "/FontFile2" in font.FontDescriptor


LANGUAGES = ("zh_TW", "en")
HOSTILE = (
    '<a rel="attachment" href="file:///etc/hostname">a</a><img src="file:///etc/passwd" alt="b">'
    "<style>@import 'file:///etc/passwd'</style>{{ 7 * 7 }}<script>alert(1)</script>"
)


def test_what_others_write_is_shown_as_text_and_nothing_more(
    brief: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    brief.quote(HOSTILE)
    remarks = read_remarks(brief.config)
    files = attached_files(brief.config_file, brief.local, None, remarks)
    before = {file.name for file in files}

    said = text_of(brief.write())
    for language in LANGUAGES:
        for letter in ("T", "L"):
            assert squeezed(f"{letter} {language} {HOSTILE}") in said
    for letter in ("D", "P", "M"):
        assert squeezed(f"{letter} {HOSTILE}") in said
    for shown in (f"王小明 {HOSTILE}", "學號 Student ID 113062000", "My own words", "一點"):
        assert squeezed(shown) in said
    with pikepdf.open(brief.pdf) as pdf:
        assert "/JavaScript" not in str(pdf.Root.Names.keys()) + str(pdf.Root.keys())
        assert {str(file.UF) for file in pdf.Root.AF} == before | {"ceilings.json"}
        assert "hostname" not in "".join(pdf.attachments)

    page = brief.write_page()
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text and "{{ 7 * 7 }}" in text
    there = elements(page)
    assert sum(each.tag == "script" for each in there) == 1
    assert not any(each.tag == "img" or "rel" in each.attrib for each in there)


# Page one, links, and what makes it an archive


def test_every_way_in_the_pdf_leads_somewhere(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        names = pdf.Root.Names.Dests.Names
        there = {str(name) for name in names[::2]}
        asked = {
            str(note.A.D) if "/A" in note else str(note.Dest)
            for page in pdf.pages
            for note in page.get("/Annots", [])
            if note.Subtype == "/Link" and ("/Dest" in note or note.A.get("/S") == "/GoTo")
        }
    assert asked and asked <= there


def test_it_is_sound_tagged_and_says_that_it_is_an_archive(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        assert pdf.check_pdf_syntax() == []
        assert pdf.Root.MarkInfo.Marked
        assert str(pdf.Root.Lang) == "zh-TW"
        assert "/StructTreeRoot" in pdf.Root
        with pdf.open_metadata() as metadata:
            assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("3", "A")
        with pdf.open_outline() as outline:
            (whole,) = outline.root
            titles = [item.title for item in whole.children]
    assert any("實驗 1" in title and "Experiment 1" in title for title in titles)
    assert len(titles) >= 8


# How many pages it has, and how full they are


def test_no_text_is_cut_off_at_a_side_or_smaller_than_six_points(finished: Any) -> None:
    matrix = pdfium_c.FS_MATRIX()
    for page in pdfium.PdfDocument(finished.pdf):
        assert not is_cut_off(page)
        text = page.get_textpage()
        for i in range(text.count_chars()):
            letter = chr(pdfium_c.FPDFText_GetUnicode(text, i))
            if not letter.isspace() and pdfium_c.FPDFText_GetMatrix(text, i, ctypes.byref(matrix)):
                size = pdfium_c.FPDFText_GetFontSize(text, i) * math.hypot(matrix.c, matrix.d)
                assert size >= 5.95, letter


# The languages


def written(brief: Any, language: str) -> Path:
    """The report in one language."""
    brief.redraw([language])
    pdf: Path = brief.write()
    assert len(depths(pdf)) <= 6
    return pdf


def test_a_report_in_english_has_no_chinese(brief: Any, text_of: Callable[[Path], str]) -> None:
    assert CHINESE.findall(text_of(written(brief, "en"))) == []


# What keeps it from being made


@pytest.fixture
def refuses(brief: Any) -> Callable[..., str]:
    """Renders with something missing; what it said. The PDF that was there stays."""

    def call(error: type[Exception]) -> str:
        brief.pdf.write_bytes(b"the one before")
        with pytest.raises(error) as caught:
            brief.write()
        assert brief.pdf.read_bytes() == b"the one before"
        assert [path.name for path in brief.pdf.parent.iterdir()] == ["lab5.pdf"]
        return str(caught.value)

    return call


@pytest.fixture
def template(brief: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has the report rendered with another template."""

    def call(text: str) -> None:
        templates = brief.folder / "templates"
        shutil.copytree(render.TEMPLATES, templates)
        templates.joinpath("report.html.j2").write_text(text, encoding="utf-8")
        monkeypatch.setattr(render, "TEMPLATES", templates)

    return call


def test_a_character_of_the_reports_own_that_the_fonts_lack_is_an_error(
    template: Callable[[str], None], refuses: Callable[..., str]
) -> None:
    """Nor does a font of the system lend it, as others would lend the Devanagari letter."""
    character = "क"
    template(SHORT_TEMPLATE.read_text("utf-8") + f"<p>{character}</p>")
    said = refuses(RenderError)
    assert "missing glyph" in said.lower()
    assert character in said or f"{ord(character):x}" in said.lower()
    assert "templates/fonts/" in said


def test_a_picture_that_is_missing_is_an_error(brief: Any) -> None:
    brief.draw()
    (brief.local / "figures" / "causal" / "rate-flash2.svg").unlink()
    with pytest.raises(RenderError, match=r"rate-flash2\.svg"):
        write_report(brief.config_file, brief.local, brief.ceilings, brief.pdf)
    assert not brief.pdf.exists()


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


# The same bytes

PAGE = """
import sys
from flashlab.cli import main
assert main(["page", *sys.argv[2:], "--output", f"{sys.argv[1]}/lab5.html"]) == 0
"""


def test_the_same_inputs_give_the_same_page_anywhere_and_at_any_time(
    finished: Any, page: Path, tmp_path: Path
) -> None:
    """Written once more in another folder, time zone, locale and hash seed.

    Those of the PDF are another test's (`grading.test_verification`).
    """
    folder, output = tmp_path / "another folder" / "deeper", tmp_path / "rendered"
    for part in ("results", "workflow", "templates", "kernels", "data/published"):
        shutil.copytree(finished.folder / part, folder / part)
    shutil.copy(finished.folder / "data" / "devices.csv", folder / "data")
    (ceilings,) = folder.glob("results/local/records/ceilings-*.json")
    given = ("--config", "results/local/plan/config.json", "--results", "results/local")
    subprocess.run(
        [
            *(sys.executable, "-c", PAGE, str(output), *given),
            *("--ceilings", str(ceilings.relative_to(folder))),
        ],
        cwd=folder,
        env=elsewhere(tmp_path, folder / "workflow"),
        check=True,
    )
    assert output.joinpath("lab5.html").read_bytes() == page.read_bytes()
