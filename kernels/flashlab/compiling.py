"""The Hopper kernels compiled: CUDA C++ by NVRTC, which PyTorch brings, and kept on disk.

Nothing but PyTorch's own packages is needed, no CUDA toolkit. A source is compiled for one
problem's constants in half a second, and later processes find the result in the cache.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "cuda"
OLDEST = (12, 1)
"""The first NVRTC with vectors of float32 in `red`, which adds to memory."""

OPTIONS = (
    b"--gpu-architecture=sm_90a", b"--std=c++17", b"--use_fast_math", b"--fmad=true",
    b"--device-as-default-execution-space",  # of functions without a name that take any type
)  # fmt: skip


class CompilationError(RuntimeError):
    """NVRTC could not compile a kernel."""


def missing() -> str | None:
    """Why kernels cannot be compiled here; None where they can."""
    try:
        from cuda.bindings import nvrtc

        error, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as problem:
        return f"there is no NVRTC here, which comes with torch for CUDA: {str(problem).strip()}"
    if error.value or (major, minor) < OLDEST:
        return f"NVRTC {major}.{minor} is older than {'.'.join(map(str, OLDEST))}"
    return None


def product(registers: int, from_registers: bool, first: bool) -> str:
    """A `wgmma` of 64 rows and 2 `registers` columns as a function, summing up 16 by 16 bits.

    The rows of A come from shared memory, or from registers; `first` begins a sum. The template's
    arguments say which operands in shared memory are transposed.
    """
    sums = ", ".join(f"%{i}" for i in range(registers))
    results = ", ".join(f'"{"=" if first else "+"}f"(d[{i}])' for i in range(registers))
    signs = f"{int(not first)}, 1, 1"
    at = [f"%{registers + i}" for i in range(6)]
    if from_registers:
        template, takes = "int TB", "u32 a0, u32 a1, u32 a2, u32 a3, u64 b"
        operands = f"{{{', '.join(at[:4])}}}, {at[4]}, {signs}, {at[5]}"
        given = '"r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"(TB)'
    else:
        template, takes = "int TA, int TB", "u64 a, u64 b"
        operands = f"{at[0]}, {at[1]}, {signs}, {at[2]}, {at[3]}"
        given = '"l"(a), "l"(b), "n"(TA), "n"(TB)'
    name = "mma_first" if first else "mma"
    instruction = f'"wgmma.mma_async.sync.aligned.m64n{2 * registers}k16.f32." HALF "." HALF'
    return f"""
template <{template}>
__device__ inline void {name}(float (&d)[{registers}], {takes}) {{
  asm volatile({instruction} " {{{sums}}}, {operands};"
      : {results}
      : {given});
}}
"""


def source(
    name: str, constants: Mapping[str, int], scale: float, bfloat16: bool, sums: Iterable[int],
    sums_from_registers: Iterable[int],
) -> str:  # fmt: skip
    """The CUDA C++ of `cuda/NAME.cu` for one problem.

    Args:
        name: of the file.
        constants: what the file takes as given, by name.
        scale: of the softmax, 1 / √head_dim.
        bfloat16: whether numbers have 16 bits in this way; else float16.
        sums: registers of each accumulator whose A comes from shared memory.
        sums_from_registers: of each whose A comes from registers.
    """
    given = "".join(f"constexpr int {name} = {int(value)};\n" for name, value in constants.items())
    products = [product(n, False, first) for n in sorted(set(sums)) for first in (True, False)]
    products += [product(n, True, False) for n in sorted(set(sums_from_registers))]
    half = "bf16" if bfloat16 else "f16"
    head = (
        f'#define BF16 {int(bfloat16)}\n#define HALF "{half}"\nconstexpr float SCALE = {scale!r}f;'
    )
    sm90, tiles, body = (
        (FOLDER / file).read_text(encoding="utf-8")
        for file in ("sm90.cuh", "tiles.cuh", f"{name}.cu")
    )
    return "\n".join([head, given, sm90, *products, tiles, body])


def cubin(name: str, text: str) -> bytes:
    """Machine code of a source, from the cache where it is; CompilationError says what is wrong."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    key = hashlib.sha256(repr((text, OPTIONS, major, minor)).encode()).hexdigest()
    kept = cache() / f"{name}-{key[:32]}.cubin"
    try:
        return kept.read_bytes()
    except OSError:
        pass
    code = _compile(name, text)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
            file.write(code)
        os.replace(file.name, kept)
    except OSError:  # a folder that cannot be written: compiled again next time
        pass
    return code


def cache() -> Path:
    """The folder of compiled kernels."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flashlab" / "kernels"


def _compile(name: str, text: str) -> bytes:
    from cuda.bindings import nvrtc

    error, program = nvrtc.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, [], [])
    if error.value:
        raise CompilationError(f"NVRTC takes no program: {error}")
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), list(OPTIONS))
        if error.value:
            _, size = nvrtc.nvrtcGetProgramLogSize(program)
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            said = log.decode(errors="replace").rstrip("\0").strip()
            raise CompilationError(f"{name}.cu: {error}\n{said}")
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        code = b" " * size
        nvrtc.nvrtcGetCUBIN(program, code)
        return code
    finally:
        nvrtc.nvrtcDestroyProgram(program)
