"""Folders with FlashLab in them, in which the pipeline runs on the shapes of tests/tiny.yaml."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import wait_until

ROOT = Path(__file__).parents[2]
TINY = ("--configfile", "tests/tiny.yaml")
LINKED = ("data/h100", "data/h200")
"""Two thirds of a clone's files, which nobody writes."""
TEMPLATE = Path("templates", "report.html.j2")
SHORT_TEMPLATE = ROOT / "tests" / "short_report.html.j2"
"""Renders in a fraction of the time, for tests that are not about the report's text."""


@dataclass(frozen=True)
class Project:
    """A folder with FlashLab in it, and Snakemake called there on the tiny shapes."""

    folder: Path
    temporary: Path

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
        # Device locks of its own: do not wait for other runs. A job need not compile all again.
        own = {"TMPDIR": str(self.temporary), "PYTHONDONTWRITEBYTECODE": ""}
        own["PYTHONPATH"] = str(self.folder / "workflow")
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments, *config],
            cwd=self.folder,
            env={**os.environ, **own, **environment},
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


def copy_files(files: Sequence[Path], source: Path, target: Path) -> None:
    """Copy files and folders of a clone from one folder to another, with new times of change."""
    target.mkdir(parents=True, exist_ok=True)
    command = ["cp", "--recursive", "--parents", "--", *files, target.absolute()]
    subprocess.run(command, cwd=source, check=True)
    for name in LINKED:
        target.joinpath(name).symlink_to(ROOT / name)


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
            config["experiments"][0]["implementations"] = ["Pytorch", "Held"]

    def start(self, *arguments: str, **options: Any) -> Any:
        """Start a call of Snakemake, and wait until it measures a record."""
        call = self.project.start("--cores", "1", *arguments, "records", **options)
        held = self.kernels / "held"
        wait_until(lambda: held.exists() or call.poll() is not None, "the first measurement", 120)
        assert held.exists(), call.communicate()[0]
        return call

    def let_go(self) -> None:
        self.kernels.joinpath("hold").unlink()


# Folders


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """The files of a clone that calls read, relative to its root; without those of `LINKED`."""
    unread = [f":!{name}" for name in (*LINKED, "docs", "perf", "tests")]
    command = ["git", "ls-files", "-coz", "--exclude-standard", ".", *unread]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    names = [*filter(None, listed.split("\0")), TINY[1]]
    return [Path(name) for name in names if ROOT.joinpath(name).is_file()]


@pytest.fixture(scope="session")
def _workplace(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A place where folders are used, and the temporary folder of their calls."""
    return Project(tmp_path_factory.mktemp("pipeline") / "used", tmp_path_factory.mktemp("t"))


@pytest.fixture(scope="session")
def _made(
    files: Sequence[Path], tmp_path_factory: pytest.TempPathFactory, _workplace: Project
) -> Path:
    """The folder of `finished` and `abridged`, made by the first worker that needs them."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made"
    with open(f"{shared}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            copy_files(files, ROOT, _workplace.folder)
            for kind in ("finished", "abridged"):
                _workplace.make("report/lab5.pdf")
                copy_tree(_workplace.folder, own / "making" / kind)
                shutil.copyfile(SHORT_TEMPLATE, _workplace.folder / TEMPLATE)
            own.joinpath("making").rename(shared)
    return shared


@pytest.fixture(scope="session")
def finished(_made: Path, _workplace: Project) -> Project:
    """The folder after one whole run, down to the PDF.

    Workers share it, so it is for reading only: a call of Snakemake would change the plan in it.
    `project` and `copy_finished` are for use.
    """
    return replace(_workplace, folder=_made / "finished")


@pytest.fixture(scope="session")
def abridged(_made: Path, _workplace: Project) -> Project:
    """The finished folder with a short template, and the report made by it. For reading only."""
    return replace(_workplace, folder=_made / "abridged")


@pytest.fixture
def project(_workplace: Project, abridged: Project) -> Project:
    """The abridged folder as it was left, with Snakemake's bookkeeping; at one place always."""
    copy_tree(abridged.folder, _workplace.folder)
    return _workplace


@pytest.fixture
def held(project: Project) -> Held:
    """The abridged folder with two runs to measure, which wait."""
    return Held(project)


@pytest.fixture(scope="session")
def copy_finished(finished: Project, abridged: Project) -> Callable[..., Project]:
    """Copies the finished folder, or the abridged one, bookkeeping and times of change with it."""

    def copy(folder: Path, short_report: bool = False) -> Project:
        copy_tree((abridged if short_report else finished).folder, folder)
        return replace(finished, folder=folder)

    return copy


@pytest.fixture(scope="session")
def make_clone(files: Sequence[Path], _workplace: Project) -> Callable[..., Project]:
    """Makes a fresh clone, in which nothing was ever run."""

    def make(folder: Path) -> Project:
        copy_files(files, ROOT, folder)
        return replace(_workplace, folder=folder)

    return make
