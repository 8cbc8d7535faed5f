"""The attention implementations in ``kernels/``: their names, labels and sources, unrun.

Snakemake reads this at every call, so nothing here imports torch: name, label and packages are
literals at the top of each kernel's file and are read from its syntax tree.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parents[2] / "kernels"


class ImplementationError(Exception):
    """A kernel file that does not say what it must, or a name that no kernel file has."""


@dataclass(frozen=True)
class Implementation:
    """One file of ``kernels/``.

    `packages` are the distributions whose versions decide what the kernel runs; a run is
    measured again when one of them changes. `preloads` are modules slow to import that touch no
    device, which the warm parent imports once for all runs.
    """

    name: str
    label: dict[str, str]
    packages: tuple[str, ...]
    preloads: tuple[str, ...]
    path: Path
    sha256: str


def _literals(tree: ast.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def _words(literals: dict[str, Any], key: str, default: tuple[str, ...], path: Path) -> Any:
    """A literal that is a tuple of strings; ImplementationError where it is anything else."""
    words = literals.get(key, default)
    if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
        raise ImplementationError(f'{path}: {key} must be a tuple such as ("torch",)')
    return words


def read_implementation(path: Path) -> Implementation:
    """Read what a kernel file says of itself.

    NAME, LABEL (one for each language), PACKAGES (torch if unsaid) and PRELOADS (none if unsaid).

    ImplementationError where one is missing or there is no function ``attention(qkv, causal)``.
    """
    source = path.read_bytes()
    try:
        tree = ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise ImplementationError(f"{path}: line {error.lineno}: {error.msg}") from error
    except ValueError as error:  # a NUL, before Python 3.11.4
        raise ImplementationError(f"{path}: {error}") from error
    literals = _literals(tree)
    name, label = literals.get("NAME"), literals.get("LABEL")
    if not isinstance(name, str) or not name.isidentifier():
        raise ImplementationError(f'{path}: needs a line such as NAME = "MyKernel" (a word)')
    if (
        not isinstance(label, dict)
        or not {"zh_TW", "en"} <= label.keys()
        or not all(isinstance(text, str) for text in label.values())
    ):
        raise ImplementationError(f'{path}: needs LABEL = {{"zh_TW": …, "en": …}}')
    if not any(isinstance(n, ast.FunctionDef) and n.name == "attention" for n in tree.body):
        raise ImplementationError(f"{path}: needs a function attention(qkv, causal)")
    packages = _words(literals, "PACKAGES", ("torch",), path)
    preloads = _words(literals, "PRELOADS", (), path)
    digest = hashlib.sha256(source).hexdigest()
    return Implementation(name, label, packages, preloads, path, digest)


def find_implementations(folder: Path = KERNELS) -> dict[str, Implementation]:
    """All implementations of a folder by name; ImplementationError where two share one."""
    found: dict[str, Implementation] = {}
    for path in sorted(folder.glob("*.py")):
        implementation = read_implementation(path)
        if other := found.get(implementation.name):
            raise ImplementationError(
                f"{path}: the name {implementation.name} is taken by {other.path}"
            )
        found[implementation.name] = implementation
    return found
