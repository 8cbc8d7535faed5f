"""Keys and defaults of the table in config/README.md: ``python tests/config_keys.py`` renews them.

What a key is for is written there by hand. The test suite holds the file against what this makes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from flashlab.config.model import CONFIGURATION

README = Path(__file__).parents[1] / "config" / "README.md"
HEADING = "## All keys\n\n"


def _written(default: object) -> str:
    """A default as a call would give it."""
    if default is None or default is PydanticUndefined:
        return ""
    if isinstance(default, BaseModel):
        default = default.model_dump(exclude_none=True)
    text = default if isinstance(default, str) else json.dumps(default).replace('"', "")
    return f"`{text}`" if text not in ("[]", "{}") else ""


def renewed(text: str) -> str:
    """The README with a row for every key: its default, and what it is as far as the text says."""
    before, heading, rest = text.partition(HEADING)
    rows, _, after = rest.partition("\n\n")
    said = dict(re.findall(r"^\| `(\w+)` \| (.*?) \| .*\|$", rows, re.MULTILINE))
    lines = [
        f"| `{name}` | {said.get(name, 'TODO')} | {_written(field.default)} |\n"
        for name, field in CONFIGURATION.model_fields.items()
    ]
    table = "| key | what it is | default |\n|---|---|---|\n" + "".join(lines)
    return f"{before}{heading}{table}\n{after}"


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
