"""The evidence of a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flashlab.report.content import print_statements
from flashlab.story.observation import read_observations


def test_each_sentence_is_printed_above_the_rows_that_it_rests_on(
    results: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_observations(results.local / "observations.json")
    print_statements(results.local, "en")
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("[") for line in lines) == len(found) > 0
    assert lines[0].startswith(f"[page one: {found[0].name}] ")
    below = [json.loads(line) for line in lines[1 : 1 + len(found[0].evidence)]]
    assert below == [*found[0].evidence]
