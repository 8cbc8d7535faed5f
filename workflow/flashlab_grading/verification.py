"""A report checked against its own data: rebuilt from its attachments, and compared with that.

This proves that a report and its data belong together, not where the data came from. So the data
are checked as a submission's are, which is a second answer.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path

from flashlab.files import open_atomically, read_json
from flashlab.report.attached import CEILINGS, CONFIG, attachment, parsed
from flashlab.report.rebuild import other_software, rebuild
from flashlab_grading.apart import Apart, LimitError
from flashlab_grading.causes import grouped, told
from flashlab_grading.grade import check_alone
from flashlab_grading.model import Submission
from flashlab_grading.pdf_objects import differences
from flashlab_grading.report_pdf import (
    UnsoundPdfError,
    attachments_of,
    first_difference,
    one_message,
    page_text,
    read_pdf,
)
from flashlab_grading.shown import escaped
from flashlab_grading.submissions import read_report

MAX_SECONDS = 900.0
"""Longest time for one report."""

SHOWN = 40  # differences that are listed

BELONG, DIFFER, OTHER_SOFTWARE, OTHER_BYTES = 0, 1, 3, 4
"""Exit statuses; 2 is that of a wrong command line."""


def _explained(found: Sequence[tuple[str, str]], content: bytes, made: bytes) -> Iterator[str]:
    """The differences; of the first page and of each attached file with a line that differs."""
    files = [attachments_of(pdf) for pdf in (content, made)]
    pages = [part for part, _ in found if part.startswith("page ")]
    for part, said in found:
        kind, _, name = part.partition(" ")
        texts: list[list[str]] = [[], []]
        if part in pages[:1]:
            texts = [page_text(pdf, int(name)) for pdf in (content, made)]
        elif kind == "attachment" and all(name in file for file in files):
            texts = [file[name].decode(errors="replace").split("\n") for file in files]
        line = first_difference(*texts)
        words = line and f": line {line[0]}: it says “{line[1]}”, and its data give “{line[2]}”"
        yield f"{part}: {said}{words or ''}"


def _compare(
    content: bytes, attachments: Mapping[str, bytes]
) -> tuple[int, str, Sequence[str], bytes]:
    """The exit status, the answer in words, the differences, and the report that the data give.

    UnsoundPdfError if they give none.
    """
    with one_message("what rendered the report cannot be read"):
        other = other_software(attachments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="flashlab-") as folder,
            one_message("the report cannot be rebuilt from its data"),
        ):
            made = rebuild(attachments, Path(folder))
    except UnsoundPdfError:
        if not other:  # else what it states may render it all the same
            raise
        made = b""
    if made == content:
        return BELONG, "consistent: its data give this file, byte for byte", (), b""
    if other:
        said = f"not verified here: it states other software: {', '.join(other)}; verify it by that"
        return OTHER_SOFTWARE, said, (), made
    found = differences(content, made)
    if not found:
        said = "saved by another program: its data give all that it shows; keep the rebuilt one"
        return OTHER_BYTES, said, (), made
    said = "inconsistent: it is not the report that its data give"
    return DIFFER, said, list(_explained(found, content, made)), made


# The second answer


def _ceiling_lines(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """The attached ceilings that do not follow from their samples."""
    if CEILINGS not in attachments:
        return
    document = parsed(attachments[CEILINGS], CEILINGS)
    copy = document["copy"]
    known = [("copy", copy, "bandwidth(GB/s)", 2 * copy["bytes"] / 1e9)]
    for dtype, own in document["matrix_product"].items():
        work = 2 * own["size"] ** 3 / 1e12
        known.append((f"matrix_product.{dtype}", own, "rate(TFLOPs/s)", work))
    for name, own, key, work in known:
        where, seconds = f"  {CEILINGS}: {name}", own["time(s)"]
        if own["samples"] and not isclose(seconds, statistics.median(own["samples"])):
            yield f"{where}: time(s) is not the median of the samples"
        if not isclose(own[key], work / seconds):
            yield f"{where}: {key}: it says {own[key]}, and the time gives {work / seconds:.9g}"


def _faults(submission: Submission, attachments: Mapping[str, bytes]) -> Iterator[str]:
    """What grading's own checks fail of the attached records and ceilings."""
    lines = [line for line in check_alone(submission).lines if line.check != "coverage"]
    for group in grouped(lines, "fail"):
        yield f"  {group[0].check}: {told(group, 'en', escaped)}"
    yield from _ceiling_lines(attachments)


def _keep(made: bytes, pdf: Path) -> str:
    """Keep the rebuilt report beside the other one; a line with its path."""
    path = pdf.with_name(f"{pdf.stem}.rebuilt.pdf")
    try:
        with open_atomically(path, binary=True) as file:
            file.write(made)
    except OSError as error:
        return f"the rebuilt report cannot be kept: {path}: {error.strerror}"
    return f"the rebuilt report: {path}"


def verified(pdf: Path) -> tuple[int, list[str]]:
    """The exit status, and the lines to print; UnsoundPdfError for no report with its data."""
    try:
        content = read_pdf(pdf)
        attachments = attachments_of(content)
        status, verdict, found, made = _compare(content, attachments)
    except UnsoundPdfError as error:
        raise UnsoundPdfError(f"{pdf}: {error}") from error
    with one_message("the report's data cannot be checked"):
        config = parsed(attachment(attachments, CONFIG), CONFIG)  # of other software, perhaps
        own = [f"author.{key}" for key in config.get("author", {})] + ["the experiments' titles"]
        own += [name for name in sorted(attachments) if name.startswith("remark-")]
        is_known = config.get("benchmark", "attention") == "attention"
        faults = list(_faults(read_report(content), attachments)) if is_known else []
    checked = "not checked, because grading knows the records of attention alone"
    if is_known:
        checked = "grading's checks of the records fail nothing"
    lines = ["data: no measurement gives these records" if faults else f"data: {checked}", *faults]
    lines += [f"difference: {escaped(text)}" for text in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"and {len(found) - SHOWN} more differences")
    if made:
        lines.append(_keep(made, pdf))
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
        status, lines = Apart(MAX_SECONDS, verified, pdf).result()
    except LimitError as error:
        said = f"it took more than {error}, as no report does, or was killed"
        print(f"error: the report was not verified to its end: {said}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return status
