"""Copies are found however they are disguised, and independent measurements are not accused."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grading.conftest import H200, MEMORY, grade_folder, graded, measured_again, write_class

from flashlab.benchmarks.attention import costs
from flashlab_grading.causes import clusters_of
from flashlab_grading.copies import LEAST_GROUP

CLASS = 14


def jittered(own: Any, jitter: float, seed: int, level: float = 1.0) -> Any:
    """The same times, each changed a little."""
    return own.measured(seed, lambda chance: level * (1 + chance.uniform(-jitter, jitter)))


def copies(found: Any) -> dict[str, set[str]]:
    """Who is told of whom, with the verdict."""
    told: dict[str, set[str]] = {}
    for line in found.grades.lines:
        if line.check == "copies" and line.verdict in ("fail", "warn") and "other" in line.params:
            told.setdefault(line.submission, set()).add(f"{line.verdict} {line.params['other']}")
    return told


@pytest.mark.parametrize(
    ("jitter", "level", "verdict"),
    [(1e-4, 1.0, "fail"), (1e-4, 0.97, "fail"), (3e-4, 1.0, "warn"), (1e-3, 1.0, "warn")],
)
def test_a_jittered_copy_in_a_class_is_found(
    jitter: float, level: float, verdict: str, sound: Any, tmp_path: Path
) -> None:
    submissions = write_class(tmp_path, sound, CLASS)
    jittered(submissions[4], jitter, 1, level).write(tmp_path / "eve")
    assert copies(graded(tmp_path)) == {"eve": {f"{verdict} s04"}, "s04": {f"{verdict} eve"}}


def test_too_few_of_a_device_are_not_searched_for_jittered_copies(
    sound: Any, tmp_path: Path
) -> None:
    submissions = write_class(tmp_path, sound, LEAST_GROUP - 2)
    jittered(submissions[3], 1e-3, 1).write(tmp_path / "eve")
    found = graded(tmp_path)
    assert copies(found) == {}
    assert {line.code for line in found.grades.lines if line.check == "copies"} == {"copies.few"}
    assert found.of("eve")["copies"] == "not_checked"


@pytest.mark.parametrize("altered", ["decoys", "device", "labels", "undeclared"])
def test_nothing_declared_hides_equal_times(altered: str, sound: Any, tmp_path: Path) -> None:
    taken = write_class(tmp_path, sound, 8)[3]
    eve = copy.deepcopy(taken)
    if altered == "decoys":  # own measurements before the copied ones
        eve = measured_again(sound, 99)
        for name in list(taken.documents):
            eve.documents[f"z-{name}"] = copy.deepcopy(taken.documents[name])
            eve.rows[f"z-{name}"] = [f"z-{name}", *taken.rows[name][1:]]
    else:
        for document in eve.documents.values():
            document[MEMORY] += 1
        eve.name_device("AMD EPYC (2 CPUs)")
    if altered == "labels":
        eve.exchange_labels()
    if altered == "undeclared":
        eve.without_names()
        eve.rows = None
    eve.write(tmp_path / "eve")
    assert copies(graded(tmp_path)) == {"eve": {"fail s03"}, "s03": {"fail eve"}}


MEANS: dict[str, tuple[dict[str, float], bool]] = {
    "of two": ({"s03": 0.5, "s05": 0.5}, False),
    "weighted": ({"s03": 0.3, "s05": 0.7}, False),
    "of three": ({"s02": 1 / 3, "s03": 1 / 3, "s05": 1 / 3}, False),
    "geometric": ({"s03": 0.5, "s05": 0.5}, True),
}


@pytest.mark.parametrize(("mean", "original"), [*zip(MEANS, (0, 4, 0, 4), strict=True)])
def test_means_of_others_are_found(mean: str, original: int, sound: Any, tmp_path: Path) -> None:
    """Also where some files are original, and where eve gave the mean away to be copied closely."""
    weights, geometric = MEANS[mean]
    submissions = write_class(tmp_path, sound, CLASS)
    own = {f"s{i:02}": submission for i, submission in enumerate(submissions)}
    eve = measured_again(sound, 99)
    for name in list(eve.documents)[original:]:
        for passed in ("forward", "backward"):
            times = {s: own[s].documents[name][passed]["time(s)"] for s in weights}
            mine = eve.documents[name][passed]["time(s)"]
            made = sum(weight * times[s] for s, weight in weights.items())
            if geometric:
                made = math.prod(times[s] ** weight for s, weight in weights.items())
            eve.rescale(name, made / mine, [passed])
    eve.write(tmp_path / "eve")
    found = graded(tmp_path)
    assert found.fails() == {("copies", ""): "copies.average"}
    (line,) = found.lines("fail")
    assert (line.submission, set(line.params["others"].split("\0"))) == ("eve", set(weights))


def test_a_published_dataset_is_a_source(
    sound: Any, published: dict[str, Any], tmp_path: Path
) -> None:
    write_class(tmp_path / "class", sound, 8)
    datasets = {"data/h100 (sampled)", "data/h200 (lab5)", "data/h200 (sampled)"}
    assert published.keys() == {*datasets, "the course's slides"}
    jittered(sound, 1e-5, 5).write(tmp_path / "class" / "eve")
    found = grade_folder(tmp_path / "class", **published)
    told = {
        (line.submission, line.verdict, line.params["other"])
        for line in found.lines
        if line.check == "copies" and "other" in line.params
    }
    assert told == {("eve", "fail", "data/h200 (lab5)")}


def test_coarsely_rounded_times_are_not_checked_for_copies(sound: Any, tmp_path: Path) -> None:
    for document in sound.documents.values():
        for name in ("forward", "backward", "forward_backward"):
            document[name] = {key: float(f"{value:.3g}") for key, value in document[name].items()}
    sound.write(tmp_path / "ann")
    sound.write(tmp_path / "ben")
    found = graded(tmp_path)
    assert found.of("ann")["copies"] == "not_checked"
    assert "copies.rounded" in {line.code for line in found.lines("not_checked")}


# Independent measurements


def write_quiet(folder: Path, own: Any, seed: int, scatter: float, device: str = "") -> None:
    """The same runs as a machine has them that scatters by so much."""
    quiet = own.measured(seed, lambda chance: chance.lognormvariate(0, scatter))
    if device:
        quiet.name_device(device)
    quiet.write(folder)


@pytest.mark.parametrize("scatter", [1e-4, 2e-3])
def test_locked_clocks_accuse_nobody(scatter: float, sound: Any, tmp_path: Path) -> None:
    for seed in range(CLASS):
        write_quiet(tmp_path / f"s{seed:02}", sound, seed, scatter)
    assert copies(graded(tmp_path)) == {}


@pytest.mark.parametrize("others", [0, CLASS])
def test_two_quiet_machines_are_no_copies(others: int, sound: Any, tmp_path: Path) -> None:
    """Neither alone nor in a noisy class."""
    write_class(tmp_path, sound, others)
    for seed in (1, 2):
        write_quiet(tmp_path / f"quiet{seed}", sound, 100 + seed, 5e-4)
    assert copies(graded(tmp_path)) == {}


@pytest.mark.parametrize("uncommon", [2, 10])
def test_who_shares_an_uncommon_gpu_is_accused_of_nothing(
    uncommon: int, sound: Any, tmp_path: Path
) -> None:
    """An uncommon GPU has a pattern of its own, in which its owners agree."""
    write_class(tmp_path, sound, CLASS)
    chance = random.Random(5)
    other = copy.deepcopy(sound)
    for name in other.documents:
        other.rescale(name, chance.lognormvariate(0.3, 0.1))
    for seed in range(uncommon):
        write_quiet(tmp_path / f"u{seed}", other, seed, 5e-4, "NVIDIA H100 80GB HBM3")
    found = graded(tmp_path)
    assert copies(found) == {}
    checked = "pass" if uncommon >= LEAST_GROUP else "not_checked"
    assert {found.of("u0")["copies"], found.of("u1")["copies"]} == {checked}


def test_three_who_share_a_kind_of_machine_are_accused_of_nothing(
    sound: Any, tmp_path: Path
) -> None:
    """The same GPU as all others, with other software."""
    write_class(tmp_path, sound, CLASS)
    other = measured_again(sound, 500)
    for seed in range(3):
        write_quiet(tmp_path / f"u{seed}", other, seed, 5e-4)
    assert copies(graded(tmp_path)) == {}


def test_certain_and_likely_pairs_are_clusters_of_their_own(sound: Any, tmp_path: Path) -> None:
    submissions = write_class(tmp_path, sound, CLASS)
    jittered(submissions[4], 1e-3, 1).write(tmp_path / "eve")
    submissions[7].write(tmp_path / "mallory")
    found = clusters_of(graded(tmp_path).grades.lines)
    assert [(cluster.members, cluster.confidence) for cluster in found] == [
        (("mallory", "s07"), "certain"),
        (("eve", "s04"), "likely"),
    ]


# Within a submission

FLASH = "flash2-b16-n512-h32-e2048-causal"


def test_duplicates_with_another_label_are_found_despite_a_changed_digit(sound: Any) -> None:
    """Twins in FLOPs and memory: (B, H, E) and (B/2, 2H, 2E)."""
    twin = jittered(sound, 5e-8, 3).document(FLASH)
    sound.documents["twin.json"] = twin
    sound.rows["twin.json"] = ["twin.json", "Flash2", "8", "512", "64", "4096", "true", ""]
    assert set(sound.graded().fails().values()) == {"copies.within"}


def with_times(own: Any, text: str, seconds: dict[str, float]) -> None:
    for name, wanted in seconds.items():
        own.rescale(text, wanted / own.document(text)[name]["time(s)"], [name])


def test_times_of_a_constant_rate_were_computed(sound: Any) -> None:
    long, short = "flash2-b16-n1024-h32-e2048-full", "flash2-b16-n512-h32-e2048-full"
    times = {name: sound.document(long)[name]["time(s)"] / 4 for name in ("forward", "backward")}
    with_times(sound, short, times)
    assert set(sound.graded().fails().values()) == {"copies.constant_rate"}


@pytest.mark.parametrize("factor", [0.5, 0.57])
def test_causal_runs_made_from_full_ones_were_computed(factor: float, sound: Any) -> None:
    full, causal = (f"flash2-b16-n1024-h32-e2048-{mask}" for mask in ("full", "causal"))
    with_times(
        sound,
        causal,
        {n: factor * sound.document(full)[n]["time(s)"] for n in ("forward", "backward")},
    )
    code = "copies.constant_rate" if factor == 0.5 else "copies.proportional"
    assert set(sound.graded().fails().values()) == {code}


def test_the_result_of_the_courses_slides_is_a_source(
    sound: Any, published: dict[str, Any], tmp_path: Path
) -> None:
    own = measured_again(sound, 1)
    own.documents["mine.json"] = json.loads(
        H200.with_name("published").joinpath("slide.json").read_text()
    )
    own.rows["mine.json"] = ["mine.json", "Flash2", "32", "1024", "32", "2048", "false", ""]
    own.write(tmp_path / "eve")
    found = grade_folder(tmp_path, **published)
    (line,) = (line for line in found.lines if line.code == "copies.file")
    assert (line.file, line.params["other"]) == ("mine.json", "the course's slides")


@pytest.mark.parametrize("kind", ["straight", "power"])
def test_interpolated_points_were_computed(kind: str, sound: Any) -> None:
    low, middle, high = (f"pytorch-b{b}-n512-h32-e2048-causal" for b in (16, 32, 64))
    times = {}
    for name in ("forward", "backward"):
        a, b = (sound.document(text)[name]["time(s)"] for text in (low, high))
        times[name] = a + (b - a) / 3 if kind == "straight" else (a * b) ** 0.5
    with_times(sound, middle, times)
    assert sound.graded().fails() == {("copies", sound.file(middle)): "copies.interpolated"}


# Forged records


def noise(seed: int, count: int = 21, spread: float = 0.01) -> list[float]:
    """Factors whose median is 1."""
    chance = random.Random(seed)
    return [1.0, *(1 + s * chance.uniform(0, spread) for s in (1, -1) * (count // 2))]


FORGED: dict[str, tuple[Callable[[int], list[float]], dict[str, Any], str]] = {
    "identical": (lambda i: [1.0] * 21, {}, "fail plausibility.identical"),
    "linear": (lambda i: [1 + 0.001 * (k - 10) for k in range(21)], {}, "fail plausibility.even"),
    "one noise": (lambda i: noise(1), {}, "fail plausibility.one_noise"),
    "900-fold": (lambda i: noise(i, spread=0.999), {}, "warn plausibility.spread"),
    "2999": (noise, {"started": "2999-01-01T00:00:00+00:00"}, "warn plausibility.date"),
    "no date": (noise, {"started": "yesterday"}, "warn plausibility.date"),
    "no samples": (lambda i: [], {}, "not_checked plausibility.no_samples"),
    "incorrect": (noise, {"status": "incorrect"}, "fail form.status"),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_record_does_not_pass(forged: str, sound: Any) -> None:
    make, more, expected = FORGED[forged]
    write_records(sound, make, more)
    found = sound.graded("eve")
    told = {f"{line.verdict} {line.code}" for line in found.grades.lines}
    assert expected in told
    assert "functional" not in found.badges("eve") or expected.startswith("warn")


def write_records(own: Any, make: Callable[[int], list[float]], more: dict[str, Any]) -> None:
    for i, (name, document) in enumerate(own.documents.items()):
        metrics = {
            f"{passed}_time": {
                "samples": [1e3 * document[passed]["time(s)"] * x for x in make(2 * i + j)]
            }
            for j, passed in enumerate(("forward", "backward"))
        }
        sampled = {"protocol": {"name": "sampled"}, "metrics": metrics}
        document["record"] = own.record(name, **sampled, **more)


def test_true_records_pass(sound: Any) -> None:
    write_records(sound, noise, {})
    found = sound.graded()
    assert found.alarms() == []
    assert found.badges("ann") == ("available", "functional")


def test_equal_samples_are_a_copy_even_if_the_times_repeat(sound: Any, tmp_path: Path) -> None:
    other = measured_again(sound, 3)
    for own in (sound, other):
        write_records(own, noise if own is sound else lambda i: noise(1000 + i), {})
    name = sound.file(FLASH)
    other.documents[name] = sound.documents[name]
    sound.write(tmp_path / "ann")
    other.write(tmp_path / "eve")
    assert set(graded(tmp_path).fails().values()) == {"copies.samples"}


def test_bfloat16_takes_as_much_memory_and_is_no_fault(sound: Any) -> None:
    write_records(sound, noise, {})
    for document in sound.documents.values():
        document["record"]["run"]["dtype"] = "bfloat16"
    assert sound.graded().alarms() == []


def test_a_cpus_results_do_not_have_a_gpus_memory(sound: Any, tmp_path: Path) -> None:
    sound.name_device("AMD EPYC (2 CPUs)")
    assert {line.code for line in sound.graded("eve").lines("warn")} == {"identity.cuda_memory"}
    for name, run in sound.runs.items():
        sound.documents[name][MEMORY] = costs.MIB % 1000 + len(run.implementation)
    sound.write(tmp_path / "cpu" / "ann")
    assert graded(tmp_path / "cpu").alarms() == []
