"""The commands about a Snakemake call: what it gives as configuration, and what it left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flashlab.cli import Command, option


def _clean(yes: bool, records: bool) -> None:
    from flashlab.calls.cleaning import clean

    print("\n".join(clean(Path(), yes, records)))


def _check_call(files: Sequence[Path], arguments: Sequence[str]) -> None:
    from flashlab.config import parse_override, read_config

    for file in files:
        read_config(file)
    for argument in arguments:
        parse_override(argument)


COMMANDS = (
    Command(
        "clean",
        _clean,
        "Say what can be deleted, and how much disk it takes.",
        (
            option("--yes", action="store_true", help="delete it"),
            option("--records", action="store_true", help="the measured records, too"),
        ),
    ),
    Command(
        "check-call",
        _check_call,
        "Check what a Snakemake call gives as configuration.",
        (
            option("--configfile", "--configfiles", type=Path, nargs="+", default=[]),
            option("--config", "-C", nargs="*", default=[]),
        ),
        ignores_others=True,
    ),
)
