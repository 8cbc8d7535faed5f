"""Records and the datasets that keep them: read as they were written, all else refused by name."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from exact_memory import exact_peak_memory
from planted.course import write
from planted.records import STATUSES, counters_of, record_of, written

from flashlab.files import sha256_of
from flashlab.plan import freezing
from flashlab.plan.datasets import DatasetError, read_dataset
from flashlab.plan.freezing import keep, pack
from flashlab.plan.plan_files import Plan
from flashlab.records import COUNTERS, Record, RecordError, parse_record, read_record, write_record
from flashlab.runs import Run


@pytest.fixture
def other(run: Run) -> Run:
    return replace(run, implementation="Pytorch")


@pytest.mark.parametrize("status", [*STATUSES, "counters"])
def test_a_record_is_read_as_it_was_written(tmp_path: Path, run: Run, status: str) -> None:
    """Counters may be 0."""
    counters, path = counters_of(record_of(run), fused_share=0.0), tmp_path / "r.json"
    record = counters if status == "counters" else record_of(run, status)
    write_record(path, record)
    assert read_record(path, run, sha256_of(path)) == record
    assert record.has_counters == (status == "counters")
    with pytest.raises(RecordError, match="before it started"):  # a clock was set back
        write_record(path, replace(record, ended="1999-01-01T00:00:00+00:00"))
    assert read_record(path, run, sha256_of(path)) == record


def test_the_courses_four_keys_stay_at_the_top_and_have_no_numbers_of_other_runs(run: Run) -> None:
    document = record_of(run, forward=[0.5] * 9, backward=[1.5] * 9, peak=3.0).to_json()
    flops = 4 * 2 * 64**2 * 64
    assert document["forward"] == {"time(s)": 0.5, "FLOPS(TFLOPs/s)": flops / 0.5 / 1e12}
    assert document["backward"]["FLOPS(TFLOPs/s)"] == 2.5 * flops / 1.5 / 1e12
    assert document["forward_backward"]["time(s)"] == 2.0
    assert document["peak_memory_usage(MB)"] == 3.0
    failed = record_of(run, "oom").to_json()
    assert failed["forward"] == {"time(s)": None, "FLOPS(TFLOPs/s)": None}
    assert failed["peak_memory_usage(MB)"] is None
    assert counters_of(record_of(run)).to_json().keys() == {"record"}


TIME = "record.metrics.forward_time"


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a document with another value at a path of keys."""
    key, _, rest = path.partition(".")
    return {**document, key: changed(document[key], rest, value) if rest else value}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((f"{TIME}.value", value) for value in (None, 0, -1.0, True, "0.1", 0.1)),
        *((f"{TIME}.samples", [0.1, 0.0]), (f"{TIME}.samples", [0.1] * 12)),
        *((f"{TIME}.unit", "s"), (f"{TIME}.stopped", "bored")),
        *(("record.metrics.heat", {"unit": "J", "value": 1.0}), ("record.metrics", {})),
        *(("record.status", "oom"), ("record.protocol", {"name": COUNTERS})),
        ("record.warnings", [{"code": "a_code_that_nothing_gives"}]),
        *(("record.started", value) for value in ("yesterday", "2026-01-02T03:04:05")),
        ("record.ended", "2026-01-02T03:04:04+00:00"),
        *(("record.benchmark", "swimming"), ("record.run.seq_len", 0), ("record.version", "new")),
        *(("record.colour", "red"), ("colour", "red")),
    ],
)
def test_what_is_not_of_its_benchmark_is_refused_by_name(run: Run, path: str, value: Any) -> None:
    named = "colour|metrics|benchmark|run|version|warnings|started"
    with pytest.raises(RecordError, match=f"^here: .*({named})"):
        parse_record(changed(record_of(run).to_json(), path, value), "here")


def test_a_record_of_another_version_says_who_reads_it(run: Run) -> None:
    document = record_of(run).to_json()
    stated = r"^here: is a record of version 3, but this FlashLab reads 2; update it \(git pull"
    with pytest.raises(RecordError, match=stated):
        parse_record(changed(document, "record.version", 3), "here")


def test_the_record_of_another_run_or_a_changed_one_is_refused(
    tmp_path: Path, run: Run, other: Run
) -> None:
    path = tmp_path / "r.json"
    write_record(path, record_of(run))
    with pytest.raises(RecordError, match=r"Flash2 .* but Pytorch .* was asked for"):
        read_record(path, other)
    recorded = sha256_of(path)
    path.write_text(path.read_text().replace("1.0", "1.5"))
    with pytest.raises(RecordError, match="sha256"):
        read_record(path, run, recorded)


NONSENSE = (b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"record": {}}')


# What is huge comes first: a reader without bounds fails at once, and never ends with zeros.
@pytest.mark.parametrize("content", [2**40, None, *NONSENSE])
def test_nonsense_is_refused_and_what_has_no_end(tmp_path: Path, run: Run, content: Any) -> None:
    path = tmp_path / "r.json"
    if content is None:
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"" if isinstance(content, int) else content)
    if isinstance(content, int):
        os.truncate(path, content)  # takes no room on the disk
    why = {None: "not a regular file", 2**40: f"has {2**40} bytes"}.get(content, "")
    with pytest.raises(RecordError, match=rf"r\.json.*{why}"):
        read_record(path, run)


# Datasets: frozen once, and read back record by record

DATA = Path(__file__).parents[1] / "data"
Frozen = Callable[..., Path]
OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def frozen(tmp_path: Path) -> Frozen:
    """Plans some records, which are written, and freezes them as data/mine."""

    def build(*records: Any, data: str = "data", counters: Any = (), **keys: Any) -> Path:
        paths = {written(tmp_path, each).as_posix(): each for each in (*records, *counters)}
        ceilings = tmp_path / "ceilings.json"
        ceilings.write_text(json.dumps({"environment": records[0].environment}))
        config = {
            **{"name": "mine", "freeze_anyway": True, "anonymous": False, "alone": False},
            **{"measure": {"protocol": "sampled"}, "device": "auto"},
            **{"baseline": "Pytorch", "summary": {}, "experiments": []},
            **keys,
        }
        plan = Plan(
            **{"benchmark": "attention", "report": "lab5", "dataset": "local", "home": ""},
            **{"device": "cpu", "device_name": "", "config": config, "ceilings": str(ceilings)},
            counters=[path for path, record in paths.items() if record.has_counters],
            orders={
                path: {"run": r.run.to_json(), "protocol": dict(r.protocol), "process": r.process}
                for path, r in paths.items()
            },
        )
        return keep(plan, tmp_path / data)

    return build


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_frozen_is_read_back_record_by_record(frozen: Frozen, run: Run, other: Run) -> None:
    records: list[Any] = [record_of(run, sources={"process": process}) for process in range(3)]
    folder = frozen(*records, record_of(other, "oom"))
    dataset = read_dataset(folder)
    assert (dataset.name, dataset.device, dataset.dtype) == ("mine", "cpu", "float32")
    assert dataset.ceilings and dataset.ceilings.is_file()
    found = dataset.held[run, "sampled"]
    assert {entry.process for entry in found} == {0, 1, 2} and len(dataset.entries) == 4
    for entry in found:
        assert read_record(entry.path, run, entry.sha256) == records[entry.process]
    assert {path.name for path in folder.parent.iterdir()} == {"mine"}
    assert contents(frozen(record_of(other, "oom"), *records, data="again")) == contents(folder)


def test_a_dataset_is_never_overwritten(frozen: Frozen, run: Run, other: Run) -> None:
    for process in (0, 0, 1, 2):  # the second is there
        folder = frozen(record_of(run, sources={"process": process}))
    assert [entry.process for entry in read_dataset(folder).held[run, "sampled"]] == [0, 1, 2]
    before = contents(folder)
    for said, records in (
        ("1 of these runs.*another name", [record_of(other), record_of(run, "oom")]),
        ("cpu float32 runs", [record_of(replace(run, dtype="float16", device="cuda"))]),
    ):
        with pytest.raises(DatasetError, match=f"exists already.* {said}"):
            frozen(*records)
    assert contents(folder) == before


def test_protocols_and_counters_are_added_once(frozen: Frozen, run: Run, other: Run) -> None:
    records: list[Record] = [record_of(run), record_of(other)]
    frozen(*records)
    before = contents(frozen(record_of(run, protocol={"name": "lab5"})))
    counters = [counters_of(records[0]), counters_of(records[1], "error")]
    for _ in range(2):
        folder = frozen(*records, counters=counters)
        assert len(contents(folder)) == len(before) + 1
    held = read_dataset(folder).held
    assert {(run, "lab5"), (run, COUNTERS)} <= held.keys() and (other, COUNTERS) not in held
    elsewhere = {"environment": {"device_name": "Other"}, "sources": {"process": 1}}
    for added in (record_of(run, **elsewhere), counters_of(records[1], **elsewhere)):
        with pytest.raises(DatasetError, match=r"device_name Other, but .* it with Abacus"):
            frozen(*records, counters=[added])


def test_an_anonymous_dataset_names_no_machine_and_no_folder(frozen: Frozen, run: Run) -> None:
    secret = {"gpu_uuid": "GPU-5a1b", "boot": "b00t", "device_name": "Abacus"}
    record = record_of(run, "error", message="/home/wang/x.py failed", environment=secret)
    experiments = [{"title": {"en": "As in /home/wang/notes.md"}}]
    files = contents(folder := frozen(record, anonymous=True, experiments=experiments))
    text = b"".join(files.values()).decode() + " ".join(files)
    assert "…/x.py failed" in text and "Abacus" in text
    assert not re.search("5a1b|b00t|wang", text)
    (entry,) = read_dataset(folder).entries
    assert read_record(entry.path, run, entry.sha256).status == "error"


STRANGE: list[tuple[dict[str, Any], str]] = [
    ({"config": {"remarks": {"aa": {"en": "/etc/passwd"}}}}, "config: remarks: is no key of"),
    ({"config": {"import": "/home", "experiments": []}}, "config: import: is no key"),
    ({"config": {"hyper_param": "/home/x.json"}}, "config: hyper_param: is no key"),
    ({"name": "../../home"}, "name: must be letters"),
    *(
        (given, f"file: {file} is outside")
        for file in ("/etc/passwd", "../ceilings.json", "zero.json")
        for given in ({"ceilings": {"file": file}}, {"records": [file]})
    ),
    ({"ceilings": {"file": "huge.json"}}, "The file has 1099511627776 bytes"),
    ({"version": 1}, "is of version 1, but this FlashLab reads 2; FlashLab 0.2.0 is the last"),
    *((given, "not a manifest") for given in ({"records": [3]}, {"records": 3}, {})),
]


@pytest.mark.parametrize(("given", "said"), STRANGE)
def test_a_strangers_dataset_names_no_file_of_the_readers_and_is_read_within_bounds(
    given: dict[str, Any], said: str, frozen: Frozen, run: Run
) -> None:
    folder = frozen(record_of(run))
    (folder / "zero.json").symlink_to("/dev/zero")
    (folder / "huge.json").touch()
    os.truncate(folder / "huge.json", 2**40)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    if isinstance(given.get("records"), list) and isinstance(given["records"][0], str):
        given = {"records": [{**manifest["records"][0], "file": given["records"][0]}]}
    path.write_text(json.dumps({**manifest, **given} if given else {}))
    with pytest.raises(DatasetError) as caught:
        read_dataset(folder)
    assert "manifest.json: " in str(caught.value) and said in str(caught.value)


def test_a_pack_unpacks_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    write(data / "mine", {"ladder/records/r.json": "讀\n"})
    packed = pack(data, "mine")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "clone")
        assert {(member.uid, member.uname) for member in archive} == {(0, "root")}
    assert contents(tmp_path / "clone" / "data" / "mine") == contents(data / "mine")
    before = contents(data)
    monkeypatch.setattr(freezing, "MOST_BYTES", 100)
    with pytest.raises(DatasetError, match=r"mine is not packed: it would take 0\.0 MiB"):
        pack(data, "mine")
    assert contents(data) == before


STARTED = "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        ([{}, {}], ""),  # where there was no git
        ([{"commit": OLD}] * 2, ""),
        ([*[{"commit": OLD}] * 2, {"commit": NEW}], rf"\(2 at {OLD[:12]}, 1 at .*again=all"),
        ([{"commit": OLD, "dirty": True}], rf"\(1 at {OLD[:12]} with uncommitted changes\)"),
        ([{}, {"gpu_uuid": "GPU-2"}], r"In 1 of their blocks \(such as B2 N64 .* again=blocks"),
        ([{}, {"started": "2026-01-02T03:14:06+00:00"}], "In 1 of their blocks"),
    ],
)
def test_records_in_doubt_are_refused_by_what_is_apart_unless_they_are_wanted_anyway(
    frozen: Frozen, run: Run, apart: list[dict[str, Any]], said: str
) -> None:
    records = [
        record_of(
            replace(run, implementation=name),
            environment={"device_name": "Abacus", "gpu_uuid": "GPU-1", **stated},
            started=stated.get("started", STARTED),
        )
        for name, stated in zip(("Flash2", "Pytorch", "Flex"), apart, strict=False)
    ]
    if said:
        with pytest.raises(DatasetError, match=f"{said}.*freeze_anyway=true"):
            frozen(*records, freeze_anyway=False)
    assert (frozen(*records, freeze_anyway=bool(said)) / "manifest.json").is_file()


# Those of this project


@pytest.mark.parametrize("name", ["h100", "h200"])
def test_what_is_compared_ran_on_one_card_and_peak_memory_is_that_of_the_model(name: str) -> None:
    """Each is of the digest and the protocol that the manifest states, by code without changes."""
    cards, modelled = defaultdict[Any, set[str]](set), 0
    for entry in read_dataset(DATA / name).entries:
        record = read_record(entry.path, entry.run, entry.sha256)
        environment, run = record.environment, record.run
        assert record.protocol == entry.protocol and not environment["dirty"]
        if not record.has_counters:
            commit, hour = environment["commit"], datetime.fromisoformat(record.started).hour
            block = (commit, hour, record.protocol["name"], record.process, run.parameters)
            cards[block].add(environment["gpu_uuid"])
        stated = environment.get("provider", ""), environment["device_name"]
        model = exact_peak_memory(run, *stated)
        if model is not None and "peak_memory" in record.metrics:
            assert model == record.metrics["peak_memory"].value, str(run)
            modelled += 1
    assert len(cards) > 80 and {len(each) for each in cards.values()} == {1}
    assert modelled > 150
