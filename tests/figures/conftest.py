from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest

from flashlab.figures.style import drawing


@pytest.fixture(autouse=True)
def in_style() -> Iterator[None]:
    """Every figure is drawn, and looked at, in the report's style, and none is left open."""
    with drawing():
        yield
    plt.close("all")
