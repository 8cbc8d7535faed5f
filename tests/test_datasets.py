from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.plans import plan_of
from planted.records import counters_of, record_of

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.plan import freezing
from flashlab.plan.datasets import (
    DatasetError,
    dataset_folder,
    read_dataset,
    read_recorded,
)
from flashlab.plan.freezing import keep, pack
from flashlab.records import RecordError, read_record
from flashlab.runs import Run

Frozen = Callable[..., Path]


@pytest.fixture
def frozen(tmp_path: Path) -> Callable[..., Path]:
    """Plans some records and freezes them as data/mine."""

    def build(*records: Any, data: str = "data", counters: Sequence[Any] = ()) -> Path:
        return keep(plan_of(tmp_path, records, counters), tmp_path / data)

    return build


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_frozen_is_read_back_record_by_record(frozen: Frozen, run: Run) -> None:
    other = replace(run, implementation="Pytorch")
    folder = frozen(record_of(run), record_of(other, "oom"))
    dataset = read_dataset(folder)
    assert (dataset.name, dataset.device, dataset.dtype) == ("mine", "cpu", "float32")
    assert dataset.config.keys() == {"baseline", "summary", "experiments"}
    assert dataset.ceilings and dataset.ceilings.is_file()
    assert len(dataset.entries) == 2
    (entry,) = dataset.find(run, "sampled")
    assert read_record(entry.path, run, entry.sha256) == record_of(run)
    assert {path.name for path in folder.parent.iterdir()} == {"mine"}
    backwards = frozen(record_of(other, "oom"), record_of(run), data="again")
    assert contents(backwards) == contents(folder)


def test_a_dataset_is_never_overwritten(frozen: Frozen, run: Run) -> None:
    folder = frozen(record_of(run))
    before = contents(folder)
    other = replace(run, implementation="Pytorch")
    frozen(record_of(run))  # which it has
    for records in ([record_of(run, "oom")], [record_of(other), record_of(run, "oom")]):
        with pytest.raises(DatasetError, match=r"exists already.* 1 of these runs.*another name"):
            frozen(*records)
    with pytest.raises(DatasetError, match=r"exists already.* cpu float32 runs"):
        frozen(record_of(replace(run, dtype="float16", device="cuda")))
    assert contents(folder) == before


def test_a_dataset_takes_the_records_of_a_further_protocol(frozen: Frozen, run: Run) -> None:
    sampled, lab5 = (record_of(run, protocol={"name": name}) for name in ("sampled", "lab5"))
    frozen(sampled)
    dataset = read_dataset(frozen(lab5))
    for name, record in {"sampled": sampled, "lab5": lab5}.items():
        (entry,) = dataset.find(run, name)
        assert read_record(entry.path, run, entry.sha256) == record


# Counters


def test_counters_of_its_runs_are_added_to_a_dataset_once_and_those_that_failed_not_at_all(
    frozen: Frozen, run: Run
) -> None:
    record, other = record_of(run), record_of(replace(run, implementation="Pytorch"))
    counters = [counters_of(record), counters_of(other, "error")]
    before = contents(frozen(record, other))
    folder = frozen(record, other, counters=counters)
    assert len(contents(folder)) == len(before) + 1
    before = contents(folder)
    assert contents(frozen(record, other, counters=counters)) == before
    dataset = read_dataset(folder)
    assert dataset.find_counters(run) and not dataset.find_counters(other.run)


def test_counters_of_another_device_are_refused(frozen: Frozen, run: Run) -> None:
    before = contents(folder := frozen(record := record_of(run)))
    counters = counters_of(record, environment={"device_name": "Other"})
    with pytest.raises(DatasetError, match=r"device_name Other, but .* recorded it with Abacus"):
        frozen(record, counters=[counters])
    assert contents(folder) == before


def test_what_is_no_dataset_freezes_nothing(frozen: Frozen, run: Run, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="one device and one dtype; found"):
        frozen(record_of(run), record_of(replace(run, dtype="float16", device="cuda")))
    plan = plan_of(tmp_path, [record_of(run)])
    for record in (tmp_path / "records").glob("*.json"):
        record.unlink()
    with pytest.raises(RecordError, match="Flash2"):
        keep(plan, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_every_process_of_a_run_is_frozen_and_said_which_it_is(
    frozen: Frozen, run: Run, tmp_path: Path
) -> None:
    records: list[Any] = [record_of(run, sources={"process": process}) for process in range(3)]
    folder = frozen(*records)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["version"] == 2
    assert sorted(entry.get("process", 0) for entry in manifest["records"]) == [0, 1, 2]
    found = read_dataset(folder).find(run, "sampled")
    for entry in found:
        assert read_record(entry.path, run, entry.sha256) == records[entry.process]
    assert {entry.process for entry in found} == {0, 1, 2}
    assert frozen(*records) == folder and len(read_dataset(folder).entries) == 3


def test_each_benchmark_has_a_folder_of_its_own_in_a_dataset(
    frozen: Frozen, run: Run, tmp_path: Path
) -> None:
    other = replace(ATTENTION, name="other")
    assert dataset_folder(tmp_path / "data", "mine", other) == tmp_path / "data" / "mine" / "other"
    (tmp_path / "data" / "mine" / "other").mkdir(parents=True)
    frozen(record_of(run))
    assert len(read_recorded(tmp_path / "data", "mine", ATTENTION).entries) == 1
    with pytest.raises(DatasetError, match=r"mine/other/manifest\.json; .* of other: none, and"):
        read_recorded(tmp_path / "data", "mine", other)


OLD = "is of version 1, but this FlashLab reads 2; FlashLab 0.2.0 is the last"
STRANGE: list[tuple[dict[str, Any], str]] = [
    (
        {"config": {"remarks": {"aa": {"en": "/etc/passwd"}}}},
        "config: remarks: is no key of",
    ),
    ({"config": {"import": "/home", "experiments": []}}, "config: import: is no key"),
    ({"config": {"hyper_param": "/home/x.json"}}, "config: hyper_param: is no key"),
    ({"name": "../../home"}, "name: must be letters"),
    *(
        (given, f"file: {file} is outside")
        for file in ("/etc/passwd", "../ceilings.json", "zero.json")
        for given in ({"ceilings": {"file": file}}, {"records": [file]})
    ),
    ({"ceilings": {"file": "huge.json"}}, "The file has 1099511627776 bytes"),
    ({"version": 1}, OLD),
    ({"records": [3]}, "not a manifest"),
    ({"records": 3}, "not a manifest"),
    ({}, "not a manifest"),
]


@pytest.mark.parametrize(("given", "said"), STRANGE)
def test_a_strangers_dataset_names_no_file_of_the_readers_and_is_read_within_bounds(
    given: dict[str, Any], said: str, frozen: Frozen, run: Run
) -> None:
    folder = frozen(record_of(run))
    (folder / "zero.json").symlink_to("/dev/zero")
    with (folder / "huge.json").open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    if isinstance(given.get("records"), list) and isinstance(given["records"][0], str):
        given = {"records": [{**manifest["records"][0], "file": given["records"][0]}]}
    path.write_text(json.dumps({**manifest, **given} if given else {}))
    with pytest.raises(DatasetError) as caught:
        read_dataset(folder)
    assert "manifest.json: " in str(caught.value) and said in str(caught.value)
    sound = {**manifest, "config": {"languages": ["en"], "experiments": []}}
    path.write_text(json.dumps(sound))
    assert read_dataset(folder).config["languages"] == ["en"]


def test_a_packed_dataset_is_the_same_where_it_is_unpacked_and_no_larger_than_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    for name in ("manifest.json", "ladder/manifest.json", "ladder/records/one.json"):
        path = data / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} 讀\n", encoding="utf-8")
    packed = pack(data, "mine")
    assert packed == data / "mine.tar.xz"
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "clone")
        assert {(member.uid, member.uname) for member in archive} == {(0, "root")}
    assert contents(tmp_path / "clone" / "data" / "mine") == contents(data / "mine")
    before = packed.read_bytes()
    monkeypatch.setattr(freezing, "MOST_BYTES", 100)
    with pytest.raises(DatasetError, match=r"mine is not packed: it would take 0\.0 MiB"):
        pack(data, "mine")
    assert {p.name: p.read_bytes() for p in data.glob("*.xz*")} == {"mine.tar.xz": before}
    assert not [*data.glob(".*")]
