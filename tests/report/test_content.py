"""What stands in a report, and where: page one, failures, records, the appendix, the evidence."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pdf import depths, pages
from report.conftest import read_cells
from report.reading import cells, parts, said

from flashlab.report.content import print_statements
from flashlab.report.document import Prose, Table
from flashlab.report.records import LONGEST_TEXT
from flashlab.story.observation import read_observations


def test_a_report_is_made_though_everything_failed_and_says_so_once(brief: Any) -> None:
    """Whatever the length of the message."""
    brief.fail("x" * 20_000)
    report = brief.compose()
    assert pages(brief.write()) and brief.write_page().is_file()
    (failures,) = (t for t in parts(report, "environment", Table) if t.kind == "failures")
    messages = [cells(row)[-1] for row in failures.rows if cells(row)[-1] != "–"]
    assert messages[0] == "x" * (LONGEST_TEXT - 1) + "…" and len(messages) == 8
    assert all(each.startswith("The same as of run ") for each in messages[1:])
    assert "None of the 8 runs gave numbers" in " ".join(said(n) for _, n in report.notices)
    for name in ("seq_len", "causal"):
        (told,) = parts(report, f"experiment-{name}", Prose)
        assert "None of the" in said(told.text)


@pytest.mark.parametrize(
    ("status", "sign"), [("incorrect", "✗"), ("oom", "OOM"), ("implausible", "!")]
)
def test_what_has_no_numbers_stands_in_its_table_as_what_it_is_and_on_page_one(
    brief: Any, status: str, sign: str
) -> None:
    gate = json.dumps({"tolerance": 0.005, "errors": {"out": 0.001, "dqkv": 0.47}})
    brief.change_runs({"status": status, "message": "wrong", "gate": gate}, first=1)
    report = brief.compose()
    (table,) = parts(report, "experiment-seq_len", Table)
    assert sum(sign in cell for row in table.rows for cell in cells(row)) == 1
    assert any("Flash2" in said(notice) for _, notice in report.notices)


def test_records_that_differ_in_what_should_agree_are_told_and_counted(brief: Any) -> None:
    assert not any("differ" in said(notice) for _, notice in brief.compose().notices)
    brief.change_runs({"torch": "9.9.9"}, first=2)
    report = brief.compose()
    assert any("differ in what should agree" in said(notice) for _, notice in report.notices)
    facts = [cells(row) for each in parts(report, "environment", Table) for row in each.rows]
    assert any(row[0].startswith("torch") and "9.9.9 (2)" in row[1] for row in facts)


def test_medians_are_counted_whose_interval_is_wider_than_the_margin(brief: Any) -> None:
    path, keys = brief.local / "estimates.csv", ["implementation", "seq_len", "causal", "metric"]
    of_runs = read_cells(brief.local / "tables" / "seq_len" / "metrics.csv").set_index(keys)
    rows = read_cells(path).assign(low="", high="")
    halves = iter([0.06, *[0.04] * len(rows)])  # of the first alone it is wider
    for at, row in rows[rows.seq_len == "16"].iterrows():
        if value := of_runs["value"].get(tuple(row[key] for key in keys)):
            half = next(halves)
            rows.loc[at, ["low", "high"]] = [str(float(value) * (1 + s)) for s in (-half, half)]
    path.unlink()
    rows.to_csv(path, index=False)
    report = brief.compose()
    every = [said(p.text) for each in report.sections for p in parts(report, each.id, Prose)]
    assert re.search(r"\b1 of \d+ medians are not known to within ±5%", " ".join(every))


def test_pages_but_the_last_are_mostly_full_and_an_experiment_stays_on_one(finished: Any) -> None:
    found, told = depths(finished.pdf), pages(finished.pdf)
    assert len(found) <= 9 and min(found[:-1]) >= 0.6
    for number in range(1, 6):
        assert sum(f"Experiment {number}:" in page.replace("\n", " ") for page in told[1:]) == 1


def test_each_sentence_is_printed_above_the_rows_that_it_rests_on(
    results: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_observations(results.local / "observations.json")
    print_statements(results.local, "en")
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("[") for line in lines) == len(found) > 0
    below = lines[1 : 1 + len(found[0].evidence)]
    assert lines[0].startswith(f"[page one: {found[0].name}] ")
    assert [json.loads(line) for line in below] == [*found[0].evidence]
