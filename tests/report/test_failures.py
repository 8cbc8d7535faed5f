"""A report of runs that failed: it is made, and says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pdf import pages
from report.reading import en

from flashlab.report.data import LONGEST_TEXT
from flashlab.report.document import Cell


def pages_after(results: Any, squeezed: Callable[[str], str], failed: set[str]) -> list[str]:
    """The text of the report's pages, which are made whatever failed, and say so on the first."""
    results.fail(failed)
    report = results.compose()
    found = [squeezed(page) for page in pages(results.write())]
    assert results.write_page().is_file()
    assert found[1].startswith(squeezed("實驗 1"))
    assert squeezed("執行錯誤") in found[0]
    assert report.environment.failures is not None
    messages = [row.cells[-1] for row in report.environment.failures.rows]
    assert len(messages) == 4 * len(failed)
    assert isinstance(messages[0], Cell)
    assert all(en(message).startswith("The same as of run 1,") for message in messages[1:])
    assert report.front.map is None
    return found


def test_a_report_is_made_where_the_baseline_failed(
    brief: Any, squeezed: Callable[[str], str]
) -> None:
    pages_after(brief, squeezed, {"Pytorch"})


def test_an_experiment_without_any_number_says_so_once(
    brief: Any, squeezed: Callable[[str], str]
) -> None:
    first, *others = pages_after(brief, squeezed, {"Pytorch", "Flash2"})
    report = brief.compose()
    assert "None of the 8 runs gave numbers" in " ".join(map(en, report.front.notices))
    for section in report.sections:
        assert "None of the" in en(section.silent)
    assert squeezed("None of the 8 runs gave numbers") in first
    assert others


def test_a_message_of_any_length_is_typeset(brief: Any) -> None:
    brief.fail({"Flash2"}, message="x" * 20_000)
    failures = brief.compose().environment.failures
    assert failures is not None
    assert failures.rows[0].cells[-1] == Cell("x" * (LONGEST_TEXT - 1) + "…")
    assert pages(brief.write())
