"""The scripts in perf/, which are run by hand, find what they import."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).parents[1].joinpath("perf").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_can_be_started(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    assert runpy.run_path(str(script))["__doc__"]
