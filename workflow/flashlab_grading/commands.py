"""The commands of grading."""

from __future__ import annotations

import sys
from pathlib import Path

from flashlab.cli import LANGUAGE, Command, option, path


def _verify(pdf: Path | None, order: Path | None) -> int:
    """Verify in a process of its own, which is ended where it takes too much."""
    from flashlab_grading.apart import LimitError, run_within_limits

    given = ("--order", order) if order else ("--pdf", pdf)
    command = (sys.executable, "-m", "flashlab", "verify-unlimited", *map(str, given))
    try:
        return run_within_limits(command)
    except LimitError as error:
        print(f"error: the report was not verified to its end: {error}", file=sys.stderr)
        return 1


VERIFIED = (
    option("--pdf", type=Path, metavar="PATH", help="the report"),
    option("--order", type=Path, help="what a Snakemake call is to verify, JSON"),
)
STATUSES = (
    "Exit status: 0 if its data give the report byte for byte, 1 if they do not or it is no "
    "report, 2 if the command line is wrong, 3 if it takes other software to tell, 4 if pages and "
    "attachments are those that its data give, but the file is not."
)

COMMANDS = (
    Command(
        "grade",
        "flashlab_grading.stage:write_stage",
        "Grade a folder of submissions.",
        (
            path("--order", "what to grade, JSON"),
            path("--grades", "CSV file to write"),
            path("--summary", "CSV file to write"),
            path("--document", "the pages' content to write"),
        ),
    ),
    Command(
        "grades-pdf",
        "flashlab_grading.sheets:write_pages",
        "Render the grades as a PDF.",
        (path("--document", "the pages' content"), path("--output", "PDF to write")),
    ),
    Command(
        "verify",
        _verify,
        "Check a report against the data attached to it.",
        one_of=VERIFIED,
        epilog=STATUSES,
    ),
    Command(
        "verify-unlimited",
        "flashlab_grading.verification:write_verification",
        "What verify does, without its limits of memory and time.",
        one_of=VERIFIED,
        epilog=STATUSES,
    ),
    Command(
        "selfcheck",
        "flashlab_grading.selfcheck:self_check",
        "Check one submission before it is handed in.",
        (
            option("folder", type=Path, metavar="FOLDER", help="the submission, or its archive"),
            option("--device", help="the class's GPU, for results that name none"),
            LANGUAGE,
        ),
    ),
)
