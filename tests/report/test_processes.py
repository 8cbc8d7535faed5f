"""What a report says of the processes behind its numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
from report.reading import en

from flashlab.report.processes import _of_files


def test_files_show_differences_beyond_the_margin_and_the_widest_interval() -> None:
    """An interval to 1 / 0.9 of its ratio, whose end is beyond 5% from 17% on."""
    rows = pd.DataFrame({"ratio": 1.0, "low": [0.9, 0.5], "value": [128.0, None]})
    data: Any = SimpleNamespace(comparisons=rows)
    assert "17%" in en(_of_files(data, {1}, []))
