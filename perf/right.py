"""The rates at which comparisons, sentences and their statistics are right, as a table.

Usage: PYTHONPATH=workflow:tests python perf/right.py STUDY [COUNT] [SEED]

scores      comparisons and what is said of them, of planted datasets; status 1 out of bounds
noise       runs of identical code under noise of known kinds
replicated  pairs of identical code whose processes differ
paired      recordings of identical code where cards and clocks differ
models      comparisons where processes differ in known ways; status 1 where a goal is missed
sentences   all that planted reports on attention say; status 1 where page one says anything false
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.study import identical, models, scores, sentences

Table = Callable[[int, int], Iterator[str]]
Named = Iterator[tuple[str, identical.Score]]


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def of_noise(runs: int, seed: int) -> Named:
    """The last row of each noise is by the stop rule."""
    for name in identical.NOISES:
        for count in (10, 20, 100, 500, None):
            yield name, identical.score_noise(name, runs, seed, count)


def of_replicated(pairs: int, seed: int) -> Named:
    """Fixed numbers of processes."""
    for calls in identical.CALLS:
        first = calls == identical.INDEPENDENT
        for sd in (0.006, 0.012, 0.02, 0.03) if first else (0.012,):
            title = f"{calls[0]}, sd between processes {_percent(sd)}"
            for processes in (1, 3, 5, 8) if first else (3, 5, 8):
                count = pairs if first else pairs // 10
                yield title, identical.score_fixed(calls, sd, processes, count, seed)


def of_pairs(recordings: int, seed: int) -> Named:
    """Ratios by pairs, and as of independent runs."""
    for name in identical.DISTURBANCES:
        for settings, processes in ((8, 3), (8, 2), (8, 5), (1, 3), (30, 3)):
            count = max(1, recordings * 8 // settings)
            found = identical.score_paired(name, count, seed, settings, processes)
            for way, score in zip(("pairs", "independent"), found, strict=True):
                yield f"{name}: {settings} settings, {processes} processes, {way}", score


def of_identical(study: Callable[[int, int], Named]) -> Table:
    """The table of a study of identical code."""

    def table(count: int, seed: int) -> Iterator[str]:
        yield (
            "| what | calls or processes | median held | in doubt | ratio held | half-width "
            "| different of 10,000 | different at the margin | missed |"
        )
        yield "|---|---|---|---|---|---|---|---|---|"
        for name, s in study(count, seed):
            of_runs = ["–"] * 3
            if s.runs:
                shares = _percent(s.held / s.runs), _percent(s.in_doubt / s.runs, 0)
                of_runs = [f"{s.measured / s.runs:.1f}", *shares]
            of_ratios = (
                *(_percent(s.ratios_held / s.ratios), f"±{_percent(s.width / s.ratios / 2, 2)}"),
                *(f"{1e4 * s.false / s.ratios:.2g}", _percent(s.at_margin / s.ratios, 2)),
                _percent(s.missed / s.ratios),
            )
            yield f"| {' | '.join((name, *of_runs, *of_ratios))} |"

    return table


def _of_kinds(kinds: dict[str, scores.Score]) -> Iterator[str]:
    yield "| what | count | decided | false | plain ones missed | intervals that hold |"
    yield "|---|---|---|---|---|---|"
    for kind, s in sorted(kinds.items()):
        missed, held = f"{s.missed} of {s.plain}", "–"
        if s.intervals:
            held = f"{s.held} of {s.intervals} ({_percent(s.held / s.intervals)})"
        false = f"{s.false} ({_percent(s.false / max(1, s.decided))})"
        cells = (kind, s.count, s.decided, false, missed if s.plain else "–", held)
        yield f"| {' | '.join(map(str, cells))} |"


def of_scores(datasets: int, seed: int) -> Iterator[str]:
    """Rows and statements of each kind; ends the process with 1 where a share is out of bounds."""
    with tempfile.TemporaryDirectory() as folder:
        found = scores.score(datasets, seed, Path(folder))
    yield from _of_kinds({**found.rows, **found.statements})
    planted = ", ".join(f"{count} {kind}" for kind, count in sorted(found.datasets.items()))
    yield f"\n{found.datasets.total()} datasets: {planted}."
    yield (
        f"Of identical implementations and masks, {found.identical_rows} rows, "
        f"{found.identical_differences} of which claim a difference."
    )
    yield from (example[:1200] for example in found.examples[:10])
    if wrong := found.out_of_bounds():
        sys.exit("\n".join(wrong))


def of_models(datasets: int, seed: int) -> Iterator[str]:
    """A row for each model and number of processes; ends the process with 1 off the goals."""
    yield "| model | decided | false | plain ones missed | A/A different | intervals that hold |"
    yield "|---|---|---|---|---|---|"
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, cell in models.score_models(datasets, seed, Path(folder)):
            s = cell.rows
            cells = (
                *(name, s.decided, f"{s.false} ({_percent(s.false / max(1, s.decided), 2)})"),
                f"{s.missed} of {s.plain} ({_percent(s.missed / max(1, s.plain))})",
                f"{cell.different} of {cell.identical}",
                f"{s.held} of {s.intervals} ({_percent(s.held / max(1, s.intervals))})",
            )
            yield f"| {' | '.join(map(str, cells))} |"
            wrong += [f"{name}: {each}" for each in cell.out_of_bounds("two states" in name)]
    if wrong:
        sys.exit("\n".join(wrong))


def of_sentences(reports: int, seed: int) -> Iterator[str]:
    """A row for each kind of sentence; ends the process with 1 where more than a goal is false."""
    yield "| kind | sentences | false |"
    yield "|---|---|---|"
    said: Counter[tuple[bool, str]] = Counter()
    false: Counter[tuple[bool, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for told, is_true, report in sentences.study(reports, seed, Path(folder)):
            kind = (told.place != "section", told.macro)
            said[kind] += 1
            false[kind] += not is_true
            if not is_true:
                yield f"False in report {report}: {told.section} {told.macro} {told.facts}"
    for on_page_one, macro in sorted(said):
        kind = (on_page_one, macro)
        place = "page one, conclusion" if on_page_one else "experiments"
        yield f"| {place}: {macro} | {said[kind]} | {false[kind]} |"
    yield f"\n{reports} reports, {said.total()} sentences, {false.total()} false."
    first = sum(count for (on_page_one, _), count in false.items() if on_page_one)
    if first or false.total() > sentences.MOST_FALSE * said.total():
        sys.exit(f"{first} false on page one, {false.total()} in all")


STUDIES: dict[str, tuple[Table, int]] = {
    "scores": (of_scores, 360),
    "noise": (of_identical(of_noise), 300),
    "replicated": (of_identical(of_replicated), 100_000),
    "paired": (of_identical(of_pairs), 1000),
    "models": (of_models, 100),
    "sentences": (of_sentences, 300),
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
