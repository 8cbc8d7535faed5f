// kernels/flashlab/cuda/sm90.cuh on a CPU: a block's threads take turns in a random order.
//
// Loads and stores of the copy engine, and products, happen at a random time between their start
// and the wait for them. A buffer that is being loaded is poisoned, so that who reads too early, or
// overwrites what is still to be read, gets NaN or a wrong result; who waits in vain, a deadlock.
// What is declared here and depends on no kernel is in simulator.cpp, which is compiled once.
#include <cmath>
#include <cstring>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define INFINITE INFINITY

using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(64) TensorMap {  // what the test fills in for the driver
  char* base;
  long sizes[4], strides[4];  // of D, H, N and B; strides in bytes
  int rows;                   // of a box; 64 columns
  char rest[128 - 8 - 64 - 4 - 4];
};
static_assert(sizeof(TensorMap) == 128);

struct Place {
  int x;
};

namespace simulated {

extern int current;            // the thread whose turn it is
extern Place block, blocks;

float to_float(unsigned short h, bool bf16);
unsigned short to_half(float x, bool bf16);

void wait_products(int pending);
// d (64, 2 R) = A B, or += where `adds`; A (64, 16) by its descriptor or `registers`, B (16, 2 R) by its descriptor.
void multiply(float* d, int R, u64 a, bool transposed_a, u64 b, bool transposed_b, bool adds);
void multiply_by_registers(float* d, int R, const u32 (&registers)[4], u64 b, bool transposed_b, bool adds);

// A kernel's blocks, one after the other.
void launch(int blocks, int size, int shared_bytes, int seed, bool starts_early, bool bf16,
            void (*kernel)(const void*), const void* arguments);

}  // namespace simulated

inline Place this_thread() { return {simulated::current}; }
#define threadIdx this_thread()
#define blockIdx simulated::block
#define gridDim simulated::blocks

// --- What sm90.cuh has --------------------------------------------------------------------------

u32 shared_memory();
template <int>
inline void grow_registers() {}
template <int>
inline void shrink_registers() {}
void sync_warpgroup(int id);
void arrive_turns(int id, int threads);
void sync_turns(int id, int threads);
void sync_warp();
void sync_block();
float exchange(float x, int bits);
float of_lane(float x, int lane);
bool any(bool x);
inline int uniform(int x) { return x; }

void wait_for_kernel_before();
inline void let_next_kernel_start() {}

void init_barrier(u32 barrier, int arrivals);
inline void fence_barriers() {}
void arrive(u32 barrier);
void arrive_expecting(u32 barrier, u32 bytes);
void wait(u32 barrier, u32 parity);

inline void fence_shared() {}
void load_box(const TensorMap* map, u32 full, u32 to, int d, int h, int n, int b);
void load_values(const float* from, u32 full, u32 to, u32 bytes);
void store_box(const TensorMap* map, u32 from, int d, int h, int n, int b);
inline void commit_stores() {}
void wait_stores_read();

struct alignas(16) Four {
  float x, y, z, w;
};
struct alignas(16) Words {
  u32 x, y, z, w;
};
Four load_four(u32 from);
Words load_words(u32 from);
u32 load_word(u32 from);
void store_word(u32 to, u32 word);
inline Four load_past_l1(const Four* from) { return *from; }
inline void add_in_memory(Four* to, Four f) { to->x += f.x, to->y += f.y, to->z += f.z, to->w += f.w; }
inline int take_ticket(int* counter) { return (*counter)++; }

void store_matrices(u32 row, u32 a, u32 b, u32 c, u32 d);
void store_matrices_transposed(u32 row, u32 a, u32 b, u32 c, u32 d);
Words load_matrices_transposed(u32 row);

inline u32 pack(float lower, float upper) {
  return simulated::to_half(lower, BF16) | (u32)simulated::to_half(upper, BF16) << 16;
}
inline float lower(u32 both) { return simulated::to_float(both & 0xffff, BF16); }
inline float upper(u32 both) { return simulated::to_float(both >> 16, BF16); }
inline u32 bits(float x) {
  u32 word;
  memcpy(&word, &x, 4);
  return word;
}

struct Matrix {
  u32 place, shape;
};
inline Matrix matrix(u32 at, u32 leading = 16) { return {at >> 4 | leading >> 4 << 16, 1024 >> 4 | 1 << 30}; }
inline u64 advanced(Matrix m, u32 bytes) { return (u64)m.shape << 32 | (m.place + (bytes >> 4)); }
inline void begin_products() {}
void commit_products();
template <int PENDING>
inline void wait_products() {
  simulated::wait_products(PENDING);
}
template <class T, int R>
inline void hold(T (&)[R]) {}
template <int TA, int TB, int R>
inline void mma(float (&d)[R], u64 a, u64 b) {
  simulated::multiply(d, R, a, TA, b, TB, true);
}
template <int TA, int TB, int R>
inline void mma_first(float (&d)[R], u64 a, u64 b) {
  simulated::multiply(d, R, a, TA, b, TB, false);
}
template <int TB, int R>
inline void mma(float (&d)[R], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  simulated::multiply_by_registers(d, R, {a0, a1, a2, a3}, b, TB, true);
}
template <int TB, int R>
inline void mma_first(float (&d)[R], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  simulated::multiply_by_registers(d, R, {a0, a1, a2, a3}, b, TB, false);
}
