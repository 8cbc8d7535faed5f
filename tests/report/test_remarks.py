"""Text of authors and records: printed whatever it holds, or a warning says what is not."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from pdf import is_cut_off
from PIL import Image
from report.reading import elements

from flashlab.cli import main


def pictured(folder: Path) -> None:
    """A remark with a screenshot wider than the page, and one taller."""
    shots = folder / "remarks" / "shots"
    shots.mkdir(parents=True)
    Image.new("RGBA", (1600, 300), "#c0ffee80").save(shots / "圖 1.png")
    Image.new("RGB", (300, 3000), "#0072b2").save(shots / "b.jpg")
    folder.joinpath("remarks/seq_len.md").write_text(
        "畫面：\n\n![寬的畫面](<shots/圖 1.png>)\n\n![](shots/b.jpg)\n",
        encoding="utf-8",
    )


@pytest.fixture
def results(brief: Any) -> Any:
    """The results of two experiments: what is printed does not depend on how many there are."""
    return brief


@pytest.fixture
def written(results: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Runs a command of the report; the lines on standard error."""

    def call(command: str, output: Path) -> list[str]:
        results.draw()
        files = {"config": results.config_file, "results": results.local}
        files |= {"ceilings": results.ceilings, "output": output}
        options = [each for name, file in files.items() for each in (f"--{name}", str(file))]
        assert main([command, *options]) == 0
        return capsys.readouterr().err.splitlines()

    return call


# Characters


def test_a_character_without_a_glyph_is_a_warning_wherever_others_wrote_it(
    results: Any, written: Callable[..., list[str]], text_of: Callable[[Path], str]
) -> None:
    record = results.quote("🐇")
    said = written("report", results.pdf)
    for place in (
        *("author.name", "author.course", "remark.md: line 1", "remark.md: line 3"),
        *("experiment seq_len: title.en", "experiment causal: title.en"),
        *("kernel Pytorch: LABEL.en", f"{record}: message"),
    ):
        named = [line for line in said if line.startswith(f"warning: {place}: ")]
        assert len(named) == 1 and "U+1F407" in named[0]
    assert sum(": device_name: " in line for line in said) == 1  # though every record has it
    assert all(line.startswith("warning: ") for line in said)

    text = text_of(results.pdf)
    for shown in ("王小明〓", "GPU〓", "words〓", "一點〓", "Ten〓", "Len〓", "M〓", "D〓"):
        assert shown in text
    with pikepdf.open(results.pdf) as pdf:
        assert str(pdf.docinfo.Author) == "王小明 🐇"  # the file's properties need no glyph

    assert written("page", results.page) == said
    assert "王小明 〓" in results.page.read_text("utf-8")


def test_a_remark_in_a_language_that_the_report_has_not_is_told(
    results: Any, written: Callable[..., list[str]]
) -> None:
    Path("remark.md").write_text("English words", encoding="utf-8")
    results.change(languages=["zh_TW"], remarks={"seq_len": {"en": "remark.md"}})
    (said,) = written("page", results.page)
    assert said.startswith("warning: remark.md: the remark on seq_len is left out, since en is not")


SET = """Text with `iiii MMMM`; [x](//host/a), [y](notes.md)

| a | b | c | d | e | f | g | h |
|---|---|---|---|---|---|---|---|
|LONG|LONG|LONG|LONG|LONG|LONG|LONG|LONG|
""".replace("LONG", "x" * 40)


def test_a_remarks_table_stays_on_the_page_its_code_is_in_one_width_and_links_name_no_folder(
    results: Any, written: Callable[..., list[str]]
) -> None:
    Path("remark.md").write_text(SET, encoding="utf-8")
    results.change(remarks={"seq_len": {"zh_TW": "remark.md"}})
    assert written("report", results.pdf) == []
    widths = []
    with pdfium.PdfDocument(results.pdf) as document:
        for page in document:
            assert not is_cut_off(page)
            text = page.get_textpage()
            if found := text.search("iiii MMMM").get_next():
                boxes = [text.get_charbox(found[0] + i, loose=True) for i in range(found[1])]
                widths += [right - left for left, _, right, _ in boxes]
    assert len(widths) == 9 and max(widths) - min(widths) < 0.01
    with pikepdf.open(results.pdf) as pdf:
        notes = [note for page in pdf.pages for note in page.get("/Annots", []) if "/A" in note]
        assert [str(note.A.URI) for note in notes if "/URI" in note.A] == ["https://host/a"]


# Images


def test_images_of_a_remark_are_in_the_pdf_within_its_pages_and_in_the_html_page(
    results: Any, written: Callable[..., list[str]], text_of: Callable[[Path], str]
) -> None:
    pictured(results.folder)
    results.change(remarks={"seq_len": {"zh_TW": "remarks/seq_len.md"}})
    (said,) = written("report", results.pdf)
    assert said.startswith(
        "warning: remarks/seq_len.md: line 5: the image shots/b.jpg has no alternative text"
    )
    filters, mm = {}, 72 / 25.4
    with pdfium.PdfDocument(results.pdf) as document:
        for page in document:
            for image in page.get_objects([pdfium_c.FPDF_PAGEOBJ_IMAGE]):
                filters[image.get_px_size()] = image.get_filters()
                left, bottom, right, top = image.get_bounds()
                assert right - left <= 180 * mm and top - bottom <= (297 - 25) * mm
    assert filters.keys() == {(1600, 300), (300, 3000)}
    assert filters[300, 3000] == ["DCTDecode"]  # as it was, not coded again
    with pikepdf.open(results.pdf) as pdf:
        objects = [found for found in pdf.objects if isinstance(found, pikepdf.Dictionary)]
        alternatives = {str(found.Alt) for found in objects if "/Alt" in found}
        streams = [found for found in pdf.objects if isinstance(found, pikepdf.Stream)]
        drawn = [found for found in streams if found.get("/Subtype") == "/Image"]
        assert {"寬的畫面", "b.jpg"} <= alternatives
        assert len(drawn) == 3  # with the PNG's transparency
        assert not any(found.get("/Interpolate") for found in drawn)  # PDF/A forbids it
        relationships = {str(file.UF): str(file.AFRelationship) for file in pdf.Root.AF}
        sources = {n: bytes(pdf.attachments[n].get_file().read_bytes()) for n in relationships}
    for number, name in enumerate(("圖 1.png", "b.jpg"), start=1):
        attached = f"remark-seq_len-zh_TW-{number}{Path(name).suffix}"
        assert relationships[attached] == "/Source"
        assert sources[attached] == Path("remarks/shots", name).read_bytes()
    written("page", results.page)
    first, second = (each for each in elements(results.page) if each.tag == "img")
    assert [first.get("alt"), second.get("alt")] == ["寬的畫面", "b.jpg"]
    kind, _, data = first.get("src", "").partition(",")
    assert kind.startswith("data:image/png;") and second.get("src", "").startswith(
        "data:image/jpeg;"
    )
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (1600, 300)


def test_an_image_that_cannot_be_shown_leaves_the_report_that_was_there(
    results: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("remark.md").write_text("\n![x](gone.png)\n", encoding="utf-8")
    results.change(remarks={"seq_len": {"en": "remark.md"}})
    results.pdf.write_bytes(b"the one before")
    arguments = ["report", "--config", str(results.config_file), "--results", str(results.local)]
    assert main([*arguments, "--output", str(results.pdf)]) == 1
    said = capsys.readouterr().err
    assert "remark.md: line 2: the image gone.png: there is no file gone.png" in said
    assert results.pdf.read_bytes() == b"the one before"
