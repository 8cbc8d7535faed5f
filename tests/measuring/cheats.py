"""Kernels that are not what their times or memory say, and what is said of each (`cheats.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Cheat(NamedTuple):
    """A kernel after `HEAD`, what is said of it, and the devices on which it has no times."""

    body: str
    said: str = ""
    devices: Sequence[str] = ("cpu",)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HEAD: str = _TABLE.pop("head")
CHEATS = {name: Cheat(**row) for name, row in _TABLE.items()}


def refused_on(device: str) -> list[str]:
    """The names of those that have no times on a device."""
    return [name for name, cheat in CHEATS.items() if device in cheat.devices]
