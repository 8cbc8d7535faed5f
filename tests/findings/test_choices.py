"""Who is best at each size, and over a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from findings.lookups import excluded_run, the_one

from flashlab.analysis.estimates import Estimates
from flashlab.analysis.experiment import Sweep
from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.choice import choices, overall_choice

Plant = Callable[..., Sweep]
Noisy = Callable[..., list[float]]
TOTAL = "forward_backward_time"


@pytest.fixture
def timed(sweep: Plant, noisy: Noisy) -> Callable[..., Sweep]:
    """A sweep with these times (in units of 10 µs) of each implementation at each value.

    A pair of times is of the forward and of the backward pass.
    """

    def build(times: Mapping[str, Mapping[int, Any]], **options: Any) -> Sweep:
        runs: dict[Any, Any] = {}
        for name, by_value in times.items():
            for value, time in by_value.items():
                forward, backward = time if isinstance(time, tuple) else (time, time)
                runs[name, False, value] = (
                    time
                    if isinstance(time, str)
                    else {"forward": noisy(forward * 1e-5), "backward": noisy(backward * 1e-5)}
                )
        return sweep(runs, **options)

    return build


def chosen(sweep: Sweep, metric: str = "forward_time") -> Finding:
    return the_one(choices(sweep, Estimates()), metric)


@pytest.mark.parametrize(
    ("times", "verdict", "name", "winners"),
    [
        # The same one everywhere, by far.
        ({"A": (2, 4), "B": (3, 9), "C": (4, 9)}, "one_best", "A", [["A"]]),
        # B is better at first, A later.
        ({"A": (4, 4), "B": (3, 9), "C": (9, 9)}, "changes", None, [["B"], ["A"]]),
        # A is never more than the margin worse: it will do.
        ({"A": (3.03, 4), "B": (3, 9), "C": (9, 9)}, "one_suffices", "A", [["B", "A"], ["A"]]),
    ],
)
def test_the_best_is_named_and_what_is_within_the_margin_of_it(
    timed: Callable[..., Sweep],
    times: dict[str, tuple[float, float]],
    verdict: str,
    name: str | None,
    winners: list[list[str]],
) -> None:
    by_value = {who: dict(zip((128, 256), found, strict=True)) for who, found in times.items()}
    found = chosen(timed(by_value))
    assert (found.verdict, found.params.get("name")) == (verdict, name)
    assert [entry["names"] for entry in found.params["winners"]] == winners
    assert found.params["of"] == 3
    assert "implementation" not in found.subject


def test_the_lead_is_that_over_the_runner_up(timed: Callable[..., Sweep]) -> None:
    found = chosen(timed({"A": {128: 2}, "B": {128: 3}, "C": {128: 5}}))
    (estimate,) = found.estimates
    assert (estimate["best"], estimate["runner_up"]) == ("A", "B")
    assert estimate["low"] < 1.5 < estimate["high"]
    assert found.params["low"] == pytest.approx(1.5, rel=0.03)


def test_the_total_decides_for_itself(timed: Callable[..., Sweep]) -> None:
    sweep = timed({"A": {128: (2, 20)}, "B": {128: (3, 9)}})
    assert (chosen(sweep).params["name"], chosen(sweep, TOTAL).params["name"]) == ("A", "B")


def test_what_failed_is_not_chosen_and_is_named(timed: Callable[..., Sweep]) -> None:
    found = chosen(timed({"A": {128: 2, 256: "incorrect"}, "B": {128: 3, 256: 9}, "C": {256: 20}}))
    assert found.verdict == "changes"
    assert found.params["winners"][1] == {"names": ["B"], "values": [256]}
    assert excluded_run("A", 256, "incorrect") in found.reasons


def test_one_alone_is_no_choice(timed: Callable[..., Sweep]) -> None:
    found = chosen(timed({"A": {128: 2}, "B": {256: 3}}))
    assert (found.verdict, found.sentences) == ("inconclusive", ["choice.inconclusive.missing"])
    assert list(choices(timed({"A": {128: 2}}), Estimates())) == []


def test_means_alone_choose_nothing(sweep: Plant) -> None:
    runs = {(name, False, 128): {"forward": [t], "means": True} for name, t in (("A", 1), ("B", 3))}
    found = chosen(sweep(runs))
    assert found.verdict == "inconclusive"
    assert [reason.code for reason in found.reasons] == ["no_samples"]


def test_over_a_dataset_every_setting_counts_once(timed: Callable[..., Sweep]) -> None:
    sizes = {"A": {128: 2, 256: 4}, "B": {128: 3, 256: 9}}
    more = {"A": {256: 4, 512: 30}, "B": {256: 9, 512: 20}}
    sweeps = [timed(sizes, name="first"), timed(more, name="second")]
    (found,) = overall_choice(sweeps, Estimates())
    assert (found.experiment, found.verdict) == (None, "changes")
    assert (found.metric, found.params["count"]) == (TOTAL, 3)
    (tally,) = [t["counts"] for t in found.params["tallies"] if t["metric"] == TOTAL]
    assert tally == [
        {"implementation": "A", "level": 2, "best": 2, "alone": 2},
        {"implementation": "B", "level": 1, "best": 1, "alone": 1},
    ]
    assert "wrong" not in found.params


def test_the_price_of_the_one_that_is_best_in_a_part_alone(timed: Callable[..., Sweep]) -> None:
    """A is the fastest forward at both sizes, and takes twice and three times as long in total."""
    sweep = timed({"A": {128: (2, 18), 256: (4, 56)}, "B": {128: (4, 6), 256: (8, 12)}})
    (found,) = overall_choice([sweep], Estimates())
    assert found.sentences == ["choice.overall", "choice.overall.wrong"]
    params = found.params
    assert (params["wrong"], params["wrong_count"], params["part"]["en"]) == (
        "A",
        2,
        "forward time",
    )
    assert params["low"] == pytest.approx(2, rel=0.03)
    assert params["high"] == pytest.approx(3, rel=0.03)
