"""Results that the correctness gate found wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from findings.lookups import SHAPE

from flashlab.analysis.experiment import Sweep, read_planned_sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.correctness import correctness
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.records import Record

Gates = Mapping[tuple[str, int], Mapping[str, Any] | str | None]


@pytest.fixture
def gated(
    record_of: Callable[..., Record], write_sweep: Callable[..., Path], tmp_path: Path
) -> Callable[[Gates], Sweep]:
    """A sweep of runs that are ok (a text), or incorrect with what the gate compared."""

    def build(gates: Gates) -> Sweep:
        records = []
        for (name, size), gate in gates.items():
            run = attention_run(name, replace(SHAPE, seq_len=size), "float32", "cpu")
            if isinstance(gate, str):
                records.append(record_of(run, gate))
            else:
                records.append(replace(record_of(run, "incorrect"), gate=gate))
        return read_planned_sweep(write_sweep(records), tmp_path / "tables")

    return build


def by_verdict(sweep: Sweep) -> dict[str, Finding]:
    return {finding.verdict: finding for finding in correctness([sweep, sweep])}


def gate(out: float | None, dqkv: float | None) -> dict[str, Any]:
    return {"errors": {"out": out, "dqkv": dqkv}, "tolerance": 0.005}


def test_a_wrong_gradient_is_stated_with_its_error_and_the_tolerance(
    gated: Callable[[Gates], Sweep],
) -> None:
    gates: Gates = {
        ("A", 64): gate(0.001, 0.47),
        ("A", 128): gate(0.001, 0.3),
        ("A", 256): "ok",
        ("A", 512): "oom",
        ("B", 64): "ok",
    }
    found = by_verdict(gated(gates))
    wrong = found["wrong"]
    assert (wrong.experiment, wrong.subject) == (None, {"implementation": "A"})
    params = wrong.params
    assert (params["count"], params["checked"]) == (2, 3)
    assert (params["compared"]["en"], params["error"]) == ("gradient", 0.47)
    assert params["tolerance"] == "0.005"
    assert [(reason.code, reason.run["seq_len"]) for reason in wrong.reasons if reason.run] == [
        ("incorrect", 64),
        ("incorrect", 128),
    ]
    assert found["none"].params["count"] == 2


@pytest.mark.parametrize("compared", [None, gate(None, 0.1)])
def test_without_an_error_that_is_a_number_none_is_stated(
    gated: Callable[[Gates], Sweep], compared: dict[str, Any] | None
) -> None:
    found = by_verdict(gated({("A", 64): compared}))
    assert found.keys() == {"wrong"}
    assert found["wrong"].sentences == ["correctness.wrong.unmeasured"]
    assert "error" not in found["wrong"].params


def test_where_nothing_is_wrong_the_runs_are_counted(gated: Callable[[Gates], Sweep]) -> None:
    found = by_verdict(gated({("A", 64): "ok", ("B", 64): "ok", ("B", 128): "error"}))
    assert found.keys() == {"none"}
    assert found["none"].params == {"count": 2}
