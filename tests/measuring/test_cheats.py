"""Kernels that are right when they are first checked, and that are not what their times say."""

from __future__ import annotations

import re

import pytest
from measuring.conftest import CHEATS, Measured, refused_on

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring.protocols import MIN_CALLS
from flashlab.measuring.supervised import Section, refused

RUN = attention_run("Mine", Shape(2, 192, 4, 128, causal=True), "float32", "cpu")
pytestmark = pytest.mark.usefixtures("in_workflow")  # all by one server


@pytest.mark.parametrize("name", refused_on("cpu"))
def test_a_kernel_that_is_not_what_its_times_say_has_none(name: str, measure: Measured) -> None:
    for attempt in range(5):  # one that is wrong in 2% of calls is not found in each
        record = measure(CHEATS[name]["body"], RUN, max_seconds=0.5 if attempt else 0.02)
        if record.status != "ok":
            break
    assert (record.status, record.metrics) == ("incorrect", {})
    assert re.search(CHEATS[name]["said"], record.message or ""), record.message


@pytest.mark.parametrize("cheat", ["sums that it keeps", "half the gradient from the 12th on"])
def test_it_has_none_by_the_courses_protocol_either(cheat: str, measure: Measured) -> None:
    record = measure(CHEATS[cheat]["body"], RUN, name="lab5", repeats=20)
    assert (record.status, record.metrics) == ("incorrect", {})


def test_what_was_compared_again_stands_in_the_record(measure: Measured) -> None:
    gate = measure("", RUN).gate
    assert gate and gate["again"]["calls"] >= 2 * MIN_CALLS
    assert max(gate["again"]["errors"].values()) < gate["tolerance"]


def test_what_stays_allocated_from_the_first_call_on_counts(measure: Measured) -> None:
    body, scores = CHEATS["room for scores that stays"]["body"], 2 * 4 * 192**2 * 4 / 2**20
    bodies = (body, body.replace("kept.set", "{}.set"))
    stays, goes = (measure(each, RUN).metrics["peak_memory"].value for each in bodies)
    assert stays == pytest.approx(goes + scores)


def test_a_backward_pass_that_keeps_what_it_computed_gains_nothing(measure: Measured) -> None:
    record = measure(CHEATS["scores kept in ctx"]["body"], RUN)
    assert min(record.metrics["backward_time"].samples) >= 20


@pytest.mark.parametrize(
    ("section", "fits"),
    [
        *((Section(1.0, 0.9, True), True), (Section(1.0, 0.01, False), True)),
        *((Section(0.09, 0.01, True), True), (Section(1.0, 0.1, True), False)),
        (Section(1.0, 1.5, False), False),
    ],
)
def test_samples_that_contradict_the_clock_are_refused(section: Section, fits: bool) -> None:
    found = refused([Section(1.0, 0.9, True), section])
    assert (found == {}) == fits
    if not fits:
        assert (found["status"], found["metrics"]) == ("incorrect", {})
        assert f"add up to {section.samples:.3g} s" in found["message"]
