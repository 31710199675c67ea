"""The number of threads that a launch is worth, as LLVM IR.

Each kernel that is worth a team has a function ``{i32, i32} (ptr parameters, i32 team)``: of
``team`` threads, how many pay off if they are awake, and if they sleep. It computes the kernel's
work; what that is worth is a function of the program's, for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.codegen.kernel_work import TEAM, WALK, WALKS, kernel_barriers, kernel_work
from weft.codegen.llvm.sizes import SizeFunction
from weft.ir.loop_ir import For, Kernel, walk
from weft.ir.machine import TYPICAL, Machine
from weft.ir.scalar_expr import Expr, Var, apply, literal, select, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.size_arithmetic import LIMIT, SizeError, evaluate

# 1 / share: a team must save a quarter of the work at least: iterations differ, and the model is
# optimistic.
LEAST_GAIN = 4
MANY = 1 << 20  # threads of a team as large as any

_SUMS = _TOTAL, _BUSIEST, _MEETINGS = Var("all work"), Var("busiest's work"), Var("meetings")
_SHARED = (_TOTAL - _BUSIEST) * TEAM // (TEAM - 1)
_ONE = literal(1)


@dataclass(frozen=True, slots=True)
class Teams:
    """``function``, defined by ``lines``, returns the number of threads; '' if it is always one."""

    function: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Costs:
    """In operations of ``kernel_work``: what a thread takes to ``launch``, if it is awake, and to
    ``wake`` up; a ``barrier``. A team must save ``least`` of every ``whole``."""

    launch: int
    wake: int
    barrier: int
    least: int
    whole: int


def costs(machine: Machine, grain: int | None = None) -> Costs:
    """Those of ``machine``; with ``grain``, as if a launch took so many operations, and all else
    proportionally."""
    own = machine.grain
    grain = own if grain is None else grain
    wake, barrier = (machine.work(x) * grain // own for x in (machine.wake, machine.barrier))
    return Costs(grain, wake, barrier, LEAST_GAIN * own, grain)


def emit_teams(
    kernel: Kernel,
    name: str,
    worth: str,
    machine: Machine = TYPICAL,
    grain: int | None = None,
    *,
    quick: bool = False,
) -> Teams:
    """The function ``name`` for ``kernel`` on ``machine``, which calls ``worth``, what
    ``emit_worth`` defines; ``grain``: operations that are worth a
    thread, if not its own. ``quick``: in less code, by the walk through the middle
    alone where sizes are known."""
    taken = costs(machine, grain)
    if not any(isinstance(part, For) and part.kind == "parallel" for part in walk(kernel.body)):
        return Teams()
    sums: tuple[Expr, ...] = (*kernel_work(kernel, machine), kernel_barriers(kernel))
    if not kernel.parameters:
        if quick:
            sums = tuple(substitute(expr, {WALK.name: literal(WALKS // 2)}) for expr in sums)
        return _fixed(sums, name, worth, taken)
    function = _on_a_team(SizeFunction(kernel.parameters))
    function.lines.insert(0, "entry:")
    function.lines += ["  br label %walks", "walks:"]
    function.parameters[WALK.name] = "%walk"
    function.lines.append("  %walk = phi i64 [ 0, %entry ], [ %next, %walks ]")
    names = ("%total", "%busiest", "%meetings")
    for sum_ in names:
        function.lines.append(f"  {sum_} = phi i64 [ 0, %entry ], [ {sum_}.now, %walks ]")
    for sum_, expr in zip(names, sums, strict=True):
        function.do(f"{sum_}.now = add i64 {sum_}, {function.size(expr)}")
    function.do("%next = add i64 %walk, 1")
    function.do(f"%more = icmp slt i64 %next, {WALKS}")
    function.do("br i1 %more, label %walks, label %done")
    function.lines.append("done:")
    for sum_, variable in zip(names, _SUMS, strict=True):
        function.parameters[variable.name] = function.value(f"sdiv i64 {sum_}.now, {WALKS}")
    return _returned(function, name, worth)


def emit_worth(name: str, machine: Machine = TYPICAL, grain: int | None = None) -> list[str]:
    """The function ``name``, ``{i32, i32} (i64 work, i64 busiest's, i64 meetings, i64 team)``."""
    taken = costs(machine, grain)
    function = SizeFunction(())
    names = ("%total", "%busiest", "%meetings", "%team")
    function.parameters |= {v.name: n for v, n in zip((*_SUMS, TEAM), names, strict=True)}
    awake, asleep = (
        function.value(f"trunc i64 {function.size(_worth(start, taken))} to i32")
        for start in (taken.launch, taken.wake)
    )
    pair = function.value(f"insertvalue {{i32, i32}} poison, i32 {awake}, 0")
    pair = function.value(f"insertvalue {{i32, i32}} {pair}, i32 {asleep}, 1")
    given = ", ".join(f"i64 {n}" for n in names)
    head = f"define internal {{i32, i32}} {name}({given}) noinline {{"
    return [head, *function.lines, f"  ret {{i32, i32}} {pair}", "}"]


def _fixed(sums: Sequence[Expr], name: str, worth: str, taken: Costs) -> Teams:
    """For a kernel without parameters: the mean over walks is computed here."""
    total, busiest, meetings = (_of_many(expr) for expr in sums)
    # Threads take at most twice as much off each other as many of them do: all of a parallel loop,
    # not all but one iteration of it.
    if total - busiest < taken.launch + meetings * taken.barrier:
        return Teams()
    function = _on_a_team(SizeFunction(()))
    for variable, expr in zip(_SUMS, sums, strict=True):
        function.parameters[variable.name] = function.size(_mean(expr))
    return _returned(function, name, worth)


def _mean(expr: Expr) -> Expr:
    """``expr``, averaged over all walks."""
    if WALK not in walk_expr(expr):
        return expr
    walks = (substitute(expr, {WALK.name: literal(k)}) for k in range(WALKS))
    return sum(walks, literal(0)) // WALKS


def _of_many(expr: Expr) -> int:
    """The mean over all walks for a large team, at most ``MANY``."""
    walks = range(WALKS if WALK in walk_expr(expr) else 1)
    try:
        sizes = {TEAM.name: MANY}
        return sum(evaluate(expr, {**sizes, WALK.name: k}) for k in walks) // len(walks)
    except SizeError:
        return LIMIT // (1 << 20)


def _on_a_team(function: SizeFunction) -> SizeFunction:
    function.parameters[TEAM.name] = function.value("sext i32 %team to i64")
    return function


def _returned(function: SizeFunction, name: str, worth: str) -> Teams:
    given = ", ".join(f"i64 {function.parameters[v.name]}" for v in (*_SUMS, TEAM))
    pair = function.value(f"call {{i32, i32}} {worth}({given})")
    head = f"define internal {{i32, i32}} {name}(ptr %parameters, i32 %team) noinline {{"
    return Teams(name, (head, *function.lines, f"  ret {{i32, i32}} {pair}", "}"))


def _worth(start: int, taken: Costs) -> Expr:
    """The number of threads that pay off if starting each costs ``start``.

    n threads save (1 - 1/n) of the shared work; that must be no less than the cost of starting them
    and of barriers.
    """
    cost = _MEETINGS * taken.barrier + start
    threads = apply("max", apply("min", _SHARED // cost, TEAM), _ONE)
    saved = _SHARED - _SHARED // threads - cost
    return select(saved * taken.least >= _TOTAL * taken.whole, threads, _ONE)
