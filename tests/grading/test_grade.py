"""A sound submission passes every check; altered in one respect it fails that check, and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OWN_CHECKS = ("form", "arithmetic", "identity", "physics", "plausibility", "coverage")


def test_a_sound_submission_passes_every_check(
    sound: Any, graded: Callable[..., Any], tmp_path: Path
) -> None:
    sound.write(tmp_path / "class" / "ann")
    found = graded(tmp_path / "class")
    assert found.alarms() == []
    assert [found.of("ann")[check] for check in OWN_CHECKS] == ["pass"] * 6
    assert found.lines("not_checked") and {line.check for line in found.lines("not_checked")} == {
        "copies",
        "reproduction",
    }
