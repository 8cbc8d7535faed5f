"""Random walks over the configuration: the report is the one that a fresh clone makes, to the byte.

A walk changes the configuration as its user might, each change once and in any order, calls
Snakemake in between, and kills a call. Whatever was left in the folder on the way, the last report
must be the same as in a folder that has the records and nothing else. All runs are recorded, so
nothing is measured.

FLASHLAB_WALKS=200 FLASHLAB_SEED=1 walks further, by hand.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.scheduled

WALKS = int(os.environ.get("FLASHLAB_WALKS", "1"))
SEED = int(os.environ.get("FLASHLAB_SEED", "354"))
"""By default a walk in which no change that draws all figures anew hides another of them."""

STATIC = ("Snakefile", "config", "envs", "kernels", "profiles", "report", "templates", "workflow")
DATA = ("data/kept", "data/published", "data/devices.csv", "results/local/records")
OWN = ("--configfile", "walk.yaml")
BLOCK = {"batch_size": 1, "seq_len": 16, "num_heads": 2, "emb_dim": 32, "causal": True}
SWEEPS: tuple[dict[str, Any], ...] = (
    {"seq_len": [16, 64], "causal": False},
    {"seq_len": [16, 64], "causal": [False, True]},
    {"seq_len": [64]},
    {"batch_size": [1, 2]},
    {"num_heads": [1, 2]},
    {"emb_dim": [16, 32]},
    {"emb_dim": [32]},
)
HEADLINE = {**BLOCK, "seq_len": 64, "causal": False}
BEGIN = {
    "device": "cpu",
    "dataset": "local",
    "languages": ["en"],
    "baseline": "Pytorch",
    # Nothing is to be measured on the way: each fresh clone would find other numbers.
    "measure": {"sampled": {"relative_interval": 0.5, "max_seconds": 0.02}},
    "replicates": 1,
    "counters": "no",
}


def any_experiment(name: str, chance: random.Random) -> dict[str, Any]:
    """An experiment of runs that are recorded."""
    values = chance.choice(SWEEPS)
    return {
        "name": name,
        "title": chance.choice(({"zh_TW": "甲", "en": "A"}, {"zh_TW": "乙", "en": "B"})),
        "sweep": next(iter(values)),
        "cpu": {**BLOCK, **values},
        "cuda": {**BLOCK, **values},
        "implementations": chance.sample(["Pytorch", "Flash2"], 2),
        "figures": chance.choice((["time"], ["rate", "memory"])),
    }


@dataclass
class Walk:
    """One user's folder and configuration."""

    project: Any
    config: dict[str, Any]
    chance: random.Random

    @property
    def experiments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.config["experiments"]
        return found

    def add_an_experiment(self) -> None:
        self.experiments.append(any_experiment("added", self.chance))

    def replace_an_experiment(self) -> None:
        place = self.chance.randrange(len(self.experiments))
        name = self.experiments[place]["name"]
        self.experiments[place] = any_experiment(name, self.chance)

    def remove_an_experiment(self) -> None:
        del self.experiments[self.chance.randrange(len(self.experiments))]

    def reorder_the_experiments(self) -> None:
        self.experiments.reverse()

    def rename_an_experiment(self) -> None:
        self.chance.choice(self.experiments)["name"] = "renamed"

    def choose_languages(self) -> None:
        languages = (["zh_TW"], ["zh_TW", "en"], ["en", "zh_TW"])
        self.config["languages"] = self.chance.choice(languages)

    def choose_the_other_baseline(self) -> None:
        self.config["baseline"] = "Flash2"

    def exchange_the_headlines_columns(self) -> None:
        self.config["summary"]["implementations"].reverse()

    def choose_the_other_dataset(self) -> None:
        self.config["dataset"] = "kept"

    def write(self) -> None:
        text = yaml.safe_dump(self.config, allow_unicode=True, sort_keys=False)
        self.project.folder.joinpath("walk.yaml").write_text(text, encoding="utf-8")

    def make(self) -> None:
        self.write()
        self.project.make("report/lab5.pdf", config=OWN)

    def make_once_more(self) -> None:
        self.make()

    def kill_a_call(self) -> None:
        """Somewhere in the middle."""
        self.write()
        call = self.project.start("--cores", "2", "report/lab5.pdf", config=OWN)
        try:
            call.communicate(timeout=self.chance.uniform(0.2, 2.0))
        except subprocess.TimeoutExpired:
            call.kill()
            call.communicate()


STEPS = (
    *(Walk.add_an_experiment, Walk.replace_an_experiment, Walk.remove_an_experiment),
    *(Walk.reorder_the_experiments, Walk.rename_an_experiment, Walk.choose_languages),
    *(Walk.choose_the_other_baseline, Walk.exchange_the_headlines_columns),
    *(Walk.choose_the_other_dataset, Walk.make, Walk.make_once_more, Walk.kill_a_call),
)


@pytest.fixture
def base(project: Any, tmp_path: Path) -> Path:
    """A folder with the program and the records, and nothing that was made of them."""
    project.make("freeze", "--config", "name=kept")
    for name in (*STATIC, *DATA):
        source, target = project.folder / name, tmp_path / "base" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    for made in tmp_path.glob("base/report/*.*"):
        made.unlink()
    return tmp_path / "base"


@pytest.mark.parametrize("seed", range(SEED, SEED + WALKS))
def test_after_any_walk_the_report_is_the_one_that_a_fresh_clone_makes(
    seed: int, base: Path, project: Any, tmp_path: Path
) -> None:
    def clone(name: str) -> Any:
        """Files that nobody writes are links."""
        shutil.copytree(base, tmp_path / name, copy_function=os.link)
        return replace(project, folder=tmp_path / name)

    chance = random.Random(seed)
    experiments = [any_experiment(name, chance) for name in ("one", "two")]
    summary = {"cpu": HEADLINE, "cuda": HEADLINE, "implementations": ["Pytorch", "Flash2"]}
    config = {**BEGIN, "summary": summary, "experiments": experiments}
    walk = Walk(clone("walked"), config, chance)
    for step in chance.sample(STEPS, len(STEPS)):
        step(walk)
    walk.make()
    fresh = replace(walk, project=clone("fresh"))
    fresh.make()
    assert walk.project.pdf.read_bytes() == fresh.project.pdf.read_bytes(), config
