"""All findings of a dataset, from tables to findings.json."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from analysis.deriving import NO_CLAIMS, Plant, check
from planted.experiments import SIZES

from flashlab.analysis import derive as stage
from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Experiment, Row
from flashlab.analysis.finding import Finding, read_findings
from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.plan.published import CLAIMS
from flashlab.story.stage import write_findings

Write = Callable[..., Path]


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
def dataset(write_experiment: Write) -> list[Path]:
    """The plans of a summary and of a sweep in which some runs failed."""

    def run(name: str, causal: bool, size: int) -> Any:
        time = size**2 * 1e-4 * (1 + causal) * (1 if name == "Flash2" else 3)
        warnings = [{"code": "drift"}] if size == 256 else []
        return {"forward": time, "peak": float(size), "warnings": warnings}

    runs: dict[Any, Any] = {
        (name, causal): {size: run(name, causal, size) for size in SIZES}
        for name in ("Pytorch", "Flash2")
        for causal in (False, True)
    }
    runs["Pytorch", False][1024] = runs["Pytorch", True][1024] = "oom"
    runs["Flash2", True][512] = "incorrect"
    headline = {name: {512: run(name, False, 512)} for name in ("Pytorch", "Flash2")}
    return [write_experiment(headline, "summary", ""), write_experiment(runs)]


@pytest.fixture
def derive(tmp_path: Path) -> Callable[..., list[Finding]]:
    """Writes the findings of planned sweeps, and reads them back; each is checked."""

    def build(
        plans: list[Path], ceilings: Path | None = None, name: str = "findings.json"
    ) -> list[Finding]:
        write_findings(plans, tmp_path / "tables", CLAIMS, ceilings, tmp_path / name)
        found = read_findings(tmp_path / name)
        check(found, ATTENTION)
        return found

    return build


Derive = Callable[..., list[Finding]]


def rewrite(table: Path, change: Callable[[list[dict[str, str]]], Any]) -> None:
    """Change the rows of a table."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = change(rows) or rows
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def test_the_order_of_rows_runs_and_experiments_changes_nothing(
    dataset: list[Path], derive: Derive, tmp_path: Path
) -> None:
    derive(dataset)
    shuffle = random.Random(3).shuffle
    for path in (tmp_path / "tables").rglob("*.csv"):
        rewrite(path, shuffle)
    for path in dataset:
        plan = json.loads(path.read_text(encoding="utf-8"))
        shuffle(plan["implementations"])
        shuffle(plan["records"])
        path.write_text(json.dumps(plan), encoding="utf-8")
    derive(dataset[::-1], name="permuted.json")
    before = (tmp_path / "findings.json").read_bytes()
    assert (tmp_path / "permuted.json").read_bytes() == before


@pytest.mark.parametrize("seed", [1, 2])
def test_no_order_breaks_a_tie(experiment: Plant, seed: int) -> None:
    """Of implementations that are the same to the last digit, in two experiments that are alike."""
    names = ("Pytorch", "Flash2", "Flash4")

    def shape(heads: int) -> Callable[[int], dict[str, int]]:
        return lambda n: {"seq_len": n, "num_heads": heads}

    same = dict.fromkeys(names, (1, 2, 4, 8))
    planted = [experiment(same, f"h{n}", "seq_len", sizes=shape(n)) for n in (2, 4)]
    expected = without_conclusions(planted)
    shuffle = random.Random(seed).shuffle

    def shuffled(rows: Sequence[Row]) -> list[Row]:
        found = list(rows)
        shuffle(found)
        return found

    permuted = [
        replace(each, **{n: shuffled(getattr(each, n)) for n in ("runs", "metrics", "records")})
        for each in planted
    ]
    assert without_conclusions(permuted[:: (-1) ** seed]) == expected


def without_conclusions(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """All findings but what follows the report's order: conclusions, and where each is told."""
    found = stage.derive(experiments, Estimates(experiments), NO_CLAIMS, None)
    kept = (replace(finding, told=False) for finding in found if finding.kind != "conclusion")
    return [finding.to_json() for finding in kept]


def test_a_record_that_is_not_ok_never_becomes_a_number(
    write_experiment: Write, derive: Derive
) -> None:
    times = {size: size / 10 for size in SIZES}
    runs = {"Pytorch": {**times, 4096: "error"}, "Flash2": {**times, 4096: "incorrect"}}
    found = [f for f in derive([write_experiment(runs)]) if f.experiment]
    for finding in found:
        if finding.kind not in ("out_of_memory", "anomaly", "jump"):
            content = finding.to_json()
            assert 4096 not in numbers([content[k] for k in ("facts", "statements", "estimates")])
            assert any(reason.run and reason.run["seq_len"] == 4096 for reason in finding.reasons)
    statuses = [e["estimate"] for f in found if f.kind == "out_of_memory" for e in f.estimates]
    assert sorted(statuses) == sorted(["ok"] * 8 + ["incorrect", "error"])


@pytest.mark.parametrize(("factor", "verdict"), [(9.0, "better"), (1.08, "inconclusive")])
def test_means_alone_are_judged_by_the_assumed_spread(
    experiment: Plant, factor: float, verdict: str
) -> None:
    """Times of the course's protocol: far apart, and within what single processes may differ."""
    runs = {
        name: {n: {"forward": [slow * n**2 * 1e-9], "means": True} for n in SIZES}
        for name, slow in (("Pytorch", factor), ("Flash2", 1.0))
    }
    planted = [experiment(runs, processes=1)]
    found = stage.derive(planted, Estimates(planted), NO_CLAIMS, None)
    decided = [f for f in found if f.kind == "comparison" and f.metric == "forward_time"]
    assert [finding.verdict for finding in decided] == [verdict]
    assert not decided[0].reasons


@pytest.mark.parametrize(("off", "verdict"), [(1.001, "better"), (1.2, "inconclusive")])
def test_the_spread_between_means_of_one_run_judges_the_others(
    experiment: Plant, off: float, verdict: str
) -> None:
    """Of the first size there are three means, of the others one."""
    runs = {
        name: {
            n: [
                {"forward": [slow * n**2 * 1e-9 * off**i], "means": True}
                for i in range(3 if n == SIZES[0] else 1)
            ]
            for n in SIZES
        }
        for name, slow in (("Pytorch", 1.3), ("Flash2", 1.0))
    }
    planted = [experiment(runs)]
    found = stage.derive(planted, Estimates(planted), NO_CLAIMS, None)
    (decided,) = [f for f in found if f.kind == "comparison" and f.metric == "forward_time"]
    assert {ratio["verdict"] for ratio in decided.estimates[1:]} == {
        "above" if verdict == "better" else verdict
    }


def test_a_run_that_never_knew_its_device_leaves_the_others_device_and_ceilings(
    write_experiment: Write, derive: Derive, tmp_path: Path, ceilings: Path
) -> None:
    plan = write_experiment({"Flash2": {**dict.fromkeys(SIZES, 1), 4096: "error"}})

    def forget(rows: list[dict[str, str]]) -> list[dict[str, str]]:
        return [row | ({} if row["status"] == "ok" else {"device_name": ""}) for row in rows]

    rewrite(tmp_path / "tables" / "seq_len" / "runs.csv", forget)
    found = derive([plan], ceilings)
    assert {finding.device for finding in found} == {"Abacus"}
    assert "roofline" in {finding.kind for finding in found}
