"""A report checked against its own data: rebuilt from its attachments, and compared byte by byte.

This proves that a report and its data belong together, not where the data came from. So the data
are checked as a submission's are, which is a second answer.
"""

from __future__ import annotations

import csv
import itertools
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flashlab.course.results import agree
from flashlab.files import open_atomically, read_json
from flashlab.report.attached import CEILINGS, AttachmentError, parsed, read_config
from flashlab.report.rebuild import other_software, rebuild, stated_software
from flashlab_grading.causes import causes_of
from flashlab_grading.grade import check_alone
from flashlab_grading.model import Submission
from flashlab_grading.report_pdf import (
    UnsoundPdfError,
    attachments_of,
    hidden_parts,
    page_differences,
    read_pdf,
    same_until,
)
from flashlab_grading.reproduction import Measured, check_reproduction, measured_of
from flashlab_grading.shown import escaped
from flashlab_grading.submissions import read_report
from flashlab_grading.wording import cause_sentence, sentence

RELEASES = Path(__file__).parents[2] / "data" / "releases.csv"
"""Version, commit and digest of the code of each release that states its software."""

SHOWN = 40
"""Most differences that are listed."""

SHOWN_CHARACTERS = 120

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
            lines = itertools.zip_longest(found[name].split(b"\n"), made[name].split(b"\n"))
            numbered = enumerate(lines, start=1)
            number, pair = next((n, pair) for n, pair in numbered if pair[0] != pair[1])
            at = max(0, same_until(*(line or b"" for line in pair)) - SHOWN_CHARACTERS // 2)
            texts = [
                "nothing"
                if line is None
                else line[at : at + SHOWN_CHARACTERS].decode(errors="replace")
                for line in pair
            ]
            yield f"{name}: line {number}: {texts[0]} … but the records give {texts[1]}"


@dataclass(frozen=True)
class Compared:
    """The exit status and the answer in words, the differences, and the rebuilt report."""

    status: int
    verdict: str
    differences: Sequence[str] = ()
    made: bytes = b""


def _remedy(attachments: Mapping[str, bytes], other: Sequence[str]) -> str | None:
    """How to get the software that a report states; None if it is this, or no release had it."""
    stated = stated_software(attachments)
    if not stated or not other:
        return None
    if not {"code", "flashlab"} & set(other):
        return "install these versions"
    with RELEASES.open(encoding="utf-8", newline="") as file:
        commits = {row["code"]: row["commit"] for row in csv.DictReader(file)}
    commit = commits.get(stated["code"])
    return f"check out {commit}, install its requirements" if commit else None


def compare(content: bytes, attachments: Mapping[str, bytes]) -> Compared:
    """Compare a report with that which its attachments give; UnsoundPdfError if they give none."""
    with (
        tempfile.TemporaryDirectory(prefix="flashlab-") as folder,
        _one_message("the report cannot be rebuilt from its data"),
    ):
        made = rebuild(attachments, Path(folder))
    if made == content:
        return Compared(BELONG, "consistent: its data give this file, byte for byte")
    with _one_message("the report cannot be compared with its data"):
        other = other_software(attachments)
        hidden = hidden_parts(content)
        found = (
            *hidden,
            *_attachment_differences(attachments, attachments_of(made)),
            *page_differences(content, made),
        )
        # What no page shows is not excused by another version, which has none of it either.
        remedy = None if hidden else _remedy(attachments, other)
    versions = f"versions of {', '.join(other)}"
    if remedy:
        said = f"not verified here: it was rendered by other {versions}; {remedy}, and verify it so"
        return Compared(OTHER_SOFTWARE, said, found, made)
    if not found:
        said = (
            "not our file: its pages and attachments are those that its data give, but another "
            "program wrote it, and what pages do not show may differ; keep the rebuilt one"
        )
        return Compared(OTHER_BYTES, said, found, made)
    said = "inconsistent: it is not the report that its data give"
    if other:
        said += f", and modified or unreleased {versions} rendered it, which vouch for nothing"
    return Compared(DIFFER, said, found, made)


# The second answer


def _ceiling_lines(attachments: Mapping[str, bytes]) -> Iterator[str]:
    """Where the attached ceilings do not follow from their samples."""
    if CEILINGS not in attachments:
        return
    document = parsed(attachments[CEILINGS], CEILINGS)
    copy, products = document["copy"], document["matrix_product"]
    known = [("copy", copy, "bandwidth(GB/s)", 2 * copy["bytes"] / 1e9)]
    for dtype, own in products.items():
        known.append(
            (f"matrix_product.{dtype}", own, "rate(TFLOPs/s)", 2 * own["size"] ** 3 / 1e12)
        )
    for name, own, key, work in known:
        where, seconds = f"{CEILINGS}: {name}", own["time(s)"]
        if own["samples"] and not agree(seconds, statistics.median(own["samples"])):
            yield f"{where}: time(s) is not the median of the samples"
        if not agree(own[key], work / seconds):
            yield f"{where}: {key}: it says {own[key]}, and the time gives {work / seconds:.9g}"


def check_data(submission: Submission, attachments: Mapping[str, bytes]) -> tuple[bool, list[str]]:
    """Whether grading's own checks fail none of the attached records, and what to print of them."""
    if read_config(attachments)["benchmark"] != "attention":
        return True, ["data: not checked, because grading knows the records of attention alone"]
    lines = [line for line in check_alone(submission).lines if line.check != "coverage"]
    causes = causes_of(lines, len(submission.results))
    told = [
        f"{cause.line.check}: {cause_sentence(cause, 'en', escaped)}"
        for cause in causes
        if cause.line.verdict == "fail"
    ]
    told += _ceiling_lines(attachments)
    if not told:
        return True, ["data: grading's checks of the records fail nothing"]
    return False, ["data: no measurement gives these records", *(f"  {text}" for text in told)]


def _unverified(attachments: Mapping[str, bytes]) -> str:
    """What the author wrote: name, titles, remarks and their images."""
    config = read_config(attachments)
    remarks = [name for name in sorted(attachments) if name.startswith("remark-")]
    author = [f"author.{key}" for key in config.get("author", {})]
    return escaped(", ".join([*author, "the experiments' titles", *remarks]))


def _keep(made: bytes, pdf: Path) -> str:
    """Keep the rebuilt report beside the other one; a line that says where."""
    path = pdf.with_name(f"{pdf.stem}.rebuilt.pdf")
    try:
        with open_atomically(path, binary=True) as file:
            file.write(made)
    except OSError as error:
        return f"the rebuilt report cannot be kept: {path}: {error.strerror}"
    return f"the rebuilt report: {path}"


def verify(pdf: Path, measured: Sequence[Measured] = (), here: str = "") -> tuple[int, list[str]]:
    """Whether a report and its data belong together, and the data can have been measured.

    `measured` are its runs that were measured again, on the device `here`. The exit status, and the
    lines to print; UnsoundPdfError where it is not a report with its data attached.
    """
    try:
        content = read_pdf(pdf)
        attachments = attachments_of(content)
        compared = compare(content, attachments)
    except UnsoundPdfError as error:
        raise UnsoundPdfError(f"{pdf}: {error}") from error
    with _one_message("the report's data cannot be checked"):
        submission = read_report(content)
        plausible, lines = check_data(submission, attachments)
        again = check_reproduction(submission.results, measured, here) if measured else []
    for line in again:
        numbers = f" ({line.expected} here, {line.found} in the report)" if line.found else ""
        lines.append(f"measured again: {line.verdict}: {sentence(line, 'en', escaped)}{numbers}")
    lines += [f"difference: {escaped(text)}" for text in compared.differences[:SHOWN]]
    if len(compared.differences) > SHOWN:
        lines.append(f"and {len(compared.differences) - SHOWN} more differences")
    if compared.made:
        lines.append(_keep(compared.made, pdf))
    lines.append(f"the author's own, not verified: {_unverified(attachments)}")
    doubt = "" if plausible else "; but no measurement gives its data"
    lines.append(f"verdict: {escaped(compared.verdict)}{doubt}")
    lines.append(
        "This compares the report with its own data; invented data agree with their report, too."
    )
    failed = not plausible or any(line.verdict == "fail" for line in again)
    return ((compared.status or DIFFER) if failed else compared.status), lines


def write_verification(pdf: Path | None, order_file: Path | None) -> int:
    """Verify a report, or that which a call's order names, and print it; the exit status."""
    if order_file is None:
        assert pdf is not None
        status, lines = verify(pdf)
    else:
        order = read_json(order_file)
        status, lines = verify(Path(order["pdf"]), measured_of(order), order["here"])
    print("\n".join(lines))
    return status
