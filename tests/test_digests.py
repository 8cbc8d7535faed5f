"""The lists of digests of what jobs have made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashlab.files import sha256_of, write_json
from flashlab.plan.digests import (
    LIST,
    ChangedError,
    read_digests,
    refuse_changed,
    write_digests,
)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_list_holds_the_files_of_an_output_and_those_beside_it(tmp_path: Path) -> None:
    runs = written(tmp_path / "tables" / "causal" / "runs.csv", "run\n")
    estimates = written(tmp_path / "estimates.csv", "estimate\n")
    written(tmp_path / "tables" / ".snakemake_timestamp", "")
    write_digests(tmp_path / "tables", ["estimates.csv"])
    expected = {path: sha256_of(path) for path in (runs, estimates)}
    assert read_digests(tmp_path) == expected
    assert read_digests(tmp_path / "tables") == {}


def test_what_is_made_again_replaces_what_the_list_said_of_it(tmp_path: Path) -> None:
    time = written(tmp_path / "causal" / "time.svg", "<svg/>")
    memory = written(tmp_path / "causal" / "memory.svg", "<svg/>")
    other = written(tmp_path / "causal2" / "time.svg", "<svg/>")
    write_digests(time.parent)
    write_digests(other.parent)
    memory.unlink()
    time.write_text("<svg></svg>")
    write_digests(time.parent)
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (time, other)}


def test_jobs_that_end_at_once_lose_no_digest(tmp_path: Path) -> None:
    records = [written(tmp_path / f"{i}.json", str(i)) for i in range(40)]
    with ThreadPoolExecutor(8) as jobs:
        list(jobs.map(write_digests, records * 3))
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in records}
    assert len((tmp_path / LIST).read_text().splitlines()) == len(records)


def test_a_line_that_was_cut_off_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    figure, text = (written(tmp_path / name, name) for name in ("time.svg", "observations.json"))
    write_digests(figure)
    cut = (tmp_path / LIST).read_text()[:-3]
    (tmp_path / LIST).write_text(cut)
    write_digests(text)
    assert read_digests(tmp_path)[text] == sha256_of(text)


def test_a_damaged_list_is_one_of_fewer_files(tmp_path: Path) -> None:
    record = written(tmp_path / "a.json", "{}")
    write_digests(record)
    with (tmp_path / LIST).open("ab") as file:
        file.write(b"\0\0\xff\nabc  \n12")
    assert read_digests(tmp_path) == {record: sha256_of(record)}


def test_tables_and_report_are_made_of_nothing_that_has_changed(tmp_path: Path) -> None:
    """While a call goes on: what it planned is no longer what a job would read."""
    record = written(tmp_path / "records" / "r.json", "{}")
    other = written(tmp_path / "records" / "of-another-plan.json", "{}")
    runs = written(tmp_path / "tables" / "causal" / "runs.csv", "run\n")
    plan = {"benchmark": "attention", "records": [{"path": str(record), "replicates": []}]}
    write_json(tmp_path / "plan" / "experiments.json", ["causal"])
    write_json(tmp_path / "plan" / "records" / "causal.json", plan)
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
