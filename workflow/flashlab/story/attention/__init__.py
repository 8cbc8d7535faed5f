"""The story of attention: page one, and a section for each experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flashlab.story.attention.front import page_one
from flashlab.story.attention.gaps import gaps, odd_points
from flashlab.story.attention.group_front import chapters_of, groups_page_one
from flashlab.story.attention.group_sections import (
    groups_growth,
    groups_head_dim,
    groups_memory,
    groups_rate,
    groups_rate_definition,
    groups_switch,
    groups_take,
    groups_varies,
    leaders_section,
    packed,
)
from flashlab.story.attention.group_why import (
    groups_activity,
    groups_masked_work,
    groups_traffic,
    why_launches,
    why_no_matrix_units,
)
from flashlab.story.attention.groups import Chapter, groups_of
from flashlab.story.attention.shared import (
    is_shared,
    shared_bytes,
    shared_memory,
    shared_take,
    shared_time,
)
from flashlab.story.attention.surprises import surprise
from flashlab.story.attention.sweep import (
    memory_equal,
    memory_growth,
    pair,
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
    rate_backward,
    take,
    why_faults,
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

Telling = Callable[[Chapter], Observation | None]

SECTION: tuple[Callable[[Section], Observation | None], ...] = (
    *(varies, time_growth, time_lead, time_passes, time_switch),
    *(rate_growth, rate_backward, rate_definition, memory_growth, memory_equal),
    *(why_faults, why_memory_model, why_traffic, why_kernel_class, why_score_line, why_operators),
    *(why_products, why_none, memory_limit, take),
)
"""The observations of a section on two implementations, in its order."""


def _of_first(observe: Callable[[Section], Observation | None]) -> Telling:
    """An observation of the first section of a chapter whose baseline stores the scores."""
    return lambda chapter: observe(chapter.first) if chapter.naive else None


CHAPTER: tuple[Telling, ...] = (
    *(groups_varies, groups_growth, groups_head_dim, groups_switch, leaders_section, surprise),
    *(groups_rate, groups_rate_definition, groups_memory, _of_first(memory_equal)),
    *(_of_first(why_memory_model), groups_traffic, groups_activity),
    *(_of_first(why_kernel_class), groups_masked_work, _of_first(why_score_line)),
    *(why_no_matrix_units, why_launches, groups_take),
)
"""The observations of a chapter on three or more implementations, in its order."""

HALF: tuple[Telling, ...] = (groups_growth, leaders_section)
"""The observations of a chapter's half with the mask, beside the one without."""

PACKED: tuple[Telling, ...] = (groups_varies, packed)
"""The observations of a chapter on packed inputs."""

SHARED: tuple[Callable[[Section], Observation | None], ...] = (
    *(varies, shared_bytes, shared_memory, shared_time),
)
"""The observations of a section on shared keys and values, of any number of implementations."""

ONCE = ("why_memory_model", "groups_traffic", "why_no_matrix_units", "why_launches")
"""The observations that are told once, in the first chapter where they hold."""


def story(tables: Tables) -> Iterator[Observation]:
    """All observations of a dataset, in the report's order."""
    groups = groups_of(tables)
    if groups is not None:
        yield from groups_page_one(tables, groups)
        told: set[str] = set()
        for chapter in chapters_of(tables, groups):
            found = [each for each in _chapter(chapter) if each.name not in told]
            told.update(each.name for each in found if each.name in ONCE)
            yield from found
        return
    yield from page_one(tables)
    for section in tables.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[Observation]:
    """A section on two implementations; what it draws as a lesson comes last."""
    if is_shared(section):
        told_of = (*(observe(section) for observe in SHARED), gaps([section]))
        yield from (each for each in (*told_of, shared_take(section)) if each is not None)
        return
    *told, last = (observe(section) for observe in SECTION)
    yield from (
        each for each in (*told, odd_points([section]), gaps([section]), last) if each is not None
    )


def _chapter(chapter: Chapter) -> Iterator[Observation]:
    """A chapter of a report on three or more; as a section on two where only two have numbers."""
    is_of_two = pair(chapter.first) and not chapter.packed
    if len(chapter.sections) == 1 and (is_of_two or is_shared(chapter.first)):
        yield from _section(chapter.first)
        return
    *told, last = (observe(chapter) for observe in (PACKED if chapter.packed else CHAPTER))
    halves = (observe(half) for half in chapter.halves for observe in HALF)
    besides = (odd_points(chapter.sections), gaps(chapter.sections))
    yield from (each for each in (*told, *halves, *besides, last) if each is not None)
