"""The identity of a record: what gives another one, what does not, and what a call says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.records import record_of

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import read_implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS
from flashlab.plan import identity
from flashlab.plan.runs import Namer
from flashlab.plan.state import upgrade_notices
from flashlab.records import write_record
from flashlab.runs import Run
from flashlab.sources import PACKAGE, sources_of

KERNEL = """
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
PACKAGES = ("flash-attn",)
def attention(qkv, causal): ...
"""
BOTH = KERNEL + "INPUTS = ('separate', 'packed')\ndef separate_attention(q, k, v, causal): ...\n"
Named = Callable[..., str]
SHAPE = Shape(1, 128, 8, 512, False)
RUN = attention_run("Mine", SHAPE, "float16", "cuda")
ON_CPU = replace(RUN, device="cpu")
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Names the record of RUN on a machine as it can be changed one thing at a time."""

    def name(run: Run = RUN, benchmark: Benchmark = ATTENTION, **change: Any) -> str:
        now = {"protocol": PROTOCOL, "kernel": KERNEL, "driver": "570.1", "gpu": "H200"} | change
        versions = {"torch": "2.0", "flash-attn": "2.8"} | change
        monkeypatch.setattr(machine, "package_version", versions.get)
        monkeypatch.setattr(machine, "driver_version", lambda: now["driver"])
        monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("GPU-1", now["gpu"])])
        (tmp_path / "mine.py").write_text(now["kernel"])
        mine = read_implementation(tmp_path / "mine.py")
        return identity.record_name(run, identity.identity(benchmark, run, now["protocol"], mine))

    return name


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": KERNEL.replace("...", "return qkv")},
        *({"torch": "2.1"}, {"flash-attn": "2.9"}, {"gpu": "H100"}),
        {"protocol": {**PROTOCOL, "max_seconds": 1.0}},
        {"protocol": {**PROTOCOL, "name": "lab5"}},
        {"run": replace(RUN, dtype="bfloat16")},
        {"run": attention_run("Mine", replace(SHAPE, causal=True), "float16", "cuda")},
        # The same kernel given q, k and v in another form is another measurement.
        {"kernel": BOTH, "benchmark": replace(ATTENTION, packed_protocols=("sampled",))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_numbers_is_in_the_name(named: Named, change: dict[str, Any]) -> None:
    assert named(**change) not in (named(), named(kernel=BOTH))


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": KERNEL + "# a comment\n"},
        {"kernel": KERNEL.replace("我的", "他的")},
        {"protocol": {**PROTOCOL, "timeout_s": 600}},
        {"protocol": dict(reversed(PROTOCOL.items()))},
        *({"driver": "580.0"}, {"run": ON_CPU, "gpu": "T4", "driver": "1"}),
    ],
    ids=["a comment", "the label", "the time limit", "the keys' order", "the driver", "on the CPU"],
)
def test_what_decides_no_number_is_out(named: Named, change: dict[str, Any]) -> None:
    assert named(**change) == named(run=change.get("run", RUN))


def test_ceilings_are_of_a_device_and_a_pytorch(named: Named) -> None:
    def name(device: str, **change: Any) -> str:
        named(**change)
        return identity.ceilings_name(device, machine.device_name(device))

    assert len({name("cuda"), name("cuda", torch="2.1"), name("cuda", gpu="H100")}) == 3
    assert name("cuda") == name("cuda", driver="580.0")
    assert name("cpu") == name("cpu", driver="1", gpu="T4")


def test_code_that_measures_counts_and_a_release_measures_nothing_again(
    named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version's number is in no file that a measuring process imports."""
    before, digest = named(), identity._tree_digest
    monkeypatch.setattr(identity, "measuring_digest", identity.measuring_digest.__wrapped__)
    edited = Path()
    monkeypatch.setattr(identity, "_tree_digest", lambda p: "" if p == edited else digest(p))
    for name in ("measuring/protocols", "statistics", "benchmarks/attention/gate", "version"):
        edited = PACKAGE / f"{name}.py"
        assert (named() == before) == (name == "version"), name
    measuring = [*identity.MEASURING_PROCESS, *(b.measure for b in BENCHMARKS.values())]
    sources = {path for module in measuring for path in sources_of(module)}
    assert not [path for path in sources if "__version__ =" in path.read_text(encoding="utf-8")]


# What a call says of runs that were measured before

EDITED = KERNEL.replace("...", "return qkv")
RUNS = [ON_CPU, replace(ON_CPU, dtype="float32")]


@pytest.fixture
def notices(tmp_path: Path) -> Callable[..., list[str]]:
    """The notices of a call, after both runs were measured under its folder."""

    def namer(source: str) -> Namer:
        (tmp_path / "mine.py").write_text(source)
        mine = {"Mine": read_implementation(tmp_path / "mine.py")}
        return Namer(ATTENTION, mine, tmp_path / "records", machine.device_name("cpu"))

    def found(source: str = KERNEL, **protocol: object) -> list[str]:
        named = namer(source)
        return upgrade_notices([named.entry(run, PROTOCOL | protocol) for run in RUNS], named)

    assert found() == [], "they are measured for the first time"
    named, environment = namer(KERNEL), {"device_name": machine.device_name("cpu")}
    for run in RUNS:
        by = identity.sources(named.identity_of(run, PROTOCOL, 0), named.implementations["Mine"])
        record = record_of(run, protocol=PROTOCOL, sources=by, environment=environment)
        write_record(named.entry(run, PROTOCOL).path, record)
    return found


def test_what_has_changed_since_a_run_is_said(notices: Callable[..., list[str]]) -> None:
    changed = "2 processes measured before; changed since: "
    assert notices() == []
    assert notices(EDITED) == [f"{changed}Mine"]
    assert notices(EDITED, max_seconds=1.0) == [f"{changed}the protocol, Mine"]
    assert notices(EDITED, name="lab5") == [], "those were by another protocol"


def test_the_newest_sound_record_counts(tmp_path: Path, notices: Callable[..., list[str]]) -> None:
    records = [*(tmp_path / "records").iterdir()]
    for old in records:
        document = json.loads(old.read_bytes())
        document["record"]["sources"]["measuring_digest"] = "older"
        older = old.with_name(f"{old.stem[:-12]}{'0' * 12}.json")
        older.write_text(json.dumps(document))
        os.utime(older, (1, 1))
    assert notices(EDITED) == ["2 processes measured before; changed since: Mine"]
    for path in (tmp_path / "records").iterdir():
        path.write_text("{")
    records[0].unlink()
    records[0].symlink_to(tmp_path / "unmounted")
    assert notices(EDITED) == [], "damaged ones are no reason"
