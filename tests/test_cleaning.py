from __future__ import annotations

from pathlib import Path

import pytest
from planted.calls import another_call

from flashlab.cli import main
from flashlab.plan.call import HOLDER, CallError
from flashlab.plan.cleaning import clean

WRITTEN = {
    *("Snakefile", "config/config.yaml", "data/h200/records/a.json", "kernels/flash2.py"),
    *("remarks/seq_len.en.md", "report/captions/report.rst"),
}
MEASURED = {
    *("results/local/records/a.json", "results/local/replaced/a.json"),
    "results/local/logs/measure/a.log",
}
CHEAP = {
    *("results/local/tables/seq_len/runs.csv", "results/local/logs/report.log"),
    *("results/local/lab5.pdf", "results/h200/tables/seq_len/runs.csv"),
    *("results/imported/records/b.json", "report/lab5.pdf", "report/dataset.json"),
    ".snakemake/log/x.log",
}
SAID = """\
Can be deleted:
      1.0 MiB  results/h200
      1.0 MiB  results/imported
      3.0 MiB  results/local
      1.0 MiB  report/lab5.pdf
      1.0 MiB  report/dataset.json
      1.0 MiB  .snakemake
      8.0 MiB  in all
Kept, because measuring again takes time:
      1.0 MiB  results/local/records
      1.0 MiB  results/local/replaced
      1.0 MiB  results/local/logs/measure

./run clean --yes            deletes what ./run report makes again
./run clean --yes --records  deletes the measured records, too
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in WRITTEN | MEASURED | CHEAP:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1024**2)
    return tmp_path


def there(folder: Path) -> set[str]:
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return names - {HOLDER.as_posix()}


def test_records_and_all_that_people_wrote_stay_until_they_are_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean(yes=False, records=False)
    assert there(folder) == WRITTEN | MEASURED | CHEAP
    assert capsys.readouterr().out == SAID
    clean(yes=True, records=False)
    assert there(folder) == WRITTEN | MEASURED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Deleted:" and "      1.0 MiB  results/local/records" in lines
    clean(yes=True, records=True)
    assert there(folder) == WRITTEN
    capsys.readouterr()
    clean(yes=True, records=True)
    assert capsys.readouterr().out == "There is nothing to delete.\n"


def test_what_a_link_leads_to_stays(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.joinpath("mine").touch()
    folder.joinpath("results", "linked").symlink_to(elsewhere)
    folder.joinpath("results", "local", "tables", "linked").symlink_to(elsewhere)
    clean(yes=True, records=True)
    assert elsewhere.joinpath("mine").exists()
    assert not folder.joinpath("results", "linked").is_symlink()


def test_nothing_is_deleted_under_a_call_that_works_in_the_folder_or_in_another_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with another_call(), pytest.raises(CallError, match="nothing was changed"):
        clean(yes=True, records=True)
    folder.joinpath("Snakefile").unlink()
    assert main(["clean", "--yes"]) == 1
    assert "has no Snakefile" in capsys.readouterr().err
    assert there(folder) == (WRITTEN | MEASURED | CHEAP) - {"Snakefile"}
