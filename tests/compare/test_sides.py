"""Which records a name stands for."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from compare.recordings import git, keep, record, runs

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.benchmarks.implementations import find_implementations
from flashlab.compare.comparison import compare
from flashlab.compare.sides import Side, SideError, find_side
from flashlab.files import read_json, sha256_of, write_json
from flashlab.plan.plan_files import RECORDS, process_files
from flashlab.records import Record

KERNEL = """
NAME = "Flash2"
LABEL = {{"zh_TW": "甲", "en": "A"}}
def attention(qkv, causal):
    return qkv * {factor}
"""


def paths_of(side: Side) -> list[Path]:
    return [Path(f["path"]) for each in side["records"] for f in process_files(each)]


@pytest.fixture
def measured() -> list[Record]:
    """Three processes of one run."""
    ((records),) = record(runs([256]), 1).values()
    return records


def test_a_folder_of_records_has_every_process_once_by_its_newest_record(
    tmp_path: Path, measured: list[Record]
) -> None:
    old = replace(measured[0], started="2025-01-01T00:00:00+00:00")
    paths = keep(tmp_path, measured)
    keep(tmp_path / "other", [old])
    keep(tmp_path, [old])
    tmp_path.joinpath("notes.json").write_text("[]")
    side = find_side(str(tmp_path), ATTENTION)
    assert paths_of(side) == paths


def test_a_dataset_is_vouched_for_by_its_manifest(tmp_path: Path, measured: list[Record]) -> None:
    (path,) = keep(tmp_path / "records", measured[:1])
    entry = {
        "benchmark": "attention",
        "run": measured[0].run.to_json(),
        "protocol": {"name": "sampled"},
        "file": f"records/{path.name}",
        "sha256": sha256_of(path),
    }
    lab5 = {**entry, "protocol": {"name": "lab5"}, "file": "records/other.json"}
    manifest = {
        **{"version": 2, "name": "x", "device": "cuda", "dtype": "float16"},
        **{"protocol": "sampled", "config": {}, "ceilings": None, "records": [entry, lab5]},
    }
    write_json(tmp_path / "manifest.json", manifest)
    side = find_side(str(tmp_path), ATTENTION)
    assert paths_of(side) == [path]
    path.write_text(path.read_text().replace("Abacus", "Slate"))
    with pytest.raises(Exception, match="differs from its dataset's manifest"):
        compare(side, side)


def test_results_from_elsewhere_are_found_by_their_plan(
    tmp_path: Path, measured: list[Record]
) -> None:
    first, second = keep(tmp_path / "records", measured[:2])
    keep(tmp_path / "records", [replace(measured[2], started="2030-01-01T00:00:00+00:00")])
    file = {"path": f"results/local/records/{first.name}", "sha256": None}
    other = {"path": f"results/local/records/{second.name}", "sha256": None}
    entry = {"run": measured[0].run.to_json(), **file, "replicates": [other]}
    plan = {"benchmark": "attention", "experiments": {"seq_len": [entry]}}
    write_json(tmp_path / RECORDS, plan)
    assert paths_of(find_side(str(tmp_path), ATTENTION)) == [first, second]


def test_a_revision_has_the_records_of_its_kernels(
    tmp_path: Path, measured: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / "kernels" / "flash2.py"
    kernel.parent.mkdir()

    def commit(factor: int) -> str:
        """Commit the kernel with a factor, and give the digest of what was committed."""
        kernel.write_text(KERNEL.format(factor=factor))
        git(tmp_path, "add", "kernels")
        git(tmp_path, "commit", "--message", f"v{factor}")
        return find_implementations(kernel.parent)["Flash2"].digest

    git(tmp_path, "init")
    digests = [commit(factor) for factor in (1, 2, 3)]
    of_them = [
        replace(each, sources={**each.sources, "implementation_digest": digest})
        for each, digest in zip(measured, digests[:2], strict=False)
    ]
    paths = keep(Path("results", "local", "records"), of_them)
    assert paths_of(find_side("HEAD~2", ATTENTION)) == [paths[0]]
    # Debian 12 has Python 3.11.2, whose tarfile knows no filters.
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    assert paths_of(find_side("HEAD~1", ATTENTION)) == [paths[1]]
    with pytest.raises(SideError, match="no records of the kernels at HEAD; measure them"):
        find_side("HEAD", ATTENTION)


def test_a_name_without_records_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = read_json(Path("data/h200/manifest.json"))
    runs = {
        str(each["run"]) for each in manifest["records"] if each["protocol"]["name"] == "sampled"
    }
    assert len(find_side("h200", ATTENTION)["records"]) == len(runs) > 100
    with pytest.raises(SideError, match=r"neither a recorded dataset \(.*h200.*nor a folder nor a"):
        find_side("nosuch", ATTENTION)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SideError, match="nothing has been measured here yet"):
        find_side("local", ATTENTION)
