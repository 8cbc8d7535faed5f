// The backward pass on Hopper where dQ has a kernel of its own: Δ and dQ.
//
//     P = exp(S − lse),  Δ = rowsum(O ∘ dO),  dS = P ∘ (dO Vᵀ − Δ),  dQ = dS K / √D.
//
// A tile is 128 queries, 64 for each of two warpgroups, and blocks of keys go by. Nothing is added
// by two programs, so that the same bits come at each call. Then backward.cu computes dK and dV
// ALONE, or wide.cu without dQ.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int ROWS = 128;

struct Arguments {
  TensorMap q, k, v, dout, dq;
  Sizes sizes;
  const Half* o_at;  // (B, N, H, D)
  const float* lse;  // (B, H, padded) by `place_of`, of base 2
  float* delta;      // so too
  int* counter;      // of tiles
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 KEYS_BYTES = CHUNKS * KEYS * 128, Q_BYTES = CHUNKS * 64 * 128;
constexpr u32 V_AT = K_STAGES * KEYS_BYTES, Q_AT = V_AT + V_STAGES * KEYS_BYTES, DO_AT = Q_AT + 2 * Q_BYTES;
using K = Ring<K_STAGES, KEYS_BYTES, 0, DO_AT + 2 * Q_BYTES, 8>;
using V = Ring<V_STAGES, KEYS_BYTES, V_AT, K::END, 8>;
using Q = Ring<2, Q_BYTES, Q_AT, V::END, 1>;  // a warpgroup's each; dQ leaves from here
using DO = Ring<2, Q_BYTES, DO_AT, V::END, 1>;  // comes with Q
using Tiles = Numbers<Q::END, 8>;

// --- Loads: one thread --------------------------------------------------------------------------

__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<K_STAGES> k;
  Turn<V_STAGES> v;
  Turn<2> q;
  Tiles tiles;
  for (int number; (number = tiles.take(a.counter, z)) < z.tiles; tiles.ask(a.counter)) {
    auto [b, h, row] = rows_at(number, ROWS, z);
#pragma unroll 1
    for (int c = 0; c < 2; c++, q.next()) {
      q.expect<Q>(Q_BYTES);
      q.load<Q>(a.q, b, h, row + 64 * c);
      q.load<DO>(a.dout, b, h, row + 64 * c);
    }
#pragma unroll 1
    for (int j = blocks_seen(row + ROWS, KEYS, z) - 1; j >= 0; j--, k.next(), v.next()) {
      k.expect<K>();
      k.load<K>(a.k, b, h / z.group, j * KEYS);
      v.expect<V>();
      v.load<V>(a.v, b, h / z.group, j * KEYS);
    }
  }
}

// --- Two warpgroups -----------------------------------------------------------------------------

// Δ of a warp's 16 rows: four at a time, by eight lanes each. A thread gets those of its two rows.
__device__ inline void sum_rows(float (&delta)[2], const Arguments& a, int b, int h, int first,
                                u32 dout) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, column = lane % 8;
  float sums[4];
#pragma unroll
  for (int step = 0; step < 4; step++) {
    int row = 16 * warp + 4 * step + lane / 8, n = first + row;
    float sum = 0;
    if (n < z.N) {
      const Half* out = a.o_at + (((long)b * z.N + n) * z.H + h) * HEAD_DIM;
#pragma unroll
      for (int c = 0; c < CHUNKS; c++) {
        int at = 64 * c + 8 * column;
        if (at < HEAD_DIM)
          sum += dot(*(const Words*)(out + at), load_words(dout + c * 64 * 128 + row * 128 + 16 * (column ^ row % 8)));
      }
    }
    sums[step] = sum_of_eight_lanes(sum);
    if (column == 0) a.delta[place_of(b * z.H + h, n, z.padded)] = sums[step];
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
  Turn<K_STAGES> k;
  Turn<V_STAGES> v;
  Turn<2> q;
  Tiles tiles;
  for (int i = 0; i < c; i++) q.next();
  u32 queries = q.buffer<Q>(), dout = q.buffer<DO>();
  for (int number; (number = tiles.read()) < z.tiles; q.next(), q.next()) {
    auto [b, h, first] = rows_at(number, ROWS, z);
    int first_row = first + 64 * c, row = first_row + 16 * warp + lane / 4;
    int n = blocks_seen(first + ROWS, KEYS, z);
    for (int own = blocks_seen(first_row + 64, KEYS, z); n > own; n--) {  // blocks that only later rows see
      k.wait_full<K>(), k.release<K>(), k.next();
      v.wait_full<V>(), v.release<V>(), v.next();
    }
    float lse[2], delta[2];
#pragma unroll
    for (int r = 0; r < 2; r++) lse[r] = a.lse[place_of(b * z.H + h, row + 8 * r, z.padded)];
    q.wait_full<Q>();
    sum_rows(delta, a, b, h, first_row, dout);
    float dq[D / 2] = {};  // (64, D)
    for (int j = n - 1; j >= 0; j--) {
      float s[KEYS / 2], dp[KEYS / 2];
      k.wait_full<K>();
      begin_products();
      multiply_rows(s, queries, 64 * 128, k.buffer<K>());  // S (64, KEYS)
      commit_products();
      v.wait_full<V>();
      begin_products();
      multiply_rows(dp, dout, 64 * 128, v.buffer<V>());  // dP (64, KEYS)
      commit_products();
      wait_products<1>();
      hold(s);
      if ((j + 1) * KEYS > (CAUSAL ? first_row : z.N)) hide_keys(s, row, j * KEYS, z.N);
#pragma unroll
      for (int i = 0; i < KEYS / 2; i++) s[i] = exp2(s[i] * SCALE_LOG2 - lse[i / 2 % 2]);  // P (64, KEYS)
      wait_products<0>();
      hold(dp);
      v.release<V>(), v.next();
      u32 ds[KEYS / 4];  // dS (64, KEYS) in 16 bits
#pragma unroll
      for (int i = 0; i < KEYS / 4; i++)
        ds[i] = pack(s[2 * i] * (dp[2 * i] - delta[i % 2]), s[2 * i + 1] * (dp[2 * i + 1] - delta[i % 2]));
      begin_products();
      multiply_columns(dq, ds, k.buffer<K>());
      commit_products();
      wait_products<0>();
      hold(dq);
      k.release<K>(), k.next();
    }
    sync_warpgroup(1 + c);  // Q is not needed any more
    stage_rows(queries, dq, SCALE, SCALE);
    fence_shared();
    sync_warpgroup(1 + c);
    if (threadIdx.x % 128 == 0) {
      store_tile(a.dq, queries, b, h, first_row);
      wait_stores_read();
      arrive(q.empty<Q>());
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) queries(const __grid_constant__ Arguments a) {
  int group = set_up<K, V, Q, Tiles::Taken>();
  if (group == 0) {
    shrink_registers<24>();
    if (threadIdx.x == 0) produce(a);
  } else {
    grow_registers<240>();
    keep_queries(a, group - 1);
  }
}
