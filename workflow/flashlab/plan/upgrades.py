"""The reasons to measure recorded runs again: the changes since their records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flashlab.plan.datasets import Entry
from flashlab.plan.identity import DIGITS, deciding
from flashlab.plan.runs import Namer


def _older(folder: Path) -> dict[str, Path]:
    """The newest record in a folder by the words of its name: the run and the process."""
    name = re.compile(rf"(.+)-[0-9a-f]{{{DIGITS}}}\.json")
    files = [path for path in folder.glob("*.json") if path.exists()]  # a link may lead nowhere
    paths = sorted(files, key=lambda path: path.stat().st_mtime)
    return {match[1]: path for path in paths if (match := name.fullmatch(path.name))}


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The differences, in words, between an older record and the identity planned now."""
    sources = before["sources"]
    if before["environment"].get("device_name") != now["device"]:
        yield "the device"
    if deciding(before["protocol"]) != now["protocol"]:
        yield "the protocol"
    if sources.get("implementation_digest") != now["implementation"]:
        yield before["run"]["implementation"]
    if sources.get("inputs") != now["inputs"]:
        yield "the form of inputs"
    if sources.get("measuring_digest") != now["measuring"]:
        yield "the code that measures"
    for package, version in now["versions"].items():
        if (was := sources["versions"].get(package)) != version:
            yield f"{package} ({version or 'missing'}, was {was})"


def upgrade_notices(planned: Iterable[Entry], namer: Namer) -> list[str]:
    """One line, where runs were measured before: how many, and all that has changed since."""
    missing = [entry for entry in planned if not entry.path.exists()]
    older = _older(namer.folder) if missing else {}
    count, changes = 0, dict[str, None]()
    for entry in missing:
        path = older.get(entry.path.stem.rpartition("-")[0])
        try:
            before = json.loads(path.read_bytes())["record"] if path else None
            if before is None or before["protocol"]["name"] != entry.protocol["name"]:
                continue
            now = namer.identity_of(entry.run, entry.protocol, entry.process)
            changes |= dict.fromkeys(_changes(before, now))
            count += 1
        except (OSError, ValueError, KeyError, TypeError):  # damaged: reported elsewhere
            continue
    changed = ", ".join(changes) or "their identity"
    return [f"{count} processes measured before; changed since: {changed}"] if count else []
