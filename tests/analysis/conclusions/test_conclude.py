"""Conclusions decide nothing more than what they quote, and tell ties as ties.

What they say of planted data is a golden text (`golden.statements`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from analysis.deriving import NO_CLAIMS, Plant, check, keys

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import sections_of
from flashlab.analysis.finding import Finding
from flashlab.telling.values import Statement

FAILED = ("oom",) * 4
CEILINGS = Ceilings("Abacus", {}, Ceiling(4e9, Estimates().of(("copy",), [1.0] * 30)))
"""A copy bandwidth of 4 TB/s, as a time in ms and the bytes moved in it."""

WIDE = {"batch_size": 16, "num_heads": 32, "emb_dim": 2048}


def concluded(*experiments: Any, ceilings: Ceilings | None = None) -> list[Finding]:
    """The conclusions from all findings on these experiments, which are checked with them."""
    found = derive(experiments, Estimates(experiments), NO_CLAIMS, ceilings)
    check(found, experiments[0].benchmark)
    return [finding for finding in found if finding.kind == "conclusion"]


def of_section(found: Sequence[Finding]) -> Finding:
    (section,) = (each for each in found if each.subject["topic"] == "section")
    return section


def told(planted: Any, prefix: str) -> list[Statement]:
    """The statements of the section with keys that begin so."""
    section = of_section(concluded(planted, ceilings=CEILINGS))
    return [statement for statement in section.statements if statement.key.startswith(prefix)]


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
    told = keys(of_section(concluded(experiment(runs))))
    assert ("conclusion.variant.most.ideal" in told) is (other == 12)


# Causes


def timed(milliseconds: float) -> list[float]:
    return [milliseconds / 1e3 * factor for factor in np.linspace(0.999, 1.001, 15)]


def counted(forward: float, backward: float = 3.5, **counters: float) -> dict[str, Any]:
    times = {"forward": timed(forward), "backward": timed(backward)}
    return {**times, "counters": {"busy_time": forward, **counters}}


def on_gpu(experiment: Plant, runs: Any) -> Any:
    sizes = lambda n: {"seq_len": n, **WIDE}  # noqa: E731
    return experiment(runs, sizes=sizes, dtype="float16", device="cuda")


def test_what_a_mask_makes_slower_is_explained_by_the_pass_that_changed(
    experiment: Plant,
) -> None:
    planted = on_gpu(
        experiment,
        {
            ("Pytorch", False): {1024: counted(1.8, kernels=6, dram_bytes=4.9e9)},
            ("Pytorch", True): {1024: counted(3.5, kernels=10, dram_bytes=7.0e9)},
            ("Flash2", False): {1024: counted(0.4)},
            ("Flash2", True): {1024: counted(0.3, 2.0)},
        },
    )
    (changed,) = told(planted, "conclusion.variant.changed")
    values = changed.values
    assert values["changed_name"] == "Pytorch"
    assert values["changed_part"].of.metric == "forward_time"  # type: ignore[union-attr]
    assert (values["kernels_before"], values["kernels_after"]) == (6, 10)
    (outcome,) = told(planted, "conclusion.variant")[:1]
    assert [each.key for each in outcome.values["outcomes"].items] == [  # type: ignore[union-attr]
        "conclusion.outcome.gains",
        "conclusion.outcome.loses",
    ]


def test_where_the_baseline_changes_the_ratios_are_said_to(experiment: Plant) -> None:
    naive = (30, 120, 480, 1000)  # of four times the operations each
    runs = {"Pytorch": naive, "Flash2": (10, 40, 160, 640), "Flex": (9, 36, 144, 576)}
    (jump,) = told(experiment(runs), "conclusion.jump")
    assert (jump.key, jump.values["before"], jump.values["value"]) == (
        "conclusion.jump.rises",
        512,
        1024,
    )
    # The ratios of two say so themselves.
    pair = {name: times for name, times in runs.items() if name != "Flex"}
    assert told(experiment(pair), "conclusion.jump") == []
    # A derived size that changes along the sweep is the reason then.
    heads = {"name": "heads", "sweep": "num_heads", "values": (1, 2, 4, 8)}
    along = experiment(runs, sizes=lambda h: {"num_heads": h}, **heads)
    assert told(along, "conclusion.jump") == []
