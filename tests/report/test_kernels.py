"""The table of the kernels that were counted, where its bold stands for more than its digits."""

from __future__ import annotations

import pytest

from flashlab.analysis.launched import Launched
from flashlab.report.document import Cell
from flashlab.report.kernels import _cells


@pytest.mark.parametrize(("share", "strong"), [(79.4, False), (79.6, True), (80.0, True)])
def test_what_is_printed_as_near_its_peak_is_bold(share: float, strong: bool) -> None:
    found = _cells(Launched("product", 1, 1.0, 1.0, 0.0, share, 10.0), 1.0, 1.0)
    assert found[-2:] == [Cell(f"{share:.0f}", strong=strong), Cell("10")]
