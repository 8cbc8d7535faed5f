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


def _count(options: Iterable[Option], who: str | None, experiment: str) -> int:
    """The values of an implementation's largest sweep, all else equal; of masks, the shapes."""
    found: dict[tuple[object, ...], set[object]] = defaultdict(set)
    for implementation, shape in options:
        sizes = dict(shape.parameters)
        if who in (None, implementation):
            varied = sizes.pop(experiment)
            found[*sizes.values()].add(varied)
    if experiment == "causal":
        return sum(len(masks) == 2 for masks in found.values())
    return max(map(len, found.values()), default=0)


def check_coverage(files: Sequence[File], doubted: Sequence[Result]) -> Iterator[Line]:
    """A line for each experiment and implementation: present, missing, or possibly present.

    A file that can be several runs may be any of them. `doubted` are the results that other checks
    refute or could not check: an experiment that lacks only these is not missing, because the cause
    is reported there.
    """
    sure = [f.options[0] for f in files if len(f.options) == 1 and not f.unassumed]
    every = [option for file in files for option in file.unassumed or file.options]
    said = (stated({**result.hinted, **result.said}) for result in doubted)
    all_of_them = [*sure, *filter(None, said)]
    for who in (NAIVE, FLASH2):
        for experiment in EXPERIMENTS:
            values = _count(sure, who, experiment)
            verdict: Verdict = "pass"
            code = "pass"
            if values < VALUES:
                if _count(every, who, experiment) >= VALUES:
                    verdict, code = "not_checked", "possible"
                # Two implementations' labels may have been exchanged.
                elif _count(all_of_them, None, experiment) >= VALUES:
                    verdict, code = "not_checked", "doubted"
                elif experiment == "causal" and values:
                    verdict, code = "warn", "few_masks"
                else:
                    verdict, code = "fail", "missing"
            params = {"experiment": experiment, "implementation": who}
            yield Line(verdict, f"coverage.{code}", "", params, f"≥ {VALUES}", str(values))
