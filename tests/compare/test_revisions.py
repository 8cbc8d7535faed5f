from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from flashlab.compare.revisions import unpack_folder


@pytest.mark.parametrize("python", ["3.11.4", "3.11.2"])
def test_a_revisions_files_are_written(
    python: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12 has Python 3.11.2, whose tarfile knows no filters."""
    if python == "3.11.2":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.chdir(root)
    unpack_folder("HEAD", "kernels", tmp_path)
    assert "NAME = " in (tmp_path / "flash2.py").read_text()
