// The backward pass on Hopper where dQ has a kernel of its own: Δ and dQ.
//
//     P = exp(S − lse),  Δ = rowsum(O ∘ dO),  dS = P ∘ (dO Vᵀ − Δ),  dQ = dS K / √D.
//
// A tile is 128 queries, 64 for each of two warpgroups, and blocks of keys go by. Nothing is added
// by two programs, so that the same bits come at each call. Then backward.cu computes dK and dV
// ALONE, or wide.cu.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int ROWS = 128;

struct Sizes {
  int B, N, H, group;  // group: G
  int tiles;           // B H ⌈N / ROWS⌉
  int together;        // heads side by side, where the longest tiles come first
  int padded;          // N up to a multiple of 128
};

struct Arguments {
  TensorMap q, k, v, dout, dq;
  Sizes sizes;
  const Half* o_at;  // (B, N, H, D)
  const float* lse;  // (B, H, padded) by `place_of`, of base 2
  float* delta;      // so too
  int* counter;      // of tiles
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 CHUNK_OF_KEYS = KEYS * 128, KEYS_BYTES = CHUNKS * CHUNK_OF_KEYS;
constexpr u32 Q_BYTES = CHUNKS * 64 * 128;  // of a warpgroup
constexpr u32 K = 0;
constexpr u32 V = K + K_STAGES * KEYS_BYTES;
constexpr u32 Q = V + V_STAGES * KEYS_BYTES;
constexpr u32 DO = Q + 2 * Q_BYTES;
constexpr u32 BARRIERS = DO + 2 * Q_BYTES;
constexpr u32 K_FULL = BARRIERS, K_EMPTY = K_FULL + 16, V_FULL = K_EMPTY + 16, V_EMPTY = V_FULL + 16;
constexpr u32 Q_FULL = V_EMPTY + 16, Q_EMPTY = Q_FULL + 16;
constexpr u32 TILE_FULL = Q_EMPTY + 16, TILE_EMPTY = TILE_FULL + 16, TILES = TILE_EMPTY + 16;

// --- The order of tiles -------------------------------------------------------------------------

struct Tile {
  int b, h, row;
};

__device__ inline Tile tile_at(int tile, const Sizes& z) {
  int blocks = (z.N + ROWS - 1) / ROWS;
  auto [bh, block] = block_at(tile, blocks, z.together);
  if (CAUSAL) block = blocks - 1 - block;  // the longest first
  return {bh / z.H, bh % z.H, block * ROWS};
}

// How many blocks of keys the queries before `end` see.
__device__ inline int key_blocks(int end, const Sizes& z) {
  int keys = CAUSAL && end < z.N ? end : z.N;
  return (keys + KEYS - 1) / KEYS;
}

__device__ inline bool is_next(Tile& tile, const Arguments& a, Turn<2>& turn, bool produces) {
  int number = take_number(a.counter, a.sizes.tiles, turn, TILE_FULL, TILE_EMPTY, TILES, produces);
  tile = tile_at(number, a.sizes);
  return number < a.sizes.tiles;
}

// --- Loads: one thread --------------------------------------------------------------------------

template <int STAGES>
__device__ inline void load_keys(const TensorMap& map, Turn<STAGES>& turn, u32 full, u32 empty, u32 buffers, int b,
                                 int h, int n) {
  turn.wait_empty(empty);
  arrive_expecting(turn.barrier(full), KEYS_BYTES);
  load_tile(map, turn.barrier(full), turn.buffer(buffers, KEYS_BYTES), CHUNK_OF_KEYS, b, h, n);
  turn.next();
}

__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<K_STAGES> k;
  Turn<V_STAGES> v;
  Turn<1> q;
  Turn<2> turn;
  Tile tile;
  for (; is_next(tile, a, turn, true); q.next()) {
#pragma unroll 1
    for (int c = 0; c < 2; c++) {
      u32 full = q.barrier(Q_FULL) + 8 * c, s = shared_memory() + c * Q_BYTES;
      wait(q.barrier(Q_EMPTY) + 8 * c, q.parity ^ 1);
      arrive_expecting(full, 2 * Q_BYTES);
      load_tile(a.q, full, s + Q, 64 * 128, tile.b, tile.h, tile.row + 64 * c);
      load_tile(a.dout, full, s + DO, 64 * 128, tile.b, tile.h, tile.row + 64 * c);
    }
#pragma unroll 1
    for (int j = key_blocks(tile.row + ROWS, z) - 1; j >= 0; j--) {
      load_keys(a.k, k, K_FULL, K_EMPTY, K, tile.b, tile.h / z.group, j * KEYS);
      load_keys(a.v, v, V_FULL, V_EMPTY, V, tile.b, tile.h / z.group, j * KEYS);
    }
  }
}

// --- Two warpgroups -----------------------------------------------------------------------------

// Δ of a warp's 16 rows: four at a time, by eight lanes each. A thread gets those of its two rows.
__device__ inline void sum_rows(float (&delta)[2], const Arguments& a, const Tile& tile, int first, u32 dout) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, column = lane % 8;
  long head = tile.b * z.H + tile.h;
  float sums[4];
#pragma unroll
  for (int step = 0; step < 4; step++) {
    int row = 16 * warp + 4 * step + lane / 8, n = first + row;
    float sum = 0;
    if (n < z.N) {
      const Half* out = a.o_at + (((long)tile.b * z.N + n) * z.H + tile.h) * HEAD_DIM;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++) {
        int at = 64 * c + 8 * column;
        if (at < HEAD_DIM)
          sum += dot(*(const Words*)(out + at), load_words(dout + c * 64 * 128 + row * 128 + 16 * (column ^ row % 8)));
      }
    }
    sums[step] = sum_of_eight_lanes(sum);
    if (column == 0) a.delta[place_of(head, n, z.padded)] = sums[step];
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float low = of_lane(sums[2 * r], lane / 4 % 4 * 8), high = of_lane(sums[2 * r + 1], lane / 4 % 4 * 8);
    delta[r] = lane / 16 ? high : low;
  }
}

// Warpgroup c: queries 64 c to 64 c + 63 of each tile.
__device__ inline void keep_queries(const Arguments& a, int c) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  u32 queries = shared_memory() + Q + c * Q_BYTES, dout = shared_memory() + DO + c * Q_BYTES;
  Turn<K_STAGES> k;
  Turn<V_STAGES> v;
  Turn<1> q;
  Turn<2> turn;
  Tile tile;
  for (; is_next(tile, a, turn, false); q.next()) {
    int first_row = tile.row + 64 * c, row = first_row + 16 * warp + lane / 4;
    int n = key_blocks(tile.row + ROWS, z);
    for (int own = key_blocks(first_row + 64, z); n > own; n--) {  // blocks that only later rows see
      k.wait_full(K_FULL), k.release(K_EMPTY), k.next();
      v.wait_full(V_FULL), v.release(V_EMPTY), v.next();
    }
    float lse[2], delta[2];
#pragma unroll
    for (int r = 0; r < 2; r++) lse[r] = a.lse[place_of(tile.b * z.H + tile.h, row + 8 * r, z.padded)];
    wait(q.barrier(Q_FULL) + 8 * c, q.parity);
    sum_rows(delta, a, tile, first_row, dout);
    float dq[D / 2] = {};  // (64, D)
    for (int j = n - 1; j >= 0; j--) {
      float s[KEYS / 2], dp[KEYS / 2];
      k.wait_full(K_FULL);
      begin_products();
      multiply_rows(s, queries, 64 * 128, k.buffer(K, KEYS_BYTES));  // S (64, KEYS)
      commit_products();
      v.wait_full(V_FULL);
      begin_products();
      multiply_rows(dp, dout, 64 * 128, v.buffer(V, KEYS_BYTES));  // dP (64, KEYS)
      commit_products();
      wait_products<1>();
      hold(s);
      if ((j + 1) * KEYS > (CAUSAL ? first_row : z.N)) hide_keys(s, row, j * KEYS, z.N);
#pragma unroll
      for (int i = 0; i < KEYS / 2; i++) s[i] = exp2(s[i] * SCALE_LOG2 - lse[i / 2 % 2]);  // P (64, KEYS)
      wait_products<0>();
      hold(dp);
      v.release(V_EMPTY), v.next();
      u32 ds[KEYS / 4];  // dS (64, KEYS) in 16 bits
#pragma unroll
      for (int i = 0; i < KEYS / 4; i++)
        ds[i] = pack(s[2 * i] * (dp[2 * i] - delta[i % 2]), s[2 * i + 1] * (dp[2 * i + 1] - delta[i % 2]));
      begin_products();
      multiply_columns(dq, ds, k.buffer(K, KEYS_BYTES));
      commit_products();
      wait_products<0>();
      hold(dq);
      k.release(K_EMPTY), k.next();
    }
    sync_warpgroup(1 + c);  // Q is not needed any more
    stage_rows(queries, dq, SCALE, SCALE);
    fence_shared();
    sync_warpgroup(1 + c);
    if (threadIdx.x % 128 == 0) {
      store_tile(a.dq, queries, tile.b, tile.h, first_row);
      wait_stores_read();
      arrive(q.barrier(Q_EMPTY) + 8 * c);
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) queries(const __grid_constant__ Arguments a) {
  if (threadIdx.x == 0) {
    u32 s = shared_memory();
    for (int x = 0; x < 2; x++) {
      init_barrier(s + K_FULL + 8 * x, 1), init_barrier(s + K_EMPTY + 8 * x, 8);
      init_barrier(s + V_FULL + 8 * x, 1), init_barrier(s + V_EMPTY + 8 * x, 8);
      init_barrier(s + Q_FULL + 8 * x, 1), init_barrier(s + Q_EMPTY + 8 * x, 1);
      init_barrier(s + TILE_FULL + 8 * x, 1), init_barrier(s + TILE_EMPTY + 8 * x, 8);
    }
    fence_barriers();
  }
  sync_block();
  int group = uniform(threadIdx.x / 128);
  if (group == 0) {
    shrink_registers<24>();
    if (threadIdx.x == 0) produce(a);
  } else {
    grow_registers<240>();
    keep_queries(a, group - 1);
  }
}
