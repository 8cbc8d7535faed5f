"""Error messages: where a wrong value is, what is wrong with it, and the remedy."""

from __future__ import annotations

import difflib
import json
import math
import reprlib
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Any

import jsonschema

from flashlab.config.parameters import letters_of_parameters

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
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping of keys",
}


def example_text(part: Mapping[str, Any]) -> str:
    """How a key is written, where the schema shows it."""
    return f"; for example {shown(part['examples'][0])}" if "examples" in part else ""


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


def _remedy(value: Any, wanted: Collection[str]) -> str:
    """How to give a value of the wanted type, where that is easy to state."""
    if "string" in wanted and isinstance(value, (int, float, date)):
        return "; put text in quotes"
    if isinstance(value, str) and not set(wanted).isdisjoint(("integer", "number")):
        try:
            number = float(value)  # YAML takes 1e-3 for text
        except ValueError:
            return ""
        if math.isfinite(number):
            return f"; write {number:.12f}".rstrip("0").rstrip(".") + " without quotes"
    elif isinstance(value, str) and "boolean" in wanted:
        return "; write true or false without quotes"
    elif isinstance(value, str) and "array" in wanted:
        return f"; write [{value}]"
    elif isinstance(value, dict) and "array" in wanted:
        return "; begin each item of the list with a hyphen"
    return ""


def schema_problems(error: jsonschema.ValidationError) -> Iterator[tuple[KeyPath, str]]:
    """A schema error as (key path, what is wrong and what would be right)."""
    path: KeyPath = tuple(error.absolute_path)
    value: Any = error.instance
    rule: Any = error.validator_value
    schema: Mapping[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    match error.validator:
        case "additionalProperties":
            known = list(schema.get("properties", {}))
            for key in value:
                if key in known:
                    continue
                before, colon, _ = str(key).partition(":")
                if colon and before in known:
                    yield (*path, key), f"put a space after the colon of {before}"
                else:
                    listed = "" if value[key] is not None else " (a list is written in [ ])"
                    text = f"unknown key{nearest(str(key), known) or listed}; known: "
                    text += ", ".join(known)
                    yield (*path, key), text
        case "required":
            for key in rule:
                if key not in value:
                    yield (*path, key), "is missing; add it"
        case "type":
            wanted = [rule] if isinstance(rule, str) else rule
            words = " or ".join(_TYPES[name] for name in wanted)
            remedy = example_text(schema) or _remedy(value, wanted)
            if value is None:
                yield path, f"has no value; give it {words}, or remove the key{remedy}"
            else:
                yield path, f"must be {words}, found {shown(value)}{remedy}"
        case "enum":
            allowed = ", ".join(map(str, rule))
            found = value if isinstance(value, str) and value else shown(value)
            options = [each for each in rule if isinstance(each, str)]  # YAML reads yes as true
            near = nearest(value, options) if isinstance(value, str) else ""
            yield path, f"must be one of {allowed}; found {found}{near}"
        case "minItems" if value:
            yield path, f"holds {len(value)} of at least {rule} values; add one"
        case "minItems" | "minLength" | "minProperties":
            yield path, "is empty: give at least one value"
        case "maxItems":
            yield path, f"must hold at most {rule} values, found {len(value)}"
        case "maxLength":
            yield path, f"must be at most {rule} characters, found {len(value)}"
        case "uniqueItems":
            # Items that the schema calls equal need not be so for Python, such as [] and b"".
            twice = next((item for item in value if value.count(item) > 1), "an item")
            item_text = twice if isinstance(twice, str) else shown(twice)
            yield path, f"holds {item_text} twice; keep one of them"
        case "maximum":
            yield path, f"must be at most {rule}, found {shown(value)}"
        case "minimum":
            yield path, f"must be at least {rule}, found {shown(value)}"
        case "exclusiveMinimum":
            yield path, f"must be greater than {rule}, found {shown(value)}"
        case "pattern":
            text = "must be letters, digits, - and _, the first a letter or a digit"
            yield path, f"{text}; found {shown(value)}"
        case "anyOf" if isinstance(value, dict):
            for inner in error.context or ():
                if inner.validator != "enum" or inner.path:  # of the form that is a mapping
                    yield from schema_problems(inner)
        case "anyOf":
            enums = (i for i in error.context or () if i.validator == "enum" and not i.path)
            names: Any = next(enums).validator_value
            near = nearest(value, names) if isinstance(value, str) else ""
            text = f"must be {', '.join(names)}, or {{metric: …}}; found {shown(value)}"
            yield path, text + near
        case _:
            yield path, error.message
