from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from flashlab.archives import unpack


@pytest.mark.parametrize("python", ["3.11.4", "3.11.2"])
def test_a_revisions_files_are_written(
    python: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12 has Python 3.11.2, whose tarfile knows no filters."""
    if python == "3.11.2":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    order = ["git", "-C", str(root), "archive", "HEAD", "kernels"]
    unpack(subprocess.run(order, capture_output=True, check=True).stdout, tmp_path)
    written = (tmp_path / "kernels" / "flash2.py").read_text()
    assert "NAME = " in written
