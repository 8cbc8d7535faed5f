"""The files about a release agree with one another."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from flashlab.version import __version__


def test_package_project_citation_and_changelog_name_the_same_version(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    assert released, "CHANGELOG.md names no version"
    assert released[0] == (citation["version"], citation["date-released"])
    assert project["version"] == __version__ == citation["version"]


def test_pre_commit_runs_every_tool_of_lint(root: Path) -> None:
    (tools,) = re.findall(r"for tool in ([^;]*); do\n", (root / "run").read_text("utf-8"))
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text("utf-8"))
    names = {hook["name"] for repository in config["repos"] for hook in repository["hooks"]}
    for quoted, bare in re.findall(r"'([^']*)'|([^\s\\]+)", tools):
        command = (quoted or bare).split(" --check")[0]
        assert command in names


def test_the_image_has_the_system_packages_that_run_would_install(root: Path) -> None:
    packages = re.search(r"^debian_packages='(.+)'$", (root / "run").read_text(), re.MULTILINE)
    assert packages
    containerfile = (root / "Containerfile").read_text().split()
    assert {"python3-venv", *packages[1].split()} <= {*containerfile}


def test_what_git_ignores_stays_out_of_the_image(root: Path) -> None:
    def patterns(name: str) -> set[str]:
        lines = (root / name).read_text().splitlines()
        return {line for line in lines if line and not line.startswith("#")}

    # Git matches at any depth what does not begin with a slash.
    ignored = {each[1:] if each[0] == "/" else f"**/{each}" for each in patterns(".gitignore")}
    assert patterns(".containerignore") == {".git", *(each.rstrip("/") for each in ignored)}
