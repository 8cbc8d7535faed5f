"""Which counters a call plans to read: where, of which runs, and what is kept of that decision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab import machine, nsight
from flashlab.config import Layer
from flashlab.files import write_json
from flashlab.plan.datasets import DatasetError
from flashlab.plan.make import make
from flashlab.plan.plan_files import Plan

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
KEPT = Path("results/local/plan/counters.json")

Call = Callable[..., Plan]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """A call on a machine with or without a GPU and Nsight Compute; its decision is kept."""
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))

    def planned(ncu: str | None = "2025.3", device: str = "cuda", **keys: Any) -> Plan:
        monkeypatch.setattr(nsight, "version", lambda: ncu)
        monkeypatch.setattr(machine, "detect_device", lambda _: device)
        monkeypatch.setattr(machine, "device_name", lambda _: "H200")
        plan = make(Layer(str(CONFIG), {**config, **keys}))
        if KEPT.as_posix() in plan.views:
            write_json(KEPT, plan.views[KEPT.as_posix()])
        return plan

    return planned


def counted(plan: Plan) -> set[str]:
    return {Path(path).name for path in plan.counters}


def test_the_ends_of_each_sweep_are_counted_where_nsight_compute_is(call: Call) -> None:
    assert call(ncu=None).counters == [] == call(counters="no").counters
    plan = call()
    assert {*plan.counters} <= plan.orders.keys()
    full = (n for n in counted(plan) if n.startswith("counters-flash2-b16-") and "-full-" in n)
    assert {name.split("-n")[1].split("-")[0] for name in full} == {"128", "1024"}
    # The name follows Nsight Compute's version, but not the timing.
    assert counted(call(measure={"protocol": "lab5"})) == counted(plan)
    assert counted(call(ncu="2026.1")).isdisjoint(counted(plan))
    assert call(ncu=None, device="cpu").counters, "PyTorch's profiler needs nothing installed"


def test_without_nsight_compute_what_was_read_stays_and_no_more_is_read(call: Call) -> None:
    with pytest.raises(DatasetError, match=r"counters: yes needs .* but ncu is not on PATH"):
        call(counters="yes", ncu=None)
    first, second, *_ = call().counters
    Path(first).parent.mkdir(parents=True)
    Path(first).touch()
    assert call(ncu=None).counters == [first]
    assert second in call().counters
