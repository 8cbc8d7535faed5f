"""What many tests share: folders with a finished run, a run, and how all tests are run."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import hypothesis
import psutil
import pytest
from programs import PACKAGES, reason

from flashlab.benchmarks.attention.declaration import attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import KERNELS
from flashlab.machine import cpu_count
from flashlab.runs import Run

if TYPE_CHECKING:
    from planted.experiments import Planter

ROOT = Path(__file__).parents[1]

pytest_plugins = ["planted.project"]
"""The folders in which the whole pipeline runs."""

NOT_SCHEDULED = "not scheduled"
"""What a call selects by itself (pyproject.toml): nearly all of the tests."""

MOST_WORKERS, WORKER_BYTES = 16, 2 * 2**30
"""More workers than files that take long have nothing to do; one has all libraries imported, but
those that a single file needs and imports in its tests: every worker imports every file."""
NEEDED_BYTES = 8 * 2**30
"""What the temporary folders of all tests may hold."""

SLOWEST = """
    grades slurm texts flashlab_hopper datasets reruns kills render page walks verification
    supervise bench check ladder copies forks project run
"""
"""The files that take longest, without `test_` and `pipeline_`. The second to fourth need no
finished folder: while one of the workers makes it, the others need not wait."""

os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
"""Set before any test imports torch or numpy: on small tensors, and beside other workers, further
threads spin for several times what the work takes."""

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests send it, and nohup has it ignored
gc.disable()  # until the tests are collected
hypothesis.settings.register_profile("any machine", deadline=None)  # which may take long
hypothesis.settings.load_profile("any machine")


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The number of workers: one more than cores, since many tests wait for processes.

    What is selected of them runs in one process: each worker imports and collects everything.
    """
    chosen = config.args_source == pytest.Config.ArgsSource.ARGS or any(
        config.getoption(name, None) not in (None, False, "", NOT_SCHEDULED)
        for name in ("keyword", "markexpr", "lf", "stepwise")
    )
    memory = psutil.virtual_memory().available
    return 0 if chosen else max(1, min(1 + cpu_count(), memory // WORKER_BYTES, MOST_WORKERS))


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
    order = {name: place for place, name in enumerate(SLOWEST.split())}

    def place(item: pytest.Item) -> int:
        return order.get(re.sub("test_(pipeline_)?", "", item.path.stem), len(order))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Spare garbage collections what collecting the tests has imported, and have few of them."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _without_fsync() -> Iterator[None]:
    """Files are not flushed to disk: a test's need not survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


_kernels: dict[str, ModuleType] = {}
"""The modules of the project's own kernels, once they are loaded."""


@pytest.fixture(autouse=True)
def _kernels_stay_loaded() -> Iterator[None]:
    """A test's own folder of kernels displaces them: a process registers operators but once."""
    yield
    if getattr(sys.modules.get("kernels"), "__path__", None) == [str(KERNELS.resolve())]:
        loaded = [name for name in sys.modules if name.partition(".")[0] == "kernels"]
        _kernels.update({name: sys.modules[name] for name in loaded})
    sys.modules.update(_kernels)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture
def run() -> Run:
    shape = Shape(batch_size=2, seq_len=64, num_heads=4, emb_dim=64, causal=False)
    return attention_run("Flash2", shape, "float32", "cpu")


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    """Plants experiments in the test's folder."""
    from planted.experiments import Planter

    return Planter(tmp_path)


def elsewhere(home: Path, package: Path) -> dict[str, str]:
    """The environment of a process in another time zone, locale and hash seed."""
    return os.environ | {
        **{"TZ": "Asia/Taipei", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "12345"},
        **{"HOME": str(home), "PYTHONPATH": str(package)},
    }


@pytest.fixture
def workflow() -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of Snakemake's, which lives as long as the test does."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
