"""Error messages: where a wrong value is, what is wrong with it, and the remedy."""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
from collections.abc import Collection
from datetime import date
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from flashlab.benchmarks.settings import EACH, MANY, OR_EACH, OR_MANY, Keys
from flashlab.config.model import model_at
from flashlab.config.parameters import letters_of_parameters

FORMS = (MANY, EACH, OR_MANY, OR_EACH)
"""Parts of an error's place that are no keys."""

MOST_SHOWN = 80
"""Characters of a value that an error message shows."""

SYNONYMS = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "single": "float32",
    "english": "en",
    "zh": "zh_TW",
    "chinese": "zh_TW",
    "speed": "rate",
    **letters_of_parameters(),
}
"""What people call a value by another name."""

KeyPath = tuple[str | int, ...]

_TYPES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "string_type": "text",
    "string_unicode": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
}


def example_text(field: FieldInfo | None) -> str:
    """How a key is written, where the model shows it."""
    return f"; for example {shown(field.examples[0])}" if field and field.examples else ""


def key_text(path: KeyPath) -> str:
    """A path as messages show it: ``experiments[0].cuda.seq_len``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
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
    """How to give a value of the wanted type, where that is easy to state."""
    if wanted == "text" and isinstance(value, (int, float, date)):
        return "; put text in quotes"
    if isinstance(value, str) and wanted.endswith(" number"):
        try:
            number = float(value)  # YAML takes 1e-3 for text
        except ValueError:
            return ""
        if math.isfinite(number):
            return f"; write {number:.12f}".rstrip("0").rstrip(".") + " without quotes"
    elif isinstance(value, str) and wanted == "true or false":
        return "; write true or false without quotes"
    elif isinstance(value, str) and wanted == "a list":
        return f"; write [{value}]"
    elif isinstance(value, dict) and wanted == "a list":
        return "; begin each item of the list with a hyphen"
    return ""


def _unknown_key(key: str, known: Collection[str], *, alone: bool) -> str:
    """What is wrong with a key, which stands `alone` where it is an item of a list in braces."""
    before, colon, _ = key.partition(":")
    if colon and before in known:
        return f"put a space after the colon of {before}"
    listed = " (a list is written in [ ])" if alone else ""
    return f"unknown key{nearest(key, known) or listed}; known: {', '.join(known)}"


def _unlike(value: Any, expected: str, other: str) -> str:
    """A value that is none of those expected, which pydantic lists as ``'a', 'b' or 'c'``."""
    listed = expected.replace("'", "").replace(" or ", ", ")
    found = value if isinstance(value, str) and value else shown(value)
    # YAML reads yes as true
    near = nearest(value, re.findall("'([^']+)'", expected)) if isinstance(value, str) else ""
    return f"must be one of {listed}{other}; found {found}{near}"


def problem_of(error: ErrorDetails, model: type[Keys]) -> tuple[KeyPath, str]:
    """A value that the model refuses, as (key path, what is wrong and what would be right)."""
    path = tuple(part for part in error["loc"] if part not in FORMS)
    value, limits, kind = error["input"], error.get("ctx", {}), error["type"]
    other = (
        f" {error['loc'][-1]}" if error["loc"] and error["loc"][-1] in (OR_MANY, OR_EACH) else ""
    )
    holder = model_at(model, path[:-1])
    text = error["msg"]
    match kind:
        case "extra_forbidden" | "invalid_key":
            known = [field.alias or name for name, field in holder.model_fields.items()]
            alone = value is None or kind == "invalid_key"
            return path, _unknown_key(str(path[-1]), known, alone=alone)
        case "missing":
            text = "is missing; add it"
        case "literal_error":
            text = _unlike(value, limits["expected"], other)
        case "too_short" | "string_too_short":
            least = limits["min_length"]
            text = f"holds {len(value)} of at least {least} values; add one"
            if not value:
                text = "is empty: give at least one value"
        case "too_long":
            text = f"must hold at most {limits['max_length']} values, found {len(value)}"
        case "string_too_long":
            text = f"must be at most {limits['max_length']} characters, found {len(value)}"
        case "less_than_equal":
            text = f"must be at most {limits['le']}, found {shown(value)}"
        case "greater_than_equal":
            text = f"must be at least {limits['ge']}, found {shown(value)}"
        case "greater_than":
            text = f"must be greater than {limits['gt']}, found {shown(value)}"
        case _ if kind in _TYPES:
            wanted = _TYPES[kind]
            remedy = example_text(holder.model_fields.get(str(path[-1]))) or _remedy(value, wanted)
            text = f"must be {wanted}{other}, found {shown(value)}{remedy}"
            if value is None:
                text = f"has no value; give it {wanted}{other}, or remove the key{remedy}"
    return path, text
