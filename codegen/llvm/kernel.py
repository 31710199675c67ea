"""Loop IR → LLVM IR: one module for each kernel, callable by a thread pool.

For a kernel named ``k`` the module defines

    void k(void** buffers, int64* params, int64* status, void* scratch, int64 begin, int64 end)
    int64 k_extent(int64* params)

* ``buffers`` are the addresses of the kernel's buffers and ``params`` its parameters, in order.
* If the kernel is one parallel loop (inside ``Let``s at most), ``k_extent`` is its trip count
  and ``k`` runs iterations ``begin <= i < end`` of it; any split of [0, extent) over threads
  is right. Where it is a region the extent is -1 (``REGION``), and each thread of a team calls
  ``k`` with its number as ``begin`` and the team's size as ``end``, all at the same time.
  Otherwise the extent is 1 and that one iteration is everything.
* ``buffers`` ends with the address of ``symbols.shared`` bytes for the team, aligned to 64, if that
  is not 0.
* ``status`` has four words: the first is the caller's; the second, 0 before the first call, takes
  the code of the first failed ``Check`` (by compare-and-exchange, so threads may share it), the
  others its two details. Code k means ``messages[k - 1]``.
* ``scratch`` is ``symbols.scratch`` bytes for this thread alone, aligned to 64 (null if 0).
* The code calls nothing outside the module but, in a region of more threads than one,
  ``weft_barrier(i64 thread, i64 team)``; it never traps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.codegen.llvm.builder import Builder, Index, Value, integer
from weft.codegen.llvm.expressions import evaluate, evaluate_all
from weft.codegen.llvm.frame import Binding, Frame
from weft.codegen.llvm.program import KernelSymbols
from weft.codegen.llvm.region import SHARED, publish
from weft.codegen.llvm.scalar import ScalarOps
from weft.codegen.llvm.statements import Emitter
from weft.codegen.llvm.store import settle
from weft.codegen.llvm.target import LlvmTarget
from weft.codegen.llvm.tiles import release
from weft.codegen.map_loops import worksharing_loop
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.ir.errors import CompileError
from weft.ir.loop_ir import (
    Allocate,
    Buffer,
    For,
    Kernel,
    Prefetch,
    Stmt,
    Store,
    Update,
    expressions,
    walk,
)
from weft.ir.machine import TYPICAL, Machine
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Var, apply, literal, rewrite
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify

_SIGNATURE = "(ptr %buffers, ptr %params, ptr %status, ptr %scratch, i64 %begin, i64 %end)"

_CHUNK = (Value("%begin", "i64"), Value("%end", "i64"))

REGION = -1  # the extent of a kernel that distributes its loops itself


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """``text``: the module as LLVM IR. ``symbols``: what it defines and the scratch it needs."""

    text: str
    symbols: KernelSymbols


def emit_kernel(
    kernel: Kernel,
    target: LlvmTarget,
    machine: Machine = TYPICAL,
    *,
    contract: bool = True,
    quick: bool = False,
) -> EmittedKernel:
    """The module of ``kernel`` for ``target``, whose record is ``machine``; see above for what it
    defines.

    ``contract`` lets a multiplication and an addition round once (fused multiply-add). ``quick``:
    in less code, with long vector loops as loops. Raises ``CompileError`` for register buffers
    without constant sizes and for scratch whose size depends on loop variables.
    """
    kernel = flat_indices(kernel)
    builder = Builder(target.enabled)
    frame = _frame(kernel, builder, target, machine, contract)
    frame.quick = quick
    emitter = Emitter(frame)
    lets, loop = worksharing_loop(kernel)
    if kernel.region:
        written = [frame.bindings[b.name].pointer for b in kernel.buffers if b.writable]
        publish(frame, [*written, SHARED])
        emitter.in_team = True
        emitter.emit(kernel.body)
    elif loop is None:
        emitter.counted(*_CHUNK, 1, lambda _: emitter.emit(kernel.body))
    else:
        frame.names = _bind(frame, lets)
        _chunk_of(emitter, loop)
    settle(frame)
    release(frame)
    builder.line("ret void")
    body = builder.finish(f"internal void @{_quoted(kernel, '_body')}({_body_parameters(kernel)})")
    scratch, shared = _scratch(kernel, emitter.scratch), _scratch(kernel, emitter.shared)
    functions = [
        body,
        _entry(kernel, shared != literal(0), builder),
        _extent(kernel, lets, loop, builder, target),
    ]
    head = [f'target triple = "{target.triple}"', *builder.declarations]
    text = "\n".join([*head, "", *builder.support.values(), *functions])
    names = (kernel.name, f"{kernel.name}_extent")
    return EmittedKernel(text, KernelSymbols(*names, scratch, shared))


def _quoted(kernel: Kernel, suffix: str = "") -> str:
    return f'"{kernel.name}{suffix}"'


# ---- the body -----------------------------------------------------------------------------------


def _frame(
    kernel: Kernel, b: Builder, target: LlvmTarget, machine: Machine, contract: bool
) -> Frame:
    ops = ScalarOps(b, target.half, contract, target.fma)
    frame = Frame(b, ops, target, Value("%status", "ptr"), Value("%scratch", "ptr"), machine)
    frame.names = {p: Value(f"%p{k}", "i64") for k, p in enumerate(kernel.parameters)}
    frame.streams = any(isinstance(s, Store) and s.streams is not None for s in walk(kernel.body))
    read = _loaded(kernel)
    for k, buffer in enumerate(kernel.buffers):
        strides = tuple(b.materialise(v) for v in evaluate_all(frame, buffer.strides))
        frame.bindings[buffer.name] = Binding(
            Value(f"%b{k}", "ptr"),
            buffer.dtype,
            strides,
            "global",
            overlaps=_overlaps(kernel, buffer),
            loaded=buffer.name in read or bool(_overlaps(kernel, buffer)),
        )
    return frame


def _loaded(kernel: Kernel) -> set[str]:
    """The buffers that the kernel reads; an update reads what it writes."""
    found = set[str]()
    for stmt in walk(kernel.body):
        nodes = (n for e in expressions(stmt) for n in walk_expr(e))
        found |= {str(n.source) for n in nodes if isinstance(n, Load)}
        if isinstance(stmt, Update):
            found |= {name for name, _ in stmt.targets}
    return found


def _overlaps(kernel: Kernel, buffer: Buffer) -> tuple[str, ...]:
    """The buffers that may alias ``buffer``."""
    others = (b.name for b in kernel.buffers if buffer.name in b.aliases)
    return (*buffer.aliases, *others)


def _body_parameters(kernel: Kernel) -> str:
    """Pointers as ``noalias`` arguments, so that LLVM keeps values in registers."""
    texts = []
    for k, buffer in enumerate(kernel.buffers):
        alone = not _overlaps(kernel, buffer)
        attributes = ["ptr", "noalias" if alone else "", f"align {buffer.alignment}"]
        attributes += [] if buffer.writable else ["readonly"]
        texts.append(" ".join([*filter(None, attributes), f"%b{k}"]))
    texts += [f"i64 %p{k}" for k in range(len(kernel.parameters))]
    texts += ["ptr noalias %status", "ptr noalias align 64 %scratch"]
    if kernel.region:
        texts.append(f"ptr noalias align 64 {SHARED.text}")
    return ", ".join([*texts, "i64 %begin", "i64 %end"])


def _bind(frame: Frame, lets: list[tuple[str, Expr]]) -> dict[str, Index]:
    for name, value in lets:
        frame.names = {**frame.names, name: frame.b.materialise(evaluate(frame, value))}
    return frame.names


def _chunk_of(emitter: Emitter, loop: For) -> None:
    frame, b = emitter.frame, emitter.frame.b
    lower = b.materialise(evaluate(frame, loop.lower))

    def iteration(number: Value) -> None:
        emitter.iteration(loop, b.add(lower, b.mul(number, integer(loop.step))))

    emitter.counted(*_CHUNK, 1, iteration)


# ---- entry point, extent, scratch ---------------------------------------------------------------


def _entry(kernel: Kernel, shared: bool, b: Builder) -> str:
    """Unpacks the arguments; a tail call, so that the body keeps its argument attributes."""
    b.begin()
    arguments = []
    for k in range(len(kernel.buffers)):
        slot = b.element(Value("%buffers", "ptr"), "ptr", integer(k))
        arguments.append(str(b.load(slot, "ptr", align=8)))
    for k in range(len(kernel.parameters)):
        slot = b.element(Value("%params", "ptr"), "i64", integer(k))
        arguments.append(str(b.load(slot, "i64", align=8)))
    arguments += ["ptr %status", "ptr %scratch"]
    if shared:
        slot = b.element(Value("%buffers", "ptr"), "ptr", integer(len(kernel.buffers)))
        arguments.append(str(b.load(slot, "ptr", align=8)))
    elif kernel.region:
        arguments.append("ptr null")
    arguments += ["i64 %begin", "i64 %end"]
    b.line(f"call void @{_quoted(kernel, '_body')}({', '.join(arguments)}) noinline")
    b.line("ret void")
    return b.finish(f"void @{_quoted(kernel)}{_SIGNATURE}")


def _extent(
    kernel: Kernel,
    lets: list[tuple[str, Expr]],
    loop: For | None,
    b: Builder,
    target: LlvmTarget,
) -> str:
    b.begin()
    frame = Frame(b, ScalarOps(b), target, Value("null", "ptr"), Value("null", "ptr"))
    for k, parameter in enumerate(kernel.parameters):
        slot = b.element(Value("%params", "ptr"), "i64", integer(k))
        frame.names[parameter] = b.load(slot, "i64", align=8)
    trips: Expr = literal(1)
    if kernel.region:
        b.line(f"ret i64 {REGION}")
        return b.finish(f"i64 @{_quoted(kernel, '_extent')}(ptr %params)")
    if loop is not None:
        frame.names = dict(_bind(frame, lets))
        trips = (loop.upper - loop.lower + literal(loop.step - 1)) // literal(loop.step)
    value = b.materialise(evaluate(frame, trips))
    b.line(f"ret {b.intrinsic('smax', value, integer(0))}")
    return b.finish(f"i64 @{_quoted(kernel, '_extent')}(ptr %params)")


def _scratch(kernel: Kernel, sizes: list[Expr]) -> Expr:
    """The greatest total size in bytes of nested local allocations."""
    most: Expr = literal(0)
    for size in dict.fromkeys(sizes):
        for node in walk_expr(size):
            if isinstance(node, Var) and node.name not in kernel.parameters:
                raise CompileError(
                    "WEFT-E0502",
                    f"kernel {kernel.name} has scratch memory whose size depends on {node.name}",
                    why="scratch is reserved before the kernel starts",
                    hint="bound the size by the kernel's parameters",
                )
        most = apply("max", most, size)
    return most


# ---- Flat indices: floors that cancel in an address.
#
#     A[v // 4, v % 4]   →   A[0, v]          where rows of A are 4 elements long
#
# Only for emitters that linearise addresses: an index may exceed its dimension.


_Indices = tuple[Expr, ...]


def flat_indices(kernel: Kernel) -> Kernel:
    """``kernel`` whose accesses have the same addresses with fewer floors."""
    buffers = {b.name: b for b in kernel.buffers}
    buffers |= {s.buffer.name: s.buffer for s in walk(kernel.body) if isinstance(s, Allocate)}

    def load(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            indices = _joined(node.indices, buffers.get(str(node.source)))
            return None if indices == node.indices else replace(node, indices=indices)
        return None

    loads = map_all_expressions(kernel.body, lambda e: rewrite(e, load))
    return replace(kernel, body=_flat(loads, buffers))


def _flat(stmt: Stmt, buffers: dict[str, Buffer]) -> Stmt:
    """``stmt`` with flat indices of what it writes."""
    match stmt:
        case Store() | Prefetch():
            return replace(stmt, indices=_joined(stmt.indices, buffers.get(stmt.buffer)))
        case Update():
            targets = ((name, _joined(at, buffers.get(name))) for name, at in stmt.targets)
            return replace(stmt, targets=tuple(targets))
    return map_children(stmt, lambda s: _flat(s, buffers))


def _joined(indices: _Indices, buffer: Buffer | None) -> _Indices:
    """``indices`` with neighbours merged if that has fewer floors."""
    if buffer is None or not any(map(_floors, indices)):
        return indices
    found = list(indices)
    for d in range(len(found) - 1):
        match buffer.strides[d], buffer.strides[d + 1]:
            case Literal(far), Literal(near) if near and far % near == 0:
                both = simplify(found[d] * (far // near) + found[d + 1])
                if _floors(both) < _floors(found[d]) + _floors(found[d + 1]):
                    found[d : d + 2] = literal(0), both
    return tuple(found)


def _floors(expr: Expr) -> int:
    return sum(isinstance(n, Apply) and n.op in ("floordiv", "mod") for n in walk_expr(expr))
