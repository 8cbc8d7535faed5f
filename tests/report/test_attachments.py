from __future__ import annotations

import gzip
import hashlib
import itertools
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from flashlab.analysis.experiment import DERIVED, TABLES
from flashlab.report.attachments import software

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
    local = finished.folder / "results" / "local"
    files = {name: local / name for name in DERIVED}
    files["config.json"] = local / "plan/config.json"
    for name, table in itertools.product(EXPERIMENTS, TABLES):
        files[f"{name}-{table}.csv"] = local / "tables" / name / f"{table}.csv"
    others = {"records.jsonl.gz", "ceilings.json", "manifest.json"}
    assert {path.name for path in detached.iterdir()} == files.keys() | others
    for name, file in files.items():
        assert detached.joinpath(name).read_bytes() == file.read_bytes()


def test_the_manifest_vouches_for_every_other_file(detached: Path) -> None:
    manifest = json.loads(detached.joinpath("manifest.json").read_text())
    assert (manifest["version"], manifest["dataset"]) == (2, "local")
    assert manifest["software"] == software()
    others = {path.name: path for path in detached.iterdir() if path.name != "manifest.json"}
    assert manifest["files"].keys() == others.keys()
    for name, path in others.items():
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        assert manifest["files"][name] == {"sha256": sha256, "bytes": len(content)}


def test_every_record_is_there_whole_samples_and_all(finished: Any, detached: Path) -> None:
    text = gzip.decompress(detached.joinpath("records.jsonl.gz").read_bytes()).decode()
    lines = [json.loads(line) for line in text.splitlines()]
    records = finished.folder / "results" / "local" / "records"
    measured = {path.name for path in records.glob("*.json") if path.name[:8] != "ceilings"}
    assert {line["file"] for line in lines} == measured
    for line in lines:
        text = json.dumps(line["record"], indent=2, ensure_ascii=False) + "\n"
        assert text.encode() == records.joinpath(line["file"]).read_bytes()
        if not line["file"].startswith("counters-"):
            assert line["record"]["record"]["metrics"]["forward_time"]["samples"]


def test_dates_are_the_measurements_and_relationships_are_told(finished: Any) -> None:
    with pikepdf.open(finished.pdf) as pdf:
        relationships = {str(file.UF): str(file.AFRelationship) for file in pdf.Root.AF}
        dates = {str(file.EF.F.Params[key]) for file in pdf.Root.AF
                 for key in ("/CreationDate", "/ModDate")}  # fmt: skip
        names = [str(name) for name in pdf.Root.Names.EmbeddedFiles.Names[::2]]
    assert relationships["records.jsonl.gz"] == relationships["ceilings.json"] == "/Source"
    assert relationships["observations.json"] == relationships["causal-runs.csv"] == "/Data"
    assert relationships["config.json"] == relationships["manifest.json"] == "/Supplement"
    assert len(dates) == 1
    started = {
        json.loads(path.read_text())["record"]["started"]
        for path in finished.folder.glob("results/local/records/[!c]*.json")
    }
    (date,) = dates
    assert datetime.strptime(date, "D:%Y%m%d%H%M%SZ") == datetime.fromisoformat(
        max(started)
    ).replace(tzinfo=None)
    assert names == sorted(names) and len(names) == len(relationships)
