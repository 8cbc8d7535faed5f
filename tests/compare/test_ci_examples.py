"""The CI examples call what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from flashlab.cli import make_parser

EXAMPLES = sorted(Path("docs", "ci").glob("*.yml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_command_of_an_example_is_one_of_ours(example: Path) -> None:
    # A call goes on in a line of options.
    text = re.sub(r"\n +--", " --", example.read_text(encoding="utf-8"))
    calls = re.findall(r"-m flashlab ([^>\n]*)", text)
    names = [make_parser().parse_args(shlex.split(call)).command for call in calls]
    assert names == ["compare"]
    assert "snakemake --cores all records" in text
    assert "report/compare.pdf --config 'compare=[reference,local]'" in text
    assert "--fail-on slower" in " ".join(calls)
