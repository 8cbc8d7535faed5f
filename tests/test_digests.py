"""The lists of digests of what jobs have made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashlab.files import sha256_of, write_json
from flashlab.plan.digests import LIST, ChangedError, read_digests, refuse_changed, write_digests
from flashlab.plan.plan_files import RECORDS


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_list_holds_the_newest_files_of_an_output_and_those_beside_it(tmp_path: Path) -> None:
    runs = written(tmp_path / "tables" / "causal" / "runs.csv", "run\n")
    old = written(tmp_path / "tables" / "causal" / "old.csv", "run\n")
    estimates = written(tmp_path / "estimates.csv", "estimate\n")
    written(tmp_path / "tables" / ".snakemake_timestamp", "")
    write_digests(tmp_path / "tables", ["estimates.csv"])
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (runs, old, estimates)}
    old.unlink()
    runs.write_text("another\n")
    write_digests(tmp_path / "tables", ["estimates.csv"])
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (runs, estimates)}


def test_jobs_that_end_at_once_lose_no_digest(tmp_path: Path) -> None:
    records = [written(tmp_path / f"{i}.json", str(i)) for i in range(40)]
    with ThreadPoolExecutor(8) as jobs:
        list(jobs.map(write_digests, records * 3))
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in records}
    assert len((tmp_path / LIST).read_text().splitlines()) == len(records)


def test_a_list_that_is_damaged_is_one_of_fewer_files(tmp_path: Path) -> None:
    before, after = (written(tmp_path / name, name) for name in ("a.json", "b.json"))
    write_digests(before)
    with (tmp_path / LIST).open("ab") as file:
        file.write(b"\0\0\xff\nabc  \n12")
    write_digests(after)  # which the line that was cut off does not take with it
    assert read_digests(tmp_path) == {path: sha256_of(path) for path in (before, after)}


def test_tables_and_report_are_made_of_nothing_that_has_changed(tmp_path: Path) -> None:
    """While a call goes on: what it planned is no longer what a job would read."""
    record = written(tmp_path / "records" / "r.json", "{}")
    other = written(tmp_path / "records" / "of-another-plan.json", "{}")
    runs = written(tmp_path / "tables" / "causal" / "runs.csv", "run\n")
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
