"""The kernels of a pass by class, with names as Nsight Compute gave them on an H200."""

from __future__ import annotations

import pytest

from flashlab.analysis.launched import COUNTERS, kernels_cell

VECTORIZED = "void native::vectorized_elementwise_kernel"
COPY = "void native::elementwise_kernel<128, 4, void native::gpu_kernel_impl_nocast<native::"
COUNTED = dict(zip(COUNTERS, (0.5, 1e9, 20.0, 30.0, 90.0), strict=True))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("copy", f"{COPY}direct_copy_kernel_cuda(at::TensorIteratorBase &)"),
        ("copy", f"{VECTORIZED}<4, native::FillFunctor<float>, std::array<char *, 1>>(int, T2)"),
        ("copy", f"{VECTORIZED}<8, native::float16_copy_kernel_cuda(at::TensorIteratorBase &)"),
        ("copy", "triton_poi_fused_new_zeros_0"),
        ("elementwise", f"{VECTORIZED}<8, native::BinaryFunctor<c10::Half, MulFunctor<float>>"),
        ("softmax", "void <unnamed>::softmax_warp_forward<c10::Half, float, 10, 0, 0>(T2 *)"),
        ("reduction", "void native::reduce_kernel<512, 1>"),
        ("product", "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT"),
        ("product", "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8"),
        ("attention", "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>"),
        ("attention", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"),
        ("attention", "triton_tem_fused_flex_attention_backward_1"),
        ("attention", "prepare"),  # of FlashLab's own backward pass
    ],
)
def test_a_kernel_is_classed_by_its_whole_name(kind: str, name: str) -> None:
    cell = kernels_cell({"kernels": {"forward_time": [{"name": name, **COUNTED}]}})
    ((short, *found),) = (cell or {})["forward_time"]
    assert found == [kind, *COUNTED.values()] and short in name


def test_without_all_counters_there_is_no_cell() -> None:
    assert kernels_cell({"kernels": {"forward_time": [{"name": "a", "busy_time": 1.0}]}}) is None
