"""Other verdicts, missing counters and failed runs: what may break a sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pandas as pd

from flashlab.analysis.frames import POOLED, Dataset
from flashlab.story import words
from flashlab.story.observation import Observation
from flashlab.story.speeds import VERDICTS

LANGUAGES = ("zh_TW", "en")
BROKEN = re.compile(
    r"None|nan\b|\binf\b|[{}\[\]]|Undefined|  |\.\.|[，；：、。]。|，，| ,|^[,;.]|\. [a-z]|: \."
    r"|\(\)|（）|[\u4e00-\u9fff]\.[ $]|[^.。]$|\bof (is|are)\b"
)
"""What no paragraph has: values that are missing, two stops or none, nothing between marks."""

GONE = ("_(?:dram|global|shared|bank|instr|occ|fp32|matrix|sm)", "process_", "busy", "_share")
Lost = Callable[[str, str, str, int], bool]
"""Whether the run of an experiment, a variant, an implementation and a value has failed."""


def lacking(data: Dataset, lost: Lost) -> Dataset:
    """The same where some runs failed."""
    gone = pd.Series([lost(*key) for key in data.runs.index], data.runs.index, dtype=bool)
    of_values = [lost(k[0], k[1], k[3], k[4]) for k in data.values.index]
    of_speeds = [
        any(lost(k[0], k[2], name, k[6]) for name in k[4:6] if k[6] != POOLED)
        for k in data.speeds.index
    ]
    return replace(
        data,
        runs=data.runs[~gone],
        failed=pd.concat([data.failed, data.runs[gone].assign(status="oom")]),
        values=data.values[[not each for each in of_values]],
        speeds=data.speeds[[not each for each in of_speeds]],
    )


def altered(data: Dataset, draw: random.Random) -> Dataset:
    """Other verdicts, some metrics gone, some implementations failed at some values or at all."""
    weights = [draw.random() ** 2 for _ in VERDICTS]
    data = judged(data, draw.choices(VERDICTS, weights, k=len(data.speeds)))
    if draw.random() < 0.4:
        metrics = data.values.index.get_level_values("metric")
        data = replace(data, values=data.values[~metrics.str.contains(draw.choice(GONE))])
    if draw.random() < 0.4:
        names, share = [*data.declared], draw.choice([0.3, 1.0])
        failing = {draw.choice(names) for _ in range(draw.randrange(len(names)))}
        chances = {key: draw.random() for key in data.runs.index}
        return lacking(data, lambda *key: key[2] in failing and chances.get(key, 1) < share)
    return data


def judged(data: Dataset, verdict: str | list[str], **where: str) -> Dataset:
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
    names = data.values.index.get_level_values("metric")
    values = data.values[~names.str.match("kernel_(?!time)")].copy()
    for step, of in counters.items():
        for name, value in {"occupancy": 1.0, "instructions": 1.0, **of}.items():
            values["ladder", "", f"kernel_{name}", step, 28] = value
    return replace(data, values=values.sort_index())


def told(observations: Iterable[Observation], story: str) -> dict[str, dict[str, str]]:
    """The paragraphs of observations, read back as a report reads them, by place and language."""
    kept = [Observation(**each.to_json()) for each in observations]
    found: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        texts = words.paragraphs(kept, language, story=story)
        parts = {"answer": texts.answer, "conclusion": texts.conclusion, **texts.sections}
        parts |= {f"line {name}": line for name, line in texts.lines.items()}
        parts["notice"] = words.joined(texts.notices, language)
        for place, text in parts.items():
            found.setdefault(place, {})[language] = text.replace("\u00a0", " ")
    return found


def assert_unbroken(
    data: Dataset, story: Callable[[Dataset], list[Observation]], of: str, seeds: int = 40
) -> None:
    """Whatever failed, paragraphs are whole in both languages; on attention all have their rows."""
    for seed in range(seeds):
        found = story(altered(data, random.Random(seed)) if seed else data)
        assert of != "attention" or all(each.evidence for each in found if each.facts), seed
        for place, text in told(found, of).items():
            for said in filter(None, text.values()):
                assert not BROKEN.search(said), f"{seed}, {place}: {BROKEN.search(said)} in {said}"
