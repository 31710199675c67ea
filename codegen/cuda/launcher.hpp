// A main that checks itself: inputs from a formula, results beside those of Weft's twin.
#include <stdio.h>
#include <stdlib.h>

#ifdef WEFT_TWIN
static void *device_new(size_t bytes) { return malloc(bytes + 64); }
static void copied(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#else
static void *device_new(size_t bytes) {
  void *place = nullptr;
  if (cudaMalloc(&place, bytes + 64) != cudaSuccess) {
    fprintf(stderr, "no %zu bytes of memory on the device: %s\n", bytes,
            cudaGetErrorString(cudaGetLastError()));
    exit(2);
  }
  return place;
}
static void copied(void *to, const void *from, size_t bytes) {
  if (cudaMemcpy(to, from, bytes, cudaMemcpyDefault) != cudaSuccess) {
    fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
    exit(2);
  }
}
#endif

static uint64_t drawn(uint64_t seed, uint64_t number) {  // splitmix64
  uint64_t z = ((seed << 40) + number) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

// Floats from -1 to 1; 0 and 1 of other types.
template <class T> static void *input(uint64_t seed, size_t count) {
  T *values = (T *)malloc(count * sizeof(T) + 1);
  for (size_t k = 0; k < count; k++) {
    uint64_t z = drawn(seed, k);
    values[k] = (T)0.5 == 0 || (T)2 == (T)1 ? (T)(z & 1) : (T)((double)(z >> 40) / 8388608.0 - 1);
  }
  void *place = device_new(count * sizeof(T));
  copied(place, values, count * sizeof(T));
  free(values);
  return place;
}

static void *poisoned(size_t bytes) {
  void *ones = malloc(bytes + 1), *place = device_new(bytes);
  memset(ones, 0xff, bytes);
  copied(place, ones, bytes);
  free(ones);
  return place;
}

static void *constant(FILE *file, size_t bytes) {
  void *values = malloc(bytes + 1), *place = device_new(bytes);
  if (!file || fread(values, 1, bytes, file) != bytes) {
    fprintf(stderr, "the file of constants is not beside this program, or cut off\n");
    exit(2);
  }
  copied(place, values, bytes);
  free(values);
  return place;
}

// Whether the elements at ``places`` are as expected, within ``bound`` of the largest.
template <class T> static int agrees(
    const char *name, const void *place, size_t count, const uint64_t *places,
    const double *expected, size_t samples, double bound) {
  T *values = (T *)malloc(count * sizeof(T) + 1);
  copied(values, place, count * sizeof(T));
  double largest = 0, worst = 0;
  for (size_t k = 0; k < samples; k++) {
    double off = fabs((double)values[places[k]] - expected[k]);
    largest = fabs(expected[k]) > largest ? fabs(expected[k]) : largest;
    worst = off > worst || off != off ? off : worst;
  }
  int good = worst <= bound * (largest > 1 ? largest : 1);
  printf("%s: %s, off by %g at most\n", name, good ? "right" : "WRONG", worst);
  free(values);
  return good;
}
