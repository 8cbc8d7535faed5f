"""Other verdicts, missing counters and failed runs: what may break a sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from flashlab.analysis.frames import VALUE, Dataset
from flashlab.story import words
from flashlab.story.observation import Observation
from flashlab.story.speeds import VERDICTS

LANGUAGES = ("zh_TW", "en")
BROKEN = re.compile(
    r"None|nan\b|[{}\[\]]|Undefined|  |\.\.|[，；：、。]。|，，| ,|^[,;.]|\. [a-z]|: \.|\(\)|（）"
    r"|[\u4e00-\u9fff]\.[ $]|[,;:，；：]$|\bof (is|are)\b"
)
"""What no sentence has: values that are missing, two stops, nothing between marks."""


def altered(data: Dataset, draw: random.Random) -> Dataset:
    """Other verdicts, some metrics gone, some implementations failed at some values."""
    weights = [draw.random() ** 2 for _ in VERDICTS]
    verdicts = draw.choices(VERDICTS, weights, k=len(data.speeds))
    speeds, values = data.speeds.assign(verdict=verdicts), data.values
    if draw.random() < 0.4:
        gone = draw.choice(
            ["_(?:dram|global|shared|bank|instr|occ|fp32|matrix|sm)", "process_", "busy"]
        )
        values = values[~values.index.get_level_values("metric").str.contains(gone, regex=True)]
    names = [*data.declared]
    failing = (
        {draw.choice(names) for _ in range(draw.randrange(len(names)))}
        if draw.random() < 0.3
        else set()
    )
    if failing:
        keep = ~values.index.get_level_values("implementation").isin(failing)
        values = values[keep | (pd.Series(range(len(values))) % 3 > 0).to_numpy()]
    return replace(data, speeds=speeds, values=values)


def judged(data: Dataset, verdict: str, **where: str) -> Dataset:
    """The same with another verdict on some speeds, or on all."""
    speeds = data.speeds.reset_index()
    chosen = pd.Series(True, speeds.index)
    for level, value in where.items():
        chosen &= speeds[level] == value
    assert chosen.any()
    speeds.loc[chosen, "verdict"] = verdict
    return replace(data, speeds=speeds.set_index(data.speeds.index.names))


def counted(data: Dataset, counters: Mapping[str, Mapping[str, float]]) -> Dataset:
    """The same with these counters of the steps in place of the planted ones."""
    at = {"experiment": "ladder", "variant": "", "at": 28}
    rows = [
        {**at, "metric": f"kernel_{name}", "implementation": step, "value": value}
        for step, of in counters.items()
        for name, value in {**dict.fromkeys(["occupancy", "instructions"], 1.0), **of}.items()
    ]
    old = data.values.reset_index()
    gone = old.metric.str.startswith("kernel_") & (old.metric != "kernel_time")
    every = pd.concat([old[~gone], pd.DataFrame(rows)])
    return replace(data, values=every.set_index(VALUE)["value"].sort_index())


def told(observations: Iterable[Observation], story: str) -> dict[str, dict[str, str]]:
    """The paragraphs of observations, read back as a report reads them, by place and language."""
    kept = [Observation(**each.to_json()) for each in observations]
    found: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        texts = words.paragraphs(kept, language, story=story)
        parts = {"answer": texts.answer, "conclusion": texts.conclusion, **texts.sections}
        parts["notice"] = words.joined(texts.notices, language)
        for place, text in parts.items():
            found.setdefault(place, {})[language] = text.replace("\u00a0", " ")
    return found


def broken(texts: dict[str, dict[str, str]]) -> list[str]:
    """The paragraphs that are broken."""
    every = (text for of in texts.values() for text in of.values())
    return [f"{found[0]!r} in {text}" for text in every if (found := BROKEN.search(text))]
