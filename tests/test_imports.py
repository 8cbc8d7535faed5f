"""What a call loads before it begins: imports are most of the time of a short job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LARGE = {
    *("torch", "numpy", "scipy", "pandas", "matplotlib", "seaborn", "weasyprint", "jinja2"),
    *("pikepdf", "pydantic", "jsonschema", "rich"),
}


def _loaded(root: Path, module: str, *flags: str) -> list[str]:
    """The modules that are there once a fresh interpreter has imported this one."""
    code = f"import json, sys, {module}; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        check=True,
        stdout=subprocess.PIPE,
    )
    loaded: list[str] = json.loads(done.stdout)
    return loaded


@pytest.mark.parametrize(
    ("module", "large", "most"),
    [
        ("flashlab.__main__", set(), 200),
        ("flashlab.calls.prepare", {"pydantic"}, 345),  # every call of Snakemake
        ("flashlab.measuring.jobs", set(), 245),
        ("flashlab.analysis.tables", {"numpy", "scipy"}, 510),
        ("flashlab.analysis.derive", {"numpy", "scipy"}, 575),
        ("flashlab.figures.stage", {"numpy", "scipy", "pandas", "matplotlib", "seaborn"}, 1550),
        # scipy.stats, which nothing of it needs, would be 300 modules and half a second more
        ("flashlab.report.render", {"numpy", "scipy", "jinja2", "weasyprint"}, 1040),
    ],
)
def test_a_call_loads_no_more_than_it_needs(
    root: Path, module: str, large: set[str], most: int
) -> None:
    loaded = _loaded(root, module)
    assert {name.partition(".")[0] for name in loaded} & LARGE == large
    assert len(loaded) <= most


def test_a_job_loads_next_to_nothing_before_a_fork_takes_over(root: Path) -> None:
    loaded = _loaded(root, "flashlab.stage", "-S")
    ours = {name for name in loaded if name.startswith("flashlab")}
    assert ours == {"flashlab", "flashlab.calls", "flashlab.calls.stages", "flashlab.stage"}
    assert len(loaded) <= 75
