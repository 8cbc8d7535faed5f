"""The observations of a dataset as the report's sentences, in all of its languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flashlab.analysis.experiment import OBSERVATIONS, Experiment
from flashlab.report.data import ReportData
from flashlab.report.document import Sentence
from flashlab.story.observation import Observation, read_observations
from flashlab.story.telling import tell
from flashlab.telling.values import Label

LINE, FOOTNOTE, MAP = "line_", "footnote_", "map"
"""The beginnings of the names of observations on page one beside the answer."""


def sentence(data: ReportData, observation: Observation) -> Sentence:
    """An observation in words, in each of the report's languages."""
    words = {lang: tell(observation, data.benchmark.name, lang) for lang in data.languages}
    return Sentence(Label(words), observation.name)


def observations_of(data: ReportData) -> list[Observation]:
    """The observations of the dataset, in the report's order."""
    return read_observations(data.results / OBSERVATIONS)


def section_story(data: ReportData, group: Sequence[Experiment]) -> list[Sentence]:
    """The sentences of neighbouring experiments' sections."""
    names, last = {experiment.name for experiment in group}, data.experiments[-1] in group
    every = observations_of(data)
    told = [each for each in every if each.section in names]
    told += [each for each in every if last and each.place == "conclusion"]
    return [sentence(data, each) for each in told]


def _on_page_one(data: ReportData) -> Iterable[Observation]:
    found = (each for each in observations_of(data) if each.section is None)
    return (each for each in found if each.place != "conclusion")


def answer(data: ReportData) -> list[Sentence]:
    """The answer on page one."""
    besides = (LINE, FOOTNOTE, MAP)
    every = (each for each in _on_page_one(data) if each.place != "notice")
    answers = (each for each in every if not each.name.startswith(besides))
    return [sentence(data, each) for each in answers]


def choice_map(data: ReportData) -> Observation | None:
    """The fastest implementation by setting; None where the story has no map."""
    return next((each for each in _on_page_one(data) if each.name == MAP), None)


def lines(data: ReportData) -> list[tuple[Observation, Sentence]]:
    """A line for each experiment, with the observation that it is."""
    observations = (each for each in _on_page_one(data) if each.name.startswith(LINE))
    return [(each, sentence(data, each)) for each in observations]


def footnotes(data: ReportData) -> list[Sentence]:
    """The sentences at the foot of page one."""
    every = _on_page_one(data)
    found = (e for e in every if e.name.startswith(FOOTNOTE) or e.place == "notice")
    return [sentence(data, each) for each in found]
