"""The reasons to measure recorded runs again: the changes since their records."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashlab.benchmarks.implementations import Implementation
from flashlab.benchmarks.model import Benchmark
from flashlab.plan.identity import DIGITS, deciding, identity
from flashlab.plan.machines import Machine
from flashlab.plan.planning import PlannedRun


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
        yield "the device is another one"
    if deciding(before["protocol"]) != now["protocol"]:
        yield "the protocol's settings were changed"
    if sources.get("implementation_digest") != now["implementation"]:
        yield f"the kernel of {before['run']['implementation']} was edited"
    if sources.get("inputs") != now["inputs"]:
        yield f"its inputs are {now['inputs']}"
    if sources.get("measuring_digest") != now["measuring"]:
        yield "the code that measures was changed"
    versions = sources["versions"]
    for package, version in now["versions"].items():
        if versions.get(package) != version:
            yield f"{package} is {version or 'missing'}, and was {versions.get(package)}"


def upgrade_notices(
    benchmark: Benchmark,
    planned: Mapping[Any, PlannedRun],
    protocol: Mapping[str, Any],
    implementations: Mapping[str, Implementation],
    on: Machine,
) -> list[str]:
    """A line for each reason to measure recorded runs again, with the number of runs."""
    every = [entry for run in planned.values() for entry in run.processes]
    missing = [entry for entry in every if not entry.path.exists()]
    folders = {entry.path.parent for entry in missing}
    older = {folder: _older(folder) for folder in folders}
    reasons: Counter[str] = Counter()
    for entry in missing:
        path = older[entry.path.parent].get(entry.path.stem.rpartition("-")[0])
        try:
            before = json.loads(path.read_bytes())["record"] if path else None
            if before is None or before["protocol"]["name"] != protocol["name"]:
                continue
            implementation = implementations[entry.run.implementation]
            now = identity(benchmark, entry.run, protocol, implementation, entry.process, on)
            reasons["; ".join(_changes(before, now)) or "its identity is another one"] += 1
        except (OSError, ValueError, KeyError, TypeError):  # damaged: reported elsewhere
            continue
    return [
        f"{count} process{'es' if count > 1 else ''} measured before, since {reason}"
        for reason, count in reasons.most_common()
    ]
