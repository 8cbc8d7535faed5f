from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nsight_csv
import psutil
import pytest
import torch
from measuring.conftest import Measured
from waiting import Clock, wait_until

from flashlab import machine
from flashlab.benchmarks.attention import measure
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.measuring import counters, supervise
from flashlab.plan.watching import has_ended
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
        protocol = {**PROTOCOL, "timeout_s": timeout_s}
        return measure("return naive(qkv, causal)", RUN, **protocol)

    return count


def test_a_record_holds_the_counters_of_both_passes_and_of_each_kernel(
    counted: Measured, tmp_path: Path
) -> None:
    record = counted()
    assert (record.status, record.message) == ("ok", None)
    assert record.has_counters
    assert record.metrics.keys() == {metric.name for metric in ATTENTION.all_counters("cuda")}
    values = {name: measured.value for name, measured in record.metrics.items()}
    assert values["forward_kernels"] == 1
    assert values["backward_kernels"] == 3
    assert values["forward_dram_bytes"] == pytest.approx(318e6)
    assert values["backward_busy_time"] == pytest.approx(17.2)
    assert values["forward_matrix_activity"] == pytest.approx(63)
    assert record.to_json().keys() == {"record"}  # a reader of the course's keys finds no result
    assert record.details is not None
    kernels = record.details["kernels"]["backward_time"]
    assert [kernel["name"] for kernel in kernels] == [f"flash_bwd_kernel_{i}" for i in range(3)]
    assert kernels[1]["busy_time"] == pytest.approx(17.1)
    called = json.loads((tmp_path / "bin" / "called").read_text())
    program = called[called.index("-m") :]
    assert program[1] == "flashlab.measuring.counters"
    assert json.loads(program[2])["measure"] == ATTENTION.measure


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ({"printed": "==ERROR== ERR_NVGPUCTRPERM - no permission\n"}, "ERR_NVGPUCTRPERM"),
        (
            {"printed": "==ERROR== ERR_NVGPUCTRPERM\n", "answer": None, "status": 1},
            "ERR_NVGPUCTRPERM",
        ),
        ({"printed": ""}, "counted no kernel"),
        ({"answer": None, "status": 9}, "ended with status 9"),
        ({"extra": "os.kill(os.getpid(), 11)"}, "crashed: ended by signal SIGSEGV"),
        (
            {"answer": {**nsight_csv.ANSWER, "status": "oom", "message": "no room"}},
            "no room",
        ),
    ],
    ids=["refused", "refused and ended", "no table", "ended", "crashed", "out of memory"],
)
def test_whatever_goes_wrong_becomes_a_record(
    counted: Measured, program: dict[str, Any], told: str
) -> None:
    record = counted(**program)
    assert record.status == ("oom" if told == "no room" else "error")
    assert told in str(record.message)
    assert (record.metrics, record.details) == ({}, None)


def test_one_that_hangs_is_ended_with_all_that_it_started(
    counted: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "time", Clock(tmp_path / "pid"))
    child = "import subprocess; p = subprocess.Popen(['sleep', '600'])"
    note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); time.sleep(600)"
    record = counted(timeout_s=2500, extra=f"{child}; {note}")
    assert record.message == "timed out after 2500 s"
    pid = int((tmp_path / "pid").read_text())
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(pid)
        wait_until(lambda: has_ended(started), "the end of what a killed process had started")


def test_without_nsight_compute_the_record_says_so(
    measure: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    record = measure("return naive(qkv, causal)", RUN, **PROTOCOL)
    assert (record.status, record.message) == ("error", "Nsight Compute (ncu) is not on PATH")


def test_each_pass_runs_once_unseen_and_once_counted_after_its_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: steps.append("marker"))
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: steps.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: steps.append("stop"))

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
    assert steps == [
        *("forward", "start", "marker", "forward", "stop", "forward"),
        *("backward", "start", "marker", "backward", "stop"),
    ]
