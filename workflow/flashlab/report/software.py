"""The software that rendered a report, as its manifest states it: code, fonts and libraries."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any, TypeGuard

from flashlab.files import sha256_of
from flashlab.sources import PACKAGE, sources_of
from flashlab.version import __version__

ROOT = PACKAGE.parents[1]
TEMPLATES = ROOT / "templates"

STAGES = ("analysis.tables", "story.stage", "figures.stage", "report.render")
"""The modules that decide a report, from its records on."""

FILES = ("data/devices.csv",)
"""The file that they read beside the records and the templates."""

TEXT_SUFFIXES = (".conf", ".css", ".j2", ".toml")
"""The folders of templates that decide a report; fonts are stated one by one."""

PACKAGES = (
    *("fonttools", "jinja2", "markdown-it-py", "matplotlib", "numpy", "pandas"),
    *("pillow", "pydyf", "scipy", "seaborn", "weasyprint"),
)


def _code() -> str:
    """A digest of the files that decide a report, and of the kernels, whose labels it prints."""
    paths = {path for stage in STAGES for path in sources_of(f"{PACKAGE.name}.{stage}")}
    paths |= {ROOT / file for file in FILES}
    paths |= {path for path in TEMPLATES.rglob("*") if path.suffix in TEXT_SUFFIXES}
    paths |= {*ROOT.glob("kernels/**/*.py")}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _harfbuzz() -> str:
    """The version of HarfBuzz, which decides the bytes of the fonts in a PDF."""
    for name in ("libharfbuzz.so.0", "libharfbuzz.0.dylib"):
        try:
            version = ctypes.CDLL(name).hb_version_string
        except OSError:
            continue
        version.restype = ctypes.c_char_p
        return str(version().decode())
    return "unknown"


@cache
def software() -> dict[str, Any]:
    """Version and digest of FlashLab, SHA-256 of its fonts, and versions of the libraries.

    That of Pango, which breaks the lines, has 5 digits or more, the last two its third.
    """
    from weasyprint.text.ffi import pango

    return {
        "flashlab": __version__,
        "code": _code(),
        "fonts": {path.name: sha256_of(path) for path in sorted(TEMPLATES.glob("fonts/*.ttf"))},
        "libraries": {
            **{package: metadata.version(package) for package in PACKAGES},
            "harfbuzz": _harfbuzz(),
            "pango": str(pango.pango_version()),
        },
    }


def differing_parts(stated: Mapping[str, Any]) -> list[str]:
    """What is stated and differs here: ``weasyprint 66.0 (here 67.0)``, of digests first digits."""
    theirs, here = (
        {**of["fonts"], **of["libraries"], "flashlab": of["flashlab"], "code": of["code"]}
        for of in (stated, software())
    )
    return [
        f"{name} {theirs.get(name, 'missing')[:12]} (here {here.get(name, 'missing')[:12]})"
        for name in sorted(theirs.keys() | here.keys())
        if theirs.get(name) != here.get(name)
    ]


def is_software(stated: Any) -> TypeGuard[dict[str, Any]]:
    """True if a value has the form of `software`: its keys, and short texts."""

    def are_short(of: Any) -> bool:
        texts = [*of, *of.values()] if isinstance(of, dict) and len(of) <= 40 else [None]
        return all(isinstance(text, str) and len(text) <= 100 for text in texts)

    here = software()
    return (
        isinstance(stated, dict)
        and stated.keys() == here.keys()
        and all(are_short(of if isinstance(here[k], dict) else {k: of}) for k, of in stated.items())
    )
