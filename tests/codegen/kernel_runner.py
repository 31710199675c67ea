"""Run a kernel both ways, compiled and interpreted, on buffers fenced by forbidden pages."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from tests.codegen.region_interpreter import interpret_region
from weft.codegen.llvm.kernel import REGION, EmittedKernel, emit_kernel
from weft.codegen.llvm.target import LlvmTarget, host_target, to_object
from weft.codegen.objects.native_library import Library, link, runtime
from weft.ir.loop_interpreter import Status, interpret
from weft.ir.loop_ir import Kernel
from weft.ir.size_arithmetic import evaluate

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)
_EXTENT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class Fenced:
    """``array`` in memory that ends (or begins) at a page that faults on any access."""

    def __init__(self, array: np.ndarray, at_end: bool) -> None:
        inner = -(-max(array.nbytes, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, inner + 2 * _PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for fence in (self._base, self._base + _PAGE + inner):
            assert _LIBC.mprotect(ctypes.c_void_p(fence), _PAGE, 0) == 0
        offset = _PAGE + (inner - array.nbytes if at_end else 0)
        self.address = self._base + offset
        memory = (ctypes.c_char * max(array.nbytes, 1)).from_address(self.address)
        self.array = np.frombuffer(memory, np.uint8, array.nbytes).view(array.dtype)
        self.array[:] = array


@dataclass(frozen=True)
class Compiled:
    kernel: Kernel
    target: LlvmTarget = field(default_factory=host_target)
    contract: bool = False

    @cached_property
    def emitted(self) -> EmittedKernel:
        """LLVM IR that relies on no alignment."""
        buffers = tuple(replace(b, alignment=1) for b in self.kernel.buffers)
        kernel = replace(self.kernel, buffers=buffers)
        return emit_kernel(kernel, self.target, contract=self.contract)

    def __call__(
        self,
        parameters: Mapping[str, int],
        buffers: Mapping[str, np.ndarray],
        at_end: bool = True,
        team: int = 1,
    ) -> tuple[dict[str, np.ndarray], Status]:
        """The buffers after a run on copies of them, and the status. ``team``: of a region."""
        symbols = self.emitted.symbols
        library = _linked(self.emitted, self.target)
        fenced = {b.name: Fenced(buffers[b.name], at_end) for b in self.kernel.buffers}
        shared = Fenced(np.zeros(evaluate(symbols.shared, parameters), np.uint8), True)
        addresses = [*(f.address for f in fenced.values()), shared.address]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        values = [parameters[p] for p in self.kernel.parameters]
        given = (ctypes.c_int64 * (len(values) + 1))(*values)
        need = evaluate(symbols.scratch, parameters)
        scratch = [Fenced(np.zeros(-(-need // 64) * 64, np.uint8), True) for _ in range(team)]
        status = (ctypes.c_int64 * 4)()
        extent = _EXTENT(library[symbols.extent])(given)
        run = _FUNCTION(library[symbols.function])
        if self.kernel.region:
            assert extent == REGION
            call = [(pointers, given, status, scratch[t].address, t, team) for t in range(team)]
            threads = [threading.Thread(target=run, args=arguments) for arguments in call]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            half = extent // 2
            for begin, end in ((0, half), (half, extent)):
                run(pointers, given, status, scratch[0].address, begin, end)
        done = {name: fence.array.copy() for name, fence in fenced.items()}
        return done, Status(status[1], (status[2], status[3]))

    def extent(self, parameters: Mapping[str, int]) -> int:
        """How many turns threads can share."""
        library = _linked(self.emitted, self.target)
        values = [parameters[p] for p in self.kernel.parameters]
        given = (ctypes.c_int64 * (len(values) + 1))(*values)
        return int(_EXTENT(library[self.emitted.symbols.extent])(given))


@lru_cache(maxsize=16)
def _linked(emitted: EmittedKernel, target: LlvmTarget) -> Library:
    """The functions of a module: kernels run many times, at several sizes and between fences."""
    names = (emitted.symbols.function, emitted.symbols.extent)
    imports = {"weft_barrier": runtime()["weft_barrier"]}
    return link([to_object(emitted.text, target)], names, imports)


def check(
    kernel: Kernel,
    parameters: Mapping[str, int],
    buffers: Mapping[str, np.ndarray],
    *,
    rtol: float = 0.0,
    target: LlvmTarget | None = None,
) -> dict[str, np.ndarray]:
    """Compile and interpret; assert that all buffers and the status agree; return the buffers."""
    expected = {name: array.copy() for name, array in buffers.items()}
    status = interpret(kernel, parameters, expected)
    compiled = Compiled(kernel, target or host_target())
    for at_end in (True, False):
        actual, found = compiled(parameters, buffers, at_end)
        assert found.code == status.code  # which of several failures is first is open
        for name, array in expected.items():
            assert_same(actual[name], array, rtol, name)
    for team in (1, 2, 3, 8) if kernel.region else ():
        again = {name: array.copy() for name, array in buffers.items()}
        assert interpret_region(kernel, parameters, again, team).code == status.code
        actual, found = compiled(parameters, buffers, team=team)
        assert found.code == status.code
        for name, array in expected.items():
            assert_same(again[name], array, 0.0, name)
            assert_same(actual[name], array, rtol, name)
    return expected


def assert_same(actual: np.ndarray, expected: np.ndarray, rtol: float, name: str = "") -> None:
    """Equal, NaNs included; floats within ``rtol``."""
    if expected.dtype.kind in "biu" or expected.dtype.name.startswith(("int", "uint")):
        np.testing.assert_array_equal(actual.astype(object), expected.astype(object), err_msg=name)
        return
    wide = np.float64
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), rtol=rtol, atol=0, err_msg=name
    )
