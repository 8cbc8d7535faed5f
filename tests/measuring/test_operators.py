"""Counters of a pass from the profiler's events, planted and real."""

from __future__ import annotations

import pytest
from measuring.conftest import Measured

from flashlab.benchmarks.attention.declaration import ATTENTION, attention_run
from flashlab.benchmarks.attention.shape import Shape
from flashlab.benchmarks.implementations import Implementation, find_implementations
from flashlab.measuring.operators import Call, computing, nested, typical
from flashlab.records import COUNTERS, Record
from flashlab.sources import sources_of

SHAPE = Shape(1, 128, 2, 64, True)


def planted(*events: tuple[str, int, int], thread: int = 1) -> Call:
    """A pass of 100 ns with these events in it: name, start and end."""
    (outermost,) = nested([(thread, "flashlab::pass", 0, 100), *((thread, *e) for e in events)])
    return outermost


def classes(call: Call) -> list[tuple[str, str, int]]:
    return [(kind, found.name, found.nanoseconds) for kind, found in computing(call)]


def test_ranges_are_nested_by_thread_whatever_their_order() -> None:
    events = [(1, "aten::fill_", 2, 8), (1, "aten::full", 1, 9), (2, "aten::mul", 3, 4)]
    found = nested(events)
    assert [call.name for call in found] == ["aten::full", "aten::mul"]
    assert [call.name for call in found[0].calls] == ["aten::fill_"]


def test_an_operator_that_calls_another_gives_way_to_it() -> None:
    call = planted(
        ("aten::softmax", 1, 20),
        *(("aten::einsum", 20, 60), ("aten::reshape", 21, 22), ("aten::bmm", 23, 59)),
        *(("BmmBackward0", 60, 80), ("aten::mul", 61, 79), ("aten::mul", 62, 78)),
    )
    assert classes(call) == [
        ("softmax", "aten::softmax", 19),
        ("product", "aten::bmm", 36),
        ("elementwise", "aten::mul", 16),
    ]


def test_a_copy_counts_with_the_views_that_it_makes() -> None:
    call = planted(("aten::cat", 1, 50), ("aten::narrow", 2, 4), ("aten::slice", 3, 4))
    assert classes(call) == [("elementwise", "aten::cat", 49)]


def test_attention_is_fused_where_it_calls_neither_products_nor_softmax() -> None:
    flash = planted(("aten::_flash_attention", 1, 50), ("aten::zeros", 2, 9), ("aten::fill_", 3, 8))
    assert classes(flash) == [("fused", "aten::_flash_attention", 49)]
    math = planted(
        ("aten::scaled_dot_product_attention", 1, 50),
        *(("aten::bmm", 2, 10), ("aten::_softmax", 10, 20), ("aten::bmm", 20, 40)),
    )
    assert [kind for kind, *_ in classes(math)] == ["product", "softmax", "product"]


def test_a_disturbance_of_one_call_does_not_count() -> None:
    def call(product: int, softmax: int) -> list[tuple[str, Call]]:
        return [("product", Call("aten::bmm", 0, product)), ("softmax", Call("s", 0, softmax))]

    found = typical([call(50, 20), call(51, 90), call(49, 21)])
    assert [(kind, own.nanoseconds) for kind, own in found] == [("product", 50), ("softmax", 21)]
    other = [("product", Call("aten::mm", 0, 7))]
    assert typical([call(50, 20), other, call(49, 21)]) == other


# Real passes


@pytest.fixture
def counted(in_workflow: None, measure: Measured) -> Measured:
    """Counts the operators of a run on this CPU."""

    def count(kernel: str | Implementation, name: str = "Mine") -> Record:
        run = attention_run(name, SHAPE, "float32", "cpu")
        return measure(kernel, run, name=COUNTERS, profiler="torch.profiler", timeout_s=120)

    return count


def values(record: Record, name: str) -> dict[str, float]:
    return {
        metric.quantity.name: record.metrics[metric.name].value
        for metric in ATTENTION.counters_on("cpu")[name]
    }


def names(record: Record, name: str) -> list[str]:
    assert record.details
    return [operator["name"] for operator in record.details["operators"][name]]


def test_the_naive_pass_writes_its_scores_in_several_operators(counted: Measured) -> None:
    record = counted(find_implementations()["Pytorch"], "Pytorch")
    found = values(record, "forward_time")
    assert found["operators"] == 6  # product, mask (full and triu), sum, softmax, product
    scores = 4 * SHAPE.batch_size * SHAPE.num_heads * SHAPE.seq_len**2
    assert found["allocated_bytes"] >= 3 * scores  # before and after the mask, and the weights
    assert found["fused_share"] == 0
    kinds = ("product", "softmax", "fused", "elementwise")
    assert sum(found[f"{kind}_share"] for kind in kinds) == pytest.approx(100)
    assert {"aten::baddbmm", "aten::bmm", "aten::softmax"} <= set(names(record, "forward_time"))
    assert values(record, "backward_time")["product_share"] > 0


def test_flash_attention_is_one_operator_that_allocates_its_output_alone(counted: Measured) -> None:
    found = values(counted(find_implementations()["Flash2"], "Flash2"), "forward_time")
    assert (found["operators"], found["fused_share"]) == (1, 100)
    output = 4 * SHAPE.batch_size * SHAPE.seq_len * SHAPE.emb_dim
    assert output <= found["allocated_bytes"] < 4 * output


def test_a_kernel_that_fails_becomes_a_record(counted: Measured) -> None:
    record = counted("raise RuntimeError('broken')")
    assert (record.status, record.metrics) == ("error", {})
    assert "broken" in str(record.message)


def test_counting_decides_no_timed_record() -> None:
    paths = sources_of("flashlab.measuring.child")
    assert "operators.py" not in {path.name for path in paths}
