"""The rates at which comparisons, sentences and their statistics are right, as a table.

Usage: PYTHONPATH=workflow:tests python perf/right.py STUDY COUNT [SEED]

scores      comparisons of planted datasets; status 1 out of bounds
models      comparisons where processes differ in known ways; status 1 where a goal is missed
sentences   all that planted reports on attention say; status 1 where page one says anything false
noise       runs of identical code under noise of known kinds
replicated  pairs of identical code whose processes differ
paired      recordings of identical code where cards and clocks differ
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.study import identical, models, scores, sentences

Table = Iterator[tuple[object, ...]]
OF_COMPARED = ("what", "decided", "false", "plain ones missed", "A/A different", "intervals hold")
OF_IDENTICAL = ("what", "median held", "ratio held", "half-width", "different of 10,000", "missed")


def _share(count: float, of: float) -> str:
    return f"{count} of {of} ({100 * count / max(1, of):.2f}%)"


def _row_of_identical(name: str, s: identical.Score) -> tuple[object, ...]:
    of_runs, half = _share(s.held, s.runs) if s.runs else "–", s.width / s.ratios / 2
    of_ratios = _share(s.ratios_held, s.ratios), f"±{half:.2%}", 1e4 * s.false / s.ratios
    return name, of_runs, *of_ratios, _share(s.missed, s.ratios)


def of_noise(runs: int, seed: int, folder: Path) -> Table:
    """The last row of each noise is by the stop rule."""
    yield OF_IDENTICAL
    for name, count in itertools.product(identical.NOISES, (10, 20, 100, 500, None)):
        score = identical.score_noise(name, runs, seed, count)
        yield _row_of_identical(f"{name}, {count or 'stopped'}", score)


def of_replicated(pairs: int, seed: int, folder: Path) -> Table:
    """Each kind of calls by the spread between processes."""
    yield OF_IDENTICAL
    spreads, counts = (0.006, 0.012, 0.02, 0.03), (1, 3, 5, 8)
    for calls, sd, processes in itertools.product(identical.CALLS, spreads, counts):
        score = identical.score_fixed(calls, sd, processes, pairs, seed)
        yield _row_of_identical(f"{calls[0]}, sd between {processes} processes {sd:.1%}", score)


def of_pairs(recordings: int, seed: int, folder: Path) -> Table:
    """Ratios of eight settings by pairs, and as of independent runs."""
    yield OF_IDENTICAL
    for name, processes in itertools.product(identical.DISTURBANCES, (2, 3, 5)):
        found = identical.score_paired(name, recordings, seed, 8, processes)
        for way, score in zip(("pairs", "independent"), found, strict=True):
            yield _row_of_identical(f"{name}: {processes} processes, {way}", score)


def _row(name: str, s: scores.Score, same: str = "–") -> tuple[object, ...]:
    of_plain = _share(s.false, s.decided), _share(s.missed, s.plain)
    return name, s.decided, *of_plain, same, _share(s.held, s.intervals)


def of_scores(datasets: int, seed: int, folder: Path) -> Table:
    """Rows and statements of each kind."""
    found = scores.score(datasets, seed, folder)
    yield OF_COMPARED
    yield from (_row(*each) for each in sorted(found.rows.items()))
    yield "identical", "", "", "", _share(found.identical_differences, found.identical_rows), ""
    if wrong := found.out_of_bounds():
        sys.exit("\n".join(wrong))


def of_models(datasets: int, seed: int, folder: Path) -> Table:
    """A row for each model and number of processes."""
    yield OF_COMPARED
    wrong = []
    for name, cell in models.score_models(datasets, seed, folder):
        yield _row(name, cell.rows, _share(cell.different, cell.identical))
        wrong += [f"{name}: {each}" for each in cell.out_of_bounds("two states" in name)]
    if wrong:
        sys.exit("\n".join(wrong))


def of_sentences(reports: int, seed: int, folder: Path) -> Table:
    """A row for each kind of sentence, with those of page one and the conclusion apart."""
    said, false = Counter[tuple[bool, str]](), Counter[tuple[bool, str]]()
    for told, is_true, report in sentences.study(reports, seed, folder):
        kind = (told.place != "section", told.macro)
        said[kind] += 1
        false[kind] += not is_true
        if not is_true:
            yield "false", f"report {report}: {told.section} {told.macro} {told.facts}"
    for (on_page_one, macro), count in sorted(said.items()):
        place = "page one, conclusion" if on_page_one else "experiments"
        yield f"{place}: {macro}", count, false[on_page_one, macro]
    first = sum(count for (on_page_one, _), count in false.items() if on_page_one)
    if first or false.total() > sentences.MOST_FALSE * said.total():
        sys.exit(f"{first} false on page one, {false.total()} of {said.total()} in all")


STUDIES: dict[str, Callable[[int, int, Path], Table]] = {
    **{"scores": of_scores, "models": of_models, "sentences": of_sentences},
    **{"noise": of_noise, "replicated": of_replicated, "paired": of_pairs},
}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in STUDIES:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        count, seed = map(int, [*sys.argv[2:], 1][:2])
        for row in STUDIES[sys.argv[1]](count, seed, Path(made)):
            print(f"| {' | '.join(map(str, row))} |", flush=True)
