"""Text of authors and records: printed whatever it holds, or a warning says what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from pdf import is_cut_off, text_of
from PIL import Image
from report.reading import elements

SET = """Text with `iiii MMMM`; [x](//host/a), [y](notes.md)

| a | b | c | d | e | f | g | h |
|---|---|---|---|---|---|---|---|
|LONG|LONG|LONG|LONG|LONG|LONG|LONG|LONG|

![寬的畫面](<shots/圖 1.png>)

![](shots/b.jpg)
""".replace("LONG", "x" * 40)


@pytest.fixture
def written(brief: Any, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[str]]:
    """Runs a command of the report; the lines on standard error."""

    def call(command: str) -> list[str]:
        brief.draw()
        assert brief.call(command) == 0
        return capsys.readouterr().err.splitlines()

    return call


def test_a_character_without_a_glyph_is_a_warning_wherever_others_wrote_it(
    brief: Any, written: Callable[[str], list[str]]
) -> None:
    record = brief.quote("🐇")
    said = written("report")
    for place in (
        *("author.name", "author.course", "remark.md: line 1", "remark.md: line 3"),
        *("experiment seq_len: title.en", "experiment causal: title.en"),
        *("kernel Pytorch: LABEL.en", f"{record}: message"),
    ):
        (named,) = (line for line in said if line.startswith(f"warning: {place}: "))
        assert "U+1F407" in named
    assert sum(": device_name: " in line for line in said) == 1  # though every record has it
    assert all(line.startswith("warning: ") for line in said)
    text = text_of(brief.pdf)
    for shown in ("王小明〓", "GPU〓", "words〓", "一點〓", "Ten〓", "Len〓", "M〓", "D〓"):
        assert shown in text
    with pikepdf.open(brief.pdf) as pdf:
        assert str(pdf.docinfo.Author) == "王小明 🐇"  # the file's properties need no glyph
    assert written("page") == said
    assert "王小明 〓" in brief.page.read_text("utf-8")


def test_a_remarks_table_and_images_stay_on_the_page_and_links_name_no_folder(
    brief: Any, written: Callable[[str], list[str]]
) -> None:
    """A screenshot wider than the page, and one taller, which is not coded again."""
    shots = {"shots/圖 1.png": Image.new("RGBA", (1600, 300), "#c0ffee80")}
    shots["shots/b.jpg"] = Image.new("RGB", (300, 3000), "#0072b2")
    Path("shots").mkdir()
    for name, image in shots.items():
        image.save(name)
    brief.remark(SET, "zh_TW")
    (said,) = written("report")
    assert said.startswith("warning: remark.md: line 9: the image shots/b.jpg has no alternative t")
    filters, mm = {}, 72 / 25.4
    with pdfium.PdfDocument(brief.pdf) as document:
        for page in document:
            assert not is_cut_off(page)
            for image in page.get_objects([pdfium_c.FPDF_PAGEOBJ_IMAGE]):
                filters[image.get_px_size()] = image.get_filters()
                left, bottom, right, top = image.get_bounds()
                assert right - left <= 180 * mm and top - bottom <= (297 - 25) * mm
    assert filters.keys() == {(1600, 300), (300, 3000)}
    assert filters[300, 3000] == ["DCTDecode"]
    with pikepdf.open(brief.pdf) as pdf:
        notes = [note for page in pdf.pages for note in page.get("/Annots", []) if "/A" in note]
        assert [str(note.A.URI) for note in notes if "/URI" in note.A] == ["https://host/a"]
        found = [each for each in pdf.objects if isinstance(each, pikepdf.Dictionary)]
        assert {"寬的畫面", "b.jpg"} <= {str(each.Alt) for each in found if "/Alt" in each}
        streams = [each for each in pdf.objects if isinstance(each, pikepdf.Stream)]
        drawn = [each for each in streams if each.get("/Subtype") == "/Image"]
        assert len(drawn) == 3  # with the PNG's transparency
        assert not any(each.get("/Interpolate") for each in drawn)  # PDF/A forbids it
        relationships = {str(file.UF): str(file.AFRelationship) for file in pdf.Root.AF}
        for number, name in enumerate(shots, start=1):
            attached = f"remark-seq_len-zh_TW-{number}{Path(name).suffix}"
            assert relationships[attached] == "/Source"
            content = bytes(pdf.attachments[attached].get_file().read_bytes())
            assert content == Path(name).read_bytes()
    written("page")
    first, second = (each for each in elements(brief.page) if each.tag == "img")
    assert [first.get("alt"), second.get("alt")] == ["寬的畫面", "b.jpg"]
    assert [each.get("src", "")[:16] for each in (first, second)] == [
        *("data:image/png;b", "data:image/jpeg;"),
    ]
