"""Text of authors and records: printed whatever it holds, or a warning says what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from pdf import is_cut_off, squeezed, text_of
from PIL import Image
from report.reading import elements

from flashlab.remarks import read_remarks
from flashlab.report.attachments import attached_files

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


HOSTILE = (
    '<a rel="attachment" href="file:///etc/hostname">a</a><img src="file:///etc/passwd" alt="b">'
    "<style>@import 'file:///etc/passwd'</style>{{ 7 * 7 }}<script>alert(1)</script>"
)


def test_what_others_write_is_text_and_nothing_more_and_a_warning_where_the_fonts_lack_it(
    brief: Any, written: Callable[[str], list[str]]
) -> None:
    record = brief.quote(f"{HOSTILE} 🐇")
    files = attached_files(brief.config_file, brief.local, None, read_remarks(brief.config))
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
    for place in ("T zh_TW", "T en", "L zh_TW", "L en", "D", "P", "M", "王小明", "GPU"):
        assert squeezed(f"{place} {HOSTILE} 〓") in text
    assert squeezed("學號 Student ID 113062000") in text and "一點" in text
    with pikepdf.open(brief.pdf) as pdf:
        assert str(pdf.docinfo.Author).endswith(" 🐇")  # the file's properties need no glyph
        assert "/JavaScript" not in str(pdf.Root.Names.keys()) + str(pdf.Root.keys())
        names = {file.name for file in files} | {"ceilings.json"}
        assert {str(file.UF) for file in pdf.Root.AF} == names == {*pdf.attachments}
    assert written("page") == said
    source, there = brief.page.read_text("utf-8"), elements(brief.page)
    assert HOSTILE not in source and "{{ 7 * 7 }}" in source and "〓" in source
    assert sum(each.tag == "script" for each in there) == 1
    assert not any(each.tag == "img" or "rel" in each.attrib for each in there)


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
    kinds = [each.get("src", "")[:15] for each in (first, second)]
    assert kinds == ["data:image/png;", "data:image/jpeg"]
