"""The workflow keeps to Snakemake's conventions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SNAKEMAKE_BRINGS_NONE_OF = """
    PIL fontTools markdown_it matplotlib mdit_py_plugins numpy pandas pikepdf pynvml
    scipy seaborn torch weasyprint
"""


@pytest.fixture
def with_snakemake_alone(tmp_path: Path, make_clone: Callable[[Path], Any]) -> tuple[Any, str]:
    """A clone, and the PYTHONPATH of a Python in which the other packages are not installed."""
    names = SNAKEMAKE_BRINGS_NONE_OF.split()
    own = tmp_path / "packages"
    own.mkdir()
    own.joinpath("sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({names}))\n"
    )
    clone = make_clone(tmp_path / "clone")
    return clone, os.pathsep.join([str(own), str(clone.folder / "workflow")])


def test_the_workflow_is_read_with_snakemake_alone(with_snakemake_alone: tuple[Any, str]) -> None:
    clone, path = with_snakemake_alone
    done = clone.snakemake("--dry-run", config=(), PYTHONPATH=path)
    assert done.returncode == 0, done.stdout
    assert "Job stats" in done.stdout


@pytest.mark.parametrize(
    ("command", "package"),
    [
        (["measure", "--order", "{}", "--output", "record.json"], "torch"),
        (["report", "--config", "c", "--results", "r", "--output", "o.pdf"], "[a-z]+"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_stage_names_the_package_that_is_missing(
    with_snakemake_alone: tuple[Any, str], command: list[str], package: str
) -> None:
    clone, path = with_snakemake_alone
    done = subprocess.run(
        [sys.executable, "-m", "flashlab", *command],
        cwd=clone.folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        f"error: the Python package {package} is not installed; set up with ./run, or run "
        "python -m pip install -r envs/cpu/requirements.txt\n",
        done.stderr,
    )
    assert not list(clone.folder.glob("*.json"))


def test_a_workflow_that_uses_this_one_as_a_module_decides_its_configuration(
    root: Path, tmp_path: Path, make_clone: Callable[[Path], Any]
) -> None:
    outer = make_clone(tmp_path / "outer")
    outer.folder.joinpath("Snakefile").write_text(
        "from snakemake.common.configfile import load_configfile\n"
        f"settings = load_configfile({str(root / 'tests' / 'tiny.yaml')!r})\n"
        "settings['experiments'] = ['emb_dim']\n"  # one of the built-in ones
        f"module lab:\n    snakefile: {str(root / 'Snakefile')!r}\n    config: settings\n"
        "use rule * from lab\n"
    )
    shutil.rmtree(outer.folder / "config")
    own = ("--config", "languages={mine: 1}")
    done = outer.snakemake("--dry-run", config=own, PYTHONPATH="")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^measure +10$", done.stdout, re.MULTILINE)


def test_the_report_is_made_without_naming_it(project: Any) -> None:
    """A bare `snakemake` takes the profile's core and the default target."""
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout


def test_snakemake_makes_a_page_of_its_own_with_captions_offline(
    project: Any, tmp_path: Path
) -> None:
    page = tmp_path / "page.zip"
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "all_proxy")}
    done = project.snakemake("report/lab5.pdf", "--report", str(page), **nowhere)
    assert done.returncode == 0, done.stdout
    shutil.unpack_archive(page, tmp_path / "page")
    files = [path for path in (tmp_path / "page").rglob("*") if path.is_file()]
    assert {"time.svg", "rate.svg", "memory.svg", "lab5.pdf"} <= {path.name for path in files}
    said = "".join(path.read_text("utf-8", errors="ignore") for path in files)
    for text in (
        "The measurements are those of the dataset",  # the page that it opens with
        "Time of the forward and the backward pass",
        'Experiment <tt class=\\"docutils literal\\">seq_len</tt>. Error bars',
        "local/tables/seq_len/",
        "local/observations.json",
        "Speed-ups of the second implementation over the baseline",
        "The lab report",
    ):
        assert text in said
    assert "system-message" not in said
    for complaint in ("docutils", "WARNING", "ERROR", "System Message"):
        assert complaint not in done.stdout


def test_only_what_measures_goes_to_a_cluster(root: Path) -> None:
    rules = {}
    for file in root.glob("workflow/rules/*.smk"):
        for rule in re.split(r"(?m)^\s*rule ", file.read_text(encoding="utf-8"))[1:]:
            if "shell:" in rule:
                rules[rule.partition(":")[0]] = rule
    sent = {name for name, rule in rules.items() if "localrule: True" not in rule}
    assert sent == {"measure", "ceilings"}
    for name in sent:
        assert "gpu=" in rules[name] or "**gpu_resources(" in rules[name], name
        assert "runtime=RUNTIME" in rules[name], name
