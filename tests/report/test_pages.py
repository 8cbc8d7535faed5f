"""How many pages the report has, and how full they are."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flashlab.report.chapters import shared_title


def depths(pdf: Path) -> list[float]:
    """How far down each page its text reaches, labels of figures too, without the footer."""
    boxes = subprocess.run(
        ["pdftotext", "-bbox", str(pdf), "-"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = []
    for page in boxes.split("<page ")[1:]:
        height = float(re.search(r'height="([\d.]+)"', page)[1])  # type: ignore[index]
        ends = [float(end) / height for end in re.findall(r'yMax="([\d.]+)"', page)]
        found.append(max((end for end in ends if end < 0.95), default=0.0))
    return found


def test_the_students_report_has_at_most_ten_pages_at_least_half_full(finished: Any) -> None:
    found = depths(finished.pdf)
    assert len(found) <= 10
    assert min(found[:-1]) >= 0.5


@pytest.mark.parametrize("language", ["zh_TW", "en"])
def test_in_one_language_it_is_shorter_still(results: Any, language: str) -> None:
    results.redraw([language])
    found = depths(results.write())
    assert len(found) <= 9
    assert min(found[:-1]) >= 0.4


@pytest.mark.parametrize(
    ("titles", "shared"),
    [
        (["Long sequences (d = 64, full)", "Long sequences (d = 128, causal)"], "Long sequences"),
        (["長序列（d = 64，完整）", "長序列（d = 64，因果）"], "長序列"),
        (["Batches, small", "Batches, large"], "Batches"),
        (["Alpha one", "Alpha other"], "Alpha"),
        (["Alpha", "Beta"], "Alpha"),
        (["Only (this)"], "Only (this)"),
    ],
)
def test_experiments_of_one_section_share_the_beginning_of_their_titles(
    titles: Sequence[str], shared: str
) -> None:
    assert shared_title(titles) == shared
