"""What stands in a report, and where: page one, failures, records, the map, the appendix."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pdf import depths, pages
from report.conftest import read_cells
from report.reading import cells, parts, proses, said, section, tables, texts

from flashlab.analysis.experiment import IMPLAUSIBLE
from flashlab.plan.plan_files import EXPERIMENTS
from flashlab.records import Measurement, Record
from flashlab.report.document import Figures, Prose, Table
from flashlab.report.records import LONGEST_TEXT


def test_figures_keep_their_numbers_where_an_experiment_is_missing(results: Any) -> None:
    whole = results.compose()
    labels = {figure.label["en"] for s in whole.sections for figure in figures(s)}
    assert {f"Figure {n}" for n in range(1, 12)} <= labels
    with results.plan(EXPERIMENTS) as plans:
        del plans["seq_len"]
    results.observe()
    (first, *_) = figures(section(results.compose(), "experiment-causal"))
    assert first.label["en"] == "Figure 4"


def figures(of: Any) -> list[Any]:
    return [figure for block in parts(of, Figures) for figure in block.figures]


def failures(report: Any) -> Any:
    found = (each for each in parts(section(report, "environment"), Table))
    return next((each for each in found if each.kind == "failures"), None)


@pytest.mark.parametrize("failed", [{"Pytorch"}, {"Pytorch", "Flash2"}])
def test_a_report_is_made_whatever_failed_and_says_so_once(brief: Any, failed: set[str]) -> None:
    brief.fail(failed)
    report = brief.compose()
    assert pages(brief.write()) and brief.write_page().is_file()
    messages = [cells(row)[-1] for row in failures(report).rows if cells(row)[-1] != "–"]
    assert len(messages) == 4 * len(failed)
    assert all(each.startswith("The same as of run ") for each in messages[1:])
    if len(failed) > 1:
        assert "None of the 8 runs gave numbers" in " ".join(said(n) for _, n in report.notices)
        for name in ("seq_len", "causal"):
            (told,) = parts(section(report, f"experiment-{name}"), Prose)
            assert "None of the" in said(told.text)


def test_a_message_of_any_length_is_typeset(brief: Any) -> None:
    brief.fail({"Flash2"}, message="x" * 20_000)
    first = failures(brief.compose()).rows[0]
    assert cells(first)[-1] == "x" * (LONGEST_TEXT - 1) + "…"
    assert pages(brief.write())


def test_what_is_wrong_stands_on_page_one(brief: Any, squeezed: Callable[[str], str]) -> None:
    gate = json.dumps({"tolerance": 0.005, "errors": {"out": 0.001, "dqkv": 0.47}})
    cells_of = {"status": "incorrect", "message": "wrong", "gate": gate}
    brief.change_runs("seq_len", cells_of, first=1)
    brief.observe()
    first = squeezed(pages(brief.write())[0])
    told = [notice for _, notice in brief.compose().notices if "Flash2" in said(notice)]
    assert told and all(squeezed(text) in first for text in texts(told[0]))


def test_impossible_rates_stand_on_page_one(brief: Any) -> None:
    def faster(record: Record) -> Record:
        if record.run.implementation != "Flash2" or record.run["seq_len"] != 64:
            return record
        timed = {
            name: Measurement(each.value / 1e6, tuple(t / 1e6 for t in each.samples), each.stopped)
            for name, each in record.metrics.items()
            if name.endswith("time")
        }
        return replace(record, metrics={**record.metrics, **timed})

    brief.change_records(faster)
    table = next(each for each in tables(brief.compose()) if "!" in str([*map(cells, each.rows)]))
    assert table
    assert any("Flash2" in said(notice) for _, notice in brief.compose().notices)
    assert IMPLAUSIBLE


def test_of_many_there_is_a_map_without_our_own_kernel_and_one_with_it(results: Any) -> None:
    results.add_implementations(["SdpaMath", "Flex", "Flash4"])
    with results.plan(EXPERIMENTS) as plans:
        for entry in (entry for plan in plans.values() for entry in plan["implementations"]):
            entry |= {"tuned_on": ["CPU"]} if entry["name"] == "Flash4" else {}
    results.observe()
    maps = [
        each for each in parts(section(results.compose(), "overview"), Table) if each.kind == "map"
    ]
    assert len(maps) == 4
    named = [" ".join(" ".join(cells(row)) for row in each.rows) for each in maps]
    assert not any("Flash4" in each for each in named[:2])
    assert all("Flash4†" in each for each in named[2:])


def test_records_that_differ_in_what_should_agree_are_told_and_counted(brief: Any) -> None:
    assert not any("differ" in said(notice) for _, notice in brief.compose().notices)
    brief.change_runs("seq_len", {"torch": "9.9.9"}, first=2)
    report = brief.compose()
    assert any("differ in what should agree" in said(notice) for _, notice in report.notices)
    facts = [
        cells(row) for each in parts(section(report, "environment"), Table) for row in each.rows
    ]
    assert any(row[0].startswith("torch") and "9.9.9 (2)" in row[1] for row in facts)


def test_medians_are_counted_whose_interval_is_wider_than_the_margin(brief: Any) -> None:
    path = brief.local / "estimates.csv"
    rows = read_cells(path)
    brief.local.joinpath("estimates.csv").unlink()
    rows[["low", "high"]] = ["", ""]
    of_runs = read_cells(brief.local / "tables" / "seq_len" / "metrics.csv")
    keys = ["implementation", "seq_len", "causal", "metric"]
    values = of_runs.set_index(keys).value
    half = 0.06  # of the first alone
    for at, row in rows[rows.seq_len == "16"].iterrows():
        value = values.get(tuple(row[key] for key in keys))
        if value == value and value is not None:
            rows.loc[at, ["low", "high"]] = [str(float(value) * (1 + s)) for s in (-half, half)]
            half = 0.04
    rows.to_csv(path, index=False)
    said_of = " ".join(said(each.text) for each in proses(brief.compose()))
    assert re.search(r"\b1 of \d+ medians are not known to within ±5%", said_of)


@pytest.mark.parametrize("language", ["zh_TW", pytest.param("en", marks=pytest.mark.scheduled)])
def test_no_report_of_one_language_is_longer_than_of_both(brief: Any, language: str) -> None:
    both = depths(brief.write())
    brief.redraw([language])
    assert len(depths(brief.write())) <= len(both)


def test_pages_but_the_last_are_mostly_full_and_an_experiment_stays_on_one(finished: Any) -> None:
    found = depths(finished.pdf)
    assert len(found) <= 9 and min(found[:-1]) >= 0.6
    told = pages(finished.pdf)
    for number in range(1, 6):
        assert sum(f"Experiment {number}:" in page.replace("\n", " ") for page in told[1:]) == 1
