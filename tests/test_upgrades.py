"""The message on runs that were measured before and are measured again."""

import json
import os
import shutil
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
RUNS = [
    attention_run("Mine", Shape(1, seq_len, 8, 512, False), "float32", "cpu")
    for seq_len in (128, 256)
]
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}


def namer(folder: Path, source: str = KERNEL) -> Namer:
    (folder / "mine.py").write_text(source)
    mine = {"Mine": read_implementation(folder / "mine.py")}
    return Namer(ATTENTION, mine, folder / "records", machine.device_name("cpu"))


def notices(folder: Path, source: str = KERNEL, **protocol: object) -> list[str]:
    named = namer(folder, source)
    return upgrade_notices([named.entry(run, PROTOCOL | protocol) for run in RUNS], named)


@pytest.fixture
def records(tmp_path: Path) -> list[Path]:
    """Records of both runs as they are measured now."""
    assert notices(tmp_path) == [], "they are measured for the first time"
    named = namer(tmp_path)
    for run in RUNS:
        sources = identity.sources(
            named.identity_of(run, PROTOCOL, 0), named.implementations["Mine"]
        )
        about = {"device_name": machine.device_name("cpu")}
        record = record_of(run, protocol=PROTOCOL, sources=sources, environment=about)
        write_record(named.entry(run, PROTOCOL).path, record)
    return [*(tmp_path / "records").iterdir()]


@pytest.mark.usefixtures("records")
def test_what_has_changed_since_runs_were_measured_is_said(tmp_path: Path) -> None:
    assert notices(tmp_path) == []
    assert notices(tmp_path, EDITED) == ["2 processes measured before; changed since: Mine"]
    (said,) = notices(tmp_path, EDITED, max_seconds=1.0)
    assert said == "2 processes measured before; changed since: the protocol, Mine"
    assert notices(tmp_path, EDITED, name="lab5") == [], "those were by another protocol"


def test_the_newest_record_of_a_run_is_what_it_was(tmp_path: Path, records: list[Path]) -> None:
    for old in records:
        older = old.with_name(f"{old.stem[: -identity.DIGITS]}{'0' * identity.DIGITS}.json")
        shutil.copyfile(old, older)
        document = json.loads(older.read_bytes())
        document["record"]["sources"]["measuring_digest"] = "older"
        older.write_text(json.dumps(document))
        os.utime(older, (1, 1))
    (said,) = notices(tmp_path, EDITED)
    assert said == "2 processes measured before; changed since: Mine"


def test_a_record_that_is_damaged_or_a_link_to_nowhere_is_no_reason(
    tmp_path: Path, records: list[Path]
) -> None:
    records[0].write_text("{")
    records[1].unlink()
    records[1].symlink_to(tmp_path / "unmounted")
    assert notices(tmp_path, EDITED) == []
