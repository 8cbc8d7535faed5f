"""Writes workflow/schemas/finding.schema.json, what findings.json holds, from the kinds.

Usage, from the repository's root: python tests/schemas.py
"""

from __future__ import annotations

from flashlab.analysis.registry import findings_schema
from flashlab.files import write_json
from flashlab.sources import PACKAGE

COMMAND = "python tests/schemas.py"
FILE = PACKAGE.parent / "schemas" / "finding.schema.json"

if __name__ == "__main__":
    write_json(FILE, findings_schema())
