"""Install what locks in envs/ pin into .venv; ./run calls it with that environment's Python.

install.py VARIANT-SYSTEM [LOCK]    the packages of cpu, cuda or system, and LOCK's beside them
install.py LOCK [ARGUMENTS OF PIP]  what a lock pins beside these, unless it is installed
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

PYTHON = ".venv/bin/python"
# With `--no-compile`: Python compiles what is imported, a fraction of what the packages have.
PIP = "-I -m pip --disable-pip-version-check --quiet --quiet --no-input install --no-compile"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OF_TORCH = re.compile(
    "torch=|triton=|nvidia-(cublas|cudnn|cufft|cufile|curand|cusolver|cusparse|nccl|nvshmem|nvtx"
    "|cuda-cupti)"
)
"""What the system's PyTorch brings, or has in another version."""

WITHOUT_CUDA = """
import importlib.metadata as m
assert not any(name.startswith(("nvidia", "cuda")) for name in m.requires("torch"))
"""
Job = tuple[str, "subprocess.Popen[str]"]
"""What is installed, and the pip that does it."""


def say(text: str) -> None:
    """A line on the terminal, as ./run writes it."""
    print(f"run: {text}", file=sys.stderr, flush=True)


def start(what: str, *arguments: str) -> Job:
    """A pip that works beside others. It has the lock of ./run, which it may outlive."""
    command, env = [PYTHON, *PIP.split(), *arguments], {**os.environ, "PIP_USER": "0"}
    errors = subprocess.PIPE
    return what, subprocess.Popen(command, stderr=errors, text=True, env=env, close_fds=False)


def finish(what: str, pip: subprocess.Popen[str]) -> None:
    """Wait for a pip; ends this program where it fails."""
    _, told = pip.communicate()
    if pip.returncode:
        sys.stderr.write(told)
        say(f"installing {what} failed. Once that is put right, call ./run again.")
        sys.exit(1)


def pins_of(lock: str) -> list[str]:
    """The lines of a lock that pin a package."""
    lines = Path("envs", lock, "requirements.txt").read_text().splitlines()
    return [line for line in lines if re.match("[a-z0-9]", line)]


def start_pins(lock: str, name: str, pins: list[str], *arguments: str) -> Job:
    """Install these packages and no others: a lock pins all that is needed."""
    file = Path(".venv", f"requirements.{name}.txt")
    file.write_text("\n".join(pins) + "\n")
    return start(f"envs/{lock}/requirements.txt", *arguments, "--no-deps", "-r", str(file))


def install_beside(lock: str, *arguments: str) -> None:
    """What a lock pins beside the environment's packages, unless it is installed."""
    wanted, done = Path("envs", lock, "requirements.txt").read_text(), Path(".venv", f"{lock}.txt")
    if not done.exists() or done.read_text() != wanted:
        say(f"Installing envs/{lock}/requirements.txt ...")
        finish(*start_pins(lock, lock, pins_of(lock), *arguments))
        done.write_text(wanted)


def install_environment(kind: str, beside: list[str]) -> None:
    """All packages, by several pips at once: one unpacks one package after the other."""
    lock = "cpu" if kind.startswith("cpu") else "cuda"
    say(f"Installing envs/{lock}/requirements.txt ...")
    pins = [*pins_of("cpu"), *(pins_of("cuda") if lock == "cuda" else ())]
    jobs, (torch,) = list[Job](), (pin for pin in pins if pin.startswith("torch=="))
    if kind.startswith("system"):
        pins = [pin for pin in pins if not OF_TORCH.match(pin)]
    if by_index := kind.startswith("cpu-Linux"):
        # PyTorch's CPU build, without gigabytes of CUDA libraries. One package only is looked up
        # at that index: where it cannot be reached, pip soon takes what its own indexes have.
        pins.remove(torch)
        say(f"Installing {torch} ...")
        once = ("--no-deps", "--retries", "2", "--timeout", "10", "--extra-index-url", CPU_INDEX)
        jobs = [start(torch, *once, torch)]
    jobs += [start_pins(lock, str(half), pins[half::2]) for half in (0, 1)]
    for name in beside:
        install_beside(name)
    for job in jobs:
        finish(*job)
    check = (PYTHON, "-I", "-c", WITHOUT_CUDA)
    if by_index and subprocess.call(check, stderr=subprocess.DEVNULL):
        told = f"{CPU_INDEX} has no build for this machine or cannot be reached:"
        say(f"{told} gigabytes of CUDA libraries follow.")
        finish(*start(torch, torch))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends at once, as ./run does
    first, *rest = sys.argv[1:]
    if "-" in first:
        install_environment(first, rest)
    else:
        install_beside(first, *rest)
