from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashlab.files import canonical, socket_address, write_json

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), json_values), st.randoms())
def test_canonical_text_does_not_depend_on_the_order_of_keys(
    value: dict[str, Any], random: Random
) -> None:
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


def test_killed_in_the_middle_of_writing_the_old_file_stays_whole(
    tmp_path: Path, root: Path
) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    code = (
        "import sys, time; from pathlib import Path; from flashlab.files import open_atomically\n"
        f"with open_atomically(Path({str(path)!r})) as file:\n"
        "    file.write('half of the new'); file.flush(); print('writing', flush=True)\n"
        "    time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow")}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment
    ) as writer:
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


def test_a_socket_can_be_reached_however_long_its_path_is(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "socket"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with socket_address(path) as address:
            server.bind(address)
        server.listen()
        with socket_address(path) as address:
            client.connect(address)
        assert server.accept()
    assert path.is_socket()
