"""The command line behind the Snakemake rules: one command for each stage."""

from __future__ import annotations

import sys

try:
    import argparse
    import logging
    from collections.abc import Iterator, Sequence
    from contextlib import contextmanager

    from flashlab.analysis import commands as analysis
    from flashlab.calls import commands as calls
    from flashlab.calls.watching import end_with_workflow
    from flashlab.checking import commands as checking
    from flashlab.cli import Command, UsageError
    from flashlab.compare import commands as compare
    from flashlab.figures import commands as figures
    from flashlab.hw4 import commands as hw4
    from flashlab.plan import commands as plan
    from flashlab.report import commands as report
    from flashlab_grading import commands as grading
except KeyboardInterrupt:
    sys.exit(130)

COMMANDS = (
    *plan.COMMANDS,
    *calls.COMMANDS,
    *analysis.COMMANDS,
    *figures.COMMANDS,
    *report.COMMANDS,
    *checking.COMMANDS,
    *compare.COMMANDS,
    *hw4.COMMANDS,
    *grading.COMMANDS,
)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m flashlab",
        description="FlashLab's stages, one command each. Snakemake calls them; so can you.",
    )
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(parsers)
    return parser


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print what the package warns of on standard error, each text once: ``warning: …``."""
    logger, handler = logging.getLogger("flashlab"), logging.StreamHandler()
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        before = len(seen)
        seen.add(record.getMessage())
        return len(seen) > before

    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.addFilter(is_new)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it did its work, 1 with one message when it could not.

    130, and no message, when it is interrupted from the keyboard.
    """
    try:
        parser = make_parser()
        arguments = parser.parse_args(argv)
        command: Command = arguments.command
        # What measures looks after the process that it starts, and then ends by itself.
        if not command.ends_alone:
            end_with_workflow()
        with _warnings_shown():
            return command.run(arguments)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "flashlab", "flashlab_grading"):
            raise
        print(
            f"error: the Python package {package} is not installed; set up with ./run, or run "
            "python -m pip install -r envs/cpu/requirements.txt",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else error
        print(f"error: {said}", file=sys.stderr)
        return 1
    except Exception as error:
        if not type(error).__module__.startswith("flashlab"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main())
