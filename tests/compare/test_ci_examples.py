"""The CI examples call what there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flashlab.__main__ import make_parser

EXAMPLES = sorted(Path("docs", "ci").glob("*.yml"))


def texts(value: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, str):
        yield value
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from texts(inner)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_command_of_an_example_is_one_of_ours(example: Path) -> None:
    lines = [
        line
        for text in texts(yaml.safe_load(example.read_text(encoding="utf-8")))
        for line in text.splitlines()
    ]
    calls = [found[1] for line in lines if (found := re.search(r"-m flashlab ([^>]*)", line))]
    names = [make_parser().parse_args(shlex.split(call)).command.name for call in calls]
    assert sorted(names) == ["compare", "history"]
    assert any("snakemake --cores all records" in line for line in lines)
    assert "--fail-on slower" in " ".join(calls)
