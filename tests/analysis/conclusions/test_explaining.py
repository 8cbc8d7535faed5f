"""What conclusions say of causes: of the pass that changed, and where a baseline changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from analysis.deriving import NO_CLAIMS, Plant, check

from flashlab.analysis.ceilings import Ceiling, Ceilings
from flashlab.analysis.derive import derive
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.finding import Finding
from flashlab.telling.values import Statement

ESTIMATES = Estimates()
COPY = Ceiling(4e9, ESTIMATES.of(("copy",), [1.0] * 30))
"""A copy bandwidth of 4 TB/s, as a time in ms and the bytes moved in it."""

CEILINGS = Ceilings("Abacus", {}, COPY)
WIDE = {"batch_size": 16, "num_heads": 32, "emb_dim": 2048}


def timed(milliseconds: float) -> list[float]:
    return [milliseconds / 1e3 * factor for factor in np.linspace(0.999, 1.001, 15)]


def counted(forward: float, backward: float = 3.5, **counters: float) -> dict[str, Any]:
    times = {"forward": timed(forward), "backward": timed(backward)}
    return {**times, "counters": {"busy_time": forward, **counters}}


def told(planted: Any, prefix: str) -> list[Statement]:
    """The statements of the sections with keys that begin so."""
    found = derive([planted], Estimates([planted]), NO_CLAIMS, CEILINGS)
    check(found, planted.benchmark)
    sections: Sequence[Finding] = [
        f for f in found if f.kind == "conclusion" and f.subject["topic"] == "section"
    ]
    every = (statement for finding in sections for statement in finding.statements)
    return [statement for statement in every if statement.key.startswith(prefix)]


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
    assert told(replace(along), "conclusion.jump") == []
