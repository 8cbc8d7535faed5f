"""`envs/install_flash_attn.py`, on a stub of PyTorch, with releases on a server of our own."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ENVS = Path(__file__).parents[1] / "envs"
VERSION = "2.8.3.post2+cu13torch2.13cxx11abiTRUE"
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-linux_x86_64"
WHEEL = f"flash_attn-{VERSION}-{TAG}.whl"
TORCH = """
__version__ = "2.13.0+cu130"
class version: cuda = "13.0"
def compiled_with_cxx11_abi(): return True
"""
METADATA = f"Metadata-Version: 2.1\nName: flash-attn\nVersion: {VERSION}\nRequires-Dist: einops\n"
TAGS = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAG}\n"
THEIRS = 'RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download"'

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="flash-attn is for Linux")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip and a stub of PyTorch."""
    folder = tmp_path_factory.mktemp("flash-attn") / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = importlib.util.find_spec("pip")
    assert pip and pip.origin
    (packages / "pip").symlink_to(Path(pip.origin).parent)  # sooner than one of its own
    (packages / "torch.py").write_text(TORCH)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server that offers the folder `releases`."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "releases"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def install(environment: Path, tmp_path: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run the script in the environment, with that server in place of the authors'."""
    (tmp_path / "cuda").mkdir(exist_ok=True)
    shutil.copy(ENVS / "cuda" / "flash-attn.txt", tmp_path / "cuda")
    script, text = tmp_path / "install_flash_attn.py", (ENVS / "install_flash_attn.py").read_text()
    assert THEIRS in text
    script.write_text(text.replace(THEIRS, f'RELEASES = "{url}"'))
    command = [environment / "bin" / "python", "-I", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, f"its authors offer no {WHEEL}"),
        ("raise ImportError", "what was installed cannot be imported"),
        ("", f"run: Installing {WHEEL} ...\n"),
    ],
    ids=["not offered", "unfit", "offered"],
)
def test_a_wheel_is_installed_that_is_offered_and_can_be_imported_or_none(
    environment: Path, tmp_path: Path, server: str, module: str | None, said: str
) -> None:
    folder = tmp_path / "releases" / "v2.8.3.post2"
    folder.mkdir(parents=True)
    if module is not None:
        with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
            wheel.writestr("flash_attn/__init__.py", module)
            for name, text in {"METADATA": METADATA, "WHEEL": TAGS, "RECORD": ""}.items():
                wheel.writestr(f"flash_attn-{VERSION}.dist-info/{name}", text)
    done = install(environment, tmp_path, server)
    installed = said.startswith("run:")
    assert done.returncode == (not installed) and said in done.stderr, done.stderr
    assert bool([*environment.glob("lib/python*/site-packages/flash_attn")]) == installed
    if installed:
        again = install(environment, tmp_path, "http://127.0.0.1:9")
        assert (again.returncode, again.stderr) == (0, "")
    elif module is None:  # nothing is compiled unasked
        assert "FLASHLAB_FLASH_ATTN=build ./run report compiles it" in done.stderr
