"""Removes what identifies a machine or a person from the data that leave the results' folder.

It acts on the recorded JSON, where records are tabulated, attached and frozen. The local records
stay whole, so that switching it measures nothing again. Applied twice it changes nothing more, so
that an anonymous report can be rebuilt from its own attachments.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

IDENTIFIERS = ("gpu_uuid", "boot")
"""Keys of a record's environment that name one device or one boot of one system."""

DIGITS = 4
"""Hexadecimal digits of a pseudonym: enough to tell the devices of a dataset apart, and shared by
one device in 65,536, so that nobody can tell from it whose it is."""

_PSEUDONYM = re.compile(rf"anonymous-[0-9a-f]{{{DIGITS}}}")
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_BEGINNING = r"(?:~\w*/|/|(?:\.\./)+)"
_FOLDERS = re.compile(
    rf"(?<=['\"]){_BEGINNING}[^'\"\n]*/|(?<![\w./~]){_BEGINNING}(?:[^\s/:'\"<>|]+/)+"
)
"""The folders of a path from the root, from a home, or out of the working directory. In quotes,
their names may hold spaces."""


def _pseudonym(value: str) -> str:
    """The pseudonym of an identifier; that of a pseudonym is itself."""
    if _PSEUDONYM.fullmatch(value):
        return value
    return f"anonymous-{hashlib.sha256(value.encode()).hexdigest()[:DIGITS]}"


def anonymous_text(text: str) -> str:
    """A text without GPUs' UUIDs and without the folders of paths: ``…/kernel.py``."""
    pseudonymous = _UUID.sub(lambda match: _pseudonym(match[0]), text)
    return _FOLDERS.sub("…/", pseudonymous)


def anonymous(document: Any) -> Any:
    """A JSON document without what identifies a machine or a person; equal where it has none.

    The pseudonyms in place of identifiers tell the same devices and boots apart.
    """
    if isinstance(document, dict):
        return {
            key: _pseudonym(value)
            if key in IDENTIFIERS and isinstance(value, str)
            else anonymous(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [anonymous(value) for value in document]
    return anonymous_text(document) if isinstance(document, str) else document
