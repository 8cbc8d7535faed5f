"""The settings of a dataset: each once, with all implementations that have numbers there."""

from __future__ import annotations

from analysis.deriving import Plant

from flashlab.analysis.settings import settings_of


def test_a_setting_of_two_experiments_is_one_and_has_those_with_numbers(experiment: Plant) -> None:
    one = experiment({"Pytorch": (1, 2), "Flash2": (1, "oom")}, "one")
    other = experiment({"Flex": (1, 2)}, "other")
    found = settings_of([other, one])
    assert [set(setting.runs) for setting in found] == [
        {"Pytorch", "Flash2", "Flex"},
        {"Pytorch", "Flex"},
    ]
    assert [set(each.runs) for each in settings_of([one], without={"Flash2"})] == [{"Pytorch"}] * 2
