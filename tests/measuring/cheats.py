"""Kernels that are not what their times or memory say, and what is said of each (`cheats.toml`)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

CHEATS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
HEAD: str = CHEATS.pop("head")


def refused_on(device: str) -> list[str]:
    """The names of those that have no times on a device."""
    return [name for name, cheat in CHEATS.items() if device in cheat.get("devices", ["cpu"])]
