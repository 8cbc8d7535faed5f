// What sm90.h declares, compiled once for all kernels.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define BF16 0
#include "sm90.h"

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
  ucontext_t start;
  jmp_buf left;                 // where it goes on: swapcontext would call the system each time
  bool begun = false;
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
std::map<int, std::pair<int, int>> turns;  // threads that have come, and rounds
std::vector<Products> products;
std::vector<std::function<void()>> loads;
std::vector<std::deque<std::function<void()>>> stores;
std::mt19937 random;
std::vector<std::unique_ptr<char[]>> stacks;
jmp_buf scheduler;
int current;
Place block, blocks;
bool early;  // the kernel before may still run
bool is_bf16;

[[noreturn]] inline void fail(const char* why) {
  fprintf(stderr, "simulated: %s (thread %d)\n", why, current);
  _Exit(3);
}

// Before what another kernel writes, or reads, is used.
inline void check_waited() {
  if (early && !threads[current].waited) fail("the kernel before may still run");
}

// Goes on with the scheduler.
inline void leave() {
  if (!_setjmp(threads[current].left)) _longjmp(scheduler, 1);
}

// Goes on with a thread, until it leaves.
inline void turn_to(Thread& thread) {
  if (_setjmp(scheduler)) return;
  if (thread.begun) _longjmp(thread.left, 1);
  thread.begun = true;
  setcontext(&thread.start);
}

inline void pause(long on, std::function<bool()> until) {
  threads[current].waits = std::move(until);
  threads[current].on = on;
  leave();
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

float to_float(unsigned short h, bool bf16) {
  if (bf16) {
    u32 bits = (u32)h << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
  }
  _Float16 x;
  memcpy(&x, &h, 2);
  return (float)x;
}

unsigned short to_half(float x, bool bf16) {
  if (bf16) {
    u32 bits;
    memcpy(&bits, &x, 4);
    if (x != x) return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  _Float16 y = (_Float16)x;
  unsigned short h;
  memcpy(&h, &y, 2);
  return h;
}

// An element of a matrix as a product reads it: `line` along M or N, `k` along the sum.
inline float element(u64 descriptor, bool transposed, int line, int k) {
  u32 start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
  u32 stride = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1) fail("a matrix that is not swizzled over 128 bytes");
  u32 place = transposed ? line / 64 * leading + line % 64 * 2 + k / 8 * stride + k % 8 * 128
                         : line / 8 * stride + line % 8 * 128 + k * 2;
  return to_float(half_at(start + place), is_bf16);
}

// Where in a warpgroup's accumulator register `i` of thread `t` is.
inline int row_of(int t, int i) { return t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8; }
inline int column_of(int t, int i) { return i / 4 * 8 + t % 4 * 2 + i % 2; }

inline Products& mine() { return products[current / 128]; }

inline void start_product(std::function<void()> product) { mine().open.push_back(std::move(product)); }

inline void run_group(Products& p) {
  for (auto& product : p.groups.front()) product();
  p.groups.pop_front();
}

}  // namespace simulated

using namespace simulated;

u32 shared_memory() { return 0; }
void sync_warpgroup(int id) {
  simulated::meet(1000 + id, 128, threadIdx.x % 128, nullptr, [](auto&) {});
}
void arrive_turns(int id, int threads) {
  auto& [come, rounds] = turns[id];
  if (++come == threads) come = 0, rounds++;
}
void sync_turns(int id, int threads) {
  int round = turns[id].second;
  arrive_turns(id, threads);
  if (turns[id].second == round) simulated::pause(-id, [id, round] { return turns[id].second != round; });
}
void sync_warp() { simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, nullptr, [](auto&) {}); }
void sync_block() {
  simulated::meet(2000, simulated::threads.size(), threadIdx.x, nullptr, [](auto&) {});
}
float exchange(float x, int bits) {
  float y = 0;
  struct Offer {
    float x, *y;
  } offer = {x, &y};
  simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, &offer, [bits](auto& all) {
    for (int l = 0; l < 32; l++) *((Offer*)all[l])->y = ((Offer*)all[l ^ bits])->x;
  });
  return y;
}
float of_lane(float x, int lane) {
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
bool any(bool x) {
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

void wait_for_kernel_before() { simulated::threads[simulated::current].waited = true; }

void init_barrier(u32 barrier, int arrivals) {
  simulated::barriers[barrier] = {arrivals, arrivals, 0, 0};
}
inline Barrier& barrier_at(u32 barrier) {
  auto found = simulated::barriers.find(barrier);
  if (found == simulated::barriers.end()) simulated::fail("no barrier there");
  return found->second;
}
void arrive(u32 barrier) {
  auto& b = barrier_at(barrier);
  if (--b.pending < 0) simulated::fail("more arrivals than the barrier has");
  simulated::complete(b);
}
void arrive_expecting(u32 barrier, u32 bytes) {
  auto& b = barrier_at(barrier);
  b.bytes += bytes;
  if (--b.pending < 0) simulated::fail("more arrivals than the barrier has");
  simulated::complete(b);
}
void wait(u32 barrier, u32 parity) {
  auto& b = barrier_at(barrier);
  if ((u32)(b.completed % 2) == parity) simulated::pause(barrier, [&b, parity] { return (u32)(b.completed % 2) != parity; });
}

void load_box(const TensorMap* map, u32 full, u32 to, int d, int h, int n, int b) {
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
void load_values(const float* from, u32 full, u32 to, u32 bytes) {
  simulated::check_waited();
  memset(simulated::at(to, bytes), 0xff, bytes);
  simulated::loads.push_back([=] {
    memcpy(simulated::at(to, bytes), from, bytes);
    auto& barrier = barrier_at(full);
    barrier.bytes -= bytes;
    simulated::complete(barrier);
  });
}
void store_box(const TensorMap* map, u32 from, int d, int h, int n, int b) {
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
void wait_stores_read() {
  auto& mine = simulated::stores[threadIdx.x];
  for (; !mine.empty(); mine.pop_front()) mine.front()();
}

Four load_four(u32 from) { return *(Four*)simulated::at(from, 16); }
Words load_words(u32 from) { return *(Words*)simulated::at(from, 16); }
u32 load_word(u32 from) { return *(u32*)simulated::at(from, 4); }
void store_word(u32 to, u32 word) { *(u32*)simulated::at(to, 4) = word; }

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
void store_matrices(u32 row, u32 a, u32 b, u32 c, u32 d) { store_matrices_of_warp(row, a, b, c, d, false); }
void store_matrices_transposed(u32 row, u32 a, u32 b, u32 c, u32 d) {
  store_matrices_of_warp(row, a, b, c, d, true);
}
Words load_matrices_transposed(u32 row) {
  struct Offer {
    u32 row, words[4];
  } offer = {row, {}};
  simulated::meet(threadIdx.x / 32, 32, threadIdx.x % 32, &offer, [](auto& all) {
    for (int m = 0; m < 4; m++) {
      for (int l = 0; l < 32; l++) {  // two rows of a column
        u32 both[2];
        for (int i = 0; i < 2; i++) {
          u32 row = ((Offer*)all[8 * m + l % 4 * 2 + i])->row;
          both[i] = *(unsigned short*)simulated::at(row + l / 4 * 2, 2);
        }
        ((Offer*)all[l])->words[m] = both[0] | both[1] << 16;
      }
    }
  });
  return {offer.words[0], offer.words[1], offer.words[2], offer.words[3]};
}

void commit_products() {
  simulated::meet(3000 + threadIdx.x / 128, 128, threadIdx.x % 128, nullptr, [](auto&) {
    simulated::mine().groups.push_back(std::move(simulated::mine().open));
    simulated::mine().open.clear();
  });
}

void simulated::wait_products(int pending) {
  meet(3000 + current / 128, 128, current % 128, nullptr, [pending](auto&) {
    while ((int)mine().groups.size() > pending) run_group(mine());
  });
}

// `left` is A, and `all` holds the registers of each thread's part of D.
static void start_product_of(int R, std::function<float(int, int)> left, u64 b, bool transposed, bool adds,
                             std::vector<void*> all) {
  start_product([=] {
    std::vector<float> left_of(64 * 16), right_of(16 * 2 * R);
    for (int i = 0; i < 64; i++)
      for (int k = 0; k < 16; k++) left_of[i * 16 + k] = left(i, k);
    for (int j = 0; j < 2 * R; j++)
      for (int k = 0; k < 16; k++) right_of[j * 16 + k] = element(b, transposed, j, k);
    for (int t = 0; t < 128; t++) {
      float* x = (float*)all[t];
      for (int i = 0; i < R; i++) {
        float sum = adds ? x[i] : 0;
        const float *row = &left_of[row_of(t, i) * 16], *column = &right_of[column_of(t, i) * 16];
        for (int k = 0; k < 16; k++) sum += row[k] * column[k];
        x[i] = sum;
      }
    }
  });
}

void simulated::multiply(float* d, int R, u64 a, bool transposed_a, u64 b, bool transposed_b, bool adds) {
  meet(3000 + current / 128, 128, current % 128, d, [&](auto& all) {
    start_product_of(R, [=](int i, int k) { return element(a, transposed_a, i, k); }, b, transposed_b, adds, all);
  });
}

void simulated::multiply_by_registers(float* d, int R, const u32 (&registers)[4], u64 b, bool transposed_b,
                                      bool adds) {
  struct Offer {
    float* d;
    const u32* a;
  } offer = {d, registers};
  meet(3000 + current / 128, 128, current % 128, &offer, [&](auto& all) {
    std::vector<float> left(64 * 16);
    std::vector<void*> sums(128);
    for (int t = 0; t < 128; t++) {
      auto* mine = (Offer*)all[t];
      sums[t] = mine->d;
      for (int w = 0; w < 4; w++) {  // rows by w % 2, columns by w / 2
        int row = t / 32 * 16 + t % 32 / 4 + w % 2 * 8, k = t % 4 * 2 + w / 2 * 8;
        left[row * 16 + k] = to_float(mine->a[w] & 0xffff, is_bf16);
        left[row * 16 + k + 1] = to_float(mine->a[w] >> 16, is_bf16);
      }
    }
    start_product_of(R, [left](int i, int k) { return left[i * 16 + k]; }, b, transposed_b, adds, sums);
  });
}

// --- A launch -----------------------------------------------------------------------------------

static void (*called)(const void*);
static const void* given;

static void enter() {
  called(given);
  threads[current].ended = true;
  leave();
}

void simulated::launch(int count, int size, int shared_bytes, int seed, bool starts_early, bool bf16,
                       void (*kernel)(const void*), const void* arguments) {
  early = starts_early, is_bf16 = bf16;
  called = kernel, given = arguments;
  shared = shared_bytes;
  simulated::random.seed(seed);
  blocks.x = count;
  while ((int)stacks.size() < size) stacks.emplace_back(new char[STACK]);
  for (block.x = 0; block.x < count; block.x++) {
    memset(memory, 0xff, sizeof memory);
    barriers.clear(), meetings.clear(), loads.clear(), turns.clear();
    threads = std::vector<Thread>(size);
    stores = std::vector<std::deque<std::function<void()>>>(size);
    products = std::vector<Products>((size + 127) / 128);
    for (int i = 0; i < size; i++) {
      getcontext(&threads[i].start);
      threads[i].start.uc_stack.ss_sp = stacks[i].get();
      threads[i].start.uc_stack.ss_size = STACK;
      makecontext(&threads[i].start, enter, 0);
    }
    std::vector<int> order(size);
    for (int i = 0; i < size; i++) order[i] = i;
    // One warpgroup may fall far behind, and what runs by itself may come as late as it can: so does
    // who does not wait for it meet what it is to wait for.
    int slow = simulated::random() % (products.size() + 1);
    bool late = simulated::random() % 2;
    bool moved = true;
    for (int left = size; left > 0;) {
      // A warp after the other, in a random order, and some of what runs by itself.
      bool sleeps = moved && simulated::random() % 16;
      moved = false;
      int first = simulated::random() % size / 32 * 32;
      for (int i = 0; i < size; i++) {
        current = (first + i) % size;
        if (i % 32 == 0 && (simulated::random() % 3 == 0 || sleeps && current / 128 == slow)) {
          i += 31;
          continue;
        }
        Thread& thread = threads[current];
        if (thread.ended || thread.waits && !thread.waits()) continue;
        thread.waits = nullptr;
        turn_to(thread);
        moved = true;
        if (thread.ended) left--;
      }
      for (auto& p : products)
        if (!p.groups.empty() && !late && simulated::random() % 4 == 0) run_group(p);
      for (auto& mine : stores)
        if (!mine.empty() && simulated::random() % 4 == 0) mine.front()(), mine.pop_front();
      if (!loads.empty() && (!moved || !late && simulated::random() % 2 == 0)) {
        std::swap(loads[simulated::random() % loads.size()], loads.back());
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

