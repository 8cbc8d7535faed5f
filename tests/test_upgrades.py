"""The message on runs that were measured before and are measured again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from planted.records import record_of

from flashlab import machine
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import read_implementation
from flashlab.plan import identity
from flashlab.plan.runs import Namer
from flashlab.plan.state import upgrade_notices
from flashlab.records import write_record

KERNEL = """
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
def attention(qkv, causal): ...
"""
EDITED = KERNEL.replace("...", "return qkv")
SHAPES = [Shape(1, seq_len, 8, 512, False) for seq_len in (128, 256)]
RUNS = [attention_run("Mine", shape, "float32", "cpu") for shape in SHAPES]
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}


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
        older = old.with_name(f"{old.stem[: -identity.DIGITS]}{'0' * identity.DIGITS}.json")
        shutil.copyfile(old, older)
        document = json.loads(older.read_bytes())
        document["record"]["sources"]["measuring_digest"] = "older"
        older.write_text(json.dumps(document))
        os.utime(older, (1, 1))
    assert notices(EDITED) == ["2 processes measured before; changed since: Mine"]
    for path in (tmp_path / "records").iterdir():
        path.write_text("{")
    records[0].unlink()
    records[0].symlink_to(tmp_path / "unmounted")
    assert notices(EDITED) == [], "damaged ones are no reason"
