// What the kernels share: the order of tiles, rings of buffers, products, masks, and rows of lse and Δ.

using Half = unsigned short;

constexpr int CHUNKS = (D + 63) / 64;  // of 64 columns, zeros past D
constexpr float SCALE_LOG2 = SCALE * 1.4426950408889634f;

// Which buffer of a ring is next, and the parity of the round. Every buffer has two barriers: the
// copy engine completes `full` when the data has arrived, and those who read it arrive at `empty`
// when they have. Each side counts the uses for itself.
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

// The next number of a counter that all programs share; from `numbers` on there is nothing to do.
// The producer takes it, and passes it on to the others of its program. The last program to run out
// of numbers leaves the counter, two words, as it was: 0.
__device__ inline int take_number(int* counter, int numbers, Turn<2>& turn, u32 full, u32 empty, u32 taken, bool produces) {
  int number;
  if (produces) {
    number = take_ticket(counter);
    turn.wait_empty(empty);
    store_word(turn.buffer(taken, 8), number);
    arrive(turn.barrier(full));
    if (number >= numbers && take_ticket(counter + 1) == gridDim.x - 1) counter[0] = counter[1] = 0;
  } else {
    turn.wait_full(full);
    number = load_word(turn.buffer(taken, 8));
    turn.release(empty);
  }
  turn.next();
  return number;
}

// A head, of B times as many, and a block of its queries or keys.
struct Block {
  int bh, block;
};

// Without a mask, blocks of one head follow each other and share what they read in the L2 cache. With
// one, they differ in work: first come the first blocks of some heads, as many as go `together`.
__device__ inline Block block_at(int tile, int blocks, int together) {
  if (!CAUSAL) return {tile / blocks, tile % blocks};
  int side = together * blocks, place = tile % side;
  return {tile / side * together + place % together, place / together};
}

// A tile of (B, N, H, D), chunk by chunk.
__device__ inline void load_tile(const TensorMap& map, u32 full, u32 to, u32 chunk_bytes, int b, int h, int n) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) load_box(&map, full, to + c * chunk_bytes, 64 * c, h, n, b);
}

// 64 rows of a warpgroup's accumulators in 16 bits, as a tile; a thread's first and second row
// times a factor each.
template <int R>
__device__ inline void stage_rows(u32 stage, const float (&x)[R], float first, float second) {
  int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
  u32 to = stage + row * 128 + 16 * (lane / 16 ^ row % 8);
#pragma unroll
  for (int d = 0; d < 2 * R; d += 16) {
    const float* y = x + d / 2;
    store_matrices((to ^ d % 64 * 2) + d / 64 * 64 * 128, pack(y[0] * first, y[1] * first),
                   pack(y[2] * second, y[3] * second), pack(y[4] * first, y[5] * first),
                   pack(y[6] * second, y[7] * second));
  }
}

// One thread starts to store a tile of 64 rows.
__device__ inline void store_tile(const TensorMap& map, u32 stage, int b, int h, int n) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) store_box(&map, stage + c * 64 * 128, 64 * c, h, n, b);
  commit_stores();
}

// --- Products and masks: a thread has rows lane / 4 and lane / 4 + 8 of its warp's 16 --------------

// x = A Bᵀ over D: 64 rows of one tile, whose chunks lie so far apart, and 2 R rows of another.
template <int R>
__device__ inline void multiply_rows(float (&x)[R], u32 rows, u32 chunk, u32 others) {
  Matrix left = matrix(rows), right = matrix(others);
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    u64 a = advanced(left, d / 64 * chunk + d % 64 * 2), b = advanced(right, d / 64 * 2 * R * 128 + d % 64 * 2);
    if (d == 0) {
      mma_first<0, 0>(x, a, b);
    } else {
      mma<0, 0>(x, a, b);
    }
  }
}

// x += A B: 64 rows in registers, as `multiply_rows` leaves them, times a tile of 4 R rows.
template <int R>
__device__ inline void multiply_columns(float (&x)[D / 2], const u32 (&rows)[R], u32 tile) {
  Matrix right = matrix(tile, 4 * R * 128);
#pragma unroll
  for (int n = 0; n < R; n += 4) mma<1>(x, rows[n], rows[n + 1], rows[n + 2], rows[n + 3], advanced(right, n * 4 * 128));
}

template <int R>
__device__ inline void to_16_bits(u32 (&y)[R], const float (&x)[2 * R]) {
#pragma unroll
  for (int i = 0; i < R; i++) y[i] = pack(x[2 * i], x[2 * i + 1]);
}

// S of the keys that a thread's rows, `row` and `row` + 8, do not see becomes −∞.
template <int R>
__device__ inline void hide_keys(float (&s)[R], int row, int first_key, int N) {
  int first = first_key + threadIdx.x % 4 * 2, low = CAUSAL ? row + 1 : N, high = CAUSAL ? row + 9 : N;
#pragma unroll
  for (int i = 0; i < R; i++) {
    if (first + i / 4 * 8 + i % 2 >= (i % 4 < 2 ? low : high)) s[i] = -INFINITE;
  }
}

// The same of Sᵀ: of the queries that do not see a thread's keys, `key` and `key` + 8.
template <int R>
__device__ inline void hide_queries(float (&s)[R], int key, int first_query, int N) {
  int first = CAUSAL ? key - first_query - (int)threadIdx.x % 4 * 2 : -2 * R;  // of the columns that see it
  int low = key < N ? first : 2 * R, high = key + 8 < N ? first + 8 : 2 * R;
#pragma unroll
  for (int n = 0; n < R; n++) {
    if (n / 4 * 8 + n % 2 < (n % 4 < 2 ? low : high)) s[n] = -INFINITE;
  }
}

// 16 columns of Sᵀ → Pᵀ = exp(S − lse)ᵀ in 16 bits.
__device__ inline void exponentials(u32* p, const float* s, Four lse) {
  p[0] = pack(exp2(s[0] * SCALE_LOG2 - lse.x), exp2(s[1] * SCALE_LOG2 - lse.y));
  p[1] = pack(exp2(s[2] * SCALE_LOG2 - lse.x), exp2(s[3] * SCALE_LOG2 - lse.y));
  p[2] = pack(exp2(s[4] * SCALE_LOG2 - lse.z), exp2(s[5] * SCALE_LOG2 - lse.w));
  p[3] = pack(exp2(s[6] * SCALE_LOG2 - lse.z), exp2(s[7] * SCALE_LOG2 - lse.w));
}

// --- lse and Δ ----------------------------------------------------------------------------------

// lse and Δ of a head, of which there are `padded`, are not in the order of its queries: of every
// 16, the four that a thread of the backward needs lie side by side.
__device__ inline long place_of(long head, int n, int padded) {
  return head * padded + n / 16 * 16 + n % 8 / 2 * 4 + n / 8 % 2 * 2 + n % 2;
}

// The sum of products of eight numbers in 16 bits.
__device__ inline float dot(Words x, Words y) {
  float sum = lower(x.x) * lower(y.x) + upper(x.x) * upper(y.x);
  sum += lower(x.y) * lower(y.y) + upper(x.y) * upper(y.y);
  sum += lower(x.z) * lower(y.z) + upper(x.z) * upper(y.z);
  return sum + lower(x.w) * lower(y.w) + upper(x.w) * upper(y.w);
}

__device__ inline float sum_of_eight_lanes(float x) {
  x += exchange(x, 1);
  x += exchange(x, 2);
  return x + exchange(x, 4);
}
