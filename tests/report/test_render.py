"""The PDF: what stands in it and goes with it, and what keeps it from being made."""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import itertools
import json
import math
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pdf import is_cut_off, text_of
from planted.course import write
from planted.project import SHORT_TEMPLATE

from flashlab.analysis.experiment import DERIVED, TABLES
from flashlab.figures.style import drawing, text_points
from flashlab.files import json_text
from flashlab.labels import messages
from flashlab.report import render
from flashlab.report.attachments import software
from flashlab.report.render import ProjectFetcher, from_their_starts, typeset
from flashlab_grading.verification import attachments_of

EXPERIMENTS = ("summary", "seq_len", "causal", "batch_size", "emb_dim")


def test_all_figures_are_there_and_say_what_they_show_and_no_hash_is_printed(finished: Any) -> None:
    text, numbers = text_of(finished.pdf), [*range(1, 9), "S1", "S2", "S3"]
    assert all(f"圖{n}" in text and f"Figure{n}" in text for n in numbers)
    with pikepdf.open(finished.pdf) as pdf:
        found = [each for each in pdf.objects if isinstance(each, pikepdf.Dictionary)]
        alternatives = [str(each.Alt) for each in found if "/Alt" in each]
    assert len(alternatives) > len(numbers)  # with the small ones of page one
    assert all(re.search("[一-龥]", alt) and re.search("[a-z]{3}", alt) for alt in alternatives)
    records = finished.folder.glob("results/local/records/*.json")
    digests = [path.stem.rpartition("-")[2] for path in records]
    assert digests and not any(digest in text for digest in digests)
    assert not re.search("(?=[0-9]*[a-f])[0-9a-f]{16}", text)  # the ticks of an axis are digits


def test_it_is_sound_tagged_and_an_archive_whose_ways_lead_somewhere(finished: Any) -> None:
    """Every font is embedded, and ours."""
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
        objects = [found for found in pdf.objects if isinstance(found, pikepdf.Dictionary)]
        for font in (found for found in objects if found.get("/Type") == "/Font"):
            # Arrows are of the font for code.
            ours = r"/[A-Z]{6}\+(Noto-?Sans-?TC(-Regular|-Bold)?|DejaVu-?Sans-?Mono)"
            assert re.fullmatch(ours, str(font.BaseFont))
            is_embedded = "/FontDescriptor" in font and "/FontFile2" in font.FontDescriptor
            assert font.Subtype == "/Type0" or (font.Subtype == "/CIDFontType2" and is_embedded)
    assert asked and asked <= there and len(titles) >= 8
    assert any("實驗 1" in title and "Experiment 1" in title for title in titles)


def test_no_text_is_cut_off_or_tiny(finished: Any) -> None:
    matrix = pdfium_c.FS_MATRIX()
    for page in pdfium.PdfDocument(finished.pdf):
        assert not is_cut_off(page)
        text = page.get_textpage()
        for i in range(text.count_chars()):
            letter = chr(pdfium_c.FPDFText_GetUnicode(text, i))
            if not letter.isspace() and pdfium_c.FPDFText_GetMatrix(text, i, ctypes.byref(matrix)):
                size = pdfium_c.FPDFText_GetFontSize(text, i) * math.hypot(matrix.c, matrix.d)
                assert size >= 5.95, letter


def test_all_that_it_rests_on_is_in_it_as_the_very_files(finished: Any) -> None:
    """Every record whole, samples and all; a manifest vouches for them."""
    local, found = finished.folder / "results/local", attachments_of(finished.pdf.read_bytes())
    manifest = json.loads(found.pop("manifest.json"))
    assert (manifest["dataset"], manifest["software"]) == ("local", software())
    assert manifest["files"] == {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in found.items()
    }
    files = {name: local / name for name in DERIVED} | {"config.json": local / "plan/config.json"}
    for name, table in itertools.product(EXPERIMENTS, TABLES):
        files[f"{name}-{table}.csv"] = local / "tables" / name / f"{table}.csv"
    assert found.keys() == files.keys() | {"records.jsonl.gz", "ceilings.json"}
    assert all(found[name] == file.read_bytes() for name, file in files.items())
    lines = map(json.loads, gzip.decompress(found["records.jsonl.gz"]).splitlines())
    records = {line["file"]: json_text(line["record"]).encode() for line in lines}
    paths = {*local.glob("records/*.json")} - {*local.glob("records/ceilings*")}
    assert records == {path.name: path.read_bytes() for path in paths}


# What keeps it from being made


def test_an_error_leaves_the_report_before_it(brief: Any, monkeypatch: Any, capsys: Any) -> None:
    """A figure that is gone; a character that no font of ours has, though others might lend it."""
    brief.pdf.write_bytes(b"the one before")
    figure = brief.local / "figures" / "causal" / "rate-flash2.svg"
    kept = figure.rename("kept.svg")
    assert brief.call("report") == 1 and figure.name in capsys.readouterr().err
    kept.rename(figure)
    shutil.copytree(render.TEMPLATES, "templates")
    template = SHORT_TEMPLATE.read_text("utf-8") + "<p>क</p>"
    Path("templates", "report.html.j2").write_text(template, encoding="utf-8")
    monkeypatch.setattr(render, "TEMPLATES", Path("templates").absolute())
    assert brief.call("report") == 1 and "issing glyph" in capsys.readouterr().err
    assert brief.pdf.read_bytes() == b"the one before"
    assert [path.name for path in brief.pdf.parent.iterdir()] == ["lab5.pdf"]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("in.css", None),
        ("../outside.css", "outside"),
        ("%2e%2e/outside.css", "outside"),
        ("link.css", "outside"),
        ("http://127.0.0.1:9/x", "disallowed protocol"),
    ],
)
def test_files_outside_the_project_stay_closed(tmp_path: Path, address: str, why: Any) -> None:
    folder = write(tmp_path / "a project", {"in.css": "p {}", "../outside.css": "p {}"})
    folder.joinpath("link.css").symlink_to(tmp_path / "outside.css")
    url = address if ":" in address else f"{folder.as_uri()}/{address}"
    with pytest.raises(ValueError, match=why) if why else nullcontext():
        assert ProjectFetcher((folder,)).fetch(url).read() == b"p {}"


# How texts are set: closer, from their starts; and they stay texts


@given(st.text(alphabet=st.sampled_from("<>&\"'（）：，快 a1=N;")))
def test_whatever_is_written_stays_text(text: str) -> None:
    for language in ("zh_TW", "en"):
        own = r'</?span(?: class="(?:pair|half|unit)")?>'
        assert not re.search("[<>\"']", re.sub(own, "", typeset(text, language)))


def test_scripts_are_a_space_apart_in_chinese_labels_and_full_width_marks_are_not() -> None:
    for key, text in (messages("zh_TW", "report") | messages("zh_TW", "figures")).items():
        whole = re.sub(r"\{\w+\}", "〓", text)
        assert not re.search("[，。；：（）] | [，。；：（）]", whole), (key, text)
        assert not re.search("[一-龥][A-Za-z0-9]|[A-Za-z0-9%][一-龥]", whole), (key, text)


def test_a_level_text_begins_as_far_left_as_its_width_says() -> None:
    def text(anchor: str, turned: str = "-0") -> str:
        style = f"font-size: 6.5px; font-family: 'Noto Sans TC'; text-anchor: {anchor}; fill: #222"
        at = f'x="100" y="20.5" transform="rotate({turned} 100 20.5)"'
        return f'<text style="{style}" {at}>0.05 &lt;</text>'

    with drawing():
        width = text_points("0.05 <")
    for anchor, share in (("end", 1), ("middle", 0.5)):
        set_ = from_their_starts(text(anchor))
        assert "text-anchor" not in set_ and "rotate" not in set_
        (x,) = re.findall(r'x="([\d.]+)"', set_)
        assert 100 - float(x) == pytest.approx(share * width, rel=0.02)
    for kept in (text("start"), text("middle", "-90")):
        assert from_their_starts(kept) == kept
