// The backward pass on Hopper at a head_dim over 128: dK and dV, which do not both fit a
// warpgroup's registers there. queries.cu has computed dQ and Δ.
//
// A tile is 64 keys, and blocks of 64 queries go by. One warpgroup computes Pᵀ = exp(K Qᵀ − lse)
// and dV = Pᵀ dO, and hands Pᵀ to the other through shared memory; that one computes dPᵀ = V dOᵀ
// meanwhile, then dSᵀ = Pᵀ ∘ (dPᵀ − Δ) and dK = dSᵀ Q / √D. So each has two of the four products and
// one of the two results. Nothing is added by two programs: the same bits come at each call.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int LINES = 64;  // of every tile

struct Sizes {
  int B, N, H, group;  // group: G
  int tiles;           // B H / G ⌈N / 64⌉
  int blocks;          // ⌈N / 64⌉
  int together;        // heads side by side, where the longest tiles come first
  int padded;          // N up to a multiple of 128
};

struct Arguments {
  TensorMap q, k, v, dout, dk, dv;
  Sizes sizes;
  const float *lse, *delta;  // (B, H, padded) by `place_of`, lse of base 2
  int* counter;              // of tiles
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 CHUNK = LINES * 128, TILE_BYTES = CHUNKS * CHUNK, STATS_BYTES = LINES * 4;
constexpr u32 K = 0, V = K + TILE_BYTES, Q = V + TILE_BYTES, DO = Q + 2 * TILE_BYTES;
constexpr u32 P = DO + 2 * TILE_BYTES, P_BYTES = LINES * LINES * 2;  // Pᵀ as threads hold it
constexpr u32 LSE = P + 2 * P_BYTES, DELTA = LSE + 2 * STATS_BYTES;
constexpr u32 BARRIERS = DELTA + 2 * STATS_BYTES;
constexpr u32 K_FULL = BARRIERS, K_EMPTY = K_FULL + 8, V_FULL = K_EMPTY + 8, V_EMPTY = V_FULL + 8;
constexpr u32 Q_FULL = V_EMPTY + 8, Q_EMPTY = Q_FULL + 16, DO_FULL = Q_EMPTY + 16, DO_EMPTY = DO_FULL + 16;
constexpr u32 P_FULL = DO_EMPTY + 16;
constexpr u32 TILE_FULL = P_FULL + 16, TILE_EMPTY = TILE_FULL + 16, TILES = TILE_EMPTY + 16;

// --- The order of tiles -------------------------------------------------------------------------

// A block of keys, and the blocks of queries that see it, for each head of the group.
struct Tile {
  int b, head, keys, start, left, g, m;

  __device__ bool is_next(const Arguments& a, Turn<2>& turn, bool produces) {
    const Sizes& z = a.sizes;
    int tile = take_number(a.counter, z.tiles, turn, TILE_FULL, TILE_EMPTY, TILES, produces);
    int heads = z.H / z.group;
    auto [bh, block] = block_at(tile, z.blocks, z.together);
    b = bh / heads, head = bh % heads, keys = block;
    start = m = CAUSAL ? keys : 0;
    left = (z.blocks - start) * z.group;
    g = 0;
    return tile < z.tiles;
  }

  __device__ void next(const Sizes& z) {
    left--;
    if (++m == z.blocks) m = start, g++;
  }
};

// --- Loads: one thread --------------------------------------------------------------------------

__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> turn, i;
  Tile t;
  for (; t.is_next(a, turn, true); kv.next()) {
    kv.wait_empty(K_EMPTY);
    arrive_expecting(kv.barrier(K_FULL), TILE_BYTES);
    load_tile(a.k, kv.barrier(K_FULL), kv.buffer(K, TILE_BYTES), CHUNK, t.b, t.head, t.keys * LINES);
    kv.wait_empty(V_EMPTY);
    arrive_expecting(kv.barrier(V_FULL), TILE_BYTES);
    load_tile(a.v, kv.barrier(V_FULL), kv.buffer(V, TILE_BYTES), CHUNK, t.b, t.head, t.keys * LINES);
    for (; t.left > 0; t.next(z), i.next()) {
      int h = t.head * z.group + t.g, n = t.m * LINES;
      long stats = (long)(t.b * z.H + h) * z.padded + n;
      i.wait_empty(Q_EMPTY);
      arrive_expecting(i.barrier(Q_FULL), TILE_BYTES + STATS_BYTES);
      load_tile(a.q, i.barrier(Q_FULL), i.buffer(Q, TILE_BYTES), CHUNK, t.b, h, n);
      load_values(a.lse + stats, i.barrier(Q_FULL), i.buffer(LSE, STATS_BYTES), STATS_BYTES);
      i.wait_empty(DO_EMPTY);
      arrive_expecting(i.barrier(DO_FULL), TILE_BYTES + STATS_BYTES);
      load_tile(a.dout, i.barrier(DO_FULL), i.buffer(DO, TILE_BYTES), CHUNK, t.b, h, n);
      load_values(a.delta + stats, i.barrier(DO_FULL), i.buffer(DELTA, STATS_BYTES), STATS_BYTES);
    }
  }
}

// --- Results: two warpgroups have one each --------------------------------------------------------

// A result takes the place of what its warpgroup alone has read.
__device__ inline void store_rows(const TensorMap& map, const float (&x)[D / 2], float scale, u32 tile, u32 empty,
                                  int c, const Tile& t) {
  sync_warpgroup(1 + c);
  stage_rows(tile, x, scale, scale);
  fence_shared();
  sync_warpgroup(1 + c);
  if (threadIdx.x % 128 == 0) {
    store_tile(map, tile, t.b, t.head, t.keys * LINES);
    wait_stores_read();
    arrive(empty);
  }
}

// --- A warpgroup: Pᵀ, which it hands on, and dV -------------------------------------------------

// S of a block of queries → Pᵀ in 16 bits, in shared memory.
__device__ inline void hand_on(float (&s)[32], const Tile& t, const Turn<2>& i, const Sizes& z) {
  u32 p[16];
  int lane = threadIdx.x % 32;
  int key = t.keys * LINES + threadIdx.x % 128 / 32 * 16 + lane / 4;
  if (CAUSAL && t.m == t.keys || (t.keys + 1) * LINES > z.N) hide_queries(s, key, t.m * LINES, z.N);
#pragma unroll
  for (int n = 0; n < LINES; n += 16)
    exponentials(p + n / 4, s + n / 2, load_four(i.buffer(LSE, STATS_BYTES) + n * 4 + lane % 4 * 16));
  // The other has read what was here before: else there would be no new Q.
  i.release(Q_EMPTY);
  u32 to = i.buffer(P, P_BYTES) + threadIdx.x % 128 * 16;
#pragma unroll
  for (int n = 0; n < 4; n++) store_words(to + n * 128 * 16, {p[4 * n], p[4 * n + 1], p[4 * n + 2], p[4 * n + 3]});
  i.release(P_FULL);
}

// What was handed on. With its registers from before, ptxas makes the products wait (C7513).
__device__ inline void read_back(u32 (&p)[16], const Turn<2>& d) {
#pragma unroll
  for (int n = 0; n < 4; n++) {
    Words w = load_words(d.buffer(P, P_BYTES) + n * 128 * 16 + threadIdx.x % 128 * 16);
    p[4 * n] = w.x, p[4 * n + 1] = w.y, p[4 * n + 2] = w.z, p[4 * n + 3] = w.w;
  }
}

// As in the forward, S of the next block starts before P dO of this one.
__device__ inline void sum_dv(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> turn, i, d;
  Tile t;
  for (; t.is_next(a, turn, false); kv.next()) {
    u32 k = kv.buffer(K, TILE_BYTES);
    float dv[D / 2] = {}, s[32];  // (64, D), (64, 64)
    kv.wait_full(K_FULL);
    i.wait_full(Q_FULL);
    begin_products();
    multiply_rows(s, k, CHUNK, i.buffer(Q, TILE_BYTES));
    commit_products();
    wait_products<0>();
    hold(s);
    hand_on(s, t, i, z);
    for (i.next(), t.next(z); t.left > 0; i.next(), t.next(z)) {
      u32 p[16];
      read_back(p, d);
      i.wait_full(Q_FULL);
      begin_products();
      multiply_rows(s, k, CHUNK, i.buffer(Q, TILE_BYTES));
      commit_products();
      d.wait_full(DO_FULL);
      begin_products();
      multiply_columns(dv, p, d.buffer(DO, TILE_BYTES));
      commit_products();
      wait_products<1>();
      hold(s);
      hand_on(s, t, i, z);
      wait_products<0>();
      hold(dv);
      d.release(DO_EMPTY), d.next();
    }
    u32 p[16];
    read_back(p, d);
    d.wait_full(DO_FULL);
    begin_products();
    multiply_columns(dv, p, d.buffer(DO, TILE_BYTES));
    commit_products();
    wait_products<0>();
    hold(dv);
    d.release(DO_EMPTY), d.next();
    store_rows(a.dv, dv, 1, k, kv.barrier(K_EMPTY), 0, t);
  }
}

// --- A warpgroup: dSᵀ from the Pᵀ that it is given, and dK --------------------------------------

// dPᵀ of a block of queries → dSᵀ.
__device__ inline void take_over(float (&dp)[32], const Turn<2>& d) {
  int thread = threadIdx.x % 128;
  Four delta[4];
#pragma unroll
  for (int n = 0; n < 4; n++) delta[n] = load_four(d.buffer(DELTA, STATS_BYTES) + n * 64 + thread % 4 * 16);
  d.release(DO_EMPTY);
  d.wait_full(P_FULL);
#pragma unroll
  for (int n = 0; n < 4; n++) {
    float* x = dp + 8 * n;
    Words p = load_words(d.buffer(P, P_BYTES) + n * 128 * 16 + thread * 16);
    x[0] = lower(p.x) * (x[0] - delta[n].x), x[1] = upper(p.x) * (x[1] - delta[n].y);
    x[2] = lower(p.y) * (x[2] - delta[n].x), x[3] = upper(p.y) * (x[3] - delta[n].y);
    x[4] = lower(p.z) * (x[4] - delta[n].z), x[5] = upper(p.z) * (x[5] - delta[n].w);
    x[6] = lower(p.w) * (x[6] - delta[n].z), x[7] = upper(p.w) * (x[7] - delta[n].w);
  }
}

__device__ inline void sum_dk(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> turn, i, d;
  Tile t;
  for (; t.is_next(a, turn, false); kv.next()) {
    u32 v = kv.buffer(V, TILE_BYTES);
    float dk[D / 2] = {}, dp[32];  // (64, D), (64, 64)
    u32 ds[16];
    kv.wait_full(V_FULL);
    d.wait_full(DO_FULL);
    begin_products();
    multiply_rows(dp, v, CHUNK, d.buffer(DO, TILE_BYTES));
    commit_products();
    wait_products<0>();
    hold(dp);
    take_over(dp, d);
    to_16_bits(ds, dp);
    for (d.next(), t.next(z); t.left > 0; d.next(), t.next(z)) {
      d.wait_full(DO_FULL);
      begin_products();
      multiply_rows(dp, v, CHUNK, d.buffer(DO, TILE_BYTES));
      commit_products();
      i.wait_full(Q_FULL);
      begin_products();
      multiply_columns(dk, ds, i.buffer(Q, TILE_BYTES));
      commit_products();
      wait_products<1>();
      hold(dp);
      take_over(dp, d);
      hold(dp);
      wait_products<0>();
      hold(dk);
      i.release(Q_EMPTY), i.next();
      to_16_bits(ds, dp);
    }
    i.wait_full(Q_FULL);
    begin_products();
    multiply_columns(dk, ds, i.buffer(Q, TILE_BYTES));
    commit_products();
    wait_products<0>();
    hold(dk);
    i.release(Q_EMPTY), i.next();
    store_rows(a.dk, dk, SCALE, v, kv.barrier(V_EMPTY), 1, t);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) wide(const __grid_constant__ Arguments a) {
  if (threadIdx.x == 0) {
    u32 s = shared_memory();
    init_barrier(s + K_FULL, 1), init_barrier(s + K_EMPTY, 1);
    init_barrier(s + V_FULL, 1), init_barrier(s + V_EMPTY, 1);
    for (int x = 0; x < 2; x++) {
      init_barrier(s + Q_FULL + 8 * x, 1), init_barrier(s + Q_EMPTY + 8 * x, 8);
      init_barrier(s + DO_FULL + 8 * x, 1), init_barrier(s + DO_EMPTY + 8 * x, 8);
      init_barrier(s + P_FULL + 8 * x, 4);
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
    if (group == 1) {
      sum_dv(a);
    } else {
      sum_dk(a);
    }
  }
}
