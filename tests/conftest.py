"""Small builders that many tests share."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psutil
import pytest
import yaml
from programs import PACKAGES, reason
from waiting import wait_until

from flashlab.analysis.experiment import OF_DATASET
from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.cli import ALLOCATIONS
from flashlab.machine import cpu_count
from flashlab.plan.digests import LIST
from flashlab.records import Record
from flashlab.runs import Run

if TYPE_CHECKING:
    from planted.experiments import Planter

ROOT = Path(__file__).parents[1]
TEMPLATE = Path("templates", "report.html.j2")
SHORT_TEMPLATE = Path(__file__).parent / "short_report.html.j2"
"""Renders in a fraction of the time, for tests that are not about the report's text."""
TINY = ("--configfile", "tests/tiny.yaml")
LINKED = ("data/h100", "data/h200")
"""Two thirds of a clone's files, which nobody writes."""
RESULTS = (
    *(f"results/local/{stage}" for stage in ("plan", "records", "tables")),
    *(f"results/local/{table}" for table in OF_DATASET),
    f"results/local/{LIST}",
    *(f"results/local/{made}" for made in ("observations.json", "overview", "figures")),
    "results/local/lab5.pdf",
    *("report/dataset.json", "report/lab5.pdf"),
)
"""What a whole run makes, in this order."""


NOT_SCHEDULED = "not scheduled"
"""What the gate selects: nearly all of the tests."""

MOST_WORKERS, WORKER_BYTES = 16, 2 * 2**30
"""More workers than files that take long have nothing to do; one has all libraries imported."""
NEEDED_BYTES = 8 * 2**30
"""What the temporary folders of all tests may hold."""

SLOWEST = (
    *("test_pipeline_reruns.py", "test_slurm.py", "test_texts.py"),
    *("test_flashlab_hopper.py", "test_pipeline_grades.py", "test_pipeline_changes.py"),
    *("test_pipeline_datasets.py", "test_front.py", "test_render.py", "test_page.py"),
    *("test_pipeline_walks.py", "test_verification.py", "test_pipeline_kills.py", "test_pages.py"),
    *("test_supervise.py", "test_choosing.py", "test_bench.py", "test_failures.py"),
    *("test_check.py", "test_ladder.py", "test_placement.py", "test_scores.py"),
    *("test_identical.py", "test_pipeline_own_experiment.py", "test_pipeline_terminal.py"),
    *("test_remarks.py", "test_copies.py", "test_groups.py", "test_forks.py", "test_imports.py"),
    *("test_run.py", "test_planted_reports.py", "test_story.py", "test_leaders.py"),
    *("test_sheet.py", "test_apart.py", "test_selfcheck.py", "test_lines.py", "test_sweep.py"),
    *("test_pipeline_errors.py", "test_flash_attn.py", "test_flashlab.py"),
    *("test_pipeline_conventions.py", "test_lab5.py", "test_architecture.py"),
)
"""The files that take longest. The second to fourth need no finished folder: while one of the
workers makes it, the others need not wait."""


os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
"""Set before any test imports torch or numpy: on small tensors, and beside other workers, further
threads spin for several times what the work takes."""


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests send it, and nohup has it ignored


gc.disable()  # until the tests are collected


hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
"""A busy machine may take as long as it likes for an example."""


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The number of workers: two on a core, since many tests wait for processes.

    What is selected of them runs in one process: each worker imports and collects everything.
    """
    chosen = config.args_source == pytest.Config.ArgsSource.ARGS or any(
        config.getoption(name, None) not in (None, False, "", NOT_SCHEDULED)
        for name in ("keyword", "markexpr", "lf", "stepwise")
    )
    memory = psutil.virtual_memory().available
    return 0 if chosen else max(1, min(2 * cpu_count(), memory // WORKER_BYTES, MOST_WORKERS))


def pytest_configure(config: pytest.Config) -> None:
    """Have workers write to memory, where it has room: the tests copy whole projects."""
    if not config.getoption("numprocesses", None) or config.option.collectonly:
        return
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > NEEDED_BYTES
    if has_room and "TMPDIR" not in os.environ:
        written = tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True)
        config.add_cleanup(written.cleanup)
        os.environ["TMPDIR"] = written.name
        tempfile.tempdir = None  # to be looked up again


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say in the last line how many tests were skipped for want of a program."""
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        why = [str(report.longrepr) for report in reporter.stats.get("skipped", ())]
        counts = {what: sum(reason(what) in text for text in why) for what in PACKAGES}
        if lacked := [f"{what} ({count})" for what, count in counts.items() if count]:
            reporter.write_line(
                f"Skipped for want of {' and '.join(lacked)}: ./run test --all installs it first"
            )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files first: side by side, none of them is left to one process at the end."""
    order = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_collection_finish() -> None:
    """Spare garbage collections what collecting the tests has imported, and have few of them."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _without_fsync() -> Iterator[None]:
    """Files are not flushed to disk: a test's need not survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture
def shape() -> Shape:
    return Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)


@pytest.fixture
def run(shape: Shape) -> Run:
    return attention_run("Flash2", shape, "float32", "cpu")


@pytest.fixture(scope="session")
def record_of() -> Callable[..., Record]:
    """Builds the record of a run (`planted.records.record_of`)."""
    from planted import records  # what it imports is not for the process that only waits

    return records.record_of


@pytest.fixture
def counters_of() -> Callable[..., Record]:
    """Builds the record of a run's counters (`planted.records.counters_of`)."""
    from planted import records

    return records.counters_of


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Writes records under `tmp_path` and builds their plan (`planted.records.plan_of`)."""
    from planted import records

    return partial(records.plan_of, tmp_path)


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    """Plants experiments in the test's folder."""
    from planted.experiments import Planter

    return Planter(tmp_path)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk with room for 64 KiB; where mounting is denied, a limit on files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if mounted.returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    yield folder
    if mounted.returncode:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    else:
        subprocess.run(["umount", str(folder)], check=True)


def elsewhere(home: Path, package: Path) -> dict[str, str]:
    """The environment of a process in another time zone, locale and hash seed."""
    return os.environ | {
        **{"TZ": "Asia/Taipei", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "12345"},
        **{"HOME": str(home), "PYTHONPATH": str(package)},
    }


# The whole pipeline, on tiny shapes: tests/tiny.yaml


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
        python: str = sys.executable,
        module: str = "snakemake",
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Start Snakemake, or another module, with these arguments; its output is one text.

        In its own process group it can be interrupted as by a terminal.
        """
        own = {
            "PYTHONPATH": str(self.folder / "workflow"),
            "TMPDIR": str(self.temporary),  # our own device locks: do not wait for other runs
            "PYTHONDONTWRITEBYTECODE": "",  # a job need not compile the package again
        }
        return subprocess.Popen(
            [python, "-m", module, *arguments, *config],
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

    def plan(self, *arguments: str, config: Sequence[str] = TINY, **environment: str) -> set[str]:
        """The jobs of a dry run, as Snakemake words them; records without their hashes."""
        done = self.snakemake(
            "--dry-run", "report/lab5.pdf", *arguments, config=config, **environment
        )
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
        path = self.folder / "tests" / "tiny.yaml"
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        yield config
        path.write_text(
            yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8"
        )

    @property
    def pdf(self) -> Path:
        return self.folder / "report" / "lab5.pdf"

    def record(self, run: str) -> Path:
        """The record of a run, by the beginning of its name."""
        (found,) = self.folder.glob(f"results/local/records/{run}-*.json")
        return found

    def result(self, name: str) -> Path:
        """A file or folder of the results; a record by the beginning of its name."""
        path = self.folder / "results" / "local" / name
        return path if path.exists() else self.record(name)

    @property
    def records(self) -> dict[str, int]:
        """The records, each with its modification time."""
        folder = self.folder / "results" / "local" / "records"
        return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """The files of a clone that calls read, relative to its root; without those of `LINKED`."""
    unread = [f":!{name}" for name in (*LINKED, "docs", "perf", "tests")]
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard", ".", *unread],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    names = [*filter(None, listed.split("\0")), TINY[1]]
    return [Path(name) for name in names if ROOT.joinpath(name).is_file()]


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


@pytest.fixture(scope="session")
def _temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("t")


@pytest.fixture(scope="session")
def _workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipeline")


@pytest.fixture(scope="session")
def _made(
    files: Sequence[Path],
    tmp_path_factory: pytest.TempPathFactory,
    _workplace: Path,
    _temporary: Path,
) -> Path:
    """The folder of `finished` and `abridged`, made by the first worker that needs them."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made"
    with open(f"{shared}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            used, making = Project(_workplace / "used", _temporary), own / "making"
            copy_files(files, ROOT, used.folder)
            used.make("report/lab5.pdf")
            copy_tree(used.folder, making / "finished")
            shutil.copyfile(SHORT_TEMPLATE, used.folder / TEMPLATE)
            used.make("report/lab5.pdf")
            copy_tree(used.folder, making / "abridged")
            making.rename(shared)
    return shared


@pytest.fixture(scope="session")
def finished(_made: Path, _temporary: Path) -> Project:
    """The folder after one whole run, down to the PDF.

    Workers share it, so it is for reading only: a call of Snakemake would change the plan in it.
    `project` and `copy_finished` are for use.
    """
    return Project(_made / "finished", _temporary)


@pytest.fixture(scope="session")
def abridged(_made: Path, _temporary: Path) -> Project:
    """The finished folder with a short template, and the report made by it. For reading only."""
    return Project(_made / "abridged", _temporary)


@pytest.fixture
def project(_workplace: Path, abridged: Project) -> Project:
    """The abridged folder as it was left, with Snakemake's bookkeeping; at one place always."""
    used = _workplace / "used"
    copy_tree(abridged.folder, used)
    return Project(used, abridged.temporary)


@pytest.fixture(scope="session")
def copy_finished(finished: Project, abridged: Project) -> Callable[..., Project]:
    """Copies the finished folder, or the abridged one, bookkeeping and times of change with it."""

    def copy(folder: Path, short_report: bool = False) -> Project:
        source = abridged if short_report else finished
        copy_tree(source.folder, folder)
        return replace(source, folder=folder)

    return copy


@pytest.fixture(scope="session")
def make_clone(files: Sequence[Path], _temporary: Path) -> Callable[..., Project]:
    """Makes a fresh clone, in which nothing was ever run; with the short template if so asked."""

    def make(folder: Path, short_report: bool = False) -> Project:
        copy_files(files, ROOT, folder)
        if short_report:
            shutil.copyfile(SHORT_TEMPLATE, folder / TEMPLATE)
        return Project(folder, _temporary)

    return make


@pytest.fixture
def clone(tmp_path: Path, files: Sequence[Path], abridged: Project) -> Callable[..., Project]:
    """Makes a fresh clone with the abridged folder's results copied in, the last made last."""

    def copied(backwards: bool = False) -> Project:
        results = RESULTS[::-1] if backwards else RESULTS
        project = Project(tmp_path / "clone", abridged.temporary)
        copy_files([*files, *map(Path, results)], abridged.folder, project.folder)
        groups = [[project.folder / file for file in files]]
        for result in results:
            target = project.folder / result
            groups.append([*target.rglob("*"), target])
        now = time.time()
        for seconds, group in enumerate(reversed(groups)):  # only the order matters
            for path in group:
                os.utime(path, (now - seconds, now - seconds))
        return project

    return copied


@pytest.fixture(scope="session")
def squeezed() -> Callable[[str], str]:
    """`pdf.squeezed`."""
    import pdf  # of packages that a GPU host may lack

    return pdf.squeezed


@pytest.fixture(scope="session")
def text_of(squeezed: Callable[[str], str]) -> Callable[[Path], str]:
    """The text of a PDF, in reading order, squeezed."""
    import pdf

    return lambda path: squeezed("".join(pdf.pages(path)))


@pytest.fixture
def workflow() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of Snakemake's, which lives as long as the test does."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


# A run that waits


HELD = '''
"""Naive attention that waits as long as there is a file `hold` beside this one."""

import os
import resource
import time
from pathlib import Path

import torch

NAME = "Held"
LABEL = {"zh_TW": "被擋住的", "en": "Held"}


def attention(qkv, causal):
    here = Path(__file__).parent
    (here / "held.new").write_text(f"{os.getpid()} {os.environ.get('SLURM_JOB_ID')}")
    (here / "held.new").rename(here / "held")
    while (here / "hold").exists():
        time.sleep(0.02)
    q, k, v = qkv.transpose(1, 3).unbind(2)
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1)
    return (weights @ v).transpose(1, 2)
'''


class Held:
    """The finished folder with two runs to measure, which wait in their kernel until released."""

    def __init__(self, project: Any) -> None:
        self.project = project
        self.kernels = project.folder / "kernels"
        self.kernels.joinpath("held.py").write_text(HELD, encoding="utf-8")
        self.kernels.joinpath("hold").touch()
        with project.config() as config:
            del config["experiments"][1:]
            config["experiments"][0]["implementations"] = ["Pytorch", "Held"]

    def start(self, *arguments: str, **options: Any) -> Any:
        """Start a call of Snakemake, and wait until it measures a record."""
        return self.wait_for(self.project.start("--cores", "1", *arguments, "records", **options))

    def wait_for(self, call: Any) -> Any:
        """Wait until a call measures a record."""
        held = self.kernels / "held"
        wait_until(lambda: held.exists() or call.poll() is not None, "the first measurement", 120)
        assert held.exists(), call.communicate()[0]
        return call

    def let_go(self) -> None:
        self.kernels.joinpath("hold").unlink()


@pytest.fixture
def held(project: Any) -> Held:
    return Held(project)
