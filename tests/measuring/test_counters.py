from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nsight_csv
import psutil
import pytest
import torch
from measuring.conftest import Measured
from waiting import Clock

from flashlab import machine
from flashlab.benchmarks.attention import measure
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import counters, supervise
from flashlab.records import COUNTERS, Record

RUN = attention_run("Mine", Shape(2, 37, 2, 16, True), "float16", "cuda")
GPU = machine.Gpu("GPU-00000000-1111-2222-3333-444444444444", "Abacus")
PROTOCOL = {"name": COUNTERS, "ncu": "2025.3.1.0", "metrics": ["m"], "timeout_s": 60}


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU to claim; only the program in the place of Nsight Compute would use it."""
    monkeypatch.setattr(machine, "gpus", lambda: [GPU])
    monkeypatch.setattr(machine, "driver_version", lambda: "580.1")


@pytest.fixture
def counted(measure: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Counts a run with a program in the place of Nsight Compute; reads the record."""

    def count(timeout_s: float = 60, **program: Any) -> Record:
        nsight_csv.install(tmp_path / "bin", **program)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return measure("", RUN, **{**PROTOCOL, "timeout_s": timeout_s})

    return count


def test_a_record_holds_the_counters_of_both_passes_and_of_each_kernel(
    counted: Measured, tmp_path: Path
) -> None:
    record = counted()
    assert (record.status, record.message, record.has_counters) == ("ok", None, True)
    assert record.metrics.keys() == {metric.name for metric in ATTENTION.all_counters("cuda")}
    expected = {
        **{"forward_kernels": 1, "backward_kernels": 3, "forward_dram_bytes": 318e6},
        **{"backward_busy_time": 17.2, "forward_matrix_activity": 63},
    }
    values = {name: record.metrics[name].value for name in expected}
    assert values == pytest.approx(expected)
    assert record.to_json().keys() == {"record"}  # a reader of the course's keys finds no result
    assert record.details is not None
    kernels = record.details["kernels"]["backward_time"]
    assert [kernel["name"] for kernel in kernels] == [f"flash_bwd_kernel_{i}" for i in range(3)]
    assert kernels[1]["busy_time"] == pytest.approx(17.1)
    called = json.loads((tmp_path / "bin" / "called").read_text())
    _, program, order, _ = called[called.index("-m") :]
    assert program == "flashlab.measuring.counters"
    assert json.loads(order)["measure"] == ATTENTION.measure


NO_ROOM = {**nsight_csv.ANSWER, "status": "oom", "message": "no room"}
REFUSED = "==ERROR== ERR_NVGPUCTRPERM - no permission\n"


@pytest.mark.parametrize(
    ("program", "status", "told"),
    [
        ({"printed": REFUSED}, "error", "ERR_NVGPUCTRPERM"),
        ({"printed": REFUSED, "answer": None, "status": 1}, "error", "ERR_NVGPUCTRPERM"),
        ({"printed": ""}, "error", "counted no kernel"),
        ({"answer": None, "status": 9}, "error", "ended with status 9"),
        ({"extra": "os.kill(os.getpid(), 11)"}, "error", "crashed: ended by signal SIGSEGV"),
        ({"answer": NO_ROOM}, "oom", "no room"),
    ],
    ids=["refused", "refused and ended", "no table", "ended", "crashed", "out of memory"],
)
def test_whatever_goes_wrong_becomes_a_record(
    counted: Measured, program: dict[str, Any], status: str, told: str
) -> None:
    record = counted(**program)
    assert record.status == status
    assert told in str(record.message)
    assert (record.metrics, record.details) == ({}, None)


def test_one_that_hangs_is_ended_with_all_that_it_started(
    counted: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setattr(supervise, "time", Clock(pid))
    child = "import subprocess; p = subprocess.Popen(['sleep', '600'])"
    note = f"open({str(pid)!r}, 'w').write(str(p.pid)); time.sleep(600)"
    record = counted(timeout_s=2500, extra=f"{child}; {note}")
    assert record.message == "timed out after 2500 s"
    assert not psutil.pid_exists(int(pid.read_text()))


def test_without_nsight_compute_the_record_says_so(
    measure: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    record = measure("", RUN, **PROTOCOL)
    assert (record.status, record.message) == ("error", "Nsight Compute (ncu) is not on PATH")


def test_each_pass_runs_once_unseen_and_once_counted_after_its_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: steps.append("marker"))
    for name in ("start", "stop"):
        monkeypatch.setattr(torch.cuda.profiler, name, lambda name=name: steps.append(name))

    def attention(qkv: torch.Tensor, causal: bool) -> torch.Tensor:
        steps.append("forward")
        out = qkv.unbind(2)[0] * 2
        if out.requires_grad:
            out.register_hook(lambda _: steps.append("backward"))
        return out

    mine: Any = SimpleNamespace(attention=attention)
    run = attention_run("Mine", Shape.of(RUN), "float32", "cpu")
    found = counters.count(measure, mine, {"run": run.to_json()})
    assert found == {"passes": list(ATTENTION.counters_on("cuda"))}
    assert " ".join(steps) == (
        "forward start marker forward stop forward backward start marker backward stop"
    )
