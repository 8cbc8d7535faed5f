"""The keys of a configuration, with the type, bounds and default of each; messages of mistakes.

config/README.md says what each is for. The benchmark's declaration gives the parameters of a block,
the quantities of a figure and the settings of its own protocols.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
from collections.abc import Collection, Hashable, Sequence, Sized
from contextlib import suppress
from datetime import date
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field, create_model
from pydantic_core import ErrorDetails, PydanticCustomError

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.benchmarks.settings import (
    ABSENT,
    EACH,
    MANY,
    OR_EACH,
    OR_MANY,
    Count,
    Keys,
    Line,
    OneOrEach,
    OneOrMany,
    Positive,
    Precision,
    Text,
    Title,
)

T = TypeVar("T", bound=Hashable)

MAX_SIZE = 2**24
"""A size beyond any machine is a slip of the keyboard."""
MAX_PROCESSES = 20
"""Most processes of a run that can be asked for."""


def _distinct(values: list[T]) -> list[T]:
    if twice := [value for value in values if values.count(value) > 1]:
        said = "holds {value} twice; keep one of them"
        raise PydanticCustomError("twice", said, {"value": str(twice[0])})
    return values


def _keys(**keys: Any) -> Any:
    """A mapping with these keys, each a type alone or with its default."""
    fields: dict[str, Any] = {
        key: kind if isinstance(kind, tuple) else (kind, ...) for key, kind in keys.items()
    }
    return create_model("Keys", __base__=Keys, **fields)


def _filled(**keys: Any) -> tuple[Any, Any]:
    """A mapping of keys that all have a default, which make its own."""
    kind = _keys(**keys)
    return kind, kind()


def _of_devices(one: Any, cuda: Any, cpu: Any) -> tuple[Any, Any]:
    """One value for both kinds of device, or a mapping, which by default has these."""
    each: Any = _keys(cuda=(one, cuda), cpu=(one, cpu))
    return OneOrEach[one, each], each()  # type: ignore[misc]


Name = Annotated[str, Field(max_length=60, pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Processes = Annotated[int, Field(ge=1, le=MAX_PROCESSES)]
Implementations = Annotated[list[str], Field(min_length=1), AfterValidator(_distinct)]
Languages = Annotated[list[Literal["zh_TW", "en"]], Field(min_length=1), AfterValidator(_distinct)]
Sides = Annotated[list[Text], Field(min_length=2, max_length=2)]
Words = OneOrMany[str, list[str]]
Chosen = OneOrMany[str | int, Annotated[list[str | int], Field(min_length=1)]]
SAMPLED = _filled(
    relative_interval=(Precision, 0.01),
    max_seconds=_of_devices(Positive, 0.05, 0.2),
)

EXAMPLES: dict[str, Any] = {
    "measure": {"sampled": {"max_seconds": 1}},
    "memory_mb": {"measure": 32000},
    "replicates": {"cuda": 5},
    "languages": ["zh_TW", "en"],
    "author": {"name": "王小明", "id": "113062000"},
    "remarks": {"seq_len": {"en": "remarks/seq_len.en.md"}},
    "summary": {"implementations": ["Pytorch", "Flash2"]},
    "compare": ["h200", "local"],
    "grading": {"seed": 1},
    "title": {"zh_TW": "序列長度", "en": "Sequence length"},
}
"""What messages show of a key."""
UNREPORTED = (
    *("memory_mb", "counters", "replicates", "hyper_param", "again", "name", "freeze_anyway"),
    *("alone", "device_name", "compare", "submissions", "pdf", "reproduce", "grading"),
)
"""The top-level keys that no report depends on."""


def _block(benchmark: Benchmark, *, many: bool) -> Any:
    """A block with one value of each parameter, or with one or many."""
    linked = {p.name for p in benchmark.given} if benchmark.stand_in else set[str]()
    linked |= {name for product in benchmark.products for name in product.names}
    fields: dict[str, Any] = {}
    for parameter in benchmark.parameters:
        one: Any = Size
        if parameter.is_variant:
            one = Literal[*parameter.words] if parameter.kind is str else bool
        several: Any = Annotated[list[one], Field(min_length=1)]
        if parameter.is_variant:
            several = Annotated[several, AfterValidator(_distinct)]
        kind: Any = OneOrMany[one, several] if many else one  # type: ignore[misc]
        follows = parameter.derive or parameter.default or parameter.name in linked
        fields[parameter.name] = (kind, ABSENT) if follows else kind
    return _keys(**fields)


def configuration_of(benchmark: Benchmark) -> type[Keys]:
    """The configuration of a benchmark's report."""
    one, many = _block(benchmark, many=False), _block(benchmark, many=True)
    quantity: Any = Literal[*benchmark.quantities, *(curve.name for curve in benchmark.curves)]
    figure: Any = _keys(metric=quantity, implementations=(Implementations, ABSENT))
    figures: Any = list[OneOrEach[quantity, figure]]
    experiment: Any = _keys(
        name=Name,
        title=_keys(zh_TW=Title, en=Title),
        sweep=Literal[*(p.name for p in benchmark.parameters if not p.is_variant)],
        cuda=many,
        cpu=many,
        implementations=Implementations,
        figures=figures,
        supplement=(figures, []),
        counted=(bool, True),
        replicates=(dict[str, Processes], ABSENT),
    )
    protocols = {name: (kind(), kind()()) for name, kind in benchmark.protocols.items()}
    protocols = protocols or {"sampled": SAMPLED, "lab5": _filled(repeats=(Count, 30))}
    remarks: Any = _keys(zh_TW=(str, ABSENT), en=(str, ABSENT))
    own = {benchmark.name: (Chosen, ABSENT)} if benchmark.stand_in else {}
    model: type[Keys] = _keys(
        benchmark=(Literal[*BENCHMARKS], DEFAULT.name),
        dataset=(Name, "local"),
        device=(Literal["auto", "cuda", "cpu"], "auto"),
        dtype=(Literal["auto", "float16", "bfloat16", "float32"], "auto"),
        baseline=(str, "Pytorch"),
        measure=_filled(
            protocol=(Literal[*protocols], next(iter(protocols))),
            **protocols,
            timeout_s=(Positive, 300),
        ),
        memory_mb=_filled(measure=(Count, 16000), report=(Count, 4000)),
        counters=(Literal["auto", "yes", "no", True, False], "auto"),
        counted=(Implementations, ["Pytorch", "Flash2", "SdpaCudnn", "Flash4", "FlashLab"]),
        replicates=_of_devices(Processes, 3, 3),
        quick=(bool, False),
        hyper_param=(Text, None),
        again=(Words, []),
        languages=(Languages, ["zh_TW", "en"]),
        anonymous=(bool, False),
        author=(_keys(name=(Line, ABSENT), id=(Line, ABSENT), course=(Line, ABSENT)), None),
        remarks=(dict[Name, remarks], {}),
        summary=_keys(cuda=one, cpu=one, implementations=Implementations),
        implementations=(Implementations, None),
        experiments=Annotated[list[experiment], Field(min_length=1)],
        name=(Name, None),
        freeze_anyway=(bool, False),
        alone=(bool, False),
        **{"import": (Text, None)},
        device_name=(Text, None),
        compare=(Sides, None),
        submissions=(Text, None),
        pdf=(Text, None),
        reproduce=(Annotated[int, Field(ge=1, le=1000)], None),
        grading=_filled(device=(Text, ABSENT), seed=(Annotated[int, Field(ge=0)], 0)),
        **own,
    )
    return model


CONFIGURATION = configuration_of(DEFAULT)


def model_at(model: type[Keys], path: Sequence[object]) -> type[Keys]:
    """The model of the mapping at a path of keys and positions below a model."""
    for part in path:
        field = model.model_fields.get(str(part))
        model = (field and _model_in(field.annotation)) or model
    return model


def _model_in(annotation: Any) -> type[Keys] | None:
    """The first model within a type such as ``list[Figure]``; None if it is of plain values."""
    if isinstance(annotation, type) and issubclass(annotation, Keys):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


# The message of a mistake: what is wrong, and the remedy

MOST_SHOWN = 80
"""Characters of a value that an error message shows."""

SYNONYMS = {
    **{"gpu": "cuda", "nvidia": "cuda", "english": "en", "zh": "zh_TW", "chinese": "zh_TW"},
    **{"fp16": "float16", "half": "float16", "bf16": "bfloat16"},
    **{"fp32": "float32", "single": "float32", "speed": "rate"},
    # The letter of a parameter stands for that of the first benchmark with it.
    **{p.symbol.lower(): p.name for b in reversed(BENCHMARKS.values()) for p in b.parameters},
}
"""Common other names of values, in lower case, with the name that the configuration takes."""

KeyPath = tuple[str | int, ...]

_TYPES = {
    **{"int_type": "a whole number", "float_type": "a number", "finite_number": "a number"},
    **{"string_type": "text", "bool_type": "true or false"},
    **{"list_type": MANY, "dict_type": EACH, "model_type": EACH},
}
_LIMITS = {
    "string_pattern_mismatch": "must be letters, digits, - and _, the first a letter or a digit; "
    "found {value!r}",
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
        text = _LIMITS[kind].format(**limits, length=length, found=shown(value), value=value)
    return path, text
