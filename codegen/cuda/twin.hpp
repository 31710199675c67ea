// The twin: kernels of Weft on a CPU, one block after the other, its threads as fibers.
//
// * Threads run to their next barrier in an order drawn anew for each interval, from WEFT_SEED.
// * Shared memory holds all ones, NaN as a float, when a block begins.
// * Lanes of a warp meet where they load matrices or multiply, with the layouts that PTX documents.
// * Asynchronous copies arrive where they are awaited, in an order drawn anew; until then their
//   target holds all ones.
// * A barrier that some threads of a block meet and others never do fails the call, code -1.
// * So do kernels with more shared memory than their launch asked for, code -3.
//
// One call at a time: others wait.
#define WEFT_TWIN
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#ifndef WEFT_SEED
#define WEFT_SEED 1
#endif
#define WEFT_BOTH static inline
#define WEFT_KERNEL(threads) static void
#define WEFT_SHARED(type, name, count) type *name = (type *)twin_shared(sizeof(type) * (count))
#define WEFT_ASKED(type, name, count, place) \
  type *name = (type *)twin_asked(sizeof(type) * (count), place)
#define WEFT_LAUNCH(kernel, blocks, threads, ...) \
  twin_launch(status, blocks, threads, 0, [&] { kernel(__VA_ARGS__); })
#define WEFT_LAUNCH_ASKING(kernel, blocks, threads, bytes, ...) \
  twin_launch(status, blocks, threads, bytes, [&] { kernel(__VA_ARGS__); })
#define __restrict__

enum { TWIN_WARP = 32, TWIN_THREADS = 1024, TWIN_STACK = 1 << 16, TWIN_SHARED = 1 << 18 };

struct twin_fiber {
#ifdef __x86_64__
  void *top;  // of its stack, where its registers lie
#else
  ucontext_t context;
#endif
  int stack;  // -1: it has not begun, or has ended
  int ended;
  int64_t shared;  // bytes that it has declared
  int64_t groups;  // of copies that it has committed
  void (*meets)(twin_fiber *lanes);  // what its warp is to do together; null: nothing
  void *to;
  const void *one, *two;
};

struct twin_copy {
  char *to;
  const char *from;
  int64_t bytes, size, thread, group;
};

static struct {
  pthread_mutex_t lock;
  uint64_t random;
  char *stacks;
  int order[TWIN_THREADS], free_stacks[TWIN_THREADS], n_free;
  twin_fiber fibers[TWIN_THREADS], host;
  int64_t block, thread, threads, used;
  void (*run)(void *);
  void *arguments;
  twin_copy *copies;
  int64_t n_copies, most_copies;
  alignas(128) char shared[TWIN_SHARED];
} twin = {PTHREAD_MUTEX_INITIALIZER};

#ifdef __x86_64__
extern "C" void twin_switch(void **from, void *to);
__asm__(
    ".text\n.local twin_switch\n.type twin_switch,@function\ntwin_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size twin_switch,.-twin_switch\n");
static void twin_go(twin_fiber *from, twin_fiber *to) { twin_switch(&from->top, to->top); }
#else
static void twin_go(twin_fiber *from, twin_fiber *to) { swapcontext(&from->context, &to->context); }
#endif

static void twin_body() {
  twin.run(twin.arguments);
  twin_fiber *self = &twin.fibers[twin.thread];
  self->ended = 1;
  twin.free_stacks[twin.n_free++] = self->stack;
  twin_go(self, &twin.host);
}

static void twin_begin(twin_fiber *fiber) {
  fiber->stack = twin.free_stacks[--twin.n_free];
  char *stack = twin.stacks + (size_t)fiber->stack * TWIN_STACK;
#ifdef __x86_64__
  void **top = (void **)(stack + TWIN_STACK) - 2;
  *top = (void *)twin_body;
  fiber->top = top - 6;
#else
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = TWIN_STACK;
  makecontext(&fiber->context, twin_body, 0);
#endif
}

static uint64_t twin_random() {  // splitmix64
  uint64_t z = twin.random += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static void twin_shuffle(int *order, int64_t n) {
  for (int64_t k = n - 1; k > 0; k--) {
    int64_t other = (int64_t)(twin_random() % (uint64_t)(k + 1));
    int kept = order[k];
    order[k] = order[other];
    order[other] = kept;
  }
}

// A thread up to its next barrier, or to where its warp meets; whether it ended.
static int twin_run(int64_t thread) {
  twin.thread = thread;
  twin_fiber *fiber = &twin.fibers[thread];
  fiber->meets = nullptr;
  if (fiber->stack < 0) twin_begin(fiber);
  twin_go(&twin.host, fiber);
  return fiber->ended;
}

// A warp whose lanes may have met, alone, up to its next barrier; how many ended, -1 where they part.
static int64_t twin_warp(int64_t first) {
  int64_t ended = 0, n = twin.threads - first < TWIN_WARP ? twin.threads - first : TWIN_WARP;
  twin_fiber *lanes = &twin.fibers[first];
  int order[TWIN_WARP];
  for (int k = 0; k < n; k++) order[k] = k;
  for (;;) {
    for (int64_t k = 0; k < n; k++)
      if (lanes[k].meets != lanes[0].meets) return -1;
    if (!lanes[0].meets) return ended;
    if (n < TWIN_WARP) return -1;
    lanes[0].meets(lanes);
    twin_shuffle(order, n);
    for (int64_t k = 0; k < n; k++) ended += twin_run(first + order[k]);
  }
}

// Every thread up to its next barrier; how many ended, -1 where lanes of a warp part.
static int64_t twin_interval() {
  twin_shuffle(twin.order, twin.threads);
  int64_t ended = 0;
  for (int64_t k = 0; k < twin.threads; k++) ended += twin_run(twin.order[k]);
  for (int64_t k = 0; k < twin.threads; k++) {  // warps in the order of their first lanes
    if (twin.order[k] % TWIN_WARP) continue;
    int64_t more = twin_warp(twin.order[k]);
    if (more < 0) return -1;
    ended += more;
  }
  return ended;
}

static bool twin_block() {
  memset(twin.shared, 0xff, (size_t)twin.used);
  for (int64_t k = 0; k < twin.threads; k++) {
    twin.order[k] = (int)k;
    twin.fibers[k].stack = -1;
    twin.fibers[k].ended = 0;
    twin.fibers[k].shared = 0;
    twin.fibers[k].groups = 0;
    twin.fibers[k].meets = nullptr;
  }
  twin.n_copies = 0;
  twin.n_free = 0;
  for (int k = 0; k < twin.threads; k++) twin.free_stacks[twin.n_free++] = k;
  for (;;) {
    int64_t ended = twin_interval();
    if (ended) return ended == twin.threads;  // -1, too: lanes that part
  }
}

template <class Body> static void twin_launch(
    int64_t *status, int64_t blocks, int64_t threads, int64_t asked, Body body) {
  twin.run = [](void *arguments) { (*(Body *)arguments)(); };
  twin.arguments = &body;
  twin.threads = threads;
  twin.used = TWIN_SHARED;
  for (twin.block = 0; twin.block < blocks; twin.block++) {
    if (!twin_block() && status[1] == 0) {
      status[1] = -1;
      status[2] = twin.block;
      status[3] = threads;
    }
    int64_t used = 0;
    for (int64_t k = 0; k < threads; k++)
      used = twin.fibers[k].shared > used ? twin.fibers[k].shared : used;
    twin.used = used;
    if (asked && used > asked && status[1] == 0) {
      status[1] = -3;
      status[2] = used;
      status[3] = asked;
    }
  }
}

static inline int64_t block_index() { return twin.block; }
static inline int64_t thread_index() { return twin.thread; }
static inline int64_t thread_count() { return twin.threads; }
static inline void block_barrier() { twin_go(&twin.fibers[twin.thread], &twin.host); }

static inline int64_t warp_index() { return twin.thread / TWIN_WARP; }
static inline int64_t warp_count() { return twin.threads / TWIN_WARP; }
static inline int64_t lane_index() { return twin.thread % TWIN_WARP; }
template <int bits, int base, int shift> static inline int64_t swizzled(int64_t place) {
  return place ^ (((place >> (base + shift)) & ((1 << bits) - 1)) << base);
}

static inline void twin_meet(
    void (*what)(twin_fiber *lanes), void *to, const void *one, const void *two) {
  twin_fiber *self = &twin.fibers[twin.thread];
  self->meets = what;
  self->to = to;
  self->one = one;
  self->two = two;
  twin_go(self, &twin.host);
}

template <int matrices, bool transposed> static void twin_matrices(twin_fiber *lanes) {
  for (int lane = 0; lane < TWIN_WARP; lane++)
    for (int m = 0; m < matrices; m++)
      for (int half = 0; half < 2; half++) {
        int row = lane / 4, column = lane % 4 * 2 + half;
        if (transposed) row = lane % 4 * 2 + half, column = lane / 4;
        const char *line = (const char *)lanes[8 * m + row].one;
        memcpy((char *)lanes[lane].to + 4 * m + 2 * half, line + 2 * column, 2);
      }
}
template <int matrices, bool transposed> static inline void load_matrices(
    void *to, const void *row) {
  twin_meet(twin_matrices<matrices, transposed>, to, row, nullptr);
}

static inline float twin_value(uint16_t bits, bool wide) {
  if (wide) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
  }
  int e = bits >> 10 & 31, f = bits & 1023;
  float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (e == 31) return f ? NAN : sign * INFINITY;
  return sign * ldexpf((float)(e ? f + 1024 : f), (e ? e : 1) - 25);
}
// ``fraction`` bits of it, ``most`` the largest exponent; ties to even.
template <int fraction, int most> static inline uint16_t twin_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000, infinity = (2 * most + 1) << fraction;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return sign | infinity | 1 << (fraction - 1);
  const int e = (int)(bits >> 23) - 127;
  if (e > most) return sign | infinity;
  if (e < -most - fraction) return sign;
  const uint32_t whole = (bits & 0x7fffffu) | (bits >> 23 ? 0x800000u : 0);
  const int low = e < 1 - most ? 1 - most - e - (bits >> 23 == 0) : 0, less = 23 - fraction + low;
  const uint32_t rest = whole & ((1u << less) - 1), half = 1u << (less - 1);
  uint32_t kept = whole >> less;
  kept += rest > half || (rest == half && (kept & 1));
  return sign | (e < 1 - most ? kept : ((uint32_t)(e - 1 + most) << fraction) + kept);
}
static inline float f16_value(uint16_t bits) { return twin_value(bits, false); }
static inline uint16_t f16_bits(float x) { return twin_bits<10, 15>(x); }
static inline float f16_rounded(float x) { return f16_value(f16_bits(x)); }
static inline float bf16_value(uint16_t bits) { return twin_value(bits, true); }
static inline uint16_t bf16_bits(float x) { return twin_bits<7, 127>(x); }
static inline float bf16_rounded(float x) { return bf16_value(bf16_bits(x)); }
struct twin_f16 {
  uint16_t bits;
  operator float() const { return twin_value(bits, false); }
};
struct twin_bf16 {
  uint16_t bits;
  operator float() const { return twin_value(bits, true); }
};
struct twin_tf32 {
  uint32_t bits;
  operator float() const {
    uint32_t kept = bits & 0xffffe000u;
    float value;
    memcpy(&value, &kept, sizeof value);
    return value;
  }
};
// PTX ISA, "Matrix Fragments for mma": registers of 4 bytes, of ``w`` elements each.
template <class Left, class Right, class Sum, class Result> static void twin_mma(twin_fiber *lanes) {
  const int w = 4 / sizeof(Left), depth = 8 * w;
  Sum a[16][32], b[32][8];
  for (int lane = 0; lane < TWIN_WARP; lane++) {
    const int group = lane / 4, within = lane % 4;
    for (int r = 0; r < 4; r++)
      for (int e = 0; e < w; e++)
        a[group + r % 2 * 8][within * w + e + r / 2 * 4 * w] = ((const Left *)lanes[lane].one)[r * w + e];
    for (int r = 0; r < 2; r++)
      for (int e = 0; e < w; e++)
        b[within * w + e + r * 4 * w][group] = ((const Right *)lanes[lane].two)[r * w + e];
  }
  for (int lane = 0; lane < TWIN_WARP; lane++)
    for (int i = 0; i < 4; i++) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      Sum sum = (Sum)((Result *)lanes[lane].to)[i];
      for (int k = 0; k < depth; k++) sum += a[row][k] * b[k][column];
      ((Result *)lanes[lane].to)[i] = (Result)sum;
    }
}
#define WEFT_MMA(name, left, right, sum, result) \
  static inline void name(result *d, const void *a, const void *b) { \
    twin_meet(twin_mma<left, right, sum, result>, d, a, b); \
  }
WEFT_MMA(mma_m16n8k16_f16, twin_f16, twin_f16, float, float)
WEFT_MMA(mma_m16n8k16_bf16, twin_bf16, twin_bf16, float, float)
WEFT_MMA(mma_m16n8k8_tf32, twin_tf32, twin_tf32, float, float)
WEFT_MMA(mma_m16n8k32_s8, int8_t, int8_t, uint32_t, int32_t)
WEFT_MMA(mma_m16n8k32_s8_u8, int8_t, uint8_t, uint32_t, int32_t)
WEFT_MMA(mma_m16n8k32_u8_s8, uint8_t, int8_t, uint32_t, int32_t)
WEFT_MMA(mma_m16n8k32_u8, uint8_t, uint8_t, uint32_t, int32_t)

// d += a * b, of a thread's own 4 rows and 8 lanes, 2 steps.
static inline void fma_m32n32k2_f32(float *d, const float *a, const float *b) {
#pragma unroll
  for (int q = 0; q < 2; q++)
#pragma unroll
    for (int row = 0; row < 4; row++)
#pragma unroll
      for (int lane = 0; lane < 8; lane++) d[row * 8 + lane] += a[row * 2 + q] * b[q * 8 + lane];
}

template <int count, class T> static inline void copy_async(T *to, const T *from, int64_t valid) {
  memset(to, 0xff, count * sizeof(T));
  if (twin.n_copies == twin.most_copies) {
    twin.most_copies = 2 * twin.most_copies + 64;
    twin.copies = (twin_copy *)realloc(twin.copies, twin.most_copies * sizeof *twin.copies);
    if (!twin.copies) abort();
  }
  twin.copies[twin.n_copies++] = {
      (char *)to, (const char *)from, valid * (int64_t)sizeof(T), count * (int64_t)sizeof(T),
      twin.thread, twin.fibers[twin.thread].groups};
}
static inline void copies_commit() { twin.fibers[twin.thread].groups++; }
template <int left> static inline void copies_wait() {
  const int64_t due = twin.fibers[twin.thread].groups - left;
  int64_t kept = 0, n = 0;
  for (int64_t k = 0; k < twin.n_copies; k++) {  // those that are due go to the end
    twin_copy copy = twin.copies[k];
    if (copy.thread == twin.thread && copy.group < due) {
      n++;
      continue;
    }
    twin.copies[k] = twin.copies[kept];
    twin.copies[kept++] = copy;
  }
  for (; n > 0; n--) {
    twin_copy *place = &twin.copies[kept + (int64_t)(twin_random() % (uint64_t)n)], copy = *place;
    *place = twin.copies[kept + n - 1];
    memset(copy.to, 0, copy.size);
    memcpy(copy.to, copy.from, copy.bytes);
  }
  twin.n_copies = kept;
}

static inline void *twin_shared(int64_t bytes) {
  twin_fiber *self = &twin.fibers[twin.thread];
  char *place = twin.shared + self->shared;
  self->shared += (bytes + 63) / 64 * 64;
  return place;
}

static inline void *twin_asked(int64_t bytes, int64_t place) {
  twin_fiber *self = &twin.fibers[twin.thread];
  self->shared = place + bytes > self->shared ? place + bytes : self->shared;
  return twin.shared + place;
}

static inline void check_failed(
    int64_t *status, int64_t step, int64_t code, int64_t first, int64_t second) {
  if (status[1] != 0) return;
  status[0] = step;
  status[1] = code;
  status[2] = first;
  status[3] = second;
}

template <class Steps> static int32_t device_steps(
    Steps steps, void **inputs, void **outputs, void **constants, char *arena,
    const int64_t *parameters, int64_t *status) {
  pthread_mutex_lock(&twin.lock);
  memset(status, 0, 4 * sizeof *status);
  twin.random = WEFT_SEED;
  twin.stacks = (char *)malloc((size_t)TWIN_THREADS * TWIN_STACK);
  if (twin.stacks)
    steps(inputs, outputs, constants, arena, parameters, status);
  else
    status[1] = -2;
  free(twin.stacks);
  free(twin.copies);
  twin.copies = nullptr;
  twin.n_copies = twin.most_copies = 0;
  pthread_mutex_unlock(&twin.lock);
  return (int32_t)status[1];
}
