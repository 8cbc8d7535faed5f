// The backward pass on Hopper: dQ, dK and dV from dO, in one kernel.
//
// With P = exp(S − lse), dP = dO Vᵀ and Δ = rowsum(O ∘ dO), which is what softmax takes away again:
//
//     dV = Pᵀ dO,  dS = P ∘ (dP − Δ),  dK = dSᵀ Q / √D,  dQ = dS K / √D.
//
// A block of 128 keys stays while blocks of ROWS queries go by. Four warpgroups: the first loads;
// two have 64 keys each, and compute Pᵀ, dSᵀ, dV and dK; the last has dQ, for which it takes the dS
// of both. It sums a block's dQ up over the blocks of keys in memory, in one of two ways:
//
// - OWN: a program has all blocks of keys of a head, one after the other, and with them all that
//   is added to its dQ. So the sum stays in the L2 cache, needs no zeros before and no pass after,
//   and comes out the same at each call. Δ is computed on the way.
// - otherwise a program has one block of keys at a time, and all add to one dQ in memory, in
//   whatever order. `prepare` computes Δ and writes the zeros, `finish` rounds dQ.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int KEYS = 128;
constexpr bool SWAPPED = ROWS == 128;  // dQᵀ = Kᵀ dSᵀ in place of dQ = dS K
constexpr int DQ_PASSES = (SWAPPED ? ROWS : 64 * CHUNKS) / 64;  // 64 queries (SWAPPED) or columns at a time
constexpr int DQ_PARTS = 8;            // of four numbers in each of 128 threads, of a pass
static_assert(!SWAPPED || D <= 64, "the columns of dQ are the rows of one product");
constexpr float SCALE_LOG2 = SCALE * 1.4426950408889634f;

struct Sizes {
  int B, N, H, heads;  // of keys and values: B * H / G
  int group;           // G
  int blocks;          // of queries: ⌈N / ROWS⌉
  int together;        // heads side by side, where the longest tiles come first
  int lse_stride;
};

struct Arguments {
  TensorMap q, k, v, dout, dq, dk, dv;
  Sizes sizes;
  const Half* out;    // (B, N, H, D)
  const Half* grad;   // (B, N, H, D)
  const float* lse;   // (B H, N), rows lse_stride apart, of base 2
  float* rows;        // lse and Δ as `stats_place` orders them, (2, B H, blocks, ROWS), unless OWN
  Four* sums;         // dQ so far, a block's as threads hold it
  int* counter;       // of tiles, 0 at launch, unless OWN
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 CHUNK_OF_KEYS = KEYS * 128, CHUNK_OF_ROWS = ROWS * 128;
constexpr u32 KEYS_BYTES = CHUNKS * CHUNK_OF_KEYS, ROWS_BYTES = CHUNKS * CHUNK_OF_ROWS;
constexpr u32 DS_BYTES = ROWS / 64 * CHUNK_OF_KEYS, STAGE_BYTES = CHUNKS * 64 * 128;
constexpr u32 K = 0;
constexpr u32 V = K + K_STAGES * KEYS_BYTES;
constexpr u32 Q = V + KEYS_BYTES;
constexpr u32 DO = Q + Q_STAGES * ROWS_BYTES;
constexpr u32 DS = DO + 2 * ROWS_BYTES;    // dSᵀ
constexpr u32 STAGE = DS + 2 * DS_BYTES;   // dK or dV of a warpgroup on their way out
constexpr u32 DQ_STAGE = STAGE + 2 * STAGE_BYTES;
constexpr u32 BARRIERS = DQ_STAGE + (OWN ? ROWS_BYTES : 0);
constexpr u32 K_FULL = BARRIERS, K_EMPTY = K_FULL + 16, V_FULL = K_EMPTY + 16, V_EMPTY = V_FULL + 16;
constexpr u32 DO_FULL = V_EMPTY + 16, DO_EMPTY = DO_FULL + 16, DS_FULL = DO_EMPTY + 16;
constexpr u32 DS_EMPTY = DS_FULL + 16, STATS_FULL = DS_EMPTY + 16;
constexpr u32 TILE_FULL = STATS_FULL + 16, TILE_EMPTY = TILE_FULL + 16, TILES = TILE_EMPTY + 16;
constexpr u32 Q_FULL = TILES + 16, Q_EMPTY = Q_FULL + 32;
constexpr u32 STATS = BARRIERS + 256;      // lse and Δ: of a head and two blocks where OWN, else a ring
constexpr u32 STATS_BYTES = ROWS * 4;

// Where query n of a block has its lse and Δ: a thread's four of 16 lie side by side.
__device__ inline int stats_place(int n) { return n / 16 * 16 + n % 8 / 2 * 4 + n / 8 % 2 * 2 + n % 2; }

// --- Who does what, in which order --------------------------------------------------------------

// A head of K and V, and the blocks of keys of it that are taken one after the other.
struct Tile {
  int b, head, first_keys, end_keys;
};

__device__ inline int key_blocks(const Sizes& z) { return (z.N + KEYS - 1) / KEYS; }

__device__ inline int tiles_of(const Sizes& z) { return OWN ? z.heads : z.heads * key_blocks(z); }

__device__ inline Tile tile_at(int tile, const Sizes& z) {
  int heads = z.H / z.group, bh = tile, first = 0, end = key_blocks(z);
  if (!OWN) {
    if (CAUSAL) {  // the longest of some heads first
      int side = z.together * end, place = tile % side;
      bh = tile / side * z.together + place % z.together;
      first = place / z.together;
    } else {
      bh = tile / end;
      first = tile % end;
    }
    end = first + 1;
  }
  return {bh / heads, bh % heads, first, end};
}

// The blocks of queries that see a block of keys, for each head of the group.
struct Queries {
  int start, left, rest, g, m;

  __device__ Queries(int keys, const Sizes& z) {
    start = CAUSAL ? keys * (KEYS / ROWS) : 0;
    left = (z.blocks - start) * z.group;
    rest = z.blocks - start;
    g = 0;
    // Without a mask each block of keys begins elsewhere, so that they add to dQ at different places.
    m = CAUSAL || OWN ? start : keys * (KEYS / ROWS);
  }

  __device__ void next(const Sizes& z) {
    left--;
    if (++m == z.blocks) m = start;
    if (--rest == 0) g++, rest = z.blocks - start;
  }
};

// The next tile. OWN, tiles are alike and go round; else the producer takes them from a counter.
__device__ inline int next_tile(const Arguments& a, Turn<2>& turn, int before, bool produces) {
  if (OWN) return before < 0 ? blockIdx.x : before + gridDim.x;
  int tile;
  if (produces) {
    tile = take_ticket(a.counter);
    turn.wait_empty(TILE_EMPTY);
    store_word(turn.buffer(TILES, 8), tile);
    arrive(turn.barrier(TILE_FULL));
  } else {
    turn.wait_full(TILE_FULL);
    tile = load_word(turn.buffer(TILES, 8));
    turn.release(TILE_EMPTY);
  }
  turn.next();
  return tile;
}

// --- Loads --------------------------------------------------------------------------------------

// One thread: K and V of each block of keys, and the queries with dO that go by.
__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  constexpr u32 MORE = OWN ? 0 : STATS_BYTES;
  Turn<2> turn, d;
  Turn<Q_STAGES> i;
  Turn<K_STAGES> k;
  Turn<1> v;
  for (int number = -1;;) {
    number = next_tile(a, turn, number, true);
    if (number >= tiles_of(z)) return;
    Tile tile = tile_at(number, z);
    for (int keys = tile.first_keys; keys < tile.end_keys; keys++, k.next(), v.next()) {
      bool first = true;
      for (Queries q(keys, z); q.left > 0; q.next(z), i.next(), d.next(), first = false) {
        int h = tile.head * z.group + q.g, n = q.m * ROWS;
        long block = (long)(tile.b * z.H + h) * z.blocks + q.m;
        const float* lse = a.rows + block * ROWS;
        if (first) {
          k.wait_empty(K_EMPTY);
          arrive_expecting(k.barrier(K_FULL), KEYS_BYTES);
          load_tile(a.k, k.barrier(K_FULL), k.buffer(K, KEYS_BYTES), CHUNK_OF_KEYS, tile.b, tile.head, keys * KEYS);
        }
        i.wait_empty(Q_EMPTY);
        arrive_expecting(i.barrier(Q_FULL), ROWS_BYTES + MORE);
        load_tile(a.q, i.barrier(Q_FULL), i.buffer(Q, ROWS_BYTES), CHUNK_OF_ROWS, tile.b, h, n);
        if (!OWN) load_values(lse, i.barrier(Q_FULL), i.buffer(STATS, STATS_BYTES), STATS_BYTES);
        if (first) {
          v.wait_empty(V_EMPTY);
          arrive_expecting(v.barrier(V_FULL), KEYS_BYTES);
          load_tile(a.v, v.barrier(V_FULL), v.buffer(V, KEYS_BYTES), CHUNK_OF_KEYS, tile.b, tile.head, keys * KEYS);
        }
        d.wait_empty(DO_EMPTY);
        arrive_expecting(d.barrier(DO_FULL), ROWS_BYTES + MORE);
        load_tile(a.dout, d.barrier(DO_FULL), d.buffer(DO, ROWS_BYTES), CHUNK_OF_ROWS, tile.b, h, n);
        if (!OWN) {
          const float* delta = lse + (long)z.B * z.H * z.blocks * ROWS;
          load_values(delta, d.barrier(DO_FULL), d.buffer(STATS + Q_STAGES * STATS_BYTES, STATS_BYTES), STATS_BYTES);
        }
      }
    }
  }
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

constexpr int HELPERS = 3;  // warps

// How many blocks of lse and Δ are in shared memory where OWN: those of a head, and two more, since
// the next head's first two come while the last two of this one are read.
__device__ inline int stats_blocks(const Sizes& z) { return z.blocks * z.group + 2; }

// Where OWN: Δ of each block of queries when it goes by for the first time, from dO in shared
// memory and O in memory; with lse it stays in shared memory for the other blocks of keys.
__device__ inline void sum_rows(const Arguments& a, int warp) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, column = lane % 8;
  int capacity = stats_blocks(z), slot = 0;
  Turn<2> turn, d, stats;
  for (int number = -1;;) {
    number = next_tile(a, turn, number, false);
    if (number >= tiles_of(z)) return;
    Tile tile = tile_at(number, z);
    for (int keys = tile.first_keys; keys < tile.end_keys; keys++) {
      for (Queries q(keys, z); q.left > 0; q.next(z), d.next()) {
        d.wait_full(DO_FULL);
        if (keys > 0) {
          d.release(DO_EMPTY);
          continue;
        }
        int h = tile.head * z.group + q.g;
        u32 lse = shared_memory() + STATS + slot * STATS_BYTES, delta = lse + capacity * STATS_BYTES;
        slot = slot + 1 == capacity ? 0 : slot + 1;
        for (int row = 4 * warp + lane / 8; row < ROWS; row += 4 * HELPERS) {
          int n = q.m * ROWS + row;
          float sum = 0;
          if (n < z.N) {
            const Half* out = a.out + (((long)tile.b * z.N + n) * z.H + h) * HEAD_DIM;
            u32 dout = d.buffer(DO, ROWS_BYTES) + row * 128 + 16 * (column ^ row % 8);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
              int at = 64 * c + 8 * column;
              if (at < HEAD_DIM) sum += dot(*(const Words*)(out + at), load_words(dout + c * CHUNK_OF_ROWS));
            }
          }
          sum = sum_of_eight_lanes(sum);
          if (column == 0) {
            float of_row = n < z.N ? a.lse[(long)(tile.b * z.H + h) * z.lse_stride + n] : 0;
            store_word(delta + stats_place(row) * 4, bits(sum));
            store_word(lse + stats_place(row) * 4, bits(of_row));
          }
        }
        d.release(DO_EMPTY);
        stats.release(STATS_FULL);
        stats.next();
      }
    }
  }
}

// --- Two warpgroups: P, dS, dK and dV -----------------------------------------------------------

// x = A Bᵀ over D: 64 rows of one tile, ROWS of another.
__device__ inline void multiply_rows(float (&x)[ROWS / 2], u32 rows, u32 others) {
  Matrix left = matrix(rows), right = matrix(others);
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    u64 a = advanced(left, d / 64 * CHUNK_OF_KEYS + d % 64 * 2), b = advanced(right, d / 64 * CHUNK_OF_ROWS + d % 64 * 2);
    if (d == 0) {
      mma_first<0, 0>(x, a, b);
    } else {
      mma<0, 0>(x, a, b);
    }
  }
}

// x += A B: 64 rows in registers, as `multiply_rows` leaves them, times a tile.
__device__ inline void multiply_columns(float (&x)[D / 2], const u32 (&rows)[ROWS / 4], u32 tile) {
  Matrix right = matrix(tile, CHUNK_OF_ROWS);
#pragma unroll
  for (int n = 0; n < ROWS; n += 16) {
    mma<1>(x, rows[n / 4], rows[n / 4 + 1], rows[n / 4 + 2], rows[n / 4 + 3], advanced(right, n * 128));
  }
}

// A warpgroup's 64 rows of dK or dV on their way to memory.
__device__ inline void store_rows(const TensorMap& map, const float (&x)[D / 2], float scale, int c, int b, int head,
                                  int n) {
  int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane % 16;
  bool one = threadIdx.x % 128 == 0;
  u32 stage = shared_memory() + STAGE + c * STAGE_BYTES, to = stage + row * 128 + 16 * (lane / 16 ^ row % 8);
  if (one) wait_stores_read();
  sync_warpgroup(1 + c);
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    const float* y = x + d / 2;
    store_matrices((to ^ d % 64 * 2) + d / 64 * 64 * 128, pack(y[0] * scale, y[1] * scale),
                   pack(y[2] * scale, y[3] * scale), pack(y[4] * scale, y[5] * scale), pack(y[6] * scale, y[7] * scale));
  }
  fence_shared();
  sync_warpgroup(1 + c);
  if (one) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) store_box(&map, stage + chunk * 64 * 128, 64 * chunk, head, n, b);
    commit_stores();
  }
}

// Warpgroup c: keys 64 c to 64 c + 63 of each block.
__device__ inline void keep_keys(const Arguments& a, int c) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, row = 64 * c + threadIdx.x % 128 / 32 * 16;
  u32 to_ds = shared_memory() + DS + (row + lane % 16) * 128 + 16 * (lane / 16 ^ lane % 8);
  u32 from_stats = shared_memory() + STATS + lane % 4 * 16;
  int capacity = OWN ? stats_blocks(z) : 0, base = 0;
  Turn<2> turn, d, stats;
  Turn<Q_STAGES> i;
  Turn<K_STAGES> ring_k;
  Turn<1> ring_v;
  for (int number = -1;;) {
    number = next_tile(a, turn, number, false);
    if (number >= tiles_of(z)) break;
    Tile tile = tile_at(number, z);
    for (int keys = tile.first_keys; keys < tile.end_keys; keys++, ring_k.next(), ring_v.next()) {
      u32 k = ring_k.buffer(K, KEYS_BYTES) + c * 64 * 128, v = ring_v.buffer(V, KEYS_BYTES) + c * 64 * 128;
      float dk[D / 2] = {}, dv[D / 2] = {};  // (64, D)
      ring_k.wait_full(K_FULL);
      ring_v.wait_full(V_FULL);
      for (Queries q(keys, z); q.left > 0; q.next(z), i.next(), d.next()) {
        float scores[ROWS / 2], dp[ROWS / 2];
        u32 dout = d.buffer(DO, ROWS_BYTES), queries = i.buffer(Q, ROWS_BYTES);
        i.wait_full(Q_FULL);
        begin_products();
        multiply_rows(scores, k, queries);  // Sᵀ (64, ROWS)
        commit_products();
        if (!LATE_DP) {
          d.wait_full(DO_FULL);
          begin_products();
          multiply_rows(dp, v, dout);  // dPᵀ (64, ROWS)
          commit_products();
          wait_products<1>();
        } else {
          wait_products<0>();
        }
        hold(scores);
        u32 lse, delta;
        if (OWN) {
          if (keys == 0) {
            stats.wait_full(STATS_FULL);
            stats.next();
          }
          int slot = base + q.g * z.blocks + q.m;
          lse = from_stats + (slot >= capacity ? slot - capacity : slot) * STATS_BYTES;
          delta = lse + capacity * STATS_BYTES;
        } else {
          lse = from_stats + i.slot * STATS_BYTES;
          delta = from_stats + (Q_STAGES + d.slot) * STATS_BYTES;
        }
        // A thread has rows lane / 4 and lane / 4 + 8 of its warp's 16, and two of every 8 columns.
        if (CAUSAL && q.m * ROWS < (keys + 1) * KEYS || (keys + 1) * KEYS > z.N) {
          int key = keys * KEYS + row + lane / 4;
          int first = CAUSAL ? key - q.m * ROWS - lane % 4 * 2 : -KEYS;  // of the columns that see it
          int low = key < z.N ? first : ROWS, high = key + 8 < z.N ? first + 8 : ROWS;
#pragma unroll
          for (int n = 0; n < ROWS / 2; n++) {
            if (n / 4 * 8 + n % 2 < (n % 4 < 2 ? low : high)) scores[n] = -INFINITE;
          }
        }
        u32 p[ROWS / 4];  // Pᵀ (64, ROWS) in 16 bits
#pragma unroll
        for (int n = 0; n < ROWS; n += 16) {
          const float* x = scores + n / 2;
          Four l = load_four(lse + n * 4);
          p[n / 4] = pack(exp2(x[0] * SCALE_LOG2 - l.x), exp2(x[1] * SCALE_LOG2 - l.y));
          p[n / 4 + 1] = pack(exp2(x[2] * SCALE_LOG2 - l.x), exp2(x[3] * SCALE_LOG2 - l.y));
          p[n / 4 + 2] = pack(exp2(x[4] * SCALE_LOG2 - l.z), exp2(x[5] * SCALE_LOG2 - l.w));
          p[n / 4 + 3] = pack(exp2(x[6] * SCALE_LOG2 - l.z), exp2(x[7] * SCALE_LOG2 - l.w));
        }
        if (LATE_DP) {
          d.wait_full(DO_FULL);
          begin_products();
          multiply_rows(dp, v, dout);
          commit_products();
        }
        begin_products();
        multiply_columns(dv, p, dout);
        commit_products();
        wait_products<1>();
        hold(dp);
        // P again from its 16 bits: to keep it in 32 beside dP would take too many registers.
        u32 ds[ROWS / 4];  // dSᵀ (64, ROWS) in 16 bits
#pragma unroll
        for (int n = 0; n < ROWS; n += 16) {
          const float* x = dp + n / 2;
          const u32* y = p + n / 4;
          Four t = load_four(delta + n * 4);
          ds[n / 4] = pack(lower(y[0]) * (x[0] - t.x), upper(y[0]) * (x[1] - t.y));
          ds[n / 4 + 1] = pack(lower(y[1]) * (x[2] - t.x), upper(y[1]) * (x[3] - t.y));
          ds[n / 4 + 2] = pack(lower(y[2]) * (x[4] - t.z), upper(y[2]) * (x[5] - t.w));
          ds[n / 4 + 3] = pack(lower(y[3]) * (x[6] - t.z), upper(y[3]) * (x[7] - t.w));
        }
        d.wait_empty(DS_EMPTY);
#pragma unroll
        for (int n = 0; n < ROWS; n += 16) {
          u32 to = to_ds + d.slot * DS_BYTES + n / 64 * CHUNK_OF_KEYS;
          store_matrices(to ^ n % 64 * 2, ds[n / 4], ds[n / 4 + 1], ds[n / 4 + 2], ds[n / 4 + 3]);
        }
        fence_shared();
        d.release(DS_FULL);
        begin_products();
        multiply_columns(dk, ds, queries);
        commit_products();
        wait_products<1>();
        hold(dv);
        d.release(DO_EMPTY);
        wait_products<0>();
        hold(dk);
        i.release(Q_EMPTY);
      }
      ring_v.release(V_EMPTY);
      ring_k.release(K_EMPTY);
      int n = keys * KEYS + 64 * c;
      store_rows(a.dv, dv, 1, c, tile.b, tile.head, n);
      store_rows(a.dk, dk, SCALE, c, tile.b, tile.head, n);
    }
    base += z.blocks * z.group;
    if (base >= capacity) base -= capacity;
  }
  wait_stores_read();
}

// --- A warpgroup: dQ ----------------------------------------------------------------------------

// A pass of dQ of a block of queries from one block of keys: dS K or Kᵀ dSᵀ, (64, 64).
__device__ inline void multiply_ds(float (&dq)[32], u32 ds, u32 k) {
  Matrix by_rows = matrix(ds, CHUNK_OF_KEYS), keys = matrix(k, CHUNK_OF_KEYS);
#pragma unroll
  for (int n = 0; n < KEYS; n += 16) {
    u64 left = advanced(SWAPPED ? keys : by_rows, n * 128), right = advanced(SWAPPED ? by_rows : keys, n * 128);
    if (n == 0) {
      mma_first<1, 1>(dq, left, right);
    } else {
      mma<1, 1>(dq, left, right);
    }
  }
}

// Queries or columns `first` and on of a finished dQ, in 16 bits.
__device__ inline void stage_dq(u32 stage, const float (&dq)[32], int first) {
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
#pragma unroll
  for (int x = 0; x < 64; x += 16) {
    const float* y = dq + x / 2;
    u32 w[4];
#pragma unroll
    for (int e = 0; e < 4; e++) w[e] = pack(y[2 * e] * SCALE, y[2 * e + 1] * SCALE);
    if (SWAPPED) {  // 16 columns of the warp, 16 queries
      int row = first + x + lane % 8 + lane / 16 * 8, column = 2 * warp + lane / 8 % 2;
      store_matrices_transposed(stage + row * 128 + 16 * (column ^ row % 8), w[0], w[1], w[2], w[3]);
    } else {
      int row = 16 * warp + lane % 16, column = x / 8 + lane / 16;
      store_matrices(stage + first / 64 * CHUNK_OF_ROWS + row * 128 + 16 * (column ^ row % 8), w[0], w[1], w[2], w[3]);
    }
  }
}

__device__ inline void store_staged_dq(u32 stage, const TensorMap& map, int b, int h, int n) {
  fence_shared();
  sync_warpgroup(3);
  if (threadIdx.x % 128 == 0) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) store_box(&map, stage + chunk * CHUNK_OF_ROWS, 64 * chunk, h, n, b);
    commit_stores();
  }
}

__device__ inline void sum_dq(const Arguments& a) {
  const Sizes& z = a.sizes;
  u32 stage = shared_memory() + DQ_STAGE;
  Turn<2> turn, d;
  Turn<K_STAGES> ring_k;
  for (int number = -1;;) {
    number = next_tile(a, turn, number, false);
    if (number >= tiles_of(z)) break;
    Tile tile = tile_at(number, z);
    for (int keys = tile.first_keys; keys < tile.end_keys; keys++, ring_k.next()) {
      ring_k.wait_full(K_FULL);
      for (Queries q(keys, z); q.left > 0; q.next(z), d.next()) {
        int h = tile.head * z.group + q.g;
        long block = OWN ? (long)(blockIdx.x * z.group + q.g) : (long)(tile.b * z.H + h);
        Four* sum = a.sums + (block * z.blocks + q.m) * (DQ_PASSES * DQ_PARTS * 128) + threadIdx.x % 128;
        bool begins = OWN && keys == 0, ends = OWN && keys == (CAUSAL ? q.m * ROWS / KEYS : key_blocks(z) - 1);
        if (ends) {
          if (threadIdx.x % 128 == 0) wait_stores_read();
          sync_warpgroup(3);
        }
        d.wait_full(DS_FULL);
#pragma unroll 1
        for (int pass = 0; pass < DQ_PASSES; pass++, sum += DQ_PARTS * 128) {
          u32 ds = d.buffer(DS, DS_BYTES) + (SWAPPED ? pass * CHUNK_OF_KEYS : 0);
          u32 k = ring_k.buffer(K, KEYS_BYTES) + (SWAPPED ? 0 : pass * CHUNK_OF_KEYS);
          float dq[32];
          begin_products();
          multiply_ds(dq, ds, k);
          commit_products();
          wait_products<0>();
          hold(dq);
          if (pass == DQ_PASSES - 1) {
            if (q.left == 1) ring_k.release(K_EMPTY);
            d.release(DS_EMPTY);
          }
          if (ends) {
#pragma unroll
            for (int x = 0; x < DQ_PARTS && !begins; x++) {
              Four f = load_past_l1(sum + 128 * x);
              dq[4 * x] += f.x, dq[4 * x + 1] += f.y, dq[4 * x + 2] += f.z, dq[4 * x + 3] += f.w;
            }
            stage_dq(stage, dq, pass * 64);
          } else {
#pragma unroll
            for (int x = 0; x < DQ_PARTS; x++) {
              Four f = {dq[4 * x], dq[4 * x + 1], dq[4 * x + 2], dq[4 * x + 3]};
              if (begins) {
                sum[128 * x] = f;
              } else {
                add_in_memory(sum + 128 * x, f);
              }
            }
          }
        }
        if (ends) store_staged_dq(stage, a.dq, tile.b, h, q.m * ROWS);
      }
    }
  }
  if (threadIdx.x % 128 == 0) wait_stores_read();
}

// --- The kernels --------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(512, 1) backward(const __grid_constant__ Arguments a) {
  if (threadIdx.x == 0) {
    u32 s = shared_memory();
    for (int x = 0; x < 2; x++) {
      init_barrier(s + K_FULL + 8 * x, 1), init_barrier(s + K_EMPTY + 8 * x, 12);
      init_barrier(s + V_FULL + 8 * x, 1), init_barrier(s + V_EMPTY + 8 * x, 8);
      init_barrier(s + DO_FULL + 8 * x, 1), init_barrier(s + DO_EMPTY + 8 * x, OWN ? 8 + HELPERS : 8);
      init_barrier(s + DS_FULL + 8 * x, 8), init_barrier(s + DS_EMPTY + 8 * x, 4);
      init_barrier(s + STATS_FULL + 8 * x, HELPERS);
      init_barrier(s + TILE_FULL + 8 * x, 1), init_barrier(s + TILE_EMPTY + 8 * x, 12);
    }
    for (int x = 0; x < Q_STAGES; x++) init_barrier(s + Q_FULL + 8 * x, 1), init_barrier(s + Q_EMPTY + 8 * x, 8);
    fence_barriers();
  }
  sync_block();
  int group = uniform(threadIdx.x / 128), warp = uniform(threadIdx.x / 32);
  if (group == 0) {
    shrink_registers<PRODUCER_REGISTERS>();
    if (threadIdx.x == 0) produce(a);
    if (OWN && warp > 0) sum_rows(a, warp - 1);
  } else if (group == 3) {
    shrink_registers<DQ_REGISTERS>();
    sum_dq(a);
  } else {
    grow_registers<KEYS_REGISTERS>();
    keep_keys(a, group - 1);
  }
}

// Where not OWN. Δ and lse as the products take them, and zeros in dQ. A program for a block.
extern "C" __global__ void __launch_bounds__(128) prepare(const __grid_constant__ Arguments a) {
  const Sizes& z = a.sizes;
  int bh = blockIdx.x / z.blocks, m = blockIdx.x % z.blocks, column = threadIdx.x % 8;
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.counter = 0;
  float* lse = a.rows + (long)blockIdx.x * ROWS;
  float* delta = lse + (long)z.B * z.H * z.blocks * ROWS;
  for (int row = threadIdx.x / 8; row < ROWS; row += 16) {
    int n = m * ROWS + row;
    float sum = 0;
    if (n < z.N) {
      long from = (((long)(bh / z.H) * z.N + n) * z.H + bh % z.H) * HEAD_DIM;
      for (int d = 8 * column; d < HEAD_DIM; d += 64)
        sum += dot(*(const Words*)(a.out + from + d), *(const Words*)(a.grad + from + d));
    }
    sum = sum_of_eight_lanes(sum);
    if (column == 0) {
      delta[stats_place(row)] = sum;
      lse[stats_place(row)] = n < z.N ? a.lse[(long)bh * z.lse_stride + n] : 0;
    }
  }
  Four* sum = a.sums + (long)blockIdx.x * (DQ_PASSES * DQ_PARTS * 128) + threadIdx.x;
  for (int x = 0; x < DQ_PASSES * DQ_PARTS; x++) sum[128 * x] = {0, 0, 0, 0};
}

// Where not OWN: dQ / √D in 16 bits. A program for a block.
extern "C" __global__ void __launch_bounds__(128) finish(const __grid_constant__ Arguments a) {
  const Sizes& z = a.sizes;
  int bh = blockIdx.x / z.blocks, m = blockIdx.x % z.blocks;
  const Four* sum = a.sums + (long)blockIdx.x * (DQ_PASSES * DQ_PARTS * 128) + threadIdx.x;
#pragma unroll
  for (int pass = 0; pass < DQ_PASSES; pass++, sum += DQ_PARTS * 128) {
    float dq[32];
#pragma unroll
    for (int x = 0; x < DQ_PARTS; x++) {
      Four f = sum[128 * x];
      dq[4 * x] = f.x, dq[4 * x + 1] = f.y, dq[4 * x + 2] = f.z, dq[4 * x + 3] = f.w;
    }
    stage_dq(shared_memory(), dq, pass * 64);
  }
  store_staged_dq(shared_memory(), a.dq, bh / z.H, bh % z.H, m * ROWS);
  if (threadIdx.x == 0) wait_stores_read();
}
