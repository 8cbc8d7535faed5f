"""Files that are written whole or not at all, and the lists of digests of what jobs have made."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted.calls import another_process

from flashlab.files import canonical, sha256_of, write_json
from flashlab.plan.digests import LIST, ChangedError, read_digests, refuse_changed, write_digests
from flashlab.plan.plan_files import RECORDS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(-9, 9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), JSON))
def test_canonical_text_has_no_order_of_keys(value: dict[str, Any]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_canonical_and_written_json_refuse_what_json_has_not(tmp_path: Path, number: float) -> None:
    for write in (canonical, partial(write_json, tmp_path / "x.json")):
        with pytest.raises(ValueError):
            write({"x": number})
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
        assert writer.stdout and writer.stdout.readline() == "writing\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert path.read_text() == "old"
    (link := tmp_path / "link.json").symlink_to(path)
    write_json(link, "after the kill")
    assert link.is_symlink() and json.loads(path.read_text()) == "after the kill"


def test_on_a_full_disk_nothing_is_left_but_what_was_there(tmp_path: Path) -> None:
    """In whose place is a limit on the size of files."""
    path, limits = tmp_path / "r.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    write_json(path, "old")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    try:
        with pytest.raises(OSError):
            write_json(path, ["x" * 100_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    assert json.loads(path.read_text()) == "old"


# The lists of digests of what jobs have made


def written(folder: Path, name: str, text: str = "{}") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_list_holds_the_newest_files_of_an_output_and_those_beside_it(tmp_path: Path) -> None:
    names = ("tables/causal/runs.csv", "tables/causal/old.csv", "estimates.csv")
    runs, old, estimates = (written(tmp_path, name) for name in names)
    written(tmp_path, "tables/.snakemake_timestamp")
    write_digests(tmp_path / "tables", ["estimates.csv"])
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (runs, old, estimates)}
    old.unlink()
    runs.write_text("another\n")
    write_digests(tmp_path / "tables", ["estimates.csv"])
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (runs, estimates)}


def test_jobs_that_end_at_once_lose_no_digest(tmp_path: Path) -> None:
    records = [written(tmp_path, f"{i}.json", str(i)) for i in range(40)]
    with ThreadPoolExecutor(8) as jobs:
        list(jobs.map(write_digests, records * 3))
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in records}
    assert len((tmp_path / LIST).read_text().splitlines()) == len(records)


def test_a_list_that_is_damaged_is_one_of_fewer_files(tmp_path: Path) -> None:
    before, after = (written(tmp_path, name) for name in ("a.json", "b.json"))
    write_digests(before)
    with (tmp_path / LIST).open("ab") as file:
        file.write(b"\0\0\xff\nabc  \n12")
    write_digests(after)  # which the line that was cut off does not take with it
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (before, after)}


def test_tables_and_report_are_made_of_nothing_that_has_changed(tmp_path: Path) -> None:
    """While a call goes on: what it planned is no longer what a job would read."""
    names = ("records/r.json", "records/of-another-plan.json", "tables/causal/runs.csv")
    record, other, runs = (written(tmp_path, name) for name in names)
    write_json(tmp_path / RECORDS, {"experiments": {"causal": [{"path": str(record)}]}})
    for made in (record, other, tmp_path / "tables"):
        write_digests(made)
    other.write_text("{ }")
    refuse_changed(tmp_path, with_made=True)
    runs.write_text("")
    refuse_changed(tmp_path, with_made=False)
    with pytest.raises(ChangedError, match=r"runs\.csv was changed after it had been made"):
        refuse_changed(tmp_path, with_made=True)
    record.write_text("{ }")
    with pytest.raises(ChangedError, match=r"r\.json was changed"):
        refuse_changed(tmp_path, with_made=False)
