"""A benchmark that is only declared gets its records, tables, findings, figures and report."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.analysis.derive import write_findings
from flashlab.analysis.finding import Finding, read_findings
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks import registry
from flashlab.benchmarks.model import Benchmark, Metric, Parameter, Quantity, UnknownNameError
from flashlab.figures import draw_figures, draw_overview
from flashlab.files import read_json, write_json
from flashlab.plan import planning as plan
from flashlab.plan.implementations import Implementation
from flashlab.plan.plan_files import experiment_file, records_file
from flashlab.records import Measurement, Record, write_record
from flashlab.report import write_page, write_report
from flashlab.report.content import compose
from flashlab.report.document import Cell, Table
from flashlab.runs import Run

SORTING = Benchmark(
    name="sorting",
    report="sorting",
    parameters=(
        Parameter("items", "n", {"zh_TW": "元素個數", "en": "number of items"}),
        Parameter("threads", "t", {"zh_TW": "執行緒數", "en": "number of threads"}),
    ),
    metrics=(
        Metric(
            "throughput",
            Quantity(
                "throughput",
                "Mitem/s",
                "higher",
                exact=False,
                labels={"zh_TW": "吞吐量", "en": "Throughput"},
            ),
            {"zh_TW": "吞吐量", "en": "throughput"},
        ),
        Metric(
            "scratch",
            Quantity(
                "scratch",
                "KiB",
                "lower",
                exact=True,
                labels={"zh_TW": "暫存空間", "en": "Scratch space"},
            ),
            {"zh_TW": "暫存空間", "en": "scratch space"},
        ),
    ),
    measure="never measured",
)

ITEMS = [1024, 2048, 4096, 8192]
THREADS = [1, 2, 4, 8]
CONFIG: dict[str, Any] = {
    "benchmark": "sorting",
    "dataset": "local",
    "languages": ["zh_TW", "en"],
    "baseline": "Merge",
    "counted": [],
    "remarks": {},
    "summary": {"cuda": {"items": 4096, "threads": 4}, "implementations": ["Merge", "Radix"]},
    "experiments": [
        {
            "name": "items",
            "title": {"zh_TW": "調整元素個數", "en": "Items"},
            "sweep": "items",
            "cuda": {"items": ITEMS, "threads": 4},
            "implementations": ["Merge", "Radix", "Bubble"],
            "figures": ["throughput", "scratch"],
            "supplement": [],
        },
        {
            "name": "both",
            "title": {"zh_TW": "兩者一起", "en": "Both together"},
            "sweep": "items",
            "cuda": {"items": ITEMS, "threads": THREADS},
            "implementations": ["Merge", "Radix"],
            "figures": ["throughput"],
            "supplement": [],
        },
    ],
}
CLAIMS = {
    "benchmark": "sorting",
    "dtype": "float16",
    "device": "cuda",
    "sources": {"book": {"title": {"zh_TW": "書", "en": "Book"}, "statistic": "not_stated"}},
    "claims": [
        {
            "id": "radix",
            "source": "book",
            "place": {"zh_TW": "第一章", "en": "chapter 1"},
            "says": {"zh_TW": "較快", "en": "It is faster"},
            "device": "any",
            "bound_to_device": False,
            "published": {"figure": 4, "unit": "ratio", "tolerance": 0.05},
            "test": {
                "metrics": ["throughput"],
                "terms": [{"implementation": "Radix"}, {"implementation": "Merge"}],
                "at": [{"items": 4096, "threads": 4}],
            },
        }
    ],
}
FACTORS = {"Merge": 1.0, "Radix": 4.0, "Bubble": 1.01}
"""Throughput against the baseline's, which is 8 Mitem/s for each thread."""


def implementation(name: str) -> Implementation:
    label = {"zh_TW": f"{name} 排序", "en": f"{name} sort"}
    return Implementation(name, label, (), (), Path(f"{name}.py"), "0" * 64, "a" * 64)


def record(run: Run) -> Record:
    """The record of a run with 40 samples within 1% of their median."""
    items, threads = int(run["items"]), int(run["threads"])
    median = 8.0 * threads * FACTORS[run.implementation]
    samples = tuple(median * (1 + 0.0005 * step) for step in range(-20, 21))
    scratch = items / 128 * (0.25 if run.implementation == "Radix" else 1)
    return Record(
        benchmark="sorting",
        run=run,
        status="ok",
        message=None,
        protocol={"name": "sampled"},
        metrics={
            "throughput": Measurement(median, samples, "interval"),
            "scratch": Measurement(scratch),
        },
        gate=None,
        warnings=(),
        environment={
            "device_name": "Abacus",
            "driver": "1",
            "provider": "beads 1.0",
            "packages": {"torch": "2.0"},
        },
        sources={"implementation_digest": "a" * 64},
        started="2026-01-02T03:04:05+00:00",
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The results of the declared benchmark, in the folder that the tests run in. To be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.BENCHMARKS, SORTING.name, SORTING)
        patch.chdir(tmp_path_factory.mktemp("sorting"))
        yield make_results()


def make_results() -> Path:
    """Every stage from records to figures, as the rules call them."""
    home, kind = Path("results", "local"), ("float16", "cuda")
    experiments = plan.experiments(CONFIG, SORTING, "cuda")
    planned = {}
    for run in {run for experiment in experiments for run in experiment.runs(*kind)}:
        planned[run] = plan.PlannedRun(run, home / "records" / f"{run.slug}.json")
        write_record(planned[run].path, record(run))
    sorts = {name: implementation(name) for name in FACTORS}
    plans, tables = [], home / "tables"
    languages, config = home / "plan" / "languages.json", home / "plan" / "config.json"
    write_json(languages, CONFIG["languages"])
    write_json(home / "plan" / "experiments.json", [each.name for each in experiments])
    write_json(config, CONFIG)
    for experiment in experiments:
        name = experiment.name
        plans.append(experiment_file(home, name))
        write_json(plans[-1], plan.experiment_document(experiment, sorts, CONFIG, *kind))
        document = plan.records_document(experiment, planned, sorts, *kind)
        write_json(records_file(home, name), document)
        write_tables(records_file(home, name), tables / name)
        if experiment.figures:
            draw_figures(plans[-1], tables, languages, home / "figures" / name)
    claims, findings = Path("claims.yaml"), home / "findings.json"
    claims.write_text(yaml.safe_dump(CLAIMS, allow_unicode=True), encoding="utf-8")
    write_findings(plans, tables, claims, None, findings)
    draw_overview(plans, tables, findings, None, languages, home / "overview")
    return home


def found(results: Path, kind: str, experiment: str | None = "items", **subject: Any) -> Finding:
    (finding,) = (
        finding
        for finding in read_findings(results / "findings.json")
        if (finding.kind, finding.experiment) == (kind, experiment) and finding.is_about(**subject)
    )
    return finding


def test_tables_have_the_declared_columns_and_units(results: Path) -> None:
    with (results / "tables" / "both" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    last = [row for row in rows if (row["implementation"], row["items"]) == ("Radix", "8192")]
    assert [(row["metric"], row["value"], row["unit"], row["threads"]) for row in last] == [
        ("throughput", "256", "Mitem/s", "8"),
        ("scratch", "16", "KiB", "8"),
    ]
    assert last[0]["low"] and not last[1]["low"]


def test_where_more_is_better_more_is_called_better(results: Path) -> None:
    better = found(results, "comparison", implementation="Radix")
    assert (better.verdict, better.params["low"], better.params["high"]) == ("better", 4.0, 4.0)
    assert found(results, "comparison", implementation="Bubble").verdict == "equivalent"
    less = found(results, "exact_comparison", implementation="Radix")
    assert (less.verdict, less.params["low"], less.params["high"]) == ("less", 0.25, 0.25)


def test_growth_is_fitted_where_one_parameter_varies_alone(results: Path) -> None:
    scratch = {"implementation": "Radix", "metric": "scratch"}
    alone = found(results, "scaling", **scratch)
    assert (alone.verdict, alone.params["exponent"], alone.params["covaried"]) == (
        "power_law",
        1.0,
        [],
    )
    assert found(results, "scaling", "both", **scratch).params["covaried"] == ["threads"]
    level = found(results, "scaling", implementation="Radix", metric="throughput")
    assert level.verdict == "flat"


def test_a_claim_about_it_is_decided(results: Path) -> None:
    claim = found(results, "claim", None)
    assert (claim.verdict, claim.params["ours"]) == ("confirmed", 4.0)


def test_each_quantity_has_a_figure_with_its_axis_in_both_languages(results: Path) -> None:
    for quantity, labels in (
        ("throughput", ("吞吐量", "Throughput (Mitem/s)")),
        # Two lines coincide, so the figure shows multiples of the least.
        ("scratch", ("暫存空間（最少者的倍數）", "Scratch space as a multiple of the least")),
    ):
        drawn = (results / "figures" / "items" / f"{quantity}.svg").read_text(encoding="utf-8")
        for expected in (*labels, "元素個數 Number of items n", "implementation:Radix"):
            assert expected in drawn
    summary = (results / "overview" / "summary.svg").read_text(encoding="utf-8")
    assert "Throughput (Mitem/s)" in summary and "Scratch space (KiB)" in summary


def cells(table: Table, *names: str) -> list[list[str]]:
    """The rows that begin a group of one of these implementations, in English."""
    return [
        [cell.text if isinstance(cell, Cell) else cell["en"] for cell in row.cells]
        for row in table.rows
        if row.implementation in names and row.first
    ]


def test_its_sections_have_its_numbers(results: Path) -> None:
    report = compose(CONFIG, results, None, [])
    items, both = report.sections
    assert items.question == {
        "zh_TW": "吞吐量、暫存空間如何隨元素個數 n 變化？",
        "en": "How does each of these change with number of items n: throughput, scratch space?",
    }
    assert "Fixed: t = 4." in items.setting["en"]
    assert "Varied with it: number of threads t (1, 2, 4, 8)." in both.setting["en"]
    headings = ["Implementation", "n", "t", "Throughput (Mitem/s)", "Scratch space (KiB)", "Run"]
    assert [column["en"] for column in both.table.columns] == headings
    assert cells(both.table, "Radix") == [["Radix", "1024", "1", "32", "2", "16"]]
    assert items.others is not None
    assert cells(items.others, "Radix", "Bubble") == [
        ["Radix", "▲ 4.00", "▲ 0.250", "0", "1"],
        ["Bubble", "= 1.01", "= 1.00", "0", "1"],
    ]
    throughput, scratch = items.figures
    assert "Throughput of 3 implementations" in throughput.caption["en"]
    assert "（越高越好）" in throughput.caption["zh_TW"]
    assert "scratch space is 16 KiB (Radix) to 64 KiB" in scratch.caption["en"]


def test_a_sweep_of_one_value_is_not_fixed_as_well(results: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(results, tmp_path / "copy")
    table = copied / "tables" / "items" / "runs.csv"
    head, *rows = table.read_text(encoding="utf-8").splitlines(keepends=True)
    place = head.rstrip().split(",").index("items")
    ours = [row for row in rows if row.split(",")[place] == "1024"]
    table.write_text(head + "".join(ours), encoding="utf-8")
    setting = compose(CONFIG, copied, None, []).sections[0].setting
    assert setting["en"] == "Varied: number of items n, at 1024. Fixed: t = 4."


def test_a_figure_of_a_quantity_that_is_not_declared_is_an_error(
    results: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(results, tmp_path / "copy")
    file = experiment_file(copied, "items")
    planned = read_json(file)
    planned["figures"][0]["quantity"] = "energy"
    write_json(file, planned)
    with pytest.raises(UnknownNameError, match="energy is no quantity of sorting; there are"):
        compose(CONFIG, copied, None, [])


def test_page_one_gives_the_verdicts_of_the_findings(results: Path) -> None:
    report = compose(CONFIG, results, None, [])
    front, headline = report.front, report.headline
    assert front.title["en"] == "Benchmark report: sorting"
    assert headline is not None and headline.caption is not None and front.map is not None
    rows = [[c.text if isinstance(c, Cell) else c["en"] for c in r.cells] for r in headline.rows]
    assert [column["en"] for column in headline.columns[1:]] == [
        "Throughput (Mitem/s)",
        "Scratch space (KiB)",
    ]
    assert rows[0][1:] == ["32", "32"] and rows[1][1:] == ["128", "8"]
    assert rows[2] == ["Radix vs Merge", "4.00×", "0.250×"]
    assert headline.caption["en"].startswith("n = 4096, t = 4.")


def test_the_page_and_the_pdf_are_rendered_in_both_languages(results: Path) -> None:
    config = results / "plan" / "config.json"
    write_page(config, results, None, Path("sorting.html"))
    html = unescape(Path("sorting.html").read_text(encoding="utf-8"))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html))
    for expected in (
        "效能實驗報告：sorting",
        "Benchmark report: sorting",
        "Experiment 2: Both together",
        "實驗 2：兩者一起",
        "Scratch space (KiB)",
        "元素個數 n",
    ):
        assert expected in text
    assert not re.search("attention|seq_len|forward|注意力", text.lower())
    write_report(config, results, None, Path("sorting.pdf"))
    assert Path("sorting.pdf").read_bytes().startswith(b"%PDF")
