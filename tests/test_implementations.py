"""Kernel files: what they declare, what is wrong with one, and what decides what it computes."""

from __future__ import annotations

import ast
import hashlib
import shutil
import sys
from pathlib import Path

import pytest

from flashlab.benchmarks import implementations
from flashlab.benchmarks.implementations import ImplementationError, read_implementation
from flashlab.benchmarks.registry import ATTENTION, find_benchmark
from flashlab.measuring.kernel import load_kernel
from flashlab.syntax import canonical_tree

KERNEL = """
import a_library_that_nobody_has
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
PACKAGES = ("triton", "torch")
PRELOADS = ("a_slow_library",)
def attention(qkv, causal): ...
"""
BOTH = """
INPUTS = ("separate", "packed")
def separate_attention(q, k, v, causal): ...
"""


def read(folder: Path, source: str, name: str = "mine.py") -> implementations.Implementation:
    (folder / name).write_text(source, encoding="utf-8")
    return read_implementation(folder / name)


def test_a_kernel_is_read_without_being_run(tmp_path: Path) -> None:
    plain = read(tmp_path, KERNEL)
    assert (plain.name, plain.label["zh_TW"]) == ("Mine", "我的")
    assert (plain.packages, plain.preloads) == (("triton", "torch"), ("a_slow_library",))
    # A label is the report's: the digest, which tells whether to measure again, stays.
    on_cpu = read(tmp_path, KERNEL + 'LABEL_CPU = {"zh_TW": "處理器", "en": "On the CPU"}')
    assert (on_cpu.label_on("cuda"), on_cpu.label_on("cpu")["en"]) == (plain.label, "On the CPU")
    assert on_cpu.digest == plain.digest
    sharing = read(tmp_path, KERNEL + 'TAKES = {"num_kv_heads": "in place"}')
    assert sharing.digest != plain.digest, "what was unsupported is measured"


def test_inputs_are_separate_where_taken_and_packed_by_the_course(tmp_path: Path) -> None:
    plain, both = read(tmp_path, KERNEL), read(tmp_path, KERNEL + BOTH)
    assert (plain.form(ATTENTION, "sampled"), plain.form(ATTENTION, "lab5")) == ("packed",) * 2
    assert (both.form(ATTENTION, "sampled"), both.form(ATTENTION, "lab5")) == ("separate", "packed")
    assert both.form(find_benchmark("training"), "sampled") is None
    found = implementations.implementations_of(ATTENTION)
    flash2, packed = found["Flash2"], found["Flash2Packed"]
    assert packed.form(ATTENTION, "sampled") == "packed"
    assert (packed.digest, packed.path) == (flash2.digest, flash2.path)
    assert "SdpaCudnnPacked" not in found
    assert "Flash2Packed" not in implementations.implementations_of(find_benchmark("training"))


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        *(('NAME = "Mine"', "", "needs a line such as NAME"), ('"Mine"', '"a/b"', "NAME")),
        *(('"zh_TW": "我的", ', "", "zh_TW"), ('("triton", "torch")', '"torch"', "PACKAGES")),
        *(("def attention", "def attend", "attention"), ("def attention", "def", "line 7: ")),
        ("PACKAGES =", 'INPUTS = ("separate",); PACKAGES =', "separate_attention"),
        ("PACKAGES =", 'TAKES = ("num_kv_heads",); PACKAGES =', "needs a line such as TAKES = "),
    ],
)
def test_what_a_kernel_lacks_is_named(tmp_path: Path, line: str, instead: str, said: str) -> None:
    with pytest.raises(ImplementationError, match=f"^{tmp_path / 'mine.py'}: .*{said}"):
        read(tmp_path, KERNEL.replace(line, instead, 1))


@pytest.mark.parametrize("source", [b"def (", b"\xff\xfe\xff", b"NAME = '\x00'\n"])
def test_a_broken_file_hinders_no_other(tmp_path: Path, source: bytes) -> None:
    read(tmp_path, KERNEL.replace('"Mine"\n', '"Other"\n'), "other.py")
    broken = tmp_path / "mine.py"
    broken.write_bytes(source)
    found = implementations.find_implementations(tmp_path)
    assert list(found) == ["Other"] and found["Other"].path == tmp_path / "other.py"
    with pytest.raises(ImplementationError, match=f"{broken}.*; so there is no .* Mine$"):
        found["Mine"]


# Which files decide what a kernel computes

IMPORTING = """
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
    **{"mine.py": IMPORTING, "other.py": "", "lib/__init__.py": ""},
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


@pytest.mark.parametrize("name", FILES)
def test_what_a_kernel_imports_or_compiles_moves_its_digest(kernels: Path, name: str) -> None:
    mine = kernels / "mine.py"
    for text in (*SHOWN, "EDITED = True\n"):
        before = read_implementation(mine).digest
        with kernels.joinpath(name).open("a") as file:
            file.write(text)
        is_used = name not in ("other.py", "lib/unused.py")
        moves = is_used and (text not in SHOWN or name == "lib/attention.cu")
        assert (read_implementation(mine).digest != before) == moves
    before = read_implementation(mine).digest
    mine = mine.rename(kernels / "renamed.py")
    assert read_implementation(mine).digest == before, "its own file may be renamed"


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
        ("mine.py", IMPORTING.replace("attention.cu", "gone.cu"), "SOURCES: .*gone.cu: No such"),
        ("mine.py", IMPORTING.replace("lib/att", "../../att"), "SOURCES: .* lies outside"),
    ],
)
def test_a_file_that_is_unusable_is_named(kernels: Path, file: str, text: str, said: str) -> None:
    kernels.joinpath(file).write_text(text)
    with pytest.raises(ImplementationError, match=said):
        read_implementation(kernels / "mine.py")


# Which edits move the digest of a source, on every Python

SOURCE = '''\
"""A module."""
from __future__ import annotations

import math as m
from . import tiles

SCALE: float = 1e-3 + 2j.real


@tiles.jit(num_warps=8)
def attention(qkv, causal=False, /, *rest, scale=None, **options):
    """Attention."""
    q, *kv = qkv
    match q:
        case {"d": 64 | 128 as d, **others} if d:
            return [x for x in kv if (y := x) is not None]
        case _:
            raise ValueError(f"head_dim {q!r:>{d}} is {scale=}" "% of " f"{m.pi:}")
'''


def tree_digest(source: str) -> str:
    return hashlib.sha256(canonical_tree(ast.parse(source)).encode()).hexdigest()


def test_the_digest_is_the_same_on_every_version_of_python() -> None:
    """As computed on Python 3.11.7, 3.12.7, 3.13.2 and 3.14.2."""
    assert tree_digest(SOURCE) == "31b03592f6156b8c2af608a443e27bb1edbdf5c840daa2351fb6953a318ee2ef"


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        *(("import math as m", "import math as m  # a", False), ("\n    ", "\n        ", False)),
        *(('"""A module."""', '"""Another."""', False), ('    """Attention."""\n', "", False)),
        *(("1e-3", "0.001", False), ('"d"', "'d'", False)),
        *(("1e-3", "2e-3", True), ("num_warps=8", "num_warps=4", True)),
        *(("causal=False", "causal=0", True), ("/, *rest", "*rest", True)),
        *(("scale=None", "scale", True), ("is not None", "is None", True)),
        *(('"% of "', '"% off "', True), ("{q!r:>{d}}", "{q!s:>{d}}", True), ("m.pi", "m.e", True)),
        *(("q, *kv = qkv", "*q, kv = qkv", True), ("return [", "yield [", True)),
        ('case {"d"', 'case {b"d"', True),
    ],
)
def test_the_digest_moves_with_the_meaning_alone(old: str, new: str, moves: bool) -> None:
    edited = SOURCE.replace(old, new)
    assert edited != SOURCE
    assert (tree_digest(edited) != tree_digest(SOURCE)) == moves


def test_text_is_not_taken_for_the_name_that_it_spells() -> None:
    values = ("True", "'True'", "b'True'", "1", "1.0")
    assert len({tree_digest(f"x = {value}") for value in values}) == 5
