"""The five experiments: declared, possible by the numbers, or missing by name."""

from __future__ import annotations

import pytest

from flashlab.course.declaration import Declaration
from flashlab.course.identity import Candidate
from flashlab.course.results import Numbers
from flashlab_grading.coverage import check_coverage
from flashlab_grading.model import Result

NUMBERS = Numbers({}, {}, 1.0)


def verdicts(results: list[Result], candidates: dict[str, list[Candidate]]) -> dict[str, str]:
    return {
        line.params["experiment"]: line.code.removeprefix("coverage.")
        for line in check_coverage(results, candidates)
        if line.params["implementation"] == "Flash2"
    }


MASKS = [(1, n, 8, 512, causal) for n in (128, 256, 512) for causal in (True, False)]


@pytest.mark.parametrize(
    ("shapes", "experiment", "expected"),
    [
        ([(b, 512, 8, 512, True) for b in (1, 2, 4)], "batch_size", "pass"),
        ([(b, 512, 8, 512, True) for b in (1, 2)], "batch_size", "missing"),
        ([(1, 512, 8, 512, True), (2, 512, 8, 512, True), (4, 256, 8, 512, True)],
         "batch_size", "missing"),
        (MASKS, "causal", "pass"),
        (MASKS[:2], "causal", "few_masks"),
        (MASKS[::2], "causal", "missing"),
    ],
)  # fmt: skip
def test_three_values_with_all_else_equal_are_an_experiment(
    shapes: list[tuple[int, int, int, int, bool]], experiment: str, expected: str
) -> None:
    results = [
        Result(f"{i}.json", NUMBERS, Declaration("runs.csv", "Flash2", *shape))
        for i, shape in enumerate(shapes)
    ]
    assert verdicts(results, {})[experiment] == expected


def test_what_the_numbers_allow_is_neither_there_nor_missing() -> None:
    results = [Result(f"{i}.json", NUMBERS, Declaration("name")) for i in range(3)]
    families = {f"{i}.json": [Candidate("Flash2", 8 << i, 512, 64, True)] for i in range(3)}
    found = verdicts(results, families)
    assert found["batch_size"] == "possible"
    assert found["seq_len"] == found["emb_dim"] == "missing"
