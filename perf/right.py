"""The rates at which comparisons, sentences and their statistics are right, as a table.

Usage: PYTHONPATH=workflow:tests python perf/right.py STUDY [COUNT] [SEED]

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

Table = Callable[[int, int], Iterator[tuple[object, ...]]]
Named = Iterator[tuple[str, identical.Score]]
OF_COMPARED = ("what", "decided", "false", "plain ones missed", "A/A different", "intervals hold")
OF_IDENTICAL = ("what", "median held", "ratio held", "half-width", "different of 10,000", "missed")


def _share(count: float, of: float) -> str:
    return f"{count} of {of} ({100 * count / max(1, of):.2f}%)"


def of_noise(runs: int, seed: int) -> Named:
    """The last row of each noise is by the stop rule."""
    for name, count in itertools.product(identical.NOISES, (10, 20, 100, 500, None)):
        yield f"{name}, {count or 'stopped'}", identical.score_noise(name, runs, seed, count)


def of_replicated(pairs: int, seed: int) -> Named:
    """Independent calls by the spread between processes; others at one."""
    for calls in identical.CALLS:
        first = calls == identical.INDEPENDENT
        for sd, processes in itertools.product(
            (0.006, 0.012, 0.02, 0.03) if first else (0.012,), (1, 3, 5, 8) if first else (3, 5, 8)
        ):
            count = pairs if first else pairs // 10
            score = identical.score_fixed(calls, sd, processes, count, seed)
            yield f"{calls[0]}, sd between {processes} processes {sd:.1%}", score


def of_pairs(recordings: int, seed: int) -> Named:
    """Ratios by pairs, and as of independent runs."""
    for name, (settings, processes) in itertools.product(
        identical.DISTURBANCES, ((8, 3), (8, 2), (8, 5), (1, 3), (30, 3))
    ):
        count = max(1, recordings * 8 // settings)
        found = identical.score_paired(name, count, seed, settings, processes)
        for way, score in zip(("pairs", "independent"), found, strict=True):
            yield f"{name}: {settings} settings, {processes} processes, {way}", score


def of_identical(study: Callable[[int, int], Named]) -> Table:
    """The table of a study of identical code."""

    def table(count: int, seed: int) -> Iterator[tuple[object, ...]]:
        yield OF_IDENTICAL
        for name, s in study(count, seed):
            of_runs, half = _share(s.held, s.runs) if s.runs else "–", s.width / s.ratios / 2
            of_ratios = _share(s.ratios_held, s.ratios), f"±{half:.2%}", 1e4 * s.false / s.ratios
            yield name, of_runs, *of_ratios, _share(s.missed, s.ratios)

    return table


def _row(name: str, s: scores.Score, identical_ones: str = "–") -> tuple[object, ...]:
    of_plain = _share(s.false, s.decided), _share(s.missed, s.plain)
    return name, s.decided, *of_plain, identical_ones, _share(s.held, s.intervals)


def of_scores(datasets: int, seed: int) -> Iterator[tuple[object, ...]]:
    """Rows of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        found = scores.score(datasets, seed, Path(folder))
    yield OF_COMPARED
    yield from (_row(*each) for each in sorted(found.rows.items()))
    yield "identical", "", "", "", _share(found.identical_differences, found.identical_rows), ""
    if wrong := found.out_of_bounds():
        sys.exit("\n".join(wrong))


def of_models(datasets: int, seed: int) -> Iterator[tuple[object, ...]]:
    """A row for each model and number of processes."""
    yield OF_COMPARED
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, cell in models.score_models(datasets, seed, Path(folder)):
            yield _row(name, cell.rows, _share(cell.different, cell.identical))
            wrong += [f"{name}: {each}" for each in cell.out_of_bounds("two states" in name)]
    if wrong:
        sys.exit("\n".join(wrong))


def of_sentences(reports: int, seed: int) -> Iterator[tuple[object, ...]]:
    """A row for each kind of sentence, with those of page one and the conclusion apart."""
    yield "kind", "sentences", "false"
    said, false = Counter[tuple[bool, str]](), Counter[tuple[bool, str]]()
    with tempfile.TemporaryDirectory() as folder:
        for told, is_true, report in sentences.study(reports, seed, Path(folder)):
            kind = (told.place != "section", told.macro)
            said[kind] += 1
            false[kind] += not is_true
            if not is_true:
                yield "false", f"report {report}: {told.section} {told.macro} {told.facts}"
    for (on_page_one, macro), count in sorted(said.items()):
        place = "page one, conclusion" if on_page_one else "experiments"
        yield f"{place}: {macro}", count, false[on_page_one, macro]
    first = sum(count for (on_page_one, _), count in false.items() if on_page_one)
    yield f"{reports} reports", said.total(), false.total()
    if first or false.total() > sentences.MOST_FALSE * said.total():
        sys.exit(f"{first} false on page one, {false.total()} in all")


STUDIES: dict[str, tuple[Table, int]] = {
    "scores": (of_scores, 360),
    "models": (of_models, 100),
    "sentences": (of_sentences, 300),
    "noise": (of_identical(of_noise), 300),
    "replicated": (of_identical(of_replicated), 100_000),
    "paired": (of_identical(of_pairs), 1000),
}
"""Each study's table, and how much it draws where that is not said."""


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in STUDIES:
        sys.exit(__doc__)
    study, usual = STUDIES[sys.argv[1]]
    given = [int(each) for each in sys.argv[2:]]
    for row in study(*(*given, *(usual, 1)[len(given) :])):
        print(f"| {' | '.join(map(str, row))} |", flush=True)
