"""Kernels that are right when they are first checked, and that are not what their times say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from measuring.cheats import CHEATS, HEAD, KEPT_IN_CTX, WORKSPACE
from measuring.conftest import Measured

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation, read_implementation
from flashlab.measuring.protocols import MIN_CALLS
from flashlab.measuring.supervised import Section, refused

RUN = attention_run("Mine", Shape(2, 192, 4, 128, causal=True), "float32", "cpu")


ATTEMPTS = 5


def kernel_of(tmp_path: Path, body: str) -> Implementation:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + body, encoding="utf-8")
    return read_implementation(path)


@pytest.mark.usefixtures("in_workflow")
@pytest.mark.parametrize("name", [name for name in CHEATS if "cpu" in CHEATS[name].devices])
def test_a_kernel_that_is_not_what_its_times_say_has_none(
    name: str, measure: Measured, tmp_path: Path
) -> None:
    implementation = kernel_of(tmp_path, CHEATS[name].body)
    for attempt in range(ATTEMPTS):  # one that is wrong in 2% of calls is not found in each
        record = measure(implementation, RUN, max_seconds=0.5 if attempt else 0.02)
        if record.status != "ok":
            break
    assert (record.status, record.metrics) == ("incorrect", {})
    assert re.search(CHEATS[name].said, record.message or ""), record.message


@pytest.mark.usefixtures("in_workflow")
@pytest.mark.parametrize("cheat", ["sums that it keeps", "half the gradient from the 12th on"])
def test_it_has_none_by_the_courses_protocol_either(
    cheat: str, measure: Measured, tmp_path: Path
) -> None:
    kernel = kernel_of(tmp_path, CHEATS[cheat].body)
    record = measure(kernel, RUN, name="lab5", repeats=20)
    assert (record.status, record.metrics) == ("incorrect", {})


@pytest.mark.usefixtures("in_workflow")
def test_what_was_compared_again_stands_in_the_record(measure: Measured) -> None:
    gate = measure("return naive(qkv, causal)", RUN).gate
    assert gate is not None
    assert gate["again"]["calls"] >= 2 * MIN_CALLS
    assert max(gate["again"]["errors"].values()) < gate["tolerance"]


@pytest.mark.usefixtures("in_workflow")
def test_what_stays_allocated_from_the_first_call_on_counts(
    measure: Measured, tmp_path: Path
) -> None:
    peak = measure(kernel_of(tmp_path, WORKSPACE), RUN).metrics["peak_memory"].value
    plain = measure(kernel_of(tmp_path, WORKSPACE.replace("kept.set", "{}.set")), RUN)
    scores = 2 * 4 * 192**2 * 4 / 2**20
    assert peak == pytest.approx(plain.metrics["peak_memory"].value + scores)


@pytest.mark.usefixtures("in_workflow")
def test_a_backward_pass_that_keeps_what_it_has_computed_again_gains_nothing(
    measure: Measured, tmp_path: Path
) -> None:
    record = measure(kernel_of(tmp_path, KEPT_IN_CTX), RUN)
    assert min(record.metrics["backward_time"].samples) >= 20


# What the supervising process's clock says


@pytest.mark.parametrize(
    "section", [Section(1.0, 0.9, True), Section(1.0, 0.01, False), Section(0.09, 0.01, True)]
)
def test_samples_that_fit_their_section_are_accepted(section: Section) -> None:
    assert refused([section]) == {}


@pytest.mark.parametrize("section", [Section(1.0, 0.1, True), Section(1.0, 1.5, False)])
def test_samples_that_contradict_the_supervisors_clock_are_refused(section: Section) -> None:
    found = refused([Section(1.0, 0.9, True), section])
    assert (found["status"], found["metrics"]) == ("incorrect", {})
    assert f"add up to {section.samples:.3g} s" in found["message"]
