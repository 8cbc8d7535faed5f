from __future__ import annotations

import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.kinds.derived_size import DERIVED_SIZE


@pytest.mark.parametrize(
    ("times", "verdicts"),
    [
        ({1: 2.0, 2: 3.0, 4: 3.0}, {"16 to 32": "equivalent", "32 to 64": "better"}),
        ({1: 4.0, 2: 3.0}, {"32 to 64": "worse"}),
    ],
)
def test_a_derived_size_is_compared_at_equal_operations(
    experiment: Plant, times: dict[int, float], verdicts: dict[str, str]
) -> None:
    """More heads of the same embedding: a smaller head dimension."""
    planted = experiment({"A": times}, "heads", "num_heads", sizes=lambda h: {"num_heads": h})
    found = derived(DERIVED_SIZE, planted, metric="forward_time")
    assert {f.subject["step"]: f.verdict for f in found} == verdicts
    assert all(f.subject["parameter"] == "head_dim" and f.facts["count"] == 1 for f in found)


def test_unequal_operations_are_not_compared(experiment: Plant) -> None:
    runs = {"A": {64: 1, 128: 1}}
    assert (
        derived(DERIVED_SIZE, experiment(runs, "e", "emb_dim", sizes=lambda e: {"emb_dim": e}))
        == []
    )
