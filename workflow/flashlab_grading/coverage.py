"""Check 6, coverage: five experiments with both implementations and at least three values each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from flashlab.lab5.assigning import File, stated
from flashlab.lab5.possible import Option
from flashlab.lab5.results import Result
from flashlab.lab5.words import FLASH2, NAIVE
from flashlab_grading.model import Line, Verdict

EXPERIMENTS = ("seq_len", "causal", "batch_size", "num_heads", "emb_dim")
VALUES = 3


def _count(options: Iterable[Option], experiment: str) -> int:
    """The values of the largest sweep, all else equal; of masks, the shapes that have both."""
    found: dict[tuple[object, ...], set[object]] = defaultdict(set)
    for _, shape in options:
        sizes = dict(shape.parameters)
        varied = sizes.pop(experiment)
        found[*sizes.values()].add(varied)
    if experiment == "causal":
        return sum(len(masks) == 2 for masks in found.values())
    return max(map(len, found.values()), default=0)


def check_coverage(files: Sequence[File], doubted: Iterable[Result]) -> Iterator[Line]:
    """A line for each experiment and implementation: present, missing, or possibly present.

    A file that can be several runs may be any of them. `doubted` are the results that other checks
    refute or could not check: an experiment that lacks only these is not missing, because the cause
    is reported there; labels of implementations may have been exchanged among them.
    """
    sure = [f.options[0] for f in files if len(f.options) == 1 and not f.unassumed]
    every = [option for file in files for option in file.unassumed or file.options]
    said = [option for r in doubted if (option := stated(r.told))]
    for who in (NAIVE, FLASH2):
        own, possible = ([o for o in those if o[0] == who] for those in (sure, every))
        for experiment in EXPERIMENTS:
            values = _count(own, experiment)
            verdict: Verdict = "not_checked"
            if values >= VALUES:
                verdict, code = "pass", "pass"
            elif _count(possible, experiment) >= VALUES:
                code = "possible"
            elif _count([*own, *said], experiment) >= VALUES:
                code = "doubted"
            else:
                is_few = experiment == "causal" and values
                verdict, code = ("warn", "few_masks") if is_few else ("fail", "missing")
            params = {"experiment": experiment, "implementation": who}
            yield Line(verdict, f"coverage.{code}", "", params, f"≥ {VALUES}", str(values))
