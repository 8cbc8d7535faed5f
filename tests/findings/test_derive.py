from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from findings.lookups import excluded_run

from flashlab.analysis.derive import SCHEMA, write_findings
from flashlab.analysis.finding import Finding, read_findings

CLAIMS = Path(__file__).parents[2] / "data" / "published" / "claims.yaml"
SIZES = (128, 256, 512, 1024)


@pytest.fixture
def ceilings(tmp_path: Path) -> Path:
    """Ceilings of the device on which the planted records were measured."""
    timed = {"samples": [0.001] * 20, "time(s)": 0.001}
    document = {
        "device": "cpu",
        "matrix_product": {"float32": {**timed, "size": 128}},
        "copy": {**timed, "bytes": 2**20},
        "environment": {"device_name": "Abacus"},
    }
    path = tmp_path / "ceilings.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def dataset(planted: Callable[..., Path], noisy: Callable[..., list[float]]) -> list[Path]:
    """The plans of a summary and of a sweep in which some runs failed."""
    runs: dict[Any, Any] = {
        (name, mask, size): {
            "forward": noisy(size**2 * 1e-9 * (1 + mask) * (1 if name == "Flash2" else 3)),
            "peak": float(size),
            "warnings": [{"code": "drift"}] if size == 256 else [],
        }
        for name in ("Pytorch", "Flash2")
        for mask in (False, True)
        for size in SIZES
    }
    runs["Pytorch", False, 1024] = runs["Pytorch", True, 1024] = "oom"
    runs["Flash2", True, 512] = "incorrect"
    headline = {key: runs[key] for key in (("Pytorch", False, 512), ("Flash2", False, 512))}
    return [planted(headline, name="summary", sweep=""), planted(runs)]


def findings(
    plans: list[Path],
    tmp_path: Path,
    name: str = "findings.json",
    ceilings: Path | None = None,
) -> list[Finding]:
    """The findings of planned sweeps, written and read back."""
    write_findings(plans, tmp_path / "tables", CLAIMS, ceilings, tmp_path / name)
    return read_findings(tmp_path / name)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def test_every_kind_is_found_in_a_sweep_ratios_in_the_summary_and_the_rest_in_neither(
    dataset: list[Path], tmp_path: Path, ceilings: Path
) -> None:
    found = findings(dataset, tmp_path, ceilings=ceilings)
    kinds = {(finding.experiment, finding.kind) for finding in found}
    every = {"scaling", "comparison", "exact_comparison", "variant_effect", "out_of_memory"}
    every |= {"crossover", "monotonicity", "anomaly", "roofline"}
    every |= {"choice", "balance", "launch_bound", "saturation", "jump", "conclusion"}
    of_dataset = {"claim", "environment", "correctness", "choice", "variant_gain"}
    of_dataset |= {"worse_than_naive", "counters", "processes", "sittings", "conclusion"}
    assert kinds == {("summary", kind) for kind in ("comparison", "exact_comparison")} | {
        ("seq_len", kind) for kind in every
    } | {(None, kind) for kind in of_dataset}


def test_there_is_no_roofline_without_ceilings_or_under_those_of_another_device(
    dataset: list[Path], tmp_path: Path, ceilings: Path
) -> None:
    assert "roofline" not in {f.kind for f in findings(dataset, tmp_path)}
    document = json.loads(ceilings.read_text(encoding="utf-8"))
    document["environment"]["device_name"] = "Difference engine"
    ceilings.write_text(json.dumps(document), encoding="utf-8")
    found = findings(dataset, tmp_path, ceilings=ceilings)
    assert "roofline" not in {f.kind for f in found}


def test_every_finding_names_its_device(dataset: list[Path], tmp_path: Path) -> None:
    assert {finding.device for finding in findings(dataset, tmp_path)} == {"Abacus"}


def test_findings_are_valid_by_their_schema(dataset: list[Path], tmp_path: Path) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found = [finding.to_json() for finding in findings(dataset, tmp_path)]
    jsonschema.validate(found, schema)
    wrongs: list[dict[str, Any]] = [
        *({"verdict": "good"}, {"kind": "opinion"}, {"evidence": {}}),
        *({"reasons": ["no_samples"]}, {"front": -1}, {"told": None}),
    ]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate([{**found[0], **wrong}], schema)


def test_a_finding_is_the_same_after_it_was_written_and_read(
    dataset: list[Path], tmp_path: Path, ceilings: Path
) -> None:
    found = findings(dataset, tmp_path, ceilings=ceilings)
    assert any(finding.reasons for finding in found)
    for finding in found:
        assert Finding.from_json(finding.to_json()) == finding
        assert json.loads(json.dumps(finding.to_json())) == finding.to_json()


def test_the_order_of_rows_runs_and_experiments_changes_nothing(
    dataset: list[Path], tmp_path: Path
) -> None:
    findings(dataset, tmp_path)
    shuffle = random.Random(3).shuffle
    for path in (tmp_path / "tables").rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        shuffle(rows)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    for path in dataset:
        plan = json.loads(path.read_text(encoding="utf-8"))
        shuffle(plan["implementations"])
        shuffle(plan["records"])
        path.write_text(json.dumps(plan), encoding="utf-8")
    findings(dataset[::-1], tmp_path, "permuted.json")
    before = (tmp_path / "findings.json").read_bytes()
    assert (tmp_path / "permuted.json").read_bytes() == before


def test_a_record_that_is_not_ok_never_becomes_a_number(
    planted: Callable[..., Path], noisy: Callable[..., list[float]], tmp_path: Path
) -> None:
    runs: dict[Any, Any] = {
        (name, False, size): {"forward": noisy(size * 1e-6)}
        for name in ("Pytorch", "Flash2")
        for size in SIZES
    }
    runs |= {("Flash2", False, 4096): "incorrect", ("Pytorch", False, 4096): "error"}
    found = findings([planted(runs)], tmp_path)
    for finding in found:
        if finding.experiment and finding.kind not in ("out_of_memory", "anomaly", "jump"):
            content = finding.to_json()
            assert 4096 not in numbers([content["params"], content["evidence"]])
            assert any(reason.run and reason.run["seq_len"] == 4096 for reason in finding.reasons)
    statuses = [
        estimate["estimate"]
        for finding in found
        if finding.kind == "out_of_memory"
        for estimate in finding.estimates
    ]
    assert sorted(statuses) == sorted(["ok"] * 8 + ["incorrect", "error"])


def test_a_run_that_never_knew_its_device_leaves_the_others_device_and_ceilings(
    planted: Callable[..., Path], tmp_path: Path, ceilings: Path
) -> None:
    runs: dict[Any, Any] = {("Flash2", False, size): {} for size in SIZES}
    plan = planted(runs | {("Flash2", False, 4096): "error"})
    table = tmp_path / "tables" / "seq_len" / "runs.csv"
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(
            {**row, "device_name": row["device_name"] if row["status"] == "ok" else ""}
            for row in rows
        )
    found = findings([plan], tmp_path, ceilings=ceilings)
    assert {finding.device for finding in found} == {"Abacus"}
    assert "roofline" in {finding.kind for finding in found}


def test_a_sweep_of_nothing_but_failures_still_has_its_findings_written(
    planted: Callable[..., Path], tmp_path: Path
) -> None:
    runs = {(name, False, 128): "unsupported" for name in ("Pytorch", "Flash2")}
    found = findings([planted(runs)], tmp_path)
    verdicts = {(f.kind, f.verdict) for f in found if f.experiment}
    assert verdicts == {
        *(("comparison", "inconclusive"), ("exact_comparison", "withheld")),
        *(("out_of_memory", "none"), ("choice", "inconclusive"), ("balance", "inconclusive")),
        ("conclusion", "no_numbers"),
    }
    for finding in found:
        if finding.kind in ("comparison", "exact_comparison"):
            assert excluded_run("Flash2", 128, "unsupported") in finding.reasons


def test_warnings_go_from_the_records_to_the_findings(dataset: list[Path], tmp_path: Path) -> None:
    for finding in findings(dataset, tmp_path):
        timed = finding.kind in ("comparison", "variant_effect")
        if timed and finding.experiment == "seq_len":
            assert finding.warnings == ["drift"]
