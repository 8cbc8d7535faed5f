"""FLOPs and memory tell the implementation and a set of shapes that holds the true one."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashlab.benchmarks.attention import costs
from flashlab.benchmarks.attention.costs import HEAD_DIMS
from flashlab.benchmarks.attention.shape import Shape
from flashlab.course import identity
from flashlab.course.declaration import Declaration
from flashlab.course.identity import fits, known_workspaces

WORKSPACES = known_workspaces()
_, HOPPER = WORKSPACES
candidates = partial(identity.candidates, workspaces=WORKSPACES)

# Of one sequence or one head too, whose memory is another.
shapes = st.builds(
    lambda b, more, h, d, causal: Shape(b, 2 * d + more, h, h * d, causal),
    *(st.integers(1, 128), st.integers(0, 400).map(lambda k: 8 * k), st.integers(1, 64)),
    *(st.sampled_from(HEAD_DIMS), st.booleans()),
)


def declared(implementation: str, s: Shape) -> Declaration:
    sizes = (s.batch_size, s.seq_len, s.num_heads, s.emb_dim, s.causal)
    return Declaration("runs.csv", implementation, *sizes)


@given(shapes, st.sampled_from([None, *WORKSPACES]))
def test_the_true_run_is_among_the_candidates_and_all_make_its_numbers(
    shape: Shape, workspaces: int | None
) -> None:
    """Of Flash2, and of the naive implementation with its workspaces."""

    def memory_of(shape: Shape, size: int | None) -> int:
        flash2 = costs.flash2_peak_memory
        return flash2(shape) if size is None else costs.naive_peak_memory(shape, size)

    flops, memory = costs.forward_flops(shape), memory_of(shape, workspaces)
    found = candidates(flops, memory)
    said = declared("Flash2" if workspaces is None else "Pytorch", shape)
    assert any(fits(candidate, said) for candidate in found)
    for candidate in found:
        assert costs.forward_flops(candidate.shape) == flops
        assert memory_of(candidate.shape, candidate.workspaces) == memory


def test_twins_cannot_be_told_apart() -> None:
    """Half the batch with twice the heads and width, and Flash2's half the heads causal at 2N."""
    shape = Shape(16, 512, 32, 2048, False)
    found = candidates(costs.forward_flops(shape), costs.flash2_peak_memory(shape))
    for twin in (Shape(8, 512, 64, 4096, False), Shape(8, 1024, 32, 2048, True)):
        assert any(fits(candidate, declared("Flash2", twin)) for candidate in found)
    for other in (Shape(16, 512, 32, 2048, True), Shape(16, 512, 16, 2048, False)):
        assert not any(fits(candidate, declared("Flash2", other)) for candidate in found)


def test_the_slides_own_result_is_what_it_says() -> None:
    """The result that the course's slides show: an RTX 3070, B 32, N 1024, H 32, E 2048."""
    flops = 0.007095515976349513 * 38.739664297876566 * 1e12
    found = candidates(flops, 1288.00048828125 * costs.MIB)
    assert [candidate.describe() for candidate in found] == [
        "Flash2 B·H=1024 N=1024 d=64 full",
        "Flash2 B·H=512 N=2048 d=64 causal",
    ]


@pytest.mark.parametrize(
    ("batch_size", "num_heads", "fitting"),
    [(16, 1, True), (1, 16, True), (4, 4, False), (16, None, True), (4, None, False),
     (None, 1, True), (None, None, True), (None, 4, False), (3, None, False)],
)  # fmt: skip
def test_a_run_without_copies_had_one_sequence_or_one_head(
    batch_size: int | None, num_heads: int | None, fitting: bool
) -> None:
    """The memory of the naive implementation, declared in part: 16 sequences of one head."""
    shape = Shape(16, 2048, 1, 64, False)
    found = candidates(costs.forward_flops(shape), costs.naive_peak_memory(shape, HOPPER))
    uncopied = [c for c in found if c.copied is False and c.head_dim == 64]
    assert len(uncopied) == 1
    said = Declaration("name", batch_size=batch_size, num_heads=num_heads)
    assert fits(uncopied[0], said) == fitting


@pytest.mark.parametrize("memory", [0.0, 0.5, -512.0, 511.0, 1e300])
@pytest.mark.parametrize("flops", [0.0, 1.0, 1e30, 1e-30])
def test_numbers_of_nothing_have_no_candidates(flops: float, memory: float) -> None:
    assert candidates(flops, memory) == ()
