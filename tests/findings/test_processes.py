"""Findings on runs that were measured in several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from findings.lookups import SHAPE, the_one

from flashlab.analysis.doubts import with_doubts
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import PROCESSES_DIFFER, Sweep, read_planned_sweep
from flashlab.analysis.kinds.anomaly import unstable
from flashlab.analysis.kinds.comparison import comparisons
from flashlab.analysis.kinds.environment import environments
from flashlab.analysis.kinds.exact_comparison import exact_comparisons
from flashlab.analysis.kinds.processes import processes
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.records import Measurement, Record

Offsets = Mapping[tuple[str, int], Sequence[float]]
SIZES = (128, 256, 512, 1024)


@pytest.fixture
def replicated(
    noisy: Callable[..., list[float]],
    record_of: Callable[..., Record],
    write_sweep: Callable[..., Path],
    tmp_path: Path,
) -> Callable[..., Sweep]:
    """A sweep in which the times of each run's processes are these multiples of 1 ms."""

    def build(
        offsets: Offsets, change: Callable[[Record], Record] = lambda record: record
    ) -> Sweep:
        records = []
        for (name, size), factors in offsets.items():
            run = attention_run(name, replace(SHAPE, seq_len=size), "float32", "cpu")
            for process, factor in enumerate(factors):
                times = noisy(1e-3 * factor, spread=0.001)
                record = record_of(run, forward=times, backward=times)
                records.append(change(replace(record, sources={"process": process})))
        plan = write_sweep(records)
        return read_planned_sweep(plan, tmp_path / "tables", with_samples=True)

    return build


def of_both(pytorch: Sequence[float], flash2: Sequence[float]) -> Offsets:
    return {
        (name, size): factors
        for name, factors in (("Pytorch", pytorch), ("Flash2", flash2))
        for size in SIZES
    }


def test_one_process_of_each_run_is_single(replicated: Callable[..., Sweep]) -> None:
    (found,) = processes([replicated(of_both([1.0], [1.1]))])
    assert (found.verdict, found.params) == ("single", {"fewest": 1, "most": 1})


def test_the_spread_between_processes_is_stated(replicated: Callable[..., Sweep]) -> None:
    sweep = replicated(of_both([1.0, 1.01, 1.02], [1.0, 1.04, 1.08]))
    (found,) = processes([sweep])
    assert found.verdict == "repeated"
    assert found.params | {"fewest": 3, "most": 3, "implementation": "Flash2"} == found.params
    assert found.params["largest"] == pytest.approx(3.9, abs=0.15)
    assert 0.9 < found.params["middle"] < 4


def test_different_numbers_of_processes_are_varied(replicated: Callable[..., Sweep]) -> None:
    offsets = {**of_both([1.0, 1.01, 1.02], [1.0, 1.01, 1.02]), ("Flash2", 128): [1.0]}
    (found,) = processes([replicated(offsets)])
    assert (found.verdict, found.params["fewest"], found.params["most"]) == ("varied", 1, 3)


def test_two_processes_of_identical_code_that_differ_are_no_difference(
    replicated: Callable[..., Sweep],
) -> None:
    """By 8%, as far as the processes of either side differ; by one process each it would be one."""
    sweep = replicated(of_both([1.08, 1.16, 1.08], [1.0, 1.08, 1.0]))
    assert the_one(comparisons(sweep, Estimates())).verdict == "inconclusive"
    alone = replicated(of_both([1.08], [1.0]))
    assert the_one(comparisons(alone, Estimates())).verdict == "better"


def test_a_difference_beyond_the_spread_is_stated(replicated: Callable[..., Sweep]) -> None:
    sweep = replicated(of_both([1.5, 1.51, 1.52], [1.0, 1.01, 1.02]))
    assert the_one(comparisons(sweep, Estimates())).verdict == "better"


def test_one_process_states_no_difference_below_the_spread_of_its_kind(
    replicated: Callable[..., Sweep],
) -> None:
    spread = [1.0, 1.05, 1.1]
    offsets = {**of_both(spread, spread), ("Pytorch", 128): [1.12], ("Flash2", 128): [1.0]}
    (first, *_) = the_one(comparisons(replicated(offsets), Estimates())).estimates
    assert (first["value"], first["verdict"]) == (128, "inconclusive")


def test_a_process_that_drifts_makes_its_run_unstable(
    replicated: Callable[..., Sweep], noisy: Callable[..., list[float]]
) -> None:
    def drift(record: Record) -> Record:
        if record.process != 1 or record.run["seq_len"] != 256:
            return record
        times = (*noisy(1.0, 20, 0.001), *noisy(1.3, 20, 0.001))
        return replace(record, metrics={**record.metrics, "forward_time": Measurement(1.1, times)})

    sweep = replicated(of_both([1.0, 1.01, 1.02], [1.0, 1.01, 1.02]), drift)
    hits = [f for f in unstable(sweep, Estimates()) if f.params.get("sign") == "drift"]
    assert {finding.params["value"] for finding in hits} == {256}
    doubted = with_doubts(sweep, Estimates())
    found = the_one(comparisons(doubted, Estimates()))
    assert "halves_differ" in found.warnings


def test_a_sentence_on_processes_that_differ_in_memory_says_so(
    replicated: Callable[..., Sweep],
) -> None:
    def grow(record: Record) -> Record:
        peak = Measurement(10.0 + record.process)
        return replace(record, metrics={**record.metrics, "peak_memory": peak})

    sweep = replicated(of_both([1.0, 1.01], [1.0, 1.01]), grow)
    found = the_one(exact_comparisons(sweep, Estimates()), "peak_memory")
    assert found.warnings == [PROCESSES_DIFFER]


def test_a_process_measured_elsewhere_is_a_disagreement_of_the_records(
    replicated: Callable[..., Sweep],
) -> None:
    def move(record: Record) -> Record:
        elsewhere: dict[str, Any] = {**record.environment, "device_name": "Difference engine"}
        return replace(record, environment=elsewhere) if record.process == 2 else record

    sweep = replicated(of_both([1.0, 1.01, 1.02], [1.0, 1.01, 1.02]), move)
    fields = {f.subject["field"]: f for f in environments([sweep])}
    assert fields["device_name"].verdict == "differs"
    assert fields["device_name"].evidence.n == 24
