"""Which neighbouring experiments share a section."""

from __future__ import annotations

from typing import Any

from analysis.deriving import Plant

from flashlab.analysis.experiment import sections_of


def test_neighbours_that_differ_in_one_fixed_parameter_share_a_section(experiment: Plant) -> None:
    times = {"Pytorch": (300, 600, 1200, 2400), "Flash2": (10, 20, 60, 120)}

    def of(name: str, causal: bool, heads: int, batch: int = 1) -> Any:
        runs = {(who, causal): each for who, each in times.items()}
        sizes = {"num_heads": heads, "batch_size": batch}
        return experiment(runs, name, sizes=lambda value: {"seq_len": value, **sizes})

    experiments = [of("a", False, 2), of("b", True, 2), of("c", False, 4), of("d", True, 8, 7)]
    assert [[s.name for s in group] for group in sections_of(experiments)] == [
        ["a", "b", "c"],
        ["d"],
    ]
    masked = {(name, True): each for name, each in times.items()}
    both = experiment({**times, **masked}, "both")  # one with both variants has its own
    assert [len(group) for group in sections_of([experiment(times), both])] == [1, 1]
