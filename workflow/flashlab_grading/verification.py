"""A report checked against its own data: rebuilt from its attachments, and compared with that.

This proves that a report and its data belong together, not where the data came from. So the data
are checked as a submission's are, which is a second answer.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

import pypdfium2

from flashlab.files import open_atomically, read_json
from flashlab.lab5.results import Folder, take
from flashlab.report.attached import CONFIG, attachment, parsed, read_records
from flashlab.report.rebuild import other_software, rebuild
from flashlab.untrusted import UnsoundFileError, read_bounded
from flashlab_grading.apart import LimitError, apart
from flashlab_grading.causes import escaped, grouped, told
from flashlab_grading.grade import check_alone
from flashlab_grading.pdf_objects import UnsoundPdfError, differences, one_message, opened
from flashlab_grading.submissions import submission_of

MAX_SECONDS, MAX_PDF_BYTES = 900.0, 2**25
"""Longest time for one report, and most bytes of it."""

SHOWN, MAX_CHARACTERS = 40, 120
"""Differences that are listed, and characters of a line that differs."""

BELONG, DIFFER, OTHER_SOFTWARE, OTHER_BYTES = 0, 1, 3, 4
"""Exit statuses; 2 is that of a wrong command line."""


def attachments_of(content: bytes) -> dict[str, bytes]:
    """The attached files by name."""
    with one_message("it cannot be read as a PDF"), opened(content) as pdf:
        return {name: file.get_file().read_bytes() for name, file in pdf.attachments.items()}


def _text(content: bytes, page: int) -> list[str]:
    """The lines of a page, from 1, as PDFium reads them; none where it is no page to PDFium."""
    with suppress(pypdfium2.PdfiumError):
        text = pypdfium2.PdfDocument(content)[page - 1].get_textpage().get_text_range()
        return str(text).splitlines()
    return []


def _first_line(part: str, *files: bytes) -> str:
    """The first line of a page that differs, in words."""
    texts = [_text(content, int(part.partition(" ")[2])) for content in files]
    for number, (one, other) in enumerate(zip_longest(*texts, fillvalue="nothing"), start=1):
        if one != other:
            says, gives = one[:MAX_CHARACTERS], other[:MAX_CHARACTERS]
            return f": line {number}: it says “{says}”, and its data give “{gives}”"
    return ""


def _compare(
    content: bytes, attachments: Mapping[str, bytes]
) -> tuple[int, str, Sequence[str], bytes]:
    """The exit status, the answer in words, the differences, and the report that the data give.

    UnsoundPdfError if they give none.
    """
    with one_message("what rendered the report cannot be read"):
        other = other_software(attachments)
    made = b""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="flashlab-") as folder,
            one_message("the report cannot be rebuilt from its data"),
        ):
            made = rebuild(attachments, Path(folder))
    except UnsoundPdfError:
        if not other:  # else what it states may render it all the same
            raise
    if made == content:
        return BELONG, "consistent: its data give this file, byte for byte", (), b""
    if other:
        said = f"not verified here: it states other software: {', '.join(other)}; verify it by that"
        return OTHER_SOFTWARE, said, (), made
    if not (found := differences(content, made)):
        said = "saved by another program: its data give all that it shows; keep the rebuilt one"
        return OTHER_BYTES, said, (), made
    page = next((part for part, _ in found if part.startswith("page ")), "")
    line = _first_line(page, content, made) if page else ""
    texts = [f"{part}: {text}{line if part == page else ''}" for part, text in found]
    return DIFFER, "inconsistent: it is not the report that its data give", texts, made


def _faults(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """What grading's own checks fail of the attached records, the second answer."""
    found = Folder()
    for name, record in read_records(attachments).items():
        take(found, f"report.pdf/{name}", json.dumps(record).encode())
    lines = check_alone(submission_of("report", found, None)).lines
    for group in grouped((line for line in lines if line.check != "coverage"), "fail"):
        yield f"  {group[0].check}: {told(group, 'en', escaped)}"


def verified(pdf: Path) -> tuple[int, list[str]]:
    """The exit status, and the lines to print; UnsoundPdfError for no report with its data."""
    try:
        content = read_bounded(str(pdf), most=MAX_PDF_BYTES)
        attachments = attachments_of(content)
        status, verdict, found, made = _compare(content, attachments)
    except (UnsoundFileError, UnsoundPdfError) as error:
        raise UnsoundPdfError(f"{pdf}: {error}") from error
    with one_message("the report's data cannot be checked"):
        config = parsed(attachment(attachments, CONFIG), CONFIG)  # of other software, perhaps
        own = [f"author.{key}" for key in config.get("author", {})] + ["the experiments' titles"]
        own += [name for name in sorted(attachments) if name.startswith("remark-")]
        is_known = config.get("benchmark", "attention") == "attention"
        faults = list(_faults(attachments)) if is_known else []
    said = "grading's checks of the records fail nothing" if is_known else "not checked, because "
    said += "" if is_known else "grading knows the records of attention alone"
    lines = [f"data: {'no measurement gives these records' if faults else said}", *faults]
    lines += [f"difference: {escaped(text)}" for text in found[:SHOWN]]
    lines += [f"and {len(found) - SHOWN} more differences"] if len(found) > SHOWN else []
    if made:
        path = pdf.with_name(f"{pdf.stem}.rebuilt.pdf")
        try:
            with open_atomically(path, binary=True) as file:
                file.write(made)
            lines.append(f"the rebuilt report: {path}")
        except OSError as error:
            lines.append(f"the rebuilt report cannot be kept: {path}: {error.strerror}")
    lines.append(f"the author's own, not verified: {escaped(', '.join(own))}")
    doubt = "; but no measurement gives its data" if faults else ""
    lines.append(f"verdict: {escaped(verdict)}{doubt}")
    lines.append("Only the report and its own data are compared: invented data agree, too.")
    return (status or DIFFER if faults else status), lines


def verify(pdf: Path | None, order_file: Path | None) -> int:
    """Verify a report, or that which a call's order names, and print it; the exit status.

    It is verified in a process of its own, within limits of memory and time.
    """
    if order_file is not None:
        pdf = Path(read_json(order_file)["pdf"])
    assert pdf is not None
    try:
        status, lines = apart(MAX_SECONDS, verified, pdf)
    except LimitError as error:
        said = f"it took more than {error}, as no report does, or was killed"
        print(f"error: the report was not verified to its end: {said}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return status
