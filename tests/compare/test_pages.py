from __future__ import annotations

from pathlib import Path

import pikepdf
import pytest
from compare.recordings import record, runs
from pdf import pages

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.forest_plots import draw_comparison
from flashlab.compare.rendered import write_page, write_pdf
from flashlab.compare.two_sides import compare_records
from flashlab.files import write_json


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


def test_the_figures_have_a_row_for_each_run_and_a_panel_for_each_metric_that_varies(
    folder: Path,
) -> None:
    (figure,) = folder.joinpath("figures").glob("*.svg")
    drawn = figure.read_text(encoding="utf-8")
    shown = ("B1 N1024 H8 E512 full", "Forward", "Backward", "Peak memory")
    assert [drawn.count(text) for text in shown] == [1, 1, 1, 0]


def test_the_pdf_states_the_conclusion_in_both_languages_and_carries_the_data(
    folder: Path,
) -> None:
    pdf = folder / "compare.pdf"
    write_pdf(folder / "comparison.json", folder / "figures", pdf)
    text = "".join(pages(pdf))
    assert "<before>" in text
    told = " ".join(text.replace("\u00a0", " ").split())
    assert "Nothing is shown to be faster with after" in told and "確定較快" in told
    assert "N = 1024" in told  # the shapes of the difference
    with pikepdf.open(pdf) as opened:
        kept = opened.attachments["comparison.json"].get_file().read_bytes()
    assert kept == folder.joinpath("comparison.json").read_bytes()


def test_the_page_is_one_file_that_loads_nothing_and_lists_every_run(folder: Path) -> None:
    page = folder / "compare.html"
    write_page(folder / "comparison.json", folder / "figures", page)
    text = page.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert not any(loads in text for loads in ("<script", "<link", "<img", "@font-face", "@import"))
    assert "&lt;before&gt;" in text
    assert "<before>" not in text
    assert text.count("<tr class=") == 6
