"""The image of the Containerfile makes the report by both commands of the README, offline.

The image is built only where FLASHLAB_BUILD says how, if need be with nothing: it takes minutes,
gigabytes, and the network.

    FLASHLAB_BUILD='--build-arg BASE=flashlab-base' python -m pytest tests/test_container.py
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = shutil.which("podman") or shutil.which("buildah")
BUILD = os.environ.get("FLASHLAB_BUILD")
IMAGE = "flashlab-test"

builds = pytest.mark.skipif(
    TOOL is None or BUILD is None,
    reason="needs podman or buildah, and FLASHLAB_BUILD (docs/clusters.md)",
)


def test_the_image_has_the_system_packages_that_run_would_install() -> None:
    run = ROOT.joinpath("run").read_text()
    packages = re.search(r"^debian_packages='(.+)'$", run, re.MULTILINE)
    assert packages
    containerfile = ROOT.joinpath("Containerfile").read_text().split()
    assert {"python3-venv", *packages[1].split()} <= set(containerfile)


def test_what_git_ignores_stays_out_of_the_image() -> None:
    def patterns(name: str) -> set[str]:
        lines = ROOT.joinpath(name).read_text().splitlines()
        return {line for line in lines if line and not line.startswith("#")}

    # Git matches at any depth what does not begin with a slash.
    anywhere = {f"**/{pattern}" for pattern in patterns(".gitignore") if pattern[0] != "/"}
    at_the_root = {pattern[1:] for pattern in patterns(".gitignore") if pattern[0] == "/"}
    ignored = {pattern.rstrip("/") for pattern in anywhere | at_the_root}
    assert patterns(".containerignore") == {".git", *ignored}


@pytest.fixture(scope="module")
def image() -> str:
    assert TOOL
    arguments = shlex.split(BUILD or "")
    subprocess.run([TOOL, "build", *arguments, "--tag", IMAGE, str(ROOT)], check=True)
    return IMAGE


@pytest.fixture
def container(image: str) -> Iterator[list[str]]:
    """The words in front of a command that runs in a new container without a network."""
    assert TOOL
    if Path(TOOL).name == "podman":
        yield [TOOL, "run", "--rm", "--network=none", image]
        return
    made = subprocess.run([TOOL, "from", image], check=True, capture_output=True, text=True)
    name = made.stdout.strip()
    yield [TOOL, "run", "--network=none", name, "--"]
    subprocess.run([TOOL, "rm", name], check=True)


@builds
@pytest.mark.parametrize(
    "command", ["./run report", "snakemake --cores 1 report/lab5.pdf"], ids=["run", "snakemake"]
)
def test_a_command_of_the_readme_makes_the_report_without_a_network(
    container: list[str], command: str
) -> None:
    script = f"""
        test "$(ls /sys/class/net)" = lo || {{ echo "there is a network"; exit 1; }}
        {command} --configfile tests/tiny.yaml && head -c 4 report/lab5.pdf
    """
    done = subprocess.run(
        [*container, "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    assert done.stdout.endswith(b"%PDF")
