"""Planted data for the looks of a bench, and how often its verdicts are right on it.

`python tests/compare/planted_benches.py` prints what docs/comparing.md says.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from flashlab.compare.looks import PROCESSES, look_at

PAIRS = (12, 62, 62, 62)
"""Pairs of batches in each process: about those of a pass by default, with two implementations."""

BATCH_DEVIATION = 0.01
"""Standard deviation of the logarithm of a batch's median."""


def planted_ratios(
    generator: np.random.Generator,
    ratio: float,
    process_deviation: float = 0.003,
    dependence: float = 0.0,
    state_step: float = 0.0,
) -> list[list[float]]:
    """The ratios of neighbouring batches of every process, about a true ratio of times.

    Processes have offsets of their own with a standard deviation of the logarithm, neighbouring
    pairs an autocorrelation, and a state of the clock, which lasts for 20 batches on average,
    raises the times of both by a step.
    """
    processes = []
    for pairs in PAIRS:
        noise = generator.normal(0, BATCH_DEVIATION, (pairs, 2))
        for i in range(1, pairs):
            noise[i] = dependence * noise[i - 1] + np.sqrt(1 - dependence**2) * noise[i]
        switches = np.cumsum(generator.random(2 * pairs) < 1 / 20) % 2
        noise += (switches * np.log1p(state_step)).reshape(pairs, 2)
        noise[1::2] = noise[1::2, ::-1]  # every second pair is measured in reverse order
        own, other = generator.normal(0, process_deviation, 2)
        logs = np.log(ratio) + own - other + noise[:, 1] - noise[:, 0]
        processes.append(np.exp(logs).tolist())
    return processes


def score(benches: int, margin: float, ratio: float, **world: float) -> dict[str, Counter[str]]:
    """The verdicts of so many benches: after the ``first`` process, ``final``, and ``ever``."""
    generator = np.random.default_rng(0)
    counts = {when: Counter[str]() for when in ("first", "final", "ever")}
    for _ in range(benches):
        ratios = planted_ratios(generator, ratio, **world)
        looks = (look_at(ratios[:count], margin) for count in range(1, PROCESSES + 1))
        verdicts = [look["verdict"] for look in looks]
        for when, of in (("first", verdicts[:1]), ("final", verdicts[-1:]), ("ever", {*verdicts})):
            counts[when].update(of)
    return counts


DISTURBANCES: dict[str, dict[str, float]] = {
    "quiet: processes differ by sd 0.3%": {},
    "processes differ by sd 1%": {"process_deviation": 0.01},
    "processes differ by sd 2%": {"process_deviation": 0.02},
    "dependent batches, ρ 0.8": {"dependence": 0.8},
    "clock states, 8% apart": {"state_step": 0.08},
}


def main(benches: int = 1000) -> None:
    """Print what docs/comparing.md says, in full."""
    planted = ((0.05, 1.0), (0.05, 1.1), (0.05, 1 / 1.1), (0.01, 1.0), (0.01, 1.02))
    for (margin, ratio), disturbance in itertools.product(planted, DISTURBANCES):
        print(f"\nmargin {margin:.0%}, true ratio {ratio:.3f}: {disturbance}")
        for when, counts in score(benches, margin, ratio, **DISTURBANCES[disturbance]).items():
            print(when, ", ".join(f"{v} {counts[v] / benches:.2%}" for v in sorted(counts)))


if __name__ == "__main__":
    main()
