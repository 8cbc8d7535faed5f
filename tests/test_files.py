"""Files that are written whole or not at all, and the canonical text of what they hold."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted.calls import another_process

from flashlab.files import canonical, write_json

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), JSON), st.randoms())
def test_canonical_text_has_no_order_of_keys(value: dict[str, Any], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert canonical(dict(items)) == canonical(value)
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_canonical_and_written_json_refuse_what_json_has_not(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError):
        canonical({"x": number})
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"x": number})
    assert list(tmp_path.iterdir()) == []


WRITING = """
import sys, time; from pathlib import Path; from flashlab.files import open_atomically
with open_atomically(Path(sys.argv[1])) as file:
    file.write('half of the new'); file.flush(); print('writing', flush=True)
    time.sleep(60)
"""


def test_killed_in_the_middle_of_writing_the_old_file_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    with another_process(WRITING, str(path)) as writer:
        assert writer.stdout and writer.stdout.readline() == b"writing\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert path.read_text() == "old"
    write_json(path, {"after": "the kill"})
    assert json.loads(path.read_text()) == {"after": "the kill"}


def test_on_a_full_disk_nothing_is_left_but_what_was_there(full_disk: Path) -> None:
    path = full_disk / "r.json"
    write_json(path, "old")
    with pytest.raises(OSError):
        write_json(path, ["x" * 100_000])
    assert [p.name for p in full_disk.iterdir()] == ["r.json"]
    assert json.loads(path.read_text()) == "old"
