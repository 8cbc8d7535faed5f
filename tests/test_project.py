"""The files about the project agree: versions, tools, packages, requirements and imports."""

from __future__ import annotations

import ast
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from flashlab.version import __version__

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_package_project_citation_and_changelog_name_the_same_version() -> None:
    citation = yaml.safe_load(text("CITATION.cff"))
    released = re.search(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.M)
    assert released and released.groups() == (citation["version"], citation["date-released"])
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert project["version"] == __version__ == citation["version"]


def test_the_image_has_the_packages_that_run_would_install_and_nothing_that_git_ignores() -> None:
    packages = re.search(r"^debian_packages='(.+)'$", text("run"), re.MULTILINE)
    assert packages
    assert {"python3-venv", *packages[1].split()} <= {*text("Containerfile").split()}
    git, image = (
        {line for line in text(name).splitlines() if line and not line.startswith("#")}
        for name in (".gitignore", ".containerignore")
    )
    # Git matches at any depth what does not begin with a slash.
    ignored = {each[1:] if each[0] == "/" else f"**/{each}" for each in git}
    assert image == {".git", *(each.rstrip("/") for each in ignored)}


OURS = {
    "flashlab",
    "flashlab_grading",
    *(p.stem for at in ("perf", "tests") for p in ROOT.glob(at + "/*")),
}


@pytest.mark.parametrize("script", sorted(ROOT.glob("perf/*.py")), ids=lambda path: path.stem)
def test_a_script_of_perf_finds_what_it_imports_of_ours(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    for node in ast.walk(tree := ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in OURS:
            for name in node.names:
                pkgutil.resolve_name(f"{node.module}.{name.name}")
    assert ast.get_docstring(tree)


LARGE = {
    *("torch", "numpy", "scipy", "pandas", "matplotlib", "seaborn", "weasyprint", "jinja2"),
    *("pikepdf", "pydantic", "jsonschema", "rich"),
}
RULES = "".join(path.read_text() for path in ROOT.glob("workflow/rules/*.smk"))
RULES_IMPORT = sorted({*re.findall(r"^from (flashlab\S*) import", RULES, re.MULTILINE)})
"""What the rules import at every call of Snakemake."""


@pytest.mark.parametrize(
    ("module", "large", "most"),
    [
        ("flashlab.__main__", "", 170),
        (", ".join(RULES_IMPORT), "pydantic", 350),
        ("flashlab.story.stage", "numpy pandas scipy", 900),
        # scipy.stats, which nothing of it needs, would be 300 modules and half a second more
        ("flashlab.report.render", "numpy pandas scipy jinja2 weasyprint", 1500),
    ],
)
def test_a_call_loads_no_more_than_it_needs(module: str, large: str, most: int) -> None:
    """Most of the time of a short job."""
    loaded = subprocess.check_output(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        text=True,
    ).split()
    assert {name.partition(".")[0] for name in loaded} & LARGE == {*large.split()}
    assert len(loaded) <= most
