"""Kernel files: what they declare, what is wrong with one, and what decides what it computes."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted.course import write
from planted.records import record_of

from flashlab import machine
from flashlab.benchmarks import implementations
from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import ImplementationError, read_implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS, find_benchmark
from flashlab.measuring.kernel import load_kernel
from flashlab.plan import identity
from flashlab.plan.runs import Namer
from flashlab.plan.state import upgrade_notices
from flashlab.records import write_record
from flashlab.runs import Run
from flashlab.sources import PACKAGE, sources_of
from flashlab.syntax import canonical_tree

KERNEL = """
import a_library_that_nobody_has
NAME = "Mine"
LABEL = {"zh_TW": "我的", "en": "Mine"}
PACKAGES = ("flash-attn", "torch")
PRELOADS = ("a_slow_library",)
def attention(qkv, causal): ...
"""
BOTH = (
    KERNEL
    + """
INPUTS = ("separate", "packed")
def separate_attention(q, k, v, causal): ...
"""
)


def read(folder: Path, source: str, name: str = "mine.py") -> implementations.Implementation:
    (folder / name).write_text(source, encoding="utf-8")
    return read_implementation(folder / name)


def test_a_kernel_is_read_without_being_run(tmp_path: Path) -> None:
    plain = read(tmp_path, KERNEL)
    assert (plain.name, plain.label["zh_TW"]) == ("Mine", "我的")
    assert (plain.packages, plain.preloads) == (("flash-attn", "torch"), ("a_slow_library",))
    # A label is the report's: the digest, which tells whether to measure again, stays.
    on_cpu = read(tmp_path, KERNEL + 'LABEL_CPU = {"zh_TW": "處理器", "en": "On the CPU"}')
    assert (on_cpu.label_on("cuda"), on_cpu.label_on("cpu")["en"]) == (plain.label, "On the CPU")
    assert on_cpu.digest == plain.digest
    sharing = read(tmp_path, KERNEL + 'TAKES = {"num_kv_heads": "in place"}')
    assert sharing.digest != plain.digest, "what was unsupported is measured"


def test_inputs_are_separate_where_taken_and_packed_by_the_course(tmp_path: Path) -> None:
    plain, both = read(tmp_path, KERNEL), read(tmp_path, BOTH)
    assert (plain.form(ATTENTION, "sampled"), plain.form(ATTENTION, "lab5")) == ("packed",) * 2
    assert (both.form(ATTENTION, "sampled"), both.form(ATTENTION, "lab5")) == ("separate", "packed")
    assert both.form(find_benchmark("training"), "sampled") is None
    found = implementations.implementations_of(ATTENTION)
    flash2, packed = found["Flash2"], found["Flash2Packed"]
    assert packed.form(ATTENTION, "sampled") == "packed"
    assert (packed.digest, packed.path) == (flash2.digest, flash2.path)
    assert "Flash2Packed" not in implementations.implementations_of(find_benchmark("training"))


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        *(('NAME = "Mine"', "", "needs a line such as NAME"), ('"Mine"', '"a/b"', "NAME")),
        *(('"zh_TW": "我的", ', "", "zh_TW"), ('("flash-attn", "torch")', '"torch"', "PACKAGES")),
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
    other = read(tmp_path, KERNEL.replace('"Mine"\n', '"Other"\n'), "other.py")
    (tmp_path / "mine.py").write_bytes(source)
    found = implementations.find_implementations(tmp_path)
    assert {**found} == {"Other": other}
    with pytest.raises(ImplementationError, match=r"/mine\.py.*; so there is no .* Mine$"):
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
    return write(tmp_path / "kernels", FILES)


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
        *(("causal=False", "causal=0", True), ("causal=False", "causal='False'", True)),
        *(("1e-3", "'1e-3'", True), ("/, *rest", "*rest", True)),
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


# What gives a record another name, and what does not

Named = Callable[..., str]
SHAPE = Shape(1, 128, 8, 512, False)
RUN = attention_run("Mine", SHAPE, "float16", "cuda")
ON_CPU = replace(RUN, device="cpu")
PROTOCOL = {"name": "sampled", "relative_interval": 0.01, "max_seconds": 0.5, "timeout_s": 300}


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Names the record of RUN on a machine as it can be changed one thing at a time."""

    def name(run: Run = RUN, benchmark: Benchmark = ATTENTION, **change: Any) -> str:
        now = {"protocol": PROTOCOL, "kernel": KERNEL, "driver": "570.1", "gpu": "H200"} | change
        versions = {"torch": "2.0", "flash-attn": "2.8"} | change
        monkeypatch.setattr(machine, "package_version", versions.get)
        monkeypatch.setattr(machine, "driver_version", lambda: now["driver"])
        monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("GPU-1", now["gpu"])])
        mine = read(tmp_path, now["kernel"])
        return identity.record_name(run, identity.identity(benchmark, run, now["protocol"], mine))

    return name


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": KERNEL.replace("...", "return qkv")},
        *({"torch": "2.1"}, {"flash-attn": "2.9"}, {"gpu": "H100"}),
        {"protocol": {**PROTOCOL, "max_seconds": 1.0}},
        {"run": replace(RUN, dtype="bfloat16")},
        {"run": attention_run("Mine", replace(SHAPE, causal=True), "float16", "cuda")},
        # The same kernel given q, k and v in another form is another measurement.
        {"kernel": BOTH, "benchmark": replace(ATTENTION, packed_protocols=("sampled",))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_numbers_is_in_the_name(named: Named, change: dict[str, Any]) -> None:
    assert named(**change) not in (named(), named(kernel=BOTH))


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": KERNEL + "# a comment\n"},
        {"kernel": KERNEL.replace("我的", "他的")},
        {"protocol": {**PROTOCOL, "timeout_s": 600}},
        {"protocol": dict(reversed(PROTOCOL.items()))},
        *({"driver": "580.0"}, {"run": ON_CPU, "gpu": "T4", "driver": "1"}),
    ],
    ids=["a comment", "the label", "the time limit", "the keys' order", "the driver", "on the CPU"],
)
def test_what_decides_no_number_is_out(named: Named, change: dict[str, Any]) -> None:
    assert named(**change) == named(run=change.get("run", RUN))


def test_ceilings_are_of_a_device_and_a_pytorch(named: Named) -> None:
    def name(**change: str) -> str:
        named(**change)
        return identity.ceilings_name("cuda", machine.device_name("cuda"))

    assert len({name(), name(torch="2.1"), name(gpu="H100")}) == 3
    assert name() == name(driver="580.0")


def test_code_that_measures_counts_and_a_release_does_not(named: Named, monkeypatch: Any) -> None:
    before, digest = named(), identity._tree_digest
    monkeypatch.setattr(identity, "measuring_digest", identity.measuring_digest.__wrapped__)
    edited = Path()
    monkeypatch.setattr(identity, "_tree_digest", lambda p: "" if p == edited else digest(p))
    for name in ("statistics", "benchmarks/attention/gate", "version"):
        edited = PACKAGE / f"{name}.py"
        assert (named() == before) == (name == "version"), name
    measuring = [*identity.MEASURING_PROCESS, *(b.measure for b in BENCHMARKS.values())]
    sources = {path for module in measuring for path in sources_of(module)}
    assert not [path for path in sources if "__version__ =" in path.read_text(encoding="utf-8")]


# What a call says of runs that were measured before

EDITED = KERNEL.replace("...", "return qkv")
RUNS = [ON_CPU, replace(ON_CPU, dtype="float32")]


@pytest.fixture
def notices(tmp_path: Path) -> Callable[..., list[str]]:
    """The notices of a call, after both runs were measured under its folder."""

    def namer(source: str) -> Namer:
        mine = {"Mine": read(tmp_path, source)}
        return Namer(ATTENTION, mine, tmp_path / "records", machine.device_name("cpu"))

    def found(source: str = KERNEL, **protocol: object) -> list[str]:
        named = namer(source)
        return upgrade_notices([named.entry(run, PROTOCOL | protocol) for run in RUNS], named)

    assert found() == [], "they are measured for the first time"
    named, environment = namer(KERNEL), {"device_name": machine.device_name("cpu")}
    for run in RUNS:
        by = identity.sources(named.identity_of(run, PROTOCOL, 0), named.implementations["Mine"])
        record = record_of(run, protocol=PROTOCOL, sources=by, environment=environment)
        write_record(named.entry(run, PROTOCOL).path, record)
    return found


def test_what_has_changed_since_a_run_is_said(notices: Callable[..., list[str]]) -> None:
    changed = "2 processes measured before; changed since: "
    assert notices() == []
    assert notices(EDITED) == [f"{changed}Mine"]
    assert notices(EDITED, max_seconds=1.0) == [f"{changed}the protocol, Mine"]
    assert notices(EDITED, name="lab5") == [], "those were by another protocol"


def test_the_newest_sound_record_counts(tmp_path: Path, notices: Callable[..., list[str]]) -> None:
    records = [*(tmp_path / "records").iterdir()]
    for old in records:
        document = json.loads(old.read_bytes())
        document["record"]["sources"]["measuring_digest"] = "older"
        older = old.with_name(f"{old.stem[:-12]}{'0' * 12}.json")
        older.write_text(json.dumps(document))
        os.utime(older, (1, 1))
    assert notices(EDITED) == ["2 processes measured before; changed since: Mine"]
    for path in (tmp_path / "records").iterdir():
        path.write_text("{")
    records[0].unlink()
    records[0].symlink_to(tmp_path / "unmounted")
    assert notices(EDITED) == [], "damaged ones are no reason"
