"""What stands in a report, and where: page one, failures, records, the appendix, the evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from pdf import depths, is_cut_off, pages, squeezed, text_of
from PIL import Image
from report.conftest import cells, elements, parts, said

from flashlab.remarks import read_remarks
from flashlab.report.attachments import attached_files
from flashlab.report.content import print_statements
from flashlab.report.document import Prose, Table
from flashlab.report.records import LONGEST_TEXT
from flashlab.report.render import to_html
from flashlab.story.observation import read_observations
from flashlab_grading.verification import attachments_of


def test_a_report_is_made_though_everything_failed_and_says_so_once(brief: Any) -> None:
    """Whatever the length of the message."""
    brief.fail("x" * 20_000)
    brief.draw()
    assert brief.call("report") == brief.call("page") == 0
    report = brief.compose()
    (failures,) = (t for t in parts(report, "environment", Table) if t.kind == "failures")
    messages = [cells(row)[-1] for row in failures.rows if cells(row)[-1] != "–"]
    assert messages[0] == "x" * (LONGEST_TEXT - 1) + "…" and len(messages) == 8
    assert all(each.startswith("The same as of run ") for each in messages[1:])
    assert "None of the 8 runs gave numbers" in " ".join(said(n) for _, n in report.notices)
    for name in ("seq_len", "causal"):
        (told,) = parts(report, f"experiment-{name}", Prose)
        assert "None of the" in said(told.text)


def test_what_is_no_number_and_records_that_differ_are_told_on_page_one(brief: Any) -> None:
    """A run has its sign in its table; what should agree is counted."""
    assert not any("differ" in said(notice) for _, notice in brief.compose().notices)
    brief.change_runs({"torch": "9.9.9"}, first=2)
    for status, sign in (("oom", "OOM"), ("implausible", "!"), ("error", "ERR")):
        brief.change_runs({"status": status, "message": "wrong"}, first=1)
        report = brief.compose()
        (table,) = parts(report, "experiment-seq_len", Table)
        assert sum(sign in cell for row in table.rows for cell in cells(row)) == 1
        notices = " ".join(said(notice) for _, notice in report.notices)
        assert "differ in what should agree" in notices and "Flash2" in notices
    facts = [cells(row) for each in parts(report, "environment", Table) for row in each.rows]
    assert any(row[0].startswith("torch") and "9.9.9 (2)" in row[1] for row in facts)
    brief.change(languages=["zh_TW"])  # what is the same in both is there, and nothing floats
    html = to_html(brief.compose())
    assert '<td class="text">torch</td>' in html and 'class="around"' not in html


def test_pages_but_the_last_are_mostly_full_and_an_experiment_stays_on_one(finished: Any) -> None:
    found, told = depths(finished.pdf), pages(finished.pdf)
    assert len(found) <= 9 and min(found[:-1]) >= 0.6
    for number in range(1, 5):
        assert sum(f"Experiment {number}:" in page.replace("\n", " ") for page in told[1:]) == 1


def test_each_sentence_is_printed_above_the_rows_that_it_rests_on(brief: Any, capsys: Any) -> None:
    found = read_observations(brief.local / "observations.json")
    print_statements(brief.local, "en")
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("[") for line in lines) == len(found) > 0
    below = lines[1 : 1 + len(found[0].evidence)]
    assert lines[0].startswith(f"[page one: {found[0].name}] ")
    assert [json.loads(line) for line in below] == [*found[0].evidence]


# What authors and records say: printed whatever it holds, or a warning says what is not

SET = """Text with `iiii MMMM`; [x](//host/a), [y](notes.md)

| a | b | c | d | e | f | g | h |
|---|---|---|---|---|---|---|---|
|LONG|LONG|LONG|LONG|LONG|LONG|LONG|LONG|

![寬的畫面](<shots/圖 1.png>)

![](shots/b.jpg)
""".replace("LONG", "x" * 40)


HOSTILE = (
    '<a rel="attachment" href="file:///etc/hostname">a</a><img src="file:///etc/passwd" alt="b">'
    "<style>@import 'file:///etc/passwd'</style>{{ 7 * 7 }}<script>alert(1)</script>"
)


def test_what_others_write_is_text_and_nothing_more(brief: Any, capsys: Any) -> None:
    """And a warning where the fonts lack it."""
    record = brief.quote(f"{HOSTILE} 🐇")
    files = attached_files(brief.config_file, brief.local, None, read_remarks(brief.config))
    said = brief.told("report", capsys)
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
    assert brief.told("page", capsys) == said
    source, there = brief.page.read_text("utf-8"), elements(brief.page)
    assert HOSTILE not in source and "{{ 7 * 7 }}" in source and "〓" in source
    assert sum(each.tag == "script" for each in there) == 1
    assert not any(each.tag == "img" or "rel" in each.attrib for each in there)


def test_what_a_remark_shows_stays_on_the_page(brief: Any, capsys: Any) -> None:
    """A screenshot wider than the page, and one taller, which is not coded again; no link names a
    folder."""
    shots = {"shots/圖 1.png": Image.new("RGBA", (1600, 300), "#c0ffee80")}
    shots["shots/b.jpg"] = Image.new("RGB", (300, 3000), "#0072b2")
    Path("shots").mkdir()
    for name, image in shots.items():
        image.save(name)
    brief.remark(SET, "zh_TW")
    (said,) = brief.told("report", capsys)
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
    attached = attachments_of(brief.pdf.read_bytes())
    for number, name in enumerate(shots, start=1):
        of = f"remark-seq_len-zh_TW-{number}{Path(name).suffix}"
        assert attached[of] == Path(name).read_bytes()
    brief.told("page", capsys)
    images = [each for each in elements(brief.page) if each.tag == "img"]
    shown = [(each.get("alt"), each.get("src", "")[:15]) for each in images]
    assert shown == [("寬的畫面", "data:image/png;"), ("b.jpg", "data:image/jpeg")]
