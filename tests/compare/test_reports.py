"""A comparison as a reader has it: on a terminal, in a merge request, as a PDF and as a page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from compare.recordings import record, runs, side_of
from pdf import squeezed, text_of

from flashlab.cli import main, make_parser
from flashlab.compare.report import write_comparison
from flashlab.files import write_json
from flashlab_grading.verification import attachments_of

EXAMPLES = sorted(Path("docs", "ci").glob("*.yml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sides, the second with a run that is slower, and their comparison."""
    folder, measured = tmp_path_factory.mktemp("comparison"), runs([256, 1024, 8192])
    slow = record(measured, 2, spread=0.003, factor=lambda r: 1.3 if r["seq_len"] == 1024 else 1.0)
    sides = [
        {**side_of(folder / "a|b", record(measured, 1, spread=0.003)), "name": "<before>"},
        {**side_of(folder / "after", slow), "name": "after"},
    ]
    write_json(folder / "plan.json", {"sides": sides, "languages": ["zh_TW", "en"]})
    write_comparison(folder / "plan.json", folder)
    return folder


def test_a_merge_request_fails_on_a_slower_run(folder: Path, tmp_path: Path, capsys: Any) -> None:
    """And where the sides have nothing in common; its comment has the table."""
    sides = str(folder / "a|b"), str(folder / "after")
    call = ["compare", *sides, "--format", "markdown", "--language", "en"]
    assert main([*call, "--fail-on", "failed", "--fail-on", "slower"]) == 1
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    assert any("Flash2" in line and "1− 5=" in line for line in lines)
    assert any(r"a\|b" in line for line in lines)
    assert re.search(r"\| B1 N1024 H8 E512 full +\| \*\*0\.7\d+\*\*/≈", printed)
    assert "times the speed at 1 of 3 settings: B1 N1024 H8 E512 full" in printed
    assert main([*call, "--fail-on", "failed"]) == 0
    capsys.readouterr()
    assert main(["compare", *sides, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["shared"] == 3
    side_of(tmp_path, record(runs([512]), 3))
    assert main(["compare", sides[1], str(tmp_path)]) == 1
    assert "have no run in common" in capsys.readouterr().err


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_command_of_a_ci_example_is_one_of_ours(example: Path) -> None:
    # A call goes on in a line of options.
    text = re.sub(r"\n +--", " --", example.read_text(encoding="utf-8"))
    calls = re.findall(r"-m flashlab ([^>\n]*)", text)
    names = [make_parser().parse_args(shlex.split(call)).command for call in calls]
    assert names == ["compare"] and "--fail-on slower" in " ".join(calls)
    assert "snakemake --cores all records" in text
    assert "report/compare.pdf --config 'compare=[reference,local]'" in text


def test_the_pdf_tells_the_story_in_both_languages_and_carries_the_data(folder: Path) -> None:
    told = text_of(folder / "compare.pdf")
    for said in ("<before>", "after is slower in Flash2's", "after 較慢的", "N = 1024"):
        assert squeezed(said) in told
    assert re.search(r"B1N1024H8E512full0\.7\d+/≈", told)
    found = attachments_of((folder / "compare.pdf").read_bytes())
    assert found["comparison.json"] == folder.joinpath("comparison.json").read_bytes()
    rows = found["comparison.csv"].decode().splitlines()
    assert rows[0].startswith("experiment,compared,variant,metric,subject,reference,")
    single = [row for row in rows if ",dataset," in row and ",B1 N1024 H8 E512 full," in row]
    assert len(single) == 4  # two times, their total, and memory


def test_the_page_is_one_file_that_loads_nothing(folder: Path) -> None:
    text = folder.joinpath("compare.html").read_text(encoding="utf-8")
    assert not any(loads in text for loads in ("<script src", "<link", "<img", "@import"))
    body = re.sub('(aria-label|data-part)="[^"]*"', "", text.partition("</title>")[2])
    assert "&lt;before" in body and "<before>" not in body
    # The figure has a row for each class of sizes and a panel for each time.
    told = re.findall(r">([^<]*)</text>", text)
    rows = [each.partition(" ")[2] for each in told if each.startswith("Flash2")]
    assert rows == ["N ≤ 256", "N = 1024", "N ≥ 8192"]
    assert {"前向 Forward", "反向 Backward"} <= {*told}


def test_each_benchmark_is_compared_by_what_it_compares(capsys: Any) -> None:
    """And whether the fastest is the same on both sides, in any of the words for that."""
    for name in ("ladder", "training"):
        assert main(["compare", "h100", "h200", "--benchmark", name, "--language", "en"]) == 0
        printed = capsys.readouterr().out
        assert "faster" in printed and not re.search("process_|in total", printed)
        assert re.search("The choice changes|The choice does not|At no setting do both", printed)
