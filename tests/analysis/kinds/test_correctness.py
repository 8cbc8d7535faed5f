from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived, keys, quoted

from flashlab.analysis.kinds.correctness import CORRECTNESS


def wrong(out: float | None = None, dqkv: float | None = None) -> dict[str, Any]:
    """A run that the gate stopped: the errors of its output and of its gradient."""
    return {
        "status": "incorrect",
        "gate": {"errors": {"out": out, "dqkv": dqkv}, "tolerance": 0.005},
    }


def test_a_wrong_gradient_is_stated_with_its_error_and_the_tolerance(experiment: Plant) -> None:
    planted = experiment({"A": (wrong(0.001, 0.47), wrong(0.001, 0.3), {}, "oom"), "B": [{}]})
    found, right = derived(CORRECTNESS, planted, planted)
    assert (found.verdict, found.experiment) == ("wrong", None)
    assert found.subject == {"implementation": "A"}
    told = quoted(found)
    assert (told["count"], told["checked"]) == (2, 3)
    assert (told["compared"].texts["en"], told["error"]) == ("gradient", 0.47)
    assert told["tolerance"] == "0.005"
    assert [(r.code, r.run["seq_len"]) for r in found.reasons if r.run] == [
        ("incorrect", 128),
        ("incorrect", 256),
    ]
    assert (right.verdict, right.facts["checked"], right.statements) == ("none", 2, ())


@pytest.mark.parametrize("run", ["incorrect", wrong(None, 0.1)])
def test_without_an_error_that_is_a_number_none_is_stated(experiment: Plant, run: Any) -> None:
    (found,) = derived(CORRECTNESS, experiment({"A": [run]}))
    assert (found.verdict, keys(found)) == ("wrong", ["correctness.wrong.unmeasured"])
