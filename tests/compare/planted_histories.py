"""How often change points are right: `python tests/compare/planted_histories.py`.

Each history of 100 commits is watched as it grows: after every commit the changes are found anew,
and one that was not there before (within two commits) is an alarm. An alarm is false unless a step
was planted at most three commits from where it says that one was.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from flashlab.compare.change_points import find_changes

COMMITS = 100
NEAR = 3
SAME = 2


@dataclass(frozen=True)
class Kind:
    """A kind of history: the noise of a commit's value, and what the values do beside it.

    `step` is a factor from some commit on, `drift` what all commits add up to, `disturbed` the
    share of commits whose value is a fifth larger.
    """

    name: str
    noise: float
    step: float = 1.0
    drift: float = 0.0
    disturbed: float = 0.0


def history(kind: Kind, drawn: random.Random) -> tuple[list[float], int | None]:
    """The values of a history, and where it steps."""
    at = drawn.randrange(10, COMMITS - 10) if kind.step != 1 else None
    values = []
    for commit in range(COMMITS):
        level = kind.step if at is not None and commit >= at else 1.0
        drift = (1 + kind.drift) ** (commit / COMMITS)
        slow = 1.2 if drawn.random() < kind.disturbed else 1.0
        values.append(level * drift * slow * drawn.lognormvariate(0, kind.noise))
    return values, at


def alarms(values: list[float]) -> Iterator[tuple[int, int]]:
    """Each new alarm: after how many commits it was given, and where it says the change was."""
    known: list[int] = []
    for count in range(1, len(values) + 1):
        for at, _ in find_changes(values[:count]):
            if all(abs(at - other) > SAME for other in known):
                yield count, at
            known.append(at)


KINDS = (
    *(Kind(f"none, noise {100 * n:g}%", n) for n in (0.005, 0.01, 0.02, 0.03)),
    *(Kind(f"drift of {100 * d:g}%, noise 1%", 0.01, drift=d) for d in (0.03, 0.1)),
    Kind("one commit in 50 disturbed by 20%, noise 1%", 0.01, disturbed=0.02),
    *(
        Kind(f"step of {100 * s:g}%, noise {100 * n:g}%", n, 1 + s)
        for n in (0.01, 0.02)
        for s in (0.05, 0.07, 0.1, 0.15, 0.2, -0.1)
    ),
)


def score(kind: Kind, count: int) -> tuple[int, int, int, int]:
    """Of so many histories: false alarms, steps, steps found at all, and within three commits."""
    false = steps = found = soon = 0
    for seed in range(count):
        values, at = history(kind, random.Random(f"{kind.name} {seed}"))
        given = list(alarms(values))
        right = [after for after, where in given if at is not None and abs(where - at) <= NEAR]
        false += len(given) - len(right)
        steps += at is not None
        found += bool(right)
        soon += at is not None and any(after <= at + NEAR for after in right)
    return false, steps, found, soon


def main() -> None:
    """Print a row for each kind of history."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{count} histories of {COMMITS} commits of each kind")
    for kind in KINDS:
        false, steps, found, soon = score(kind, count)
        told = f"; found {found}, within {NEAR} commits {soon}" if steps else ""
        print(f"{kind.name}: {false} false alarms{told}", flush=True)


if __name__ == "__main__":
    main()
