from __future__ import annotations

import re
from pathlib import Path

import pikepdf
import pytest
from compare.recordings import record, runs
from pdf import pages

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.comparison import compare_records
from flashlab.compare.forest_plot import draw_comparison
from flashlab.compare.heat_map import render_heat_map, shade
from flashlab.compare.listing import compared_of
from flashlab.compare.rendered import write_page, write_pdf
from flashlab.files import read_json, write_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with its figures: of one implementation slower, of a run that failed."""
    folder, measured = tmp_path_factory.mktemp("comparison"), runs([256, 1024])
    one = record(measured, 1)
    other = record(measured, 2, factor=lambda run: 1.3 if run["seq_len"] == 1024 else 1.0)
    document = compare_records(ATTENTION, ("<before>", one), ("after", other))
    write_json(folder / "comparison.json", {**document, "languages": ["zh_TW", "en"]})
    draw_comparison(folder / "comparison.json", folder / "figures")
    return folder


def test_the_forest_plot_has_a_row_for_each_class_of_sizes_and_a_panel_for_each_time(
    folder: Path,
) -> None:
    (figure,) = folder.joinpath("figures").glob("*.svg")
    drawn = figure.read_text(encoding="utf-8")
    shown = ("Flash2", "N ≤ 256", "N = 1024", "Forward", "Backward", "Peak memory")
    assert [drawn.count(f">{text}<") for text in shown[:3]] == [1, 1, 1]
    assert [text in drawn for text in shown[3:]] == [True, True, False]


def test_the_heat_map_has_every_setting_bold_where_it_is_decided(folder: Path) -> None:
    titles, blocks = render_heat_map(compared_of(read_json(folder / "comparison.json")))
    assert [*titles] == ["forward_time", "backward_time"]
    assert [block.titles for block in blocks] == [["N ≤ 256"], ["N = 1024"]]
    (short,), (long,) = (block.rows for block in blocks)
    assert (short[0], long[0]) == ("B1 N256 H8 E512 full", "B1 N1024 H8 E512 full")
    ((equal,), _), ((slower,), _) = short[1], long[1]
    assert (equal.text, equal.is_level) == ("0.99", False)
    assert (slower.text, slower.is_level) == ("0.77", True)


def test_the_colour_says_which_side_is_faster_and_by_how_much() -> None:
    assert shade(1.0) == ("#ffffff", False)
    (faster, _), (slower, _) = shade(1.2), shade(1 / 1.2)
    assert int(faster[1:3], 16) < int(faster[5:], 16)  # blue
    assert int(slower[1:3], 16) > int(slower[5:], 16)
    assert shade(9.0) == shade(2.0) == ("#0b3d62", True)


def test_the_pdf_tells_the_story_in_both_languages_and_carries_the_data(folder: Path) -> None:
    pdf = folder / "compare.pdf"
    write_pdf(folder / "comparison.json", folder / "figures", pdf)
    first = pages(pdf)[0]
    told = " ".join(first.replace("\u00a0", " ").split())
    assert "<before>" in told
    assert "after is slower in 1 of 4 comparisons: Flash2 forward" in told
    assert "after 有 1 項較慢" in told
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
    assert not any(loads in text for loads in ("<script", "<link", "<img", "@import"))
    assert re.findall(r"url\([\"']?([^#\"'].{4})", text) == ["data:"]  # the font inside it
    assert "&lt;before&gt;" in text
    assert "<before>" not in text
    assert text.count('<td class="verdict">') == 6
