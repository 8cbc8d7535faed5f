"""The five experiments: declared, possible by the numbers, or missing by name."""

from __future__ import annotations

from flashlab_grading.coverage import check_coverage
from flashlab_grading.identity import Candidate
from flashlab_grading.model import Declaration, Numbers, Result

NUMBERS = Numbers({}, {}, 1.0)


def of_shapes(*shapes: tuple[int, int, int, int, bool]) -> dict[str, str]:
    """What is said of Flash2's experiments."""
    results = [
        Result(f"{i}.json", NUMBERS, Declaration("runs.csv", "Flash2", *shape))
        for i, shape in enumerate(shapes)
    ]
    return verdicts(results, {})


def verdicts(results: list[Result], candidates: dict[str, list[Candidate]]) -> dict[str, str]:
    return {
        line.params["experiment"]: line.code.removeprefix("coverage.")
        for line in check_coverage(results, candidates)
        if line.params["implementation"] == "Flash2"
    }


def test_three_values_with_all_else_equal_are_an_experiment() -> None:
    found = of_shapes(*((b, 512, 8, 512, True) for b in (1, 2, 4)))
    assert found["batch_size"] == "pass"
    assert set(found.values()) == {"pass", "missing"}


def test_two_values_or_three_with_something_else_changed_are_none() -> None:
    assert of_shapes((1, 512, 8, 512, True), (2, 512, 8, 512, True))["batch_size"] == "missing"
    mixed = of_shapes((1, 512, 8, 512, True), (2, 512, 8, 512, True), (4, 256, 8, 512, True))
    assert mixed["batch_size"] == "missing"


def test_both_masks_at_one_shape_are_a_warning_and_at_three_an_experiment() -> None:
    one = [(1, 512, 8, 512, causal) for causal in (True, False)]
    assert of_shapes(*one)["causal"] == "few_masks"
    three = [(1, n, 8, 512, causal) for n in (128, 256, 512) for causal in (True, False)]
    assert of_shapes(*three)["causal"] == "pass"
    assert of_shapes(*three[::2])["causal"] == "missing"


def test_what_the_numbers_allow_is_neither_there_nor_missing() -> None:
    results = [Result(f"{i}.json", NUMBERS, Declaration("name")) for i in range(3)]
    families = {f"{i}.json": [Candidate("Flash2", 8 << i, 512, 64, True)] for i in range(3)}
    found = verdicts(results, families)
    assert found["batch_size"] == "possible"
    assert found["seq_len"] == found["emb_dim"] == "missing"
