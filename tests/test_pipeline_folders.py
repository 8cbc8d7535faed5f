"""The pipeline in folders that are named as people name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_the_folder_may_have_spaces_quotes_and_chinese_in_its_name(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "my lab 實驗" / "O'Brien & 100% $x")
    assert "Measuring pytorch-b1-n64-h2-e32-full" in clone.plan()


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "lab")
    clone.folder.joinpath(".snakemake").touch()  # where its folder should be; root may write all
    done = clone.snakemake("--dry-run")
    assert done.returncode == 1
    assert f"Results cannot be written in {clone.folder} (.snakemake: File exists)" in done.stdout


def test_a_folder_that_snakemake_cannot_name_is_refused(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "{lab}")
    done = clone.snakemake("--dry-run")
    assert done.returncode == 1
    assert f"rename this folder: {clone.folder}" in done.stdout
