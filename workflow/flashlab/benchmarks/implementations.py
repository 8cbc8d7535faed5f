"""The implementations in ``kernels/``: names, labels and sources, read without running.

Snakemake reads this at every call, so nothing here imports torch: name, label and packages are
literals at the top of each kernel's file and are read from its syntax tree.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashlab.benchmarks.model import Benchmark
from flashlab.syntax import KernelSourceError, kernel_digest

KERNELS = Path(__file__).parents[3] / "kernels"
ENTRY_POINT = "attention(qkv, causal)"
SEPARATE, PACKED = "separate", "packed"
ENTRY_POINTS = {SEPARATE: "separate_attention(q, k, v, causal)", PACKED: ENTRY_POINT}
"""The functions of an attention kernel by the form of their inputs: three tensors (B, N, H, D),
each a leaf with a gradient of its own, or one (B, N, 3, H, D)."""

PACKED_TWIN = "Packed"
"""The suffix of the name of an implementation that takes both forms, where it is given the packed
one."""

_NAMES = re.compile(r"^NAME\s*=\s*[\"'](\w+)", re.MULTILINE)
"""The NAME in a file that cannot be parsed."""

_LABEL = {"zh_TW": "…", "en": "…"}
DECLARED: dict[str, tuple[Any, Any]] = {
    **{"NAME": ("MyKernel", ...), "LABEL": (_LABEL, ...), "LABEL_CPU": (_LABEL, None)},
    **{"PACKAGES": (("torch",), ("torch",)), "PRELOADS": (("flash_attn",), ())},
    **{"SOURCES": (("lib/mine.cu",), ()), "TUNED_ON": (("NVIDIA H200",), ())},
    **{"INPUTS": ((SEPARATE, PACKED), (PACKED,)), "STORES_SCORES": (True, False)},
    **{"TAKES": ({"num_kv_heads": "in place"}, {}), "PREVIOUS": ("Naive", None)},
    "IDEA": (_LABEL, None),
}
"""What a kernel file declares: an example, and what it has if it does not say; it must say NAME and
LABEL."""


class ImplementationError(Exception):
    """A kernel file that lacks a required declaration, or a name that no kernel file has."""


@dataclass(frozen=True)
class Implementation:
    """One file of ``kernels/``.

    `packages` are the distributions whose code the kernel runs; a run is
    measured again when one of them changes. `preloads` are modules that are slow to import and
    touch no device, which a server imports once for all runs.

    `label_cpu` is its label where it is measured on a CPU, None where it is the same. `previous`
    names the implementation that it goes one step beyond, and `idea` says by what.

    `digest` covers everything that decides what the kernel computes: the file, what it imports
    below ``kernels/``, and the files that it names in ``SOURCES``. `sha256` identifies the file.

    `takes` are the parameters that an attention kernel takes beyond those that every one does, and
    how: of ``num_kv_heads`` whether it reads shared keys and values ``in place``, or has them
    ``repeated``. Where another one is not as by default, its runs are unsupported.

    `stores_scores` is whether an attention kernel holds the N × N scores in memory. `tuned_on`
    names the devices by measurements on which this project chose its kernel's tiles; it is empty
    for the kernels of others.

    `inputs` are the forms in which an attention kernel takes q, k and v without a copy; empty for
    another benchmark's. `packed_of` names the one that this is with packed inputs (`packed_twin`).
    """

    name: str
    label: dict[str, str]
    packages: tuple[str, ...]
    preloads: tuple[str, ...]
    path: Path
    sha256: str
    digest: str
    label_cpu: dict[str, str] | None = None
    previous: str | None = None
    idea: dict[str, str] | None = None
    inputs: tuple[str, ...] = ()
    packed_of: str | None = None
    takes: Mapping[str, str] = field(default_factory=dict)
    stores_scores: bool = False
    tuned_on: tuple[str, ...] = ()

    def label_on(self, device: str) -> dict[str, str]:
        """Its label in the report of a kind of device (``cuda`` or ``cpu``), by language."""
        return self.label_cpu if device == "cpu" and self.label_cpu else self.label

    def form(self, benchmark: Benchmark, protocol: str) -> str | None:
        """The form in which a protocol gives it q, k and v: separate wherever it is taken.

        None where the benchmark has no inputs in several forms.
        """
        if benchmark.packed_protocols is None:
            return None
        is_packed = protocol in benchmark.packed_protocols or SEPARATE not in self.inputs
        return PACKED if is_packed else SEPARATE

    def packed_twin(self) -> Implementation | None:
        """Itself with packed inputs, by a name of its own; None where it takes one form alone."""
        if len(self.inputs) < 2:
            return None
        label, label_cpu = (
            {language: f"{text} (qkv)" for language, text in self.label_on(device).items()}
            for device in ("cuda", "cpu")
        )
        twin = replace(self, name=f"{self.name}{PACKED_TWIN}", inputs=(PACKED,))
        return replace(twin, label=label, label_cpu=label_cpu, packed_of=self.name)


def _literals(tree: ast.Module) -> dict[str, Any]:
    literals: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with suppress(ValueError, TypeError, RecursionError, MemoryError):  # not a literal
                literals[node.targets[0].id] = ast.literal_eval(node.value)
    return literals


def _is_right(key: str, literal: Any) -> bool:
    """True if a literal is as the example of `DECLARED`, with texts of its own."""
    example, default = DECLARED[key]
    if literal is default:
        return literal is not ...
    if type(literal) is not type(example) or isinstance(literal, bool):
        return type(literal) is type(example)
    texts = [*literal, *literal.values()] if isinstance(literal, dict) else literal
    if not all(isinstance(text, str) for text in texts):
        return False
    if key == "INPUTS":
        return bool(literal) and {*literal} <= {*ENTRY_POINTS}
    if key == "NAME":
        return bool(literal.isidentifier())
    return example is not _LABEL or _LABEL.keys() <= literal.keys()


def read_kernel_file(path: Path) -> Implementation:
    """Read a kernel file that need not declare a NAME and a LABEL: by default its file's name.

    Otherwise as `read_implementation`.
    """
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    name = name if name.isidentifier() else f"_{name}"
    defaults = {"NAME": name, "LABEL": {"zh_TW": name, "en": name}}
    return read_implementation(path, defaults=defaults)


def read_implementation(
    path: Path, entry_point: str = ENTRY_POINT, defaults: Mapping[str, Any] | None = None
) -> Implementation:
    """Read what a kernel file declares.

    The literals of `DECLARED`; `defaults` stand in for NAME and LABEL. IDEA and PREVIOUS are those
    of a step beyond another one; a form of INPUTS has the function of `ENTRY_POINTS`.

    ImplementationError where one is missing, there is no function `entry_point`, such as
    ``attention(qkv, causal)``, or a file that the kernel imports or names cannot be read.
    """
    source = path.read_bytes()
    try:
        tree = ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise ImplementationError(f"{path}: line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL; nested too deeply
        raise ImplementationError(f"{path}: {error}") from error
    given = {**(defaults or {}), **_literals(tree)}
    literals = {key: given.get(key, default) for key, (_, default) in DECLARED.items()}
    for key, (example, _) in DECLARED.items():
        if not _is_right(key, literals[key]):
            raise ImplementationError(f"{path}: needs a line such as {key} = {example!r}")
    inputs = literals["INPUTS"] if entry_point == ENTRY_POINT else ()
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for function in (entry_point, *(ENTRY_POINTS[form] for form in inputs)):
        if function.partition("(")[0] not in functions:
            raise ImplementationError(f"{path}: needs a function {function}")
    try:
        digest = kernel_digest(path, literals["SOURCES"])
    except KernelSourceError as error:
        raise ImplementationError(str(error)) from error
    declared = {key.lower(): literals[key] for key in DECLARED if key != "SOURCES"}
    sha256 = hashlib.sha256(source).hexdigest()
    return Implementation(**declared | {"inputs": inputs}, path=path, sha256=sha256, digest=digest)


class Implementations(dict[str, Implementation]):
    """Implementations by name, and the fault of each file that defines none.

    `folder` is where they are, as messages name it; `broken` has each problem by the names of the
    file and of what it seems to define, as `_plain` has them.

    A broken file stops only the calls that ask for a name that is not here: the ImplementationError
    gives the problem of that name, or every broken file, and lists the names that are here.
    """

    def __init__(
        self,
        usable: Mapping[str, Implementation],
        broken: Mapping[str, str],
        folder: str = "kernels/",
    ) -> None:
        super().__init__(usable)
        self.broken, self.folder = broken, folder

    def __missing__(self, name: str) -> Implementation:
        raise ImplementationError(describe_unknown(name, self))


def _plain(name: str) -> str:
    """A name in lower case and without underscores, alike for a file and its implementation."""
    return name.casefold().replace("_", "")


def describe_unknown(name: str, *known: Collection[str], meant: str | None = None) -> str:
    """The message that no known implementation has a name; `meant` is a hint at another one.

    The fault of the file that would define it, where there is one; otherwise every file's fault,
    then the names that there are.
    """
    choices, close = [], difflib.get_close_matches(name, itertools.chain(*known), n=1)
    if meant is None:
        meant = f" (did you mean {close[0]}?)" if close else ""
    for names in known:
        folder, broken = getattr(names, "folder", "kernels/"), getattr(names, "broken", {})
        if problem := broken.get(_plain(name)):
            return f"{problem}; so there is no implementation {name}"
        choices += [f"unusable: {problem}" for problem in dict.fromkeys(broken.values())]
        choices.append(f"{folder} has {', '.join(names)}")
    return "; ".join([f"unknown implementation {name}{meant}", *choices])


def implementations_of(benchmark: Benchmark, naming: str = "") -> Implementations:
    """All implementations of a benchmark's problem by name; `naming` as in `find_implementations`.

    One that takes its inputs in both forms is there twice (`Implementation.packed_twin`), if the
    benchmark gives both.
    """
    usable = find_implementations(KERNELS / benchmark.kernels, benchmark.entry_point, naming)
    if benchmark.packed_protocols is not None:
        twins = [twin for one in usable.values() if (twin := one.packed_twin())]
        usable |= {twin.name: twin for twin in twins if twin.name not in usable}
    return usable


def implementation_of(benchmark: Benchmark, name: str) -> Implementation:
    """The implementation of this name; all are read only where none that holds it defines it."""
    named = implementations_of(benchmark, naming=name.removesuffix(PACKED_TWIN))
    return (named if name in named else implementations_of(benchmark))[name]


def find_implementations(
    folder: Path = KERNELS, entry_point: str = ENTRY_POINT, naming: str = ""
) -> Implementations:
    """All implementations of a folder by name; each defines the function `entry_point`.

    A file that lacks a required declaration, and files that share a NAME, count as broken. With
    `naming` only those files are read that hold this text: the digests of all take 50 ms of a job.
    """
    by_name: dict[str, list[Implementation]] = {}
    broken: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        try:
            if naming and naming.encode() not in path.read_bytes():
                continue
            implementation = read_implementation(path, entry_point)
        except (ImplementationError, OSError) as error:
            names = [path.stem]
            with suppress(OSError):
                names += _NAMES.findall(path.read_text(encoding="utf-8", errors="replace"))
            broken |= dict.fromkeys(map(_plain, names), str(error))
        else:
            by_name.setdefault(implementation.name, []).append(implementation)
    for name, sharing in by_name.items():
        if len(sharing) > 1:
            paths = ", ".join(str(implementation.path) for implementation in sharing)
            broken[_plain(name)] = f"{paths}: all have the NAME {name}; rename all but one"
    unique = {name: sharing[0] for name, sharing in by_name.items() if len(sharing) == 1}
    shown = f"kernels/{folder.name}/" if folder.parent == KERNELS else "kernels/"
    return Implementations(unique, broken, shown)
