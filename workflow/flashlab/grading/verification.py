"""A report checked against its own data: the attachments, the numbers derived from them, the text.

This proves that a report and its data belong together, not where the data came from.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.course import agree
from flashlab.grading.attachments import (
    CEILINGS,
    CONFIG,
    MANIFEST,
    RECORDS,
    Opened,
    UnsoundPdfError,
    attached_json,
    attached_records,
    attached_remarks,
    checked_config,
    open_pdf,
    read_pdf,
    results_of,
)
from flashlab.grading.model import Line
from flashlab.grading.order import measured_of, read_order
from flashlab.grading.rebuild import Rebuilt, is_same_document, rebuild
from flashlab.grading.reproduction import Measured, check_reproduction
from flashlab.grading.shown import escaped
from flashlab.grading.wording import sentence
from flashlab.records import parse_record

SHOWN = 40
"""Most differences of one kind that are listed."""

CONTEXT_WORDS = 3


def _manifest_differences(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """Where the attachments differ from what the manifest lists."""
    manifest = attached_json(attachments, MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise UnsoundPdfError(f"{MANIFEST}: it has no list of files")
    others = attachments.keys() - {MANIFEST}
    for name in sorted(files.keys() - others):
        yield f"{name} is listed in {MANIFEST} but not attached"
    for name in sorted(others - files.keys()):
        yield f"{name} is attached but not listed in {MANIFEST}"
    for name in sorted(others & files.keys()):
        entry = files[name] if isinstance(files[name], dict) else {}
        digest = hashlib.sha256(attachments[name]).hexdigest()
        if (entry.get("sha256"), entry.get("bytes")) != (digest, len(attachments[name])):
            yield f"{name} is not the file that {MANIFEST} lists: its SHA-256 or size differs"


def _record_differences(name: str, record: Mapping[str, Any]) -> Iterator[str]:
    """Where a record's own summary does not follow from its samples and its shape."""
    parsed = parse_record(record, name)
    if parsed.status != "ok":
        return
    for metric, measured in parsed.metrics.items():
        if measured.samples and not agree(measured.value, statistics.median(measured.samples)):
            yield f"{name}: {metric}: the value is not the median of its samples"
    stated = {key: value for key, value in record.items() if key != "record"}
    for key, value in parsed.top_level_keys().items():
        yield from _number_differences(f"{name}: {key}", stated.get(key), value)


def _number_differences(where: str, stated: Any, follows: Any) -> Iterator[str]:
    """Where a number, or a mapping of numbers, is not what follows from the metrics."""
    if isinstance(follows, Mapping) and isinstance(stated, Mapping):
        for key, value in follows.items():
            yield from _number_differences(f"{where}: {key}", stated.get(key), value)
    elif not isinstance(stated, (int, float)) or not agree(stated, follows):
        yield f"{where}: it says {stated}, and the run's metrics give {follows:.9g}"


def _table_differences(name: str, attached: bytes, made: bytes) -> Iterator[str]:
    """The cells of a table that do not follow from the records."""
    try:
        theirs, ours = (
            list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
            for content in (attached, made)
        )
    except (UnicodeDecodeError, csv.Error) as error:
        yield f"{name}: it cannot be read: {error}"
        return
    if len(theirs) != len(ours) or theirs[:1] != ours[:1]:
        yield f"{name}: its rows or columns are not those that the records give"
        return
    header = ours[0]
    for number, (row, wanted) in enumerate(zip(theirs, ours, strict=True), start=1):
        if len(row) != len(wanted):
            yield f"{name}: line {number}: the number of cells differs"
            continue
        for column, found, expected in zip(header, row, wanted, strict=True):
            if found != expected:
                yield f"{name}: line {number}: {column}: {found}, but the records give {expected}"
    if theirs == ours and attached != made:
        yield f"{name}: the cells are right, but the file is not byte for byte the rebuilt one"


def _attachment_differences(opened: Opened, rebuilt: Rebuilt) -> Iterator[str]:
    remarks = attached_remarks(opened.attachments, checked_config(opened.attachments))
    known = {RECORDS, CONFIG, CEILINGS, MANIFEST, *rebuilt.attachments}
    known |= {name for remark in remarks for name in remark.attachments()}
    for name in sorted(opened.attachments.keys() - known):
        yield f"{name} is attached but is not part of a report's data"
    for name, made in sorted(rebuilt.attachments.items()):
        attached = opened.attachments.get(name)
        if attached is None:
            yield f"{name} is not attached"
        elif name.endswith(".csv"):
            yield from _table_differences(name, attached, made)
        elif not is_same_document(attached, made):
            yield f"{name}: it is not what the records give"


def _text_differences(page: int, found: str, expected: str) -> Iterator[str]:
    theirs, ours = found.split(), expected.split()
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            before = " ".join(theirs[max(0, a - CONTEXT_WORDS) : a])
            has, gives = " ".join(theirs[a:b]) or "nothing", " ".join(ours[c:d]) or "nothing"
            yield f'page {page}: after "{before}" there is {has}, but the records give {gives}'


def _page_differences(opened: Opened, rebuilt: Opened) -> Iterator[str]:
    """Where text or drawings differ from those of the rebuilt report."""
    if len(opened.pages) != len(rebuilt.pages):
        yield f"it has {len(opened.pages)} pages, but the records give {len(rebuilt.pages)}"
    for number, (page, made) in enumerate(zip(opened.pages, rebuilt.pages, strict=False), start=1):
        if page.text != made.text:
            yield from _text_differences(number, page.text, made.text)
        elif page.drawing != made.drawing:
            yield f"page {number}: the text is right, but the drawings are not those of the records"
        elif page.annotations != made.annotations:
            yield f"page {number}: the links or annotations are not those of the rebuilt report"
    if opened.document != rebuilt.document:
        yield "the title, author or other metadata is not that of the rebuilt report"


def differences(opened: Opened) -> dict[str, list[str]]:
    """The inconsistencies of a report, by what was compared; a list is empty if there are none.

    Raises:
        UnsoundPdfError: there is nothing to compare, because the data is missing or malformed.
    """
    found = {"attachments": list(_manifest_differences(opened.attachments))}
    records = attached_records(opened.attachments)
    with tempfile.TemporaryDirectory(prefix="flashlab-") as folder:
        rebuilt = rebuild(opened.attachments, Path(folder))
    found["records"] = [
        text for name, record in records.items() for text in _record_differences(name, record)
    ]
    found["tables and findings"] = list(_attachment_differences(opened, rebuilt))
    found["pages"] = list(_page_differences(opened, open_pdf(rebuilt.pdf)))
    return found


def _compare_measured(opened: Opened, measured: Sequence[Measured], here: str) -> list[Line]:
    """Lines that compare the attached records with the runs measured here."""
    results = results_of(opened.attachments)
    return check_reproduction("", results, measured, here)


def verify(pdf: Path, measured: Sequence[Measured] = (), here: str = "") -> tuple[bool, list[str]]:
    """Whether a report and its data belong together, and the lines to print about it.

    Args:
        pdf: the report.
        measured: its runs that were measured again on this machine.
        here: the name of this machine's device.

    Raises:
        UnsoundPdfError: it is not a report with its data attached.
    """
    opened = read_pdf(pdf)
    found = differences(opened)
    again = _compare_measured(opened, measured, here) if measured else []
    lines = []
    for compared, differing in found.items():
        count = f"{len(differing)} difference" + ("" if len(differing) == 1 else "s")
        lines.append(f"{compared}: {count if differing else 'consistent'}")
        lines += [f"  {escaped(text)}" for text in differing[:SHOWN]]
        if len(differing) > SHOWN:
            lines.append(f"  and {len(differing) - SHOWN} more")
    for line in again:
        numbers = f" ({line.expected} here, {line.found} in the report)" if line.found else ""
        lines.append(f"measured again: {line.verdict}: {sentence(line, 'en', escaped)}{numbers}")
    lines.append(
        "This compares the report with its own data; it does not show where the data came from."
    )
    sound = not any(found.values()) and not any(line.verdict == "fail" for line in again)
    return sound, lines


def write_verification(order_file: Path) -> bool:
    """Verify the report that a call's order names, and print the findings on standard output."""
    order = read_order(order_file)
    sound, lines = verify(Path(order["pdf"]), measured_of(order), order["here"])
    print("\n".join(lines))
    return sound
