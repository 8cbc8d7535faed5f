"""What a call writes, each file with the time of what it holds, and what it is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.benchmarks import registry
from flashlab.config import ConfigError, Layer
from flashlab.plan import call
from flashlab.plan.call import CallError, asked_benchmark
from flashlab.plan.digests import CHANGED, write_digests
from flashlab.plan.value import Plan, read_plan, write_views

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"
NAME = "results/local/plan/config.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(*arguments: str, dry: bool = False, **keys: Any) -> tuple[Plan, Path]:
    base = Layer("config.yaml", yaml.safe_load(CONFIG.read_text(encoding="utf-8")))
    own = [Layer("--config", {"device": "cpu", **keys})]
    return call.begin(base, own, ["--cores", "1", *arguments], dry=dry)


def age(path: Path) -> int:
    os.utime(path, ns=(1, 10**9))
    return path.stat().st_mtime_ns


def test_elsewhere_a_file_has_the_age_of_the_one_that_it_equals(tmp_path: Path) -> None:
    write_views({NAME: {"a": 1}})
    before, elsewhere = age(Path(NAME)), tmp_path / "elsewhere"
    write_views({NAME: {"a": 1}})
    write_views({NAME: {"a": 1}, "new.json": {}}, elsewhere)
    assert (elsewhere / NAME).stat().st_mtime_ns == before
    write_views({NAME: {"a": 2}}, elsewhere)
    assert (elsewhere / NAME).stat().st_mtime_ns > before
    assert Path(NAME).stat().st_mtime_ns == before
    assert not Path("new.json").exists()


def test_a_job_reads_what_its_call_has_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "hold_folder", lambda: 0)
    plan, _ = begin(again=["Flash2"])
    read = read_plan()
    assert list(read.orders) == list(plan.orders)
    assert read.experiments["causal"] == list(plan.experiments["causal"])
    assert read.redo == plan.redo


@pytest.mark.parametrize(("dry", "said"), [(True, "To be made again: "), (False, "Made again: ")])
def test_a_call_says_what_was_changed_by_hand_and_a_dry_run_changes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, dry: bool, said: str
) -> None:
    monkeypatch.setattr(call, "hold_folder", lambda: 0)
    observations = Path("results", "local", "observations.json")
    observations.parent.mkdir(parents=True)
    observations.write_text("[]")
    write_digests(observations)
    observations.write_text("[")
    before = {*Path().rglob("*")}
    plan, _ = begin(dry=dry)
    assert f"{said}{observations} {CHANGED}\n" in capsys.readouterr().err
    assert plan.redo[observations.as_posix()] == CHANGED
    assert ({*Path().rglob("*")} == before) == dry


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("./report/compare.html", r"compare=\[NAME,NAME\]"),
        ("report/grades.csv", "submissions=DIR"),
        ("verify", "pdf=PATH"),
        ("freeze", "name=NAME"),
    ],
)
def test_a_target_without_what_it_needs_is_refused_with_an_example(target: str, said: str) -> None:
    with pytest.raises(CallError, match=said):
        begin(target, dry=True)
    begin("--config", "pdf=report/compare.html", dry=True)


# Which benchmark a call is about


@pytest.fixture
def second_benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A benchmark ``sorting`` with the report ``sorts``."""
    sorting = replace(registry.DEFAULT, name="sorting", report="sorts")
    monkeypatch.setitem(registry.BENCHMARKS, sorting.name, sorting)
    yield


def layers(**keys: str) -> list[Layer]:
    return [Layer("--config", keys)]


@pytest.mark.parametrize(
    ("arguments", "own", "expected"),
    [
        (["--cores", "1"], {}, None),
        (["report/grades.pdf"], {}, None),
        (["report/lab5.pdf"], {}, "attention"),
        (["-n", "./report/sorts.html", "report/sorts.pdf"], {}, "sorting"),
        (["results/h200-sorting/observations.json"], {}, "sorting"),
        (["results/h200/observations.json"], {}, "attention"),
        (["records"], {"benchmark": "sorting"}, "sorting"),
        (["report/sorts.pdf"], {"benchmark": "sorting"}, "sorting"),
        (["verify", "--config", "pdf=report/sorts.pdf"], {}, None),
    ],
)
@pytest.mark.usefixtures("second_benchmark")
def test_a_call_is_about_the_benchmark_whose_files_it_names(
    arguments: list[str], own: dict[str, str], expected: str | None
) -> None:
    assert asked_benchmark(arguments, layers(**own)) == expected


@pytest.mark.usefixtures("second_benchmark")
def test_a_report_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError) as caught:
        asked_benchmark(["--cores", "1", "report/lab6.pdf"], ())
    assert "there is no report lab6 (did you mean lab5?); there are lab5" in str(caught.value)
    others = ["--report", "report/provenance.html", "mine/report/lab6.pdf", "./report/compare.pdf"]
    assert asked_benchmark(others, ()) is None


@pytest.mark.usefixtures("second_benchmark")
def test_a_call_is_about_one_benchmark() -> None:
    both = r"lab5\.pdf is of attention and report/sorts\.pdf is of sorting; make a call for each"
    with pytest.raises(ConfigError, match=both):
        asked_benchmark(["report/lab5.pdf", "report/sorts.pdf"], layers())
    with pytest.raises(ConfigError, match="the call's configuration is of attention"):
        asked_benchmark(["report/sorts.pdf"], layers(benchmark="attention"))
