"""The workflow keeps to Snakemake's conventions, and asks a cluster for what it needs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from planted.calls import python
from planted.project import ROOT, Project

SNAKEMAKE_BRINGS_NONE_OF = """
    PIL fontTools markdown_it matplotlib numpy pandas pikepdf pynvml
    scipy seaborn torch weasyprint
"""
TOLD = """
import json
from snakemake.executors.dryrun import Executor

run_job = Executor.run_job

def tell(self, job):
    rules = sorted({one.rule.name for one in (job.jobs if job.is_group() else [job])})
    asked = {name: job.resources.get(name) for name in ("runtime", "mem_mb", "gpu")}
    print("ASKED", json.dumps([rules, asked]), flush=True)
    run_job(self, job)

Executor.run_job = tell
"""
"""Has a dry run print what it would ask for; Snakemake itself prints only a job's message."""


@pytest.fixture
def clone(tmp_path: Path, make_clone: Callable[[Path], Project]) -> Project:
    return make_clone(tmp_path / "clone")


def customized(folder: Path, clone: Project, code: str) -> str:
    """The PYTHONPATH of a Python that runs this code first."""
    folder.joinpath("sitecustomize.py").write_text(code)
    return os.pathsep.join([str(folder), str(clone.folder / "workflow")])


def test_the_workflow_is_read_with_snakemake_alone_and_a_stage_names_the_missing_package(
    tmp_path: Path, clone: Project
) -> None:
    without = f"import sys\nsys.modules.update(dict.fromkeys({SNAKEMAKE_BRINGS_NONE_OF.split()}))\n"
    path = customized(tmp_path, clone, without)
    done = clone.snakemake("--dry-run", config=(), PYTHONPATH=path)
    assert done.returncode == 0 and "Job stats" in done.stdout, done.stdout
    command = ("-m", "flashlab", "measure", "--order", "{}", "--output", "record.json")
    stage = python(clone.folder, *command, PYTHONPATH=path)
    _, said = stage.communicate()
    assert stage.returncode == 1 and not clone.folder.joinpath("record.json").exists()
    assert said == (
        "error: the Python package torch is not installed; set up with ./run, or run "
        "python -m pip install -r envs/cpu/requirements.txt\n"
    )


def test_a_workflow_that_uses_this_one_as_a_module_decides_its_settings(clone: Project) -> None:
    clone.folder.joinpath("Snakefile").write_text(
        "from snakemake.common.configfile import load_configfile\n"
        f"settings = load_configfile({str(ROOT / 'tests' / 'tiny.yaml')!r})\n"
        "settings['experiments'] = ['emb_dim']\n"  # one of the built-in ones
        f"module lab:\n    snakefile: {str(ROOT / 'Snakefile')!r}\n    config: settings\n"
        "use rule * from lab\n"
    )
    shutil.rmtree(clone.folder / "config")
    done = clone.snakemake("--dry-run", config=("--config", "languages={mine: 1}"), PYTHONPATH="")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^measure +10$", done.stdout, re.MULTILINE)


def test_snakemake_makes_its_page_with_captions_offline(project: Project, tmp_path: Path) -> None:
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout  # without naming it
    page = tmp_path / "page.zip"
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "all_proxy")}
    done = project.snakemake("report/lab5.pdf", "--report", str(page), **nowhere)
    assert done.returncode == 0, done.stdout
    shutil.unpack_archive(page, tmp_path / "page")
    files = [path for path in (tmp_path / "page").rglob("*") if path.is_file()]
    assert {"time.svg", "rate.svg", "memory.svg", "lab5.pdf"} <= {path.name for path in files}
    said = "".join(path.read_text("utf-8", errors="ignore") for path in files)
    assert "The measurements are those of the dataset" in said  # the page that it opens with
    assert 'Experiment <tt class=\\"docutils literal\\">seq_len</tt>. Error bars' in said
    for complaint in ("docutils", "WARNING", "ERROR", "System Message"):
        assert complaint not in done.stdout
    assert "system-message" not in said


# What a cluster is asked for


@pytest.mark.parametrize(("alone", "gpus"), [("false", 0), ("true", 4)])
def test_the_configuration_says_what_jobs_may_take_and_a_run_alone_takes_every_gpu(
    tmp_path: Path, clone: Project, alone: str, gpus: int
) -> None:
    """A lone run takes those of the host; on one GPU of its own it asks for no further one."""
    path = customized(tmp_path, clone, TOLD)
    done = clone.snakemake(
        *("--dry-run", "--profile", "profiles/slurm", "--executor", "local", "report/lab5.pdf"),
        *("--cores", "8", "--resources", "gpu=4"),
        *("--config", "device=cuda", "device_name=NVIDIA H200", f"alone={alone}", "counters=no"),
        *("measure={timeout_s: 90}", "memory_mb={measure: 700, report: 900}"),
        PYTHONPATH=path,
    )
    assert done.returncode == 0, done.stdout
    lines = map(json.loads, re.findall("^ASKED (.*)$", done.stdout, re.MULTILINE))
    found = {" ".join(rules): asked for rules, asked in lines}
    # 90 s, rounded up to minutes, and one more to start.
    limits = {"runtime": 3, "mem_mb": 700}
    assert (found["measure"], found["ceilings"]) == ({**limits, "gpu": gpus}, {**limits, "gpu": 1})
    for rule in ("observations", "figures", "report"):
        assert found[rule]["mem_mb"] == 900


def test_only_what_measures_goes_to_a_cluster() -> None:
    text = "".join(file.read_text() for file in ROOT.glob("workflow/rules/*.smk"))
    rules = [rule for rule in re.split(r"(?m)^\s*rule ", text)[1:] if "shell:" in rule]
    sent = {rule.partition(":")[0] for rule in rules if "localrule: True" not in rule}
    assert sent == {"measure", "ceilings"}
