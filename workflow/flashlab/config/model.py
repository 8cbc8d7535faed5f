"""The keys of a configuration, with the type, bounds and default of each; messages of mistakes.

config/README.md says what each is for. The benchmark's declaration gives the parameters of a block,
the quantities of a figure and the settings of its own protocols. Here are relations
between keys, too: a name used twice, a baseline that nothing measures, sizes that do not divide.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from datetime import date
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, create_model
from pydantic_core import ErrorDetails, PydanticCustomError

from flashlab.benchmarks import settings
from flashlab.benchmarks.implementations import describe_unknown
from flashlab.benchmarks.model import Benchmark
from flashlab.benchmarks.registry import BENCHMARKS, DEFAULT
from flashlab.benchmarks.settings import EACH, MANY, OR_EACH, OR_MANY, Keys, Positive, Precision


def _distinct(values: list[Any]) -> list[Any]:
    if twice := [value for value in values if values.count(value) > 1]:
        said = "holds {value} twice; keep one of them"
        raise PydanticCustomError("twice", said, {"value": str(twice[0])})
    return values


def _keys(**keys: Any) -> type[Keys]:
    """A mapping with these keys, each a type alone or with its default."""
    fields: dict[str, Any] = {k: v if isinstance(v, tuple) else (v, ...) for k, v in keys.items()}
    return create_model("Keys", __base__=Keys, **fields)


def _filled(**keys: Any) -> tuple[Any, Any]:
    """A mapping of keys that all have a default, which make its own."""
    kind = _keys(**keys)
    return kind, kind()


def _of_devices(one: Any, cuda: Any, cpu: Any) -> tuple[Any, Any]:
    """One value for both kinds of device, or a mapping, which by default has these."""
    each: Any = _keys(cuda=(one, cuda), cpu=(one, cpu))
    return settings.OneOrEach[one, each], each()  # type: ignore[misc]


Name = Annotated[str, Field(max_length=60, pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Size = Annotated[int, Field(ge=1, le=2**24)]  # more is a slip of the keyboard
Processes = Annotated[int, Field(ge=1, le=20)]
Implementations = Annotated[list[str], Field(min_length=1), AfterValidator(_distinct)]
Languages = Annotated[list[Literal["zh_TW", "en"]], Field(min_length=1), AfterValidator(_distinct)]
Words = settings.OneOrMany[str, list[str]]
Chosen = settings.OneOrMany[str | int, Annotated[list[str | int], Field(min_length=1)]]
SAMPLED = _filled(relative_interval=(Precision, 0.01), max_seconds=_of_devices(Positive, 0.05, 0.2))

EXAMPLES: dict[str, Any] = {
    **{"measure": {"sampled": {"max_seconds": 1}}, "memory_mb": {"measure": 32000}},
    **{"replicates": {"cuda": 5}, "languages": ["zh_TW", "en"], "grading": {"seed": 1}},
    **{"author": {"name": "王小明", "id": "113062000"}, "compare": ["h200", "local"]},
    "remarks": {"seq_len": {"en": "remarks/seq_len.en.md"}},
    "summary": {"implementations": ["Pytorch", "Flash2"]},
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
        one: Any = {int: Size, bool: bool}.get(parameter.kind) or Literal[*parameter.words]
        check = AfterValidator(_distinct if parameter.is_variant else list)
        several: Any = Annotated[list[one], Field(min_length=1), check]
        kind: Any = settings.OneOrMany[one, several] if many else one  # type: ignore[misc]
        follows = parameter.derive or parameter.default or parameter.name in linked
        fields[parameter.name] = (kind, None) if follows else kind
    return _keys(**fields)


def configuration_of(benchmark: Benchmark) -> type[Keys]:
    """The configuration of a benchmark's report."""
    one, many = _block(benchmark, many=False), _block(benchmark, many=True)
    quantity: Any = Literal[*benchmark.quantities, *(curve.name for curve in benchmark.curves)]
    figure: Any = _keys(metric=quantity, implementations=(Implementations, None))
    figures: Any = list[settings.OneOrEach[quantity, figure]]
    experiment: Any = _keys(
        name=Name,
        title=_keys(zh_TW=settings.Title, en=settings.Title),
        sweep=Literal[*(p.name for p in benchmark.parameters if not p.is_variant)],
        cuda=many,
        cpu=many,
        implementations=Implementations,
        figures=figures,
        supplement=(figures, []),
        counted=(bool, True),
        replicates=(dict[str, Processes], None),
    )
    protocols = {name: (kind(), kind()()) for name, kind in benchmark.protocols.items()}
    protocols = protocols or {"sampled": SAMPLED, "lab5": _filled(repeats=(settings.Count, 30))}
    remarks: Any = _keys(zh_TW=(str, None), en=(str, None))
    own = {benchmark.name: (Chosen, None)} if benchmark.stand_in else {}
    return _keys(
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
        memory_mb=_filled(measure=(settings.Count, 16000), report=(settings.Count, 4000)),
        counters=(Literal["auto", "yes", "no", True, False], "auto"),
        counted=(Implementations, ["Pytorch", "Flash2", "SdpaCudnn", "Flash4", "FlashLab"]),
        replicates=_of_devices(Processes, 3, 3),
        quick=(bool, False),
        hyper_param=(settings.Text, None),
        again=(Words, []),
        languages=(Languages, ["zh_TW", "en"]),
        anonymous=(bool, False),
        author=(_keys(**dict.fromkeys(("name", "id", "course"), (settings.Line, None))), None),
        remarks=(dict[Name, remarks], {}),
        summary=_keys(cuda=one, cpu=one, implementations=Implementations),
        implementations=(Implementations, None),
        experiments=Annotated[list[experiment], Field(min_length=1)],
        name=(Name, None),
        freeze_anyway=(bool, False),
        alone=(bool, False),
        **{"import": (settings.Text, None)},
        device_name=(settings.Text, None),
        compare=(Annotated[list[settings.Text], Field(min_length=2, max_length=2)], None),
        submissions=(settings.Text, None),
        pdf=(settings.Text, None),
        reproduce=(Annotated[int, Field(ge=1, le=1000)], None),
        grading=_filled(device=(settings.Text, None), seed=(Annotated[int, Field(ge=0)], 0)),
        **own,
    )


CONFIGURATION = configuration_of(DEFAULT)


# Relations between keys, in a configuration whose keys are right by themselves

SHARED, HEADLINE = "implementations", "summary"
"""The key whose names apply to several experiments, and the name that no experiment can have."""

KeyPath = tuple[str | int, ...]
Problems = Iterator[tuple[KeyPath, str]]
"""The key of each problem, below what is checked (none: all of that), and the message about it."""


def _experiment_problems(experiment: Mapping[str, Any], before: Collection[str]) -> Problems:
    """Problems of an experiment's keys beside one another, and of its name."""
    if (name := experiment["name"]) in before:
        yield ("name",), f"{name} names two experiments; rename or remove one"
    if name == HEADLINE:
        yield ("name",), f"{name} is the headline table's name; rename it"
    named, drawn = list[tuple[KeyPath, str]](), set[tuple[str, ...]]()
    named += [(("replicates", each), each) for each in experiment.get("replicates", {})]
    for group in ("figures", "supplement"):
        for i, figure in enumerate(experiment[group]):
            given = {"metric": figure} if isinstance(figure, str) else figure
            if (what := (given["metric"], *given.get(SHARED, []))) in drawn:
                yield (group, i), f"the {what[0]} figure is asked for twice; keep one"
            drawn.add(what)
            named += [((group, i, SHARED), each) for each in what[1:]]
    for path, each in named:
        if each not in experiment[SHARED]:
            text = f"{each} is not measured in this experiment; add it to its implementations"
            yield path, f"{text}, or remove it here"


def _given_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Problems:
    """Problems of which parameters a block gives: any two of a product, and no third."""
    for product in benchmark.products:
        names, given = ", ".join(product.names), [name for name in product.names if name in block]
        if len(given) < 2:
            count = f"only {given[0]}" if given else "none of them"
            yield (), f"give two of {names} (as {product}); found {count}"
        if len(given) > 2:
            first, whole, second = (block[name] for name in product.names)
            text = f"give two of {names}, as the third follows ({product})"
            if all(isinstance(v, int) for v in (first, whole, second)) and first * second != whole:
                text += f"; {first} × {second} is {first * second}, not {whole}"
            yield (), f"{text}; remove one of them"
    if stand_in := benchmark.stand_in:
        name, others = stand_in.name, [p.name for p in benchmark.given]
        beside = [other for other in others if (other in block) == (name in block)]
        if name not in block and beside:
            yield (), f"give {', '.join(beside)}, or {name} in place of {', '.join(others)}"
        elif beside:
            yield (name,), f"stands for {', '.join(others)}; remove {', '.join(beside)}, or {name}"
        values = block.get(name, [])
        for value in values if isinstance(values, list) else [values]:
            if not (stand_in.stands_for and stand_in.stands_for(value)):
                yield (name,), f"there is no {name} {value}"


def _sweep_problems(benchmark: Benchmark, sweep: str, block: Mapping[str, Any]) -> Problems:
    """Problems of the swept parameter's own values, and of the lists beside it."""
    values = block.get(sweep)
    if values is None:
        product = next((p.names for p in benchmark.products if sweep in p.names), ())
        beside = " and ".join(name for name in product if name in block)
        follows = f", which follows here from {beside}" if beside else ""
        remedy = ", in place of one of these" if beside else ""
        yield (), f"sweep is {sweep}{follows}; give its values as a list{remedy}"
    elif not isinstance(values, list):
        yield (sweep,), f"sweep is {sweep}, so this must be a list of values, found {values}"
    else:
        for value in (each for each in values if values.count(each) > 1):
            yield (sweep,), f"holds {value} twice; keep one of them"
        text = f"a list beside the sweep must have as many values as {sweep} ({len(values)})"
        for each in benchmark.parameters:
            column = block.get(each.name)
            if isinstance(column, list) and len(column) != len(values) and not each.is_variant:
                yield (each.name,), f"{text}, found {len(column)}"


def _divisor_problems(benchmark: Benchmark, block: Mapping[str, Any]) -> Problems:
    """Problems of sizes that do not divide those that they must divide."""
    runs = [*benchmark.combinations(block)]
    for product in (p for p in benchmark.products if p.whole in block):
        (divisor,) = set(product.factors) & block.keys()
        for whole, size in ((run[product.whole], run[divisor]) for run in runs):
            if whole % size:
                text = f"{divisor} {size} does not divide {whole}; use a multiple of {size}"
                yield (product.whole,), f"{text}, such as {max(1, round(whole / size)) * size}"
                return
    for at, of in ((p.name, p.divides) for p in benchmark.parameters if p.divides):
        for run in map(benchmark.complete, runs):
            if int(run[of]) % int(run[at]):
                yield (at,), f"{run[at]} does not divide {of} {run[of]}; use 1, or another divisor"


def problems_beside(
    config: Mapping[str, Any], benchmark: Benchmark, known: Collection[str]
) -> Problems:
    """Problems in the relations between keys, in a configuration that the schema accepts."""
    blocks: dict[KeyPath, Any] = {(HEADLINE,): config[HEADLINE]}
    blocks |= {("experiments", i): block for i, block in enumerate(config["experiments"])}
    names = [experiment["name"] for experiment in config["experiments"]]
    baseline, measured = config["baseline"], [n for block in blocks.values() for n in block[SHARED]]
    if baseline in known and baseline not in measured:
        text = f"no experiment measures {baseline}, nor does the summary; take one of "
        text += f"{', '.join(dict.fromkeys(measured))}{nearest(baseline, measured)}"
        yield ("baseline",), f"{text}, or add {baseline} to their implementations"
    # The kernels that are counted by default a project may have removed.
    usual = CONFIGURATION.model_fields["counted"].default
    used: dict[KeyPath, str] = {("baseline",): baseline}
    used |= {("counted", i): n for i, n in enumerate(config["counted"]) if n not in usual}
    used |= {(*at, SHARED, i): n for at, of in blocks.items() for i, n in enumerate(of[SHARED])}
    for path, name in used.items():
        if name not in known:
            yield path, describe_unknown(name, known, meant=nearest(name, known))
    for path, block in blocks.items():
        for at, text in _experiment_problems(block, names[: int(path[1])]) if path[1:] else ():
            yield (*path, *at), text
        for device in ("cuda", "cpu"):
            problems = [*_given_problems(benchmark, block[device])]
            if "sweep" in block:
                problems = problems or [*_sweep_problems(benchmark, block["sweep"], block[device])]
            problems = problems or [*_divisor_problems(benchmark, block[device])]
            for at, text in problems:
                yield (*path, device, *at), text
    for name in config["remarks"].keys() - names:
        text = f"no experiment has this name; known: {', '.join(sorted({*names}))}"
        yield ("remarks", name), text


def model_at(model: type[Keys], path: Sequence[object]) -> type[Keys]:
    """The model of the mapping at a path of keys and positions below a model."""
    for part in path:
        field = model.model_fields.get(str(part))
        kinds: list[Any] = [field.annotation] if field else []
        for kind in kinds:
            kinds += get_args(kind)  # of a type such as `list[Figure]`
        model = next((k for k in kinds if isinstance(k, type) and issubclass(k, Keys)), model)
    return model


# The message of a mistake: what is wrong, and the remedy

SYNONYMS = {
    **{"gpu": "cuda", "nvidia": "cuda", "english": "en", "zh": "zh_TW", "chinese": "zh_TW"},
    **{"fp16": "float16", "half": "float16", "bf16": "bfloat16"},
    **{"fp32": "float32", "single": "float32", "speed": "rate"},
    # The letter of a parameter stands for that of the first benchmark with it.
    **{p.symbol.lower(): p.name for b in reversed(BENCHMARKS.values()) for p in b.parameters},
}
"""Common other names of values, in lower case, with the name that the configuration takes."""

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


def shown(value: Any) -> str:
    """A value on one short line, whatever it is."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # YAML has dates, sets and bytes, which JSON does not have
        text = reprlib.repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def nearest(word: str, known: Collection[str]) -> str:
    """The known name that was probably meant, as a hint: by meaning, else by spelling."""
    meant = SYNONYMS.get(word.casefold())
    if meant not in known:
        folded = {name.casefold(): name for name in known}
        close = difflib.get_close_matches(word.casefold(), folded, n=1)
        meant = next(map(folded.get, close), None)
    return f" (did you mean {meant}?)" if meant else ""


def mistyped(value: Any, wanted: str, or_form: str = "", remedy: str = "") -> str:
    """The message for a value that is not of the wanted type, nor of the other form allowed."""
    if value is None:
        return f"has no value; give it {wanted}{or_form}, or remove the key{remedy}"
    match value:
        case _ if remedy:
            pass
        case int() | float() | date() if wanted == "text":
            remedy = "; put text in quotes"
        case dict() if wanted == MANY:
            remedy = "; begin each item of the list with a hyphen"
        case str() if wanted == MANY:
            remedy = f"; write [{value}]"
        case str() if wanted == "true or false":
            remedy = "; write true or false without quotes"
        case str() if wanted.endswith(" number"):
            with suppress(ValueError):  # YAML takes 1e-3 for text
                if math.isfinite(number := float(value)):
                    remedy = f"; write {number:.12f}".rstrip("0").rstrip(".") + " without quotes"
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
        given = value if isinstance(value, str) and value else shown(value)
        known = re.findall("'([^']+)'", limits["expected"])  # without True, as YAML reads yes
        text = f"must be one of {', '.join(known)}{or_form}; found {given}{nearest(given, known)}"
    elif kind in _TYPES:
        text = mistyped(value, _TYPES[kind], or_form, example_text(path[-1]))
    elif kind == "too_short" and not value:
        text = "is empty: give at least one value"
    elif kind in _LIMITS:
        length = len(value) if isinstance(value, Sized) else None
        text = _LIMITS[kind].format(**limits, length=length, found=shown(value), value=value)
    return path, text
