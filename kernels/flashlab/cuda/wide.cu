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

struct Arguments {
  TensorMap q, k, v, dout, dk, dv;
  Sizes sizes;
  const float *lse, *delta;  // (B, H, padded) by `place_of`, lse of base 2
  int* counter;              // of tiles
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 CHUNK = LINES * 128, TILE_BYTES = CHUNKS * CHUNK, STATS_BYTES = LINES * 4;
constexpr u32 P_BYTES = LINES * LINES * 2, Q_AT = 2 * TILE_BYTES, DO_AT = 4 * TILE_BYTES, P_AT = 6 * TILE_BYTES;
constexpr u32 LSE_AT = P_AT + 2 * P_BYTES, DELTA_AT = LSE_AT + 2 * STATS_BYTES;
using K = Ring<1, TILE_BYTES, 0, DELTA_AT + 2 * STATS_BYTES, 1>;
using V = Ring<1, TILE_BYTES, TILE_BYTES, K::END, 1>;
using Q = Ring<2, TILE_BYTES, Q_AT, V::END, 8>;
using LSE = Ring<2, STATS_BYTES, LSE_AT, V::END, 8>;  // comes with Q
using DO = Ring<2, TILE_BYTES, DO_AT, Q::END, 8>;
using DELTA = Ring<2, STATS_BYTES, DELTA_AT, Q::END, 8>;  // comes with dO
using P = Ring<2, P_BYTES, P_AT, DO::END, 8, 4>;  // Pᵀ as threads hold it; Q says when it is read
using Tiles = Numbers<P::END, 8>;

// --- Loads: one thread --------------------------------------------------------------------------

__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> i;
  Tiles tiles;
  for (int number; (number = tiles.take(a.counter, z)) < z.tiles; tiles.ask(a.counter), kv.next()) {
    auto [b, head, keys] = keys_at(number, z.blocks, z);
    kv.expect<K>();
    kv.load<K>(a.k, b, head, keys * LINES);
    kv.expect<V>();
    kv.load<V>(a.v, b, head, keys * LINES);
    for (Queries<1> t(keys, false, z); t.left > 0; t.next(z), i.next()) {
      int h = head * group_of(z) + t.g, n = t.m * LINES;
      long stats = (long)(b * z.H + h) * z.padded + n;
      i.expect<Q>(STATS_BYTES);
      i.load<Q>(a.q, b, h, n);
      load_values(a.lse + stats, i.full<Q>(), i.buffer<LSE>(), STATS_BYTES);
      i.expect<DO>(STATS_BYTES);
      i.load<DO>(a.dout, b, h, n);
      load_values(a.delta + stats, i.full<DO>(), i.buffer<DELTA>(), STATS_BYTES);
    }
  }
}

// --- Results: two warpgroups have one each --------------------------------------------------------

// A result takes the place of what its warpgroup alone has read.
__device__ inline void store_rows(const TensorMap& map, const float (&x)[D / 2], float scale, u32 tile, u32 empty,
                                  int c, const Keys& t) {
  sync_warpgroup(1 + c);
  stage_rows(tile, x, scale, scale);
  fence_shared();
  sync_warpgroup(1 + c);
  if (threadIdx.x % 128 == 0) {
    store_tile(map, tile, t.b, t.head, t.block * LINES);
    wait_stores_read();
    arrive(empty);
  }
}

// --- A warpgroup: Pᵀ, which it hands on, and dV -------------------------------------------------

// S of a block of queries → Pᵀ in 16 bits, in shared memory.
__device__ inline void hand_on(float (&s)[32], int keys, int queries, const Turn<2>& i, const Sizes& z) {
  u32 p[16];
  int lane = threadIdx.x % 32;
  int key = keys * LINES + threadIdx.x % 128 / 32 * 16 + lane / 4;
  if (CAUSAL && queries == keys || (keys + 1) * LINES > z.N) hide_queries(s, key, queries * LINES, z.N);
#pragma unroll
  for (int n = 0; n < LINES; n += 16)
    exponentials(p + n / 4, s + n / 2, load_four(i.buffer<LSE>() + n * 4 + lane % 4 * 16));
  // The other has read what was here before: else there would be no new Q.
  i.release<Q>();
  u32 to = i.buffer<P>() + threadIdx.x % 128 * 16;
#pragma unroll
  for (int n = 0; n < 4; n++) store_words(to + n * 128 * 16, {p[4 * n], p[4 * n + 1], p[4 * n + 2], p[4 * n + 3]});
  i.hand_on<P>();
}

// What was handed on. With its registers from before, ptxas makes the products wait (C7513).
__device__ inline void read_back(u32 (&p)[16], const Turn<2>& d) {
#pragma unroll
  for (int n = 0; n < 4; n++) {
    Words w = load_words(d.buffer<P>() + n * 128 * 16 + threadIdx.x % 128 * 16);
    p[4 * n] = w.x, p[4 * n + 1] = w.y, p[4 * n + 2] = w.z, p[4 * n + 3] = w.w;
  }
}

// As in the forward, S of the next block starts before P dO of this one.
__device__ inline void sum_dv(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> i, d;
  Tiles tiles;
  for (int number; (number = tiles.read()) < z.tiles; kv.next()) {
    Keys tile = keys_at(number, z.blocks, z);
    Queries<1> t(tile.block, false, z);
    u32 k = kv.buffer<K>();
    float dv[D / 2] = {}, s[32];  // (64, D), (64, 64)
    kv.wait_full<K>();
    i.wait_full<Q>();
    begin_products();
    multiply_rows(s, k, CHUNK, i.buffer<Q>());
    commit_products();
    wait_products<0>();
    hold(s);
    hand_on(s, tile.block, t.m, i, z);
    for (i.next(), t.next(z); t.left > 0; i.next(), t.next(z)) {
      u32 p[16];
      read_back(p, d);
      i.wait_full<Q>();
      begin_products();
      multiply_rows(s, k, CHUNK, i.buffer<Q>());
      commit_products();
      d.wait_full<DO>();
      begin_products();
      multiply_columns(dv, p, d.buffer<DO>());
      commit_products();
      wait_products<1>();
      hold(s);
      hand_on(s, tile.block, t.m, i, z);
      wait_products<0>();
      hold(dv);
      d.release<DO>(), d.next();
    }
    u32 p[16];
    read_back(p, d);
    d.wait_full<DO>();
    begin_products();
    multiply_columns(dv, p, d.buffer<DO>());
    commit_products();
    wait_products<0>();
    hold(dv);
    d.release<DO>(), d.next();
    store_rows(a.dv, dv, 1, k, kv.empty<K>(), 0, tile);
  }
}

// --- A warpgroup: dSᵀ from the Pᵀ that it is given, and dK --------------------------------------

// dPᵀ of a block of queries → dSᵀ.
__device__ inline void take_over(float (&dp)[32], const Turn<2>& d) {
  int thread = threadIdx.x % 128;
  Four delta[4];
#pragma unroll
  for (int n = 0; n < 4; n++) delta[n] = load_four(d.buffer<DELTA>() + n * 64 + thread % 4 * 16);
  d.release<DO>();
  d.wait_full<P>();
#pragma unroll
  for (int n = 0; n < 4; n++) {
    float* x = dp + 8 * n;
    Words p = load_words(d.buffer<P>() + n * 128 * 16 + thread * 16);
    x[0] = lower(p.x) * (x[0] - delta[n].x), x[1] = upper(p.x) * (x[1] - delta[n].y);
    x[2] = lower(p.y) * (x[2] - delta[n].x), x[3] = upper(p.y) * (x[3] - delta[n].y);
    x[4] = lower(p.z) * (x[4] - delta[n].z), x[5] = upper(p.z) * (x[5] - delta[n].w);
    x[6] = lower(p.w) * (x[6] - delta[n].z), x[7] = upper(p.w) * (x[7] - delta[n].w);
  }
}

__device__ inline void sum_dk(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> i, d;
  Tiles tiles;
  for (int number; (number = tiles.read()) < z.tiles; kv.next()) {
    Keys tile = keys_at(number, z.blocks, z);
    Queries<1> t(tile.block, false, z);
    u32 v = kv.buffer<V>();
    float dk[D / 2] = {}, dp[32];  // (64, D), (64, 64)
    u32 ds[16];
    kv.wait_full<V>();
    d.wait_full<DO>();
    begin_products();
    multiply_rows(dp, v, CHUNK, d.buffer<DO>());
    commit_products();
    wait_products<0>();
    hold(dp);
    take_over(dp, d);
    to_16_bits(ds, dp);
    for (d.next(), t.next(z); t.left > 0; d.next(), t.next(z)) {
      d.wait_full<DO>();
      begin_products();
      multiply_rows(dp, v, CHUNK, d.buffer<DO>());
      commit_products();
      i.wait_full<Q>();
      begin_products();
      multiply_columns(dk, ds, i.buffer<Q>());
      commit_products();
      wait_products<1>();
      hold(dp);
      take_over(dp, d);
      hold(dp);
      wait_products<0>();
      hold(dk);
      i.release<Q>(), i.next();
      to_16_bits(ds, dp);
    }
    i.wait_full<Q>();
    begin_products();
    multiply_columns(dk, ds, i.buffer<Q>());
    commit_products();
    wait_products<0>();
    hold(dk);
    i.release<Q>(), i.next();
    store_rows(a.dk, dk, SCALE, v, kv.empty<V>(), 1, tile);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) wide(const __grid_constant__ Arguments a) {
  int group = set_up<K, V, Q, DO, P, Tiles::Taken>();
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
