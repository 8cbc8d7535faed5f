// The forward pass on Hopper: O = softmax(Q Kᵀ / √D) V.
//
// A tile is 64 query rows for each consumer warpgroup. A producer loads Q, then K and V from the
// last block of keys down, so that the masked block comes first. A consumer issues S = Q Kᵀ of the
// next block before P V of this one, and computes the softmax of the next block while P V runs.
//
// B batch_size, N seq_len, H num_heads, D head_dim; G heads of Q share one of K and V.

constexpr int ROWS = 64 * CONSUMERS;
// P may grow to 2^8 before what was summed is scaled down again: 16 bits hold more, and a maximum
// that creeps up costs nothing.
constexpr float SLACK = 8;
constexpr float LOWEST = -1e30f;  // where every score so far is −∞: finite, so that later rows are right

struct Arguments {
  TensorMap q, k, v, out;
  Sizes sizes;
  float* lse;    // (B, H, padded) by `place_of`, of base 2
  int* counter;  // of tiles, where QUEUED
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 KEYS_BYTES = CHUNKS * KEYS * 128, Q_BYTES = CHUNKS * 64 * 128;
constexpr u32 V_AT = STAGES * KEYS_BYTES, Q_AT = 2 * V_AT, BARRIERS = Q_AT + Q_SLOTS * Q_BYTES;
using K = Ring<STAGES, KEYS_BYTES, 0, BARRIERS, 4 * CONSUMERS>;
using V = Ring<STAGES, KEYS_BYTES, V_AT, K::END, 4 * CONSUMERS>;
// Of 64 queries each, which consumers have in turn; O leaves from where its queries were.
using Q = Ring<Q_SLOTS, Q_BYTES, Q_AT, V::END, 1>;
using Tiles = Numbers<Q::END, 4 * CONSUMERS>;

// The next tile: from a counter that all programs share, or in a fixed order, in which every other
// round runs backwards to even out the work.
__device__ inline int fixed_tile(int round) {
  return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

// With a mask, rows past the end would see all keys: the tiles of a head end where its rows do, and the
// first has some rows of the second, which see few.
__device__ inline Rows rows_of(int number, const Sizes& z) {
  Rows rows = rows_at(number, ROWS, z);
  if (CAUSAL && 128 % ROWS) rows.row += z.padded - z.blocks * ROWS;
  if (rows.row < 0) rows.row = 0;
  return rows;
}

// --- Loads: one thread --------------------------------------------------------------------------

__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Tiles tiles;
  Turn<STAGES> k, v;
  Turn<Q_SLOTS> q;
  for (int round = 0;; round++) {
    int number = QUEUED ? tiles.take(a.counter, z) : fixed_tile(round);
    if (number >= z.tiles) return;
    auto [b, h, row] = rows_of(number, z);
    int head = h / z.group, j = blocks_seen(row + ROWS, KEYS, z) - 1;
    k.expect<K>();
    k.load<K>(a.k, b, head, j * KEYS), k.next();
#pragma unroll 1
    for (int c = 0; c < CONSUMERS; c++, q.next()) {
      q.expect<Q>();
      q.load<Q>(a.q, b, h, row + 64 * c);
    }
#pragma unroll 1
    for (; j >= 0; j--) {  // K runs one block ahead of V, as its products do
      if (j > 0) {
        k.expect<K>();
        k.load<K>(a.k, b, head, (j - 1) * KEYS), k.next();
      } else if (QUEUED) {
        tiles.ask(a.counter);
      }
      v.expect<V>();
      v.load<V>(a.v, b, head, j * KEYS), v.next();
    }
  }
}

// --- Consumers ----------------------------------------------------------------------------------

// Registers 0 and 1 of every four are of a thread's first row, the others of its second. The rows'
// other columns are with three more lanes.
struct Softmax {
  float largest[2], sums[2];  // of S log₂(e) / √D, and this thread's share of the sum of P

  __device__ static float of_four_lanes(float x) {
    x = fmaxf(x, exchange(x, 1));
    return fmaxf(x, exchange(x, 2));
  }

  // The largest scores of a block of keys, scaled.
  __device__ static void find_largest(const float (&s)[KEYS / 2], float (&found)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float x[4] = {s[2 * r], s[2 * r + 1], s[2 * r + 4], s[2 * r + 5]};  // four chains side by side
#pragma unroll
      for (int i = 8 + 2 * r; i < KEYS / 2; i += 8) {
        x[0] = fmaxf(x[0], s[i]), x[1] = fmaxf(x[1], s[i + 1]);
        if (i + 4 < KEYS / 2) x[2] = fmaxf(x[2], s[i + 4]), x[3] = fmaxf(x[3], s[i + 5]);
      }
      found[r] = of_four_lanes(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]))) * SCALE_LOG2;
    }
  }

  // S → P = exp(S − largest), and its sums.
  __device__ void exponentials(float (&s)[KEYS / 2]) {
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) {
      s[i] = exp2(s[i] * SCALE_LOG2 - largest[i / 2 % 2]);
      sums[i / 2 % 2] += s[i];
    }
  }
};

// Consumer c: rows 64 c to 64 c + 63 of each tile.
__device__ inline void attend(const Arguments& a, int c) {
  const Sizes& z = a.sizes;
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  bool stores = threadIdx.x % 128 == 0;
  u32 leaves = 0;  // the barrier of the queries in whose place the last O is
  Tiles tiles;
  Turn<STAGES> k, v;
  Turn<Q_SLOTS> q;
  for (int i = 0; i < c; i++) q.next();
  for (int round = 0;; round++) {
    int number = QUEUED ? tiles.read() : fixed_tile(round);
    if (number >= z.tiles) break;
    auto [b, h, first] = rows_of(number, z);
    int first_row = first + 64 * c, row = first_row + 16 * warp + lane / 4;
    int n = blocks_seen(first + ROWS, KEYS, z);
    if (!PINGPONG) {  // blocks that only the consumers of later rows see
      for (int own = blocks_seen(first_row + 64, KEYS, z); n > own; n--) {
        k.wait_full<K>(), k.release<K>(), k.next();
        v.wait_full<V>(), v.release<V>(), v.next();
      }
    }
    float s[KEYS / 2], o[D / 2] = {};
    u32 p[KEYS / 4], queries = q.buffer<Q>();
    Softmax softmax = {{LOWEST, LOWEST}, {0, 0}};
    q.wait_full<Q>();
    k.wait_full<K>();
    if (PINGPONG) sync_turns(4 + c, 256);
    begin_products();
    multiply_rows(s, queries, 64 * 128, k.buffer<K>());
    commit_products();
    if (PINGPONG) arrive_turns(4 + (c + 1) % CONSUMERS, 256);
    if (Q_SLOTS >= 2 * CONSUMERS && stores && leaves) wait_stores_read(), arrive(leaves);
    wait_products<0>();
    hold(s);
    k.release<K>(), k.next();
    for (int j = n - 1;; j--) {
      if ((j + 1) * KEYS > (CAUSAL ? first_row : z.N)) hide_keys(s, row, j * KEYS, z.N);
      float largest[2];
      Softmax::find_largest(s, largest);
      float scale[2] = {1, 1};
      bool scales = any(largest[0] > softmax.largest[0] + SLACK || largest[1] > softmax.largest[1] + SLACK);
      if (scales) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
          float before = softmax.largest[r];
          softmax.largest[r] = fmaxf(before, largest[r]);
          scale[r] = exp2(before - softmax.largest[r]);
          softmax.sums[r] *= scale[r];
        }
      }
      softmax.exponentials(s);
      if (j < n - 1) {
        hold(s);  // what is above is to run beside P V
        wait_products<0>();
        hold(o);
        v.release<V>(), v.next();
        if (scales) {
#pragma unroll
          for (int i = 0; i < D / 2; i++) o[i] *= scale[i / 2 % 2];
        }
      }
      to_16_bits(p, s);
      if (j == 0) break;
      k.wait_full<K>();
      if (PINGPONG) sync_turns(4 + c, 256);
      begin_products();
      multiply_rows(s, queries, 64 * 128, k.buffer<K>());
      commit_products();
      v.wait_full<V>();
      begin_products();
      multiply_columns(o, p, v.buffer<V>());
      commit_products();
      if (PINGPONG) arrive_turns(4 + (c + 1) % CONSUMERS, 256);
      wait_products<1>();
      hold(s);
      k.release<K>(), k.next();
    }
    v.wait_full<V>();
    begin_products();
    multiply_columns(o, p, v.buffer<V>());
    commit_products();
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float sum = softmax.sums[r];
      sum += exchange(sum, 1);
      sum += exchange(sum, 2);
      factor[r] = 1 / sum;
      if (lane % 4 == 0 && row + 8 * r < z.padded)
        a.lse[place_of(b * z.H + h, row + 8 * r, z.padded)] = softmax.largest[r] + log2(sum);
    }
    sync_warpgroup(1 + c);  // nobody reads Q any more
    wait_products<0>();
    hold(o);
    v.release<V>(), v.next();
    stage_rows(queries, o, factor[0], factor[1]);
    fence_shared();
    sync_warpgroup(1 + c);
    leaves = q.empty<Q>();
    if (stores) {
      store_tile(a.out, queries, b, h, first_row);
      if (Q_SLOTS < 2 * CONSUMERS) wait_stores_read(), arrive(leaves);  // awaited by the next tile
    }
    for (int i = 0; i < CONSUMERS; i++) q.next();
  }
  if (stores) wait_stores_read();
}

extern "C" __global__ void __launch_bounds__(128 + 128 * CONSUMERS, PROGRAMS)
    forward(const __grid_constant__ Arguments a) {
  int group = set_up<K, V, Q, Tiles::Taken>();
  if (group == 0) {
    shrink_registers<PRODUCER_REGISTERS>();
    if (threadIdx.x == 0) produce(a);
  } else {
    grow_registers<CONSUMER_REGISTERS>();
    // Warpgroups take turns to issue products, so that the softmax of one runs beside the products
    // of another. The first has the first turn.
    if (PINGPONG && group == CONSUMERS) arrive_turns(4, 256);
    attend(a, group - 1);
  }
}
