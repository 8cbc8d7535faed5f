"""What a call plans: which runs, under which names, and the files that each stage reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted.course import result_of, write_results
from planted.project import ROOT
from planted.records import record_of

from flashlab import machine, nsight
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.config import ConfigError, Layer
from flashlab.files import write_json
from flashlab.plan.datasets import Dataset, DatasetError, Entry
from flashlab.plan.digests import CHANGED, write_digests
from flashlab.plan.experiments import Experiment, experiments_of, runs_of
from flashlab.plan.freezing import check_freezable
from flashlab.plan.make import make
from flashlab.plan.plan_files import EXPERIMENTS, Plan
from flashlab.plan.runs import Namer, Planned, blocks_of, broken_blocks, orders_of, plan_recorded
from flashlab.records import write_record

CONFIG = ROOT / "config" / "config.yaml"
SWEEPS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
Config = dict[str, Any]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The default configuration for a CPU, in a folder with nothing in it."""
    monkeypatch.chdir(tmp_path)
    return {**yaml.safe_load(CONFIG.read_text(encoding="utf-8")), "device": "cpu"}


def planned(config: Config, **call: Any) -> Plan:
    """A call with this configuration file and these keys on the command line."""
    return make(Layer(str(CONFIG), config), [Layer("--config", call)])


def timed(plan: Plan) -> dict[str, int]:
    """The processes of the records that are no counters."""
    return {n: order["process"] for n, order in plan.orders.items() if n not in plan.counters}


# Which runs


def test_the_default_configuration_is_the_labs_list(config: Config) -> None:
    on_cpu = planned(config)
    runs = {*runs_of(experiments_of({**on_cpu.config}, ATTENTION, ("float16", "cuda")))}
    expected = {Shape(16, n, 32, 2048, c) for n in (128, 256, 512, 1024) for c in (False, True)}
    expected |= {Shape(b, 512, 32, 2048, True) for b in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, h, 2048, True) for h in (8, 16, 32, 64)}
    expected |= {Shape(32, 512, 32, e, True) for e in (512, 1024, 2048, 4096)}
    assert {Shape.of(run) for run in runs} == expected
    assert (len(timed(on_cpu)), len(on_cpu.counters)) == (3 * 32, 20)
    assert all(("-process2-" in name) == (number == 2) for name, number in timed(on_cpu).items())


def test_a_preview_is_a_part_of_what_the_whole_measures(config: Config) -> None:
    preview, whole = planned(config, quick=True), planned(config)
    assert preview.orders.keys() < whole.orders.keys() and not preview.counters
    assert {*timed(preview).values()} == {0}
    assert len({run["seq_len"] for run in preview.view(EXPERIMENTS)["seq_len"]["runs"]}) == 2
    for key, value in {"quick": True, "dataset": "h200"}.items():
        with pytest.raises(DatasetError, match=r"leave (quick out|out dataset= and import=)"):
            check_freezable(planned(config, name="mine", **{key: value}))


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"emb_dim": [32, 64], "head_dim": [16, 32]}, [(64, 2, 32), (64, 2, 64)]),
        ({"seq_len": [64, 8], "num_heads": 1, "head_dim": [16, 32]}, [(64, 1, 16), (8, 1, 32)]),
    ],
)
def test_lists_beside_the_sweep_go_with_it_and_sizes_of_heads_follow(
    config: Config, block: Config, expected: list[tuple[int, int, int]]
) -> None:
    block = {"batch_size": 8, "seq_len": 64, "causal": False, **block}
    config["experiments"][0] |= {"sweep": "head_dim", "cuda": block, "cpu": block}
    resolved = {**planned(config).config}
    (_, swept, *_) = experiments_of(resolved, ATTENTION, ("float32", "cpu"))
    assert swept.sweep == "head_dim"
    assert [Shape.of(run) for run in swept.runs[::2]] == [Shape(8, *s, False) for s in expected]


# What a change of the configuration changes: files of the plan, and so jobs (the first test of
# test_pipeline_reruns.py), and no name of a record


def with_first(**keys: Any) -> Config:
    """The experiments, the first of which has these keys."""
    return {"experiments": [{"use": SWEEPS[0], **keys}, *SWEEPS[1:]]}


CHANGES: dict[str, tuple[Config, str]] = {
    "more time": ({"measure": {"timeout_s": 600}}, "config"),
    "processes on GPUs": ({"replicates": {"cuda": 9, "cpu": 3}}, ""),
    "one process": ({"replicates": 1}, "records"),
    "measured again": ({"again": "all"}, ""),
    "the baseline": ({"baseline": "Flash2"}, "config experiments"),
    "a language": ({"languages": ["en"]}, "config languages"),
    "a title": (with_first(title={"zh_TW": "x", "en": "y"}), "config titles"),
    "figures": (with_first(figures=["rate"]), "config figures"),
    "the order": (with_first(implementations=["Flash2", "Pytorch"]), "config experiments figures"),
    "one less": ({"experiments": [*SWEEPS[:-1]]}, "config experiments figures records titles"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_reaches_the_files_of_the_plan_that_it_touches_and_no_records_name(
    config: Config, what: str
) -> None:
    change, files = CHANGES[what]
    before, after = planned(config), planned(config, **change)
    names = before.views.keys() | after.views
    differing = {name for name in names if before.views.get(name) != after.views.get(name)}
    assert differing == {f"results/local/plan/{name}.json" for name in files.split()}
    assert after.orders.keys() <= before.orders.keys()


def test_ceilings_that_were_changed_are_measured_again_those_that_were_copied_alone_are_not(
    config: Config,
) -> None:
    ceilings = Path(str(planned(config).ceilings))
    write_json(ceilings, {})
    assert ceilings.as_posix() not in planned(config).redo
    write_digests(ceilings)
    ceilings.write_text("[]")
    assert planned(config).redo[ceilings.as_posix()] == CHANGED


# Which counters are read: where, of which runs, and what is kept of that decision


@pytest.fixture
def on_gpu(config: Config, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Plans a call on a GPU, perhaps with Nsight Compute; its decision is kept."""
    monkeypatch.setattr(machine, "detect_device", lambda device: device)
    monkeypatch.setattr(machine, "device_name", lambda _: "H200")

    def call(ncu: str | None = "2025.3", device: str = "cuda", **keys: Any) -> Plan:
        monkeypatch.setattr(nsight, "version", lambda: ncu)
        plan = planned(config, device=device, **keys)
        for path in plan.views.keys() & {"results/local/plan/counters.json"}:
            write_json(Path(path), plan.views[path])
        return plan

    return call


def test_ends_of_sweeps_are_counted_where_nsight_compute_is(on_gpu: Callable[..., Plan]) -> None:
    def counted(**of: Any) -> set[str]:
        return {Path(path).name for path in on_gpu(**of).counters}

    assert counted(ncu=None) == set() == counted(counters="no")
    assert {*on_gpu().counters} <= on_gpu().orders.keys()
    full = (n for n in counted() if n.startswith("counters-flash2-b16-") and "-full-" in n)
    assert {name.split("-n")[1].split("-")[0] for name in full} == {"128", "1024"}
    # The name follows Nsight Compute's version, but not the timing.
    assert counted(measure={"protocol": "lab5"}) == counted()
    assert counted(ncu="2026.1").isdisjoint(counted())
    assert counted(ncu=None, device="cpu"), "PyTorch's profiler needs nothing installed"


def test_without_nsight_compute_what_was_read_stays_and_no_more_is_read(
    on_gpu: Callable[..., Plan],
) -> None:
    with pytest.raises(DatasetError, match=r"counters: yes needs .* but ncu is not on PATH"):
        on_gpu(counters="yes", ncu=None)
    first, second, *_ = on_gpu().counters
    Path(first).parent.mkdir(parents=True)
    Path(first).touch()
    assert on_gpu(ncu=None).counters == [first]
    assert second in on_gpu().counters


# Blocks: what is compared is measured one after the other, on one card

NAMES = ("Flash2", "Pytorch", "SdpaMath", "Flex")
RUNS = [
    attention_run(name, Shape(1, seq_len, 8, 512, False), "float32", "cpu")
    for seq_len in (128, 256, 512)
    for name in NAMES
]


def in_processes(count: int, folder: Path = Path()) -> Planned:
    """The runs, each in so many processes."""
    numbers = range(count)
    return Planned(
        {r: [Entry(r, {}, folder / f"{r.slug}-{i}.json", None, i) for i in numbers] for r in RUNS}
    )


def test_a_block_holds_every_implementation_of_a_shape_in_the_processes_of_one_number() -> None:
    there = in_processes(4)
    blocks = blocks_of(there)
    assert len(blocks) == 3 * 4
    for block in blocks:
        assert sorted(entry.run.implementation for entry in block) == sorted(NAMES)
        assert len({(entry.run["seq_len"], entry.process) for entry in block}) == 1
    processes = [block[0].process for block in blocks]
    assert processes == sorted(processes), "the first processes of all runs come first"
    assert len({block[0].run.implementation for block in blocks}) > 1
    backwards = blocks_of(Planned(dict(reversed(there.processes.items()))))
    assert sorted(blocks, key=str) == sorted(backwards, key=str), "whatever the plan's order"


@pytest.mark.parametrize("cards", [2, 3])
def test_cards_have_as_many_blocks_each_and_not_all_of_one_shape(cards: int) -> None:
    orders = orders_of(in_processes(4), Namer(ATTENTION, {}, Path(), "H200")).values()
    firsts = [order for order in orders if order["run"]["implementation"] == NAMES[0]]
    counts = [[o["card"] % cards for o in firsts].count(card) for card in range(cards)]
    assert max(counts) - min(counts) <= 1
    assert len({o["card"] % cards for o in firsts if o["run"]["seq_len"] == 512}) > 1


@pytest.mark.parametrize(
    "apart",
    [None, {"environment": {"gpu_uuid": "other"}}, {"started": "2026-12-24T00:00:00+00:00"}],
    ids=["missing", "on another card", "later"],
)
def test_what_was_measured_apart_is_redone(tmp_path: Path, apart: dict[str, Any] | None) -> None:
    plan = in_processes(2, tmp_path)
    first, *others = plan.entries
    for entry in others:
        write_record(entry.path, record_of(entry.run))
    if apart:
        write_record(first.path, record_of(first.run, **apart))
    block = [e for e in plan.entries if (e.run["seq_len"], e.process) == (128, first.process)]
    assert {*broken_blocks(blocks_of(plan))} == {entry.path.as_posix() for entry in block}


@pytest.mark.parametrize(("minutes", "measured_again"), [(1, 0), (9, len(NAMES))])
def test_a_young_block_is_completed(tmp_path: Path, minutes: int, measured_again: int) -> None:
    plan = in_processes(1, tmp_path)
    begun, *_ = plan.entries
    started = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    write_record(begun.path, record_of(begun.run, started=started))
    assert len(broken_blocks(blocks_of(plan))) == measured_again


# Recorded datasets


def test_a_recorded_dataset_lists_what_it_lacks(tmp_path: Path) -> None:
    one, other = RUNS[:2]
    entry = Entry(one, {"name": "sampled"}, tmp_path / "gone.json", "abc")
    dataset = Dataset("x", "cpu", "float32", "sampled", {}, None, [entry])
    for runs, said in (
        ((one, other), f"lacks 1 of the 2 runs .*\n  {re.escape(str(other))}"),
        ((one,), r"lacks 1 of its records:\n  .*gone\.json"),
    ):
        with pytest.raises(DatasetError, match=said):
            plan_recorded([Experiment("seq_len", NAMES, runs)], "sampled", dataset, imported=False)
    held = [(one, "lab5"), (one, "sampled"), (other, "sampled")]  # what lacks one is not mixed
    both = [Entry(run, {"name": name}, tmp_path / name, "") for run, name in held]
    asked = [Experiment("seq_len", NAMES, (one, other))]
    plan = plan_recorded(asked, "lab5", replace(dataset, entries=both), imported=True)
    assert [entry.protocol["name"] for entry in plan.entries] == ["sampled", "sampled"]


def test_a_dataset_brings_its_experiments_which_can_be_taken_by_name_with_fewer_implementations(
    config: Config,
) -> None:
    def runs(**overrides: Any) -> dict[str, int]:
        plan = planned(config, dataset="h200", **overrides)
        return {name: len({*paths} - {*plan.counters}) for name, paths in plan.experiments.items()}

    assert runs()["seq_len"] > runs(experiments=config["experiments"])["seq_len"] > 0
    experiments = ["num_heads", {"use": "causal", "name": "mask"}]
    assert runs(experiments=experiments) == {"summary": 6, "num_heads": 108, "mask": 216}
    fewer = runs(experiments=experiments, implementations=["Pytorch", "Flash2"])
    assert fewer == {"summary": 6, "num_heads": 24, "mask": 48}
    with pytest.raises(ConfigError, match=r"no experiment seq_le .* mean seq_len.*num_heads"):
        runs(experiments=["seq_le"])
    with pytest.raises(ConfigError, match=r"again: .* the records are recorded ones"):
        runs(again="Flash2")


def test_the_experiments_of_an_imported_folder_follow_from_its_files(config: Config) -> None:
    """Two sweeps, each with its lab's name; a run beside them is planned for page one."""
    base = Shape(32, 512, 32, 2048, True)
    others = [{"batch_size": 16}, {"batch_size": 64}, {"num_heads": 16}, {"num_heads": 64}]
    shapes = [base, Shape(4, 1024, 16, 1024, False), *(replace(base, **each) for each in others)]
    runs = {
        f"{who}-{number}.json": (who, shape, result_of(who, shape, 1e-3, 2e-3))
        for number, shape in enumerate(shapes)
        for who in ("Pytorch", "Flash2")
    }
    write_results(Path("mine"), runs)
    found = planned(config, **{"import": "mine"})
    assert [*found.experiments] == ["summary", "batch_size", "num_heads", "others-1"]
    assert len(found.records) == len(found.imports) == 12
    assert len(found.experiments["others-1"]) == 2 and found.notices == []
    assert [e["name"] for e in found.config["experiments"]] == [*SWEEPS]
