"""The table of keys in config/README.md, from the model: ``python tests/config_keys.py`` renews it.

The test suite holds the file against what this prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from flashlab.config.model import CONFIGURATION, DESCRIPTIONS

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


def table() -> str:
    """Every key with its default and what it is."""
    rows = [
        f"| `{name}` | {DESCRIPTIONS[name]} | {_written(field.default)} |\n"
        for name, field in CONFIGURATION.model_fields.items()
    ]
    return "| key | what it is | default |\n|---|---|---|\n" + "".join(rows)


def renewed(text: str) -> str:
    """The README with the table of now."""
    before, heading, rest = text.partition(HEADING)
    _, _, after = rest.partition("\n\n")
    return f"{before}{heading}{table()}\n{after}"


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
