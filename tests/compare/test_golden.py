"""Every text that a user reads of compare, word for word."""

from __future__ import annotations

import pytest
from compare.golden import GOLDEN, texts


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    return texts()


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_what_is_printed_is_what_was_read_and_kept(name: str, printed: dict[str, str]) -> None:
    assert printed[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_every_text_is_kept(printed: dict[str, str]) -> None:
    assert printed.keys() == {path.name for path in GOLDEN.iterdir()}
