"""Several GPUs of one host: a call's jobs are spread over them, one run on each at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from flashlab import machine

ROOT = Path(__file__).parents[2]
LINKED = ("Snakefile", "workflow", "kernels", "profiles", "templates", "envs", "data")
GPUS = machine.gpus()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(len(GPUS) < 2, reason="needs two GPUs")]


def test_every_run_is_measured_once_alone_on_one_of_the_gpus(tmp_path: Path) -> None:
    """The tiny shapes, on all GPUs of this host at once."""
    for name in LINKED:
        tmp_path.joinpath(name).symlink_to(ROOT / name)
    config = yaml.safe_load((ROOT / "tests" / "tiny.yaml").read_text(encoding="utf-8"))
    config |= {"device": "cuda", "counters": "no", "replicates": 3}
    tmp_path.joinpath("config").mkdir()
    tmp_path.joinpath("config", "config.yaml").write_text(yaml.safe_dump(config))
    path = os.pathsep.join([str(ROOT / "workflow"), os.environ.get("PYTHONPATH", "")])
    call = ["records", "--cores", str(os.cpu_count()), "--resources", f"gpu={len(GPUS)}"]
    command = [sys.executable, "-m", "snakemake", *call]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=True)
    paths = tmp_path.glob("results/local/records/[!c]*.json")  # no ceilings
    records = [json.loads(path.read_text())["record"] for path in paths]
    assert {record["status"] for record in records} == {"ok"}
    used = {record["environment"]["gpu_uuid"] for record in records}
    assert used == {gpu.uuid for gpu in GPUS}
    warned = [warning["code"] for record in records for warning in record["warnings"]]
    assert "shared_device" not in warned
    peaks = defaultdict(list)
    for record in records:
        peaks[str(record["run"])].append(record["metrics"]["peak_memory"]["value"])
    assert {(len(values), len({*values})) for values in peaks.values()} == {(3, 1)}
