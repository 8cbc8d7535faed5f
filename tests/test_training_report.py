"""The report on training, of records that have the published figures of an A100."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashlab.analysis.derive import write_findings
from flashlab.analysis.finding import Finding, read_findings
from flashlab.analysis.tables import write_tables
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.config import read_layer, resolve_config
from flashlab.figures import draw_figures, draw_overview
from flashlab.files import write_json
from flashlab.plan import planning as plan
from flashlab.plan.implementations import implementations_of
from flashlab.plan.plan_files import experiment_file, records_file
from flashlab.plan.published import CLAIMS, read_figures
from flashlab.records import Measurement, Record, read_record, write_record
from flashlab.report.content import compose
from flashlab.report.document import Cell, Report
from flashlab.runs import Run

ROOT = Path(__file__).parents[1]
DEVICE = "A100 40GB"
KIND = ("bfloat16", "cuda")
FAILED = {
    ("SdpaMath", True): ("error", "BackendCompilerFailed: the compiler failed"),
    ("SdpaEfficient", True): ("oom", "CUDA out of memory"),
}
FAR = "SdpaEfficient"
"""The implementation whose loss is off by more than a seed would put it off."""


def loss_of(run: Run) -> tuple[float, ...]:
    """A falling curve, to which the seed adds up to 0.1, and `FAR` 0.5."""
    off = 0.02 * (int(run["seed"]) - 1337) + 0.5 * (run.implementation == FAR)
    return tuple(4.2 - step / 50 + off for step in range(60))


def record(run: Run) -> Record:
    """A record with the source's figures of an A100, and 40 samples within 1% of the time."""
    figures = {
        figure.metric: figure.value
        for figure in read_figures(TRAINING)
        if (figure.device, figure.implementation) == (DEVICE, run.implementation)
        and figure.parameters["compile"] == run["compile"]
    }
    status, message = FAILED.get((run.implementation, bool(run["compile"])), ("ok", None))
    median = figures["iteration_time"]
    samples = tuple(median * (1 + 0.0005 * (17 * step % 41 - 20)) for step in range(41))
    metrics = {
        "iteration_time": Measurement(median, samples, "interval"),
        "first_step": Measurement(figures["first_step"]),
        "peak_memory": Measurement(figures["process_memory"] - 1000),
        "process_memory": Measurement(figures["process_memory"]),
    }
    if run["compile"]:
        metrics["compile_time"] = Measurement(figures["first_step"] - 1)
    is_ok = status == "ok"
    return Record(
        benchmark="training",
        run=run,
        status=status,
        message=message,
        protocol={"name": "training"},
        metrics=metrics if is_ok else {},
        gate=None,
        warnings=(),
        environment={"device_name": "NVIDIA A100", "provider": "torch 2", "packages": {}},
        sources={},
        started="2026-01-02T03:04:05+00:00",
        curves={"loss": loss_of(run)} if is_ok else {},
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The results folder, in the folder that the tests run in. To be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("training"))
        yield make_results()


def config() -> dict[str, Any]:
    """The project's own configuration of this benchmark."""
    layer = read_layer(ROOT / "config" / "training.yaml")
    return resolve_config([layer], implementations_of(TRAINING).keys())


def make_results() -> Path:
    """Every stage from records to figures, as the rules call them."""
    home, resolved = Path("results", "local-training"), config()
    experiments = plan.experiments(resolved, TRAINING, "cuda")
    planned = {}
    for run in {run for experiment in experiments for run in experiment.runs(*KIND)}:
        planned[run] = plan.PlannedRun(run, home / "records" / f"{run.slug}.json")
        write_record(planned[run].path, record(run))
    kernels, plans = implementations_of(TRAINING), []
    tables, languages = home / "tables", home / "plan" / "languages.json"
    write_json(languages, resolved["languages"])
    write_json(home / "plan" / "experiments.json", [each.name for each in experiments])
    write_json(home / "plan" / "config.json", resolved)
    for experiment in experiments:
        plans.append(experiment_file(home, experiment.name))
        write_json(plans[-1], plan.experiment_document(experiment, kernels, resolved, *KIND))
        document = plan.records_document(experiment, planned, kernels, *KIND)
        write_json(records_file(home, experiment.name), document)
        write_tables(records_file(home, experiment.name), tables / experiment.name)
        if experiment.figures:
            figures = home / "figures" / experiment.name
            draw_figures(plans[-1], tables, languages, figures)
    findings = home / "findings.json"
    write_findings(plans, tables, CLAIMS, None, findings)
    draw_overview(plans, tables, findings, None, languages, home / "overview")
    return home


@pytest.fixture(scope="module")
def report(results: Path) -> Report:
    """The report as data."""
    return compose(config(), results, None, [])


def found(results: Path, kind: str, **subject: Any) -> list[Finding]:
    every = read_findings(results / "findings.json")
    return [f for f in every if f.kind == kind and f.is_about(**subject)]


def test_a_record_keeps_its_curve_and_lacks_what_its_run_has_not(results: Path) -> None:
    (path,) = results.glob("records/flash2-*-eager-*")
    document = json.loads(path.read_text(encoding="utf-8"))
    run = Run.of(TRAINING, document["record"]["run"])
    kept = read_record(path, run)
    assert kept.curves["loss"] == list(loss_of(run))
    assert "compile_time" not in kept.metrics


def test_a_curve_beyond_the_spread_of_the_seeds_differs(results: Path) -> None:
    (far,) = found(results, "curve", implementation=FAR)
    (near,) = found(results, "curve", implementation="Flash2", variant={"compile": False})
    assert (far.verdict, far.params["distance"], far.params["spread"]) == ("differs", 0.5, 0.08)
    assert (near.verdict, near.params["distance"]) == ("within", 0.0)


def test_page_one_tells_what_to_take_and_whom_compiling_helps(report: Report) -> None:
    front = report.front
    assert front.answer is not None and front.answer.body is not None
    assert front.answer.heading["en"].startswith("Use Flash2 (eager): 172 ms")
    assert "2.95 times as fast as Pytorch (eager)" in front.answer.body["en"]
    (section,) = front.experiments
    body = section.conclusion.body
    assert body is not None
    assert section.conclusion.heading["en"] == "Compilation (torch.compile) makes Pytorch faster."
    assert "Pytorch 2.07× (faster); Flash2 0.915× (slower)" in body["en"]
    assert "so many iterations: Pytorch 45" in body["en"]  # (12.891 - 1.147) s / (507 - 245) ms


def test_failures_are_named_and_the_others_go_on(report: Report) -> None:
    table = report.chapters[0].table
    assert table is not None
    rows = [[c.text if isinstance(c, Cell) else c["en"] for c in row.cells] for row in table.rows]
    assert [row[2] for row in rows if row[1] == "compiled"] == [
        *("245", "error", "188", "out of memory"),
    ]


def test_the_published_figures_stand_beside_ours(report: Report) -> None:
    (table,) = report.published
    cells = [[c.text if isinstance(c, Cell) else c["en"] for c in r.cells] for r in table.rows]
    assert ["Flash2", "flash_attn", "eager", "475", "172", "172"] in [row[:6] for row in cells]
    assert [row[2] for row in cells] == ["eager", "compiled"] * (len(cells) // 2)


def test_the_claims_are_decided(results: Path) -> None:
    verdicts = {f.subject["claim"]: f.verdict for f in found(results, "claim")}
    assert verdicts["training_flash_before_efficient"] == "confirmed"
    assert verdicts["compiled_naive_slower_than_flash"] == "confirmed"
    assert verdicts["training_flash_65_percent"] == "other_device"
    assert verdicts["compile_slows_fused"] == "not_tested"  # two of its runs failed
