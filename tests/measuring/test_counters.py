"""Counters of a pass: what Nsight Compute prints of a GPU, and PyTorch's profiler of a CPU."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from measuring.conftest import Measured

from flashlab import machine, nsight
from flashlab.benchmarks.attention import measure
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.counters import KERNEL_COUNTERS
from flashlab.benchmarks.implementations import find_implementations
from flashlab.measuring import counters
from flashlab.measuring.operators import Call, Operator, computing, typical
from flashlab.nsight import NsightError
from flashlab.records import COUNTERS, Record
from flashlab.sources import sources_of

COUNTED = tuple(KERNEL_COUNTERS)
"""The counters that attention reads of its kernels."""

HEADER = """\
==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "spin_kernel": 0%....50%....100% - 7 passes
"ID","Process ID","Host Name","Kernel Name","Metric Name","Metric Unit","Metric Value"
"""
SPIN = ("spin_kernel(long)", "1,120 nsecond", "2,048 byte", "0 %", "1.56 %", "0.01 %", "0.1 %")
"""The kernel that marks the beginning of a pass: its name, and a cell for each of the counters."""
FORWARD = ("void flash_fwd", "6.90 msecond", "318.00 Mbyte", "63 %", "12.4 %", "63.5 %", "41.0 %")
FLASH2 = (
    *(SPIN, FORWARD, SPIN),
    ("flash_bwd_0", "40.0 usecond", "268.00 Mbyte", "0 %", "70 %", "10 %", "80 %"),
    ("flash_bwd_1", "17.1 msecond", "1.00 Gbyte", "51 %", "12.1 %", "52 %", "60 %"),
    ("flash_bwd_2", "60.0 usecond", "132.00 Mbyte", "0 %", "66 %", "11 %", "82 %"),
)
"""Both passes of Flash2 at B 1, N 16384, d 128, each after its marker."""


def table(*kernels: Sequence[str]) -> str:
    """The CSV of these kernels, with the lines around it."""
    text = HEADER
    for number, (name, *cells) in enumerate(kernels):
        for metric, cell in zip(nsight.metrics_for(COUNTED).values(), cells, strict=True):
            value, unit = cell.split()
            text += f'"{number}","4242","127.0.0.1","{name}","{metric}","{unit}","{value}"\n'
    return text


FAKE = """\
#!{python}
import json, sys
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Version 2025.3.1.0 (build 36398880) (public-release)")
    sys.exit()
order, answer = sys.argv[-2:]
open({folder!r} + "/called", "a").write(json.dumps(sys.argv) + "\\n")
open(sys.argv[sys.argv.index("--log-file") + 1], "w").write({printed!r})
if {answer!r} is not None:
    open(answer, "w").write(json.dumps({answer!r}))
sys.exit({status})
"""

PASSES = ("forward_time", "backward_time")
ANSWER = {
    "environment": {"device_name": "Abacus", "provider": "torch 2"},
    **{"status": "ok", "message": None, "passes": PASSES},
}


def install(
    folder: Path, printed: str = table(*FLASH2), answer: Any = ANSWER, status: int = 0
) -> None:
    """Write a program `ncu` into a folder, which prints this table and answers for its child."""
    folder.mkdir(exist_ok=True)
    given = {"python": sys.executable, "folder": str(folder), "printed": printed, "answer": answer}
    (folder / "ncu").write_text(FAKE.format(**given, status=status))
    (folder / "ncu").chmod(0o755)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        *(("1,500 nsecond", 0.0015), ("18.5 usecond", 0.0185), ("2 ms", 2), ("1.25 second", 1250)),
        *(("2,048 byte", 2048), ("1.5 Kbyte", 1500), ("318.00 Mbyte", 318e6), ("4 Gbyte", 4e9)),
    ],
)
def test_times_and_bytes_are_read_in_every_unit(cell: str, number: float) -> None:
    at, name = (2, "dram_bytes") if cell.endswith("byte") else (1, "busy_time")
    printed = table(SPIN, ("k", *FORWARD[1:at], cell, *FORWARD[at + 1 :]))
    (kernels,) = nsight.read_passes(printed, COUNTED, PASSES[:1]).values()
    assert nsight.of_pass(kernels)[name] == pytest.approx(number)


NO_BYTES = [line for line in table(*FLASH2).split("\n") if "dram__" not in line or "spin" in line]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("==ERROR== Failed to find metric sm__x\n", "no kernel: ==ERROR== Failed to find metric"),
        (table(("k", "1 fortnight", *SPIN[2:])), "in 'fortnight'"),
        (table(("k", "n/a ns", *SPIN[2:])), "gives no gpu__time_duration.sum: 'n/a'"),
        ("\n".join(NO_BYTES), r"gives no dram__bytes.sum of void flash_fwd"),
        (table(SPIN), r"\[0\] kernels in 1 passes, where there are 2"),
    ],
    ids=["an error", "a unit", "no number", "a metric that is missing", "a marker"],
)
def test_what_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(NsightError, match=told):
        nsight.read_passes(text, COUNTED, PASSES)


def test_the_clocks_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in (None, "2025.3.1.0"):
        nsight.version.cache_clear()
        assert nsight.version() == version
        install(tmp_path)
    nsight.version.cache_clear()
    found = nsight.command("log.csv", ["python", "x.py"], COUNTED)
    assert found[:5] == ["ncu", "--profile-from-start", "off", "--clock-control", "none"]
    assert "dram__bytes.sum" in found[found.index("--metrics") + 1].split(",")


# Runs that are counted

RUN = attention_run("Mine", Shape(2, 37, 2, 16, True), "float16", "cuda")
PROTOCOL = {"name": COUNTERS, "ncu": "2025.3.1.0", "metrics": ["m"], "timeout_s": 60}


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU to claim; only the program in the place of Nsight Compute would use it."""
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("GPU-1", "Abacus")])
    monkeypatch.setattr(machine, "driver_version", lambda: "580.1")


@pytest.fixture
def counted(measure: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Counts a run with a program in the place of Nsight Compute; reads the record."""

    def count(**program: Any) -> Record:
        install(tmp_path / "bin", **program)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return measure("", RUN, **PROTOCOL)

    return count


def test_a_record_holds_the_counters_of_both_passes(counted: Measured, tmp_path: Path) -> None:
    record = counted()
    assert (record.status, record.message, record.has_counters) == ("ok", None, True)
    assert record.metrics.keys() == {metric.name for metric in ATTENTION.all_counters("cuda")}
    expected = {
        **{"forward_kernels": 1, "forward_busy_time": 6.9, "forward_dram_bytes": 318e6},
        # added up, and weighted by time
        **{"backward_kernels": 3, "backward_busy_time": 17.2, "backward_dram_bytes": 1.4e9},
        **{"forward_matrix_activity": 63, "backward_matrix_activity": 51 * 17.1 / 17.2},
    }
    assert {name: record.metrics[name].value for name in expected} == pytest.approx(expected)
    assert record.to_json().keys() == {"record"}  # a reader of the course's keys finds no result
    assert record.details
    named = [each["name"] for name in PASSES for each in record.details["kernels"][name]]
    assert named == ["void flash_fwd", "flash_bwd_0", "flash_bwd_1", "flash_bwd_2"]
    *_, program, order, _ = json.loads((tmp_path / "bin" / "called").read_text())
    assert program == "flashlab.measuring.counters"
    assert json.loads(order)["measure"] == ATTENTION.measure


NO_ROOM = {**ANSWER, "status": "oom", "message": "no room"}
REFUSED = "==ERROR== ERR_NVGPUCTRPERM - no permission\n"


@pytest.mark.parametrize(
    ("program", "status", "told"),
    [
        ({"printed": REFUSED}, "error", "(ERR_NVGPUCTRPERM); an administrator can allow it"),
        ({"printed": REFUSED, "answer": None, "status": 1}, "error", "ERR_NVGPUCTRPERM"),
        ({"printed": ""}, "error", "counted no kernel: its output has no table"),
        ({"answer": NO_ROOM}, "oom", "no room"),
    ],
    ids=["refused", "refused and ended", "no table", "out of memory"],
)
def test_what_goes_wrong_is_a_record(counted: Any, program: Any, status: str, told: str) -> None:
    record = counted(**program)
    assert (record.status, record.metrics, record.details) == (status, {}, None)
    assert told in str(record.message)


def test_a_record_says_that_ncu_is_lacking(measure: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    record = measure("", RUN, **PROTOCOL)
    assert (record.status, record.message) == ("error", "Nsight Compute (ncu) is not on PATH")


def test_each_pass_runs_once_unseen_and_once_counted(monkeypatch: pytest.MonkeyPatch) -> None:
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
    expected = "forward start marker forward stop forward backward start marker backward stop"
    assert steps == expected.split()


# From the profiler's events, planted and real

SHAPE = Shape(1, 128, 2, 64, True)


def ns(name: str, nanoseconds: int, *calls: Call) -> Call:
    return Call(name if name[0].isupper() else f"aten::{name}", nanoseconds, calls)


BACKWARD = ns("BmmBackward0", 20, ns("mul", 18, ns("mul", 16)))
MATH = ns("scaled_dot_product_attention", 49, ns("bmm", 8), ns("_softmax", 10), ns("bmm", 20))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        # One that calls another gives way to it.
        (ns("einsum", 40, ns("reshape", 1), ns("bmm", 36)), [("product", "bmm", 36)]),
        (ns("softmax", 19), [("softmax", "softmax", 19)]),
        (BACKWARD, [("elementwise", "mul", 16)]),
        # A copy counts with the views that it makes.
        (ns("cat", 49, ns("narrow", 2, ns("slice", 1))), [("elementwise", "cat", 49)]),
        # Attention is fused where it calls neither products nor softmax.
        (ns("_flash_attention", 49, ns("zeros", 7)), [("fused", "_flash_attention", 49)]),
        (MATH, [("product", "bmm", 8), ("softmax", "_softmax", 10), ("product", "bmm", 20)]),
    ],
)
def test_what_computes_counts_once(call: Call, found: list[tuple[str, str, int]]) -> None:
    expected = [(kind, f"aten::{name}", time) for kind, name, time in found]
    assert [*computing(Call("flashlab::pass", 100, [call]))] == expected


def test_a_disturbance_of_one_call_does_not_count() -> None:
    def call(product: int, softmax: int) -> list[Operator]:
        return [Operator("product", "aten::bmm", product), Operator("softmax", "s", softmax)]

    other = [Operator("product", "aten::mm", 7)]
    assert typical([call(50, 20), call(51, 90), call(49, 21)]) == call(50, 21)
    assert typical([call(50, 20), other, call(49, 21)]) == other


@pytest.fixture
def profiled(in_workflow: None, measure: Measured) -> Callable[[str], Record]:
    """Counts the operators of an implementation on this CPU."""

    def count(name: str) -> Record:
        run = attention_run(name, SHAPE, "float32", "cpu")
        protocol = {"name": COUNTERS, "profiler": "torch.profiler", "timeout_s": 120}
        return measure(find_implementations()[name], run, **protocol)

    return count


def values(record: Record, name: str) -> dict[str, float]:
    counters = ATTENTION.counters_on("cpu")[name]
    return {each.quantity.name: record.metrics[each.name].value for each in counters}


def test_the_naive_pass_writes_its_scores_in_several_operators(profiled: Any) -> None:
    record = profiled("Pytorch")
    found = values(record, "forward_time")
    assert found["operators"] == 6  # product, mask (full and triu), sum, softmax, product
    scores = 4 * SHAPE.batch_size * SHAPE.num_heads * SHAPE.seq_len**2
    assert found["allocated_bytes"] >= 3 * scores  # before and after the mask, and the weights
    assert found["fused_share"] == 0
    kinds = ("product", "softmax", "fused", "elementwise")
    assert sum(found[f"{kind}_share"] for kind in kinds) == pytest.approx(100)
    assert record.details
    names = {operator["name"] for operator in record.details["operators"]["forward_time"]}
    assert {"aten::baddbmm", "aten::bmm", "aten::softmax"} <= names


def test_flash_attention_is_one_operator_that_allocates_its_output(profiled: Any) -> None:
    found = values(profiled("Flash2"), "forward_time")
    assert (found["operators"], found["fused_share"]) == (1, 100)
    output = 4 * SHAPE.batch_size * SHAPE.seq_len * SHAPE.emb_dim
    assert output <= found["allocated_bytes"] < 4 * output


def test_no_time_depends_on_what_counts_operators() -> None:
    assert "operators.py" not in {path.name for path in sources_of("flashlab.measuring.child")}
