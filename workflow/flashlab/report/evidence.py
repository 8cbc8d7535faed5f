"""Every sentence of a report above the rows of the tables that it rests on, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.files import canonical, read_json
from flashlab.story.observation import Observation, read_observations
from flashlab.story.words import sentence


def print_statements(results: Path, language: str) -> None:
    """Print the observations of a dataset's report, in its order."""
    story = read_json(results / "plan" / "config.json")["benchmark"]
    print(*statement_lines(read_observations(results / OBSERVATIONS), story, language), sep="\n")


def statement_lines(
    observations: Sequence[Observation], story: str, language: str
) -> Iterator[str]:
    """A line for each observation, and below it an indented one for each row of its evidence.

    An observation without rows rests on its facts, which are counted or exact.
    """
    for each in observations:
        where = ": ".join([each.section or "page one", each.name])
        yield f"[{where}] {sentence(each, language, story)}"
        for row in each.evidence or [each.facts]:
            yield f"  {canonical(row)}"
