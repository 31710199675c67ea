// The twin: kernels of Weft on a CPU, one block after the other, its threads as fibers.
//
// * Threads run to their next barrier in an order drawn anew for each interval, from WEFT_SEED.
// * Shared memory holds all ones, NaN as a float, when a block begins.
// * A barrier that some threads of a block meet and others never do fails the call, code -1.
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
#define WEFT_LAUNCH(kernel, blocks, threads, ...) \
  twin_launch(status, blocks, threads, [&] { kernel(__VA_ARGS__); })
#define __restrict__

enum { TWIN_THREADS = 1024, TWIN_STACK = 1 << 16, TWIN_SHARED = 1 << 18 };

struct twin_fiber {
#ifdef __x86_64__
  void *top;  // of its stack, where its registers lie
#else
  ucontext_t context;
#endif
  int stack;  // -1: it has not begun, or has ended
  int ended;
  int64_t shared;  // bytes that it has declared
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
  alignas(64) char shared[TWIN_SHARED];
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

// Every thread up to its next barrier; how many ended.
static int64_t twin_interval() {
  for (int64_t k = twin.threads - 1; k > 0; k--) {
    int64_t other = (int64_t)(twin_random() % (uint64_t)(k + 1));
    int kept = twin.order[k];
    twin.order[k] = twin.order[other];
    twin.order[other] = kept;
  }
  int64_t ended = 0;
  for (int64_t k = 0; k < twin.threads; k++) {
    twin.thread = twin.order[k];
    twin_fiber *fiber = &twin.fibers[twin.thread];
    if (fiber->stack < 0) twin_begin(fiber);
    twin_go(&twin.host, fiber);
    ended += fiber->ended;
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
  }
  twin.n_free = 0;
  for (int k = 0; k < twin.threads; k++) twin.free_stacks[twin.n_free++] = k;
  for (;;) {
    int64_t ended = twin_interval();
    if (ended) return ended == twin.threads;
  }
}

template <class Body> static void twin_launch(
    int64_t *status, int64_t blocks, int64_t threads, Body body) {
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
  }
}

static inline int64_t block_index() { return twin.block; }
static inline int64_t thread_index() { return twin.thread; }
static inline int64_t thread_count() { return twin.threads; }
static inline void block_barrier() { twin_go(&twin.fibers[twin.thread], &twin.host); }

static inline void *twin_shared(int64_t bytes) {
  twin_fiber *self = &twin.fibers[twin.thread];
  char *place = twin.shared + self->shared;
  self->shared += (bytes + 63) / 64 * 64;
  return place;
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
  pthread_mutex_unlock(&twin.lock);
  return (int32_t)status[1];
}
