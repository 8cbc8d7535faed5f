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


@pytest.mark.parametrize(
    ("module", "large", "most"),
    [
        ("flashlab.__main__", set(), 200),
        ("flashlab.stage", set(), 200),  # what a job loads before a warm fork takes over
        ("flashlab.calls.prepare", {"pydantic"}, 345),  # every call of Snakemake
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
    code = f"import json, sys, {module}; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        check=True,
        stdout=subprocess.PIPE,
    )
    loaded = json.loads(done.stdout)
    assert {name.partition(".")[0] for name in loaded} & LARGE == large
    assert len(loaded) <= most
