"""A report checked against its own data: the attachments, the numbers derived from them, the pages.

This proves that a report and its data belong together, not where the data came from.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.files import canonical
from flashlab.records import RecordError
from flashlab.report.attachments import manifest_of
from flashlab.report.software import differing_parts, is_software
from flashlab.untrusted import UnsoundFileError, parse_json
from flashlab_grading.attachments import (
    CONFIG,
    MANIFEST,
    RECORDS,
    Opened,
    attached_json,
    attached_records,
    ceiling_differences,
    checked_config,
    config_differences,
    read_pdf,
    record_differences,
    results_of,
    setting_differences,
    unpacked_records,
)
from flashlab_grading.model import Line
from flashlab_grading.order import HOME, measured_of, read_order
from flashlab_grading.other_parsers import disagreements
from flashlab_grading.pdf_comparison import document_differences
from flashlab_grading.rebuild import Rebuilt, rebuild
from flashlab_grading.renderings import compare_renderings
from flashlab_grading.reproduction import Measured, check_reproduction
from flashlab_grading.shown import escaped
from flashlab_grading.strict_pdf import UnsoundPdfError
from flashlab_grading.wording import sentence

SHOWN = 40
"""Most differences of one kind that are listed."""

SHOWN_CHARACTERS = 60

PICTURES = HOME / "differences"
"""Where the pages that differ are kept as pictures."""

OWN_NAMES = {"flashlab": "FlashLab", "code": "FlashLab's code"}

CONSISTENT, INCONSISTENT, NOT_COMPARED = 0, 1, 3
"""Exit statuses; 2 is that of a wrong command line."""


@dataclass(frozen=True)
class Checked:
    """What was found in a report.

    Attributes:
        differences: by what was compared; None where it was not compared.
        rebuilt: the report that the data give, where there is one.
        identical: whether the report rebuilt from its data has the same bytes.
        other_software: what rendered the report and is another version here.
        unverified: what the author wrote, which follows from no data.
    """

    differences: Mapping[str, list[str] | None]
    rebuilt: bytes = b""
    identical: bool = False
    other_software: Sequence[str] = ()
    unverified: Sequence[str] = ()

    @property
    def status(self) -> int:
        """The exit status."""
        own = ("attachments", "records")
        if any(self.differences[name] for name in own):
            return INCONSISTENT
        if self.other_software:
            return NOT_COMPARED
        return INCONSISTENT if any(self.differences.values()) else CONSISTENT

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.status == INCONSISTENT:
            return "inconsistent"
        if self.status == NOT_COMPARED:
            derived = self.differences["tables and findings"]
            data = "data consistent"
            if derived:
                data = "records consistent, tables and findings differ"
            names = ", ".join(OWN_NAMES.get(name, name) for name in self.other_software)
            return (
                f"{data}, pages not compared: it was rendered by other versions of {names}; "
                "verify it with those"
            )
        if self.identical:
            return "consistent: its data give this file, byte for byte"
        return (
            "consistent: its data give this document, object for object; another program wrote "
            "the file again"
        )


def _manifest_differences(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """Where the manifest is not that of the attachments."""
    manifest = attached_json(attachments, MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise UnsoundPdfError(f"{MANIFEST}: it has no list of files")
    contents = {name: content for name, content in attachments.items() if name != MANIFEST}
    told = False
    for name in sorted(files.keys() - contents.keys()):
        told = True
        yield f"{name} is listed in {MANIFEST} but not attached"
    for name in sorted(contents.keys() - files.keys()):
        told = True
        yield f"{name} is attached but not listed in {MANIFEST}"
    for name in sorted(contents.keys() & files.keys()):
        entry = files[name] if isinstance(files[name], dict) else {}
        sha256 = hashlib.sha256(contents[name]).hexdigest()
        if (entry.get("sha256"), entry.get("bytes")) != (sha256, len(contents[name])):
            told = True
            yield f"{name} is not the file that {MANIFEST} lists: its SHA-256 or size differs"
    stated = manifest.get("software")
    if told or not is_software(stated):
        return  # a manifest of another version, which is not compared
    config = attached_json(attachments, CONFIG)
    dataset = config.get("dataset") if isinstance(config, dict) else None
    yield from _document_differences(
        MANIFEST, attachments[MANIFEST], manifest_of(str(dataset), contents, stated)
    )


def _table_differences(name: str, attached: bytes, made: bytes) -> Iterator[str]:
    """The cells of a table that do not follow from the records."""
    if attached == made:
        return
    theirs, ours = (
        csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8", newline=""))
        for content in (attached, made)
    )
    told = False
    try:
        header: list[str] = []
        for number, (row, wanted) in enumerate(itertools.zip_longest(theirs, ours), start=1):
            header = header or wanted or []
            if row is None or wanted is None or len(row) != len(wanted) or header == row != wanted:
                yield f"{name}: line {number}: its rows or columns are not those of the records"
                return
            for column, found, expected in zip(header, row, wanted, strict=True):
                if found != expected:
                    told = True
                    where = f"{name}: line {number}: {column}"
                    yield f"{where}: {found}, but the records give {expected}"
    except (UnicodeDecodeError, csv.Error) as error:
        yield f"{name}: it cannot be read: {error}"
        return
    if not told:
        yield f"{name}: the cells are right, but the file is not byte for byte the rebuilt one"


def _json_differences(where: str, found: Any, made: Any) -> Iterator[str]:
    """Where a JSON document is not the rebuilt one, with its types."""
    if isinstance(found, dict) and isinstance(made, dict):
        for key in sorted(found.keys() - made.keys()):
            yield f"{where}: {key} does not belong there"
        for key in sorted(made.keys() - found.keys()):
            yield f"{where}: {key} is missing"
        for key in sorted(found.keys() & made.keys()):
            yield from _json_differences(f"{where}: {key}", found[key], made[key])
    elif isinstance(found, list) and isinstance(made, list) and len(found) == len(made):
        for number, (a, b) in enumerate(zip(found, made, strict=True), start=1):
            yield from _json_differences(f"{where}: {number}", a, b)
    elif type(found) is not type(made) or found != made:
        texts = [canonical(value)[:SHOWN_CHARACTERS] for value in (found, made)]
        yield f"{where}: {texts[0]}, but the records give {texts[1]}"


def _document_differences(name: str, attached: bytes, made: bytes) -> Iterator[str]:
    """Where a JSON attachment is not the rebuilt one, byte for byte."""
    if attached == made:
        return
    try:
        document = parse_json(attached)
    except UnsoundFileError as problem:
        yield f"{name}: {problem}"
        return
    told = False
    for text in _json_differences(name, document, parse_json(made)):
        told = True
        yield text
    if not told:
        yield f"{name}: it reads the same, but is not byte for byte the rebuilt one"


def _attachment_differences(opened: Opened, rebuilt: Rebuilt) -> Iterator[str]:
    """Where the attachments are not those that the records give."""
    attachments = opened.attachments
    for name in sorted(attachments.keys() - rebuilt.attachments.keys()):
        yield f"{name} is attached but is not part of a report's data"
    for name, made in sorted(rebuilt.attachments.items()):
        attached = attachments.get(name)
        if name in (MANIFEST, RECORDS):
            continue  # the one is compared with the attachments, the other below
        if attached is None:
            yield f"{name} is not attached"
        elif name.endswith(".csv"):
            yield from _table_differences(name, attached, made)
        elif name.endswith(".json"):
            yield from _document_differences(name, attached, made)
        elif attached != made:
            yield f"{name}: it is not what the records give"
    pairs = itertools.zip_longest(
        *(io.BytesIO(lines) for lines in (unpacked_records(attachments), rebuilt.lines))
    )
    for number, (line, wanted) in enumerate(pairs, start=1):
        if line != wanted:
            yield f"{RECORDS}: line {number}: it is not written, or ordered, as FlashLab does"
            return


def _page_differences(opened: Opened, rebuilt: Rebuilt) -> Iterator[str]:
    """Where the PDF is not the rebuilt one."""
    attachments = opened.attachments
    known = [name for name, made in rebuilt.attachments.items() if attachments.get(name) != made]
    found = False
    for text in document_differences(opened.content, rebuilt.pdf, opened.pdf, known):
        found = True
        yield text
    if not found:
        yield from disagreements(opened.pdf, opened.content)


def _records_differences(
    attachments: Mapping[str, bytes], config: Mapping[str, Any], records: Mapping[str, Any]
) -> Iterator[str]:
    """Where the records, the ceilings and the settings do not agree in themselves."""
    try:
        for name, record in records.items():
            yield from record_differences(name, record)
    except RecordError as error:
        raise UnsoundPdfError(str(error)) from error
    yield from setting_differences(config, records)
    yield from ceiling_differences(attachments)


def _unverified(config: Mapping[str, Any], attachments: Mapping[str, bytes]) -> list[str]:
    """What the author wrote: name, titles, remarks and their images."""
    remarks = [name for name in attachments if name.startswith("remark-")]
    author = [f"author.{key}" for key in config.get("author", {})]
    return [*author, "the experiments' titles", *sorted(remarks)]


@contextmanager
def _one_message(what: str) -> Iterator[None]:
    """UnsoundPdfError in place of whatever data that somebody has altered makes a stage raise."""
    try:
        yield
    except UnsoundPdfError:
        raise
    except Exception as error:
        raise UnsoundPdfError(f"{what}: {type(error).__name__}: {str(error)[:300]}") from error


def _rebuilt(attachments: Mapping[str, bytes]) -> Rebuilt:
    """The report of these attachments; UnsoundPdfError if there can be none."""
    with (
        tempfile.TemporaryDirectory(prefix="flashlab-") as folder,
        _one_message("the report cannot be rebuilt from its data"),
    ):
        return rebuild(attachments, Path(folder))


def check_report(opened: Opened) -> Checked:
    """Compare a report with its data.

    Raises:
        UnsoundPdfError: there is nothing to compare, because the data is missing or malformed.
    """
    attachments = opened.attachments
    differences: dict[str, list[str] | None] = {
        "attachments": list(_manifest_differences(attachments)),
        "records": [],
        "tables and findings": [],
        "pages": None,
    }
    other = differing_parts(attached_json(attachments, MANIFEST).get("software"))
    config, records = checked_config(attachments), attached_records(attachments)
    own = [] if other else list(config_differences(attachments))
    differences["records"] = [*own, *_records_differences(attachments, config, records)]
    try:
        rebuilt = _rebuilt(attachments)
    except UnsoundPdfError as error:
        if not any(differences.values()):
            raise
        differences["tables and findings"] = [str(error)]
        return Checked(differences, other_software=other)
    differences["tables and findings"] = list(_attachment_differences(opened, rebuilt))
    identical = opened.content == rebuilt.pdf
    if identical:
        differences["pages"] = []
    else:
        found = list(_page_differences(opened, rebuilt))
        # What another version renders otherwise is no difference.
        differences["pages"] = found if not (other and found) else None
    if "flashlab" not in other and differences["pages"] is not None:
        other = [] if not differences["tables and findings"] else other
    return Checked(differences, rebuilt.pdf, identical, other, _unverified(config, attachments))


def _compare_measured(opened: Opened, measured: Sequence[Measured], here: str) -> list[Line]:
    """Lines that compare the attached records with the runs measured here."""
    results = results_of(opened.attachments)
    return check_reproduction("", results, measured, here)


def verify(pdf: Path, measured: Sequence[Measured] = (), here: str = "") -> tuple[int, list[str]]:
    """Whether a report and its data belong together.

    Args:
        pdf: the report.
        measured: its runs that were measured again on this machine.
        here: the name of this machine's device.

    Returns:
        The exit status, and the lines to print.

    Raises:
        UnsoundPdfError: it is not a report with its data attached.
    """
    opened = read_pdf(pdf)
    with _one_message("the report cannot be compared with its data"):
        checked = check_report(opened)
    again = _compare_measured(opened, measured, here) if measured else []
    lines = []
    for compared, differing in checked.differences.items():
        if differing is None:
            lines.append(f"{compared}: not compared")
            continue
        count = f"{len(differing)} difference" + ("" if len(differing) == 1 else "s")
        lines.append(f"{compared}: {count if differing else 'consistent'}")
        lines += [f"  {escaped(text)}" for text in differing[:SHOWN]]
        if len(differing) > SHOWN:
            lines.append(f"  and {len(differing) - SHOWN} more")
    if checked.rebuilt and checked.differences["pages"]:
        lines += compare_renderings(opened.content, checked.rebuilt, PICTURES)
    for line in again:
        numbers = f" ({line.expected} here, {line.found} in the report)" if line.found else ""
        lines.append(f"measured again: {line.verdict}: {sentence(line, 'en', escaped)}{numbers}")
    if checked.unverified:
        lines.append(f"the author's own, not verified: {escaped(', '.join(checked.unverified))}")
    lines.append(f"verdict: {escaped(checked.verdict)}")
    lines.append(
        "This compares the report with its own data; it does not show where the data came from."
    )
    failed = any(line.verdict == "fail" for line in again)
    return (INCONSISTENT if failed else checked.status), lines


def write_verification(pdf: Path, measured: Sequence[Measured] = (), here: str = "") -> int:
    """Verify a report, print what was found on standard output, and return the exit status."""
    status, lines = verify(pdf, measured, here)
    print("\n".join(lines))
    return status


def write_ordered_verification(order_file: Path) -> int:
    """Verify the report that a call's order names, as `write_verification` does."""
    order = read_order(order_file)
    return write_verification(Path(order["pdf"]), measured_of(order), order["here"])
