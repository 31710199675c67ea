"""What one core can multiply and add: a loop of independent fused multiply-adds in registers."""

from __future__ import annotations

import ctypes
import time

from weft.codegen.llvm_target import host_target, to_object
from weft.codegen.native_library import link

_CHAINS = 24  # more than latency times units, fewer than registers
_TURNS = 200_000


class FmaPeak:
    """Calling it runs the loop once; ``operations`` are the float64 operations of one run."""

    def __init__(self) -> None:
        target = host_target()
        lanes = 8 if "+avx512f" in target.features else 4
        chains = _CHAINS if lanes == 8 else 12
        self.operations = 2.0 * lanes * chains * _TURNS
        self._tracker = link([to_object(loop(lanes, chains), target)], ("fma_peak",), {})
        self._run = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(self._tracker["fma_peak"])

    def __call__(self) -> None:
        self._run(3.0)

    def gflops(self, seconds: float = 0.3) -> float:
        """The best rate seen within ``seconds``."""
        best, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            self()
            best = min(best, time.perf_counter() - start)
        return self.operations / best / 1e9


def loop(lanes: int, chains: int) -> str:
    """LLVM text of ``chains`` multiply-adds of ``lanes`` that wait for nothing but themselves."""
    vector = f"<{lanes} x double>"

    def splat(value: str) -> str:
        return f"<{', '.join([f'double {value}'] * lanes)}>"

    # The chains start from values that LLVM does not know: it folds what 0.5 x + 1 leaves alone.
    names = [f"%a{k}" for k in range(chains)]
    starts = [
        f"  %one = insertelement {vector} poison, double %start, i32 0",
        f"  %all = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer",
        *(f"  %v{k} = fadd {vector} %all, {splat(f'{k}.0')}" for k in range(chains)),
    ]
    phis = [
        f"  {name} = phi {vector} [ %v{k}, %entry ], [ {name}n, %loop ]"
        for k, name in enumerate(names)
    ]
    steps = [
        f"  {name}n = call {vector} @llvm.fma.v{lanes}f64("
        f"{vector} {name}, {vector} {splat('5.0e-1')}, {vector} {splat('1.0')})"
        for name in names
    ]
    sums = [f"  %t0 = fadd {vector} {names[0]}n, {names[1]}n"]
    sums += [
        f"  %t{k} = fadd {vector} %t{k - 1}, {name}n" for k, name in enumerate(names[2:], start=1)
    ]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f64({vector}, {vector}, {vector})",
            "define double @fma_peak(double %start) {",
            "entry:",
            *starts,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %in, %loop ]",
            *phis,
            *steps,
            "  %in = add i64 %i, 1",
            f"  %more = icmp slt i64 %in, {_TURNS}",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            f"  %r = extractelement {vector} %t{chains - 2}, i32 0",
            "  ret double %r",
            "}",
        ]
    )
