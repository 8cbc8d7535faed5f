// kernels/flashlab/cuda/sm90.cuh on a CPU: a block's threads take turns in a random order.
//
// Loads and stores of the copy engine, and products, happen at a random time between their start
// and the wait for them. A buffer that is being loaded is poisoned, so that who reads too early, or
// overwrites what is still to be read, gets NaN or a wrong result; who waits in vain, a deadlock.
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define INFINITE INFINITY

using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(64) TensorMap {  // what the test fills in for the driver
  char* base;
  long sizes[4], strides[4];  // of D, H, N and B; strides in bytes
  int rows;                   // of a box; 64 columns
  char rest[128 - 8 - 64 - 4 - 4];
};
static_assert(sizeof(TensorMap) == 128);

struct Place {
  int x;
};

namespace simulated {

constexpr int MOST_SHARED = 232448, STACK = 128 << 10;

struct Barrier {
  int arrivals = 0, pending = 0, completed = 0;
  long bytes = 0;
};

// Threads that do something together: the last to come does it for all, with what each brought.
struct Meeting {
  int come = 0, round = 0;
  std::vector<void*> brought;
};

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  std::function<bool()> waits;  // until this is true
  long on = -1;                 // which barrier, or which meeting
  bool ended = false;
  bool waited = false;          // for the kernel before
};

struct Products {
  std::deque<std::vector<std::function<void()>>> groups;
  std::vector<std::function<void()>> open;
};

char memory[MOST_SHARED];
u32 shared;  // bytes of it that a block has
std::map<u32, Barrier> barriers;
std::vector<Thread> threads;
std::map<long, Meeting> meetings;
std::vector<Products> products;
std::vector<std::function<void()>> loads;
std::vector<std::deque<std::function<void()>>> stores;
std::mt19937 random;
ucontext_t scheduler;
int current;
bool early;  // the kernel before may still run

[[noreturn]] inline void fail(const char* why) {
  fprintf(stderr, "simulated: %s (thread %d)\n", why, current);
  _Exit(3);
}

// Before what another kernel writes, or reads, is used.
inline void check_waited() {
  if (early && !threads[current].waited) fail("the kernel before may still run");
}

inline void pause(long on, std::function<bool()> until) {
  threads[current].waits = std::move(until);
  threads[current].on = on;
  swapcontext(&threads[current].context, &scheduler);
}

// `all` threads meet, which each say by the same key; the last one calls `act`.
inline void meet(long key, int all, int rank, void* mine, const std::function<void(std::vector<void*>&)>& act) {
  Meeting& m = meetings[key];
  m.brought.resize(all);
  m.brought[rank] = mine;
  int round = m.round;
  if (++m.come == all) {
    act(m.brought);
    m.come = 0, m.round++;
  } else {
    pause(-key, [&m, round] { return m.round != round; });
  }
}

inline void complete(Barrier& b) {
  while (b.pending == 0 && b.bytes == 0) b.pending = b.arrivals, b.completed++;
}

inline char* at(u32 address, u32 size) {
  if (address + size > shared) fail("outside of shared memory");
  return memory + address;
}

inline u32 swizzled(u32 address) { return address ^ (address >> 7 & 7) << 4; }

inline unsigned short& half_at(u32 address) { return *(unsigned short*)at(swizzled(address), 2); }

inline float to_float(unsigned short h) {
#if BF16
  u32 bits = (u32)h << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
#else
  _Float16 x;
  memcpy(&x, &h, 2);
  return (float)x;
#endif
}

inline unsigned short to_half(float x) {
#if BF16
  u32 bits;
  memcpy(&bits, &x, 4);
  if (x != x) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#else
  _Float16 y = (_Float16)x;
  unsigned short h;
  memcpy(&h, &y, 2);
  return h;
#endif
}

// An element of a matrix as a product reads it: `line` along M or N, `k` along the sum.
inline float element(u64 descriptor, bool transposed, int line, int k) {
  u32 start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
  u32 stride = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1) fail("a matrix that is not swizzled over 128 bytes");
  u32 place = transposed ? line / 64 * leading + line % 64 * 2 + k / 8 * stride + k % 8 * 128
                         : line / 8 * stride + line % 8 * 128 + k * 2;
  return to_float(half_at(start + place));
}

// Where in a warpgroup's accumulator register `i` of thread `t` is.
inline int row_of(int t, int i) { return t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8; }
inline int column_of(int t, int i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

inline Products& mine();

inline void start_product(std::function<void()> product) { mine().open.push_back(std::move(product)); }

inline void run_group(Products& p) {
  for (auto& product : p.groups.front()) product();
  p.groups.pop_front();
}

}  // namespace simulated

inline Place this_thread() { return {simulated::current}; }
inline Place this_block, all_blocks;
#define threadIdx this_thread()
#define blockIdx this_block
#define gridDim all_blocks

inline simulated::Products& simulated::mine() { return products[current / 128]; }

// --- What sm90.cuh has --------------------------------------------------------------------------

inline u32 shared_memory() { return 0; }
template <int>
inline void grow_registers() {}
template <int>
inline void shrink_registers() {}
inline void sync_warpgroup(int id) {
  simulated::meet(1000 + id, 128, threadIdx.x % 128, nullptr, [](auto&) {});
}
inline std::map<int, std::pair<int, int>> turns;  // threads that have come, and rounds
inline void arrive_turns(int id, int threads) {
  auto& [come, rounds] = turns[id];
  if (++come == threads) come = 0, rounds++;
}
inline void sync_turns(int id, int threads) {
  int round = turns[id].second;
  arrive_turns(id, threads);
  if (turns[id].second == round) simulated::pause(-id, [id, round] { return turns[id].second != round; });
}
inline void sync_warp() { simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, nullptr, [](auto&) {}); }
inline void sync_block() {
  simulated::meet(2000, simulated::threads.size(), threadIdx.x, nullptr, [](auto&) {});
}
inline float exchange(float x, int bits) {
  float y = 0;
  struct Offer {
    float x, *y;
  } offer = {x, &y};
  simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, &offer, [bits](auto& all) {
    for (int l = 0; l < 32; l++) *((Offer*)all[l])->y = ((Offer*)all[l ^ bits])->x;
  });
  return y;
}
inline float of_lane(float x, int lane) {
  float y = 0;
  struct Offer {
    float x, *y;
    int lane;
  } offer = {x, &y, lane};
  simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, &offer, [](auto& all) {
    for (int l = 0; l < 32; l++) {
      Offer* mine = (Offer*)all[l];
      *mine->y = ((Offer*)all[mine->lane])->x;
    }
  });
  return y;
}
inline bool any(bool x) {
  bool y = false;
  struct Offer {
    bool x, *y;
  } offer = {x, &y};
  simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, &offer, [](auto& all) {
    bool found = false;
    for (int l = 0; l < 32; l++) found |= ((Offer*)all[l])->x;
    for (int l = 0; l < 32; l++) *((Offer*)all[l])->y = found;
  });
  return y;
}
inline int uniform(int x) { return x; }

inline void wait_for_kernel_before() { simulated::threads[simulated::current].waited = true; }
inline void let_next_kernel_start() {}

inline void init_barrier(u32 barrier, int arrivals) {
  simulated::barriers[barrier] = {arrivals, arrivals, 0, 0};
}
inline void fence_barriers() {}
inline simulated::Barrier& barrier_at(u32 barrier) {
  auto found = simulated::barriers.find(barrier);
  if (found == simulated::barriers.end()) simulated::fail("no barrier there");
  return found->second;
}
inline void arrive(u32 barrier) {
  auto& b = barrier_at(barrier);
  if (--b.pending < 0) simulated::fail("more arrivals than the barrier has");
  simulated::complete(b);
}
inline void arrive_expecting(u32 barrier, u32 bytes) {
  auto& b = barrier_at(barrier);
  b.bytes += bytes;
  if (--b.pending < 0) simulated::fail("more arrivals than the barrier has");
  simulated::complete(b);
}
inline void wait(u32 barrier, u32 parity) {
  auto& b = barrier_at(barrier);
  if ((u32)(b.completed % 2) == parity) simulated::pause(barrier, [&b, parity] { return (u32)(b.completed % 2) != parity; });
}

inline void fence_shared() {}
inline void load_box(const TensorMap* map, u32 full, u32 to, int d, int h, int n, int b) {
  simulated::check_waited();
  memset(simulated::at(to, map->rows * 128), 0xff, map->rows * 128);  // NaN until it is there
  simulated::loads.push_back([=] {
    for (int row = 0; row < map->rows; row++) {
      for (int c = 0; c < 64; c++) {
        bool inside = d + c < map->sizes[0] && h < map->sizes[1] && n + row < map->sizes[2] && b < map->sizes[3];
        const char* from = map->base + (d + c) * 2 + h * map->strides[1] + (n + row) * map->strides[2] + b * map->strides[3];
        simulated::half_at(to + row * 128 + c * 2) = inside ? *(const unsigned short*)from : 0;
      }
    }
    auto& barrier = barrier_at(full);
    barrier.bytes -= map->rows * 128;
    simulated::complete(barrier);
  });
}
inline void load_values(const float* from, u32 full, u32 to, u32 bytes) {
  simulated::check_waited();
  memset(simulated::at(to, bytes), 0xff, bytes);
  simulated::loads.push_back([=] {
    memcpy(simulated::at(to, bytes), from, bytes);
    auto& barrier = barrier_at(full);
    barrier.bytes -= bytes;
    simulated::complete(barrier);
  });
}
inline void store_box(const TensorMap* map, u32 from, int d, int h, int n, int b) {
  simulated::check_waited();
  simulated::stores[threadIdx.x].push_back([=] {
    for (int row = 0; row < map->rows; row++) {
      for (int c = 0; c < 64; c++) {
        bool inside = d + c < map->sizes[0] && h < map->sizes[1] && n + row < map->sizes[2] && b < map->sizes[3];
        char* to = map->base + (d + c) * 2 + h * map->strides[1] + (n + row) * map->strides[2] + b * map->strides[3];
        if (inside) *(unsigned short*)to = simulated::half_at(from + row * 128 + c * 2);
      }
    }
  });
}
inline void commit_stores() {}
inline void wait_stores_read() {
  auto& mine = simulated::stores[threadIdx.x];
  for (; !mine.empty(); mine.pop_front()) mine.front()();
}

struct alignas(16) Four {
  float x, y, z, w;
};
struct alignas(16) Words {
  u32 x, y, z, w;
};
inline Four load_four(u32 from) { return *(Four*)simulated::at(from, 16); }
inline Words load_words(u32 from) { return *(Words*)simulated::at(from, 16); }
inline void store_words(u32 to, Words words) { *(Words*)simulated::at(to, 16) = words; }
inline u32 load_word(u32 from) { return *(u32*)simulated::at(from, 4); }
inline void store_word(u32 to, u32 word) { *(u32*)simulated::at(to, 4) = word; }
inline Four load_past_l1(const Four* from) { return *from; }
inline void add_in_memory(Four* to, Four f) { to->x += f.x, to->y += f.y, to->z += f.z, to->w += f.w; }
inline int take_ticket(int* counter) { return (*counter)++; }

inline void store_matrices_of_warp(u32 row, u32 a, u32 b, u32 c, u32 d, bool transposed) {
  struct Offer {
    u32 row, words[4];
  } offer = {row, {a, b, c, d}};
  simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, &offer, [transposed](auto& all) {
    for (int m = 0; m < 4; m++) {
      for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 8; j++) {
          int from = transposed ? j * 4 + i / 2 : i * 4 + j / 2;
          u32 word = ((Offer*)all[from])->words[m];
          unsigned short half = (transposed ? i : j) % 2 ? word >> 16 : word & 0xffff;
          *(unsigned short*)simulated::at(((Offer*)all[8 * m + i])->row + 2 * j, 2) = half;
        }
      }
    }
  });
}
inline void store_matrices(u32 row, u32 a, u32 b, u32 c, u32 d) { store_matrices_of_warp(row, a, b, c, d, false); }
inline void store_matrices_transposed(u32 row, u32 a, u32 b, u32 c, u32 d) {
  store_matrices_of_warp(row, a, b, c, d, true);
}

inline u32 pack(float lower, float upper) {
  return simulated::to_half(lower) | (u32)simulated::to_half(upper) << 16;
}
inline float lower(u32 both) { return simulated::to_float(both & 0xffff); }
inline float upper(u32 both) { return simulated::to_float(both >> 16); }
inline u32 bits(float x) {
  u32 word;
  memcpy(&word, &x, 4);
  return word;
}

struct Matrix {
  u32 place, shape;
};
inline Matrix matrix(u32 at, u32 leading = 16) { return {at >> 4 | leading >> 4 << 16, 1024 >> 4 | 1 << 30}; }
inline u64 advanced(Matrix m, u32 bytes) { return (u64)m.shape << 32 | (m.place + (bytes >> 4)); }
inline void begin_products() {}
inline void commit_products() {
  simulated::meet(3000 + threadIdx.x / 128, 128, threadIdx.x % 128, nullptr, [](auto&) {
    simulated::mine().groups.push_back(std::move(simulated::mine().open));
    simulated::mine().open.clear();
  });
}
template <int PENDING>
inline void wait_products() {
  simulated::meet(3000 + threadIdx.x / 128, 128, threadIdx.x % 128, nullptr, [](auto&) {
    while (simulated::mine().groups.size() > PENDING) simulated::run_group(simulated::mine());
  });
}
template <class T, int R>
inline void hold(T (&)[R]) {}

// d (64, 2 R) = A B, or += where `adds`; A (64, 16) by `left`, B (16, 2 R) by its descriptor.
template <int R>
inline void multiply(float (&d)[R], std::function<float(int, int)> left, u64 b, bool transposed, bool adds,
                     std::vector<void*> all) {
  simulated::start_product([=] {
    std::vector<float> left_of(64 * 16), right_of(16 * 2 * R);
    for (int i = 0; i < 64; i++)
      for (int k = 0; k < 16; k++) left_of[i * 16 + k] = left(i, k);
    for (int j = 0; j < 2 * R; j++)
      for (int k = 0; k < 16; k++) right_of[k * 2 * R + j] = simulated::element(b, transposed, j, k);
    for (int t = 0; t < 128; t++) {
      float* x = (float*)all[t];
      for (int i = 0; i < R; i++) {
        float sum = adds ? x[i] : 0;
        for (int k = 0; k < 16; k++)
          sum += left_of[simulated::row_of(t, i) * 16 + k] * right_of[k * 2 * R + simulated::column_of(t, i)];
        x[i] = sum;
      }
    }
  });
}
template <int TA, int TB, int R>
inline void mma_of(float (&d)[R], u64 a, u64 b, bool adds) {
  simulated::meet(3000 + threadIdx.x / 128, 128, threadIdx.x % 128, d, [&](auto& all) {
    multiply(d, [a](int i, int k) { return simulated::element(a, TA, i, k); }, b, TB, adds, all);
  });
}
template <int TA, int TB, int R>
inline void mma(float (&d)[R], u64 a, u64 b) {
  mma_of<TA, TB>(d, a, b, true);
}
template <int TA, int TB, int R>
inline void mma_first(float (&d)[R], u64 a, u64 b) {
  mma_of<TA, TB>(d, a, b, false);
}
template <int TB, int R>
inline void mma_by_registers(float (&d)[R], const u32 (&a)[4], u64 b, bool adds) {
  struct Offer {
    float* d;
    u32 a[4];
  } offer = {d, {a[0], a[1], a[2], a[3]}};
  simulated::meet(3000 + threadIdx.x / 128, 128, threadIdx.x % 128, &offer, [&](auto& all) {
    std::vector<float> left(64 * 16);
    std::vector<void*> sums(128);
    for (int t = 0; t < 128; t++) {
      auto* mine = (Offer*)all[t];
      sums[t] = mine->d;
      for (int w = 0; w < 4; w++) {  // rows by w % 2, columns by w / 2
        int row = t / 32 * 16 + t % 32 / 4 + w % 2 * 8, k = t % 4 * 2 + w / 2 * 8;
        left[row * 16 + k] = lower(mine->a[w]), left[row * 16 + k + 1] = upper(mine->a[w]);
      }
    }
    multiply(d, [left](int i, int k) { return left[i * 16 + k]; }, b, TB, adds, sums);
  });
}
template <int TB, int R>
inline void mma(float (&d)[R], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  mma_by_registers<TB>(d, {a0, a1, a2, a3}, b, true);
}
template <int TB, int R>
inline void mma_first(float (&d)[R], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  mma_by_registers<TB>(d, {a0, a1, a2, a3}, b, false);
}

// --- A launch -----------------------------------------------------------------------------------

namespace simulated {

std::function<void()> kernel;

inline void enter() {
  kernel();
  threads[current].ended = true;
  swapcontext(&threads[current].context, &scheduler);
}

// One block after the other.
inline void launch(int blocks, int size, int shared_bytes, int seed, bool starts_early, std::function<void()> called) {
  early = starts_early;
  kernel = std::move(called);
  shared = shared_bytes;
  random.seed(seed);
  all_blocks.x = blocks;
  for (int block = 0; block < blocks; block++) {
    this_block.x = block;
    memset(memory, 0xff, sizeof memory);
    barriers.clear(), meetings.clear(), loads.clear(), turns.clear();
    threads = std::vector<Thread>(size);
    stores = std::vector<std::deque<std::function<void()>>>(size);
    products = std::vector<Products>((size + 127) / 128);
    for (auto& thread : threads) {
      thread.stack.reset(new char[STACK]);
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.get();
      thread.context.uc_stack.ss_size = STACK;
      makecontext(&thread.context, enter, 0);
    }
    std::vector<int> order(size);
    for (int i = 0; i < size; i++) order[i] = i;
    // One warpgroup may fall far behind, and what runs by itself may come as late as it can: so does
    // who does not wait for it meet what it is to wait for.
    int slow = random() % (products.size() + 1);
    bool late = random() % 2;
    bool moved = true;
    for (int left = size; left > 0;) {
      // A warp after the other, in a random order, and some of what runs by itself.
      bool sleeps = moved && random() % 16;
      moved = false;
      int first = random() % size / 32 * 32;
      for (int i = 0; i < size; i++) {
        current = (first + i) % size;
        if (i % 32 == 0 && (random() % 3 == 0 || sleeps && current / 128 == slow)) {
          i += 31;
          continue;
        }
        Thread& thread = threads[current];
        if (thread.ended || thread.waits && !thread.waits()) continue;
        thread.waits = nullptr;
        swapcontext(&scheduler, &thread.context);
        moved = true;
        if (thread.ended) left--;
      }
      for (auto& p : products)
        if (!p.groups.empty() && !late && random() % 4 == 0) run_group(p);
      for (auto& mine : stores)
        if (!mine.empty() && random() % 4 == 0) mine.front()(), mine.pop_front();
      if (!loads.empty() && (!moved || !late && random() % 2 == 0)) {
        std::swap(loads[random() % loads.size()], loads.back());
        auto load = std::move(loads.back());
        loads.pop_back();
        load();
        moved = true;
      }
      static int idle;
      idle = moved ? 0 : idle + 1;
      if (idle > 1000) {
        for (int t = 0; t < size; t += 32)
          if (!threads[t].ended) fprintf(stderr, "thread %d waits for %ld\n", t, threads[t].on);
        fail("every thread waits");
      }
    }
    for (auto& mine : stores)
      if (!mine.empty()) fail("stores that nobody waited for");
  }
}

}  // namespace simulated
