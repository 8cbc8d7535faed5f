"""Kernel files: what they declare, read without running them, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashlab.benchmarks.implementations import (
    Implementation,
    ImplementationError,
    find_implementations,
    implementations_of,
    read_implementation,
)
from flashlab.benchmarks.registry import ATTENTION, find_benchmark

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
BROKEN = KERNEL.replace("def attention", "def")


def read(folder: Path, source: str, name: str = "mine.py") -> Implementation:
    (folder / name).write_text(source, encoding="utf-8")
    return read_implementation(folder / name)


def test_a_kernel_is_read_without_being_run(tmp_path: Path) -> None:
    plain = read(tmp_path, KERNEL)
    assert (plain.name, plain.label["zh_TW"]) == ("Mine", "我的")
    assert (plain.packages, plain.preloads) == (("triton", "torch"), ("a_slow_library",))
    # A label is the report's: the digest, which tells whether to measure again, stays.
    on_cpu = read(tmp_path, KERNEL + 'LABEL_CPU = {"zh_TW": "處理器", "en": "On the CPU"}')
    assert (on_cpu.label_on("cuda"), on_cpu.label_on("cpu")["en"]) == (plain.label, "On the CPU")
    assert plain.label_on("cpu") == plain.label and on_cpu.digest == plain.digest
    # What was unsupported is measured.
    sharing = read(tmp_path, KERNEL + 'TAKES = {"num_kv_heads": "in place"}')
    assert (plain.takes, sharing.takes) == ({}, {"num_kv_heads": "in place"})
    assert plain.digest != sharing.digest


def test_inputs_are_separate_where_taken_and_packed_by_the_course(tmp_path: Path) -> None:
    plain, both = read(tmp_path, KERNEL), read(tmp_path, KERNEL + BOTH)
    assert (plain.form(ATTENTION, "sampled"), plain.form(ATTENTION, "lab5")) == ("packed",) * 2
    assert (both.form(ATTENTION, "sampled"), both.form(ATTENTION, "lab5")) == ("separate", "packed")
    assert both.form(find_benchmark("training"), "sampled") is None
    found = implementations_of(ATTENTION)
    flash2, packed = found["Flash2"], found["Flash2Packed"]
    assert packed.form(ATTENTION, "sampled") == "packed"
    assert (packed.digest, packed.path) == (flash2.digest, flash2.path)
    assert "SdpaCudnnPacked" not in found
    assert "Flash2Packed" not in implementations_of(find_benchmark("training"))


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        *(('NAME = "Mine"', "", "needs a line such as NAME"), ('"Mine"', '"a/b"', "NAME")),
        *(('"zh_TW": "我的", ', "", "zh_TW"), ('"我的"', "3", "LABEL")),
        ("PACKAGES =", "LABEL_CPU = 3; PACKAGES =", "LABEL_CPU"),
        *(
            ("def attention", "def attend", "attention"),
            ("def attention", "def", "line 7: "),
        ),
        ('("triton", "torch")', '"torch"', "PACKAGES"),
        ('("a_slow_library",)', '("one", 2)', "PRELOADS"),
        ("PACKAGES =", 'INPUTS = ("both",); PACKAGES =', "INPUTS"),
        ("PACKAGES =", 'INPUTS = ("separate",); PACKAGES =', "separate_attention"),
        ("PACKAGES =", 'TAKES = ("num_kv_heads",); PACKAGES =', "needs a line such as TAKES = "),
    ],
)
def test_what_a_kernel_lacks_is_named(tmp_path: Path, line: str, instead: str, said: str) -> None:
    with pytest.raises(ImplementationError, match=f"^{tmp_path / 'mine.py'}: .*{said}"):
        read(tmp_path, KERNEL.replace(line, instead, 1))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        *(("mine.py", BROKEN.encode()), ("attention.py", BROKEN.encode())),
        *(("mine.py", b"\xff\xfe\xff"), ("mine.py", b"NAME = '\x00'\n")),
    ],
    ids=["broken", "of any name", "no text", "no Python"],
)
def test_a_broken_file_hinders_no_other(tmp_path: Path, file: str, source: bytes) -> None:
    read(tmp_path, KERNEL.replace('"Mine"\n', '"Other"\n'), "other.py")
    broken = tmp_path / file
    broken.write_bytes(source)
    found = find_implementations(tmp_path)
    assert list(found) == ["Other"] and found["Other"].path == tmp_path / "other.py"
    with pytest.raises(ImplementationError, match=f"{broken}.*; so there is no .* Mine$"):
        found["Mine"]
