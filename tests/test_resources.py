"""Resources asked of a cluster, for a run and for a group of runs, by the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashlab import machine

TOLD = """
import json
from snakemake.executors.dryrun import Executor

run_job = Executor.run_job

def tell(self, job):
    rules = sorted({one.rule.name for one in (job.jobs if job.is_group() else [job])})
    asked = {name: job.resources.get(name) for name in ("runtime", "mem_mb", "gpu", "_cores")}
    print("ASKED", json.dumps([rules, asked]), flush=True)
    run_job(self, job)

Executor.run_job = tell
"""
"""Has a dry run print what it would ask for; Snakemake itself prints only a job's message."""


def test_the_configuration_limits_the_time_and_the_memory_of_jobs(
    tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    clone = make_clone(tmp_path / "clone")
    tmp_path.joinpath("sitecustomize.py").write_text(TOLD)
    done = clone.snakemake(
        *("--dry-run", "--profile", "profiles/slurm", "--executor", "local", "report/lab5.pdf"),
        *("--config", "measure={timeout_s: 90}", "memory_mb={measure: 700, report: 900}"),
        *("counters=no", "replicates=1"),
        PYTHONPATH=f"{tmp_path}:{clone.folder / 'workflow'}",
    )
    assert done.returncode == 0, done.stdout
    asked = {
        tuple(rules): resources
        for rules, resources in map(json.loads, re.findall("^ASKED (.*)$", done.stdout, re.M))
    }
    for rule in ("measure", "ceilings"):
        # 90 s, rounded up to minutes, and one more to start.
        assert asked[rule,] | {"_cores": 1} == {"runtime": 3, "mem_mb": 700, "gpu": 0, "_cores": 1}
    for rule in ("observations", "figures", "report"):
        assert asked[rule,]["mem_mb"] == 900


@pytest.mark.parametrize(("alone", "gpus"), [("false", 0), ("true", 4)])
def test_a_run_that_is_to_be_alone_takes_every_gpu_of_the_host(
    tmp_path: Path,
    make_clone: Callable[[Path], Any],
    monkeypatch: pytest.MonkeyPatch,
    alone: str,
    gpus: int,
) -> None:
    clone = make_clone(tmp_path / "clone")
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("GPU-1", "NVIDIA H200")])
    monkeypatch.setattr(machine, "torch_has_cuda", lambda: True)
    tmp_path.joinpath("sitecustomize.py").write_text(TOLD)
    done = clone.snakemake(
        *("--dry-run", "--cores", "8", "records", "--resources", "gpu=4"),
        *("--config", "device=cuda", "device_name=NVIDIA H200", f"alone={alone}"),
        PYTHONPATH=f"{tmp_path}:{clone.folder / 'workflow'}",
    )
    assert done.returncode == 0, done.stdout
    asked = re.findall(r'^ASKED \[\["(\w+)"\], (.*)\]$', done.stdout, re.M)
    amounts = {(rule, json.loads(resources)["gpu"]) for rule, resources in asked}
    assert amounts == {("measure", gpus), ("ceilings", 1), ("records", None)}
