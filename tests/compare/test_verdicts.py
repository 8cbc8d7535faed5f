from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compare.recordings import record, runs

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.pairs import Pair, compare_runs


def verdicts(pairs: list[Pair], metric: str | None = "forward_time") -> Counter[str]:
    return Counter(pair["verdict"] for pair in pairs if pair["metric"] == metric)


def test_two_recordings_of_identical_code_never_differ() -> None:
    measured = runs(range(256, 256 * 21, 256))
    for seed, spread in enumerate((0.003, 0.01, 0.02)):
        one, other = (record(measured, 2 * seed + side, spread=spread) for side in (0, 1))
        found = verdicts(compare_runs(ATTENTION, one, other))
        assert found.keys() <= {"equal", "inconclusive"}
    # Where processes differ by little, most runs are decided.
    quiet = (record(measured, seed, spread=0.003) for seed in (10, 11))
    assert verdicts(compare_runs(ATTENTION, *quiet))["equal"] == len(measured)


def test_a_run_that_takes_a_fifth_longer_is_slower_and_the_other_way_round_faster() -> None:
    measured = runs()
    before, after = record(measured, 1), record(measured, 2, factor=lambda run: 1.2)
    assert verdicts(compare_runs(ATTENTION, before, after)) == {"slower": 4}
    assert verdicts(compare_runs(ATTENTION, after, before)) == {"faster": 4}
    assert verdicts(compare_runs(ATTENTION, before, after), "backward_time") == {"equal": 4}


def test_single_processes_decide_nothing_below_the_spread_that_they_hide() -> None:
    measured = runs()
    one = record(measured, 1, processes=1)
    tenth = record(measured, 2, processes=1, factor=lambda run: 1.1)
    half = record(measured, 3, processes=1, factor=lambda run: 1.5)
    assert verdicts(compare_runs(ATTENTION, one, tenth)) == {"inconclusive": 4}
    assert verdicts(compare_runs(ATTENTION, one, half)) == {"slower": 4}


def test_exact_memory_is_compared_without_samples() -> None:
    measured = runs()
    one, more = record(measured, 1), record(measured, 2, peak=12.0)
    assert verdicts(compare_runs(ATTENTION, one, more), "peak_memory") == {"worse": 4}
    assert verdicts(compare_runs(ATTENTION, more, one), "peak_memory") == {"better": 4}


def test_a_run_with_a_result_on_one_side_alone_has_failed_or_is_mended() -> None:
    measured = runs()
    one, other = record(measured, 1), record(measured, 2)
    other[measured[0]] = [
        replace(r, status="incorrect", message="wrong", metrics={}) for r in other[measured[0]]
    ]
    assert verdicts(compare_runs(ATTENTION, one, other), None) == {"failed": 1}
    assert verdicts(compare_runs(ATTENTION, other, one), None) == {"mended": 1}
    assert verdicts(compare_runs(ATTENTION, one, other))["equal"] == 3
    assert verdicts(compare_runs(ATTENTION, other, other), None) == {}


def test_the_same_records_on_both_sides_are_equal_whatever_their_noise() -> None:
    one = record(runs(), 1, processes=1, spread=0.1)
    assert verdicts(compare_runs(ATTENTION, one, one)) == {"equal": 4}
