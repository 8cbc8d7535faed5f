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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted.project import SHORT_TEMPLATE, Project

pytestmark = pytest.mark.scheduled

WALKS = int(os.environ.get("FLASHLAB_WALKS", "1"))
SEED = int(os.environ.get("FLASHLAB_SEED", "354"))
"""By default a walk in which no change that draws all figures anew hides another of them."""

OWN = ("--configfile", "walk.yaml")
BLOCK = {"batch_size": 1, "seq_len": 16, "num_heads": 2, "emb_dim": 32, "causal": True}
SWEEPS: tuple[dict[str, Any], ...] = (
    {"seq_len": [16, 64], "causal": False},
    {"seq_len": [16, 64], "causal": [False, True]},
    *({"seq_len": [64]}, {"batch_size": [1, 2]}, {"batch_size": [2]}),
    *({"emb_dim": [16, 32]}, {"emb_dim": [32]}),
)
HEADLINE = {**BLOCK, "seq_len": 64, "causal": False}
BEGIN = {
    **{"device": "cpu", "dataset": "local", "languages": ["en"], "baseline": "Pytorch"},
    # Nothing is to be measured on the way: each fresh clone would find other numbers.
    "measure": {"sampled": {"relative_interval": 0.5, "max_seconds": 0.02}},
    **{"replicates": 1, "counters": "no"},
    "summary": {"cpu": HEADLINE, "cuda": HEADLINE, "implementations": ["Pytorch", "Flash2"]},
}
Config = dict[str, Any]


def any_experiment(name: str, chance: random.Random) -> Config:
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


def replace_one(config: Config, chance: random.Random) -> None:
    place = chance.randrange(len(config["experiments"]))
    name = config["experiments"][place]["name"]
    config["experiments"][place] = any_experiment(name, chance)


CHANGES: tuple[Callable[[Config, random.Random], Any], ...] = (
    lambda config, chance: config["experiments"].append(any_experiment("added", chance)),
    replace_one,
    lambda config, chance: config["experiments"].pop(chance.randrange(len(config["experiments"]))),
    lambda config, chance: config["experiments"].reverse(),
    lambda config, chance: chance.choice(config["experiments"]).update(name="renamed"),
    lambda config, chance: config.update(
        languages=chance.choice((["zh_TW"], ["zh_TW", "en"], ["en", "zh_TW"]))
    ),
    lambda config, chance: config.update(baseline="Flash2"),
    lambda config, chance: config["summary"]["implementations"].reverse(),
    lambda config, chance: config.update(dataset="kept"),
)


def call(project: Project, config: Config, seconds: float | None = None) -> None:
    """Make the report; a call that is given so many seconds is killed after them."""
    text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False)
    project.folder.joinpath("walk.yaml").write_text(text, encoding="utf-8")
    if seconds is None:
        project.make("report/lab5.pdf", config=OWN)
        return
    started = project.start("--cores", "2", "report/lab5.pdf", config=OWN)
    try:
        started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()


@pytest.mark.parametrize("seed", range(SEED, SEED + WALKS))
def test_after_any_walk_the_report_is_the_one_that_a_fresh_clone_makes(
    seed: int, project: Project, make_clone: Callable[[Path], Project], tmp_path: Path
) -> None:
    project.make("freeze", "--config", "name=kept")
    walked, fresh = (make_clone(tmp_path / name) for name in ("walked", "fresh"))
    for clone in (walked, fresh):  # with the records, and nothing that was made of them
        for name in ("data/kept", "results/local/records"):
            shutil.copytree(project.folder / name, clone.folder / name)
        shutil.copy(SHORT_TEMPLATE, clone.folder / "templates" / "report.html.j2")

    chance = random.Random(seed)
    experiments = [any_experiment(name, chance) for name in ("one", "two")]
    config = yaml.safe_load(yaml.safe_dump({**BEGIN, "experiments": experiments}))
    steps = [*CHANGES, "made", "made once more", "killed"]
    for step in chance.sample(steps, len(steps)):
        if callable(step):
            step(config, chance)
        else:
            call(walked, config, chance.uniform(0.2, 2.0) if step == "killed" else None)
    for clone in (walked, fresh):
        call(clone, config)
    assert walked.pdf.read_bytes() == fresh.pdf.read_bytes(), config
