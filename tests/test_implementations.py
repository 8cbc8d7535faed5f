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


def kernel(folder: Path, source: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return path


def test_a_kernel_is_read_without_being_run(tmp_path: Path) -> None:
    path = kernel(tmp_path, KERNEL)
    found = read_implementation(path)
    assert (found.name, found.label["zh_TW"]) == ("Mine", "我的")
    assert found.packages == ("triton", "torch")
    assert found.preloads == ("a_slow_library",)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_kernel_may_have_another_label_on_a_cpu(tmp_path: Path) -> None:
    """The label is the report's: the digest, which tells whether to measure again, stays."""
    plain = read_implementation(kernel(tmp_path, KERNEL))
    label = 'LABEL_CPU = {"zh_TW": "處理器", "en": "On the CPU"}\n'
    marked = read_implementation(
        kernel(tmp_path, KERNEL.replace("PACKAGES", label + "PACKAGES", 1))
    )
    assert (marked.label_on("cuda"), marked.label_on("cpu")["en"]) == (plain.label, "On the CPU")
    assert plain.label_on("cpu") == plain.label
    assert marked.digest == plain.digest


BOTH = (
    KERNEL
    + """
INPUTS = ("separate", "packed")
def separate_attention(q, k, v, causal): ...
"""
)


def test_a_kernel_is_given_separate_inputs_where_it_takes_them_and_packed_ones_by_the_course(
    tmp_path: Path,
) -> None:
    plain = read_implementation(kernel(tmp_path, KERNEL))
    both = read_implementation(kernel(tmp_path, BOTH, "both.py"))
    assert (plain.form(ATTENTION, "sampled"), plain.form(ATTENTION, "lab5")) == ("packed",) * 2
    assert (both.form(ATTENTION, "sampled"), both.form(ATTENTION, "lab5")) == ("separate", "packed")
    assert both.form(find_benchmark("training"), "sampled") is None


def test_a_kernel_says_which_parameters_it_takes_beyond_those_of_all(tmp_path: Path) -> None:
    plain = read_implementation(kernel(tmp_path, KERNEL))
    line = 'TAKES = {"num_kv_heads": "in place"}; PACKAGES ='
    sharing = read_implementation(kernel(tmp_path, KERNEL.replace("PACKAGES =", line), "s.py"))
    assert (plain.takes, sharing.takes) == ({}, {"num_kv_heads": "in place"})
    assert plain.digest != sharing.digest  # what was unsupported is measured


def test_a_kernel_that_takes_both_forms_can_be_named_with_packed_inputs() -> None:
    found = implementations_of(ATTENTION)
    flash2, packed = found["Flash2"], found["Flash2Packed"]
    assert packed.form(ATTENTION, "sampled") == "packed"
    assert (packed.digest, packed.path) == (flash2.digest, flash2.path)
    assert "SdpaCudnnPacked" not in found
    assert "Flash2Packed" not in implementations_of(find_benchmark("training"))


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ('NAME = "Mine"', "", "NAME"),
        ('NAME = "Mine"', 'NAME = "a/b"', "NAME"),
        ('"zh_TW": "我的", ', "", "zh_TW"),
        ('"我的"', "3", "LABEL"),
        ("PACKAGES =", "LABEL_CPU = 3; PACKAGES =", "LABEL_CPU"),
        ("def attention", "def attend", "attention"),
        ("def attention", "def", "line 7"),
        ('("triton", "torch")', '"torch"', "PACKAGES"),
        ('("a_slow_library",)', '("one", 2)', "PRELOADS"),
        ("PACKAGES =", 'INPUTS = ("both",); PACKAGES =', "INPUTS"),
        ("PACKAGES =", 'INPUTS = ("separate",); PACKAGES =', "separate_attention"),
        ("PACKAGES =", 'TAKES = ("num_kv_heads",); PACKAGES =', "TAKES must name parameters"),
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


def other_kernel(folder: Path) -> Path:
    return kernel(folder, KERNEL.replace('"Mine"\n', '"Other"\n'), "other.py")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (KERNEL.replace("def attention", "def").encode(), "line 7: invalid syntax"),
        (KERNEL.replace('NAME = "Mine"', "").encode(), "needs a line such as NAME"),
        (b"\xff\xfe\xff", ""),
        (b"NAME = '\x00'\n", ""),
        (
            None,
            "",
        ),
    ],
)
def test_a_broken_file_matters_only_to_whoever_needs_it(
    tmp_path: Path, source: bytes | None, problem: str
) -> None:
    other_kernel(tmp_path)
    broken = tmp_path / "mine.py"
    if source is None:
        broken.symlink_to(tmp_path / "nowhere")
    else:
        broken.write_bytes(source)
    found = find_implementations(tmp_path)
    assert list(found) == ["Other"]
    assert found["Other"].path == tmp_path / "other.py"
    with pytest.raises(ImplementationError) as caught:
        found["Mine"]
    said = str(caught.value)
    assert said.partition(": ")[0].endswith(str(broken)) or "Errno" in said
    assert str(broken) in said and problem in said
    assert said.endswith("; so there is no implementation Mine")
    with pytest.raises(ImplementationError) as caught:
        found["Absent"]
    assert str(caught.value).startswith("unknown implementation Absent; unusable: ")
    assert str(caught.value).endswith("; kernels/ has Other")
    assert str(broken) in str(caught.value) and problem in str(caught.value)


def test_files_that_share_a_name_are_an_error_only_where_it_is_asked_for(tmp_path: Path) -> None:
    other_kernel(tmp_path)
    one, two = (kernel(tmp_path, KERNEL, name) for name in ("one.py", "two.py"))
    found = find_implementations(tmp_path)
    assert list(found) == ["Other"]
    with pytest.raises(ImplementationError) as caught:
        found["Mine"]
    assert str(caught.value) == (
        f"{one}, {two}: all have the NAME Mine; rename all but one; so there is no "
        "implementation Mine"
    )


@pytest.mark.parametrize("file", ["mine.py", "m_ine.py", "attention.py"])
def test_the_fault_of_a_file_comes_first_whatever_the_file_is_called(
    tmp_path: Path, file: str
) -> None:
    other_kernel(tmp_path)
    broken = kernel(tmp_path, KERNEL.replace("def attention", "def"), file)
    with pytest.raises(ImplementationError) as caught:
        find_implementations(tmp_path)["Mine"]
    said = f"{broken}: line 7: invalid syntax; so there is no implementation Mine"
    assert str(caught.value) == said


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
