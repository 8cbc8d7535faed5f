"""Random walks over the configuration: the report is the one that a fresh clone makes, to the byte.

A walk changes the configuration as its user might, calls Snakemake now and then, and kills a call
now and then, often the one before the last. Whatever was left in the folder on the way, the last
report must be the same as in a folder that has the records and nothing else. All runs are recorded,
so nothing is measured.

FLASHLAB_WALKS=200 FLASHLAB_SEED=1 walks further, by hand.
"""

from __future__ import annotations

import copy
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

WALKS = int(os.environ.get("FLASHLAB_WALKS", "2"))
SEED = int(os.environ.get("FLASHLAB_SEED", "41"))
"""By default one with which these few walks take every step."""
STEPS = 15

STATIC = ("Snakefile", "config", "envs", "kernels", "profiles", "report", "templates", "workflow")
NAMES = ("one", "two", "three")
TITLES = ({"zh_TW": "甲", "en": "A"}, {"zh_TW": "乙", "en": "B"})
BLOCK = {"batch_size": 1, "seq_len": 16, "num_heads": 2, "emb_dim": 32, "causal": True}
SWEEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("seq_len", {"seq_len": [16, 64], "causal": False}),
    ("seq_len", {"seq_len": [16, 64], "causal": [False, True]}),
    ("seq_len", {"seq_len": [64]}),
    ("batch_size", {"batch_size": [1, 2]}),
    ("num_heads", {"num_heads": [1, 2]}),
    ("emb_dim", {"emb_dim": [16, 32]}),
    ("emb_dim", {"emb_dim": [32]}),
)
IMPLEMENTATIONS = (["Pytorch", "Flash2"], ["Flash2", "Pytorch"])
EXPERIMENT = st.builds(
    lambda name, title, sweep, implementations, figures: {
        "name": name,
        "title": title,
        "sweep": sweep[0],
        "cpu": {**BLOCK, **sweep[1]},
        "cuda": {**BLOCK, **sweep[1]},
        "implementations": implementations,
        "figures": figures,
    },
    st.sampled_from(NAMES),
    st.sampled_from(TITLES),
    st.sampled_from(SWEEPS),
    st.sampled_from(IMPLEMENTATIONS),
    st.sampled_from([["time"], ["rate", "memory"]]),
)


class Folders:
    """Where the walks go, and the reports of fresh clones by their configuration."""

    def __init__(self, base: Path, temporary: Path, python: str) -> None:
        self.base, self.temporary, self.python = base, temporary, python
        self.fresh: dict[str, bytes] = {}
        self.steps: Counter[str] = Counter()
        self.walks = self.calls = self.kills = 0

    def __str__(self) -> str:
        return (
            f"{self.walks} walks: {self.calls} calls, {self.kills} killed, "
            f"{len(self.fresh)} fresh clones"
        )

    def clone(self) -> Path:
        """A folder with the program and the records. Files that nobody writes are links."""
        folder = Path(tempfile.mkdtemp(dir=self.temporary))
        shutil.copytree(self.base, folder, copy_function=os.link, dirs_exist_ok=True)
        return folder

    def start(self, folder: Path, config: dict[str, Any]) -> subprocess.Popen[str]:
        text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False)
        folder.joinpath("walk.yaml").write_text(text, encoding="utf-8")
        self.calls += 1
        return subprocess.Popen(
            [
                *(self.python, "-m", "snakemake", "--cores", "2", "report/lab5.pdf"),
                *("--configfile", "walk.yaml"),
            ],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(folder / "workflow"),
                "TMPDIR": str(self.temporary),
                "PYTHONDONTWRITEBYTECODE": "",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def make(self, folder: Path, config: dict[str, Any]) -> bytes:
        process = self.start(folder, config)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        return folder.joinpath("report", "lab5.pdf").read_bytes()

    def make_fresh(self, config: dict[str, Any]) -> bytes:
        key = yaml.safe_dump(config)
        if key not in self.fresh:
            folder = self.clone()
            self.fresh[key] = self.make(folder, config)
            shutil.rmtree(folder)
        return self.fresh[key]


Step = Callable[..., None]
STEP_NAMES: set[str] = set()


def step(**drawn: st.SearchStrategy[Any]) -> Callable[[Step], Step]:
    """A rule whose effective steps are counted: a new configuration, or a call."""

    def decorate(take: Step) -> Step:
        STEP_NAMES.add(take.__name__)

        @functools.wraps(take)
        def counted(walk: Walk, **values: Any) -> None:
            before = copy.deepcopy(walk.config), walk.folders.calls
            take(walk, **values)
            walk.folders.steps[take.__name__] += before != (walk.config, walk.folders.calls)

        decorated: Step = rule(**drawn)(counted)
        return decorated

    return decorate


class Walk(RuleBasedStateMachine):
    """One user's changes."""

    folders: Folders

    @initialize(
        first=st.lists(EXPERIMENT, min_size=2, max_size=2, unique_by=lambda e: e["name"]),
        killed_after=st.none() | st.floats(0.2, 3.0),
    )
    def begin(self, first: list[dict[str, Any]], killed_after: float | None) -> None:
        self.killed_after = killed_after
        self.folder = self.folders.clone()
        self.config: dict[str, Any] = {
            "device": "cpu",
            "dataset": "local",
            "languages": ["en"],
            "baseline": "Pytorch",
            # Nothing is to be measured on the way: each fresh clone would find other numbers.
            "measure": {"sampled": {"relative_interval": 0.5, "max_seconds": 0.02}},
            "replicates": 1,
            "counters": "no",
            "summary": {
                "cpu": {**BLOCK, "seq_len": 64, "causal": False},
                "cuda": {**BLOCK, "seq_len": 64, "causal": False},
                "implementations": ["Pytorch", "Flash2"],
            },
            "experiments": copy.deepcopy(first),
        }
        self.folders.make(self.folder, self.config)

    @property
    def experiments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.config["experiments"]
        return found

    @step(experiment=EXPERIMENT)
    def add_or_replace_an_experiment(self, experiment: dict[str, Any]) -> None:
        kept = [e for e in self.experiments if e["name"] != experiment["name"]]
        self.config["experiments"] = [*kept, copy.deepcopy(experiment)]

    @step(position=st.integers(0, 2))
    def remove_an_experiment(self, position: int) -> None:
        if len(self.experiments) > 1:
            del self.experiments[position % len(self.experiments)]

    @step()
    def reorder_the_experiments(self) -> None:
        self.experiments.reverse()

    @step(position=st.integers(0, 2))
    def rename_an_experiment(self, position: int) -> None:
        free = [name for name in NAMES if name not in {e["name"] for e in self.experiments}]
        if free:
            self.experiments[position % len(self.experiments)]["name"] = free[0]

    @step(languages=st.sampled_from([["en"], ["zh_TW"], ["zh_TW", "en"], ["en", "zh_TW"]]))
    def choose_languages(self, languages: list[str]) -> None:
        self.config["languages"] = languages

    @step()
    def choose_the_other_baseline(self) -> None:
        self.config["baseline"] = "Flash2" if self.config["baseline"] == "Pytorch" else "Pytorch"

    @step()
    def exchange_the_headlines_columns(self) -> None:
        self.config["summary"]["implementations"].reverse()

    @step()
    def choose_the_other_dataset(self) -> None:
        self.config["dataset"] = "kept" if self.config["dataset"] == "local" else "local"

    @step()
    def make(self) -> None:
        self.folders.make(self.folder, self.config)

    @step(seconds=st.floats(0.2, 3.0))
    def kill_in_the_middle(self, seconds: float) -> None:
        self.kill_a_call(seconds)

    def kill_a_call(self, seconds: float) -> None:
        process = self.folders.start(self.folder, self.config)
        time.sleep(seconds)
        if process.poll() is None:
            self.folders.kills += 1
            process.kill()
        process.communicate()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            if self.killed_after is not None:
                self.kill_a_call(self.killed_after)
            made = self.folders.make(self.folder, self.config)
            assert made == self.folders.make_fresh(self.config), yaml.safe_dump(self.config)
            shutil.rmtree(self.folder)
            self.folders.walks += 1
            print(f"{self.folders}", flush=True)  # seen with -s, by hand


@pytest.fixture
def folders(project: Any, tmp_path: Path) -> Iterator[Folders]:
    project.make("freeze", "--config", "name=kept")
    base = tmp_path / "base"
    base.mkdir()
    for name in (
        *STATIC,
        "data/kept",
        "data/published",
        "data/devices.csv",
        "results/local/records",
    ):
        source = project.folder / name
        if source.is_dir():
            shutil.copytree(source, base / name)
        else:
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, base / name)
    for made in base.joinpath("report").glob("*.*"):
        made.unlink()
    (tmp_path / "walks").mkdir()
    yield Folders(base, tmp_path / "walks", project.forking_python)


def test_after_any_walk_the_report_is_the_one_that_a_fresh_clone_makes(folders: Folders) -> None:
    Walk.folders = folders
    settings = hypothesis.settings(
        max_examples=WALKS,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],  # a walk that fails is not walked again
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
    )
    run_state_machine_as_test(hypothesis.seed(SEED)(Walk), settings=settings)
    assert folders.walks >= WALKS
    if "FLASHLAB_SEED" not in os.environ:
        assert {name for name, count in folders.steps.items() if count} == STEP_NAMES
