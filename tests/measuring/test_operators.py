"""Counters of a pass from the profiler's events, planted and real."""

from __future__ import annotations

import pytest
from measuring.conftest import Measured, in_call

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation, find_implementations
from flashlab.measuring.operators import Call, Operator, computing, typical
from flashlab.records import COUNTERS, Record
from flashlab.sources import sources_of

SHAPE = Shape(1, 128, 2, 64, True)


def ns(name: str, nanoseconds: int, *calls: Call) -> Call:
    return Call(name if name[0].isupper() else f"aten::{name}", nanoseconds, calls)


BACKWARD = ns("BmmBackward0", 20, ns("mul", 18, ns("mul", 16)))
MATH = ns("scaled_dot_product_attention", 49, ns("bmm", 8), ns("_softmax", 10), ns("bmm", 20))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        # One that calls another gives way to it.
        (ns("einsum", 40, ns("reshape", 1), ns("bmm", 36)), [("product", "bmm", 36)]),
        (ns("softmax", 19), [("softmax", "softmax", 19)]),
        (BACKWARD, [("elementwise", "mul", 16)]),
        # A copy counts with the views that it makes.
        (ns("cat", 49, ns("narrow", 2, ns("slice", 1))), [("elementwise", "cat", 49)]),
        # Attention is fused where it calls neither products nor softmax.
        (ns("_flash_attention", 49, ns("zeros", 7)), [("fused", "_flash_attention", 49)]),
        (MATH, [("product", "bmm", 8), ("softmax", "_softmax", 10), ("product", "bmm", 20)]),
    ],
)
def test_what_computes_counts_once_by_its_class(
    call: Call, found: list[tuple[str, str, int]]
) -> None:
    expected = [(kind, f"aten::{name}", time) for kind, name, time in found]
    assert [*computing(Call("flashlab::pass", 100, [call]))] == expected


def test_a_disturbance_of_one_call_does_not_count() -> None:
    def call(product: int, softmax: int) -> list[Operator]:
        return [Operator("product", "aten::bmm", product), Operator("softmax", "s", softmax)]

    other = [Operator("product", "aten::mm", 7)]
    assert typical([call(50, 20), call(51, 90), call(49, 21)]) == call(50, 21)
    assert typical([call(50, 20), other, call(49, 21)]) == other


@pytest.fixture
def counted(in_workflow: None, measure: Measured) -> Measured:
    """Counts the operators of a run on this CPU."""

    def count(kernel: str | Implementation, name: str = "Mine") -> Record:
        run = attention_run(name, SHAPE, "float32", "cpu")
        return measure(kernel, run, name=COUNTERS, profiler="torch.profiler", timeout_s=120)

    return count


def values(record: Record, name: str) -> dict[str, float]:
    counters = ATTENTION.counters_on("cpu")[name]
    return {each.quantity.name: record.metrics[each.name].value for each in counters}


def test_the_naive_pass_writes_its_scores_in_several_operators(counted: Measured) -> None:
    record = counted(find_implementations()["Pytorch"], "Pytorch")
    found = values(record, "forward_time")
    assert found["operators"] == 6  # product, mask (full and triu), sum, softmax, product
    scores = 4 * SHAPE.batch_size * SHAPE.num_heads * SHAPE.seq_len**2
    assert found["allocated_bytes"] >= 3 * scores  # before and after the mask, and the weights
    assert found["fused_share"] == 0
    kinds = ("product", "softmax", "fused", "elementwise")
    assert sum(found[f"{kind}_share"] for kind in kinds) == pytest.approx(100)
    assert record.details
    names = {operator["name"] for operator in record.details["operators"]["forward_time"]}
    assert {"aten::baddbmm", "aten::bmm", "aten::softmax"} <= names


def test_flash_attention_is_one_operator_that_allocates_its_output_alone(counted: Measured) -> None:
    found = values(counted(find_implementations()["Flash2"], "Flash2"), "forward_time")
    assert (found["operators"], found["fused_share"]) == (1, 100)
    output = 4 * SHAPE.batch_size * SHAPE.seq_len * SHAPE.emb_dim
    assert output <= found["allocated_bytes"] < 4 * output


def test_a_kernel_that_fails_becomes_a_record_and_no_timed_one_depends_on_counting(
    counted: Measured,
) -> None:
    record = counted(in_call("raise RuntimeError('broken')"))
    assert (record.status, record.metrics) == ("error", {}) and "broken" in str(record.message)
    assert "operators.py" not in {path.name for path in sources_of("flashlab.measuring.child")}
