"""The image of the Containerfile runs both commands of the README, on the tiny shapes, offline."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BASE = os.environ.get("FLASHLAB_BASE")

pytestmark = pytest.mark.skipif(
    shutil.which("podman") is None or BASE is None,
    reason="needs podman, and FLASHLAB_BASE naming a base image (docs/clusters.md)",
)


@pytest.fixture(scope="module")
def image() -> str:
    name = "flashlab-test"
    command = ["podman", "build", "--build-arg", f"BASE={BASE}", "--tag", name, str(ROOT)]
    subprocess.run(command, check=True)
    return name


@pytest.mark.parametrize(
    "command", ["./run report", "snakemake --cores 1 report/lab5.pdf"], ids=["run", "snakemake"]
)
def test_a_command_of_the_readme_makes_the_report_without_a_network(
    image: str, command: str
) -> None:
    script = f"{command} --configfile tests/tiny.yaml && head -c 4 report/lab5.pdf"
    done = subprocess.run(
        ["podman", "run", "--rm", "--network=none", image, "sh", "-c", script],
        check=True,
        capture_output=True,
    )
    assert done.stdout.endswith(b"%PDF")
