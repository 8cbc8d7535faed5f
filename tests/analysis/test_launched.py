"""The kernels of a pass by class, with names as Nsight Compute gave them on an H200."""

from __future__ import annotations

import pytest

from flashlab.analysis.launched import COUNTERS, class_of, kernels_cell, short_name

VECTORIZED = "void native::vectorized_elementwise_kernel"
COPY = "void native::elementwise_kernel<128, 4, void native::gpu_kernel_impl_nocast<native::"
COPY += "direct_copy_kernel_cuda(at::TensorIteratorBase &)"
FILL = f"{VECTORIZED}<4, native::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)"
MULTIPLY = f"{VECTORIZED}<8, native::BinaryFunctor<c10::Half, binary_internal::MulFunctor<float>>"
CONVERT = f"{VECTORIZED}<8, native::float16_copy_kernel_cuda(at::TensorIteratorBase &)"
SOFTMAX = "void <unnamed>::softmax_warp_forward<c10::Half, c10::Half, float, 10, 0, 0>(T2 *)"
FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::half_t>>"


@pytest.mark.parametrize(
    ("name", "kind", "short"),
    [
        (COPY, "copy", "native::elementwise_kernel"),
        (FILL, "copy", "native::vectorized_elementwise_kernel"),
        (CONVERT, "copy", "native::vectorized_elementwise_kernel"),
        (MULTIPLY, "elementwise", "native::vectorized_elementwise_kernel"),
        (SOFTMAX, "softmax", "<unnamed>::softmax_warp_forward"),
        ("void native::reduce_kernel<512, 1>", "reduction", "native::reduce_kernel"),
        ("nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "product", None),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8", "product", None),
        (FLASH, "attention", "flash::flash_fwd_kernel"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention", None),
        ("triton_tem_fused_flex_attention_backward_1", "attention", None),
        ("triton_poi_fused_new_zeros_0", "copy", None),
        ("prepare", "attention", None),  # of FlashLab's own backward pass
    ],
)
def test_a_kernel_is_classed_by_its_whole_name(name: str, kind: str, short: str | None) -> None:
    assert class_of(name) == kind
    assert short_name(name) == (short or name)


def test_the_cell_keeps_each_kernel_in_order_of_launch() -> None:
    counted = dict(zip(COUNTERS, (0.5, 1e9, 20.0, 30.0, 90.0), strict=True))
    kernels = [{"name": name, **counted} for name in (COPY, "nvjet_a")]
    cell = kernels_cell({"kernels": {"forward_time": kernels}})
    assert cell is not None
    assert [kernel[1:] for kernel in cell["forward_time"]] == [
        [kind, 0.5, 1e9, 20.0, 30.0, 90.0] for kind in ("copy", "product")
    ]


def test_without_all_counters_or_of_operators_there_is_no_cell() -> None:
    assert kernels_cell({"kernels": {"forward_time": [{"name": "a", "busy_time": 1.0}]}}) is None
    assert kernels_cell({"operators": {}}) is None
