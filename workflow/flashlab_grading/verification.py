"""A report checked against its own data: rebuilt from its attachments, and compared byte by byte.

This proves that a report and its data belong together, not where the data came from. So the data
are checked as a submission's are, which is a second answer.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from flashlab.course.results import agree
from flashlab.files import open_atomically, read_json
from flashlab.report.attached import CEILINGS, AttachmentError, parsed, read_config
from flashlab.report.rebuild import other_software, rebuild, stated_software
from flashlab_grading.apart import Apart, LimitError
from flashlab_grading.causes import cause_sentence, causes_of
from flashlab_grading.grade import check_alone
from flashlab_grading.model import Submission
from flashlab_grading.report_pdf import (
    UnsoundPdfError,
    attachments_of,
    first_difference,
    page_differences,
    read_pdf,
)
from flashlab_grading.shown import escaped
from flashlab_grading.submissions import read_report

RELEASES = Path(__file__).parents[2] / "data" / "releases.csv"
"""Version, commit and digest of the code of each release that states its software."""

MAX_SECONDS = 900.0
"""Longest time for one report."""

SHOWN = 40
"""Most differences that are listed."""

BELONG, DIFFER, OTHER_SOFTWARE, OTHER_BYTES = 0, 1, 3, 4
"""Exit statuses; 2 is that of a wrong command line."""


@contextmanager
def _one_message(what: str) -> Iterator[None]:
    """UnsoundPdfError in place of whatever data that somebody has altered makes a stage raise."""
    try:
        yield
    except (UnsoundPdfError, ModuleNotFoundError):  # a missing library is no fault of the data
        raise
    except AttachmentError as error:
        raise UnsoundPdfError(str(error)) from error
    except Exception as error:
        raise UnsoundPdfError(f"{what}: {type(error).__name__}: {str(error)[:300]}") from error


def _attachment_differences(found: Mapping[str, bytes], made: Mapping[str, bytes]) -> Iterator[str]:
    """The attachments that the records do not give, each with the first line that differs."""
    for name in sorted(found.keys() | made.keys()):
        if name not in made:
            yield f"{name} is attached but is not part of a report's data"
        elif name not in found:
            yield f"{name} is not attached"
        elif found[name] != made[name]:
            lines = (own[name].decode(errors="replace").split("\n") for own in (found, made))
            number, says, gives = first_difference(*lines) or (0, "other bytes", "others")
            yield f"{name}: line {number}: {says} … but the records give {gives}"


def _remedy(attachments: Mapping[str, bytes], other: Sequence[str]) -> str | None:
    """The way to the software that a report states; None if it is this, or no release had it."""
    stated = stated_software(attachments)
    if not stated or not other:
        return None
    if not {"code", "flashlab"} & set(other):
        return "install these versions"
    with RELEASES.open(encoding="utf-8", newline="") as file:
        commits = {row["code"]: row["commit"] for row in csv.DictReader(file)}
    commit = commits.get(stated["code"])
    return f"check out {commit}, install its requirements" if commit else None


Compared = tuple[int, str, Sequence[str], bytes]
"""The exit status and the answer in words, the differences, and the rebuilt report."""


def _compare(content: bytes, attachments: Mapping[str, bytes]) -> Compared:
    """A report compared with that which its attachments give; UnsoundPdfError if they give none."""
    with (
        tempfile.TemporaryDirectory(prefix="flashlab-") as folder,
        _one_message("the report cannot be rebuilt from its data"),
    ):
        made = rebuild(attachments, Path(folder))
    if made == content:
        return BELONG, "consistent: its data give this file, byte for byte", (), b""
    with _one_message("the report cannot be compared with its data"):
        other = other_software(attachments)
        found = list(_attachment_differences(attachments, attachments_of(made)))
        found += page_differences(content, made)
        remedy = _remedy(attachments, other)
    versions = f"versions of {', '.join(other)}"
    if remedy:
        said = f"not verified here: it was rendered by other {versions}; {remedy}, and verify it so"
        return OTHER_SOFTWARE, said, found, made
    if not found:
        said = "not our file: its pages and attachments are those that its data give, but scripts "
        said += "and all else that pages do not show may differ; keep the rebuilt one"
        return OTHER_BYTES, said, found, made
    said = "inconsistent: it is not the report that its data give"
    if other:
        said += f", and modified or unreleased {versions} rendered it, which vouch for nothing"
    return DIFFER, said, found, made


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
        where, seconds = f"{CEILINGS}: {name}", own["time(s)"]
        if own["samples"] and not agree(seconds, statistics.median(own["samples"])):
            yield f"{where}: time(s) is not the median of the samples"
        if not agree(own[key], work / seconds):
            yield f"{where}: {key}: it says {own[key]}, and the time gives {work / seconds:.9g}"


def check_data(submission: Submission, attachments: Mapping[str, bytes]) -> tuple[bool, list[str]]:
    """False if grading's own checks fail any of the attached records, and the lines to print."""
    if read_config(attachments)["benchmark"] != "attention":
        return True, ["data: not checked, because grading knows the records of attention alone"]
    lines = [line for line in check_alone(submission).lines if line.check != "coverage"]
    faults = [
        f"{cause.line.check}: {cause_sentence(cause, 'en', escaped)}"
        for cause in causes_of(lines, len(submission.results), ("fail",))
    ]
    faults += _ceiling_lines(attachments)
    if not faults:
        return True, ["data: grading's checks of the records fail nothing"]
    return False, ["data: no measurement gives these records", *(f"  {text}" for text in faults)]


def _unverified(attachments: Mapping[str, bytes]) -> str:
    """The names of texts that the author wrote: name, titles, remarks and their images."""
    author = [f"author.{key}" for key in read_config(attachments).get("author", {})]
    remarks = [name for name in sorted(attachments) if name.startswith("remark-")]
    return escaped(", ".join([*author, "the experiments' titles", *remarks]))


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
        status, verdict, differences, made = _compare(content, attachments)
    except UnsoundPdfError as error:
        raise UnsoundPdfError(f"{pdf}: {error}") from error
    with _one_message("the report's data cannot be checked"):
        is_plausible, lines = check_data(read_report(content), attachments)
    lines += [f"difference: {escaped(text)}" for text in differences[:SHOWN]]
    if len(differences) > SHOWN:
        lines.append(f"and {len(differences) - SHOWN} more differences")
    if made:
        lines.append(_keep(made, pdf))
    lines.append(f"the author's own, not verified: {_unverified(attachments)}")
    doubt = "" if is_plausible else "; but no measurement gives its data"
    lines.append(f"verdict: {escaped(verdict)}{doubt}")
    lines.append("Only the report and its own data are compared: invented data agree, too.")
    return (status if is_plausible else status or DIFFER), lines


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
