"""The ladder from planted records to findings: steps, what moved with them, what a simulator says.

What its reports say are golden texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from planted.ladder import ON_GPU, SIMULATED
from planted.results import PlantedReport, find

from flashlab.analysis.finding import read_findings
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.telling.teller import Teller

Make = Callable[[PlantedReport], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The results of a report, made once."""
    homes: dict[int, Path] = {}

    def make(report: PlantedReport) -> Path:
        if id(report) not in homes:
            homes[id(report)] = report.write(tmp_path_factory.mktemp("ladder"))
        return homes[id(report)]

    return make


@pytest.mark.parametrize(
    ("name", "verdict", "ratio", "moved"),
    [
        ("SharedTiles", "helps", 2.0, ("global-memory loads", 8e12, 1e12)),
        ("Padded", "no_difference", 1.01, None),
        ("Coalesced", "hurts", 0.743, None),  # it was not counted
    ],
)
def test_a_step_is_judged_against_the_one_before_with_the_counter_that_moved_most(
    made: Make, name: str, verdict: str, ratio: float, moved: tuple[str, float, float] | None
) -> None:
    found = find(made(ON_GPU), "step", "ladder", implementation=name, metric="kernel_time")
    assert (found.verdict, found.facts["low"]) == (verdict, ratio)
    counter = found.facts.get("moved")
    assert moved == (
        counter and (counter["counter"].texts["en"], counter["before"], counter["after"])
    )


def test_the_whole_process_is_judged_from_single_times_in_several_processes(made: Make) -> None:
    """On t28 the kernels take 275, 137, 136 and 183 ms, everything else 1,600."""
    found = find(made(ON_GPU), "whole", "ladder", metric="process_time")
    (best,) = found.facts["told"]  # the fastest kernel is its own
    assert (found.verdict, found.facts["at"], best["name"]) == ("level", 28, "Padded")
    assert best["median"] == 1740  # three digits
    assert best["shares"]["process_start"] == pytest.approx(1000 / 1736, rel=1e-3)
    assert found.facts["level"] == ["Padded", "SharedTiles", "Coalesced"]
    assert found.facts["open"] == []


def test_a_step_that_helps_in_another_experiment_alone_is_told_to(made: Make) -> None:
    """Padded makes no difference on t10 and t28 (N = 16384), and is twice as fast at N = 4096."""
    found = read_findings(made(ON_GPU) / "findings.json")
    (told,) = (f for f in found if f.kind == "conclusion" and f.subject.get("topic") == "steps")
    (padded,) = (s for s in told.statements if s.key == "conclusion.front.steps.mixed")
    assert padded.values["step"] == "Padded"
    assert Teller("en", LADDER).tell(padded) == (
        "The kernel time of Padded: faster at N = 4096, no difference elsewhere."
    )


def test_all_kernels_that_cannot_be_told_from_the_fastest_are_named_with_it(made: Make) -> None:
    found = read_findings(made(ON_GPU) / "findings.json")
    (told,) = (f for f in found if f.kind == "conclusion" and f.subject.get("topic") == "climb")
    (top,) = (s for s in told.statements if s.key == "conclusion.front.top")
    assert Teller("en", LADDER).tell(top) == (
        "The kernel is fastest with SharedTiles, Padded: 2.02 TFLOP/s (t = 28)."
    )


def test_the_claims_about_the_ladder_are_decided(made: Make) -> None:
    findings = read_findings(made(ON_GPU) / "findings.json")
    claims = {f.subject["claim"]: f.verdict for f in findings if f.kind == "claim"}
    assert claims["ladder_shared_memory"] == "confirmed"
    assert claims["ladder_coalesced"] == "contradicted"
    assert "short_sequences_little_difference" not in claims


def test_the_parts_of_the_whole_process_are_drawn(made: Make) -> None:
    drawn = (made(ON_GPU) / "overview" / "split.svg").read_text(encoding="utf-8")
    for expected in ("整個程式的時間", "Reading the file", "implementation:SharedTiles"):
        assert expected in drawn


def test_the_counters_are_drawn_along_a_sweep_of_sizes(made: Make) -> None:
    drawn = (made(ON_GPU) / "overview" / "profile.svg").read_text(encoding="utf-8")
    for expected in ("實際占用率", "Achieved occupancy", "implementation:SharedTiles"):
        assert expected in drawn
    assert "Bank conflicts" not in drawn  # neither a share nor a throughput


def test_of_a_simulator_no_times_are_compared(made: Make) -> None:
    kinds = {finding.kind for finding in read_findings(made(SIMULATED) / "findings.json")}
    counted = {"correctness", "environment", "processes", "sittings", "counters"}
    assert kinds == {*counted, "conclusion"}
