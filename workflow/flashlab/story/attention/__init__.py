"""What the report on attention says: page one, and a section for each experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flashlab.story.attention.front import page_one
from flashlab.story.attention.sweep import (
    memory_equal,
    memory_growth,
    rate_definition,
    rate_growth,
    time_growth,
    time_lead,
    time_passes,
    time_switch,
    varies,
)
from flashlab.story.attention.why import (
    memory_limit,
    take,
    why_kernel_class,
    why_memory_model,
    why_none,
    why_operators,
    why_products,
    why_score_line,
    why_traffic,
)
from flashlab.story.observation import Observation
from flashlab.story.tables import Section, Tables

SECTION: tuple[Callable[[Section], Observation | None], ...] = (
    *(varies, time_growth, time_lead, time_passes, time_switch),
    *(rate_growth, rate_definition, memory_growth, memory_equal),
    *(why_memory_model, why_traffic, why_kernel_class, why_score_line, why_operators),
    *(why_products, why_none, memory_limit, take),
)
"""What a section says, in its order."""


def story(tables: Tables) -> Iterator[Observation]:
    """What the report says, in its order."""
    yield from page_one(tables)
    for section in tables.sections:
        for observe in SECTION:
            if (found := observe(section)) is not None:
                yield found
