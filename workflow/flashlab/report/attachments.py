"""The PDF's attachments, by which a reader can check every number.

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
from pathlib import Path
from typing import Any, NamedTuple

from flashlab.analysis.experiment import DERIVED, table_names
from flashlab.anonymity import anonymous
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, json_text, read_json
from flashlab.plan.plan_files import planned_experiments, record_paths
from flashlab.remarks import Remark
from flashlab.report.software import software

MANIFEST_VERSION = 2


class AttachedFile(NamedTuple):
    """A file in the PDF: its bytes, and its relationship to the report in PDF/A-3's terms."""

    name: str
    content: bytes
    relationship: str


class Given(NamedTuple):
    """The attachments that a report takes over unchanged when it is rendered again from them.

    `records` is the packed file, `software` what the manifest states: packed or rendered elsewhere,
    the same data can have other bytes.
    """

    remarks: Sequence[Remark]
    records: bytes
    software: Mapping[str, Any]


def _packed_records(results: Path, is_anonymous: bool) -> bytes:
    """Every planned record, and its counters, as lines of JSON, packed."""
    lines = []
    for path in record_paths(results):
        document = read_json(path)
        entry = {"file": path.name, "record": anonymous(document) if is_anonymous else document}
        lines.append(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
    # No time and no name in the header, so that only the records decide the bytes.
    return gzip.compress("".join(lines).encode(), compresslevel=6, mtime=0)


def manifest_of(
    dataset: str, contents: Mapping[str, bytes], rendered_by: Mapping[str, Any]
) -> bytes:
    """The manifest of these attachments; `rendered_by` has the form of `software.software`."""
    files = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in sorted(contents.items())
    }
    about = {"version": MANIFEST_VERSION, "dataset": dataset, "software": rendered_by}
    return (canonical({**about, "files": files}) + "\n").encode()


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
    packed = given.records if given else _packed_records(results, is_anonymous)
    source = {"records.jsonl.gz": packed}
    if ceilings and is_anonymous:
        source["ceilings.json"] = json_text(anonymous(read_json(ceilings))).encode()
    elif ceilings:
        source["ceilings.json"] = ceilings.read_bytes()
    for remark in remarks:
        source |= remark.attachments()
    data = {name: (results / name).read_bytes() for name in DERIVED}
    for name in planned_experiments(results):
        for table in table_names(find_benchmark(config["benchmark"])):
            path = results / "tables" / name / f"{table}.csv"
            data[f"{name}-{table}.csv"] = path.read_bytes()
    supplement = {"config.json": config_file.read_bytes()}
    contents = source | data | supplement
    by = given.software if given else software()
    supplement["manifest.json"] = manifest_of(config["dataset"], contents, by)
    related = (("Source", source), ("Data", data), ("Supplement", supplement))
    files = [AttachedFile(name, of[name], kind) for kind, of in related for name in of]
    return sorted(files, key=lambda file: file.name)
