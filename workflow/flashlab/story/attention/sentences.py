"""Which sentences a report on attention says, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flashlab.analysis.frames import Dataset, Sweep
from flashlab.story.attention import causes, keys, lesson, mask, memory, overall, roles, time
from flashlab.story.observation import Observation

Kind = Callable[[Sweep], Observation | None]

SWEEP: tuple[Kind, ...] = (
    *(time.time, time.leaders, causes.filled, causes.score_line, causes.bound),
    *(causes.faults, causes.operators, memory.memory, causes.heads, causes.small_heads),
    *(lesson.missing, lesson.take, lesson.odd),
)
MASK: tuple[Kind, ...] = (
    *(mask.mask_time, mask.mask_why, mask.mask_memory, mask.mask_take, lesson.missing, lesson.odd),
)
SHARED: tuple[Kind, ...] = (keys.shared, lesson.missing, lesson.odd)
PACKED: tuple[Kind, ...] = (time.time, keys.packed, lesson.missing, lesson.odd)
"""The kinds of sentences of a paragraph, in their order, by the kind of experiment."""

LINES = ("take", "mask_take", "mask_open")
"""The kinds that are an experiment's line on page one, too."""

ONLY_LINES = ("take_two", "take_even", "take_peaks")
"""Those whose numbers or verdicts an experiment's paragraph has already."""


def observations(data: Dataset) -> list[Observation]:
    """All that a report says of a dataset, in its order."""
    front = (overall.answer(data), overall.decides(data))
    sections = [o for s in data.sweeps for kind in kinds(s) if (o := kind(s)) is not None]
    return [
        *(each for each in front if each is not None),
        *(replace(each, place="line") for each in sections if each.name in LINES),
        *lesson.all_missing(data),
        *lesson.all_odd(data),
        *(each for each in sections if each.macro not in ONLY_LINES),
        *overall.conclusion(data),
    ]


def kinds(s: Sweep) -> tuple[Kind, ...]:
    """The kinds of sentences of an experiment's paragraph."""
    if not s.names:
        return (lesson.missing,)
    if s.is_switch:
        return MASK
    if s.symbol == roles.SHARED:
        return SHARED
    twins = any(roles.is_packed(s.data, name) for name in s.names)
    return PACKED if twins and not roles.has_baseline(s) else SWEEP
