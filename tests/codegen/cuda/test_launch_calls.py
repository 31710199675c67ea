"""The launches that a host makes, beside those that its own text makes when it runs."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import pytest

import weft
from weft.api import graph_of
from weft.benchmarks.polybench.run import SUITE
from weft.codegen.cuda import twin
from weft.codegen.cuda.launch_calls import LaunchCall, Pointer, launch_calls
from weft.codegen.cuda.print_program import print_program
from weft.driver.compiler import lower_graph, lower_loops
from weft.driver.lowered import Lowered
from weft.driver.targets import gpu_named
from weft.ir.dtypes import as_dtype
from weft.ir.program import Program

OPTIONS = weft.Options(target="sm_90a", workers=0)

# Instead of a launch: its name, its numbers, and of each argument whether it is a pointer.
RECORDER = """
#undef WEFT_LAUNCH
#undef WEFT_LAUNCH_ASKING
#define WEFT_LAUNCH(kernel, blocks, threads, ...) told(#kernel, blocks, threads, 0, __VA_ARGS__)
#define WEFT_LAUNCH_ASKING(kernel, blocks, threads, bytes, ...) \\
  told(#kernel, blocks, threads, bytes, __VA_ARGS__)
#include <stdio.h>
static FILE *to;
static void told_one(const void *place) { fprintf(to, ", [%lld]", (long long)place); }
static void told_one(int64_t number) { fprintf(to, ", %lld", (long long)number); }
template <class... All> static void told(
    const char *name, int64_t blocks, int64_t threads, int64_t bytes, All... all) {
  fprintf(to, "[\\"%s\\", %lld, %lld, %lld", name, (long long)blocks, (long long)threads,
          (long long)bytes);
  (told_one(all), ...);
  fprintf(to, "]\\n");
}
"""
RUN = """
extern "C" void record(const char *path, void **inputs, void **outputs, void **constants,
                       char *arena, const int64_t *parameters, int64_t *status) {
  to = fopen(path, "w");
  steps_weft_main(inputs, outputs, constants, arena, parameters, status);
  fclose(to);
}
"""
n = weft.var("n")
MANY, STATUS = 64, 1 << 50
BASES = {"input": 1 << 40, "output": 2 << 40, "constant": 3 << 40, "arena": 4 << 40}  # of addresses
APART = 1 << 30  # from one array to the next


def recorded(program: Program, text: str, sizes: dict[str, int], folder: Path) -> list[list]:
    """What the text of the host launches, called with addresses where nothing lies."""
    (folder / "host.o").write_bytes(twin.twin_object(RECORDER + text + RUN, ("-fexceptions",)))
    command = [twin.twin_compiler(), "-shared", "host.o", "-o", "host.so"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "host.so"))
    arrays = [(ctypes.c_void_p * MANY)(*(BASES[m] + k * APART for k in range(MANY)))
              for m in ("input", "output", "constant")]  # fmt: skip
    values = (ctypes.c_int64 * MANY)(*(sizes[name] for name in program.parameters))
    arena, status = ctypes.c_void_p(BASES["arena"]), ctypes.c_void_p(STATUS)
    library.record(str(folder / "calls").encode(), *arrays, arena, values, status)
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def plain(call: LaunchCall) -> list:
    """``call`` as the recorder writes it."""
    return [call.kernel, call.blocks, call.threads, call.shared, *map(_argument, call.arguments)]


def _argument(argument: int | Pointer) -> int | list[int]:
    if isinstance(argument, int):
        return argument
    if argument.memory == "status":
        return [STATUS]
    return [BASES[argument.memory] + argument.index * APART + argument.offset]


def check(lowered: Lowered, sizes: dict[str, int], folder: Path) -> list[LaunchCall]:
    gpu = gpu_named("sm_90a")
    assert gpu is not None
    program = lowered.program
    calls = launch_calls(program, gpu, sizes)
    text = print_program(program, gpu, lowered.sources)
    assert [plain(call) for call in calls] == recorded(program, text, sizes, folder)
    return list(calls)


@pytest.mark.parametrize("name", ["gemm", "floyd-warshall", "nussinov", "lu", "correlation"])
def test_loop_kernels(name: str, tmp_path: Path) -> None:
    benchmark = SUITE[name]
    lowered = lower_loops(benchmark.make(as_dtype(benchmark.dtype)).lowered, OPTIONS)
    calls = check(lowered, dict.fromkeys(lowered.program.parameters, 17), tmp_path)
    assert (len(calls) > 16) == (name in ("nussinov", "lu"))  # whose loops the host runs


@pytest.mark.parametrize("size", [0, 1, 33])
def test_temporaries_and_checks(size: int, tmp_path: Path) -> None:
    x = weft.placeholder((n, 40), name="x")
    at = weft.placeholder((n,), dtype="int64", name="at")
    j = weft.reduce_axis((0, n), name="j")
    total = weft.compute((40,), lambda k: weft.sum(x[j, k], axis=j), name="total")
    taken = weft.compute((n, 40), lambda i, k: x[at[i], k] - total[k], name="taken")
    calls = check(lower_graph(graph_of(taken), OPTIONS), {"n": size}, tmp_path)
    found = {a.memory for call in calls for a in call.arguments if isinstance(a, Pointer)}
    assert found == ({"status", "arena", "input", "output"} if size else {"arena", "input"})


@weft.kernel
def product(A: weft.f16[n, h], B: weft.f16[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += weft.float32(A[i, k]) * weft.float32(B[k, j])


def test_shared_memory_that_is_asked_for(tmp_path: Path) -> None:
    s = weft.schedule(product, options=OPTIONS).tile({"i": 64, "j": 32})
    s = s.reorder(["k", "i_p", "j_p"])
    how = {"warps": (2, 2), "depth": 128, "stages": 3}
    s = s.tensorize(["k"], ["i_p"], "j_p", instruction="mma.m16n8k16.f16", **how)
    s = s.set_kinds({"i_t": "grid", "j_t": "grid"})
    lowered = lower_loops(product.lowered, OPTIONS, s.scheduled)
    (call,) = check(lowered, {"n": 65, "m": 33, "h": 7}, tmp_path)
    assert (call.blocks, call.threads, call.shared) == (4, 128, 3 * 128 * (64 + 32) * 2)
