"""Conclusions decide nothing more than what they quote, and tell ties as ties.

What they say of planted data is a golden text (`golden.statements`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from analysis.deriving import NO_CLAIMS, Plant, check, keys

from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import sections_of
from flashlab.analysis.finding import Finding
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.telling.teller import Teller
from flashlab.telling.values import in_turn

FAILED = ("oom",) * 4


def concluded(*experiments: Any) -> list[Finding]:
    """The conclusions from all findings on these experiments, which are checked with them."""
    found = derive(experiments, Estimates(experiments), NO_CLAIMS, None)
    check(found, experiments[0].benchmark)
    return [finding for finding in found if finding.kind == "conclusion"]


def of_section(found: Sequence[Finding]) -> Finding:
    (section,) = (each for each in found if each.subject["topic"] == "section")
    return section


def of_front(found: Sequence[Finding], topic: str) -> list[Finding]:
    return [each for each in found if each.rank is not None and each.subject["topic"] == topic]


def three(**changes: Sequence[Any]) -> dict[str, Sequence[Any]]:
    return {
        "Pytorch": (300, 600, 1200, 2400),
        "Flash2": (10, 20, 60, 120),
        "Flash4": (15, 30, 40, 80),
        **changes,
    }


def test_what_ran_out_of_memory_is_told_once_and_not_as_checked(experiment: Plant) -> None:
    runs = {"Pytorch": (30, 60, 120, "oom"), "Flash2": (10, 20, 40, 80)}
    section = of_section(concluded(experiment(runs)))
    told = {statement.key: statement.values for statement in section.statements}
    assert told["conclusion.out_of_memory"]["oom_at"] == 1024
    absent = [each.key for each in told["conclusion.checked"]["absent"].items]  # type: ignore[union-attr]
    assert absent and "conclusion.absent.out_of_memory" not in absent
    assert not any(reason.status == "oom" for reason in section.reasons)


@pytest.mark.parametrize(
    ("other", "states", "names"),
    [
        ({}, ["alone"] * 4, ["Flash2", "Flash2", "Flash4", "Flash4"]),
        # A tie is shown as a tie, and not as a lead.
        ({"Flash4": (10.05, 20.1, 60, 120.5)}, ["level"] * 4, None),
    ],
)
def test_the_map_names_who_is_best_at_each_size(
    experiment: Plant, other: Any, states: list[str], names: list[str] | None
) -> None:
    found = concluded(experiment(three(**other)))
    (chart,) = of_front(found, "map")
    cells = [row[0] for row in chart.facts["charts"][-1]["cells"]]
    assert [cell["state"] for cell in cells] == states
    leads = any("wins" in key for key in keys(of_front(found, "choice")[-1]))
    assert leads is (names is not None)
    if names:
        assert [cell["names"] for cell in cells] == [[name] for name in names]
        assert all(45 <= int(cell["lead_low"]) <= 55 for cell in cells)
    else:
        assert all(set(cell["names"]) == {"Flash2", "Flash4"} for cell in cells)
    assert [f.rank for f in found if f.rank is not None] == [*range(len(found) - 1)]


def test_settings_of_one_place_that_differ_are_no_single_choice(experiment: Plant) -> None:
    other = three(Flash2=(15, 30, 60, 120), Flash4=(10, 20, 40, 80))
    batches = experiment(other, "batches", sizes=lambda n: {"seq_len": n, "batch_size": 7})
    (chart,) = of_front(concluded(experiment(three()), batches), "map")
    states = [row[0]["state"] for row in chart.facts["charts"][-1]["cells"]]
    assert states == ["changes", "changes", "alone", "alone"]


def test_neighbours_that_differ_in_one_fixed_parameter_share_a_section(experiment: Plant) -> None:
    def of(name: str, causal: bool, heads: int, batch: int = 1) -> Any:
        runs = {(who, causal): times for who, times in three().items()}
        sizes = {"num_heads": heads, "batch_size": batch}
        return experiment(runs, name, sizes=lambda value: {"seq_len": value, **sizes})

    experiments = [of("a", False, 2), of("b", True, 2), of("c", False, 4), of("d", True, 8, 7)]
    assert [[s.name for s in group] for group in sections_of(experiments)] == [
        ["a", "b", "c"],
        ["d"],
    ]
    sections = [each for each in concluded(*experiments) if each.subject["topic"] == "section"]
    assert [each.experiment for each in sections] == ["a", "d"]
    masked = {(name, True): times for name, times in three().items()}
    both = experiment({**three(), **masked}, "both")  # one with both variants has its own
    assert [len(group) for group in sections_of([experiment(three()), both])] == [1, 1]


@pytest.mark.parametrize("other", [12, 10.1])
def test_who_gains_most_is_told_where_it_is_decided(experiment: Plant, other: float) -> None:
    names = ("Pytorch", "Flash2", "Flash4", "SdpaCudnn")
    runs = {(name, mask): [20.0] * 4 for name in names for mask in (False, True)}
    runs["Flash2", True], runs["Flash4", True] = [10.0] * 4, [other] * 4
    runs |= {("Flex", mask): FAILED for mask in (False, True)}  # which tells nothing
    told = keys(of_section(concluded(experiment(runs))))
    assert ("conclusion.variant.most.ideal" in told) is (other == 12)


def test_an_undecided_total_says_which_pass_differs_and_by_how_much(experiment: Plant) -> None:
    """A pass twice as fast is told, where the other one scatters so that the total is open."""
    runs = {
        "Pytorch": [[(10, 9), (10, 10), (10, 11)]] * 4,
        "Flash2": [[(5, 9), (5, 15), (5, 22)]] * 4,
    }
    found = concluded(experiment(runs, spread=0.001))
    section, (front,) = of_section(found), of_front(found, "answer")
    assert section.verdict == front.verdict == "inconclusive"
    told = Teller("en", ATTENTION).tell(section.statements[0])
    assert told.startswith("In total time, no difference beyond 5% is shown (")
    assert "Flash2's forward is faster at N = 128, 256, 512, 1024 (2.00×); backward is unde" in told
    assert "Separately: forward is faster at 4 (2.00×); backward is undecided (" in Teller(
        "en", ATTENTION
    ).tell(in_turn(front.statements))


def test_a_pass_that_is_faster_at_some_sizes_says_at_which(experiment: Plant) -> None:
    slow = [(10, 9), (10, 15), (10, 22)]
    runs = {"Pytorch": [[(10, 9), (10, 10), (10, 11)]] * 4, "Flash2": [slow, slow, slow, slow]}
    runs["Flash2"][3] = [(5, 9), (5, 15), (5, 22)]
    section = of_section(concluded(experiment(runs, spread=0.001)))
    told = Teller("en", ATTENTION).tell(section.statements[0])
    assert "Flash2's forward is faster at N = 1024 (2.00×); backward is undecided (" in told


def test_what_ran_on_different_gpus_is_said_to_and_holds_at_no_settings(experiment: Plant) -> None:
    def on(gpu: str, time: float) -> list[dict[str, Any]]:
        environment = {"device_name": "Abacus", "packages": {}, "gpu_uuid": gpu, "boot": "a"}
        return [{"forward": time * size, "environment": environment} for size in (1, 2, 4, 8)]

    told = []
    for gpu in ("GPU-1", "GPU-2"):
        found = concluded(experiment({"Pytorch": on("GPU-1", 40), "Flash2": on(gpu, 10)}))
        (front,) = of_front(found, "answer")
        told.append(Teller("en", ATTENTION).tell(in_turn(front.statements)))
        assert ("cards_differ" in front.warnings) == (gpu == "GPU-2")
        assert "sittings_differ" not in front.warnings
    assert "times as fast as Pytorch. This holds at all 4 settings." in told[0]
    assert (
        "times as fast as Pytorch, but they ran on different GPUs (4 of 4 settings). "
        "How much of that the GPUs make is not known."
    ) in told[1]
    assert "all 4 settings" not in told[1]


def test_a_tie_of_three_names_all_three(experiment: Plant) -> None:
    runs = three(Flash2=(300, 600, 1200, 2400), Flash4=(301, 602, 1204, 2408))
    found = concluded(experiment(runs))
    teller = Teller("en", ATTENTION)
    (total,) = (
        each for each in of_front(found, "choice") if each.metric == "forward_backward_time"
    )
    for statement in (total.statements[0], of_section(found).statements[0]):
        assert "Flash2, Pytorch, Flash4 are level" in teller.tell(statement)
