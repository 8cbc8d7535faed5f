"""The second opinion: which pages a program of its own draws otherwise."""

from __future__ import annotations

import io
from pathlib import Path

import pikepdf
import pytest

from flashlab_grading import renderings
from flashlab_grading.renderings import compare_renderings


def drawn(*pages: bytes) -> bytes:
    """A PDF of small pages with these drawing operators."""
    out = io.BytesIO()
    with pikepdf.new() as pdf:
        for operators in pages:
            page = pdf.add_blank_page(page_size=(60, 60))
            page.obj["/Contents"] = pikepdf.Stream(pdf, operators)
        pdf.save(out)
    return out.getvalue()


BOX, OTHER = b"10 10 20 20 re f", b"10 10 20 30 re f"


def test_pages_that_are_drawn_otherwise_are_named_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "differences"
    (line,) = compare_renderings(drawn(BOX, OTHER, BOX), drawn(BOX, BOX), folder)
    assert line.startswith("pdftoppm draws page 2, 3 otherwise")
    assert {path.name for path in folder.iterdir()} == {"page-2.png", "page-3.png"}
    (line,) = compare_renderings(drawn(BOX), drawn(BOX + b" "), folder)
    assert line == "pdftoppm draws every page like the rebuilt one"
    assert not list(folder.iterdir())


def test_without_the_program_or_a_picture_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = compare_renderings(b"%PDF-1.7", drawn(BOX), tmp_path)
    assert line.startswith("pdftoppm cannot draw them")
    monkeypatch.setattr(renderings, "PROGRAM", "no-such-program")
    assert compare_renderings(drawn(OTHER), drawn(BOX), tmp_path) == []
