"""The tiny pipeline on a Slurm cluster of two nodes: a job is killed and a node drained midway.

The cluster is real, but for its size: munged, slurmctld and two slurmd of this machine.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from planted.project import ROOT, TINY, Held, Project
from programs import lacking, reason
from waiting import wait_until

from flashlab.plan.watching import has_ended

PLUGIN = "snakemake_executor_plugin_slurm"
PLUGINS = ROOT / ".venv" / "slurm"
PATIENCE = 300

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.scheduled,
    pytest.mark.skipif(
        bool(lacking("Slurm")) or not (PLUGINS.is_dir() or importlib.util.find_spec(PLUGIN)),
        reason=reason("Slurm"),
    ),
]

CONFIG = """
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=1
NodeName=node1 NodeHostname=localhost NodeAddr=localhost Port={ports[1]} CPUs=1 RealMemory=2000
NodeName=node2 NodeHostname=localhost NodeAddr=localhost Port={ports[2]} CPUs=1 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        servers = (socket.create_server(("localhost", 0)) for _ in range(count))
        return [stack.enter_context(server).getsockname()[1] for server in servers]


Cluster = dict[str, str]
"""The variables that lead Slurm's programs to a cluster."""


def ask(cluster: Cluster, *command: str) -> str:
    return subprocess.check_output(command, env=os.environ | cluster, text=True)


def nodes_of_jobs(cluster: Cluster) -> dict[str, str]:
    """The node that each job ran on, or waits for."""
    listed = ask(cluster, "squeue", "--noheader", "--states=all", "--format=%i %N")
    return dict(line.split() for line in listed.splitlines() if len(line.split()) == 2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)  # munged wants its socket where all can reach it
    for inside in ("bin", "state", "spool-node1", "spool-node2"):
        folder.joinpath(inside).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    text = CONFIG.format(folder=folder, user=getpass.getuser(), ports=free_ports(3))
    folder.joinpath("slurm.conf").write_text(text)
    # The executor takes all of Slurm's variables from a step, and so where this cluster is.
    srun = folder / "bin" / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    srun.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    own = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
    places = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("pid", "log", "seed")]
    places += [f"--key-file={key}", f"--socket={folder}/munge.socket"]
    commands = [
        ["munged", "--force", "--foreground", *places],
        ["slurmctld", "-c", "-D"],
        *(["slurmd", "-D", "-N", name] for name in ("node1", "node2")),
    ]
    daemons = [subprocess.Popen(command, env=os.environ | own) for command in commands]
    try:
        state = ("sinfo", "--noheader", "--format=%T")
        wait_until(lambda: "idle" in ask(own, *state), "Slurm's start", PATIENCE)
        yield own
    finally:
        subprocess.run(["scancel", "--user", getpass.getuser()], env=os.environ | own, check=False)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def test_a_killed_job_and_a_drained_node_cost_no_more_than_what_was_measured_there(
    make_clone: Callable[[Path], Project], tmp_path: Path, cluster: Cluster
) -> None:
    """In a fresh clone whose jobs go to the cluster."""
    project = make_clone(tmp_path / "lab")
    held = Held(project)
    with project.config() as config:
        config["experiments"][0]["cpu"]["seq_len"] = [64]
    search = [project.folder / "workflow", *[PLUGINS] * PLUGINS.is_dir()]
    options = {
        "config": (
            *("--profile", "profiles/slurm", "--slurm-status-command", "squeue", *TINY),
            *("--slurm-init-seconds-before-status-checks", "1", "--slurm-keep-successful-logs"),
            *("--latency-wait", "10", "--config", "counters=no", "memory_mb={measure: 500}"),
        ),
        "PYTHONPATH": os.pathsep.join(map(str, search)),
        **cluster,
    }
    call = held.start(**options)
    process, job = (held.kernels / "held").read_text().split()
    node = nodes_of_jobs(cluster)[job]
    ask(cluster, "scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    ask(cluster, "scancel", job)
    measuring = psutil.Process(int(process))
    wait_until(lambda: has_ended(measuring), "the end of what the job had started", PATIENCE)
    held.let_go()
    print(call.communicate(timeout=PATIENCE)[0])
    assert call.returncode == 1, "the call did not notice the killed job"
    whole, before = project.records, nodes_of_jobs(cluster)
    for record in whole:
        json.loads(project.result(f"records/{record}").read_text())

    project.make("records", **options)
    assert project.records.items() >= whole.items(), "a record was measured again"
    later = nodes_of_jobs(cluster)
    assert {later[job] for job in later.keys() - before.keys()} == {"node1", "node2"} - {node}
    paths = project.result("records").glob("[!c]*.json")  # no ceilings
    records = [json.loads(path.read_text())["record"] for path in paths]
    assert [record["status"] for record in records] == ["ok"] * 2
    # Nothing is left to be measured for a call without the cluster, which makes the report.
    planned = project.plan("--config", "counters=no")
    assert "Rendering the report" in planned and not any("Measuring" in job for job in planned)
