"""How often the findings and their statistics are right, on a large scale, as a table.

Usage: PYTHONPATH=workflow:tests python perf/findings_right.py STUDY [COUNT] [SEED]

scores      datasets whose truth is planted; exit status 1 where a share is out of bounds
conclusions what is said of who is best where, of planted times; then some of what is false
noise       runs of identical code under noise of known kinds
replicated  pairs of identical code whose processes differ
paired      recordings of identical code where cards and clocks differ
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.study import choosing, noise, paired, replicated, scores

Table = Callable[[int, int], Iterator[str]]


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def _per_10_000(share: float) -> str:
    return "0" if share == 0 else f"{1e4 * share:.2g}"


def of_noise(runs: int, seed: int) -> Iterator[str]:
    """The last row of each noise is by the stop rule."""
    yield (
        "| noise | calls | median held | ratio held | width | in doubt | different of 10,000 "
        "| of them without doubt | missed |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, draw in noise.NOISES.items():
        for count in (10, 20, 100, 500, None):
            s = noise.score_noise(draw, runs, seed, count)
            yield (
                f"| {name} | {s.calls:.0f} | {_percent(s.median_held)} | {_percent(s.ratio_held)} "
                f"| {s.width:.2f} | {_percent(s.in_doubt, 0)} | {_per_10_000(s.false)} "
                f"| {_per_10_000(s.unwarned)} | {_percent(s.missed)} |"
            )


def _replicated_row(calls: str, sd: float, s: replicated.ReplicatedScore, most: str = "") -> str:
    shares = (s.held / s.runs, s.least_held, s.ratio_held / s.pairs)
    cells = (
        *(calls, _percent(sd), f"{most}{s.processes / s.runs:.1f}", *map(_percent, shares)),
        *(_per_10_000(s.false / s.pairs), _percent(s.at_margin / s.pairs, 2)),
        _percent(s.missed / s.pairs),
    )
    return f"| {' | '.join(cells)} |"


def of_replicated(pairs: int, seed: int) -> Iterator[str]:
    """Fixed numbers of processes, and those that are added until the verdict is reached."""
    fixed, adaptive, short = replicated.score_fixed, replicated.score_adaptive, replicated.SHORT
    yield (
        "| calls | sd between processes | processes | median held | least held | ratio held "
        "| different of 10,000 | different at the margin | missed |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for sd in (0.006, 0.012, 0.02, 0.03):
        for processes in (1, 3, 5, 8):
            yield _replicated_row(short.name, sd, fixed(short, sd, processes, pairs, seed))
        yield _replicated_row(short.name, sd, adaptive(short, sd, pairs // 10, seed), "3 to 8: ")
    for calls in replicated.CALLS[1:]:
        for processes in (3, 5, 8):
            score = fixed(calls, 0.012, processes, pairs // 10, seed)
            yield _replicated_row(calls.name, 0.012, score)
        score = adaptive(calls, 0.012, pairs // 100, seed)
        yield _replicated_row(calls.name, 0.012, score, "3 to 8: ")
    for name, factors in replicated.UNEQUAL.items():
        for processes in (3, 5, 8):
            score = fixed(short, 0.006, processes, pairs // 10, seed, factors)
            yield _replicated_row(name, 0.006, score)


def of_pairs(recordings: int, seed: int) -> Iterator[str]:
    """Ratios by pairs, and as of independent runs."""
    yield (
        "| disturbance | settings, processes | paired: held | different | half-width "
        "| unpaired: held | different | half-width |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name, disturbance in paired.DISTURBANCES.items():
        for settings, processes in ((8, 3), (8, 2), (8, 5), (1, 3), (30, 3)):
            count = max(1, recordings * 8 // settings)
            s = paired.score_paired(disturbance, count, seed, settings, processes)
            shares = (s.held, s.false, s.width / 2)
            shares += (s.held_unpaired, s.false_unpaired, s.width_unpaired / 2)
            cells = [_percent(share / s.ratios, 2) for share in shares]
            cells[2::3] = [f"±{half_width}" for half_width in cells[2::3]]
            yield f"| {name} | {settings}, {processes} | {' | '.join(cells)} |"


def of_scores(datasets: int, seed: int) -> Iterator[str]:
    """Each kind's findings; ends the process with 1 where a share is out of bounds."""
    with tempfile.TemporaryDirectory() as folder:
        found = scores.score(datasets, seed, Path(folder))
    yield "| kind | findings | decided | false | plain ones missed | intervals that hold |"
    yield "|---|---|---|---|---|---|"
    for kind, s in sorted(found.kinds.items()):
        missed, held = f"{s.missed} of {s.plain}", "–"
        if s.intervals:
            held = f"{s.held} of {s.intervals} ({_percent(s.held / s.intervals)})"
        false = f"{s.false} ({_percent(s.false / max(1, s.decided))})"
        cells = (kind, s.findings, s.decided, false, missed if s.plain else "–", held)
        yield f"| {' | '.join(map(str, cells))} |"
    planted = ", ".join(f"{count} {kind}" for kind, count in sorted(found.datasets.items()))
    yield f"\n{found.datasets.total()} datasets: {planted}."
    yield (
        f"Of identical implementations and variants, {found.identical_checks} findings, "
        f"{found.identical_differences} of which claim a difference."
    )
    if wrong := found.out_of_bounds():
        sys.exit("\n".join(wrong))


def of_conclusions(datasets: int, seed: int) -> Iterator[str]:
    """Each kind of statement, the leads that page one tells, and statements that are false."""
    with tempfile.TemporaryDirectory() as folder:
        found = choosing.score(range(seed, seed + datasets), Path(folder))
    yield found.text()
    yield from (example[:1200] for example in found.examples[:10])


STUDIES: dict[str, tuple[Table, int]] = {
    "scores": (of_scores, 360),
    "conclusions": (of_conclusions, 300),
    "noise": (of_noise, 300),
    "replicated": (of_replicated, 100_000),
    "paired": (of_pairs, 1000),
}
"""Each study's table, and how much it draws where that is not said."""


def main() -> None:
    """Print the rows of a study's table as they are found."""
    if len(sys.argv) < 2 or sys.argv[1] not in STUDIES:
        sys.exit(__doc__)
    table, count = STUDIES[sys.argv[1]]
    given = [int(each) for each in sys.argv[2:]]
    for row in table(*(*given, *(count, 1)[len(given) :])):
        print(row, flush=True)


if __name__ == "__main__":
    main()
