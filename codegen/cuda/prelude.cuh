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
#define WEFT_SHARED(type, name, count) __shared__ type name[count]
static inline __device__ int64_t block_index() { return blockIdx.x; }
static inline __device__ int64_t thread_index() { return threadIdx.x; }
static inline __device__ int64_t thread_count() { return blockDim.x; }
static inline __device__ void block_barrier() { __syncthreads(); }
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
