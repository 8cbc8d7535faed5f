"""Whether the records of a dataset agree in what they must agree in."""

from __future__ import annotations

from typing import Any

import pytest
from analysis.deriving import Plant, derived

from flashlab.analysis.finding import Finding
from flashlab.analysis.kinds.environment import ENVIRONMENT, MUST_AGREE

HERE = {"device_name": "Abacus", "driver": "1.0", "provider": "beads 3", "packages": {"torch": "2"}}


def measured(protocol: str = "sampled", **changes: Any) -> dict[str, Any]:
    return {"environment": {**HERE, **changes}, "protocol": {"name": protocol}}


def by_field(*experiments: Any) -> dict[tuple[str, ...], Finding]:
    """The findings by field, and by implementation for a field of one."""
    return {tuple(f.subject.values()): f for f in derived(ENVIRONMENT, *experiments)}


def test_records_of_one_environment_agree_in_every_field(experiment: Plant) -> None:
    names = ("Pytorch", "Flash2")
    found = by_field(experiment({name: [measured()] * 2 for name in names}))
    assert found.keys() == {(field,) for field in MUST_AGREE} | {("provider", n) for n in names}
    assert {finding.verdict for finding in found.values()} == {"agrees"}
    assert found["device_name",].estimates == [{"value": "Abacus"}]


@pytest.mark.parametrize(
    ("other", "field", "verdict"),
    [
        (measured(device_name="Difference engine"), "device_name", "differs"),
        (measured(driver="2.0"), "driver", "differs"),
        (measured(packages={"torch": "3"}), "torch", "differs"),
        (measured("lab5"), "protocol", "differs"),
        # What some records do not state is no difference.
        (measured(driver=None), "driver", "unstated"),
    ],
)
def test_a_record_of_another_environment_is_named(
    experiment: Plant, other: dict[str, Any], field: str, verdict: str
) -> None:
    found = by_field(experiment({"Flash2": ([measured()], [other])}))
    assert {key: f.verdict for key, f in found.items() if f.verdict != "agrees"} == {
        (field,): verdict
    }
    assert [len(each["records"]) for each in found[field,].estimates] == [1, 1]
    assert (found[field,].estimates[0]["value"] == "") is (verdict == "unstated")


def test_each_implementation_has_one_provider_of_its_own(experiment: Plant) -> None:
    runs: dict[str, Any] = {
        "Pytorch": [measured(provider="abacus")],
        "Flash2": (measured(), measured(provider="beads 4")),
        "Failed": ["unsupported"],  # it is not known who would have run it
    }
    found = by_field(experiment(runs))
    providers = {key[1]: f.verdict for key, f in found.items() if key[0] == "provider"}
    assert providers == {"Flash2": "differs", "Pytorch": "agrees"}


def test_experiments_are_checked_together_and_a_record_of_two_counts_once(
    experiment: Plant,
) -> None:
    one, same = (experiment({"Flash2": [measured()]}, name) for name in ("one", "same"))
    other = experiment({"Flash2": {256: measured(driver="2.0")}}, "other")
    assert by_field(one, same)["driver",].verdict == "agrees"
    assert by_field(one, other)["driver",].verdict == "differs"
