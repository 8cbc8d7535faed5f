"""Several GPUs of one host: a call's jobs are spread over them, one run on each at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab import machine

ROOT = Path(__file__).parents[2]
LINKED = ("Snakefile", "workflow", "kernels", "profiles", "templates", "envs", "data")
GPUS = machine.gpus()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(len(GPUS) < 2, reason="needs two GPUs")]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The records of the tiny shapes, measured on all GPUs of this host at once."""
    folder = tmp_path_factory.mktemp("gpus")
    for name in LINKED:
        folder.joinpath(name).symlink_to(ROOT / name)
    config = yaml.safe_load((ROOT / "tests" / "tiny.yaml").read_text(encoding="utf-8"))
    folder.joinpath("config").mkdir()
    folder.joinpath("config", "config.yaml").write_text(
        yaml.safe_dump({**config, "device": "cuda", "counters": "no", "replicates": 3})
    )
    snakemake = [sys.executable, "-m", "snakemake", "records", "--cores", str(os.cpu_count())]
    path = os.pathsep.join([str(ROOT / "workflow"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    several = ["--resources", f"gpu={len(GPUS)}"]
    subprocess.run([*snakemake, *several], cwd=folder, env=environment, check=True)
    found = [
        json.loads(path.read_text())["record"]
        for path in folder.glob("results/local/records/*.json")
        if not path.name.startswith("ceilings-")
    ]
    shutil.rmtree(folder)
    return found


def test_every_run_is_measured_once_on_one_of_the_gpus(records: list[dict[str, Any]]) -> None:
    assert len(records) == 42
    assert {record["status"] for record in records} == {"ok"}
    used = {record["environment"]["gpu_uuid"] for record in records}
    assert used == {gpu.uuid for gpu in GPUS}


def test_exact_memory_is_the_same_on_each(records: list[dict[str, Any]]) -> None:
    peaks = defaultdict(set)
    for record in records:
        run = json.dumps(record["run"], sort_keys=True)
        peaks[run].add(record["metrics"]["peak_memory"]["value"])
    assert {len(values) for values in peaks.values()} == {1}


def test_a_gpu_that_measures_has_no_other_process(records: list[dict[str, Any]]) -> None:
    warned = [warning["code"] for record in records for warning in record["warnings"]]
    assert "shared_device" not in warned
