// Hopper's own instructions as functions, one each. What a kernel's source says beyond this is C++.
//
// Compiled in front of a kernel, with HALF "f16" or "bf16", and with the products that it takes
// (`mma` of an accumulator of so many registers), which compiling.py writes out.

using u32 = unsigned int;
using u64 = unsigned long long;

#define INFINITE __int_as_float(0x7f800000)

struct alignas(64) TensorMap {  // what the driver encodes for the copy engine
  char bytes[128];
};

// Places in shared memory are 32-bit addresses here: they take half the registers of a pointer.
__device__ inline u32 shared_memory() {
  extern __shared__ char memory[];
  return (u32)__cvta_generic_to_shared(memory);
}

// --- Threads ------------------------------------------------------------------------------------

template <int REGISTERS>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// The threads of a warpgroup wait for each other.
__device__ inline void sync_warpgroup(int id) {
  asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory");
}

// Of so many threads on both sides: some wait until others have arrived.
__device__ inline void sync_turns(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ inline void arrive_turns(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ inline void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

__device__ inline void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }

// `x` of the lane whose number differs in these bits.
__device__ inline float exchange(float x, int bits) {
  float y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(bits));
  return y;
}

// `x` of a lane, which may be another for each.
__device__ inline float of_lane(float x, int lane) { return __shfl_sync(0xffffffff, x, lane); }

// Whether it is so in any lane.
__device__ inline bool any(bool x) { return __any_sync(0xffffffff, x); }

// What is the same in all lanes, where the compiler does not know: it goes into uniform registers.
__device__ inline int uniform(int x) { return __shfl_sync(0xffffffff, x, 0); }

// Where a kernel starts early: wait until the one before it on the stream has ended.
__device__ inline void wait_for_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The kernel after this one may start when every program has come here or ended.
__device__ inline void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// --- Barriers in shared memory ------------------------------------------------------------------

__device__ inline void init_barrier(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ inline void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrive, and let the phase end only when so many bytes have come.
__device__ inline void arrive_expecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Wait until the phase of this parity has ended.
__device__ inline void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nTRY:\n"
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@done bra.uni DONE;\nbra.uni TRY;\nDONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// --- The copy engine ----------------------------------------------------------------------------

// What threads have written to shared memory, the copy engine and the products may read.
__device__ inline void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A box of (B, N, H, D) from column `d` of head `h` and row `n` on; what lies outside becomes 0.
__device__ inline void load_box(const TensorMap* map, u32 full, u32 to, int d, int h, int n, int b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"((u64)map), "r"(full), "r"(d), "r"(h), "r"(n), "r"(b)
      : "memory");
}

__device__ inline void load_values(const float* from, u32 full, u32 to, u32 bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"((u64)from), "r"(bytes), "r"(full)
      : "memory");
}

// What lies outside of the tensor is not stored.
__device__ inline void store_box(const TensorMap* map, u32 from, int d, int h, int n, int b) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
                   (u64)map),
               "r"(from), "r"(d), "r"(h), "r"(n), "r"(b)
               : "memory");
}

__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Wait until this thread's stores have read shared memory.
__device__ inline void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// --- Memory -------------------------------------------------------------------------------------

struct alignas(16) Four {
  float x, y, z, w;
};

struct alignas(16) Words {
  u32 x, y, z, w;
};

__device__ inline Four load_four(u32 from) {
  Four f;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w)
               : "r"(from)
               : "memory");
  return f;
}

__device__ inline Words load_words(u32 from) {
  Words w;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "r"(from)
               : "memory");
  return w;
}

__device__ inline u32 load_word(u32 from) {
  u32 word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return word;
}

__device__ inline void store_word(u32 to, u32 word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

// Past the L1 cache, where an addition of this thread would not show.
__device__ inline Four load_past_l1(const Four* from) {
  Four f;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w)
               : "l"((u64)from)
               : "memory");
  return f;
}

__device__ inline void add_in_memory(Four* to, Four f) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"((u64)to), "f"(f.x),
               "f"(f.y), "f"(f.z), "f"(f.w)
               : "memory");
}

__device__ inline int take_ticket(int* counter) {
  int ticket;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"((u64)counter) : "memory");
  return ticket;
}

// Four 8 by 8 matrices of a warp to rows of 16 bytes; lane l gives the place of row l % 8 of l / 8.
__device__ inline void store_matrices(u32 row, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ inline void store_matrices_transposed(u32 row, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// Such rows as four matrices, each of which a thread gets its part of transposed.
__device__ inline Words load_matrices_transposed(u32 row) {
  Words w;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "r"(row)
               : "memory");
  return w;
}

// --- Arithmetic ---------------------------------------------------------------------------------

__device__ inline float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers in 16 bits each, the first in the lower half.
__device__ inline u32 pack(float lower, float upper) {
  u32 both;
  asm("cvt.rn." HALF "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(upper), "f"(lower));
  return both;
}

__device__ inline u32 bits(float x) { return __float_as_uint(x); }

#if BF16
__device__ inline float lower(u32 both) { return __uint_as_float(both << 16); }
__device__ inline float upper(u32 both) { return __uint_as_float(both & 0xffff0000u); }
#else
__device__ inline float lower(u32 both) {
  float x;
  asm("{.reg .b16 a, b;\nmov.b32 {a, b}, %1;\ncvt.f32.f16 %0, a;}" : "=f"(x) : "r"(both));
  return x;
}
__device__ inline float upper(u32 both) {
  float x;
  asm("{.reg .b16 a, b;\nmov.b32 {a, b}, %1;\ncvt.f32.f16 %0, b;}" : "=f"(x) : "r"(both));
  return x;
}
#endif

// --- Products of a warpgroup --------------------------------------------------------------------

// A tile in shared memory as the products take it: rows of 64 columns, 128 bytes, swizzled as the
// copy engine swizzles; 8 rows are 1024 bytes. Columns 64 and on lie `leading` bytes further.
struct Matrix {
  u32 place, shape;
};

__device__ inline Matrix matrix(u32 at, u32 leading = 16) { return {(at & 0x3ffff) >> 4 | leading >> 4 << 16, 1024 >> 4 | 1 << 30}; }

__device__ inline u64 advanced(Matrix m, u32 bytes) { return (u64)m.shape << 32 | (m.place + (bytes >> 4)); }

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Wait until at most so many committed groups of products are not done.
template <int PENDING>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keep the compiler from moving what uses these registers to before this place.
template <int R>
__device__ inline void hold(float (&x)[R]) {
#pragma unroll
  for (int i = 0; i < R; i++) asm volatile("" : "+f"(x[i])::"memory");
}
