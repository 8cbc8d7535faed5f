"""The planned files that a call makes again although no modification time asks for it.

They are missing or not as their job made them (`made.sha256`), ended by a shorter time limit, or to
be measured `again`. What is measured again stays in ``replaced/`` until there are new records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flashlab.config import ConfigError
from flashlab.plan.datasets import Entry
from flashlab.plan.digests import CHANGED, MISSING, damage, read_digests
from flashlab.plan.identity import deciding
from flashlab.plan.runs import Namer, Planned, blocks_of, broken_blocks
from flashlab.records import TIMED_OUT, RecordError, read_record, time_out_message
from flashlab.runs import Run

ASKED = "is to be measured again"
USUAL = (MISSING, ASKED)
"""The reasons that nobody need be told."""


def damaged_outputs(home: Path, experiments: Collection[str]) -> dict[str, str]:
    """The outputs of the stages after the records that are not as they were made."""
    digests, reasons = read_digests(home), {}
    for path in digests:
        folder, name, *_ = [*path.relative_to(home).parts, ""]
        if folder == "tables" and name not in experiments:
            continue
        if (reason := damage(path, digests)) and folder in ("figures", "overview"):
            reasons[(home / folder).as_posix()] = f"{path.name} {reason}"  # it is one output
        elif reason:
            reasons[path.as_posix()] = reason
    return reasons


def damaged_reports(home: Path, report: str) -> dict[str, str]:
    """The reports in ``report/``, and where they were rendered, that are not complete.

    A reader may have added notes, so that the last bytes say so and no digest is compared.
    """
    reasons = {}
    for kind, end in {"pdf": b"%%EOF", "html": b"</html>"}.items():
        published = Path("report", f"{report}.{kind}")
        # One that was never asked for is not missing.
        for path in (home / published.name, published) if published.exists() else ():
            if not path.is_file():
                reasons[path.as_posix()] = MISSING
            elif not path.read_bytes().rstrip().endswith(end):
                reasons[path.as_posix()] = "is cut off"
    return reasons


def damaged_records(
    files: Mapping[Path, Run | None], home: Path, timeout_s: float
) -> dict[str, str]:
    """The local records, and ceilings without a run, that are to be measured (again)."""
    digests = read_digests(home / "records")
    found = {path: _damage(path, run, timeout_s, digests.get(path)) for path, run in files.items()}
    return {path.as_posix(): reason for path, reason in found.items() if reason}


def _damage(path: Path, run: Run | None, timeout_s: float, known: str | None) -> str | None:
    """The reason to measure a run again; None where its record stands.

    A record of unknown origin, such as one that was copied alone, need only be the run's. One that
    is as it was made is not parsed, so that checking 10,000 records takes seconds, unless its run
    may have been ended by a time limit below `timeout_s`.
    """
    try:
        content = path.read_bytes()
        if known and known != hashlib.sha256(content).hexdigest():
            return CHANGED
        if run is None or (known and TIMED_OUT.encode() not in content):
            return None
        record = read_record(path, run)
    except FileNotFoundError:
        return MISSING
    except (OSError, RecordError) as error:
        return f"cannot be used ({error})"
    allowed = record.protocol.get("timeout_s")
    if allowed is None or record.message != time_out_message(allowed) or allowed >= timeout_s:
        return None
    return f"ran out of time after {allowed:g} s, and {timeout_s:g} s are allowed now"


def asked_again(again: str | Sequence[str], planned: Planned, ceilings: Path | None) -> list[str]:
    """The files to measure again: ``all``, ``blocks``, or by words of runs' names.

    A run is meant where all parts of one of the words, which spaces or hyphens divide, are parts of
    its name (``Flash2``, ``flash2 n1024 causal``).

    Raises:
        ConfigError: a word that no planned run has in its name.
    """
    runs = {entry.path.as_posix(): entry.run for entry in planned.entries}
    files: dict[str, None] = {}
    for word in [again] if isinstance(again, str) else again:
        wanted = set(word.lower().replace("-", " ").split())
        meant = [file for file in runs if wanted and wanted <= {*Path(file).stem.split("-")}]
        if word == "all":
            meant = [*runs, str(ceilings)]
        elif word == "blocks":
            meant = broken_blocks(blocks_of(planned))
        elif not meant:
            some = ", ".join(dict.fromkeys(run.implementation for run in runs.values()))
            raise ConfigError(
                f"--config: again: no planned run is called {word!r}; give `all`, `blocks`, an "
                f"implementation ({some}), or parts of a run's name, such as "
                f"{next(iter(runs.values())).slug}"
            )
        files |= dict.fromkeys(meant)
    return list(files)


def put_aside(home: Path, redo: Iterable[str]) -> None:
    """Move the records that are to be measured again to ``replaced/``, until there are new ones."""
    records, replaced = home / "records", home / "replaced"
    for path in map(Path, redo):
        if path.parent == records and path.exists():
            replaced.mkdir(exist_ok=True)
            path.replace(replaced / path.name)
    for kept in replaced.glob("*.json"):
        if (records / kept.name).exists():
            kept.unlink()


# Why recorded runs are measured again: the changes since their records


def _older(folder: Path) -> dict[str, Path]:
    """The newest record in a folder by the words of its name: the run and the process."""
    files = [path for path in folder.glob("*.json") if path.exists()]  # a link may lead nowhere
    paths = sorted(files, key=lambda path: path.stat().st_mtime)
    return {path.stem.rpartition("-")[0]: path for path in paths}


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The differences, in words, between an older record and the identity planned now."""
    sources, name = before["sources"], before["run"]["implementation"]
    compared = {
        "the device": (before["environment"].get("device_name"), now["device"]),
        "the protocol": (deciding(before["protocol"]), now["protocol"]),
        name: (sources.get("implementation_digest"), now["implementation"]),
        "the form of inputs": (sources.get("inputs"), now["inputs"]),
        "the code that measures": (sources.get("measuring_digest"), now["measuring"]),
    }
    yield from (what for what, (was, is_now) in compared.items() if was != is_now)
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
        with suppress(OSError, ValueError, KeyError, TypeError):  # damaged: reported elsewhere
            before = json.loads(path.read_bytes())["record"] if path else None
            if before and before["protocol"]["name"] == entry.protocol["name"]:
                now = namer.identity_of(entry.run, entry.protocol, entry.process)
                changes |= dict.fromkeys(_changes(before, now))
                count += 1
    changed = ", ".join(changes) or "their identity"
    return [f"{count} processes measured before; changed since: {changed}"] if count else []
