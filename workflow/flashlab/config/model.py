"""The keys of a configuration: the type, bounds, default and description of each.

The benchmark's declaration gives the parameters of a block, the quantities of a figure and the
settings of its own protocols.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
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
M = TypeVar("M", bound=Keys)

MAX_SIZE = 2**24
"""A size beyond any machine is a slip of the keyboard."""
MAX_PROCESSES = 20
"""Most processes of a run that can be asked for."""


def _usable_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise PydanticCustomError(
            "name",
            "must be letters, digits, - and _, the first a letter or a digit; found {name}",
            {"name": repr(name)},
        )
    return name


def _distinct(values: list[T]) -> list[T]:
    if twice := [value for value in values if values.count(value) > 1]:
        raise PydanticCustomError(
            "twice", "holds {value} twice; keep one of them", {"value": str(twice[0])}
        )
    return values


Name = Annotated[str, Field(max_length=60), AfterValidator(_usable_name)]
Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Processes = Annotated[int, Field(ge=1, le=MAX_PROCESSES)]
Implementations = Annotated[list[str], Field(min_length=1), AfterValidator(_distinct)]
Chosen = OneOrMany[str | int, Annotated[list[str | int], Field(min_length=1)]]


class Localized(Keys):
    """A text in each language."""

    zh_TW: Title
    en: Title


class Seconds(Keys):
    """Seconds on each kind of device."""

    cuda: Positive = 0.05
    cpu: Positive = 0.2


class Sampled(Keys):
    """The stop rules of the protocol ``sampled``: share of the median, seconds of a pass."""

    relative_interval: Precision = 0.01
    max_seconds: OneOrEach[Positive, Seconds] = Seconds()
    energy_seconds: NotNegative = 0


class Lab5(Keys):
    """The number of calls of a pass, by the protocol ``lab5``."""

    repeats: Count = 30


class Measure(Keys):
    """A protocol with its settings, and the time limit of a run in seconds."""

    protocol: Literal["sampled", "lab5"] = "sampled"
    sampled: Sampled = Sampled()
    lab5: Lab5 = Lab5()
    timeout_s: Positive = 300


class Memory(Keys):
    """MB of memory of a job."""

    measure: Count = 16000
    report: Count = 4000


class Replicates(Keys):
    """Processes on each kind of device."""

    cuda: Processes = 3
    cpu: Processes = 3


class Author(Keys):
    """The name on the cover."""

    name: Line = ABSENT
    id: Line = ABSENT
    course: Line = ABSENT


class Remarks(Keys):
    """A Markdown file for each language."""

    zh_TW: str = ABSENT
    en: str = ABSENT


class Grading(Keys):
    """Settings for grading a class."""

    device: Text = ABSENT
    seed: Annotated[int, Field(ge=0)] = 0


class Block(Keys):
    """Values of the benchmark's parameters."""


class Summary(Keys):
    """The headline table: implementations at one shape on each kind of device."""

    cuda: Block
    cpu: Block
    implementations: Implementations


class Figure(Keys):
    """A figure of a quantity, for some of an experiment's implementations."""

    metric: str
    implementations: Implementations = ABSENT


class Experiment(Keys):
    """A sweep of one parameter, with its implementations, metrics and figures."""

    name: Name
    title: Localized = Field(examples=[{"zh_TW": "序列長度", "en": "Sequence length"}])
    sweep: str
    cuda: Block
    cpu: Block
    implementations: Implementations
    figures: list[Any]
    supplement: list[Any] = Field([])
    counted: bool = True
    replicates: dict[str, Processes] = ABSENT


UNREPORTED = {"reported": False}
"""The mark of a top-level key that no report depends on."""


def _key(description: str, default: Any = ..., **more: Any) -> Any:
    return Field(default, description=description, **more)


def _unreported(description: str, default: Any = None, **more: Any) -> Any:
    return _key(description, default, json_schema_extra=UNREPORTED, **more)


class Configuration(Keys):
    """All keys; `configuration_of` gives those of a benchmark."""

    benchmark: Literal[*BENCHMARKS] = _key(  # type: ignore[valid-type]
        "the benchmark, where the target does not say it", DEFAULT.name
    )
    dataset: Name = _key(
        "whose records to report: `local` measures here, or a recorded dataset", "local"
    )
    device: Literal["auto", "cuda", "cpu"] = _key("where to measure", "auto")
    dtype: Literal["auto", "float16", "bfloat16", "float32"] = _key(
        "the inputs' number format", "auto"
    )
    baseline: str = _key("the implementation that the others are compared with", "Pytorch")
    measure: Measure = _key(
        "the protocol, its settings, and `timeout_s`, after which a run is an error",
        Measure(),
        examples=[{"sampled": {"max_seconds": 1}}],
    )
    memory_mb: Memory = _unreported(
        "MB of memory of a job that measures, and of one that reads all runs for the report",
        Memory(),
        examples=[{"measure": 32000}],
    )
    counters: Literal["auto", "yes", "no", True, False] = _unreported(
        "whether to count what causes are stated from", "auto"
    )
    counted: Implementations = _key(
        "the implementations that are counted",
        ["Pytorch", "Flash2", "SdpaCudnn", "Flash4", "FlashLab"],
    )
    replicates: OneOrEach[Processes, Replicates] = _unreported(
        "the processes of each run", Replicates(), examples=[{"cuda": 5}]
    )
    quick: bool = _key(
        "whether to make a preview: the ends of each sweep, in one process, without counters", False
    )
    hyper_param: Text = _unreported("a `hyper_param.json` that sets what is trained")
    again: OneOrMany[str, list[str]] = _unreported(
        "parts of the names of runs to measure again", []
    )
    languages: Annotated[
        list[Literal["zh_TW", "en"]], Field(min_length=1), AfterValidator(_distinct)
    ] = _key("the report's languages, in their order", ["zh_TW", "en"], examples=[["zh_TW", "en"]])
    anonymous: bool = _key("whether to leave out what identifies the machine", False)
    author: Author = _key(
        "the name on the cover", None, examples=[{"name": "王小明", "id": "113062000"}]
    )
    remarks: dict[Name, Remarks] = _key(
        "Markdown files with your own words, by experiment and language",
        {},
        examples=[{"seq_len": {"en": "remarks/seq_len.en.md"}}],
    )
    summary: Summary = _key(
        "the headline table: implementations at one shape",
        examples=[{"implementations": ["Pytorch", "Flash2"]}],
    )
    implementations: Implementations = _key(
        "what every experiment measures that names no `implementations`", None
    )
    experiments: Annotated[list[Experiment], Field(min_length=1)] = _key(
        "the experiments, a section of the report each"
    )
    name: Name = _unreported("the name to freeze or import a dataset under")
    freeze_anyway: bool = _unreported(
        "whether to freeze parted blocks, and records of several commits or uncommitted code",
        False,
    )
    alone: bool = _unreported("whether nothing else is measured on the host meanwhile", False)
    import_: Text = _key("a folder of the course's JSON files to report", None, alias="import")
    device_name: Text = _unreported(
        "the device that jobs will meet if not this machine's, or that imported files are of"
    )
    compare: Annotated[list[Text], Field(min_length=2, max_length=2)] = _unreported(
        "the two sides of a comparison", examples=[["h200", "local"]]
    )
    submissions: Text = _unreported("the folder of a class's submissions")
    pdf: Text = _unreported("the report to verify")
    reproduce: Annotated[int, Field(ge=1, le=1000)] = _unreported(
        "how many runs of a class to measure here"
    )
    grading: Grading = _unreported(
        "the GPU of results that name none, and what selects the runs to measure",
        Grading(),
        examples=[{"seed": 1}],
    )


def _block(benchmark: Benchmark, *, many: bool) -> type[Block]:
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
    return create_model("Block", __base__=Block, **fields)


def _changed(model: type[M], more: Mapping[str, Any] | None = None, **types: Any) -> type[M]:
    """The model with other types for these fields, and with more fields."""
    fields = {name: (kind, model.model_fields[name]) for name, kind in types.items()}
    changed: dict[str, Any] = {**fields, **(more or {})}
    return create_model(model.__name__, __base__=model, **changed)


def configuration_of(benchmark: Benchmark) -> type[Configuration]:
    """The configuration of a benchmark's report."""
    curves = (curve.name for curve in benchmark.curves)
    quantity: Any = Literal[*benchmark.quantities, *curves]
    chosen: Any = _changed(Figure, metric=quantity)
    figure: Any = OneOrEach[quantity, chosen]  # type: ignore[misc]
    one, many = _block(benchmark, many=False), _block(benchmark, many=True)
    experiment: Any = _changed(
        Experiment,
        sweep=Literal[*(p.name for p in benchmark.parameters if not p.is_variant)],
        cuda=many,
        cpu=many,
        figures=list[figure],
        supplement=list[figure],
    )
    more: dict[str, Any] = {benchmark.name: (Chosen, ABSENT)} if benchmark.stand_in else {}
    if benchmark.protocols:
        own: dict[str, Any] = {n: (kind(), kind()()) for n, kind in benchmark.protocols.items()}
        names: Any = Literal[*benchmark.protocols]
        measure = _changed(Measure, {"protocol": (names, next(iter(own))), **own})
        more["measure"] = (measure, measure())
    return _changed(
        Configuration,
        more,
        summary=_changed(Summary, cuda=one, cpu=one),
        experiments=Annotated[list[experiment], Field(min_length=1)],
    )


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
