"""Install flash-attn beside this Python's PyTorch, and say why where that fails.

python envs/install_flash_attn.py          its authors' wheel for this Python, PyTorch and CUDA
python envs/install_flash_attn.py build    compiled here, in up to an hour
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

REQUIREMENT = Path(__file__).parent / "cuda" / "flash-attn.txt"
RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download"
PIP = (sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input")
LOG = Path(sys.prefix) / "flash-attn.log"
ANSWER_SECONDS = 20
"""How long the server may take to answer."""
PROGRESS_SECONDS = 60


def say(text: str) -> None:
    """A line on the terminal, as ./run writes it."""
    print(f"run: {text}", file=sys.stderr, flush=True)


def is_importable() -> bool:
    """Whether flash-attn is installed and fits this PyTorch."""
    imported = [sys.executable, "-I", "-c", "import flash_attn"]
    return subprocess.run(imported, capture_output=True, check=False).returncode == 0


def wheel_name() -> str:
    """The file that flash-attn's authors would build for this machine, below `RELEASES`."""
    import torch

    match = re.search(r"^flash-attn==(\S+)", REQUIREMENT.read_text(), re.MULTILINE)
    version = match[1] if match else ""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    cuda = str(torch.version.cuda).partition(".")[0]
    torch_version = ".".join(torch.__version__.split(".")[:2])
    abi = str(torch.compiled_with_cxx11_abi()).upper()
    made_for = f"cu{cuda}torch{torch_version}cxx11abi{abi}-{python}-{python}-linux_x86_64"
    return f"v{version}/flash_attn-{version}+{made_for}.whl"


def pip_install(*arguments: str) -> subprocess.Popen[bytes]:
    """A pip that installs flash-attn alone and writes what it says to `LOG`."""
    with LOG.open("wb") as log:
        return subprocess.Popen(
            [*PIP, "install", "--no-deps", *arguments], stdout=log, stderr=subprocess.STDOUT
        )


def reason_without_wheel() -> str | None:
    """Install the authors' wheel; why that is not possible, None if it is installed."""
    name = wheel_name()
    url = f"{RELEASES}/{name}"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method="HEAD"), timeout=ANSWER_SECONDS
        ):
            say(f"Installing {name.partition('/')[2]} ...")
    except urllib.error.HTTPError as error:
        return f"its authors offer no {name.partition('/')[2]} (status {error.code})"
    except OSError as error:
        return f"{RELEASES} cannot be reached ({error})"
    if pip_install("--no-compile", "--timeout", str(ANSWER_SECONDS), url).wait():
        return f"{name.partition('/')[2]} could not be installed (see {LOG})"
    return None


def progress(minutes: float) -> str:
    """How far the compilation is after so long, by the files that ninja counts in `LOG`."""
    counts = re.findall(r"\[(\d+)/(\d+)\]", LOG.read_text(errors="replace"))
    if not counts:
        return f"flash-attn: preparing, {minutes:.0f} min so far"
    done, total = map(int, counts[-1])
    left = minutes * (total - done) / done
    return f"flash-attn: {done} of {total} files in {minutes:.0f} min; about {left:.0f} min to go"


def reason_not_built() -> str | None:
    """Compile flash-attn, and say every minute how far that is; why it failed, or None."""
    say(f"Compiling flash-attn: up to an hour, less on many processors; {LOG} has the details ...")
    began = time.monotonic()
    building = pip_install("-vvv", "--no-build-isolation", "-r", str(REQUIREMENT))
    try:
        while True:
            try:
                status = building.wait(PROGRESS_SECONDS)
                return f"it could not be compiled (see {LOG})" if status else None
            except subprocess.TimeoutExpired:
                say(progress((time.monotonic() - began) / 60))
    finally:
        building.terminate()


def main(arguments: Sequence[str]) -> int:
    """Install flash-attn; 1 where it cannot be, with the reason on standard error."""
    if is_importable():
        return 0
    reason = reason_not_built() if "build" in arguments else reason_without_wheel()
    if reason is None and not is_importable():
        subprocess.run([*PIP, "uninstall", "--yes", "flash-attn"], capture_output=True, check=False)
        reason = "what was installed cannot be imported"
    if reason:
        say(f"flash-attn is left out: {reason}")
        say("FLASHLAB_FLASH_ATTN=build ./run report compiles it, in up to an hour.")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
