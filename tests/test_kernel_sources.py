"""Which files decide what a kernel computes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from flashlab.benchmarks.implementations import ImplementationError, read_implementation
from flashlab.measuring.kernel import load_kernel

KERNEL = """
from kernels.lib import tiles
from .lib.masks import causal_mask
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
SOURCES = ("lib/attention.cu",)
def attention(qkv, causal):
    from kernels.lib.late import scale
    return qkv
"""
FILES = {
    **{"mine.py": KERNEL, "other.py": "", "lib/__init__.py": ""},
    **{"lib/tiles.py": "from kernels.lib import sizes\n", "lib/sizes.py": "ROWS = 64\n"},
    **{"lib/masks.py": "def causal_mask(): ...\n", "lib/late.py": "scale = 1.0\n"},
    **{"lib/unused.py": "UNUSED = 1\n", "lib/attention.cu": "__global__ void attention() {}\n"},
}
SHOWN = ("# a comment\n", "STORES_SCORES = True\n", 'TUNED_ON = ("NVIDIA H200",)\n')
"""What decides nothing or only the report shows, also in a module that a kernel imports."""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A folder of kernels, of which one imports others' files and compiles a CUDA source."""
    for name, text in FILES.items():
        path = tmp_path / "kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "kernels"


def digest(kernels: Path, file: str = "mine.py") -> str:
    return read_implementation(kernels / file).digest


@pytest.mark.parametrize("name", FILES)
def test_what_a_kernel_imports_or_compiles_moves_its_digest(kernels: Path, name: str) -> None:
    for text in (*SHOWN, "EDITED = True\n"):
        before = digest(kernels)
        with kernels.joinpath(name).open("a") as file:
            file.write(text)
        is_used = name not in ("other.py", "lib/unused.py")
        moves = is_used and (text not in SHOWN or name == "lib/attention.cu")
        assert (digest(kernels) != before) == moves
    before = digest(kernels)
    kernels.joinpath("mine.py").rename(kernels / "renamed.py")
    assert digest(kernels, "renamed.py") == before, "its own file may be renamed"


def test_what_the_digest_is_taken_over_is_what_python_imports(kernels: Path) -> None:
    """Of the files beside it, each time anew."""
    assert load_kernel(kernels / "mine.py").attention("qkv", True) == "qkv"
    other = kernels.with_name("others")
    shutil.copytree(kernels, other)
    other.joinpath("lib/sizes.py").write_text("ROWS = 128\n")
    rows = [load_kernel(f / "mine.py").tiles.sizes.ROWS for f in (kernels, other, kernels)]
    assert rows == [64, 128, 64]
    kernels.joinpath("lib/sizes.py").write_text("ROWS = 65\n")
    for name in ("lib", "lib.tiles", "lib.sizes", "lib.masks"):
        sys.modules.pop(f"kernels.{name}")
    # Of the same size and made in the same second: bytecode from before would be taken for it.
    assert load_kernel(kernels / "mine.py").tiles.sizes.ROWS == 65


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("lib/tiles.py", "def (\n", "tiles.py: line 1"),
        ("mine.py", KERNEL.replace("attention.cu", "gone.cu"), "SOURCES: .*gone.cu: No such file"),
        ("mine.py", KERNEL.replace("lib/att", "../../att"), "SOURCES: .* lies outside"),
    ],
)
def test_a_file_that_is_unusable_is_named(kernels: Path, file: str, text: str, said: str) -> None:
    kernels.joinpath(file).write_text(text)
    with pytest.raises(ImplementationError, match=said):
        digest(kernels)
