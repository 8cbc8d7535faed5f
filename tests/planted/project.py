"""Folders with FlashLab in them, in which the pipeline runs on the shapes of tests/tiny.yaml."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from planted import forked
from waiting import wait_until

ROOT = Path(__file__).parents[2]
TINY = ("--configfile", "tests/tiny.yaml")
LINKED = ("data/h100", "data/h200")
"""Two thirds of a clone's files, which nobody writes."""
SHORT_TEMPLATE = ROOT / "tests" / "short_report.html.j2"
"""Renders in a fraction of the time, for tests that are not about the report's text."""


@dataclass(frozen=True)
class Project:
    """A folder with FlashLab in it, and Snakemake called there on the tiny shapes."""

    folder: Path

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """A call's: with the folder's package, which jobs compile but once."""
        own = {"PYTHONPATH": str(self.folder / "workflow"), "PYTHONDONTWRITEBYTECODE": ""}
        # Device locks of its own: do not wait for other runs.
        temporary = self.folder.parent / "t"
        temporary.mkdir(exist_ok=True)
        return {**os.environ, **own, "TMPDIR": str(temporary), **given}

    def start(
        self,
        *arguments: str,
        config: Sequence[str] = TINY,
        own_group: bool = False,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Start Snakemake with these arguments; its output is one text.

        In its own process group it can be interrupted as by a terminal.
        """
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments, *config],
            cwd=self.folder,
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0 if own_group else None,
            # A process started in the background would pass on that it ignores Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def snakemake(
        self, *arguments: str, config: Sequence[str] = TINY, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A whole call; where modules of others come first, in a new interpreter."""
        if "PYTHONPATH" not in environment:
            words = [*arguments, *config]
            return forked.snakemake(self.folder, words, self._environment(environment))
        process = self.start(*arguments, config=config, **environment)
        output, _ = process.communicate()
        return subprocess.CompletedProcess(arguments, process.returncode, output)

    def make(self, *arguments: str, config: Sequence[str] = TINY, **environment: str) -> str:
        """`snakemake --cores 1` with these arguments, which must succeed; its output."""
        done = self.snakemake("--cores", "1", *arguments, config=config, **environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def plan(self, *arguments: str) -> set[str]:
        """The jobs of a dry run, as Snakemake words them; records without their hashes."""
        done = self.snakemake("--dry-run", "report/lab5.pdf", *arguments)
        assert done.returncode == 0, done.stdout
        jobs = re.findall(r"^Job \d+: (.*)$", done.stdout, re.MULTILINE)
        return {re.sub(r"-float32-cpu(-process\d+)?-[0-9a-f]{12}$", r"\1", job) for job in jobs}

    def replace(self, file: str, old: str, new: str) -> None:
        """Edit a file: replace a text, which must be in it."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def append(self, file: str, text: str) -> None:
        with self.folder.joinpath(file).open("a", encoding="utf-8") as opened:
            opened.write(text)

    @contextmanager
    def config(self) -> Iterator[dict[str, Any]]:
        """The configuration of the tiny shapes, written back with whatever the block does to it."""
        path = self.folder / TINY[1]
        config = yaml.safe_load(path.read_bytes())
        yield config
        path.write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False), "utf-8")

    @property
    def pdf(self) -> Path:
        return self.folder / "report" / "lab5.pdf"

    def result(self, name: str) -> Path:
        """A file or folder of the results; a record by the beginning of its name."""
        home = self.folder / "results" / "local"
        if (home / name).exists():
            return home / name
        (found,) = home.glob(f"records/{name}-*.json")
        return found

    @property
    def records(self) -> dict[str, int]:
        """The records, each with its modification time."""
        found = self.folder.glob("results/local/records/*.json")
        return {path.name: path.stat().st_mtime_ns for path in found}


def copy_tree(source: Path, target: Path) -> None:
    """Put a copy in the target's place, with times of change: `shutil` takes twice as long."""
    subprocess.run(["rm", "-rf", target], check=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", source, target], check=True)


# A run that waits

HELD = '''
"""Naive attention that waits as long as there is a file `hold` beside this one."""

import os
import time
from pathlib import Path

from .pytorch import attention as naive

NAME = "Held"
LABEL = {"zh_TW": "被擋住的", "en": "Held"}


def attention(qkv, causal):
    here = Path(__file__).parent
    (here / "held.new").write_text(f"{os.getpid()} {os.environ.get('SLURM_JOB_ID')}")
    (here / "held.new").rename(here / "held")
    while (here / "hold").exists():
        time.sleep(0.02)
    return naive(qkv, causal)
'''


class Held:
    """A folder with runs to measure, which wait in their kernel until they are let go."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.kernels = project.folder / "kernels"
        self.kernels.joinpath("held.py").write_text(HELD, encoding="utf-8")
        self.kernels.joinpath("hold").touch()
        with project.config() as config:
            del config["experiments"][1:]
            for part in (config["experiments"][0], config["summary"]):
                part["implementations"] = ["Pytorch", "Held"]

    def start(self, *arguments: str, **options: Any) -> Any:
        """Start a call of Snakemake, and wait until it measures a record."""
        call = self.project.start("--cores", "1", *arguments, "records", **options)
        held = self.kernels / "held"
        wait_until(lambda: held.exists() or call.poll() is not None, "the first measurement", 300)
        assert held.exists(), call.communicate()[0]
        return call

    def let_go(self) -> None:
        self.kernels.joinpath("hold").unlink()


# Folders


@pytest.fixture(scope="session")
def _workplace(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The place where folders are used."""
    return Project(tmp_path_factory.mktemp("pipeline") / "used")


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory, _workplace: Project) -> Path:
    """The folder of `finished` and `abridged`, made by the first worker that needs them."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made"
    with open(f"{shared}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            unread = [f":!{name}" for name in (*LINKED, "docs", "perf", "tests")]
            command = ["git", "ls-files", "-coz", "--exclude-standard", ".", *unread]
            listed = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
            files = [name for name in (*listed, TINY[1]) if ROOT.joinpath(name).is_file()]
            used = _workplace.folder
            used.mkdir()
            subprocess.run(["cp", "--parents", "--", *files, used], cwd=ROOT, check=True)
            for name in LINKED:
                used.joinpath(name).symlink_to(ROOT / name)
            for kind in ("finished", "abridged"):
                _workplace.make("report/lab5.pdf")
                copy_tree(used, own / "making" / kind)
                shutil.copyfile(SHORT_TEMPLATE, used / "templates" / "report.html.j2")
            own.joinpath("making").rename(shared)
    return shared


@pytest.fixture(scope="session")
def finished(_made: Path) -> Project:
    """The folder after one whole run, down to the PDF.

    Workers share it, so it is for reading only: a call of Snakemake would change the plan in it.
    `project` and `copy_finished` are for use.
    """
    return Project(_made / "finished")


@pytest.fixture
def project(_workplace: Project, _made: Path) -> Project:
    """The finished folder with a report by a short template, as that was left; at one place."""
    copy_tree(_made / "abridged", _workplace.folder)
    return _workplace


@pytest.fixture
def held(project: Project) -> Held:
    """That folder with two runs to measure, which wait."""
    return Held(project)


@pytest.fixture(scope="session")
def copy_finished(finished: Project) -> Callable[[Path], Project]:
    """Copies the finished folder, Snakemake's bookkeeping and times of change with it."""

    def copy(folder: Path) -> Project:
        copy_tree(finished.folder, folder)
        return Project(folder)

    return copy


@pytest.fixture(scope="session")
def make_clone(copy_finished: Callable[[Path], Project]) -> Callable[[Path], Project]:
    """Makes a clone in which nothing was ever run, but that its modules are compiled."""

    def make(folder: Path) -> Project:
        made = ("results", ".snakemake", "report/lab5.pdf", "report/dataset.json")
        clone = copy_finished(folder)
        subprocess.run(["rm", "-r", *made], cwd=folder, check=True)
        return clone

    return make
