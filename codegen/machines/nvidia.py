"""Records of NVIDIA's GPUs.

Threads, registers, shared memory and grids: CUDA C++ Programming Guide 13.0, tables "Technical
Specifications per Compute Capability" (8.0, 9.0, 10.0). Multiprocessors, bandwidth and L2: the
data sheets and architecture white papers of A100 SXM 80 GB, H100 SXM and B200, a half each of the
latter's two dies counted together. Bytes out of the L2 cache in a cycle: A100's white paper; the
others' do not say, and a die of theirs is taken to do as much. Out of shared memory: 32 banks of 4
bytes (the guide, "Shared Memory"). Clocks: those at which the sheets' products of 16 bits are what
their multiprocessors multiply in a cycle. A launch: about 3 µs, where nothing is done in it
(NVIDIA's developer forum, "Too much time for kernel launch latency", 2022). Latencies of memory:
measured on A100 and H100 (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
Architecture", arXiv 2402.13499, 2024); B200 is taken to have H100's.

Special function units: 16 results in a cycle (the guide, "Throughput of Native Arithmetic
Instructions"). Which functions need them is what NVRTC 13.0.88 makes of one call (PTX: ex2, rcp,
a division or a root each once); logarithms, sines and cosines are polynomials there.
"""

from __future__ import annotations

from weft.codegen.machines.tensor_cores import tensor_cores
from weft.codegen.machines.thread_tiles import thread_tiles
from weft.ir.gpu import Gpu

KIB, MIB = 1024, 1024 * 1024

_SPECIAL = dict.fromkeys(("exp", "exp2", "expm1", "erf", "div", "sqrt"), 1)
_SPECIAL |= dict.fromkeys(("tanh", "sinh", "cosh"), 2)
_COMMON = {
    "shared_memory": 48 * KIB,
    "registers": 64 * KIB,
    "warp": 32,
    "threads": 1024,
    "block": 256,
    "resident": 2048,
    "blocks": (1 << 31) - 1,
    "shared_rate": 128,
    "special_rate": 16,
}
A100 = Gpu(
    "sm_80",
    multiprocessors=108,
    clock=1.41e9,
    launch=3e-6,
    shared_memory_most=163 * KIB,
    bandwidth=2.039e12,
    latency=466,
    cache=40 * MIB,
    cache_rate=5120,
    special=_SPECIAL,
    instructions=(*tensor_cores(), *thread_tiles(64)),
    **_COMMON,
)
H100 = Gpu(
    "sm_90a",
    multiprocessors=132,
    clock=1.83e9,
    launch=3e-6,
    shared_memory_most=227 * KIB,
    bandwidth=3.35e12,
    latency=479,
    cache=50 * MIB,
    cache_rate=5120,
    special=_SPECIAL,
    instructions=(*tensor_cores(), *thread_tiles(128)),
    **_COMMON,
)
B200 = Gpu(
    "sm_100",
    multiprocessors=148,
    clock=1.86e9,
    launch=3e-6,
    shared_memory_most=227 * KIB,
    bandwidth=8.0e12,
    latency=479,
    cache=126 * MIB,
    cache_rate=10240,
    special=_SPECIAL,
    instructions=(*tensor_cores(), *thread_tiles(128)),
    **_COMMON,
)
GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in (A100, H100, B200)}
