"""Building blocks of the configuration's model: fields with type, bounds and default.

A benchmark declares the settings of its own ways of measuring with these; `flashlab.config.model`
has all other keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, WrapValidator
from pydantic_core import PydanticCustomError

MANY = "a list"
EACH = "a mapping of keys"
"""The forms that several values may have."""


class Keys(BaseModel):
    """A mapping whose keys are these and no others, and whose values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "is empty: give at least one value")
    return text


def _as_written(value: Any, check: Callable[[Any], float]) -> Any:
    check(value)
    return value  # 1 stays 1: it is part of what identifies a record


def _one_or(form: str, kinds: tuple[type, ...]) -> Discriminator:
    alone = f"or {form}"
    return Discriminator(lambda value: form if isinstance(value, kinds) else alone)


OR_MANY, OR_EACH = f"or {MANY}", f"or {EACH}"
"""The tags of one value that may be given in another form too."""

One = TypeVar("One")
Several = TypeVar("Several")
OneOrMany = Annotated[
    Annotated[One, Tag(OR_MANY)] | Annotated[Several, Tag(MANY)], _one_or(MANY, (list,))
]
OneOrEach = Annotated[
    Annotated[One, Tag(OR_EACH)] | Annotated[Several, Tag(EACH)], _one_or(EACH, (dict, Keys))
]
"""One value or several, of these types; an error is about the form that was meant."""

Text = Annotated[str, AfterValidator(_not_blank)]
Line = Annotated[str, Field(max_length=200)]
"""A name on the page; one of thousands of characters would take minutes to typeset."""
Title = Annotated[Line, AfterValidator(_not_blank)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), WrapValidator(_as_written)]
Precision = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False), WrapValidator(_as_written)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), WrapValidator(_as_written)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), WrapValidator(_as_written)]
