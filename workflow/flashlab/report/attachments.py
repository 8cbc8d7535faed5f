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

import ctypes
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from flashlab.analysis.experiment import DERIVED, table_names
from flashlab.anonymity import anonymous
from flashlab.benchmarks.registry import find_benchmark
from flashlab.files import canonical, json_text, read_json, sha256_of
from flashlab.plan.plan_files import EXPERIMENTS, record_paths
from flashlab.remarks import Remark
from flashlab.report.document import TEMPLATES
from flashlab.sources import PACKAGE, sources_of
from flashlab.version import __version__

RECORDS, CONFIG, MANIFEST = "records.jsonl.gz", "config.json", "manifest.json"
CEILINGS = "ceilings.json"

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
    """The manifest of these attachments; `rendered_by` has the form of `software`."""
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
    source = {RECORDS: given.records if given else _packed_records(results, is_anonymous)}
    if ceilings and is_anonymous:
        source[CEILINGS] = json_text(anonymous(read_json(ceilings))).encode()
    elif ceilings:
        source[CEILINGS] = ceilings.read_bytes()
    for remark in remarks:
        source |= remark.attachments()
    data = {name: (results / name).read_bytes() for name in DERIVED}
    for name in read_json(results / EXPERIMENTS):
        for table in table_names(find_benchmark(config["benchmark"])):
            data[f"{name}-{table}.csv"] = (results / f"tables/{name}/{table}.csv").read_bytes()
    supplement = {CONFIG: config_file.read_bytes()}
    contents = source | data | supplement
    by = given.software if given else software()
    supplement[MANIFEST] = manifest_of(config["dataset"], contents, by)
    related = (("Source", source), ("Data", data), ("Supplement", supplement))
    files = [AttachedFile(name, of[name], kind) for kind, of in related for name in of]
    return sorted(files, key=lambda file: file.name)


# What rendered it

ROOT = TEMPLATES.parent

STAGES = ("analysis.tables", "story.stage", "figures.stage", "report.render")
"""The modules that decide a report, from its records on."""

TEXT_SUFFIXES = (".conf", ".css", ".j2", ".toml")
"""The folders of templates that decide a report; fonts are stated one by one."""

PACKAGES = (
    *("fonttools", "jinja2", "markdown-it-py", "matplotlib", "numpy", "pandas"),
    *("pillow", "pydyf", "scipy", "seaborn", "weasyprint"),
)


def _code() -> str:
    """A digest of the files that decide a report, and of the kernels, whose labels it prints."""
    paths = {path for stage in STAGES for path in sources_of(f"{PACKAGE.name}.{stage}")}
    paths.add(ROOT / "data" / "devices.csv")  # which they read beside the records
    paths |= {path for path in TEMPLATES.rglob("*") if path.suffix in TEXT_SUFFIXES}
    paths |= {*ROOT.glob("kernels/**/*.py")}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _harfbuzz() -> str:
    """The version of HarfBuzz, which decides the bytes of the fonts in a PDF."""
    for name in ("libharfbuzz.so.0", "libharfbuzz.0.dylib"):
        try:
            version = ctypes.CDLL(name).hb_version_string
        except OSError:
            continue
        version.restype = ctypes.c_char_p
        return str(version().decode())
    return "unknown"


@cache
def software() -> dict[str, Any]:
    """Version and digest of FlashLab, SHA-256 of its fonts, and versions of the libraries.

    That of Pango, which breaks the lines, has 5 digits or more, the last two its third.
    """
    from weasyprint.text.ffi import pango

    return {
        "flashlab": __version__,
        "code": _code(),
        "fonts": {path.name: sha256_of(path) for path in sorted(TEMPLATES.glob("fonts/*.ttf"))},
        "libraries": {
            **{package: metadata.version(package) for package in PACKAGES},
            "harfbuzz": _harfbuzz(),
            "pango": str(pango.pango_version()),
        },
    }


def differing_parts(stated: Mapping[str, Any]) -> list[str]:
    """What is stated and differs here: ``weasyprint 66.0 (here 67.0)``, of digests first digits."""
    theirs, here = (
        {**of["fonts"], **of["libraries"], "flashlab": of["flashlab"], "code": of["code"]}
        for of in (stated, software())
    )
    return [
        f"{name} {theirs.get(name, 'missing')[:12]} (here {here.get(name, 'missing')[:12]})"
        for name in sorted(theirs.keys() | here.keys())
        if theirs.get(name) != here.get(name)
    ]


def is_software(stated: Any) -> TypeGuard[dict[str, Any]]:
    """True if a value has the form of `software`: its keys, and short texts."""

    def are_short(of: Any) -> bool:
        texts = [*of, *of.values()] if isinstance(of, dict) and len(of) <= 40 else [None]
        return all(isinstance(text, str) and len(text) <= 100 for text in texts)

    here = software()
    return (
        isinstance(stated, dict)
        and stated.keys() == here.keys()
        and all(are_short(of if isinstance(here[k], dict) else {k: of}) for k, of in stated.items())
    )
