"""The command about what Snakemake calls have left."""

from __future__ import annotations

from pathlib import Path

from flashlab.cli import Command, option


def _clean(yes: bool, records: bool) -> None:
    from flashlab.calls.cleaning import clean

    print("\n".join(clean(Path(), yes, records)))


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
)
