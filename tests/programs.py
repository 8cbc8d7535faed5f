"""The programs that some tests need of the system; `./run test --all` installs what this prints."""

from __future__ import annotations

from shutil import which

CHROMIUM = which("chromium") or which("chromium-browser")
PACKAGES = {
    "Chromium": {"chromium": CHROMIUM},
    "Slurm": {
        "slurm-wlm": which("slurmctld") and which("slurmd") and which("sbatch"),
        "munge": which("munged"),
    },
}
"""Debian's packages for the tests of a program, each with a file that it installs."""


def lacking(what: str) -> list[str]:
    """The packages that tests with Chromium or Slurm need, and the system does not have."""
    return [package for package, path in PACKAGES[what].items() if path is None]


def reason(what: str) -> str:
    """Why tests with Chromium or Slurm are skipped."""
    return f"{what} is not installed: ./run test --all"


if __name__ == "__main__":
    print(*(package for what in PACKAGES for package in lacking(what)))
