"""Training from planted records to findings: curves, failures, claims.

What its report says is a golden text.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted.results import find
from planted.training import FAR, REPORT, loss_of

from flashlab.analysis.finding import read_findings
from flashlab.benchmarks.training.declaration import TRAINING
from flashlab.records import read_record
from flashlab.runs import Run


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder. To be read."""
    return REPORT.write(tmp_path_factory.mktemp("training"))


def test_a_record_keeps_its_curve_and_lacks_what_its_run_has_not(results: Path) -> None:
    (path,) = results.glob("records/flash2-*-eager-*")
    document = json.loads(path.read_text(encoding="utf-8"))
    run = Run.of(TRAINING, document["record"]["run"])
    kept = read_record(path, run)
    assert kept.curves["loss"] == list(loss_of(run))
    assert "compile_time" not in kept.metrics


def test_a_curve_beyond_the_spread_of_the_seeds_differs(results: Path) -> None:
    (experiment,) = {
        f.experiment for f in read_findings(results / "findings.json") if f.kind == "curve"
    }
    far = find(results, "curve", experiment, implementation=FAR)
    near = find(results, "curve", experiment, implementation="Flash2", variant={"compile": False})
    assert (far.verdict, far.facts["distance"], far.facts["spread"]) == ("differs", 0.5, 0.08)
    assert (near.verdict, near.facts["distance"]) == ("within", 0.0)


def test_the_claims_are_decided(results: Path) -> None:
    findings = read_findings(results / "findings.json")
    verdicts = {f.subject["claim"]: f.verdict for f in findings if f.kind == "claim"}
    assert verdicts["training_flash_before_efficient"] == "confirmed"
    assert verdicts["compiled_naive_slower_than_flash"] == "confirmed"
    assert verdicts["training_flash_65_percent"] == "other_device"
    assert verdicts["compile_slows_fused"] == "not_tested"  # two of its runs failed
