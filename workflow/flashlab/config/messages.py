"""Error messages: the place of a wrong value, the mistake, and the remedy."""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
from collections.abc import Collection, Sized
from contextlib import suppress
from datetime import date
from typing import Any

from pydantic_core import ErrorDetails

from flashlab.benchmarks.settings import EACH, MANY, OR_EACH, OR_MANY, Keys
from flashlab.config.model import EXAMPLES, model_at
from flashlab.config.parameters import letters_of_parameters

MOST_SHOWN = 80
"""Characters of a value that an error message shows."""

SYNONYMS = {
    **{"gpu": "cuda", "nvidia": "cuda", "english": "en", "zh": "zh_TW", "chinese": "zh_TW"},
    **{"fp16": "float16", "half": "float16", "bf16": "bfloat16"},
    **{"fp32": "float32", "single": "float32", "speed": "rate"},
    **letters_of_parameters(),
}
"""Common other names of values, in lower case, with the name that the configuration takes."""

KeyPath = tuple[str | int, ...]

_TYPES = {
    **{"int_type": "a whole number", "float_type": "a number", "finite_number": "a number"},
    **{"string_type": "text", "bool_type": "true or false"},
    **{"list_type": MANY, "dict_type": EACH, "model_type": EACH},
}
_LIMITS = {
    "missing": "is missing; add it",
    "too_short": "holds {length} of at least {min_length} values; add one",
    "too_long": "must hold at most {max_length} values, found {length}",
    "string_too_long": "must be at most {max_length} characters, found {length}",
    "less_than_equal": "must be at most {le}, found {found}",
    "greater_than_equal": "must be at least {ge}, found {found}",
    "greater_than": "must be greater than {gt}, found {found}",
}


def example_text(key: object) -> str:
    """An example of the key's value as the end of a message; nothing where there is none."""
    return f"; for example {shown(EXAMPLES[str(key)])}" if key in EXAMPLES else ""


def key_text(path: KeyPath) -> str:
    """A path as messages show it: ``experiments[0].cuda.seq_len``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "the top level"


def shown(value: Any) -> str:
    """A value on one short line, whatever it is."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML has dates, sets and bytes, which JSON does not have
        text = reprlib.repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def nearest(word: str, known: Collection[str]) -> str:
    """The known name that was probably meant, as a hint: by meaning, else by spelling."""
    meant = SYNONYMS.get(word.casefold())
    if meant not in known:
        folded = {name.casefold(): name for name in known}
        close = difflib.get_close_matches(word.casefold(), folded, n=1)
        meant = folded[close[0]] if close else None
    return f" (did you mean {meant}?)" if meant else ""


def _remedy(value: Any, wanted: str) -> str:
    """The end of a message: how to write a value of the wanted type; empty if that is long."""
    match value:
        case int() | float() | date() if wanted == "text":
            return "; put text in quotes"
        case dict() if wanted == MANY:
            return "; begin each item of the list with a hyphen"
        case str() if wanted == MANY:
            return f"; write [{value}]"
        case str() if wanted == "true or false":
            return "; write true or false without quotes"
        case str() if wanted.endswith(" number"):
            with suppress(ValueError):  # YAML takes 1e-3 for text
                if math.isfinite(number := float(value)):
                    return f"; write {number:.12f}".rstrip("0").rstrip(".") + " without quotes"
    return ""


def mistyped(value: Any, wanted: str, or_form: str = "", remedy: str = "") -> str:
    """The message for a value that is not of the wanted type, nor of the other form allowed."""
    remedy = remedy or _remedy(value, wanted)
    if value is None:
        return f"has no value; give it {wanted}{or_form}, or remove the key{remedy}"
    return f"must be {wanted}{or_form}, found {shown(value)}{remedy}"


def problem_of(error: ErrorDetails, model: type[Keys]) -> tuple[KeyPath, str]:
    """An error of pydantic's as its key path and our message."""
    location, value, kind = error["loc"], error["input"], error["type"]
    or_form = f" {location[-1]}" if location and location[-1] in (OR_MANY, OR_EACH) else ""
    path = tuple(part for part in location if part not in (MANY, EACH, OR_MANY, OR_EACH))
    limits, holder = error.get("ctx", {}), model_at(model, path[:-1])
    text = error["msg"]
    if kind in ("extra_forbidden", "invalid_key"):
        key, known = str(path[-1]), [*holder.model_fields]
        before, colon, _ = key.partition(":")
        # As in ``{a, b}``, where a has no value.
        alone = " (a list is written in [ ])" if value is None or kind == "invalid_key" else ""
        text = f"unknown key{nearest(key, known) or alone}; known: {', '.join(known)}"
        if colon and before in known:
            text = f"put a space after the colon of {before}"
    elif kind == "literal_error":  # pydantic lists the words as 'a', 'b' or 'c'
        words = limits["expected"].replace("'", "").replace(" or ", ", ")
        given = value if isinstance(value, str) and value else shown(value)
        # YAML reads yes as true
        known = re.findall("'([^']+)'", limits["expected"]) if isinstance(value, str) else []
        text = f"must be one of {words}{or_form}; found {given}{nearest(given, known)}"
    elif kind in _TYPES:
        text = mistyped(value, _TYPES[kind], or_form, example_text(path[-1]))
    elif kind == "too_short" and not value:
        text = "is empty: give at least one value"
    elif kind in _LIMITS:
        length = len(value) if isinstance(value, Sized) else None
        text = _LIMITS[kind].format(**limits, length=length, found=shown(value))
    return path, text
