"""The rates at which comparisons, sentences and their statistics are right, as a table.

Usage: PYTHONPATH=workflow:tests python perf/right.py STUDY COUNT [SEED]

rows        comparisons where processes differ in known ways; status 1 where a goal is missed
sentences   all that planted reports on attention say; status 1 where page one says anything false
noise       runs of identical code under noise of known kinds
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.study import noise, rows, sentences

Table = Iterator[tuple[object, ...]]


def _share(count: float, of: float) -> str:
    return f"{count} of {of} ({100 * count / max(1, of):.2f}%)"


def of_noise(runs: int, seed: int, folder: Path) -> Table:
    """The last row of each noise is by the stop rule."""
    yield "what", "median held", "ratio held", "half-width", "different of 10,000", "missed"
    for name, count in itertools.product(noise.NOISES, (10, 20, 100, 500, None)):
        s = noise.score_noise(name, runs, seed, count)
        of_ratios, width = _share(s["ratios_held"], s["ratios"]), s["width"] / s["ratios"] / 2
        false = 1e4 * s["false"] / s["ratios"], _share(s["missed"], s["ratios"])
        held = _share(s["held"], s["runs"])
        yield f"{name}, {count or 'stopped'}", held, of_ratios, f"±{width:.2%}", *false


def of_rows(reports: int, seed: int, folder: Path) -> Table:
    """A row for each model and number of processes."""
    yield "what", "decided", "false", "plain ones missed", "A/A different", "intervals hold"
    wrong = []
    for name, s in rows.study(reports, seed, folder):
        pairs = ("false", "decided"), ("missed", "plain"), ("different", "alike")
        shares = [_share(s[one], s[of]) for one, of in (*pairs, ("held", "intervals"))]
        yield name, s["decided"], *shares
        wrong += [f"{name}: {each}" for each in rows.out_of_bounds(s, "two states" in name)]
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
    "rows": of_rows,
    "sentences": of_sentences,
    "noise": of_noise,
}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in STUDIES:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        count, seed = map(int, [*sys.argv[2:], 1][:2])
        for row in STUDIES[sys.argv[1]](count, seed, Path(made)):
            print(f"| {' | '.join(map(str, row))} |", flush=True)
