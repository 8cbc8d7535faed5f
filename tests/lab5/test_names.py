"""Runs read from file names, and numbers from headings; what is ambiguous gives nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.lab5 import words
from flashlab.lab5.words import MEMORY, RATE, TIME, described

NAMES, HEADINGS = (
    [tuple(row) for row in csv.reader(Path(__file__).with_name(name).open(encoding="utf-8"))][1:]
    for name in ("names.csv", "headings.csv")
)
"""A name and what it says, nothing where it could as well mean something else; a heading and the
column of runs.csv that it names, or a pass, its number and the factor to the script's unit."""


@pytest.mark.parametrize(("name", "says"), NAMES)
def test_a_name_says(name: str, says: str) -> None:
    assert described(words.said_in_name(name)) == says


@given(st.text(max_size=80))
def test_any_name_can_be_read(name: str) -> None:
    assert described(words.said_in_name(name)) is not None
    assert words.column_of(name) is not None
    found = words.number_of(name)
    assert found is None or found[1] in (TIME, RATE, MEMORY)


@pytest.mark.parametrize(("heading", "column", "passed", "number", "factor"), HEADINGS)
def test_a_heading_names_a_number_or_a_column_in_any_spelling(
    heading: str, column: str, passed: str, number: str, factor: str
) -> None:
    assert words.number_of(heading) == ((passed, number, factor) if factor else None)
    assert words.column_of(heading) == (column or heading)
