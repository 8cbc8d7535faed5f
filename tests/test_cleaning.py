"""What `./run clean` deletes, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted.calls import another_call
from planted.course import write

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
    *("results/imported/records/b.json", "report/lab5.pdf", ".snakemake/log/x.log"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, dict.fromkeys(WRITTEN | MEASURED | CHEAP, b"x" * 1024**2))


def there() -> set[str]:
    return {path.as_posix() for path in Path().rglob("*") if path.is_file()} - {str(HOLDER)}


def test_records_stay_until_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    clean(yes=False, records=False)
    assert there() == WRITTEN | MEASURED | CHEAP
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    kept = lines.index("Kept, because measuring again takes time:")
    assert lines[0] == "Can be deleted:" and lines[kept - 1] == "7.0 MiB in all"
    assert {"3.0 MiB results/local", "1.0 MiB report/lab5.pdf"} <= {*lines[:kept]}
    assert lines[kept + 1] == "1.0 MiB results/local/records"
    clean(yes=True, records=False)
    assert there() == WRITTEN | MEASURED
    assert capsys.readouterr().out.startswith("Deleted:\n")
    clean(yes=True, records=True)
    assert there() == WRITTEN
    capsys.readouterr()
    clean(yes=True, records=True)
    assert capsys.readouterr().out == "There is nothing to delete.\n"


def test_what_a_link_leads_to_stays(tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.joinpath("mine").touch()
    for link in (Path("results/linked"), Path("results/local/tables/linked")):
        link.symlink_to(elsewhere)
    clean(yes=True, records=True)
    assert elsewhere.joinpath("mine").exists() and not link.is_symlink()
    Path("results").mkdir()
    (results := Path("results/local")).symlink_to(elsewhere)
    clean(yes=True, records=False)
    assert results.is_symlink()


def test_nothing_is_deleted_under_a_call_or_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with another_call(), pytest.raises(CallError, match="nothing was changed"):
        clean(yes=True, records=True)
    Path("Snakefile").unlink()
    assert main(["clean", "--yes"]) == 1
    assert "has no Snakefile" in capsys.readouterr().err
    assert there() == (WRITTEN | MEASURED | CHEAP) - {"Snakefile"}
