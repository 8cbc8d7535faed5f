"""Planted data for the looks of a bench, and how often its verdicts are right on it.

`python tests/compare/planted_benches.py` prints what docs/comparing.md says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from flashlab.benchmarks.attention.declaration import ATTENTION
from flashlab.compare.looks import PROCESSES, look_at

PAIRS = (12, 62, 62, 62)
"""Pairs of batches in each process: about those of a pass by default, with two implementations."""

PASS = ATTENTION.metric("forward_time")
BATCH_DEVIATION = 0.01
"""Standard deviation of the logarithm of a batch's median."""


@dataclass(frozen=True)
class World:
    """A planted bench: a true ratio of times, and its disturbances.

    Attributes:
        name: the row's name in the table.
        ratio: of the second implementation's time to the first's.
        process_deviation: of the logarithm of a process's own offset, for each implementation.
        dependence: autocorrelation of neighbouring pairs.
        state_step: by how much a state of the clock raises the times of both; each state lasts for
            `state_batches` batches on average.
    """

    name: str
    ratio: float = 1.0
    process_deviation: float = 0.003
    dependence: float = 0.0
    state_step: float = 0.0
    state_batches: float = 20.0


def _noise(world: World, pairs: int, generator: np.random.Generator) -> np.ndarray:
    """Of each batch of both implementations in turns, (pairs, 2)."""
    fresh = generator.normal(0, BATCH_DEVIATION, (pairs, 2))
    for i in range(1, pairs):
        own = np.sqrt(1 - world.dependence**2) * fresh[i]
        fresh[i] = world.dependence * fresh[i - 1] + own
    switches = generator.random(2 * pairs) < 1 / world.state_batches
    states = np.cumsum(switches) % 2 * np.log1p(world.state_step)
    return fresh + states.reshape(pairs, 2)


def planted_ratios(world: World, generator: np.random.Generator) -> list[list[float]]:
    """The ratios of neighbouring batches of every process."""
    processes = []
    for pairs in PAIRS:
        noise = _noise(world, pairs, generator)
        noise[1::2] = noise[1::2, ::-1]  # every second pair is measured in reverse order
        own, other = generator.normal(0, world.process_deviation, 2)
        logs = np.log(world.ratio) + own - other + noise[:, 1] - noise[:, 0]
        processes.append(np.exp(logs).tolist())
    return processes


@dataclass(frozen=True)
class Score:
    """Verdicts of many benches: after the first process, at the end, and at any look."""

    first: Counter[str]
    final: Counter[str]
    ever: Counter[str]


def score(world: World, margin: float, benches: int, seed: int = 0) -> Score:
    """The verdicts of so many benches in a world."""
    generator = np.random.default_rng(seed)
    first, final, ever = Counter[str](), Counter[str](), Counter[str]()
    for _ in range(benches):
        ratios = planted_ratios(world, generator)
        looks = (look_at(ratios[:count], PASS, margin) for count in range(1, PROCESSES + 1))
        verdicts = [look["verdict"] for look in looks]
        first[verdicts[0]] += 1
        final[verdicts[-1]] += 1
        ever.update(set(verdicts))
    return Score(first, final, ever)


DISTURBANCES = (
    {"name": "quiet: processes differ by sd 0.3%"},
    {"name": "processes differ by sd 1%", "process_deviation": 0.01},
    {"name": "processes differ by sd 2%", "process_deviation": 0.02},
    {"name": "dependent batches, ρ 0.8", "dependence": 0.8},
    {"name": "clock states, 8% apart", "state_step": 0.08},
)


def main(benches: int = 1000) -> None:
    """Print what docs/comparing.md says, in full."""
    for margin, ratios in ((0.05, (1.0, 1.1, 1 / 1.1)), (0.01, (1.0, 1.02))):
        for ratio in ratios:
            print(f"\nmargin {margin:.0%}, true ratio {ratio:.3f}")
            for disturbance in DISTURBANCES:
                world = World(ratio=ratio, **disturbance)
                found = score(world, margin, benches)
                for what in ("first", "final", "ever"):
                    counts = getattr(found, what)
                    cells = [f"{v} {counts[v] / benches:.2%}" for v in sorted(counts)]
                    print(f"{world.name:40} {what:6} {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
