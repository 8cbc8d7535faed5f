"""`envs/install_flash_attn.py`, on a stub of PyTorch, with releases on a server of our own."""

import http.server
import importlib.util
import subprocess
import sys
import threading
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ENVS = Path(__file__).parents[1] / "envs"
WHEEL = (
    "flash_attn-2.8.3.post2+cu13torch2.13cxx11abiTRUE"
    f"-cp{sys.version_info.major}{sys.version_info.minor}"
    f"-cp{sys.version_info.major}{sys.version_info.minor}-linux_x86_64.whl"
)
TORCH = """
__version__ = "2.13.0+cu130"
class version: cuda = "13.0"
def compiled_with_cxx11_abi(): return True
"""

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


def make_wheel(path: Path, module: str) -> None:
    """A wheel of flash-attn whose module holds this code."""
    info = "flash_attn-2.8.3.post2+cu13torch2.13cxx11abiTRUE.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("flash_attn/__init__.py", module)
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: flash-attn\n"
            "Version: 2.8.3.post2+cu13torch2.13cxx11abiTRUE\nRequires-Dist: einops\n",
        )
        tags = "-".join(path.name.removesuffix(".whl").split("-")[2:])
        wheel.writestr(
            f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tags}\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


class Releases(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, each after a while."""

    seconds = 0.0

    def do_HEAD(self) -> None:
        """Answers a question for a file."""
        time.sleep(self.seconds)
        super().do_HEAD()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def releases(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of a release and the address of the server that offers it."""
    folder = tmp_path / "releases"
    (folder / "v2.8.3.post2").mkdir(parents=True)

    def handler(*args: object) -> Releases:
        return Releases(*args, directory=str(folder))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder / "v2.8.3.post2", f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def install(environment: Path, tmp_path: Path, url: str) -> "subprocess.CompletedProcess[str]":
    """Run the script in the environment, with that server in place of the authors'."""
    text = (ENVS / "install_flash_attn.py").read_text()
    theirs = 'RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download"'
    assert theirs in text and "ANSWER_SECONDS = 20" in text
    script = tmp_path / "envs" / "install_flash_attn.py"
    (tmp_path / "envs" / "cuda").mkdir(parents=True)
    (tmp_path / "envs" / "cuda" / "flash-attn.txt").write_text(
        (ENVS / "cuda" / "flash-attn.txt").read_text()
    )
    script.write_text(
        text.replace(theirs, f'RELEASES = "{url}"').replace("SECONDS = 20", "SECONDS = 1")
    )
    return subprocess.run(
        [environment / "bin" / "python", "-I", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def has_flash_attn(environment: Path) -> bool:
    return bool(list(environment.glob("lib/python*/site-packages/flash_attn")))


def uninstall(environment: Path) -> None:
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "flash-attn"], check=True)


def test_a_wheel_that_is_offered_is_installed(
    environment: Path, tmp_path: Path, releases: tuple[Path, str]
) -> None:
    folder, url = releases
    make_wheel(folder / WHEEL, "")
    done = install(environment, tmp_path, url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"run: Installing {WHEEL} ...\n"
    assert has_flash_attn(environment)
    (tmp_path / "envs" / "cuda" / "flash-attn.txt").unlink()
    (tmp_path / "envs" / "cuda").rmdir()
    (tmp_path / "envs" / "install_flash_attn.py").unlink()
    (tmp_path / "envs").rmdir()
    again = install(environment, tmp_path, "http://127.0.0.1:9")
    assert (again.returncode, again.stderr) == (0, "")
    uninstall(environment)


def test_where_none_is_offered_nothing_is_compiled(
    environment: Path, tmp_path: Path, releases: tuple[Path, str]
) -> None:
    done = install(environment, tmp_path, releases[1])
    assert done.returncode == 1
    assert f"its authors offer no {WHEEL}" in done.stderr
    assert "FLASHLAB_FLASH_ATTN=build ./run report compiles it" in done.stderr
    assert not has_flash_attn(environment)


def test_a_server_that_is_slow_to_answer_is_not_waited_for(
    environment: Path,
    tmp_path: Path,
    releases: tuple[Path, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_wheel(releases[0] / WHEEL, "")
    monkeypatch.setattr(Releases, "seconds", 5.0)
    done = install(environment, tmp_path, releases[1])
    assert done.returncode == 1
    assert f"{releases[1]} cannot be reached" in done.stderr
    assert not has_flash_attn(environment)


def test_a_wheel_that_does_not_fit_is_taken_out_again(
    environment: Path, tmp_path: Path, releases: tuple[Path, str]
) -> None:
    make_wheel(releases[0] / WHEEL, "raise ImportError('undefined symbol')")
    done = install(environment, tmp_path, releases[1])
    assert done.returncode == 1
    assert "what was installed cannot be imported" in done.stderr
    assert not has_flash_attn(environment)
