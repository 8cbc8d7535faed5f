from __future__ import annotations

from typing import Any

from analysis.deriving import Plant, derived, the_one, verdicts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted.experiments import SIZES

from flashlab.analysis.kinds.comparison import COMPARISON
from flashlab.analysis.kinds.crossover import CROSSOVER


def pair(*factors: float) -> dict[Any, Any]:
    """Flash2 so many times as fast as Pytorch at each value."""
    naive = [size**2 * 1e-3 for size in SIZES[: len(factors)]]
    fast = [time / factor for time, factor in zip(naive, factors, strict=True)]
    return {"Pytorch": naive, "Flash2": fast}


def test_the_headline_compares_the_total_of_both_passes_too(experiment: Plant) -> None:
    """And doubts about a record go along with what is built on it."""
    doubted = [{"code": "drift", "metric": "backward_time"}, {"code": "cpu_load"}]
    runs = {"Pytorch": [2], "Flash2": [{"forward": 1, "warnings": doubted}]}
    headline = experiment(runs, "summary", "")
    total = the_one(COMPARISON, headline, metric="forward_backward_time")
    assert (total.verdict, total.warnings) == ("better", ["cpu_load", "drift"])
    assert the_one(COMPARISON, headline).warnings == ["cpu_load"]
    swept = derived(COMPARISON, experiment(runs))
    assert {finding.metric for finding in swept} == {"forward_time", "backward_time"}


EXCHANGED = {
    **{"Flash2": "Pytorch", "Pytorch": "Flash2", "above": "below", "below": "above"},
    **{"better": "worse", "worse": "better"},
}


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0.9, 1.11), min_size=4, max_size=4), st.integers(12, 40))
def test_no_name_decides_a_verdict(experiment: Plant, speeds: list[float], count: int) -> None:
    """To exchange two names exchanges them in what is found, and nothing else."""
    runs = pair(*speeds)
    noise = {"count": count, "spread": 0.03}
    one = experiment(runs, **noise)
    other = experiment({EXCHANGED[name]: times for name, times in runs.items()}, "other", **noise)

    def swap(values: list[str]) -> list[str]:
        return [EXCHANGED.get(value, value) for value in values]

    def found(experiment: Any) -> list[str]:
        crossings = derived(CROSSOVER, experiment, metric="forward_time")
        told = [f"{f.facts.get(at)}" for f in crossings for at in ("low_at", "before", "after")]
        comparison = the_one(COMPARISON, experiment)
        return [comparison.verdict, *verdicts(comparison), *told]

    assert found(other) == swap(found(one))
