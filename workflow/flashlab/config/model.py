"""The keys of a configuration: the type, bounds and default of each.

config/README.md says what each is for. The benchmark's declaration gives the parameters of a block,
the quantities of a figure and the settings of its own protocols.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field, create_model
from pydantic_core import PydanticCustomError

from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.benchmarks.settings import (
    ABSENT,
    Count,
    Keys,
    Line,
    NotNegative,
    OneOrEach,
    OneOrMany,
    Positive,
    Precision,
    Text,
    Title,
)
from flashlab.config.parameters import is_linked

T = TypeVar("T", bound=Hashable)

MAX_SIZE = 2**24
"""A size beyond any machine is a slip of the keyboard."""
MAX_PROCESSES = 20
"""Most processes of a run that can be asked for."""


def _usable_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        said = "must be letters, digits, - and _, the first a letter or a digit; found {name}"
        raise PydanticCustomError("name", said, {"name": repr(name)})
    return name


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


def _one_or(one: Any, each: Any, default: Any) -> tuple[Any, Any]:
    """One value for both kinds of device, or a mapping, with the default."""
    return OneOrEach[one, each], default  # type: ignore[misc]


Name = Annotated[str, Field(max_length=60), AfterValidator(_usable_name)]
Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Processes = Annotated[int, Field(ge=1, le=MAX_PROCESSES)]
Implementations = Annotated[list[str], Field(min_length=1), AfterValidator(_distinct)]
Languages = Annotated[list[Literal["zh_TW", "en"]], Field(min_length=1), AfterValidator(_distinct)]
Sides = Annotated[list[Text], Field(min_length=2, max_length=2)]
Words = OneOrMany[str, list[str]]
Chosen = OneOrMany[str | int, Annotated[list[str | int], Field(min_length=1)]]
SECONDS = _filled(cuda=(Positive, 0.05), cpu=(Positive, 0.2))
REPLICATES = _filled(cuda=(Processes, 3), cpu=(Processes, 3))
SAMPLED = _filled(
    relative_interval=(Precision, 0.01),
    max_seconds=_one_or(Positive, *SECONDS),
    energy_seconds=(NotNegative, 0),
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
    fields: dict[str, Any] = {}
    for parameter in benchmark.parameters:
        one: Any = Size
        if parameter.is_variant:
            one = Literal[*parameter.words] if parameter.kind is str else bool
        several: Any = Annotated[list[one], Field(min_length=1)]
        if parameter.is_variant:
            several = Annotated[several, AfterValidator(_distinct)]
        kind: Any = OneOrMany[one, several] if many else one  # type: ignore[misc]
        follows = parameter.derive or parameter.default or is_linked(benchmark, parameter.name)
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
        replicates=_one_or(Processes, *REPLICATES),
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
