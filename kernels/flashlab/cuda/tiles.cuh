// What the kernels share: the order of tiles, rings of buffers, products, masks, and rows of lse and Δ.

using Half = unsigned short;

constexpr int CHUNKS = (D + 63) / 64;  // of 64 columns, zeros past D
constexpr int LAST = D - (CHUNKS - 1) * 64;  // columns of the last chunk
constexpr float SCALE_LOG2 = SCALE * 1.4426950408889634f;

struct Sizes {
  int B, N, H, group;  // group: G heads of Q share one of K and V
  int blocks;          // of a head, of queries
  int tiles;           // of all heads, or what programs take in their place
  int together;        // heads side by side, where the longest tiles come first
  int padded;          // N up to a multiple of 128
};

// --- Rings of buffers in shared memory ------------------------------------------------------------

// N buffers, where they begin, and where their barriers do. Each has two: the copy engine completes
// `full` when the data has arrived (or so many warps, `writers`, have written it), and the warps that
// read it arrive at `empty` when they have.
template <int N, u32 SIZE, u32 BUFFERS, u32 BARRIERS, int READERS, int WRITERS = 1>
struct Ring {
  static constexpr u32 BYTES = SIZE, AT = BUFFERS, FULL = BARRIERS, EMPTY = BARRIERS + 8 * N, END = BARRIERS + 16 * N;

  __device__ static void set_up() {
    for (int x = 0; x < N; x++) {
      init_barrier(shared_memory() + FULL + 8 * x, WRITERS);
      init_barrier(shared_memory() + EMPTY + 8 * x, READERS);
    }
  }
};

// What each kernel begins with: one thread sets its rings up. Returns the thread's warpgroup. No kernel
// leaves room for the next before its own programs end, so that the next may start at once.
template <class... Rings>
__device__ inline int set_up() {
  if (threadIdx.x == 0) {
    (Rings::set_up(), ...);
    fence_barriers();
  }
  sync_block();
  wait_for_kernel_before();
  let_next_kernel_start();
  return uniform(threadIdx.x / 128);
}

// A tile of (B, N, H, D), chunk by chunk.
__device__ inline void load_tile(const TensorMap& map, u32 full, u32 to, u32 chunk_bytes, int b, int h, int n) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) load_box(&map, full, to + c * chunk_bytes, 64 * c, h, n, b);
}

// Which buffer of rings of so many is next, and the parity of the round. Each side counts the uses
// for itself.
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
  template <class R>
  __device__ u32 full() const { return shared_memory() + R::FULL + slot * 8; }
  template <class R>
  __device__ u32 empty() const { return shared_memory() + R::EMPTY + slot * 8; }
  template <class R>
  __device__ u32 buffer() const { return shared_memory() + R::AT + slot * R::BYTES; }
  template <class R>
  __device__ void wait_full() const { wait(full<R>(), parity); }
  template <class R>
  __device__ void wait_empty() const { wait(empty<R>(), parity ^ 1); }
  // Each warp says for itself that it has read or written: no need to wait for the others of its group.
  template <class R>
  __device__ void release() const {
    sync_warp();
    if (threadIdx.x % 32 == 0) arrive(empty<R>());
  }
  template <class R>
  __device__ void hand_on() const {
    sync_warp();
    if (threadIdx.x % 32 == 0) arrive(full<R>());
  }
  // As much as is in the buffer will be loaded, and so many bytes more.
  template <class R>
  __device__ void expect(u32 more = 0) const {
    wait_empty<R>();
    arrive_expecting(full<R>(), R::BYTES + more);
  }
  template <class R>
  __device__ void load(const TensorMap& map, int b, int h, int n) const {
    load_tile(map, full<R>(), buffer<R>(), R::BYTES / CHUNKS, b, h, n);
  }
};

// --- The order of tiles ---------------------------------------------------------------------------

// The numbers of tiles, from a counter that all programs share after the first, which is the
// program's own; from `z.tiles` on there is nothing to do. The producer takes them, and passes them
// on to the warps of its program through a ring from BARRIERS on. The last program to run out of
// numbers leaves the counter, two words, as it was: 0.
template <u32 BARRIERS, int READERS>
struct Numbers {
  using Taken = Ring<2, 8, BARRIERS + 32, BARRIERS, READERS>;
  Turn<2> turn;
  int ahead = blockIdx.x;

  // Ask for the next number before it is needed: the answer takes its time.
  __device__ void ask(int* counter) { ahead = gridDim.x + take_ticket(counter); }

  __device__ int take(int* counter, const Sizes& z) {
    int number = ahead;
    turn.wait_empty<Taken>();
    store_word(turn.buffer<Taken>(), number);
    arrive(turn.full<Taken>());
    turn.next();
    if (number >= z.tiles && take_ticket(counter + 1) == gridDim.x - 1) counter[0] = counter[1] = 0;
    return number;
  }

  __device__ int read() {
    turn.wait_full<Taken>();
    int number = load_word(turn.buffer<Taken>());
    turn.release<Taken>();
    turn.next();
    return number;
  }
};

// A head, of so many, and a block of its queries or keys.
struct Block {
  int bh, block;
};

// Without a mask, blocks of one head follow each other and share what they read in the L2 cache. With
// one, they differ in work: first come the first blocks of some heads, as many as go `together`. Heads
// that are left over come before the others, so that what is done last has many short tiles.
__device__ inline Block block_at(int tile, int blocks, int heads, int together) {
  if (!CAUSAL) return {tile / blocks, tile % blocks};
  int over = heads % together, rest = tile - over * blocks;
  if (rest < 0) return {tile % over, tile / over};
  int before = rest / (together * blocks) * together, place = rest - before * blocks;
  return {over + before + place % together, place / together};
}

__device__ inline int group_of(const Sizes& z) { return GROUPED ? z.group : 1; }

// Queries of a head, from a row on.
struct Rows {
  int b, h, row;
};

__device__ inline Rows rows_at(int tile, int rows, const Sizes& z) {
  auto [bh, block] = block_at(tile, z.blocks, z.B * z.H, z.together);
  if (CAUSAL) block = z.blocks - 1 - block;  // the longest first
  return {bh / z.H, bh % z.H, block * rows};
}

// How many blocks of so many keys the queries before `end` see.
__device__ inline int blocks_seen(int end, int keys, const Sizes& z) {
  return ((CAUSAL && end < z.N ? end : z.N) + keys - 1) / keys;
}

// A block of keys of a head of K and V.
struct Keys {
  int b, head, block;
};

__device__ inline Keys keys_at(int tile, int blocks, const Sizes& z) {
  int heads = z.H / group_of(z);
  auto [bh, block] = block_at(tile, blocks, z.B * heads, z.together);
  return {bh / heads, bh % heads, block};
}

// Where SPLIT, each head of Q has its own tiles, GROUPED or not, and adds to the dK and dV of a head of K
// and V. That head:
__device__ inline int head_of_keys(int head, const Sizes& z) { return SPLIT ? head / z.group : head; }

// The number of what is added up for a block of keys of a head of Q, and how many there are.
__device__ inline int split_part(const Keys& k, int blocks, const Sizes& z) {
  return (k.b * (z.H / z.group) + k.head / z.group) * blocks + k.block;
}

__device__ inline int split_parts(int blocks, const Sizes& z) { return z.B * (z.H / z.group) * blocks; }

// The block of keys, of a head of K and V.
__device__ inline Keys keys_of_part(int part, int blocks, const Sizes& z) {
  int heads = z.H / z.group, head = part / blocks;
  return {head / heads, head % heads, part % blocks};
}

// The blocks of ROWS queries that see a block of KEYS keys: for each head of the group, one after the
// other.
template <int KEYS, int ROWS>
struct Queries {
  int start, left, rest, g, m;

  // Without a mask, where programs add to one dQ, each block of keys begins elsewhere.
  __device__ Queries(int keys, bool apart, const Sizes& z) {
    int first = keys * KEYS / ROWS;
    start = CAUSAL ? first : 0;
    left = (z.blocks - start) * group_of(z);
    rest = z.blocks - start;
    g = 0;
    m = CAUSAL || !apart ? start : first;
  }

  // So many of them alone, from one on.
  __device__ void keep(int first, int count, const Sizes& z) {
    g = first / rest, m += first % rest, left = count;
    if (m >= z.blocks) m -= rest;
    rest -= first % rest;
  }

  __device__ void next(const Sizes& z) {
    left--;
    if (++m == z.blocks) m = start;
    if (GROUPED && --rest == 0) g++, rest = z.blocks - start;
  }
};

// --- Tiles ----------------------------------------------------------------------------------------

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

// Where a thread has its first four matrices, 16 by 16, of accumulators that are the columns of a tile.
__device__ inline u32 place_of_columns(u32 tile) {
  int lane = threadIdx.x % 32;
  return tile + (lane % 8 + lane / 16 * 8) * 128 + 16 * (threadIdx.x % 128 / 32 * 2 + lane / 8 % 2 ^ lane % 8);
}

// 64 rows of a warpgroup's accumulators in 16 bits, as a tile's columns.
template <int R>
__device__ inline void stage_columns(u32 stage, const float (&x)[R], float factor) {
  u32 to = place_of_columns(stage);
#pragma unroll
  for (int n = 0; n < R; n += 8) {
    u32 w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) w[e] = pack(x[n + 2 * e] * factor, x[n + 2 * e + 1] * factor);
    store_matrices_transposed(to + n * 2 * 128, w[0], w[1], w[2], w[3]);
  }
}

// One thread starts to store a tile of so many rows.
template <int ROWS = 64>
__device__ inline void store_tile(const TensorMap& map, u32 stage, int b, int h, int n) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) store_box(&map, stage + c * ROWS * 128, 64 * c, h, n, b);
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

// --- dQ as a sum in memory: parts of 64 queries and 64 columns, transposed where SWAPPED -----------

// What is done with each part from `first` on, so many at once, with a thread's accumulators and the
// part's number. The last one has LAST columns.
template <bool SWAPPED, int PARTS, int AT_ONCE, class Does>
__device__ inline void for_parts(Does does, int first = 0, int step = 1) {
  constexpr int WHOLE = SWAPPED || LAST == 64 ? PARTS : PARTS - 1;
#pragma unroll AT_ONCE
  for (int part = first; part < PARTS; part += step) {
    if (part < WHOLE) {
      float dq[32];
      does(dq, part);
    } else {
      float dq[LAST / 2];
      does(dq, part);
    }
  }
}

// A part of dQ from one block of keys, dS K or Kᵀ dSᵀ: Aᵀ B over N rows of two tiles.
template <int N, int R>
__device__ inline void multiply_lines(float (&x)[R], u32 a, u32 b) {
  Matrix left = matrix(a), right = matrix(b);
#pragma unroll
  for (int n = 0; n < N; n += 16) {
    if (n == 0) {
      mma_first<1, 1>(x, advanced(left, n * 128), advanced(right, n * 128));
    } else {
      mma<1, 1>(x, advanced(left, n * 128), advanced(right, n * 128));
    }
  }
}

// A part of a finished dQ in 16 bits, by way of shared memory.
template <bool SWAPPED, int R>
__device__ inline void store_dq(const TensorMap& map, const float (&dq)[R], u32 stage, int part, int b, int h, int n) {
  if (threadIdx.x % 128 == 0) wait_stores_read();
  sync_warpgroup(3);
  if (SWAPPED) {
    stage_columns(stage, dq, SCALE);
  } else {
    stage_rows(stage, dq, SCALE, SCALE);
  }
  fence_shared();
  sync_warpgroup(3);
  if (threadIdx.x % 128 == 0) {
    store_box(&map, stage, SWAPPED ? 0 : 64 * part, h, SWAPPED ? n + 64 * part : n, b);
    commit_stores();
  }
}

// Where a thread has its numbers of a part, 128 Fours apart.
__device__ inline Four* sum_of(Four* sums, long part) { return sums + part * (8 * 128) + threadIdx.x % 128; }

// Accumulators of which threads have left four after four there.
template <int R>
__device__ inline void load_kept(float (&x)[R], const Four* from) {
#pragma unroll
  for (int i = 0; i < R; i += 4) {
    Four f = from[32 * i];
    x[i] = f.x, x[i + 1] = f.y, x[i + 2] = f.z, x[i + 3] = f.w;
  }
}

// Leaves them there.
template <int R>
__device__ inline void keep(Four* to, const float (&x)[R]) {
#pragma unroll
  for (int i = 0; i < R; i += 4) to[32 * i] = {x[i], x[i + 1], x[i + 2], x[i + 3]};
}

// Adds them to what is there.
template <int R>
__device__ inline void add_part(Four* sum, const float (&x)[R]) {
#pragma unroll
  for (int i = 0; i < R; i += 4) add_in_memory(sum + 32 * i, {x[i], x[i + 1], x[i + 2], x[i + 3]});
}

// Zeros, by all programs of a kernel.
__device__ inline void write_zeros(Four* at, const Four* end) {
  for (at += blockIdx.x * 128L; at < end; at += gridDim.x * 128L) *at = {0, 0, 0, 0};
}

// Before any is added: Δ, and zeros in dQ. A program for a block.
template <int ROWS, int PARTS, bool SWAPPED, class Arguments>
__device__ inline void prepare_sums(const Arguments& a) {
  let_next_kernel_start();
  const Sizes& z = a.sizes;
  int bh = blockIdx.x / z.blocks, m = blockIdx.x % z.blocks, column = threadIdx.x % 8;
  for (int row = threadIdx.x / 8; row < ROWS; row += 16) {
    int n = m * ROWS + row;
    float sum = 0;
    if (n < z.N) {
      long from = (((long)(bh / z.H) * z.N + n) * z.H + bh % z.H) * HEAD_DIM;
      for (int d = 8 * column; d < HEAD_DIM; d += 64)
        sum += dot(*(const Words*)(a.o_at + from + d), *(const Words*)(a.do_at + from + d));
    }
    sum = sum_of_eight_lanes(sum);
    if (column == 0) a.delta[place_of(bh, n, z.padded)] = sum;
  }
  for_parts<SWAPPED, PARTS, PARTS>([&](auto& dq, int part) {
    for (float& x : dq) x = 0;
    keep(sum_of(a.sums, (long)blockIdx.x * PARTS + part), dq);
  });
}

// After all are added: dQ / √D of a block in 16 bits.
template <int ROWS, int PARTS, bool SWAPPED, class Arguments>
__device__ inline void finish_sums(const Arguments& a, int block) {
  const Sizes& z = a.sizes;
  int bh = block / z.blocks, m = block % z.blocks;
  for_parts<SWAPPED, PARTS, PARTS>([&](auto& dq, int part) {
    load_kept(dq, sum_of(a.sums, (long)block * PARTS + part));
    store_dq<SWAPPED>(a.dq, dq, shared_memory() + part * 64 * 128, part, bh / z.H, bh % z.H, m * ROWS);
  });
}
