"""A dataset as one file, which gives the dataset where it is unpacked."""

import tarfile
from pathlib import Path

import pytest

from flashlab.plan import freezing
from flashlab.plan.datasets import DatasetError
from flashlab.plan.freezing import pack


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "mine"
    (folder / "ladder" / "records").mkdir(parents=True)
    for name in ("manifest.json", "ladder/manifest.json", "ladder/records/one.json"):
        (folder / name).write_text(f"{name} 讀\n", encoding="utf-8")
    return tmp_path / "data"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_packed_dataset_is_the_same_where_it_is_unpacked(data: Path, tmp_path: Path) -> None:
    packed = pack(data, "mine")
    assert packed == data / "mine.tar.xz"
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "clone")
        assert {(member.uid, member.uname) for member in archive} == {(0, "root")}
    assert contents(tmp_path / "clone" / "data" / "mine") == contents(data / "mine")


def test_what_is_too_large_to_send_is_refused_and_the_last_pack_stays(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pack(data, "mine").read_bytes()
    monkeypatch.setattr(freezing, "MOST_BYTES", 100)
    with pytest.raises(DatasetError, match=r"mine is not packed: it would take 0\.0 MiB"):
        pack(data, "mine")
    assert {p.name: p.read_bytes() for p in data.glob("*.xz*")} == {"mine.tar.xz": before}
    assert not [*data.glob(".*")]
