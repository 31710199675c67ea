"""Schedules of integer programs as machine code, beside the interpreter; trees on one line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.codegen.kernel_runner import Compiled
from tests.polyhedral.transform.integer_programs import every, promise
from weft.codegen.from_schedule import build_kernel
from weft.codegen.llvm.target import host_target
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.schedule_tree import Band, Leaf, Sequence, Tree, children
from weft.ir.scop import Scop
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.transform.scheduled import Scheduled


def outline(now: Scheduled) -> str:
    """``i_t=i // 4 parallel, i_p=…: S0; j=j: S1`` with braces around what a loop holds."""
    return _outline(now.tree)


def _outline(tree: Tree) -> str:
    match tree:
        case Leaf(statement):
            return statement
        case Band(loops, child):
            kinds = [
                loop.name + ("" if loop.kind == "serial" else f"!{loop.kind}") for loop in loops
            ]
            return f"{' '.join(kinds)} {{ {_outline(child)} }}"
        case Sequence(parts):
            return "; ".join(map(_outline, parts))
    return _outline(children(tree)[0])


def computes(now: Scheduled, *sizes: Mapping[str, int]) -> None:
    """``now`` keeps every promise, and so does its machine code, on all sizes by default."""
    tried = sizes or every(now.original)
    runs = promise(now, *tried)
    kernel = optimise_kernel(build_kernel(now.scop, now.tree, "test"))
    verify_kernel(kernel)
    compiled = Compiled(kernel, host_target())
    for values, (given, expected) in zip(tried[-2:], runs[-2:], strict=True):
        found, status = compiled(values, _memory(now.scop, given, values))
        assert status.code == 0
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value.ravel(), err_msg=f"{name} at {values}")


def _memory(
    scop: Scop, given: Mapping[str, np.ndarray], values: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Every global tensor, flat; what is not given is full of nonsense."""
    found = {}
    for t in scop.tensors:
        if t.name in given:
            found[t.name] = given[t.name].ravel().copy()
        elif t.scope == "global":
            count = int(np.prod([evaluate(size, values) for size in t.shape], dtype=np.int64))
            found[t.name] = np.full(count, 77).astype(t.dtype.numpy)
    return found
