from __future__ import annotations

from collections import Counter

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


def test_the_same_records_on_both_sides_are_equal_whatever_their_noise() -> None:
    one = record(runs(), 1, processes=1, spread=0.1)
    assert verdicts(compare_runs(ATTENTION, one, one)) == {"equal": 4}
