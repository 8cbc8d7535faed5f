from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest

from flashlab.figures.style import drawing


@pytest.fixture(autouse=True, scope="module")
def in_style() -> Iterator[None]:
    """Every figure is drawn, and looked at, in the report's style."""
    with drawing():
        yield


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """No test leaves figures open."""
    yield
    plt.close("all")
