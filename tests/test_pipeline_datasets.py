"""Recorded datasets: kept from local records, or imported from the course's script's results."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.course import result_of, write_results

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.shape import Shape

LOCAL = ("在這台機器上量測", "measured on this machine")
MINE = ("data/mine", "data/mine")
ON_DATASET = ("--config", "dataset=mine")
NO_TORCH = 'raise ImportError("torch was imported to render a recorded dataset")\n'


@pytest.fixture(scope="module")
def frozen(copy_finished: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The finished folder with one experiment left, whose records are kept as data/mine."""
    project = copy_finished(tmp_path_factory.mktemp("frozen") / "frozen")
    with project.config() as config:
        del config["experiments"][1:]
    project.make("report/lab5.pdf")
    project.make("freeze", "--config", "name=mine")
    return project


def manifest(project: Any) -> Any:
    return json.loads(project.folder.joinpath("data", "mine", "manifest.json").read_text("utf-8"))


def says(text: str, sentences: Sequence[str], squeezed: Callable[[str], str]) -> bool:
    return all(squeezed(sentence) in text for sentence in sentences)


# Comparing


def test_a_dataset_is_compared_with_what_is_measured_here(frozen: Any) -> None:
    sides = ("--config", "compare=[mine,local]")
    assert "Measuring" not in frozen.make("report/compare.pdf", *sides)
    comparison = frozen.folder / "results" / "compare" / "comparison.json"
    found = json.loads(comparison.read_text("utf-8"))
    assert [side["name"] for side in found["sides"]] == ["mine", "local"]
    assert found["shared"] == 4
    both = [row for row in found["comparisons"] if row["compared"] == "dataset"]
    assert {row["verdict"] for row in both} == {"equal"}  # the very same records
    assert frozen.folder.joinpath("report", "compare.pdf").read_bytes().startswith(b"%PDF")
    again = frozen.snakemake("--dry-run", "report/compare.pdf", *sides)
    assert "Nothing to be done" in again.stdout


def test_a_comparison_without_two_sides_says_how_to_name_them(frozen: Any) -> None:
    done = frozen.snakemake("--dry-run", "results/compare/comparison.json", "--force")
    assert done.returncode != 0
    assert "--config compare=[NAME,NAME]" in done.stdout
    done = frozen.snakemake("--dry-run", "report/compare.pdf", "--config", "compare=[mine,absent]")
    assert "absent is neither a recorded dataset (h100, h200, mine) nor" in done.stdout


# Keeping local records


def test_freezing_keeps_every_planned_record_as_it_is(frozen: Any) -> None:
    entries = manifest(frozen)["records"]
    assert len(entries) == 4 + 2  # runs, and the counters of those of Flash2
    for entry in entries:
        kept = frozen.folder / "data" / "mine" / entry["file"]
        measured = frozen.folder / "results" / "local" / entry["file"]
        assert kept.read_bytes() == measured.read_bytes()
    assert (manifest(frozen)["name"], manifest(frozen)["device"]) == ("mine", "cpu")


def test_a_name_that_is_taken_is_refused_and_what_it_holds_is_kept(frozen: Any) -> None:
    before = manifest(frozen)
    frozen.make("freeze", "--config", "name=mine")  # which it has
    otherwise = ("name=mine", "measure={sampled: {max_seconds: 0.03}}")
    done = frozen.snakemake("--cores", "1", "freeze", "--config", *otherwise)
    assert done.returncode != 0 and "Measuring" not in done.stdout
    assert "mine exists already" in done.stdout
    assert "not overwritten" in done.stdout
    assert manifest(frozen) == before


def test_counters_are_added_to_a_dataset_of_the_same_runs(frozen: Any) -> None:
    path = frozen.folder / "data" / "mine" / "manifest.json"
    before = manifest(frozen)
    timed = [entry for entry in before["records"] if entry["protocol"]["name"] != "counters"]
    for entry in before["records"]:
        if entry not in timed:
            (path.parent / entry["file"]).unlink()
    path.write_text(json.dumps({**before, "records": timed}), encoding="utf-8")
    frozen.make("freeze_counters", "--config", "name=mine")
    after = manifest(frozen)["records"]
    assert {entry["file"] for entry in after} == {entry["file"] for entry in before["records"]}


def test_freezing_without_a_name_says_how(frozen: Any) -> None:
    done = frozen.snakemake("--cores", "1", "freeze")
    assert done.returncode != 0
    assert "snakemake freeze --config name=NAME" in done.stdout
    assert "most recent call" not in done.stdout


# Rendering them


def test_the_report_follows_the_dataset_there_and_back_and_needs_no_torch(
    frozen: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    assert says(text_of(frozen.pdf), LOCAL, squeezed)
    before = frozen.pdf.read_bytes()

    torch = frozen.folder / "workflow" / "torch.py"  # found before the real one
    torch.write_text(NO_TORCH)
    said = frozen.make("report/lab5.pdf", *ON_DATASET)
    torch.unlink()
    assert "Measuring" not in said
    text = text_of(frozen.pdf)
    assert says(text, MINE, squeezed) and not says(text, LOCAL[1:], squeezed)

    assert frozen.plan() == {"Writing report/lab5.pdf"}
    frozen.make("report/lab5.pdf")
    assert frozen.pdf.read_bytes() == before


def test_a_dataset_brings_the_experiments_that_it_was_recorded_for(
    frozen: Any, make_clone: Callable[[Path], Any], tmp_path: Path
) -> None:
    other = make_clone(tmp_path / "other")
    shutil.copytree(frozen.folder / "data" / "mine", other.folder / "data" / "mine")
    done = other.snakemake("--dry-run", "report/lab5.pdf", *ON_DATASET, config=())
    assert done.returncode == 0, done.stdout
    assert "Measuring" not in done.stdout
    tabulated = set(re.findall(r"tables/(\w+)/runs\.csv", done.stdout))
    assert tabulated >= {"seq_len"} and not tabulated & {"causal", "batch_size"}


def test_runs_that_a_dataset_lacks_are_listed(frozen: Any) -> None:
    path = frozen.folder / "tests" / "tiny.yaml"
    before = path.read_bytes()
    try:
        with frozen.config() as config:
            config["experiments"][0]["cpu"]["seq_len"] = [16, 48, 64]
        done = frozen.snakemake("--cores", "1", "report/lab5.pdf", *ON_DATASET)
    finally:
        path.write_bytes(before)
    assert done.returncode != 0
    assert "The dataset mine lacks 2 of the 6 runs" in done.stdout
    for implementation in ("Pytorch", "Flash2"):
        assert f"  {implementation} B1 N48 H2 E32 full float32 cpu\n" in done.stdout
    assert "Traceback" not in done.stdout


# Results of the course's script

NAMES = ("a.json", "b.json", "c.json", "d.json")
WILD_NAMES = ("結果 {1}.json", "it's [n=64] & 100%.json", "${HOME} `id`.json", "{record}.json")


def write_four(folder: Path, names: Sequence[str] = NAMES) -> None:
    """Four results under these names."""
    shapes = [Shape(1, seq_len, 2, 32, causal=False) for seq_len in (16, 64)]
    runs = [
        (name, shape, result_of(name, shape, forward, 2 * forward))
        for name, forward in (("Pytorch", 3e-3), ("Flash2", 1e-3))
        for shape in shapes
    ]
    write_results(folder, dict(zip(names, runs, strict=True)), "NVIDIA GeForce RTX 3070")


@pytest.fixture
def one_experiment(project: Any, root: Path) -> Any:
    template = Path("templates", "report.html.j2")
    shutil.copyfile(root / template, project.folder / template)
    with project.config() as config:
        del config["experiments"][1:]
    return project


SWEPT = {
    "bs": ("batch_size", (16, 32, 64)),
    "sl": ("seq_len", (256, 512)),
    "nh": ("num_heads", (16, 32)),
    "ed": ("emb_dim", (1024, 2048)),
}
BASE = Shape(32, 512, 32, 2048, True)


def write_students_folder(folder: Path) -> None:
    """Four sweeps, each with the base point, in which Flash2's forward pass is odd.

    It takes four times as long as half the batch, and as long as twice the batch.
    """
    folder.mkdir()
    for i, (word, (name, values)) in enumerate(SWEPT.items()):
        for value, (suffix, who, rate) in itertools.product(
            values, (("pth", "Pytorch", 3.4e12), ("fl2", "Flash2", 23e12))
        ):
            shape = replace(BASE, **{name: value})
            forward = costs.forward_flops(shape) / rate
            backward = 2.5 * forward * (1 + i / 500)
            if shape == BASE:
                forward *= (2.07 if who == "Flash2" else 1) * (1 + i / 100)
            document = result_of(who, shape, forward, backward)
            path = folder / f"benchmark_result_{word}{value}_{suffix}.json"
            path.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.scheduled  # on less: the next test, and tests/lab5
def test_a_students_folder_alone_becomes_the_labs_report(
    one_experiment: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    write_students_folder(one_experiment.folder / "mine")
    said = one_experiment.make("report/lab5.pdf", "--config", "import=mine", config=())
    assert said.count("Importing") == 18
    assert "Measuring" not in said
    text = text_of(one_experiment.pdf)
    for sentence in (
        "NVIDIA GPU (compute capability 8.x) · float16",
        "times the speed, forward and backward together",
        "Flash2 at N = 512, B = 32, H = 32, E = 2048: odd, the rate dips",
        "12 runs in 1–4 processes each",
        "Of two values alone",
        "Experiment 3: Batch size",
        "Peak memory of 18 files is that of the exact model of their runs, to the byte.",
        "script does not check results",
    ):
        assert says(text, [sentence], squeezed), sentence
    for wrong in (
        "No difference can be shown",
        "not recorded",
        "No GPU was measured",
        "Experiment 2",
        "float64",
    ):
        assert not says(text, [wrong], squeezed), wrong


@pytest.mark.scheduled  # on less: tests/test_prepare.py
def test_page_one_of_a_grid_is_about_every_run(
    one_experiment: Any, text_of: Callable[[Path], str], squeezed: Callable[[str], str]
) -> None:
    """Four settings, one of them in no sweep, where Flash2 is 9.9 times as fast and not 3."""
    folder = one_experiment.folder / "grid"
    folder.mkdir()
    for b, n, who in itertools.product((16, 32), (512, 1024), ("Pytorch", "Flash2")):
        shape = replace(BASE, batch_size=b, seq_len=n)
        faster = 9.9 if (b, n) == (32, 1024) else 3.0
        seconds = costs.forward_flops(shape) / 3e12 / (faster if who == "Flash2" else 1)
        document = result_of(who, shape, seconds, 2.5 * seconds)
        path = folder / f"{who}_{b}_{n}_32_2048_true.json"
        path.write_text(json.dumps(document), encoding="utf-8")
    one_experiment.make("report/lab5.pdf", "--config", "import=grid", config=())
    text = text_of(one_experiment.pdf)
    for sentence in ("at all 4 settings (3.0–9.9 times", "2 runs beside the experiments"):
        assert says(text, [sentence], squeezed), sentence


def test_results_may_have_names_that_mean_something_elsewhere(one_experiment: Any) -> None:
    write_four(one_experiment.folder / "my 結果 {a}", WILD_NAMES)
    said = one_experiment.make("records", "--config", "import=my 結果 {a}")
    assert said.count("Importing") == len(WILD_NAMES)
    assert len([*(one_experiment.folder / "results" / "my-a" / "records").glob("*.json")]) == 4


def test_what_cannot_be_told_is_asked_once_by_a_table_beside_the_files(one_experiment: Any) -> None:
    """Flash2 at B 32, N 256 without a mask, and at B 16, N 512 with one, are the same numbers."""
    folder = one_experiment.folder / "ours"
    shapes = [Shape(32, 256, 32, 2048, False), Shape(16, 512, 32, 2048, True)]
    runs = {f"{i}.json": ("Flash2", s, result_of("Flash2", s, 1e-3 + i / 1e5, 2e-3))
            for i, s in enumerate(shapes)}  # fmt: skip
    write_results(folder, runs, "")
    table = folder / "runs.csv"
    told = table.read_text()
    table.unlink()
    asked = ("records", "--config", "import=ours")
    one_experiment.snakemake("--dry-run", *asked, config=())
    assert not table.exists()
    done = one_experiment.snakemake("--cores", "1", *asked, config=())
    assert done.returncode != 0 and "fill in each ? of" in done.stdout
    assert "1.json,Flash2,?,?,?,?,?," in table.read_text()
    table.write_text(told)
    assert one_experiment.make(*asked, config=()).count("Importing") == 2
