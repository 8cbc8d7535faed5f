// The backward pass on Hopper at a head_dim over 128, where dK and dV do not both fit a warpgroup's
// registers; with P, dS and Δ as in backward.cu.
//
// KEYS keys stay while blocks of 64 queries go by. One warpgroup computes P and dVᵀ = dOᵀ P, and hands
// P to the other through shared memory; that one computes dP meanwhile, then dS, which it hands back,
// and dKᵀ = Qᵀ dS / √D. So each has two of the products and one of the results, transposed: so many
// keys as registers hold need not be a multiple of 64. Where programs are to compute dQ too, ADDED,
// each warpgroup adds half of it to the sum in memory, in whatever order: the more keys, the fewer
// additions. `prepare` computes Δ and writes the zeros, `finish` rounds dQ. Else queries.cu has
// computed dQ and Δ, and the same bits come at each call. Where SPLIT, the heads of Q that share one of K
// and V go by apart from each other, and add to one dK and dV in memory too.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int ROWS = 64;
static_assert(!SPLIT || ADDED && !GROUPED, "heads of Q are alone");

struct Arguments {
  TensorMap q, k, v, dout, dq, dk, dv;
  Sizes sizes;
  const Half* o_at;   // (B, N, H, D), where ADDED
  const Half* do_at;  // so too
  const float* lse;   // (B, H, padded) by `place_of`, of base 2
  float* delta;       // so too
  Four* sums;         // dQ so far, where ADDED: 64 columns after 64, as threads hold them; so dV and dK
  int* counter;       // of tiles
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 CHUNK_OF_KEYS = KEYS * 128, CHUNK_OF_ROWS = ROWS * 128;
constexpr u32 KEYS_BYTES = CHUNKS * CHUNK_OF_KEYS, ROWS_BYTES = CHUNKS * CHUNK_OF_ROWS, STATS_BYTES = ROWS * 4;
constexpr u32 Q_AT = 2 * KEYS_BYTES, DO_AT = Q_AT + 2 * ROWS_BYTES, P_AT = DO_AT + DO_STAGES * ROWS_BYTES;
constexpr u32 DS_AT = P_AT + 2 * CHUNK_OF_KEYS, LSE_AT = DS_AT + 2 * CHUNK_OF_KEYS;
constexpr u32 DELTA_AT = LSE_AT + 2 * STATS_BYTES;
using K = Ring<1, KEYS_BYTES, 0, DELTA_AT + 2 * STATS_BYTES, 1>;
using V = Ring<1, KEYS_BYTES, KEYS_BYTES, K::END, 1>;
using Q = Ring<2, ROWS_BYTES, Q_AT, V::END, 8>;
using LSE = Ring<2, STATS_BYTES, LSE_AT, V::END, 8>;  // comes with Q
using DO = Ring<DO_STAGES, ROWS_BYTES, DO_AT, Q::END, 8>;
using DELTA = Ring<DO_STAGES, STATS_BYTES, DELTA_AT, Q::END, 8>;  // comes with dO
// Pᵀ and dSᵀ, (KEYS, 64). Q says when P is read: there would be no new Q. P says when dS is: dQ of
// two blocks before comes before it.
using P = Ring<2, CHUNK_OF_KEYS, P_AT, DO::END, 8, 4>;
using DS = Ring<2, CHUNK_OF_KEYS, DS_AT, P::END, 8, 4>;
using Tiles = Numbers<DS::END, 8>;

using Walk = Queries<KEYS, ROWS>;

__device__ inline int key_blocks(const Sizes& z) { return (z.N + KEYS - 1) / KEYS; }

__device__ inline Keys tile_at(int number, const Sizes& z) { return keys_at(number, key_blocks(z), z); }

// --- Loads: one thread --------------------------------------------------------------------------

// K and V come when the results before have left their place, and queries before them.
__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> i;
  Turn<DO_STAGES> o;
  Tiles tiles;
  for (int number; (number = tiles.take(a.counter, z)) < z.tiles; tiles.ask(a.counter), kv.next()) {
    Keys tile = tile_at(number, z);
    Walk t(tile.block, ADDED, z);
    auto load_queries = [&] {
      int b = tile.b, h = tile.head * group_of(z) + t.g, n = t.m * ROWS;
      int stats = (b * z.H + h) * z.padded + n;
      i.expect<Q>(STATS_BYTES);
      load_values(a.lse + stats, i.full<Q>(), i.buffer<LSE>(), STATS_BYTES);
      i.load<Q>(a.q, b, h, n);
      o.expect<DO>(STATS_BYTES);
      load_values(a.delta + stats, o.full<DO>(), o.buffer<DELTA>(), STATS_BYTES);
      o.load<DO>(a.dout, b, h, n);
      t.next(z), i.next(), o.next();
    };
    load_queries();
    kv.expect<K>();
    kv.load<K>(a.k, tile.b, head_of_keys(tile.head, z), tile.block * KEYS);
    kv.expect<V>();
    kv.load<V>(a.v, tile.b, head_of_keys(tile.head, z), tile.block * KEYS);
#pragma unroll 1
    while (t.left > 0) load_queries();
  }
}

// --- What both warpgroups do --------------------------------------------------------------------

// Results: of 64 columns after 64, KEYS keys of each, transposed.
using Result = float[CHUNKS][KEYS / 2];

// x += Aᵀ B: columns of 64 queries times Pᵀ or dSᵀ.
__device__ inline void multiply_queries(Result& x, u32 queries, u32 keys) {
  Matrix left = matrix(queries), right = matrix(keys);
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
    for (int n = 0; n < ROWS; n += 16)
      mma<1, 0>(x[c], advanced(left, c * CHUNK_OF_ROWS + n * 128), advanced(right, n * 2));
  }
}

__device__ inline void hold(Result& x) {
#pragma unroll
  for (int c = 0; c < CHUNKS; c++) hold(x[c]);
}

// Of Pᵀ, a thread's part of P.
__device__ inline void load_columns(u32 (&x)[KEYS / 4], u32 tile) {
  u32 from = place_of_columns(tile);
#pragma unroll
  for (int n = 0; n < KEYS / 4; n += 4) {
    Words w = load_matrices_transposed(from + n * 4 * 128);
    x[n] = w.x, x[n + 1] = w.y, x[n + 2] = w.z, x[n + 3] = w.w;
  }
}

// lse or Δ of a thread's two rows.
__device__ inline void load_stats(float (&x)[2], u32 from) {
  int lane = threadIdx.x % 32;
  Four f = load_four(from + threadIdx.x % 128 / 32 * 64 + lane / 8 * 16);
  x[0] = lane / 4 % 2 ? f.y : f.x, x[1] = lane / 4 % 2 ? f.w : f.z;
}

// Where dQ of a block of queries is.
__device__ inline Four* sum_at(const Arguments& a, const Keys& tile, const Walk& t) {
  const Sizes& z = a.sizes;
  return sum_of(a.sums, (((long)tile.b * z.H + tile.head * group_of(z) + t.g) * z.blocks + t.m) * CHUNKS);
}

// Warpgroup c's parts of dQ, of every other 64 columns: the warpgroups take turns at the first.
__device__ inline void add_dq(Four* sum, const Turn<2>& i, u32 k, int c) {
  i.wait_full<DS>();
  auto add = [&](auto& dq, int part) {
    begin_products();
    multiply_lines<KEYS>(dq, i.buffer<DS>(), k + part * CHUNK_OF_KEYS);
    commit_products();
    wait_products<0>();
    hold(dq);
    add_part(sum + part * (8 * 128), dq);
  };
  for_parts<false, CHUNKS, 1>(add, i.slot ^ c, 2);
}

// Where SPLIT: a chunk of dV or dK of a block of keys in memory.
__device__ inline Four* part_of(const Arguments& a, int part, bool dk, int chunk) {
  const Sizes& z = a.sizes;
  long at = (long)z.B * z.H * z.blocks * CHUNKS * (8 * 128) + ((part * 2L + dk) * CHUNKS + chunk) * (KEYS / 8 * 128);
  return a.sums + at + threadIdx.x % 128;
}

__device__ inline void add_keys(const Arguments& a, const Result& x, bool dk, u32 empty, const Keys& t) {
  sync_warpgroup(1 + dk);
  if (threadIdx.x % 128 == 0) arrive(empty);
  int part = split_part(t, key_blocks(a.sizes), a.sizes);
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; chunk++) add_part(part_of(a, part, dk, chunk), x[chunk]);
}

// A result takes the place of K or V, which all warps of one warpgroup have read when the last P or dS
// is there.
__device__ inline void store_keys(const TensorMap& map, const Result& x, float scale, u32 place, u32 empty, int c,
                                  const Keys& t) {
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; chunk++) stage_columns(place + chunk * CHUNK_OF_KEYS, x[chunk], scale);
  fence_shared();
  sync_warpgroup(1 + c);
  if (threadIdx.x % 128 == 0) {
    store_tile<KEYS>(map, place, t.b, t.head, t.block * KEYS);
    wait_stores_read();
    arrive(empty);
  }
}

// --- A warpgroup: P, which it hands on, and dV --------------------------------------------------

// S of a block of queries → P in 16 bits, in shared memory.
__device__ inline void hand_on(float (&s)[KEYS / 2], const float (&lse)[2], int keys, int queries, const Turn<2>& i,
                               const Sizes& z) {
  i.release<Q>();
  if (CAUSAL && queries * ROWS < (keys + 1) * KEYS || (keys + 1) * KEYS > z.N)
    hide_keys(s, queries * ROWS + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, keys * KEYS, z.N);
#pragma unroll
  for (int n = 0; n < KEYS / 2; n++) s[n] = exp2(s[n] * SCALE_LOG2 - lse[n / 2 % 2]);
  stage_columns(i.buffer<P>(), s, 1);
  fence_shared();
  i.hand_on<P>();
}

// S of the next block starts before P of it is needed.
__device__ inline void sum_dv(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> i, d;  // of the next block, and of this one
  Turn<DO_STAGES> o;
  Tiles tiles;
  for (int number; (number = tiles.read()) < z.tiles; kv.next()) {
    Keys tile = tile_at(number, z);
    Walk t(tile.block, ADDED, z);
    u32 k = kv.buffer<K>();
    Result dv = {};
    float s[KEYS / 2], lse[2];  // (64, KEYS)
    auto begin_scores = [&] {
      i.wait_full<Q>();
      begin_products();
      multiply_rows(s, i.buffer<Q>(), CHUNK_OF_ROWS, k);
      commit_products();
      load_stats(lse, i.buffer<LSE>());
    };
    kv.wait_full<K>();
    begin_scores();
    wait_products<0>();
    hold(s);
    hand_on(s, lse, tile.block, t.m, i, z);
    while (t.left > 0) {
      Four* sum = sum_at(a, tile, t);
      t.next(z), i.next();
      d.wait_full<P>();
      o.wait_full<DO>();
      begin_products();
      multiply_queries(dv, o.buffer<DO>(), d.buffer<P>());
      commit_products();
      if (t.left > 0) {  // with one wait after both ways, ptxas makes all products wait (C7518)
        begin_scores();
        wait_products<1>();
        hold(dv);
        o.release<DO>();
        wait_products<0>();
        hold(s);
        hand_on(s, lse, tile.block, t.m, i, z);
      } else {
        wait_products<0>();
        hold(dv);
        o.release<DO>();
      }
      if (ADDED) add_dq(sum, d, k, 0);
      d.next(), o.next();
    }
    if (ADDED) sync_turns(3, 256);  // K has been read by both
    if (SPLIT) {
      add_keys(a, dv, false, kv.empty<K>(), tile);
    } else {
      store_keys(a.dv, dv, 1, k, kv.empty<K>(), 0, tile);
    }
  }
}

// --- A warpgroup: dS from the P that it is given, and dK ----------------------------------------

__device__ inline void sum_dk(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<1> kv;
  Turn<2> i;
  Turn<DO_STAGES> o;
  Tiles tiles;
  for (int number; (number = tiles.read()) < z.tiles; kv.next()) {
    Keys tile = tile_at(number, z);
    u32 k = kv.buffer<K>(), v = kv.buffer<V>();
    Result dk = {};
    if (ADDED) kv.wait_full<K>();  // else the other warpgroup may have the next K already
    kv.wait_full<V>();
    for (Walk t(tile.block, ADDED, z); t.left > 0; t.next(z), i.next(), o.next()) {
      float dp[KEYS / 2], delta[2];  // (64, KEYS)
      u32 p[KEYS / 4];  // in 16 bits
      o.wait_full<DO>();
      begin_products();
      multiply_rows(dp, o.buffer<DO>(), CHUNK_OF_ROWS, v);
      commit_products();
      load_stats(delta, o.buffer<DELTA>());
      i.wait_full<P>();
      load_columns(p, i.buffer<P>());
      wait_products<0>();
      hold(dp);
      o.release<DO>();
#pragma unroll
      for (int n = 0; n < KEYS / 2; n++)
        dp[n] = (n % 2 ? upper(p[n / 2]) : lower(p[n / 2])) * (dp[n] - delta[n / 2 % 2]);
      stage_columns(i.buffer<DS>(), dp, 1);
      fence_shared();
      i.hand_on<DS>();
      i.wait_full<Q>();
      i.wait_full<DS>();
      begin_products();
      multiply_queries(dk, i.buffer<Q>(), i.buffer<DS>());
      commit_products();
      if (ADDED) add_dq(sum_at(a, tile, t), i, k, 1);
      wait_products<0>();
      hold(dk);
      i.release<Q>();
    }
    if (ADDED) arrive_turns(3, 256);
    if (SPLIT) {
      add_keys(a, dk, true, kv.empty<V>(), tile);
    } else {
      store_keys(a.dk, dk, SCALE, v, kv.empty<V>(), 1, tile);
    }
  }
}

// --- The kernels --------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(384, 1) wide(const __grid_constant__ Arguments a) {
  int group = set_up<K, V, Q, DO, P, DS, Tiles::Taken>();
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

extern "C" __global__ void __launch_bounds__(128) prepare(const __grid_constant__ Arguments a) {
  prepare_sums<ROWS, CHUNKS, false>(a);
  if (SPLIT) write_zeros(part_of(a, 0, false, 0), part_of(a, split_parts(key_blocks(a.sizes), a.sizes), false, 0));
}

// Where SPLIT: 64 columns of dV or dK of a part.
__device__ inline void finish_part(const Arguments& a, int part, bool dk, int chunk) {
  auto [b, head, block] = keys_of_part(part, key_blocks(a.sizes), a.sizes);
  float x[KEYS / 2];
  load_kept(x, part_of(a, part, dk, chunk));
  stage_columns(shared_memory(), x, dk ? SCALE : 1);
  fence_shared();
  sync_warpgroup(3);
  if (threadIdx.x == 0) {
    store_box(dk ? &a.dk : &a.dv, shared_memory(), 64 * chunk, head, block * KEYS, b);
    commit_stores();
  }
}

extern "C" __global__ void __launch_bounds__(128) finish(const __grid_constant__ Arguments a) {
  wait_for_kernel_before();
  int parts = SPLIT ? split_parts(key_blocks(a.sizes), a.sizes) * 2 * CHUNKS : 0, n = blockIdx.x;
  if (n < parts) {
    finish_part(a, n / (2 * CHUNKS), n / CHUNKS % 2, n % CHUNKS);
  } else {
    finish_sums<ROWS, CHUNKS, false>(a, n - parts);
  }
  if (threadIdx.x == 0) wait_stores_read();
}
