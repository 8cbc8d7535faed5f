"""What a call plans: which runs, under which names, and the files that each stage reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted.course import result_of, write_results
from planted.project import ROOT

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import ConfigError, Layer
from flashlab.plan.datasets import Dataset, DatasetError, Entry
from flashlab.plan.digests import CHANGED, write_digests
from flashlab.plan.experiments import Experiment, experiments_of, runs_of
from flashlab.plan.freezing import check_freezable
from flashlab.plan.make import make
from flashlab.plan.plan_files import EXPERIMENTS, Plan
from flashlab.plan.runs import Planned, plan_recorded
from flashlab.runs import Run

CONFIG = ROOT / "config" / "config.yaml"
RUN = attention_run("Flash2", Shape(1, 128, 8, 512, False), "float16", "cuda")
Config = dict[str, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config() -> Config:
    return {**yaml.safe_load(CONFIG.read_text(encoding="utf-8")), "device": "cpu"}


def planned(config: Config, **call: Any) -> Plan:
    """A call with this configuration file and these keys on the command line."""
    return make(Layer(str(CONFIG), config), [Layer("--config", call)])


def resolved(config: Config) -> Config:
    return dict(planned(config).config)


# Which runs


def test_the_default_configuration_is_the_labs_list(config: Config) -> None:
    """On CUDA; on a CPU 32 runs, each in three processes, and of each end's counters."""
    runs = {*runs_of(experiments_of(resolved(config), ATTENTION, ("float16", "cuda")))}
    expected = {Shape(16, n, 32, 2048, c) for n in (128, 256, 512, 1024) for c in (False, True)}
    expected |= {Shape(b, 512, 32, 2048, True) for b in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, h, 2048, True) for h in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, 32, e, True) for e in (512, 1024, 2048, 4096)}
    assert {Shape.of(run) for run in runs} == expected
    assert (len(expected), len(runs)) == (17, 34)
    on_cpu = planned(config)
    timed = on_cpu.orders.keys() - {*on_cpu.counters}
    assert (len(timed), len(on_cpu.counters)) == (3 * 32, 20)
    assert {*on_cpu.records} == on_cpu.orders.keys()


def test_a_preview_is_a_part_of_what_the_whole_measures(config: Config) -> None:
    preview, whole = planned(config, quick=True), planned(config)
    assert preview.orders.keys() < whole.orders.keys() and not preview.counters
    assert {order["process"] for order in preview.orders.values()} == {0}
    for name in preview.experiments.keys() - {"summary"}:
        view = preview.view(EXPERIMENTS)[name]
        assert len({run[view["sweep"]] for run in view["runs"]}) == 2
    with pytest.raises(DatasetError, match="quick: a preview cannot be frozen"):
        check_freezable(planned(config, quick=True, name="mine"))


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"num_heads": 2, "head_dim": [16, 32]}, [(64, 2, 32), (64, 2, 64)]),
        ({"emb_dim": [32, 64], "head_dim": [16, 32]}, [(64, 2, 32), (64, 2, 64)]),
        ({"seq_len": [64, 8], "num_heads": 1, "head_dim": [16, 32]}, [(64, 1, 16), (8, 1, 32)]),
    ],
)
def test_lists_beside_the_sweep_go_with_it_and_sizes_of_heads_follow(
    config: Config, block: Config, expected: list[tuple[int, int, int]]
) -> None:
    block = {"batch_size": 8, "seq_len": 64, "causal": False, **block}
    config["experiments"][0] |= {"sweep": "head_dim", "cuda": block, "cpu": block}
    (_, swept, *_) = experiments_of(resolved(config), ATTENTION, ("float32", "cpu"))
    assert swept.sweep == "head_dim"
    assert [Shape.of(run) for run in swept.runs[::2]] == [Shape(8, *s, False) for s in expected]


def test_further_processes_of_a_run_have_records_of_their_own(config: Config) -> None:
    three = planned({**config, "replicates": {"cuda": 9, "cpu": 3}})
    timed = three.orders.keys() - {*three.counters}
    processes = [three.orders[name]["process"] for name in timed]
    assert {p: processes.count(p) for p in range(3)} == {0: 32, 1: 32, 2: 32}
    assert all(("-process2-" in name) == (three.orders[name]["process"] == 2) for name in timed)
    for count in (1, 2, 5):  # how many there are decides no name
        other = planned({**config, "replicates": count})
        both = {name: o for name, o in three.orders.items() if o["process"] < count}
        assert other.orders.keys() >= both.keys() and (count > 2 or len(other.orders) == len(both))


# What a change of the configuration changes: files of the plan, and so jobs (the first test of
# test_pipeline_reruns.py), and no name of a record


def of_first(**keys: Any) -> Callable[[Config], Any]:
    return lambda config: config["experiments"][0].update(keys)


NAMES = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
CHANGES: dict[str, tuple[Callable[[Config], Any], str]] = {
    "more time": (lambda c: c.update(measure={"timeout_s": 600}), "config.json"),
    "the author": (lambda c: c.update(author={"name": "x"}), "config.json"),
    "processes on GPUs": (lambda c: c.update(replicates={"cuda": 9, "cpu": 3}), ""),
    "processes": (lambda c: c.update(replicates=2), "records.json"),
    "measured again": (lambda c: c.update(again="all"), ""),
    "the baseline": (lambda c: c.update(baseline="Flash2"), "config.json experiments.json"),
    "a language": (lambda c: c.update(languages=["en"]), "config.json languages.json"),
    "a title": (of_first(title={"zh_TW": "x", "en": "y"}), "config.json titles.json"),
    "figures": (of_first(figures=["rate"]), "config.json figures.json"),
    "the order of implementations": (
        of_first(implementations=["Flash2", "Pytorch"]),
        "config.json experiments.json figures.json",
    ),
    "an experiment less": (
        lambda c: c["experiments"].pop(),
        "config.json experiments.json figures.json records.json titles.json",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_reaches_the_files_of_the_plan_that_it_touches_and_no_records_name(
    config: Config, what: str
) -> None:
    change, files = CHANGES[what]
    before = planned(config)
    change(config)
    after = planned(config)
    one, other = before.views, after.views
    differing = {name for name in one.keys() | other if one.get(name) != other.get(name)}
    changed = {name.removeprefix("results/local/plan/") for name in differing}
    assert changed == {*files.split()}
    assert after.orders.keys() <= before.orders.keys()


def test_ceilings_that_were_changed_are_measured_again_those_that_were_copied_alone_are_not(
    config: Config,
) -> None:
    ceilings = Path(str(planned(config).ceilings))
    ceilings.parent.mkdir(parents=True)
    ceilings.write_text("{}")
    assert ceilings.as_posix() not in planned(config).redo
    write_digests(ceilings)
    ceilings.write_text("[]")
    assert planned(config).redo[ceilings.as_posix()] == CHANGED
    assert ceilings.as_posix() in planned(config, again="all").redo


# Recorded datasets


def recorded(runs: list[Run], *entries: Entry, imported: bool = True) -> Planned:
    """Runs as they are looked up in a dataset; files that are not there count as imported ones."""
    dataset = Dataset("x", "cuda", "float16", "sampled", {}, None, entries)
    asked = Experiment("seq_len", ("Flash2",), tuple(runs))
    return plan_recorded([asked], "sampled", dataset, imported=imported)


def test_a_recorded_dataset_is_looked_up_by_run_and_lists_what_it_lacks(tmp_path: Path) -> None:
    other = replace(RUN, implementation="Other")
    entry = Entry(RUN, {"name": "sampled"}, Path("data/x/records/r.json"), "abc")
    assert recorded([RUN, RUN], entry).processes == {RUN: [entry]}
    with pytest.raises(DatasetError, match="lacks 1 of the 2 runs") as caught:
        recorded([RUN, other], entry)
    assert str(other) in str(caught.value) and str(RUN) not in str(caught.value)
    (tmp_path / "there.json").touch()
    files = {RUN: tmp_path / "there.json", other: tmp_path / "gone.json"}
    entries = [Entry(run, {"name": "sampled"}, path, "") for run, path in files.items()]
    with pytest.raises(DatasetError, match="lacks 1 of its records") as caught:
        recorded([*files], *entries, imported=False)
    assert "gone.json" in str(caught.value) and "there.json" not in str(caught.value)


def test_a_datasets_experiments_can_be_taken_by_name_with_fewer_implementations(
    config: Config,
) -> None:
    def runs(**overrides: Any) -> dict[str, int]:
        records = planned(config, dataset="h200", **overrides).experiments
        return {
            name: sum(not Path(path).name.startswith("counters-") for path in paths)
            for name, paths in records.items()
        }

    experiments = ["num_heads", {"use": "causal", "name": "mask"}]
    assert runs(experiments=experiments) == {"summary": 6, "num_heads": 108, "mask": 216}
    fewer = runs(experiments=experiments, implementations=["Pytorch", "Flash2"])
    assert fewer == {"summary": 6, "num_heads": 24, "mask": 48}
    with pytest.raises(ConfigError, match=r"no experiment seq_le .* mean seq_len.*num_heads"):
        runs(experiments=["seq_le"])
    with pytest.raises(ConfigError, match=r"again: .* the records are recorded ones"):
        runs(again="Flash2")


def test_a_dataset_brings_its_experiments_unless_the_call_gives_its_own(config: Config) -> None:
    kept = {key: config[key] for key in ("baseline", "summary")}
    kept["experiments"] = config["experiments"][:1]
    manifest = {
        **{"version": 2, "name": "empty", "device": "cpu", "dtype": "float32"},
        **{"protocol": "sampled", "config": kept, "ceilings": None, "records": []},
    }
    Path("data/empty").mkdir(parents=True)
    Path("data/empty/manifest.json").write_text(json.dumps(manifest))
    for own, runs in (({}, 8), ({"experiments": config["experiments"]}, 32)):
        with pytest.raises(DatasetError, match=f"lacks {runs} of the {runs} runs"):
            planned(config, dataset="empty", **own)


def test_the_experiments_of_an_imported_folder_follow_from_its_files(config: Config) -> None:
    """Two sweeps, each with its lab's name; a run beside them is planned for page one."""
    base = Shape(32, 512, 32, 2048, True)
    shapes = [replace(base, batch_size=b) for b in (16, 32, 64)]
    shapes += [replace(base, num_heads=h) for h in (16, 64)]
    shapes.append(Shape(4, 1024, 16, 1024, False))
    runs = {
        f"b{s.batch_size}_s{s.seq_len}_h{s.num_heads}_e{s.emb_dim}_{who}_"
        f"{'causal' if s.causal else 'full'}.json": (who, s, result_of(who, s, 1e-3, 2e-3))
        for s in shapes
        for who in ("Pytorch", "Flash2")
    }
    write_results(Path("mine"), runs, "")
    found = planned(config, **{"import": "mine"})
    assert [*found.experiments] == ["summary", "batch_size", "num_heads", "others-1"]
    assert len(found.records) == len(found.imports) == 12
    assert len(found.experiments["others-1"]) == 2 and found.notices == []
    assert [e["name"] for e in found.config["experiments"]] == [*NAMES]
