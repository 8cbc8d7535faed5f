"""The work of each call before any job: the plan, and the outputs to make again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted.course import result_of, write_results

from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import ConfigError, Layer, read_layer
from flashlab.plan.datasets import DatasetError
from flashlab.plan.digests import CHANGED, write_digests
from flashlab.plan.freezing import check_freezable
from flashlab.plan.make import make
from flashlab.plan.value import Plan

CONFIG = Path(__file__).parents[1] / "config" / "config.yaml"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    loaded: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return {**loaded, "device": "cpu"}


def prepared_from(config: dict[str, Any], overrides: dict[str, Any] | None = None) -> Plan:
    """A call with this configuration file and these keys on the command line."""
    return make(Layer(str(CONFIG), config), [Layer("--config", overrides or {})])


def test_the_lab_on_a_cpu_is_32_runs_each_with_three_records(config: dict[str, Any]) -> None:
    prepared = prepared_from(config)
    timed = prepared.orders.keys() - {*prepared.counters}
    assert (len(timed), len(prepared.counters)) == (3 * 32, 20)
    assert {*prepared.records} == prepared.orders.keys()


def test_a_preview_is_a_part_of_what_the_whole_measures(config: dict[str, Any]) -> None:
    preview = prepared_from(config, {"quick": True})
    whole = prepared_from(config)
    assert preview.orders.keys() < whole.orders.keys()
    assert {order["process"] for order in preview.orders.values()} == {0}
    for name in preview.experiments.keys() - {"summary"}:
        (view,) = (v for path, v in preview.views.items() if path.endswith(f"sweeps/{name}.json"))
        assert len({run[view["sweep"]] for run in view["runs"]}) == 2
    assert not preview.counters


def test_a_preview_cannot_be_frozen(config: dict[str, Any]) -> None:
    with pytest.raises(DatasetError, match="quick: a preview cannot be frozen"):
        check_freezable(prepared_from(config, {"quick": True, "name": "mine"}))


def changed_documents(config: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> set[str]:
    """The plan's files that a change of the configuration changes, adds or removes."""
    before = prepared_from(config).views
    change(config)
    after = prepared_from(config).views
    differing = {name for name in before.keys() | after if before.get(name) != after.get(name)}
    return {name.removeprefix("results/local/plan/") for name in differing}


def test_a_damaged_report_is_made_again_wherever_it_is(config: dict[str, Any]) -> None:
    Path("report").mkdir()
    published = Path("report/lab5.pdf")
    published.write_bytes(b"%PDF-1.7\n%%EOF\n")
    assert "report/lab5.pdf" not in prepared_from(config).redo
    published.write_bytes(b"%PDF-1.7\n")
    assert prepared_from(config).redo["report/lab5.pdf"] == "is cut off"


def test_ceilings_that_were_changed_are_measured_again_those_that_were_copied_alone_are_not(
    config: dict[str, Any],
) -> None:
    ceilings = Path(str(prepared_from(config).ceilings))
    ceilings.parent.mkdir(parents=True)
    ceilings.write_text("{}")
    assert ceilings.as_posix() not in prepared_from(config).redo
    write_digests(ceilings)
    ceilings.write_text("[]")
    assert prepared_from(config).redo[ceilings.as_posix()] == CHANGED


def test_measuring_all_again_is_no_part_of_the_report_and_takes_in_the_ceilings(
    config: dict[str, Any],
) -> None:
    assert changed_documents(config, lambda config: config.update(again="all")) == set()
    again = prepared_from(config)
    assert again.ceilings and Path(again.ceilings).as_posix() in again.redo


def test_the_number_of_processes_decides_what_the_tables_are_made_of_and_nothing_else(
    config: dict[str, Any],
) -> None:
    names = ("summary", *(experiment["name"] for experiment in config["experiments"]))
    changed = changed_documents(config, lambda config: config.update(replicates=2))
    assert changed == {f"records/{name}.json" for name in names}


def test_measuring_a_recorded_run_again_is_refused(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CONFIG.parents[1])
    with pytest.raises(ConfigError, match=r"again: .* the records are recorded ones"):
        prepared_from({**config, "again": "Flash2"}, {"dataset": "h200"})


def test_a_datasets_experiments_can_be_taken_by_name_with_fewer_implementations(
    config: dict[str, Any],
) -> None:
    def planned(**overrides: Any) -> dict[str, int]:
        records = prepared_from(config, {"dataset": "h200", **overrides}).experiments
        return {
            name: sum(not Path(path).name.startswith("counters-") for path in paths)
            for name, paths in records.items()
        }

    experiments = ["num_heads", {"use": "causal", "name": "mask"}]
    assert planned(experiments=experiments) == {"summary": 6, "num_heads": 108, "mask": 216}
    fewer = planned(experiments=experiments, implementations=["Pytorch", "Flash2"])
    assert fewer == {"summary": 6, "num_heads": 24, "mask": 48}
    with pytest.raises(ConfigError, match=r"no experiment seq_le .* mean seq_len.*num_heads"):
        planned(experiments=["seq_le"])


AWAITED = ("d128_full", "d128_causal", "gqa", "gqa_long")
"""Experiments that the next recording brings."""


def test_the_recorded_dataset_holds_the_experiments_of_its_configuration_file(
    config: dict[str, Any],
) -> None:
    recorded = prepared_from(config, {"dataset": "h200"})
    file = read_layer(CONFIG.parent / "record" / "attention.yaml")
    asked_for = make(Layer(str(CONFIG), config), [file])

    def on_gpu(block: dict[str, Any]) -> dict[str, Any]:
        """A block without what a dataset may have less of: other devices' sizes, and counters."""
        return {key: value for key, value in block.items() if key not in ("cpu", "counted")}

    experiments = (each.config["experiments"] for each in (recorded, asked_for))
    was, now = ([on_gpu(experiment) for experiment in each] for each in experiments)
    assert was == [experiment for experiment in now if experiment["name"] not in AWAITED]
    assert on_gpu(recorded.config["summary"]) == on_gpu(asked_for.config["summary"])


def test_a_dataset_brings_its_experiments_unless_the_call_gives_its_own(
    config: dict[str, Any],
) -> None:
    folder = Path("data/empty")
    folder.mkdir(parents=True)
    kept = {key: config[key] for key in ("baseline", "summary")}
    kept["experiments"] = config["experiments"][:1]
    manifest = {
        **{"version": 2, "name": "empty", "device": "cpu", "dtype": "float32"},
        **{"protocol": "sampled", "config": kept, "ceilings": None, "records": []},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    config["dataset"] = "empty"
    with pytest.raises(Exception, match="lacks 8 of the 8 runs"):
        prepared_from(config, {"dataset": "empty"})
    with pytest.raises(Exception, match="lacks 32 of the 32 runs"):
        own = {"dataset": "empty", "experiments": config["experiments"]}
        prepared_from(config, own)
    with pytest.raises(Exception, match="lacks 8 of the 8 runs"):
        # The rest of the summary stays as it was recorded, at a shape that an experiment has too.
        own = {"dataset": "empty", "summary": {"implementations": ["Pytorch"]}}
        config["summary"]["cpu"]["seq_len"] = 4096
        prepared_from(config, own)


def test_an_image_of_a_remark_that_is_not_there_is_named(config: dict[str, Any]) -> None:
    Path("remarks.md").write_text("![a](a.png)")
    config["remarks"] = {"seq_len": {"en": "remarks.md"}}
    with pytest.raises(ConfigError, match=r"line 1: the image a\.png: there is no file"):
        prepared_from(config)


def test_remarks_without_what_reads_them_is_one_message(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where Snakemake alone is installed; without remarks nothing is missing."""
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    monkeypatch.delitem(sys.modules, "flashlab.remarks", raising=False)
    assert prepared_from(config).remarks == ()
    config["remarks"] = {"seq_len": {"en": "remarks/seq_len.en.md"}}
    with pytest.raises(ConfigError, match="needs markdown_it, which is not installed beside"):
        prepared_from(config)


def test_the_experiments_of_an_imported_folder_follow_from_its_files(
    config: dict[str, Any],
) -> None:
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
    prepared = prepared_from(config, {"import": "mine"})
    assert [*prepared.experiments] == ["summary", "batch_size", "num_heads", "others-1"]
    assert len(prepared.records) == len(prepared.imports) == 12
    assert len(prepared.experiments["others-1"]) == 2 and prepared.notices == []
    names = [experiment["name"] for experiment in prepared.config["experiments"]]
    assert names == ["seq_len", "causal", "batch_size", "num_heads", "emb_dim"]
