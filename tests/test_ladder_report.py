"""The ladder from planted records to findings, figures and report: steps, causes, a split time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flashlab.analysis.derive import write_findings
from flashlab.analysis.finding import Finding, read_findings
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.ladder.costs import flops
from flashlab.benchmarks.ladder.declaration import LADDER
from flashlab.figures import draw_figures, draw_overview
from flashlab.files import write_json
from flashlab.plan import planning as plan
from flashlab.plan.implementations import implementations_of
from flashlab.plan.plan_files import experiment_file, records_file
from flashlab.plan.published import CLAIMS
from flashlab.records import Measurement, Record, write_record
from flashlab.report.content import compose
from flashlab.report.document import Report
from flashlab.runs import Run

STEPS = ["Sequential", "GlobalMemory", "SharedTiles", "Padded", "Coalesced"]
RATES = {"Sequential": 0.001, "GlobalMemory": 1.0, "SharedTiles": 2.0, "Padded": 2.02}
"""TFLOP/s; Coalesced is slower than the step before, 1.5."""

COUNTERS = {
    "GlobalMemory": {"global_bytes": 8e12, "bank_conflicts": 0.0},
    "SharedTiles": {"global_bytes": 1e12, "bank_conflicts": 5e9},
}
CONFIG: dict[str, Any] = {
    "benchmark": "ladder",
    "dataset": "local",
    "languages": ["zh_TW", "en"],
    "baseline": "GlobalMemory",
    "counted": ["GlobalMemory", "SharedTiles"],
    "remarks": {},
    "summary": {
        "cuda": {"case": 28},
        "cpu": {"case": 101},
        "implementations": ["GlobalMemory", "SharedTiles"],
    },
    "experiments": [
        {
            "name": "ladder",
            "title": {"zh_TW": "一階一階往上", "en": "Step by step"},
            "sweep": "case",
            "cuda": {"case": [10, 28]},
            "cpu": {"case": [101, 102]},
            "implementations": STEPS,
            "figures": ["rate"],
            "supplement": [],
        }
    ],
}


def metrics(run: Run) -> dict[str, Measurement]:
    milliseconds = flops(run) / 1e9 / RATES.get(run.implementation, 1.5)
    samples = tuple(milliseconds * (1 + 0.0002 * step) for step in range(-20, 21))
    parts = {"start": 1000.0, "kernel": milliseconds, "file_in": 500.0}
    return {
        "kernel_time": Measurement(milliseconds, samples, "count"),
        "host_time": Measurement(milliseconds, samples, "count"),
        "process_time": Measurement(sum(parts.values()) + 100),
        **{f"process_{name}": Measurement(part) for name, part in parts.items()},
    }


def record(run: Run, protocol: Mapping[str, Any], found: Mapping[str, Measurement]) -> Record:
    return Record(
        benchmark="ladder",
        run=run,
        status="ok" if found else "unsupported",
        message=None if found else "too much for one thread of the CPU",
        protocol=protocol,
        metrics=found,
        gate=None,
        warnings=(),
        environment={
            "device_name": "NVIDIA H200",
            "driver": "1",
            "provider": "numba-cuda 0.30.4",
            "packages": {"torch": "2.0"},
        },
        sources={},
        started="2026-01-02T03:04:05+00:00",
    )


def counters(run: Run) -> dict[str, Measurement]:
    own = {"busy_time": flops(run) / 1e9 / RATES[run.implementation]}
    own |= COUNTERS[run.implementation]
    return {
        metric.name: Measurement(own.get(metric.quantity.name, 1.0))
        for metric in LADDER.all_counters("cuda")
    }


def make_results(folder: Path, device: str) -> Path:
    """Every stage from records to figures, as the rules call them; steps that fail have no time."""
    home, kind = folder / "results" / "local-ladder", ("float32", device)
    experiments = plan.experiments(CONFIG, LADDER, device)
    implementations = implementations_of(LADDER)
    planned = {}
    for run in {run for experiment in experiments for run in experiment.runs(*kind)}:
        path = home / "records" / f"{run.slug}.json"
        is_hopeless = run.implementation == "Sequential" and flops(run) > 40e9
        write_record(path, record(run, {"name": "sampled"}, {} if is_hopeless else metrics(run)))
        counted = None
        if run.implementation in COUNTERS and device == "cuda":
            counted = plan.PlannedRun(run, home / "records" / f"counters-{run.slug}.json")
            write_record(counted.path, record(run, {"name": "counters"}, counters(run)))
        planned[run] = plan.PlannedRun(run, path, counters=counted)
    tables, plans = home / "tables", []
    languages = home / "plan" / "languages.json"
    write_json(languages, CONFIG["languages"])
    write_json(home / "plan" / "experiments.json", [each.name for each in experiments])
    for experiment in experiments:
        name = experiment.name
        plans.append(experiment_file(home, name))
        document = plan.experiment_document(experiment, implementations, CONFIG, *kind)
        write_json(plans[-1], document)
        document = plan.records_document(experiment, planned, implementations, *kind)
        write_json(records_file(home, name), document)
        write_tables(records_file(home, name), tables / name)
        if experiment.figures:
            draw_figures(plans[-1], tables, languages, home / "figures" / name)
    findings = home / "findings.json"
    write_findings(plans, tables, CLAIMS, None, findings)
    draw_overview(plans, tables, findings, None, languages, home / "overview")
    return home


Make = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """The results on a kind of device, made once."""
    homes: dict[str, Path] = {}

    def make(device: str) -> Path:
        if device not in homes:
            homes[device] = make_results(tmp_path_factory.mktemp(device), device)
        return homes[device]

    yield make


def step(home: Path, name: str) -> Finding:
    (found,) = (
        finding
        for finding in read_findings(home / "findings.json")
        if (finding.kind, finding.experiment) == ("step", "ladder")
        and finding.is_about(implementation=name, metric="kernel_time")
    )
    return found


@pytest.mark.parametrize(
    ("name", "verdict", "ratio"),
    [
        ("SharedTiles", "helps", 2.0),
        ("Padded", "no_difference", 1.01),
        ("Coalesced", "hurts", 0.743),
    ],
)
def test_a_step_is_judged_against_the_one_before(
    made: Make, name: str, verdict: str, ratio: float
) -> None:
    found = step(made("cuda"), name)
    assert (found.verdict, found.params["low"]) == (verdict, ratio)


def test_a_helpful_step_names_the_counter_that_improved_most(made: Make) -> None:
    params = step(made("cuda"), "SharedTiles").params
    assert params["counter"]["en"] == "global-memory loads"
    assert (params["counter_before"], params["counter_after"]) == (8000.0, 1000.0)
    assert "counter" not in step(made("cuda"), "Coalesced").params  # it was not counted


def test_the_claims_about_the_ladder_are_decided(made: Make) -> None:
    claims = {
        finding.subject["claim"]: finding.verdict
        for finding in read_findings(made("cuda") / "findings.json")
        if finding.kind == "claim"
    }
    assert claims["ladder_shared_memory"] == "confirmed"
    assert claims["ladder_coalesced"] == "contradicted"
    assert "short_sequences_little_difference" not in claims


def headings(report: Report) -> list[str]:
    return [conclusion.heading["en"] for conclusion in report.front.conclusions]


def test_page_one_says_what_the_climb_amounts_to(made: Make) -> None:
    report = compose(CONFIG, made("cuda"), None, [])
    climb, steps, top, start = headings(report)
    assert climb == (
        "By the medians, the kernel becomes 2.0 times as fast from GlobalMemory to Padded (t = 28)."
    )
    assert steps == "In the cases that are decided, 2 of 4 steps make the kernel faster."
    assert top == "The fastest step, Padded, reaches 2.02 TFLOP/s (t = 28)."
    assert start.startswith("By the medians, Padded is 2,020 times as fast as Sequential (t = 10, ")
    assert report.front.figure is not None and report.front.figure.id == "figure-steps"


def test_the_parts_of_the_whole_process_are_drawn(made: Make) -> None:
    drawn = (made("cuda") / "overview" / "split.svg").read_text(encoding="utf-8")
    for expected in ("整個程式的時間", "Reading the file", "implementation:SharedTiles"):
        assert expected in drawn


def test_of_a_simulator_no_times_are_compared(made: Make) -> None:
    home = made("cpu")
    kinds = {finding.kind for finding in read_findings(home / "findings.json")}
    assert kinds <= {
        "correctness",
        "environment",
        "processes",
        "sittings",
        "counters",
        "conclusion",
    }
    (only,) = headings(compose(CONFIG, home, None, []))
    assert only.startswith("A simulator ran the CUDA kernels on the CPU: 10 of 10 runs are correct")
