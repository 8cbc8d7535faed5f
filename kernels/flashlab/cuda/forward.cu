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

struct Sizes {
  int B, N, H, group;  // group: G
  int tiles;           // B H ⌈padded / ROWS⌉
  int together;        // heads side by side, where the longest tiles come first
  int padded;          // N up to a multiple of 128
};

struct Arguments {
  TensorMap q, k, v, out;
  Sizes sizes;
  float* lse;    // (B, H, padded) by `place_of`, of base 2
  int* counter;  // of tiles, where QUEUED
};

// --- Shared memory ------------------------------------------------------------------------------

constexpr u32 CHUNK_OF_KEYS = KEYS * 128, KEYS_BYTES = CHUNKS * CHUNK_OF_KEYS;
constexpr u32 Q_BYTES = CHUNKS * 64 * 128;  // of a consumer
constexpr u32 K = 0;
constexpr u32 V = K + STAGES * KEYS_BYTES;
constexpr u32 Q = V + STAGES * KEYS_BYTES;
constexpr u32 O = SEPARATE_O ? Q + CONSUMERS * Q_BYTES : Q;
constexpr u32 BARRIERS = O + CONSUMERS * Q_BYTES;
constexpr u32 K_FULL = BARRIERS, K_EMPTY = K_FULL + 32, V_FULL = K_EMPTY + 32, V_EMPTY = V_FULL + 32;
constexpr u32 Q_FULL = V_EMPTY + 32, Q_EMPTY = Q_FULL + 32;
constexpr u32 TILE_FULL = Q_EMPTY + 32, TILE_EMPTY = TILE_FULL + 16, TILES = TILE_EMPTY + 16;

// --- The order of tiles -------------------------------------------------------------------------

struct Tile {
  int b, h, row;
};

__device__ inline int row_blocks(const Sizes& z) { return (z.padded + ROWS - 1) / ROWS; }

__device__ inline Tile tile_at(int tile, const Sizes& z) {
  auto [bh, block] = block_at(tile, row_blocks(z), z.together);
  if (CAUSAL) block = row_blocks(z) - 1 - block;  // the longest first
  return {bh / z.H, bh % z.H, block * ROWS};
}

// How many blocks of keys the queries before `end` see.
__device__ inline int key_blocks(int end, const Sizes& z) {
  int keys = CAUSAL && end < z.N ? end : z.N;
  return (keys + KEYS - 1) / KEYS;
}

// The next tile: from a counter that all programs share, or in a fixed order, in which every other
// round runs backwards to even out the work.
__device__ inline int next_tile(const Arguments& a, Turn<2>& turn, int round, bool produces) {
  if (!QUEUED) return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  return take_number(a.counter, a.sizes.tiles, turn, TILE_FULL, TILE_EMPTY, TILES, produces);
}

// --- Loads --------------------------------------------------------------------------------------

__device__ inline void load_keys(const TensorMap& map, const Turn<STAGES>& turn, u32 full, u32 empty, u32 buffers,
                                 int b, int h, int block) {
  turn.wait_empty(empty);
  arrive_expecting(turn.barrier(full), KEYS_BYTES);
  load_tile(map, turn.barrier(full), turn.buffer(buffers, KEYS_BYTES), CHUNK_OF_KEYS, b, h, block * KEYS);
}

// One thread.
__device__ inline void produce(const Arguments& a) {
  const Sizes& z = a.sizes;
  Turn<2> turn;
  Turn<STAGES> k, v;
  Turn<1> q;
  for (int round = 0;; round++, q.next()) {
    int number = next_tile(a, turn, round, true);
    if (number >= z.tiles) return;
    Tile tile = tile_at(number, z);
    int head = tile.h / z.group, n = key_blocks(tile.row + ROWS, z);
    load_keys(a.k, k, K_FULL, K_EMPTY, K, tile.b, head, n - 1);
    k.next();
#pragma unroll 1
    for (int c = 0; c < CONSUMERS; c++) {
      u32 full = q.barrier(Q_FULL) + 8 * c;
      wait(q.barrier(Q_EMPTY) + 8 * c, q.parity ^ 1);
      arrive_expecting(full, Q_BYTES);
      load_tile(a.q, full, shared_memory() + Q + c * Q_BYTES, 64 * 128, tile.b, tile.h, tile.row + 64 * c);
    }
#pragma unroll 1
    for (int j = n - 1; j >= 0; j--) {  // K runs one block ahead of V, as its products do
      if (j > 0) {
        load_keys(a.k, k, K_FULL, K_EMPTY, K, tile.b, head, j - 1);
        k.next();
      }
      load_keys(a.v, v, V_FULL, V_EMPTY, V, tile.b, head, j);
      v.next();
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
  u32 queries = shared_memory() + Q + c * Q_BYTES, staged = shared_memory() + O + c * Q_BYTES;
  Turn<2> turn;
  Turn<STAGES> k, v;
  Turn<1> q;
  for (int round = 0;; round++, q.next()) {
    int number = next_tile(a, turn, round, false);
    if (number >= z.tiles) break;
    Tile tile = tile_at(number, z);
    int first_row = tile.row + 64 * c, row = first_row + 16 * warp + lane / 4;
    int n = key_blocks(tile.row + ROWS, z);
    if (!PINGPONG) {  // blocks that only the consumers of later rows see
      for (int own = key_blocks(first_row + 64, z); n > own; n--) {
        k.wait_full(K_FULL), k.release(K_EMPTY), k.next();
        v.wait_full(V_FULL), v.release(V_EMPTY), v.next();
      }
    }
    float s[KEYS / 2], o[D / 2] = {};
    u32 p[KEYS / 4];
    Softmax softmax = {{LOWEST, LOWEST}, {0, 0}};
    wait(q.barrier(Q_FULL) + 8 * c, q.parity);
    k.wait_full(K_FULL);
    if (PINGPONG) sync_turns(4 + c, 256);
    begin_products();
    multiply_rows(s, queries, 64 * 128, k.buffer(K, KEYS_BYTES));
    commit_products();
    if (PINGPONG) arrive_turns(4 + (c + 1) % CONSUMERS, 256);
    wait_products<0>();
    hold(s);
    k.release(K_EMPTY), k.next();
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
        v.release(V_EMPTY), v.next();
        if (scales) {
#pragma unroll
          for (int i = 0; i < D / 2; i++) o[i] *= scale[i / 2 % 2];
        }
      }
      to_16_bits(p, s);
      if (j == 0) break;
      k.wait_full(K_FULL);
      if (PINGPONG) sync_turns(4 + c, 256);
      begin_products();
      multiply_rows(s, queries, 64 * 128, k.buffer(K, KEYS_BYTES));
      commit_products();
      v.wait_full(V_FULL);
      begin_products();
      multiply_columns(o, p, v.buffer(V, KEYS_BYTES));
      commit_products();
      if (PINGPONG) arrive_turns(4 + (c + 1) % CONSUMERS, 256);
      wait_products<1>();
      hold(s);
      k.release(K_EMPTY), k.next();
    }
    if (SEPARATE_O) {
      sync_warp();
      if (lane == 0) arrive(q.barrier(Q_EMPTY) + 8 * c);
    }
    v.wait_full(V_FULL);
    begin_products();
    multiply_columns(o, p, v.buffer(V, KEYS_BYTES));
    commit_products();
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float sum = softmax.sums[r];
      sum += exchange(sum, 1);
      sum += exchange(sum, 2);
      factor[r] = 1 / sum;
      if (lane % 4 == 0 && row + 8 * r < z.padded)
        a.lse[place_of(tile.b * z.H + tile.h, row + 8 * r, z.padded)] = softmax.largest[r] + log2(sum);
    }
    if (SEPARATE_O && threadIdx.x % 128 == 0) wait_stores_read();
    sync_warpgroup(1 + c);  // the last O has left, and where it takes its place nobody reads Q
    wait_products<0>();
    hold(o);
    v.release(V_EMPTY), v.next();
    stage_rows(staged, o, factor[0], factor[1]);
    fence_shared();
    sync_warpgroup(1 + c);
    if (threadIdx.x % 128 == 0) {
      store_tile(a.out, staged, tile.b, tile.h, first_row);
      if (!SEPARATE_O) {
        wait_stores_read();
        for (int w = 0; w < 4; w++) arrive(q.barrier(Q_EMPTY) + 8 * c);
      }
    }
  }
  if (threadIdx.x % 128 == 0) wait_stores_read();
}

extern "C" __global__ void __launch_bounds__(128 + 128 * CONSUMERS, PROGRAMS)
    forward(const __grid_constant__ Arguments a) {
  if (threadIdx.x == 0) {
    u32 s = shared_memory();
    for (int x = 0; x < STAGES; x++) {
      init_barrier(s + K_FULL + 8 * x, 1), init_barrier(s + K_EMPTY + 8 * x, 4 * CONSUMERS);
      init_barrier(s + V_FULL + 8 * x, 1), init_barrier(s + V_EMPTY + 8 * x, 4 * CONSUMERS);
    }
    for (int c = 0; c < CONSUMERS; c++) init_barrier(s + Q_FULL + 8 * c, 1), init_barrier(s + Q_EMPTY + 8 * c, 4);
    for (int x = 0; x < 2; x++) {
      init_barrier(s + TILE_FULL + 8 * x, 1), init_barrier(s + TILE_EMPTY + 8 * x, 4 * CONSUMERS);
    }
    fence_barriers();
  }
  sync_block();
  int group = uniform(threadIdx.x / 128);
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
