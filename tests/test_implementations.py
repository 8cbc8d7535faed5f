"""Kernel files: what they declare, read without running them, and what is wrong with one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from flashlab.benchmarks.implementations import (
    Implementation,
    ImplementationError,
    find_implementations,
    implementation_of,
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


def kernel(folder: Path, source: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return path


def declaring(folder: Path, line: str) -> Implementation:
    """The kernel with a further line."""
    return read_implementation(kernel(folder, f"{KERNEL}{line}\n", "further.py"))


def test_a_kernel_is_read_without_being_run(tmp_path: Path) -> None:
    path = kernel(tmp_path, KERNEL)
    plain = read_implementation(path)
    assert (plain.name, plain.label["zh_TW"]) == ("Mine", "我的")
    assert (plain.packages, plain.preloads) == (("triton", "torch"), ("a_slow_library",))
    assert plain.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    # A label is the report's: the digest, which tells whether to measure again, stays.
    labelled = declaring(tmp_path, 'LABEL_CPU = {"zh_TW": "處理器", "en": "On the CPU"}')
    assert (labelled.label_on("cuda"), labelled.label_on("cpu")["en"]) == (
        plain.label,
        "On the CPU",
    )
    assert plain.label_on("cpu") == plain.label and labelled.digest == plain.digest
    # What was unsupported is measured.
    sharing = declaring(tmp_path, 'TAKES = {"num_kv_heads": "in place"}')
    assert (plain.takes, sharing.takes) == ({}, {"num_kv_heads": "in place"})
    assert plain.digest != sharing.digest


def test_separate_inputs_are_given_where_they_are_taken_and_packed_ones_by_the_course(
    tmp_path: Path,
) -> None:
    plain, both = read_implementation(kernel(tmp_path, KERNEL)), declaring(tmp_path, BOTH)
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
        ('NAME = "Mine"', "", "needs a line such as NAME"),
        ('NAME = "Mine"', 'NAME = "a/b"', "NAME"),
        ('"zh_TW": "我的", ', "", "zh_TW"),
        ('"我的"', "3", "LABEL"),
        ("PACKAGES =", "LABEL_CPU = 3; PACKAGES =", "LABEL_CPU"),
        ("def attention", "def attend", "attention"),
        ("def attention", "def", "line 7: invalid syntax"),
        ('("triton", "torch")', '"torch"', "PACKAGES"),
        ('("a_slow_library",)', '("one", 2)', "PRELOADS"),
        ("PACKAGES =", 'INPUTS = ("both",); PACKAGES =', "INPUTS"),
        ("PACKAGES =", 'INPUTS = ("separate",); PACKAGES =', "separate_attention"),
        ("PACKAGES =", 'TAKES = ("num_kv_heads",); PACKAGES =', "needs a line such as TAKES = "),
    ],
)
def test_a_kernel_that_does_not_say_what_it_must_is_named(
    tmp_path: Path, line: str, instead: str, said: str
) -> None:
    path = kernel(tmp_path, KERNEL.replace(line, instead))
    with pytest.raises(ImplementationError) as caught:
        read_implementation(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        *(("mine.py", BROKEN.encode()), ("attention.py", BROKEN.encode())),
        *(("mine.py", b"\xff\xfe\xff"), ("mine.py", b"NAME = '\x00'\n"), ("mine.py", None)),
    ],
    ids=["broken", "of any name", "no text", "no Python", "a link to nowhere"],
)
def test_a_broken_file_matters_only_to_whoever_needs_it(
    tmp_path: Path, file: str, source: bytes | None
) -> None:
    other = kernel(tmp_path, KERNEL.replace('"Mine"\n', '"Other"\n'), "other.py")
    broken = tmp_path / file
    if source is None:
        broken.symlink_to(tmp_path / "nowhere")
    else:
        broken.write_bytes(source)
    found = find_implementations(tmp_path)
    assert list(found) == ["Other"] and found["Other"].path == other
    for name, said in (("Mine", "; so there is no implementation Mine"), ("Absent", "has Other")):
        with pytest.raises(ImplementationError) as caught:
            found[name]
        assert str(broken) in str(caught.value) and str(caught.value).endswith(said)
    assert str(caught.value).startswith("unknown implementation Absent; unusable: ")


def test_a_run_reads_no_kernel_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what is wrong with another one; a name that no file defines is told with all of them."""
    read: list[str] = []

    def noted(path: Path, *arguments: str) -> Implementation:
        read.append(path.name)
        return read_implementation(path, *arguments)

    monkeypatch.setattr("flashlab.benchmarks.implementations.read_implementation", noted)
    assert implementation_of(ATTENTION, "FlashLabPacked").packed_of == "FlashLab"
    assert "flash_lab.py" in read and "pytorch.py" not in read
    with pytest.raises(ImplementationError, match=r"kernels/ has .*Pytorch"):
        implementation_of(ATTENTION, "Absent")
