"""How many pages the report has, and how full they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from report.reading import depths

from flashlab.report.chapters import shared_title


def test_the_students_report_has_at_most_ten_pages_at_least_half_full(finished: Any) -> None:
    found = depths(finished.pdf)
    assert len(found) <= 10
    assert min(found[:-1]) >= 0.5


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
