// The backward pass on Hopper: dQ, dK and dV from dO, in one kernel.
//
// With P = exp(S − lse), dP = dO Vᵀ and Δ = rowsum(O ∘ dO), which is what softmax takes away again:
//
//     dV = Pᵀ dO,  dS = P ∘ (dP − Δ),  dK = dSᵀ Q / √D,  dQ = dS K / √D.
//
// A block of 128 keys stays while blocks of ROWS queries go by. The first warpgroup loads; two have
// 64 keys each, and compute Pᵀ, dSᵀ, dV and dK; the last has dQ, for which it takes the dS of both.
// It sums a block's dQ up over the blocks of keys in memory, in one of two ways, by MODE:
//
// - OWN: a program has all blocks of keys of a head, one after the other, and with them all that
//   is added to its dQ. So the sum stays in the L2 cache, needs no zeros before and no pass after,
//   and comes out the same at each call. Δ is computed on the way.
// - ADDED: a program has one block of keys at a time, and all add to one dQ in memory, in whatever
//   order. `prepare` computes Δ and writes the zeros, `finish` rounds dQ. Where SHARED, the last
//   blocks of keys, or all, are cut by their queries so that each program has as much; their parts
//   leave dK and dV in memory in float32, and `finish` sums them up. Where SPLIT, the heads of Q that
//   share one of K and V go by apart from each other, and add to one dK and dV in memory too.
// - ALONE: no dQ; queries.cu has computed it, and Δ.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int ALONE = 0, OWN_HEADS = 1, ADDED = 2;
constexpr bool OWN = MODE == OWN_HEADS;
constexpr int KEYS = 128;
constexpr int K_STAGES = D <= 64 ? 2 : 1;
constexpr bool SWAPPED = ROWS == 128;  // dQᵀ = Kᵀ dSᵀ in place of dQ = dS K
constexpr int DQ_PARTS = SWAPPED ? ROWS / 64 : CHUNKS;  // of 64 queries (SWAPPED) or columns
static_assert(!SWAPPED || D <= 64, "the columns of dQ are the rows of one product");
static_assert(!SPLIT || MODE == ADDED && !GROUPED, "heads of Q are alone");

struct Arguments {
  TensorMap q, k, v, out, dout, dq, dk, dv;
  Sizes sizes;
  int whole;  // blocks of keys that come first where SHARED; of the others, in blocks of queries,
  int share, work, pair;  // a program's share, all, and a long one with a short one
  const Half* o_at;   // (B, N, H, D), where ADDED
  const Half* do_at;  // (B, N, H, D), where ADDED
  const float* lse;   // (B, H, padded) by `place_of`, of base 2
  float* delta;       // so too, unless OWN
  Four* sums;         // dQ so far, as threads hold it; after it dV and dK of parts, or so far where SPLIT
  int* counter;       // of tiles, unless OWN or SHARED
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr int HELPERS = 3;  // warps that compute Δ where OWN
constexpr u32 CHUNK_OF_KEYS = KEYS * 128, CHUNK_OF_ROWS = ROWS * 128;
constexpr u32 KEYS_BYTES = CHUNKS * CHUNK_OF_KEYS, ROWS_BYTES = CHUNKS * CHUNK_OF_ROWS, STATS_BYTES = ROWS * 4;
constexpr u32 DS_BYTES = ROWS / 64 * CHUNK_OF_KEYS, STAGE_BYTES = CHUNKS * 64 * 128;
constexpr u32 V_AT = K_STAGES * KEYS_BYTES;
constexpr u32 Q_AT = V_AT + KEYS_BYTES;
constexpr u32 DO_AT = Q_AT + 2 * ROWS_BYTES;
constexpr u32 DS_AT = DO_AT + 2 * ROWS_BYTES;
constexpr u32 STAGE = DS_AT + (MODE == ALONE ? 0 : 2 * DS_BYTES);  // dK or dV of a warpgroup on their way out
constexpr u32 DQ_STAGE = STAGE + 2 * STAGE_BYTES;
constexpr u32 BARRIERS = DQ_STAGE + (OWN ? ROWS_BYTES : 0);
constexpr u32 STATS = BARRIERS + 256;  // lse and Δ: of a head and two blocks where OWN, else a ring
using K = Ring<K_STAGES, KEYS_BYTES, 0, BARRIERS, MODE == ALONE ? 8 : 12>;
using V = Ring<1, KEYS_BYTES, V_AT, K::END, 8>;
using Q = Ring<2, ROWS_BYTES, Q_AT, V::END, 8>;
using LSE = Ring<2, STATS_BYTES, STATS, V::END, 8>;  // comes with Q, unless OWN
using DO = Ring<2, ROWS_BYTES, DO_AT, Q::END, OWN ? 8 + HELPERS : 8>;
using DELTA = Ring<2, STATS_BYTES, STATS + 2 * STATS_BYTES, Q::END, 8>;  // comes with dO, unless OWN
using DS = Ring<2, DS_BYTES, DS_AT, DO::END, 4, 8>;                      // dSᵀ
using O = Ring<2, ROWS_BYTES, DS_AT, DS::END, 8>;                        // in the place of dSᵀ, which says when
using SUMMED = Ring<2, STATS_BYTES, STATS, O::END, 8, HELPERS>;          // Δ of a block
using Tiles = Numbers<SUMMED::END, MODE == ALONE ? 8 : 12>;

// --- Who does what, in which order --------------------------------------------------------------

using Walk = Queries<KEYS, ROWS>;
constexpr bool APART = MODE != OWN_HEADS;
constexpr bool QUEUED = !OWN && !SHARED;

__device__ inline int key_blocks(const Sizes& z) { return (z.N + KEYS - 1) / KEYS; }

// Where SHARED: of the work in a row, a long block of keys before a short one, that at a place.
struct Shared {
  int number, begin;
};

__device__ inline Shared shared_at(int at, const Arguments& a) {
  const Sizes& z = a.sizes;
  int heads = z.B * z.H / group_of(z), n = at / a.pair, middle = n * a.pair + Walk(n / heads, APART, z).left;
  return at < middle ? Shared{a.whole + n, n * a.pair} : Shared{heads * key_blocks(z) - 1 - n, middle};
}

// The blocks of keys that a program takes one after the other: of a head where OWN, else one, or those
// of its share, with some of their queries.
struct Task {
  int at, end;        // blocks of keys, or of the work in a row
  int b, head, keys;  // the block of keys at hand
  int part;           // the number of what is left of it in memory; else -1. Where SPLIT, it has one

  __device__ Task(int number, const Arguments& a) {
    const Sizes& z = a.sizes;
    int heads = z.H / group_of(z), over = number - a.whole;
    if (SHARED) {
      at = over < 0 ? 0 : over * a.share;
      end = over < 0 ? z.blocks * group_of(z) : at + a.share < a.work ? at + a.share : a.work;
    } else if (OWN) {
      b = number / heads, head = number % heads, at = 0, end = key_blocks(z);
    } else {
      Keys k = keys_at(number, key_blocks(z), z);
      b = k.b, head = k.head, at = k.block, end = at + 1;
    }
  }

  // The queries of the next block of keys.
  __device__ Walk next(int number, const Arguments& a) {
    const Sizes& z = a.sizes;
    if (!SHARED) {
      keys = at++;
      if (SPLIT) part = split_part({b, head, keys}, key_blocks(z), z);
      return Walk(keys, APART, z);
    }
    auto [place, begin] = number < a.whole ? Shared{number, 0} : shared_at(at, a);
    Keys k = keys_at(place, key_blocks(z), z);
    b = k.b, head = k.head, keys = k.block;
    Walk q(keys, APART, z);
    int first = at - begin, all = q.left, left = all - first < end - at ? all - first : end - at;
    part = SPLIT         ? split_part(k, key_blocks(z), z)
           : left == all ? -1
                         : at / a.share * 2 + (at % a.share > 0);  // of a share, the first or the last
    q.keep(first, left, z);
    at += left;
    return q;
  }
};

// dV or dK of 64 keys from a part, as threads hold it.
__device__ inline Four* part_of(const Arguments& a, int part, bool dk, int c) {
  const Sizes& z = a.sizes;
  long at = (long)z.B * z.H * z.blocks * DQ_PARTS * (8 * 128) + ((part * 2L + dk) * 2 + c) * (D / 8 * 128);
  return a.sums + at + threadIdx.x % 128;
}

// --- Loads --------------------------------------------------------------------------------------

// How many blocks of lse and Δ are in shared memory where OWN: those of a head, and two more, since
// the next head's first two come while the last two of this one are read.
__device__ inline int stats_blocks(const Sizes& z) { return z.blocks * group_of(z) + 2; }

// One thread: K and V of each block of keys, and the queries with dO that go by.
__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  constexpr u32 MORE = OWN ? 0 : STATS_BYTES;
  Tiles tiles;
  Turn<2> i, d, o;
  Turn<K_STAGES> k;
  Turn<1> v;
  int slot = 0;  // of lse and Δ where OWN
  for (int round = blockIdx.x;; round += gridDim.x) {
    int number = QUEUED ? tiles.take(a.counter, z) : round;
    if (number >= z.tiles) return;
    for (Task tile(number, a); tile.at < tile.end; k.next(), v.next()) {
      bool first = true;
      for (Walk q = tile.next(number, a); q.left > 0; q.next(z), i.next(), d.next(), first = false) {
        int h = tile.head * group_of(z) + q.g, n = q.m * ROWS;
        long stats = (long)(tile.b * z.H + h) * z.padded + n;
        if (first) {
          k.expect<K>();
          k.load<K>(a.k, tile.b, head_of_keys(tile.head, z), tile.keys * KEYS);
        }
        i.expect<Q>(MORE);
        i.load<Q>(a.q, tile.b, h, n);
        if (!OWN) load_values(a.lse + stats, i.full<Q>(), i.buffer<LSE>(), STATS_BYTES);
        if (first) {
          v.expect<V>();
          v.load<V>(a.v, tile.b, head_of_keys(tile.head, z), tile.keys * KEYS);
        }
        d.expect<DO>(MORE);
        d.load<DO>(a.dout, tile.b, h, n);
        if (!OWN) load_values(a.delta + stats, d.full<DO>(), d.buffer<DELTA>(), STATS_BYTES);
        if (OWN && tile.keys == 0) {  // O takes the place of dS, which cannot be there before Δ
          d.wait_empty<DS>();
          arrive_expecting(o.full<O>(), ROWS_BYTES + STATS_BYTES);
          load_tile(a.out, o.full<O>(), d.buffer<DS>(), CHUNK_OF_ROWS, tile.b, h, n);
          load_values(a.lse + stats, o.full<O>(), shared_memory() + STATS + slot * STATS_BYTES, STATS_BYTES);
          slot = slot + 1 == stats_blocks(z) ? 0 : slot + 1;
          o.next();
        }
      }
    }
    if (QUEUED) tiles.ask(a.counter);
  }
}

// Where OWN: Δ of each block of queries when it goes by for the first time, from O and dO in shared
// memory; with lse it stays there for the other blocks of keys.
__device__ inline void sum_rows(const Arguments& a, int helper) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, warp = helper / 32, column = lane % 8;
  int capacity = stats_blocks(z), slot = 0;
  Turn<2> d, o, stats;
  for (int number = blockIdx.x; number < z.tiles; number += gridDim.x) {
    for (Task tile(number, a); tile.at < tile.end;) {
      for (Walk q = tile.next(number, a); q.left > 0; q.next(z), d.next()) {
        if (tile.keys > 0) {
          d.wait_full<DO>();
          d.release<DO>();
          continue;
        }
        u32 delta = shared_memory() + STATS + (capacity + slot) * STATS_BYTES;
        slot = slot + 1 == capacity ? 0 : slot + 1;
        d.wait_full<DO>();
        o.wait_full<O>();
#pragma unroll 1
        for (int row = 4 * warp + lane / 8; row < ROWS; row += 4 * HELPERS) {
          u32 at = row * 128 + 16 * (column ^ row % 8);
          float sum = 0;
#pragma unroll
          for (int c = 0; c < CHUNKS; c++) {
            sum += dot(load_words(d.buffer<DS>() + c * CHUNK_OF_ROWS + at),
                       load_words(d.buffer<DO>() + c * CHUNK_OF_ROWS + at));
          }
          sum = sum_of_eight_lanes(sum);
          if (column == 0) store_word(delta + place_of(0, row, 0) * 4, bits(sum));
        }
        d.release<DO>();
        stats.hand_on<SUMMED>();
        stats.next(), o.next();
      }
    }
  }
}

// --- Two warpgroups: P, dS, dK and dV -----------------------------------------------------------

// Loads of shared memory wait long behind what the products read, so that the first start before
// the wait for a product. There are no registers for more.
template <bool FIRST>
__device__ inline void load_stats(Four (&values)[ROWS / 16], u32 from) {
#pragma unroll
  for (int n = FIRST ? 0 : AHEAD * 16; n < (FIRST ? AHEAD * 16 : ROWS); n += 16) values[n / 16] = load_four(from + n * 4);
}

// Which block of lse and Δ a block of queries has where OWN, of those from `base` on.
__device__ inline int stats_slot(const Walk& q, int base, const Sizes& z) {
  int slot = base + q.g * z.blocks + q.m;
  return slot >= stats_blocks(z) ? slot - stats_blocks(z) : slot;
}

// A warpgroup's 64 rows of dK or dV on their way to memory.
__device__ inline void store_rows(const TensorMap& map, const float (&x)[D / 2], float scale, u32 stage, int c, int b,
                                  int head, int n) {
  if (threadIdx.x % 128 == 0) wait_stores_read();
  sync_warpgroup(1 + c);
  stage_rows(stage, x, scale, scale);
  fence_shared();
  sync_warpgroup(1 + c);
  if (threadIdx.x % 128 == 0) store_tile(map, stage, b, head, n);
}

// Warpgroup c: keys 64 c to 64 c + 63 of each block.
__device__ inline void keep_keys(const Arguments& a, int c) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, row = 64 * c + threadIdx.x % 128 / 32 * 16;
  u32 to_ds = shared_memory() + DS_AT + (row + lane % 16) * 128 + 16 * (lane / 16 ^ lane % 8);
  u32 from_stats = shared_memory() + STATS + lane % 4 * 16;
  int capacity = OWN ? stats_blocks(z) : 0, base = 0;
  Tiles tiles;
  Turn<2> i, d, stats;
  Turn<K_STAGES> ring_k;
  Turn<1> ring_v;
  for (int round = blockIdx.x;; round += gridDim.x) {
    int number = QUEUED ? tiles.read() : round;
    if (number >= z.tiles) break;
    for (Task tile(number, a); tile.at < tile.end; ring_k.next(), ring_v.next()) {
      u32 k = ring_k.buffer<K>() + c * 64 * 128, v = ring_v.buffer<V>() + c * 64 * 128;
      float dk[D / 2] = {}, dv[D / 2] = {};  // (64, D)
      ring_k.wait_full<K>();
      ring_v.wait_full<V>();
      for (Walk q = tile.next(number, a); q.left > 0; q.next(z), i.next(), d.next()) {
        int keys = tile.keys;
        float scores[ROWS / 2], dp[ROWS / 2];
        Four lse[ROWS / 16], delta[ROWS / 16];
        u32 dout = d.buffer<DO>(), queries = i.buffer<Q>();
        u32 lse_at = from_stats + (OWN ? stats_slot(q, base, z) : i.slot) * STATS_BYTES;
        u32 delta_at = OWN ? lse_at + capacity * STATS_BYTES : from_stats + (2 + d.slot) * STATS_BYTES;
        i.wait_full<Q>();
        begin_products();
        multiply_rows(scores, k, CHUNK_OF_KEYS, queries);  // Sᵀ (64, ROWS)
        commit_products();
        if (OWN && keys == 0) {
          stats.wait_full<SUMMED>();
          stats.next();
        }
        d.wait_full<DO>();
        load_stats<true>(lse, lse_at);
        wait_products<0>();
        hold(scores);
        if (CAUSAL && q.m * ROWS < (keys + 1) * KEYS || RAGGED && (keys + 1) * KEYS > z.N)
          hide_queries(scores, keys * KEYS + row + lane / 4, q.m * ROWS, z.N);
        load_stats<false>(lse, lse_at);
        u32 p[ROWS / 4];  // Pᵀ (64, ROWS) in 16 bits
#pragma unroll
        for (int n = 0; n < ROWS; n += 16) exponentials(p + n / 4, scores + n / 2, lse[n / 16]);
        // dP, which reads V, is to start only when so many of P are there: a sign of theirs, which is
        // 0, says where V is. Else ptxas starts it at once, and has not the registers for what follows.
        u32 signs = 0;
#pragma unroll
        for (int n = 0; n < BEFORE_DP; n++) signs |= p[n];
        begin_products();
        multiply_rows(dp, v + (signs >> 31), CHUNK_OF_KEYS, dout);  // dPᵀ (64, ROWS)
        commit_products();
        begin_products();
        multiply_columns(dv, p, dout);
        commit_products();
        load_stats<true>(delta, delta_at);
        wait_products<1>();
        hold(dp);
        load_stats<false>(delta, delta_at);
        // P again from its 16 bits: to keep it in 32 beside dP would take too many registers.
        u32 ds[ROWS / 4];  // dSᵀ (64, ROWS) in 16 bits
#pragma unroll
        for (int n = 0; n < ROWS; n += 16) {
          const float* x = dp + n / 2;
          const u32* y = p + n / 4;
          Four t = delta[n / 16];
          ds[n / 4] = pack(lower(y[0]) * (x[0] - t.x), upper(y[0]) * (x[1] - t.y));
          ds[n / 4 + 1] = pack(lower(y[1]) * (x[2] - t.x), upper(y[1]) * (x[3] - t.y));
          ds[n / 4 + 2] = pack(lower(y[2]) * (x[4] - t.z), upper(y[2]) * (x[5] - t.w));
          ds[n / 4 + 3] = pack(lower(y[3]) * (x[6] - t.z), upper(y[3]) * (x[7] - t.w));
        }
        begin_products();
        multiply_columns(dk, ds, queries);  // dK (64, D); before dS leaves, which takes its time
        commit_products();
        if (MODE != ALONE) {
          d.wait_empty<DS>();
#pragma unroll
          for (int n = 0; n < ROWS; n += 16) {
            u32 to = to_ds + d.slot * DS_BYTES + n / 64 * CHUNK_OF_KEYS;
            store_matrices(to ^ n % 64 * 2, ds[n / 4], ds[n / 4 + 1], ds[n / 4 + 2], ds[n / 4 + 3]);
          }
          fence_shared();
          d.hand_on<DS>();
        }
        wait_products<1>();
        d.release<DO>();
        wait_products<0>();
        i.release<Q>();
      }
      hold(dv);
      hold(dk);
      ring_v.release<V>();
      ring_k.release<K>();
      if (SPLIT) {
        add_part(part_of(a, tile.part, false, c), dv);
        add_part(part_of(a, tile.part, true, c), dk);
      } else if (SHARED && tile.part >= 0) {
        keep(part_of(a, tile.part, false, c), dv);
        keep(part_of(a, tile.part, true, c), dk);
      } else {
        int n = tile.keys * KEYS + 64 * c;
        u32 stage = shared_memory() + STAGE + c * STAGE_BYTES;
        store_rows(a.dv, dv, 1, stage, c, tile.b, tile.head, n);
        store_rows(a.dk, dk, SCALE, stage, c, tile.b, tile.head, n);
      }
    }
    base += z.blocks * group_of(z);
    if (base >= capacity) base -= capacity;
  }
  if (threadIdx.x % 128 == 0) wait_stores_read();
}

// --- A warpgroup: dQ ----------------------------------------------------------------------------

// A part of dQ from one block of keys goes to the others. Where SWAPPED, warps have columns: none past D.
template <int R>
__device__ inline void add_dq(const Arguments& a, float (&dq)[R], int part, const Task& tile, const Walk& q) {
  const Sizes& z = a.sizes;
  int h = tile.head * group_of(z) + q.g;
  long head = OWN ? (long)blockIdx.x * group_of(z) + q.g : (long)tile.b * z.H + h;
  Four* sum = sum_of(a.sums, (head * z.blocks + q.m) * DQ_PARTS + part);
  bool begins = OWN && tile.keys == 0, ends = OWN && tile.keys == (CAUSAL ? q.m * ROWS / KEYS : key_blocks(z) - 1);
  bool past = SWAPPED && D < 64 && threadIdx.x % 128 / 32 * 16 >= D;
  if (ends) {
#pragma unroll
    for (int x = 0; x < R / 4 && !begins && !past; x++) {
      Four f = load_past_l1(sum + 128 * x);
      dq[4 * x] += f.x, dq[4 * x + 1] += f.y, dq[4 * x + 2] += f.z, dq[4 * x + 3] += f.w;
    }
    store_dq<SWAPPED>(a.dq, dq, shared_memory() + DQ_STAGE + part * 64 * 128, part, tile.b, h, q.m * ROWS);
  } else if (begins && !past) {
    keep(sum, dq);
  } else if (!past) {
    add_part(sum, dq);
  }
}

__device__ inline void sum_dq(const Arguments& a) {
  const Sizes& z = a.sizes;
  Tiles tiles;
  Turn<2> d;
  Turn<K_STAGES> ring_k;
  for (int round = blockIdx.x;; round += gridDim.x) {
    int number = QUEUED ? tiles.read() : round;
    if (number >= z.tiles) break;
    for (Task tile(number, a); tile.at < tile.end; ring_k.next()) {
      ring_k.wait_full<K>();
      for (Walk q = tile.next(number, a); q.left > 0; q.next(z), d.next()) {
        d.wait_full<DS>();
        for_parts<SWAPPED, DQ_PARTS, 1>([&](auto& dq, int part) {
          u32 ds = d.buffer<DS>(), k = ring_k.buffer<K>(), apart = part * CHUNK_OF_KEYS;
          begin_products();
          multiply_lines<KEYS>(dq, SWAPPED ? k : ds, (SWAPPED ? ds : k) + apart);
          commit_products();
          wait_products<0>();
          hold(dq);
          if (part == DQ_PARTS - 1) {
            if (q.left == 1) ring_k.release<K>();
            d.release<DS>();
          }
          add_dq(a, dq, part, tile, q);
        });
      }
    }
  }
  if (threadIdx.x % 128 == 0) wait_stores_read();
}

// --- The kernels --------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(MODE == ALONE ? 384 : 512, 1) backward(const __grid_constant__ Arguments a) {
  int group = set_up<K, V, Q, DO, DS, O, SUMMED, Tiles::Taken>(), warp = uniform(threadIdx.x / 32);
  if (group == 0) {
    shrink_registers<PRODUCER_REGISTERS>();
    if (threadIdx.x == 0) produce(a);
    if (OWN && warp > 0) sum_rows(a, threadIdx.x - 32);
  } else if (MODE != ALONE && group == 3) {
    shrink_registers<DQ_REGISTERS>();
    sum_dq(a);
  } else {
    grow_registers<KEYS_REGISTERS>();
    keep_keys(a, group - 1);
  }
}

extern "C" __global__ void __launch_bounds__(128) prepare(const __grid_constant__ Arguments a) {
  prepare_sums<ROWS, DQ_PARTS, SWAPPED>(a);
  if (SPLIT) write_zeros(part_of(a, 0, false, 0), part_of(a, split_parts(key_blocks(a.sizes), a.sizes), false, 0));
}

// Where SPLIT: dV or dK of 64 of the keys of a part.
__device__ inline void finish_part(const Arguments& a, int part, bool dk, int c) {
  const Sizes& z = a.sizes;
  auto [b, head, keys] = keys_of_part(part, key_blocks(z), z);
  float sum[D / 2];
  load_kept(sum, part_of(a, part, dk, c));
  store_rows(dk ? a.dk : a.dv, sum, dk ? SCALE : 1, shared_memory(), 0, b, head, keys * KEYS + 64 * c);
}

// Where SHARED: dV or dK of 64 of the keys at a place, if their block was cut.
__device__ inline void sum_parts(const Arguments& a, int at, bool dk, int c) {
  const Sizes& z = a.sizes;
  auto [number, begin] = shared_at(at, a);
  auto [b, head, keys] = keys_at(number, key_blocks(z), z);
  int share = begin / a.share, last = (begin + Walk(keys, APART, z).left - 1) / a.share;
  if (share == last) return;
  float sum[D / 2] = {}, x[D / 2];
  for (; share <= last; share++) {
    load_kept(x, part_of(a, 2 * share + (share * a.share < begin), dk, c));
#pragma unroll
    for (int i = 0; i < D / 2; i++) sum[i] += x[i];
  }
  store_rows(dk ? a.dk : a.dv, sum, dk ? SCALE : 1, shared_memory(), 0, b, head, keys * KEYS + 64 * c);
}

// Where ADDED. Where there are parts, four programs for a block of keys come before those for dQ: they
// take longer.
extern "C" __global__ void __launch_bounds__(128) finish(const __grid_constant__ Arguments a) {
  wait_for_kernel_before();
  const Sizes& z = a.sizes;
  int cut = SHARED || SPLIT ? gridDim.x - z.B * z.H * z.blocks : 0, n = blockIdx.x;
  if (SPLIT && n < cut) {
    finish_part(a, n / 4, n / 2 % 2, n % 2);
  } else if (n < cut) {
    sum_parts(a, (n / 4 + 1) / 2 * a.pair - n / 4 % 2, n / 2 % 2, n % 2);
  } else {
    finish_sums<ROWS, DQ_PARTS, SWAPPED>(a, n - cut);
  }
  if (threadIdx.x == 0) wait_stores_read();
}
