"""The modules that a call loads before it begins: most of the time of a short job."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

LARGE = {
    *("torch", "numpy", "scipy", "pandas", "matplotlib", "seaborn", "weasyprint", "jinja2"),
    *("pikepdf", "pydantic", "jsonschema", "rich"),
}


def _loaded(root: Path, module: str) -> list[str]:
    """The modules that are there once a fresh interpreter has imported this one."""
    code = f"import json, sys, {module}; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        check=True,
        stdout=subprocess.PIPE,
    )
    loaded: list[str] = json.loads(done.stdout)
    return loaded


@pytest.mark.parametrize(
    ("module", "large", "most"),
    [
        ("flashlab.__main__", set(), 170),
        ("flashlab.plan.call", {"pydantic"}, 345),  # every call of Snakemake
        ("flashlab.measuring.supervise", set(), 300),
        ("flashlab.analysis.tables", {"numpy", "scipy"}, 510),
        ("flashlab.story.stage", {"numpy", "pandas", "scipy"}, 900),
        ("flashlab.figures.stage", {"numpy", "scipy", "pandas", "matplotlib", "seaborn"}, 1550),
        # scipy.stats, which nothing of it needs, would be 300 modules and half a second more
        ("flashlab.report.render", {"numpy", "pandas", "scipy", "jinja2", "weasyprint"}, 1500),
    ],
)
def test_a_call_loads_no_more_than_it_needs(
    root: Path, module: str, large: set[str], most: int
) -> None:
    loaded = _loaded(root, module)
    assert {name.partition(".")[0] for name in loaded} & LARGE == large
    assert len(loaded) <= most


NOT_IMPORTED = {
    *("pygments", "pytest-xdist", "axe-playwright-python", "ruff", "mypy", "snakefmt"),
    "numba-cuda",  # as numba.cuda
}
"""Requirements that are called, read as files, or part of another one."""


def _imported(*places: Path) -> set[str]:
    """The top-level modules that the Python files at these places import."""
    files = [file for place in places for file in (place, *place.rglob("*.py"))]
    found = set()
    for file in filter(Path.is_file, files):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module))
    return {name.partition(".")[0] for name in found}


def test_the_requirements_are_what_is_imported(root: Path) -> None:
    lab, development = (
        set(re.findall(r"^[a-z][\w-]*", root.joinpath(file).read_text(), re.MULTILINE))
        for file in ("envs/cpu/requirements.in", "envs/dev/requirements.in")
    )
    ours = {
        path.stem
        for folder in (".", "workflow", "tests", "perf")
        for path in root.glob(f"{folder}/*")
    }
    brought_by = packages_distributions()

    def names(module: str) -> set[str]:
        """The PyPI names of the packages that have this module, or a part of this namespace."""
        return {name.lower().replace("_", "-") for name in brought_by.get(module, [module])}

    def check(modules: set[str], required: set[str]) -> set[str]:
        """Which of the requirements the modules are; each must be one."""
        others = modules - sys.stdlib_module_names - ours - {"flash_attn"}  # installed by itself
        assert {module for module in others if not names(module) & required} == set()
        return {name for module in others for name in names(module) & required}

    # PyTorch's CUDA build brings Triton; without it, the kernels that it compiles are unsupported.
    used = check(_imported(root / "workflow", root / "kernels", root / "lab5.py"), lab | {"triton"})
    used |= check(_imported(root / "tests", root / "perf"), lab | development)
    types = re.compile("types-.*|.*-stubs")
    unused = (lab | development) - used
    assert {name for name in unused if not types.fullmatch(name)} == NOT_IMPORTED
