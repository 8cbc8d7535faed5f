"""A report of runs that failed: it is made, and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report.reading import en


def pages(pdf: Path) -> list[str]:
    done = subprocess.run(
        ["pdftotext", "-raw", str(pdf), "-"], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.split("\f")


@pytest.mark.parametrize("failed", [{"Flash2"}, {"Pytorch"}, {"Pytorch", "Flash2"}])
def test_a_report_is_made_whatever_failed(
    results: Any, squeezed: Callable[[str], str], failed: set[str]
) -> None:
    results.fail(failed)
    report = results.compose()
    found = pages(results.write())
    assert results.write_page().is_file()
    first, second = squeezed(found[0]), squeezed(found[1])
    assert second.startswith(squeezed("實驗 1"))
    assert squeezed("執行錯誤") in first
    assert report.environment.failures is not None
    failures = report.environment.failures.rows
    assert len(failures) == 7 * len(failed)
    assert report.front.answer is not None and report.front.map is None


def test_an_experiment_without_any_number_says_so_once(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    results.fail({"Pytorch", "Flash2"})
    report = results.compose()
    assert "No run gave numbers" in en(report.front.answer.heading)
    for section in report.sections:
        assert section.statements.entries == []
        assert "None of the" in en(section.silent)
    found = pages(results.write())
    assert squeezed("No run gave numbers") in squeezed(found[0])
    after = squeezed("".join(found[1:]))
    assert after.count(squeezed("gave numbers, so nothing")) == len(report.chapters)
