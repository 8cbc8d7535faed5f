"""The PDF's attachments, with which a reader can check every number without anything else.

All names are flat. ``records.jsonl.gz`` holds a line of JSON for each record,
``{"file": <its file name>, "record": <the whole record>}``, its keys in the file's order, so that
the file can be written again to the byte (`records.write_record`); the tables are
``<experiment>-<table>.csv``; remarks are ``remark-<experiment>-<language>.md``,
their images ``remark-<experiment>-<language>-<number>.<suffix>`` in the order of their appearance;
``manifest.json`` has the size and SHA-256 of every other file, and what rendered the report
(`software`). The same results give the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.analysis.experiment import TABLES
from flashlab.anonymity import anonymous
from flashlab.files import canonical, json_text, read_json
from flashlab.plan import plan_files
from flashlab.plan.plan_files import planned_experiments, planned_records
from flashlab.remarks import Remark
from flashlab.report.software import software

MANIFEST_VERSION = 2


@dataclass(frozen=True)
class AttachedFile:
    """A file in the PDF: its bytes, and its relationship to the report in PDF/A-3's terms."""

    name: str
    content: bytes
    relationship: str


@dataclass(frozen=True)
class Given:
    """What a report that is rendered again from its attachments takes from them as it is.

    `records` is the packed file, `software` what the manifest states: packed or rendered elsewhere,
    the same data can have other bytes.
    """

    remarks: Sequence[Remark]
    records: bytes
    software: Mapping[str, Any]


def lines_of_records(paths: Sequence[Path], is_anonymous: bool) -> bytes:
    """The records in these files as lines of JSON."""
    lines = []
    for path in paths:
        document = read_json(path)
        entry = {"file": path.name, "record": anonymous(document) if is_anonymous else document}
        lines.append(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
    return "".join(lines).encode()


def record_paths(results: Path) -> list[Path]:
    """The file of every planned record once, and of its counters, by name."""
    return plan_files.record_paths(planned_records(results))


def manifest_of(
    dataset: str, contents: Mapping[str, bytes], rendered_by: Mapping[str, Any]
) -> bytes:
    """The manifest of these attachments; `rendered_by` has the form of `software.software`."""
    manifest = {
        "version": MANIFEST_VERSION,
        "dataset": dataset,
        "software": rendered_by,
        "files": {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for name, content in sorted(contents.items())
        },
    }
    return (canonical(manifest) + "\n").encode()


def attached_files(
    config_file: Path,
    results: Path,
    ceilings: Path | None,
    remarks: Sequence[Remark],
    given: Given | None = None,
) -> list[AttachedFile]:
    """Every attachment of the report of the dataset in `results`, by name."""
    config = read_json(config_file)
    is_anonymous = config.get("anonymous", False)
    if given:
        records = given.records
    else:
        lines = lines_of_records(record_paths(results), is_anonymous)
        # No time and no name in the header, so that only the records decide the bytes.
        records = gzip.compress(lines, mtime=0)
    source = {"records.jsonl.gz": records}
    if ceilings and is_anonymous:
        source["ceilings.json"] = json_text(anonymous(read_json(ceilings))).encode()
    elif ceilings:
        source["ceilings.json"] = ceilings.read_bytes()
    for remark in remarks:
        source |= remark.attachments()
    data = {"findings.json": (results / "findings.json").read_bytes()}
    for name in planned_experiments(results):
        for table in TABLES:
            path = results / "tables" / name / f"{table}.csv"
            data[f"{name}-{table}.csv"] = path.read_bytes()
    supplement = {"config.json": config_file.read_bytes()}
    contents = source | data | supplement
    rendered_by = given.software if given else software()
    supplement["manifest.json"] = manifest_of(config["dataset"], contents, rendered_by)
    return sorted(
        (
            AttachedFile(name, content, relationship)
            for relationship, files in (
                ("Source", source),
                ("Data", data),
                ("Supplement", supplement),
            )
            for name, content in files.items()
        ),
        key=lambda file: file.name,
    )
