"""The evidence of a sentence."""

from __future__ import annotations

import json
from typing import Any

from flashlab.report.content import statement_lines
from flashlab.story.observation import read_observations


def test_each_sentence_is_printed_above_the_rows_that_it_rests_on(results: Any) -> None:
    found = read_observations(results.local / "observations.json")
    lines = list(statement_lines(found, "attention", "en"))
    assert sum(line.startswith("[") for line in lines) == len(found) > 0
    first, below = found[0], [json.loads(line) for line in lines[1 : 1 + len(found[0].evidence)]]
    assert lines[0].startswith(f"[page one: {first.name}] ")
    assert below == [*first.evidence]
