"""The table of keys in config/README.md, from the model: ``python tests/config_keys.py`` renews it.

It has the keys that config.yaml does not explain. The test suite holds the file against it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from pydantic_core import PydanticUndefined

from flashlab.config.model import Configuration

README = Path(__file__).parents[1] / "config" / "README.md"
EXPLAINED = README.with_name("config.yaml")
HEADING = "## The keys beside those\n\n"


def _written(default: object) -> str:
    """A default as a call would give it."""
    if default in (None, PydanticUndefined, []):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def explained() -> set[str]:
    """The keys that config.yaml has, those behind a # among them."""
    return {*re.findall(r"^(?:# )?(\w+):", EXPLAINED.read_text(encoding="utf-8"), re.MULTILINE)}


def table() -> str:
    """Every other key with its default and what it is."""
    fields = {field.alias or name: field for name, field in Configuration.model_fields.items()}
    rows = [
        f"| `{key}` | {field.description} | {_written(field.default)} |\n"
        for key, field in fields.items()
        if key not in explained()
    ]
    return "| key | what it is | default |\n|---|---|---|\n" + "".join(rows)


def renewed(text: str) -> str:
    """The README with the table of now."""
    before, heading, rest = text.partition(HEADING)
    _, _, after = rest.partition("\n\n")
    return f"{before}{heading}{table()}\n{after}"


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
