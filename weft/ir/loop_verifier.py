"""What every kernel promises, checked between passes; a violation is a bug in Weft.

Names are bound before use, and not again where they are bound; buffers declared, loads and stores
of the right rank and dtype, updates fit their monoid, read-only buffers are not written, checks
have messages. In a region the whole team meets each barrier, and effects and memory belong to one
thread or to all.
"""

from __future__ import annotations

from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import InternalError
from weft.ir.loop_ir import (
    IN_BLOCK,
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Buffer,
    Check,
    CommitCopies,
    For,
    If,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
    children,
    expressions,
    is_grid,
)
from weft.ir.loop_ir import walk as every
from weft.ir.scalar_expr import Expr, Literal, Load, Var, has_loads, walk

_Names = dict[str, DType]
_Buffers = dict[str, Buffer]


def verify_kernel(kernel: Kernel) -> None:
    """Raise ``InternalError`` (WEFT-E0912) if ``kernel`` is ill-formed."""
    names: _Names = dict.fromkeys(kernel.parameters, dtypes.int64)
    buffers = {b.name: b for b in kernel.buffers}
    _require(len(buffers) == len(kernel.buffers), kernel, "two buffers have one name")
    for buffer in kernel.buffers:
        _buffer(buffer, names, kernel)
    _region(kernel.body, kernel, team=kernel.region)
    _launches(kernel)
    _warps(kernel)
    stack: list[tuple[Stmt, _Names, _Buffers]] = [(kernel.body, names, buffers)]
    while stack:
        stmt, names, buffers = stack.pop()
        for expr in expressions(stmt):
            _expression(expr, names, buffers, kernel)
        _statement(stmt, buffers, kernel)
        match stmt:
            case For():
                names = _bound(names, stmt.var, dtypes.int64, kernel)
            case Let():
                names = _bound(names, stmt.name, stmt.value.dtype, kernel)
            case Allocate():
                _buffer(stmt.buffer, names, kernel)
                buffers = {**buffers, stmt.buffer.name: stmt.buffer}
        stack.extend((child, names, buffers) for child in children(stmt))


def _bound(names: _Names, name: str, dtype: DType, kernel: Kernel) -> _Names:
    """``names`` and ``name``: were it bound already, what moves between the two places would mean
    something else there."""
    _require(name not in names, kernel, f"{name} is bound again where it is bound")
    return {**names, name: dtype}


def _require(holds: bool, kernel: Kernel, what: str) -> None:
    if not holds:
        raise InternalError("WEFT-E0912", f"kernel {kernel.name} is ill-formed: {what}")


def _buffer(buffer: Buffer, names: _Names, kernel: Kernel) -> None:
    name = buffer.name
    _require(len(buffer.shape) == len(buffer.strides), kernel, f"{name} has a stride per dimension")
    for expr in (*buffer.shape, *buffer.strides):
        _expression(expr, names, {}, kernel)
        _require(expr.dtype == dtypes.int64, kernel, f"sizes of {name} are int64")
    if buffer.streams is not None:
        _streams(buffer.streams, kernel)
    if buffer.scope in ("register", "fragment"):
        constant = all(isinstance(size, Literal) for size in buffer.shape)
        _require(constant, kernel, f"{buffer.scope} buffer {name} has constant sizes")
    if (s := buffer.swizzle) is not None:
        _require(0 <= s.bits <= s.shift, kernel, f"places in {name} are swapped one to one")


def _expression(expr: Expr, names: _Names, buffers: _Buffers, kernel: Kernel) -> None:
    for node in walk(expr):
        if isinstance(node, Var):
            _require(node.name in names, kernel, f"{node.name} is used where it is not bound")
            _require(names[node.name] == node.dtype, kernel, f"{node.name} is used as {node.dtype}")
        elif isinstance(node, Load):
            _access(str(node.source), node.indices, node.dtype, buffers, kernel)


def _access(
    name: str, indices: tuple[Expr, ...], dtype: DType, buffers: _Buffers, kernel: Kernel
) -> None:
    _require(name in buffers, kernel, f"{name} is accessed where there is no such buffer")
    buffer = buffers[name]
    _require(len(indices) == len(buffer.shape), kernel, f"{name} has {len(buffer.shape)} indices")
    _require(all(i.dtype == dtypes.int64 for i in indices), kernel, f"{name} has int64 indices")
    _require(dtype == buffer.dtype, kernel, f"{name} is accessed as {dtype}, not {buffer.dtype}")


def _statement(stmt: Stmt, buffers: _Buffers, kernel: Kernel) -> None:
    match stmt:
        case For():
            both = stmt.lower.dtype == stmt.upper.dtype == dtypes.int64
            _require(both and stmt.step > 0, kernel, f"loop {stmt.var} has int64 bounds, step > 0")
        case If() | While():
            _require(stmt.condition.dtype == dtypes.bool_, kernel, "conditions are bools")
        case Store(buffer, indices, value, streams):
            _write(buffer, indices, value.dtype, buffers, kernel)
            if streams is not None:
                _streams(streams, kernel)
        case Update(targets, monoid, values):
            given = tuple(v.dtype for v in values)
            fits = given == monoid.dtypes and len(targets) == len(values)
            _require(fits, kernel, f"an update gives {monoid.name} what it folds")
            for (name, indices), dtype in zip(targets, given, strict=True):
                _write(name, indices, dtype, buffers, kernel)
        case Prefetch(name, indices):
            known = name in buffers and len(indices) == len(buffers[name].shape)
            _require(known, kernel, f"{name} is prefetched where there is no such element")
        case Issue(instruction, operands):
            names = [instruction.semantics.writes[0].tensor, *instruction.tensors]
            _require(len(names) == len(operands), kernel, f"{instruction.name} has its operands")
            for name, indices in operands:
                _fragment(name, indices, buffers, kernel)
        case LoadMatrices(target, tile, source, indices):
            _fragment(target, tile, buffers, kernel)
            _access(source, indices, buffers[target].dtype, buffers, kernel)
        case AsyncCopy((name, indices), (source, start), _, valid):
            known = source in buffers and valid.dtype == dtypes.int64
            _require(known, kernel, f"{name} is copied from a buffer, so many elements")
            _access(source, start, buffers[source].dtype, buffers, kernel)
            _write(name, indices, buffers[source].dtype, buffers, kernel)
        case Check(condition, code, (first, second)):
            numbers = first.dtype == second.dtype == dtypes.int64
            _require(condition.dtype == dtypes.bool_ and numbers, kernel, "checks test a bool")
            _require(1 <= code <= len(kernel.messages), kernel, f"check {code} has a message")


def _fragment(name: str, tile: tuple[Expr, ...], buffers: _Buffers, kernel: Kernel) -> None:
    known = name in buffers and buffers[name].scope == "fragment"
    _require(known and len(tile) + 2 == len(buffers[name].shape), kernel, f"{name} is a fragment")


def _warps(kernel: Kernel) -> None:
    """Lanes have effects of their own; fragments are of the warp and the lane that touch them."""
    stack: list[tuple[Stmt, str, str, frozenset[str]]] = [(kernel.body, "", "", frozenset())]
    while stack:
        stmt, warp, lane, fragments = stack.pop()
        match stmt:
            case For(kind="warp"):
                _require(not warp, kernel, "a warp runs another")
                warp = stmt.var
            case For(kind="lane"):
                _require(bool(warp) and not lane, kernel, "lanes are a warp's")
                lane = stmt.var
            case Allocate(buffer) if buffer.scope == "fragment":
                fragments |= {buffer.name}
            case Store() | Update() | Check() | AsyncCopy() if warp:
                _require(bool(lane), kernel, "every lane of a warp has the same effect")
            case LoadMatrices(tile=tile):
                own = _is(tile[0], warp) and _is(stmt.lane, lane)
                _require(bool(lane) and own, kernel, "lanes load their warp's")
            case Issue(operands=operands):
                own = all(_is(indices[0], warp) for _, indices in operands)
                _require(bool(warp) and not lane and own, kernel, "a warp issues on its own")
        stores = [(stmt.buffer, stmt.indices)] if isinstance(stmt, Store) else []
        loads = (n for e in expressions(stmt) for n in walk(e) if isinstance(n, Load))
        stores += [(str(n.source), n.indices) for n in loads]
        stores += stmt.targets if isinstance(stmt, Update) else ()
        for name, indices in stores:
            if name in fragments:
                own = bool(lane) and _is(indices[0], warp) and _is(indices[-2], lane)
                _require(own, kernel, f"{name} is touched by the lanes that have it")
        stack.extend((child, warp, lane, fragments) for child in children(stmt))


def _is(index: Expr, name: str) -> bool:
    return isinstance(index, Var) and index.name == name


def _region(body: Stmt, kernel: Kernel, *, team: bool) -> None:
    """``team``: all threads run ``body``. They part in parallel loops and in ``Single``s."""
    stack = [(body, team)]
    while stack:
        stmt, team = stack.pop()
        match stmt:
            case Barrier() | Single() | CommitCopies() | AwaitCopies():
                _require(team, kernel, "a barrier or a single where no team is")
            case Store() | Update() | Check() | AsyncCopy() | Issue() | LoadMatrices():
                _require(not team, kernel, "every thread of a team has the same effect")
            case For(kind="grid"):
                _require(not team, kernel, "a block of threads launches another")
            case Allocate(buffer) if buffer.scope == "fragment":
                _require(team, kernel, f"{buffer.name} is in the registers of all threads")
            case Allocate(buffer):
                shared = buffer.scope == "shared"
                _require(shared == team, kernel, f"{buffer.name} is shared by a team, or by nobody")
            case For(kind="vector"):
                _require(not team, kernel, "a team is in a vector loop")
        apart = isinstance(stmt, Single) or (
            isinstance(stmt, For) and stmt.kind in ("parallel", *IN_BLOCK)
        )
        for child in children(stmt):
            begins = isinstance(stmt, For) and stmt.kind == "grid" and not is_grid(child)
            stack.append((child, begins or (team and not apart)))


def _launches(kernel: Kernel) -> None:
    """Where a kernel has launches, all effects are in them, and what is around reads no buffer."""
    if not any(map(is_grid, every(kernel.body))):
        return
    stack = [kernel.body]
    while stack:
        stmt = stack.pop()
        if is_grid(stmt):
            while is_grid(stmt):
                _require(not _loads(stmt), kernel, "bounds of a grid are known before the launch")
                (stmt,) = children(stmt)
            continue
        effect = isinstance(stmt, Store | Update | Check | Allocate | AsyncCopy | Issue)
        _require(not effect and not _loads(stmt), kernel, "the host touches memory of the device")
        stack.extend(children(stmt))


def _loads(stmt: Stmt) -> bool:
    return any(has_loads(e) for e in expressions(stmt))


def _streams(condition: Expr, kernel: Kernel) -> None:
    _require(condition.dtype == dtypes.bool_, kernel, "whether a store streams is a bool")
    _expression(condition, dict.fromkeys(kernel.parameters, dtypes.int64), {}, kernel)


def _write(
    name: str, indices: tuple[Expr, ...], dtype: DType, buffers: _Buffers, kernel: Kernel
) -> None:
    _access(name, indices, dtype, buffers, kernel)
    _require(buffers[name].writable, kernel, f"{name} is written but read only")
