// What the kernels share: rings of buffers in shared memory.
//
// Every buffer has two barriers: the copy engine completes `full` when the data has arrived, and
// those who read it arrive at `empty` when they have. A use is counted by a Turn on either side.

using Half = unsigned short;

constexpr int CHUNKS = (D + 63) / 64;  // of 64 columns, zeros past D

// Which buffer of a ring is next, and the parity of the round.
template <int STAGES>
struct Turn {
  int slot = 0;
  u32 parity = 0;

  __device__ void next() {
    if (STAGES == 1) {
      parity ^= 1;
    } else if (STAGES == 2) {
      parity ^= slot;
      slot ^= 1;
    } else if (++slot == STAGES) {
      slot = 0, parity ^= 1;
    }
  }
  __device__ u32 barrier(u32 first) const { return shared_memory() + first + slot * 8; }
  __device__ u32 buffer(u32 first, u32 bytes) const { return shared_memory() + first + slot * bytes; }
  __device__ void wait_full(u32 full) const { wait(barrier(full), parity); }
  __device__ void wait_empty(u32 empty) const { wait(barrier(empty), parity ^ 1); }
  // Each warp says for itself that it is done: no need to wait for the others of its group.
  __device__ void release(u32 empty) const {
    sync_warp();
    if (threadIdx.x % 32 == 0) arrive(barrier(empty));
  }
};

// A tile of (B, N, H, D), chunk by chunk.
__device__ inline void load_tile(const TensorMap& map, u32 full, u32 to, u32 chunk_bytes, int b, int h, int n) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) load_box(&map, full, to + c * chunk_bytes, 64 * c, h, n, b);
}

