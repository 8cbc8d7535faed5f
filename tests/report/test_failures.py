"""A report of runs that failed: it is made, and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


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
    assert second.startswith(squeezed("目錄 Contents"))
    assert squeezed("執行錯誤 error") in first
    assert report.environment.failures is not None
    failures = report.environment.failures.rows
    assert len(failures) == 7 * len(failed)
    assert report.front.figure is None


def test_an_experiment_without_any_number_says_so_once(
    results: Any, squeezed: Callable[[str], str]
) -> None:
    results.fail({"Pytorch", "Flash2"})
    report = results.compose()
    assert report.front.key.entries == []
    for section in report.sections:
        assert section.statements.entries == []
        assert "None of the" in section.silent["en"]
    found = pages(results.write())
    assert squeezed("No check came to a finding") in squeezed(found[0])
    assert squeezed("".join(found)).count(squeezed("gave numbers, so nothing")) == 5
