// What kernels of Weft call, on a GPU; twin.hpp has the same for a CPU. No header of NVIDIA's.
#ifndef WEFT_TWIN
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#define UINT64_C(x) x##ULL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#define WEFT_LAUNCH(kernel, blocks, threads, ...) \
  do { \
    if ((blocks) > 0) kernel<<<(unsigned)(blocks), threads>>>(__VA_ARGS__); \
  } while (0)
// With ``bytes`` of shared memory, more than a kernel may declare; refused, it leaves the error.
#define WEFT_LAUNCH_ASKING(kernel, blocks, threads, bytes, ...) \
  do { \
    if ((blocks) > 0 && \
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == \
            cudaSuccess) \
      kernel<<<(unsigned)(blocks), threads, bytes>>>(__VA_ARGS__); \
  } while (0)
// The steps of a program, and then what they left in ``status``, which the host can read here.
template <class Steps> static int device_steps(
    Steps steps, void **inputs, void **outputs, void **constants, char *arena,
    const int64_t *parameters, int64_t *status) {
  int64_t found[4] = {0, 0, 0, 0};
  cudaMemcpy(status, found, sizeof found, cudaMemcpyDefault);
  steps(inputs, outputs, constants, arena, parameters, status);
  if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return -2;
  cudaMemcpy(found, status, sizeof found, cudaMemcpyDefault);
  return (int)found[1];
}
#endif
#define WEFT_BOTH static inline __host__ __device__
#define WEFT_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define WEFT_SHARED(type, name, count) __shared__ alignas(128) type name[count]
alignas(128) extern __shared__ unsigned char block_memory[];
#define WEFT_ASKED(type, name, count, place) type *name = (type *)(block_memory + (place))
static inline __device__ int64_t block_index() { return blockIdx.x; }
static inline __device__ int64_t thread_index() { return threadIdx.x; }
static inline __device__ int64_t thread_count() { return blockDim.x; }
static inline __device__ int64_t warp_index() { return threadIdx.x / 32; }
static inline __device__ int64_t warp_count() { return blockDim.x / 32; }
static inline __device__ int64_t lane_index() { return threadIdx.x % 32; }
static inline __device__ void block_barrier() { __syncthreads(); }
// Floats of 16 bits: their values, and the bits of a float that is rounded, ties to even.
static inline __device__ float f16_value(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
static inline __device__ uint16_t f16_bits(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
static inline __device__ float f16_rounded(float x) { return f16_value(f16_bits(x)); }
static inline __device__ float bf16_value(uint16_t bits) {
  return __uint_as_float((uint32_t)bits << 16);
}
static inline __device__ uint16_t bf16_bits(float x) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
static inline __device__ float bf16_rounded(float x) { return bf16_value(bf16_bits(x)); }
// Where an element of a buffer lies whose lines are swapped to spread them over the banks.
template <int bits, int base, int shift> static inline __device__ int64_t swizzled(int64_t place) {
  return place ^ (((place >> (base + shift)) & ((1 << bits) - 1)) << base);
}
// A lane's part of 8 x 8 matrices, whose rows the lanes name: 8 for each matrix.
template <int matrices, bool transposed> static inline __device__ void load_matrices(
    void *to, const void *row) {
  uint32_t *d = (uint32_t *)to;
  const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
  if (matrices == 4 && transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
  else if (matrices == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
  else if (matrices == 2 && transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
        : "=r"(d[0]), "=r"(d[1]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
        : "=r"(d[0]), "=r"(d[1]) : "r"(at) : "memory");
}
// The first ``valid`` of ``count`` elements, 0 for the others; at once where it is not aligned.
template <int count, class T> static inline __device__ void copy_async(
    T *to, const T *from, int64_t valid) {
  if (valid > 0 && (uint64_t)from % 16 == 0) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    const uint32_t bytes = (uint32_t)valid * sizeof(T);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(at), "l"(from), "r"(bytes) : "memory");
  } else {
#pragma unroll
    for (int k = 0; k < count; k++) to[k] = k < valid ? from[k] : T();
  }
}
static inline __device__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left> static inline __device__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}
// d += a * b, on what each lane has of them.
#define WEFT_MMA(name, shape, types, result, constraint, element) \
  static inline __device__ void name(result *d, const element *left, const element *right) { \
    const uint32_t *a = (const uint32_t *)left, *b = (const uint32_t *)right; \
    asm("mma.sync.aligned." shape ".row.col." types \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
WEFT_MMA(mma_m16n8k16_f16, "m16n8k16", "f32.f16.f16.f32", float, "+f", uint16_t)
WEFT_MMA(mma_m16n8k16_bf16, "m16n8k16", "f32.bf16.bf16.f32", float, "+f", uint16_t)
WEFT_MMA(mma_m16n8k8_tf32, "m16n8k8", "f32.tf32.tf32.f32", float, "+f", float)
#define WEFT_MMA_8(name, types, first, second) \
  static inline __device__ void name(int32_t *d, const first *left, const second *right) { \
    const uint32_t *a = (const uint32_t *)left, *b = (const uint32_t *)right; \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." types \
        ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
WEFT_MMA_8(mma_m16n8k32_s8, "s8.s8", int8_t, int8_t)
WEFT_MMA_8(mma_m16n8k32_s8_u8, "s8.u8", int8_t, uint8_t)
WEFT_MMA_8(mma_m16n8k32_u8_s8, "u8.s8", uint8_t, int8_t)
WEFT_MMA_8(mma_m16n8k32_u8, "u8.u8", uint8_t, uint8_t)
// d += a * b, of a thread's own 4 rows and 8 lanes, 2 steps.
static inline __device__ void fma_m32n32k2_f32(float *d, const float *a, const float *b) {
#pragma unroll
  for (int q = 0; q < 2; q++)
#pragma unroll
    for (int row = 0; row < 4; row++)
#pragma unroll
      for (int lane = 0; lane < 8; lane++) d[row * 8 + lane] += a[row * 2 + q] * b[q * 8 + lane];
}
// The first check that fails is the one that is told.
static inline __device__ void check_failed(
    int64_t *status, int64_t step, int64_t code, int64_t first, int64_t second) {
  if (atomicCAS((unsigned long long *)&status[1], 0ULL, (unsigned long long)code) == 0) {
    status[0] = step;
    status[2] = first;
    status[3] = second;
  }
}
#endif
