"""What a report rests on is in it: the very files, which a manifest vouches for; read again."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from planted.records import record_of

from flashlab.analysis.experiment import DERIVED, TABLES
from flashlab.files import read_json
from flashlab.report import rebuild
from flashlab.report.attachments import software
from flashlab.report.rebuild import AttachmentError
from flashlab.runs import Run

EXPERIMENTS = ("summary", "seq_len", "causal", "batch_size", "num_heads", "emb_dim")


@pytest.fixture(scope="module")
def detached(finished: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what a reader detaches from the finished PDF alone."""
    folder = tmp_path_factory.mktemp("detached")
    with pikepdf.open(finished.pdf) as pdf:
        for name, file in pdf.attachments.items():
            folder.joinpath(name).write_bytes(file.get_file().read_bytes())
    return folder


def test_all_that_the_report_rests_on_is_in_it_as_the_very_files(
    finished: Any, detached: Path
) -> None:
    """Every record whole, samples and all."""
    local = finished.folder / "results" / "local"
    files = {name: local / name for name in DERIVED}
    files["config.json"] = local / "plan/config.json"
    for name, table in itertools.product(EXPERIMENTS, TABLES):
        files[f"{name}-{table}.csv"] = local / "tables" / name / f"{table}.csv"
    others = {"records.jsonl.gz", "ceilings.json", "manifest.json"}
    assert {path.name for path in detached.iterdir()} == files.keys() | others
    for name, file in files.items():
        assert detached.joinpath(name).read_bytes() == file.read_bytes()
    text = gzip.decompress(detached.joinpath("records.jsonl.gz").read_bytes()).decode()
    found = {line["file"]: line["record"] for line in map(json.loads, text.splitlines())}
    assert {*found} == {path.name for path in local.glob("records/*.json")} - {
        path.name for path in local.glob("records/ceilings*")
    }
    for name, record in found.items():
        whole = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        assert whole.encode() == (local / "records" / name).read_bytes()
        is_counted = name.startswith("counters-")
        assert is_counted or record["record"]["metrics"]["forward_time"]["samples"]


def test_the_manifest_vouches_for_every_other_file(detached: Path) -> None:
    manifest = read_json(detached / "manifest.json")
    assert (manifest["version"], manifest["dataset"]) == (2, "local")
    assert manifest["software"] == software()
    others = {path.name: path.read_bytes() for path in detached.iterdir()}
    del others["manifest.json"]
    assert manifest["files"] == {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in others.items()
    }


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ((2, 0, 1), None),
        ((0, 0), "is attached twice"),
        *(((0, each), r"sources\.process") for each in (-1, "1", None)),
    ],
)
def test_the_processes_of_a_run_are_one_planned_run_or_refused(
    run: Run, tmp_path: Path, processes: tuple[object, ...], why: str | None
) -> None:
    """One that is there already, or is no number, is no process."""
    documents = {
        f"{i}.json": replace(record_of(run), sources={"process": process}).to_json()
        for i, process in enumerate(processes)
    }
    if why:
        with pytest.raises(AttachmentError, match=why):
            rebuild._write_records(documents, tmp_path)
    else:
        entry = rebuild._write_records(documents, tmp_path)
        found = [(part.process, part.path.name) for part in entry]
        assert found == [(0, "1.json"), (1, "2.json"), (2, "0.json")]
