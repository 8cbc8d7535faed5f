"""Every planted cheat in one submission is told by the check that alone catches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grading.cheats import CHEATS, FLASH, NAIVE, PASSES, declared, held, records, times
from grading.conftest import OWN_CHECKS
from planted.classes import MEMORY

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.costs import compulsory_tensors
from flashlab.benchmarks.attention.shape import Shape
from flashlab.devices import find_device, known_devices
from flashlab.lab5.assigning import File, check_results, known_workspaces
from flashlab.lab5.results import Result
from flashlab_grading.checks import bytes_moved, check_coverage, check_physics
from flashlab_grading.sheets import self_check


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_told_by_its_check_and_no_other(cheat: str, sound: Any) -> None:
    change, expected = CHEATS[cheat]
    change(sound)
    found = sound.graded()
    told = {f"{line.verdict} {line.code}" for line in found.alarms()}
    unchecked = {f"{line.verdict} {line.code}" for line in found.lines("not_checked")}
    assert told == ({expected} if expected not in unchecked else set())


def test_a_sound_submission_passes_every_check(sound: Any) -> None:
    found = sound.graded()
    assert found.alarms() == []
    assert [found.of("ann")[check] for check in OWN_CHECKS] == ["pass"] * 6
    assert {line.check for line in found.lines("not_checked")} == {"copies"}
    assert [own.badges for own in found.submissions] == [("available", "functional")]


def test_true_records_pass(sound: Any) -> None:
    """Those of bfloat16 too, which takes as much memory."""
    records()(sound)
    for document in list(sound.documents.values())[::2]:
        document["record"]["run"]["dtype"] = "bfloat16"
    assert sound.graded().alarms() == []


def coarsely_rounded(own: Any) -> None:
    for passed in (*PASSES, "forward_backward"):
        both = own.document(FLASH)[passed]
        both.update({key: float(f"{value:.1g}") for key, value in both.items()})


def a_wrong_name_alone(own: Any) -> None:
    del own.rows[own.file(FLASH)]
    own.documents["baseline.json"] = own.documents.pop(own.file(FLASH))


def declared_in_part(own: Any) -> None:
    held(FLASH, 2**-11)(own)
    name = own.file(FLASH)
    own.documents["0.json"] = own.documents.pop(name)
    own.rows[name] = ["0.json", "Flash2", *[""] * 6]


WITHOUT_FLOPS = {"identity.no_flops", "physics.no_flops"}
UNCHECKED: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "a wrong time": (times(0.99, FLASH, "forward", "time(s)"), WITHOUT_FLOPS),
    "a digit": (coarsely_rounded, WITHOUT_FLOPS | {"arithmetic.coarse"}),
    "a kernel of one's own": (declared(FLASH, 1, "Mine"), {"identity.no_model"}),
    "a wrong name alone": (a_wrong_name_alone, {"identity.open"}),
    "memory of nothing": (declared_in_part, {"identity.partly_unknown"}),
}


@pytest.mark.parametrize("unchecked", UNCHECKED)
def test_what_cannot_be_checked_of_a_file_is_said_and_why(unchecked: str, sound: Any) -> None:
    change, codes = UNCHECKED[unchecked]
    change(sound)
    assert {line.code for line in sound.graded().lines("not_checked") if line.file} == codes


# Single checks


def result(
    said: dict[str, Any], seconds: dict[str, float], rates: dict[str, float], mib: float = 1.0
) -> Result:
    return Result("a.json", "a.json", "", said, seconds=seconds, rates=rates, peak_mib=mib)


@pytest.mark.parametrize(
    ("shape", "excess", "code"),
    [
        (Shape(2, 1024, 2, 256, False), 0, "identity.pass"),
        (Shape(2, 1024, 2, 256, False), costs.MIB, "identity.no_model"),  # as an H200 held it
        (Shape(16, 1024, 1, 64, False), 0, "identity.pass"),
        (Shape(16, 1024, 1, 64, False), costs.MIB, "identity.memory"),
        (Shape(1, 16384, 1, 64, True), 490733568, "identity.no_model"),
    ],
)
def test_a_run_is_not_accused_where_its_memory_is_not_exact(
    shape: Shape, excess: int, code: str
) -> None:
    peak = costs.naive_peak_memory(shape, max(known_workspaces())) + excess
    seconds = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}
    rates = dict.fromkeys(seconds, costs.forward_flops(shape) / 1e12)
    said = {"implementation": "Pytorch", **shape.parameters}
    lines, _ = check_results([result(said, seconds, rates, peak / costs.MIB)])
    assert lines[-1].code == code


H100 = "NVIDIA H100 PCIe"
SHORT = "Flash2", Shape(2**18, 16, 1, 8, False)
"""Short heads and rows, whose time is that of moving their bytes."""


def test_what_need_not_move_is_not_counted() -> None:
    """A fused kernel moves what is compulsory, the other its scores too, and the L2 holds some."""
    compulsory, naive = compulsory_tensors(SHORT[1], "float16"), Shape(2, 2048, 32, 2048, False)
    assert [bytes_moved(SHORT, name, 0) for name in PASSES] == [sum(compulsory[n]) for n in PASSES]
    least = sum(compulsory_tensors(naive, "float16")["forward"])
    assert bytes_moved(("Pytorch", naive), "forward", 0) == least + 4 * 2 * 64 * 2048**2
    size = 2.0 * 2**18 * 16 * 8
    assert bytes_moved(SHORT, "backward", size) == 4 * size
    assert bytes_moved(SHORT, "backward", 4 * size) == 0


@pytest.mark.parametrize(("share", "step", "verdict"), [(1.01, 0, "pass"), (0.99, 0, "fail"),
                                                        (0.99, 1e-3, "pass")])  # fmt: skip
def test_a_pass_is_refuted_only_below_the_time_of_its_compulsory_bytes(
    share: float, step: float, verdict: str
) -> None:
    """A clock's step may be missing of the time."""
    gpu = find_device(H100)
    assert gpu
    least = bytes_moved(SHORT, "backward", gpu.l2_bytes) / (1.1e9 * gpu.bandwidth)
    seconds = {"forward": least, "backward": share * least, "forward_backward": 2 * least}
    own = result({"device": H100}, seconds, dict.fromkeys(seconds, 1.0))
    assert check_physics(File(own, [], options=[SHORT]), step).verdict == verdict


@pytest.mark.parametrize(
    ("name", "code"), [(H100, "pass"), ("", "pass_unknown"), ("AMD EPYC (2 CPUs)", "cpu")]
)
@pytest.mark.parametrize(("share", "is_possible"), [(0.99, True), (1.01, False)])
def test_no_rate_is_above_the_devices_ceiling(
    name: str, code: str, share: float, is_possible: bool
) -> None:
    known = [find_device(name)] if name == H100 else known_devices()
    ceiling = 1.25 * max(gpu.peak_tflops["float16"] for gpu in known if gpu)
    seconds = dict.fromkeys((*PASSES, "forward_backward"), 1.0)
    own = result({"device": name}, seconds, {**seconds, "backward": share * ceiling})
    line = check_physics(File(own, []))
    assert line.code == f"physics.{code if is_possible else 'rate'}"


MASKS = [(1, n, 8, 512, causal) for n in (128, 256, 512) for causal in (True, False)]
B = [(b, 512, 8, 512, True) for b in (1, 2, 4)]
SWEEPS: dict[str, tuple[list[tuple[int, int, int, int, bool]], str, str]] = {
    "three batches": (B, "batch_size", "pass"),
    "two": (B[:2], "batch_size", "missing"),
    "another length": ([*B[:2], (4, 256, 8, 512, True)], "batch_size", "missing"),
    "masks": (MASKS, "causal", "pass"),
    "masks at one shape": (MASKS[:2], "causal", "few_masks"),
    "one mask": (MASKS[::2], "causal", "missing"),
    "as much B·E, at other B": (
        [(16, 512, 16, 1024, True), (16, 512, 32, 1024, True), (32, 512, 32, 512, True)],
        "num_heads", "missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sweep", SWEEPS)
def test_three_values_with_all_else_equal_are_an_experiment(sweep: str) -> None:
    shapes, experiment, expected = SWEEPS[sweep]
    options = [("Flash2", Shape(*shape)) for shape in shapes]
    files = [File(result({}, {}, {}), [], options=[option]) for option in options]
    several, told = File(result({}, {}, {}), [], options=options), [expected, "missing"]
    if expected == "pass":
        told[1] = "possible"
    for own, wanted in zip((files, [several]), told, strict=True):
        codes = {x.params["experiment"]: x.code for x in [*check_coverage(own, ())][5:]}
        assert codes[experiment].removeprefix("coverage.") in (wanted, "few_masks")


def test_a_complete_runs_csv_is_never_told_that_one_would_help(
    sound: Any, capsys: Any, tmp_path: Any
) -> None:
    for text in [name for name in sound.documents if "pytorch" not in name]:
        del sound.documents[text], sound.rows[text]
    sound.document(NAIVE)[MEMORY] += 1
    sound.write(tmp_path / "mine")
    for language, advice in (("en", "runs.csv would"), ("zh_TW", "runs.csv 補齊")):
        self_check(tmp_path / "mine", None, language)
        assert advice not in capsys.readouterr().out
