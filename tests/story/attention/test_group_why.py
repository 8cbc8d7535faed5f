"""Why, with three or more implementations: counters of the same run, and no reason that fails."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from planted.experiments import Planter
from story.attention.planting import chapter_of, declared
from story.attention.test_why import CEILINGS, ON_GPU, WIDE, counted
from story.reading import tables_of, told

from flashlab.analysis.ceilings import read_ceilings
from flashlab.story.attention import group_why, surprises
from flashlab.story.attention.groups import Chapter

Chapters = Callable[..., Chapter]


@pytest.fixture
def on_gpu(planter: Planter) -> Chapters:
    """A chapter on an imagined GPU whose ceilings were measured."""

    def chapter(**runs: Any) -> Chapter:
        experiment = planter.experiment(runs, **ON_GPU)
        ceilings = read_ceilings(CEILINGS)
        return chapter_of(tables_of(declared(experiment), ceilings=ceilings))

    return chapter


def moving(milliseconds: float, gigabytes: float, active: float = 40.0, kernels: int = 1) -> Any:
    """A run of this time that is counted to move so much, at both lengths."""
    cell = counted(
        milliseconds, dram_bytes=gigabytes * 1e9, matrix_activity=active, kernels=kernels
    )
    return (cell, cell)


def fused(**changes: Any) -> dict[str, Any]:
    return {
        "Pytorch": moving(9, 5.0),
        "Flash2": moving(3, 0.26, 30),
        "Flash3": moving(2, 0.26, 40),
        "Flash4": moving(1, 0.27, 50),
        **changes,
    }


def test_activity_is_a_reason_where_it_orders_every_decided_pair(on_gpu: Chapters) -> None:
    said = told(group_why.groups_traffic(on_gpu(**fused())))
    assert "the 3 fused move 0.26–0.27 GB each, Pytorch 5.0" in said["en"]
    assert "from Flash4 (50% of the time) to Flash2 (30%)" in said["en"]
    assert "3 種融合實作各搬 0.26–0.27 GB" in said["zh_TW"]


def test_one_counterexample_is_named_and_no_reason_given(on_gpu: Chapters) -> None:
    """Flash4 is the fastest, though Flash3 keeps its Tensor Cores busier."""
    chapter = on_gpu(**fused(Flash4=moving(1, 0.27, 39)))
    said = told(group_why.groups_traffic(chapter))
    assert (
        "neither does Tensor Core activity: Flash4, active 39% of the time, runs at 2.0 times the "
        "speed of Flash3, active 40%" in said["en"]
    )
    assert "ordered by" not in said["en"]
    assert "也排不出順序" in said["zh_TW"]


def test_fused_ones_that_move_unlike_amounts_are_not_said_to_be_alike(on_gpu: Chapters) -> None:
    said = told(group_why.groups_traffic(on_gpu(**fused(Flash4=moving(1, 0.4)))))
    assert "0.26–0.40 GB" in said["en"]
    assert "Tensor Core" not in said["en"]


def test_a_naive_one_that_moves_no_more_than_twice_is_no_matter(on_gpu: Chapters) -> None:
    assert group_why.groups_traffic(on_gpu(**fused(Pytorch=moving(9, 0.5)))) is None


def along_heads(planter: Planter, *actives: tuple[float, float] | None) -> Chapter:
    """A chapter on two numbers of heads; of the fused the activities at both, None uncounted."""

    def ends(time: float, gigabytes: Sequence[float], active: tuple[float, float] | None) -> Any:
        return tuple(
            counted(time, dram_bytes=moved * 1e9, matrix_activity=share, kernels=1)
            for moved, share in zip(gigabytes, active or (), strict=active is not None)
        ) or (time, time)

    runs = {"Pytorch": ends(9, (1.4, 7.0), (10, 5))}
    fused = zip(("Flash2", "Flash3", "Flash4"), actives, strict=False)
    runs |= {name: ends(2, (0.26, 0.27), active) for name, active in fused}
    sizes = {"sizes": lambda h: {"seq_len": 512, **WIDE, "num_heads": h}, "values": (8, 64)}
    experiment = planter.experiment(runs, "num_heads", "num_heads", **{**ON_GPU, **sizes})
    return chapter_of(tables_of(declared(experiment), ceilings=read_ceilings(CEILINGS)))


def test_activity_at_both_ends_is_told_with_its_common_trend(planter: Planter) -> None:
    less = along_heads(planter, (50, 36), (44, 27), (30, 19))
    said = told(group_why.groups_activity(less))
    assert "from H = 8 to 64 Pytorch moves 1.40 → 7.00 GB" in said["en"]
    assert "the 3 fused that were counted 0.26 → 0.27" in said["en"]
    assert "less of the time: Flash3 44% → 27%, Flash4 30% → 19%, Flash2 50% → 36%" in said["en"]
    assert "都降低：Flash3 44% → 27%" in said["zh_TW"]


@pytest.mark.parametrize(
    ("actives", "says"),
    [
        (((20, 30), (30, 40)), "more of the time"),
        (((20, 21), (30, 29)), "as much of the time at both ends (20–30%)"),
        (((20, 30), (30, 29)), "changes most with Flash2 20% → 30%, Flash3 30% → 29%"),
    ],
    ids=["more", "steady", "mixed"],
)
def test_a_trend_is_told_only_where_all_have_it(planter: Planter, actives: Any, says: str) -> None:
    chapter = along_heads(planter, *actives)
    assert says in told(group_why.groups_activity(chapter))["en"]


def test_activity_needs_two_fused_and_another_sweep_than_the_lengths(
    planter: Planter, on_gpu: Chapters
) -> None:
    assert group_why.groups_activity(along_heads(planter, (50, 36), None)) is None
    assert group_why.groups_activity(on_gpu(**fused())) is None


def test_few_launches_are_a_reason_only_without_one_that_has_as_few(on_gpu: Chapters) -> None:
    runs = fused(
        Flash2=moving(3, 0.1, kernels=3),
        Flash3=moving(2, 0.1, kernels=3),
        Flash4=moving(1, 0.05),
    )
    said = told(group_why.why_launches(on_gpu(**runs)))
    assert said["en"] == (
        "Why Flash4 is fast backward at N = 512 (counters): it is 1 kernel and moves 50 MB; "
        "Flash2 and Flash3 are 3 each and move 100."
    )
    assert "not the whole reason" not in said["en"]
    slow = told(group_why.why_launches(on_gpu(**runs, Flex=moving(4, 0.07))))
    assert "That is not the whole reason: Flex, too, is 1 (70 MB) and is slower." in slow["en"]
    assert "Flex 也只用 1 個" in slow["zh_TW"]


def with_kernels(milliseconds: float, active: float) -> Any:
    kernel = {
        "busy_time": milliseconds / 4,
        "dram_bytes": 1.0,
        "matrix_activity": active,
        "compute_share": 1.0,
        "memory_share": 1.0,
    }
    kernels = [{"name": "gemm", **kernel}, *({"name": "softmax", **kernel} for _ in range(3))]
    cell = counted(milliseconds, details={"kernels": {"forward_time": kernels}})
    return (cell, cell)


@pytest.mark.parametrize(
    ("active", "time", "is_told"),
    [(0.5, 20, True), (1.5, 20, False), (0.5, 8, False)],
    ids=["idle and slower", "active", "idle and faster"],
)
def test_products_off_the_tensor_cores_are_why_one_is_slow(
    on_gpu: Chapters, active: float, time: float, is_told: bool
) -> None:
    chapter = on_gpu(**fused(SdpaMath=with_kernels(time, active)))
    observation = group_why.why_no_matrix_units(chapter)
    assert (observation is not None) is is_told
    if is_told:
        said = told(observation)
        assert "its 1 product kernel runs off the Tensor Cores (0.5% active)" in said["en"]
        assert "takes 25% of the forward; the rest goes to 3 kernels" in said["en"]
        assert "SdpaMath 為什麼慢" in said["zh_TW"]


def test_the_work_that_the_mask_leaves_is_told_at_both_ends(planter: Planter) -> None:
    """Half of 8 and 16 ms without the mask; with it as much as that, and then half as much."""

    def ends(first: float, last: float) -> Any:
        return (with_kernels(first, 50)[0], with_kernels(last, 50)[0])

    full = {"Pytorch": ends(90, 180), "Flash2": ends(8, 16), "Flash3": ends(8, 16)}
    masked = {"Pytorch": ends(99, 200), "Flash2": ends(8, 8), "Flash3": ends(7.2, 9.6)}
    runs = {(name, mask): row for mask, of in enumerate((full, masked)) for name, row in of.items()}
    runs = {(name, bool(mask)): row for (name, mask), row in runs.items()}
    chapter = chapter_of(tables_of(declared(planter.experiment(runs, **ON_GPU))))
    said = told(group_why.groups_masked_work(chapter))
    assert (
        "are busy for 90–100% of the time without it at N = 512, for 50–60% at 1024" in said["en"]
    )
    assert "the longer the sequence, the more of what is masked they skip" in said["en"]
    assert "在 N = 512 是無遮罩時的 90–100%，1024 是 50–60%：" in said["zh_TW"]
    uncounted = {**runs, ("Flash3", True): (8, 9)}
    chapter = chapter_of(tables_of(declared(planter.experiment(uncounted, **ON_GPU))))
    assert group_why.groups_masked_work(chapter) is None


@pytest.mark.parametrize(("gigabytes", "is_told"), [(0.8, True), (0.5, False)])
def test_a_pass_slower_than_the_naive_one_is_explained_by_twice_the_traffic(
    on_gpu: Chapters, gigabytes: float, is_told: bool
) -> None:
    chapter = on_gpu(**fused(Flash2=moving(12, gigabytes)))
    said = told(surprises.surprise_worse_than_naive(chapter))
    assert (
        "moves 0.80 GB through DRAM, the other fused that were counted 0.26–0.27" in said["en"]
    ) is is_told
    assert ("經 DRAM 搬 0.80 GB" in said["zh_TW"]) is is_told
