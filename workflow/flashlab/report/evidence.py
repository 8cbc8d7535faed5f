"""Every sentence of a report above the rows of the tables that it rests on, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flashlab.analysis.experiment import OBSERVATIONS
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, read_json
from flashlab.story.observation import Observation, read_observations
from flashlab.story.telling import tell


def print_statements(results: Path, language: str) -> None:
    """Print the observations of a dataset's report, in its order."""
    benchmark = find_benchmark(read_json(results / "plan" / "config.json")["benchmark"])
    observations = read_observations(results / OBSERVATIONS)
    for line in statement_lines(observations, benchmark.name, language):
        print(line)


def statement_lines(
    observations: Sequence[Observation], benchmark: str, language: str
) -> Iterator[str]:
    """A line for each observation, and below it an indented one for each row of its evidence.

    An observation without rows rests on its facts, which are counted or exact.
    """
    for each in observations:
        where = each.section or "page one"
        yield f"[{where}: {each.name}] {tell(each, benchmark, language)}"
        for row in each.evidence or [each.facts]:
            yield f"  {canonical(row)}"
