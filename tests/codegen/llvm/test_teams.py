from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest

from weft.codegen.llvm.teams import emit_teams, emit_worth
from weft.ir.dtypes import float32
from weft.ir.loop_ir import For, Kernel, Kind, Stmt, Store
from weft.ir.machine import TYPICAL
from weft.ir.scalar_expr import Expr, Load, Var, literal

CALLER = """
define void @ask(ptr %parameters, i32 %team, ptr %answer) {
  %pair = call {i32, i32} @team(ptr %parameters, i32 %team)
  store {i32, i32} %pair, ptr %answer
  ret void
}
"""


def answers(kernel: Kernel, team: int, *sizes: int) -> tuple[int, int]:
    """How many threads ``kernel`` is worth: (if they are awake, if they sleep)."""
    lines = emit_teams(kernel, "@team", "@worth").lines
    if not lines:
        return 1, 1
    lines = (*emit_worth("@worth"), *lines)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly("\n".join(lines) + CALLER), machine)
    engine.finalize_object()
    ask = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    answer = (ctypes.c_int * 2)()
    ask(engine.get_function_address("ask"))((ctypes.c_int64 * 8)(*sizes), team, answer)
    return answer[0], answer[1]


def turns(count: Expr | int, inner: Expr | int, kind: Kind = "parallel") -> Stmt:
    """``count`` turns, each of some ``inner`` operations."""
    add = Store("y", (Var("i"),), Load("x", (Var("i"),), float32) + 1.0)
    low, high, end = (literal(e) if isinstance(e, int) else e for e in (0, count, inner))
    return For("j", low, high, kind, For("i", low, end, "serial", add))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_teams_are_as_large_as_there_is_work_to_share(fixed: bool, kind: Kind) -> None:
    def ask(count: int, inner: int, team: int) -> tuple[int, int]:
        if fixed:
            return answers(Kernel("k", (), (), turns(count, inner, kind)), team)
        kernel = Kernel("k", ("n", "m"), (), turns(Var("n"), Var("m"), kind))
        return answers(kernel, team, count, inner)

    many = 100 * TYPICAL.grain
    for count, team in ((2, 2), (3, 2), (2, 3), (16, 16), (100, 2), (7, 4)):
        expected = team if kind == "parallel" else 1
        assert ask(count, many, team) == (expected, expected)
    for count, inner, team in ((1, many, 2), (0, many, 2), (many, 0, 1), (2, 3, 2), (5, many, 1)):
        assert ask(count, inner, team) == (1, 1)
    awake, asleep = ask(64, TYPICAL.grain // 32, 2)
    assert (awake, asleep) == ((2, 1) if kind == "parallel" else (1, 1))
