from __future__ import annotations

import re
from pathlib import Path

import pikepdf
import pytest
from compare.recordings import document_of, record, runs
from pdf import pages

from flashlab.compare.forest import draw_comparison
from flashlab.compare.report import write_page, write_pdf
from flashlab.files import write_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with its figures: of one implementation slower, of a run that failed."""
    folder, measured = tmp_path_factory.mktemp("comparison"), runs([256, 1024])
    one = record(measured, 1)
    other = record(measured, 2, factor=lambda run: 1.3 if run["seq_len"] == 1024 else 1.0)
    document = document_of(folder, one, other)
    document["sides"][0]["name"] = "<before>"
    write_json(folder / "comparison.json", {**document, "languages": ["zh_TW", "en"]})
    draw_comparison(folder / "comparison.json", folder / "figures")
    return folder


def test_the_forest_plot_has_a_row_for_each_class_of_sizes_and_a_panel_for_each_time(
    folder: Path,
) -> None:
    (figure,) = folder.joinpath("figures").glob("*.svg")
    drawn = figure.read_text(encoding="utf-8")
    assert [drawn.count(text) for text in ("Flash2  N ≤ 256", "N = 1024<")] == [1, 1]
    assert [text in drawn for text in ("Forward", "Backward", "Peak memory")] == [True, True, False]


def test_the_pdf_tells_the_story_in_both_languages_and_carries_the_data(folder: Path) -> None:
    pdf = folder / "compare.pdf"
    write_pdf(folder / "comparison.json", folder / "figures", pdf)
    first = pages(pdf)[0]
    told = " ".join(first.replace("\u00a0", " ").split())
    assert "<before>" in told
    assert "after is slower in Flash2's" in told
    assert "after 較慢的" in told.replace("after 較 慢", "after 較慢")
    assert re.search(r"B1 N1024 H8 E512 full 0\.7\d+ / ≈", told)
    assert "N = 1024" in told  # the class of sizes
    assert "1.3 ms" not in "".join(pages(pdf))  # single runs are in the attached table
    with pikepdf.open(pdf) as opened:
        kept = opened.attachments["comparison.json"].get_file().read_bytes()
        table = opened.attachments["comparison.csv"].get_file().read_bytes().decode()
    assert kept == folder.joinpath("comparison.json").read_bytes()
    heading, *rows = table.splitlines()
    assert heading.startswith("experiment,compared,variant,metric,subject,reference,")
    single = [row for row in rows if ",dataset," in row and ",B1 N1024 H8 E512 full," in row]
    assert len(single) == 4  # two times, their total, and memory


def test_the_page_is_one_file_that_loads_nothing_and_lists_every_run(folder: Path) -> None:
    page = folder / "compare.html"
    write_page(folder / "comparison.json", folder / "figures", page)
    text = page.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert not any(loads in text for loads in ("<script src", "<link", "<img", "@import"))
    assert re.findall(r"url\([\"']?([^#\"'].{4})", text) == ["data:"]  # the font inside it
    assert "&lt;before" in text
    body = re.sub('(aria-label|data-part)="[^"]*"', "", text.partition("</title>")[2])
    assert "<before>" not in body
    assert text.count(">B1 N256 H8 E512 full<") == 1 + 3  # all settings, and every run
