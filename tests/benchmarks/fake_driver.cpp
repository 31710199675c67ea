// A driver of CUDA's that has no GPU: modules are shared objects with kernels' twins in them
// (gpu_twin.py). What the environment says: FAKE_CAPABILITY, "90"; FAKE_COUNT, of devices;
// FAKE_SHARED, bytes of a block; FAKE_LOAD, a code that loading a module fails with.
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_kernel {  // as gpu_twin.py writes them
  int (*run)(int64_t blocks, int64_t threads, int64_t bytes, void **arguments);
  int64_t count;
  int64_t allowed;
};

enum { INVALID_VALUE = 1, INVALID_IMAGE = 200, NOT_FOUND = 500 };

static int told(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

extern "C" {
int cuInit(unsigned flags) { return flags ? INVALID_VALUE : 0; }
int cuDeviceGetCount(int *count) { return *count = told("FAKE_COUNT", 1), 0; }
int cuCtxSynchronize() { return 0; }
int cuGetErrorName(int code, const char **text) {
  *text = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR";
  return 0;
}
int cuDeviceGetAttribute(int *value, int which, int) {
  int capability = told("FAKE_CAPABILITY", 90);
  *value = which == 75 ? capability / 10 : which == 76 ? capability % 10 : which == 97 ? told("FAKE_SHARED", 232448) : -1;
  return *value < 0 ? INVALID_VALUE : 0;
}
int cuModuleLoadData(void **module, const void *image) {
  if (int code = told("FAKE_LOAD", 0)) return code;
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  if (memcmp(head->e_ident, ELFMAG, SELFMAG)) return INVALID_IMAGE;
  size_t size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  int file = memfd_create("module", 0);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (write(file, image, size) != (ssize_t)size) return 2;
  *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*module) fprintf(stderr, "%s\n", dlerror());
  return *module ? 0 : INVALID_IMAGE;  // the file stays open: its path may not name another
}
int cuModuleUnload(void *module) { return dlclose(module); }
int cuModuleGetFunction(fake_kernel **kernel, void *module, const char *name) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "fake_%s", name);
  *kernel = (fake_kernel *)dlsym(module, symbol);
  return *kernel ? 0 : NOT_FOUND;
}
int cuFuncSetAttribute(fake_kernel *kernel, int which, int value) {
  if (which != 8 || value > told("FAKE_SHARED", 232448)) return INVALID_VALUE;
  kernel->allowed = value;
  return 0;
}
int cuFuncGetParamInfo(fake_kernel *kernel, size_t index, size_t *offset, size_t *size) {
  if (index >= (size_t)kernel->count) return INVALID_VALUE;
  *offset = 8 * index, *size = 8;
  return 0;
}
int cuLaunchKernel(fake_kernel *kernel, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned ty, unsigned tz, unsigned bytes, void *stream, void **arguments, void **extra) {
  if (y != 1 || z != 1 || ty != 1 || tz != 1 || stream || extra || !x || !threads || threads > 1024)
    return INVALID_VALUE;
  if (bytes > kernel->allowed) return INVALID_VALUE;
  return kernel->run(x, threads, bytes, arguments);
}
}
