"""The modules that a call loads before it begins, most of the time of a short job; requirements."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from planted.project import ROOT

LARGE = {
    *("torch", "numpy", "scipy", "pandas", "matplotlib", "seaborn", "weasyprint", "jinja2"),
    *("pikepdf", "pydantic", "jsonschema", "rich"),
}


RULES = sorted(
    {
        module
        for file in ROOT.glob("workflow/rules/*.smk")
        for module in re.findall(r"^from (flashlab\S*) import", file.read_text(), re.MULTILINE)
    }
)
"""What the rules import at every call of Snakemake."""


@pytest.mark.parametrize(
    ("module", "large", "most"),
    [
        ("flashlab.__main__", set(), 170),
        (", ".join(RULES), {"pydantic"}, 350),
        ("flashlab.measuring.supervise", set(), 300),
        ("flashlab.analysis.tables", {"numpy", "scipy"}, 510),
        ("flashlab.story.stage", {"numpy", "pandas", "scipy"}, 900),
        ("flashlab.figures.stage", {"numpy", "scipy", "pandas", "matplotlib", "seaborn"}, 1550),
        # scipy.stats, which nothing of it needs, would be 300 modules and half a second more
        ("flashlab.report.render", {"numpy", "pandas", "scipy", "jinja2", "weasyprint"}, 1500),
    ],
)
def test_a_call_loads_no_more_than_it_needs(module: str, large: set[str], most: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    loaded = done.stdout.split()
    assert {name.partition(".")[0] for name in loaded} & LARGE == large
    assert len(loaded) <= most


NOT_IMPORTED = {
    *("pygments", "pytest-xdist", "axe-playwright-python", "ruff", "mypy", "snakefmt"),
    "numba-cuda",  # as numba.cuda
}
"""Requirements that are called, read as files, or part of another one."""


def imported(*places: str) -> set[str]:
    """The top-level modules of others that the Python files at these places import."""
    found = set()
    for file in (file for place in places for file in ROOT.glob(place)):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module))
    ours = {p.stem for at in (".", "workflow", "tests", "perf") for p in ROOT.glob(f"{at}/*")}
    ours |= {"flash_attn"}  # installed by itself
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - ours


def test_the_requirements_are_what_is_imported() -> None:
    lab, development = (
        {*re.findall(r"^[a-z][\w-]*", (ROOT / "envs" / file).read_text(), re.MULTILINE)}
        for file in ("cpu/requirements.in", "dev/requirements.in")
    )
    brought_by = packages_distributions()
    used = set()
    # PyTorch's CUDA build brings Triton; without it, the kernels that it compiles are unsupported.
    for places, required in (
        (("workflow/**/*.py", "kernels/**/*.py", "lab5.py"), lab | {"triton"}),
        (("tests/**/*.py", "perf/**/*.py"), lab | development),
    ):
        for module in imported(*places):
            brought = {n.lower().replace("_", "-") for n in brought_by.get(module, [module])}
            assert brought & required, module
            used |= brought & required
    types = re.compile("types-.*|.*-stubs")
    unused = (lab | development) - used
    assert {name for name in unused if not types.fullmatch(name)} == NOT_IMPORTED
