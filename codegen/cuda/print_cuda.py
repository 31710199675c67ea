"""Launches of loop IR as CUDA C++ that people can read: a ``__global__`` function for each, and a
host function around them for each kernel.

    WEFT_KERNEL(256) gemm_0(int64_t NI, …, double *__restrict__ C) {
      const int64_t i = block_index() / …;
      for (int64_t thread = thread_index(); thread < …; thread += thread_count()) {

* The grid has one dimension. The loops of a grid nest share it out, the last one fastest; where the
  bounds of one depend on another the grid holds them all, and blocks outside do nothing.
* A block has as many threads as its longest block loop has turns, in whole warps, and at most those
  of ``Gpu.block``: the loops stride by it, so that the number never matters to what is computed.
* Warps share out the turns of a warp loop, or have one each; those of a lane loop are the lanes. A
  thread declares its own elements of a fragment, whatever warp and lane it is.
* All calls are of the prelude, so that the very same text runs on a CPU with ``twin.hpp``.
* Buffers are flat; those of callers and temporaries lie in the memory of the device.
* A block declares its shared memory, up to ``Gpu.shared_memory``; what needs more is asked for at
  launch, up to ``Gpu.shared_memory_most``, with the buffers one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from weft.codegen.c_expressions import ATOM, Scope, Text, c_name
from weft.codegen.c_printer import CFunction, extent_of
from weft.codegen.cuda.small_floats import CudaExpressions, is_small, stored_type, value_type
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.errors import CompileError
from weft.ir.gpu import Gpu
from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Buffer,
    Check,
    CommitCopies,
    For,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Single,
    Stmt,
    Store,
    buffers_touched,
    children,
    expressions,
    is_grid,
    walk,
)
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Select,
    Var,
    apply,
    literal,
    rewrite,
    variable_names,
)
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify

_WIDTH = 100
ALIGNED = 128  # bytes, of shared buffers: rows of matrices lie in whole lines of the banks
_TAKEN = """block_index thread_index thread_count warp_index warp_count lane_index block_barrier
f16_value f16_bits f16_rounded bf16_value bf16_bits bf16_rounded
load_matrices copy_async copies_commit copies_wait swizzled check_failed status step block
blocks block_memory blockIdx blockDim threadIdx gridDim twin alignas alignof and and_eq asm
bitand bitor catch class compl concept constexpr decltype delete dynamic_cast explicit export false
friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
requires static_assert template this thread_local throw try typeid typename using virtual wchar_t
xor xor_eq"""  # what the prelude and C++ call so


@cache
def prelude() -> str:
    """What kernels call, on a GPU."""
    return (Path(__file__).parent / "prelude.cuh").read_text()


@cache
def launcher() -> str:
    """What a main that checks itself calls besides."""
    return (Path(__file__).parent / "launcher.hpp").read_text()


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """``device``: its ``__global__`` functions; ``host``: the function around them, ``name``, which
    takes ``parameters`` and ``buffers``; ``helpers``: what they call besides the prelude, by name;
    ``launches``: how each of the functions is launched, in textual order.
    """

    name: str
    device: str
    host: str
    helpers: Mapping[str, str]
    launches: tuple[LaunchForm, ...]


@dataclass(frozen=True, slots=True)
class LaunchForm:
    """A launch of the ``__global__`` function ``name``: a block for each combination of ``counts``
    turns of ``threads`` each, none if one of these is no turn; ``asked``: bytes of shared memory
    that it asks for, 0 where the function declares its own.

    Its arguments, in order: the status and the step, if it ``checks``; ``variables`` of the host;
    all of ``counts`` but the first; ``buffers``.
    """

    name: str
    counts: tuple[Expr, ...]
    threads: int
    asked: int
    checks: bool
    variables: tuple[str, ...]
    buffers: tuple[str, ...]


def print_cuda(kernel: Kernel, gpu: Gpu, sources: Sequence[str] = ()) -> CudaKernel:
    """``kernel``, which ``form_launches`` has made, as text; ``sources``: what it computes, in the
    user's terms.

    Raises ``UnsupportedError``: WEFT-E0504 for dtypes that C lacks, E0505 for expressions that
    would be too long; ``CompileError`` (WEFT-E0506) where a block needs more memory than there is,
    or its thread an array of a size that is not known.
    """
    function = _Launches(kernel, gpu)
    host = "\n".join(function.host_lines())
    notes = [f"// {' '.join(text.split())}".rstrip("\\") for text in sources]
    for made in function.launches:
        _check_memory(made, kernel, gpu)
        _check_threads(made.form.threads, kernel, gpu)
    device = "\n".join([*notes, *("\n".join(made.lines) for made in function.launches)])
    helpers = {
        name: text.replace("static inline", "WEFT_BOTH")
        for name, text in function.expressions.helpers.items()
    }
    launches = tuple(made.form for made in function.launches)
    return CudaKernel(function.name, device, host, helpers, launches)


def _check_memory(made: _Launch, kernel: Kernel, gpu: Gpu) -> None:
    if made.bytes > gpu.shared_memory_most:
        raise CompileError(
            "WEFT-E0506",
            f"a block of {kernel.name} needs {made.bytes} bytes of shared memory",
            why=f"{gpu.name} has {gpu.shared_memory_most}",
            hint="take smaller tiles, or fewer stages",
        )


def _check_threads(threads: int, kernel: Kernel, gpu: Gpu) -> None:
    if threads > gpu.threads:
        raise CompileError(
            "WEFT-E0506",
            f"a block of {kernel.name} needs {threads} threads",
            why=f"{gpu.name} has {gpu.threads}",
            hint="take fewer warps",
        )


def _bytes(buffer: Buffer, kernel: Kernel) -> int:
    return _elements(buffer, kernel) * buffer.dtype.itemsize


def _elements(buffer: Buffer, kernel: Kernel) -> int:
    extent = extent_of(buffer)
    if not isinstance(extent, Literal):
        raise CompileError(
            "WEFT-E0506",
            f"a thread or a block of {kernel.name} needs {buffer.name}, of unknown size",
            hint="keep it in the memory of the device",
        )
    return max(1, int(extent.value))


@dataclass(slots=True)
class _Launch:
    """A ``__global__`` function, its ``form``, and the ``bytes`` of shared memory of a block;
    ``places``: where each shared buffer begins."""

    form: LaunchForm
    lines: list[str]
    places: dict[str, int]
    bytes: int


@dataclass(slots=True)
class _Launches(CFunction):
    gpu: Gpu
    launches: list[_Launch] = field(default_factory=list)
    name: str = field(init=False)
    expressions: CudaExpressions = field(init=False)
    ranges: dict[str, Range] = field(default_factory=dict)  # of the variables, as far as known
    warps: int = 0  # of a block of the launch at hand

    def __post_init__(self) -> None:
        CFunction.__post_init__(self)
        self.expressions = CudaExpressions(self._element)
        self.name = c_name(self.kernel.name)
        scope = Scope({f" {name}": name for name in _TAKEN.split()}, {})
        for name in self.kernel.parameters:
            scope = scope.variable(name)
        for buffer in self.kernel.buffers:
            scope = scope.buffer(buffer)
        self.scope = scope
        for stmt in walk(self.kernel.body):
            if isinstance(stmt, For):
                low, high = bounds(stmt.lower, self.ranges)[0], bounds(stmt.upper, self.ranges)[1]
                self.ranges[stmt.var] = (low, None if high is None else high - 1)
            elif isinstance(stmt, Let) and stmt.value.dtype == dtypes.int64:
                self.ranges[stmt.name] = bounds(stmt.value, self.ranges)

    # ---- the host -----------------------------------------------------------------------------

    def host_lines(self) -> Iterator[str]:
        body = list(self._lines(self.kernel.body, self.scope, 1))
        scope = self.scope
        arguments = ["int64_t *status", "int64_t step"]
        arguments += [f"int64_t {scope.variables[name]}" for name in self.kernel.parameters]
        arguments += [self._pointer(buffer) for buffer in self.kernel.buffers]
        yield from _head(f"static void run_{self.name}", arguments)
        yield from body
        yield "}"

    def _pointer(self, buffer: Buffer) -> str:
        kind = stored_type(buffer.dtype)
        kind = kind if buffer.writable else f"const {kind}"
        aliased = buffer.aliases or any(buffer.name in b.aliases for b in self.kernel.buffers)
        return f"{kind} *{'' if aliased else '__restrict__ '}{self.scope.buffers[buffer.name][0]}"

    def _lines(self, stmt: Stmt, scope: Scope, depth: int, spread: bool = True) -> Iterator[str]:
        if is_grid(stmt):
            yield from self._launch(stmt, scope, "  " * depth)
        elif isinstance(stmt, Single):
            yield f"{'  ' * depth}if (thread_index() == 0) {{"
            yield from self._lines(stmt.body, scope, depth + 1, False)
            yield f"{'  ' * depth}}}"
        elif isinstance(stmt, Allocate) and stmt.buffer.scope == "shared":
            yield from self._lines(stmt.body, scope, depth, spread)
        else:
            yield from CFunction._lines(self, stmt, scope, depth, spread)

    # ---- a launch -----------------------------------------------------------------------------

    def _launch(self, nest: Stmt, scope: Scope, pad: str) -> Iterator[str]:
        """The call, in a block of its own where it has conditions or numbers to compute."""
        grid = _Grid.of(nest, self.kernel)
        places, size = _places(_shared_in(grid.body), self.kernel)
        used = _used(grid, scope)
        form = LaunchForm(
            f"{self.name}_{len(self.launches)}",
            grid.counts,
            _threads(grid.body, self.gpu),
            size if size > self.gpu.shared_memory else 0,
            any(isinstance(s, Check) for s in walk(grid.body)),
            used.variables,
            used.buffers,
        )
        checks = ["status", "step"] if form.checks else []
        inner, counts = scope, list[str]()
        yield f"{pad}{{"
        for loop, count in zip(grid.loops, grid.counts, strict=True):
            inner = inner.variable(f"{loop.var} count", f"{loop.var}_count")
            counts.append(inner.variables[f"{loop.var} count"])
            yield f"{pad}  const int64_t {counts[-1]} = {self._text(count, scope)};"
        made = _Launch(form, [], places, size)
        self.launches.append(made)
        self.warps = form.threads // self.gpu.warp
        made.lines += self._device(grid, used, counts, made, scope, checks)
        passed = [*checks, *(scope.variables[v] for v in used.variables), *counts[1:]]
        passed += [scope.buffers[b][0] for b in used.buffers]
        tests = " && ".join(f"{count} > 0" for count in counts)
        call = ["WEFT_LAUNCH(" + form.name, " * ".join(counts), str(form.threads), *passed]
        if form.asked:
            call[0] = "WEFT_LAUNCH_ASKING(" + form.name
            call.insert(3, str(form.asked))
        yield f"{pad}  if ({tests})"
        yield from _wrapped(f"{pad}    ", call)
        yield f"{pad}}}"

    def _device(
        self,
        grid: _Grid,
        used: _Used,
        counts: Sequence[str],
        made: _Launch,
        scope: Scope,
        checks: Sequence[str],
    ) -> Iterator[str]:
        """The function of each thread."""
        arguments = ["int64_t *status", "int64_t step"] if checks else []
        arguments += [f"int64_t {scope.variables[v]}" for v in used.variables]
        arguments += [f"int64_t {count}" for count in counts[1:]]
        arguments += [self._pointer(scope.buffers[b][1]) for b in used.buffers]
        yield from _head(f"WEFT_KERNEL({made.form.threads}) {made.form.name}", arguments)
        inner = Scope({**scope.variables, **{f" {c}": c for c in counts}}, scope.buffers)
        for buffer in _shared_in(grid.body):
            inner = inner.buffer(buffer)
            sized = f"{stored_type(buffer.dtype)}, {inner.buffers[buffer.name][0]}"
            count = _elements(buffer, self.kernel)
            if made.form.asked:
                yield f"  WEFT_ASKED({sized}, {count}, {made.places[buffer.name]});"
            else:
                yield f"  WEFT_SHARED({sized}, {count});"
        for k, (loop, low) in enumerate(zip(grid.loops, grid.lows, strict=True)):
            place = "block_index()" + "".join(f" / {count}" for count in reversed(counts[k + 1 :]))
            place = f"{place} % {counts[k]}" if k else place
            if loop.step != 1:
                place = f"{place} * {loop.step}"
            first = self._text(low, inner, 12)
            inner = inner.variable(loop.var)
            start = place if first == "0" else f"{first} + {place}"
            yield f"  const int64_t {inner.variables[loop.var]} = {start};"
        guards = [self._text(c, inner, 6) for c in grid.conditions]
        yield from [f"  if ({' && '.join(guards)}) {{"] if guards else []
        yield from self._lines(grid.body, inner, 2 if guards else 1)
        yield from ["  }"] if guards else []
        yield "}"

    def _text(self, expr: Expr, scope: Scope, level: int = 0) -> str:
        return self.expressions.text(self._plain(expr), scope, level)

    def _target(self, name: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        return CFunction._target(self, name, tuple(map(self._plain, indices)), scope)

    def _plain(self, expr: Expr) -> Expr:
        """``expr`` with C's own division where nothing is negative."""

        def change(node: Expr) -> Expr | None:
            match node:
                case Apply("floordiv" | "mod" as op, (left, Literal(divisor))) if divisor > 0:
                    low = bounds(left, self.ranges)[0]
                    if low is not None and low >= 0:
                        return Apply("truncdiv" if op == "floordiv" else "rem", node.args)
            return None

        return rewrite(expr, change)

    # ---- a thread -----------------------------------------------------------------------------

    def _for(self, loop: For, scope: Scope, depth: int, spread: bool) -> Iterator[str]:
        pad = "  " * depth
        inner = scope.variable(loop.var, self._short(loop.var))
        var = inner.variables[loop.var]
        low, high = self._text(loop.lower, scope, 12), self._text(loop.upper, scope, 11)
        step = f"{var}++" if loop.step == 1 else f"{var} += {loop.step}"
        turn = {"lane": "lane_index()", "warp": "warp_index()"}.get(loop.kind)
        if loop.kind == "lane" or (turn and (low, high) == ("0", str(self.warps))):
            yield f"{pad}{{"  # a turn for each
            yield f"{pad}  const int64_t {var} = {low} + {turn};".replace("= 0 + ", "= ")
            yield from self._lines(loop.body, inner, depth + 1, spread and loop.kind == "lane")
            yield f"{pad}}}"
            return
        if loop.kind == "warp":
            low = "warp_index()" if low == "0" else f"{low} + warp_index()"
            step, spread = f"{var} += warp_count()", False
        if loop.kind == "unrolled":
            yield f"{pad}#pragma unroll"
        elif loop.kind == "serial" and any(isinstance(s, For) for s in walk(loop.body)):
            yield f"{pad}#pragma unroll 1"  # the assembler would write out loops in loops
        if loop.kind == "block" and spread:
            first = "thread_index()" if loop.step == 1 else f"thread_index() * {loop.step}"
            low = first if low == "0" else f"{low} + {first}"
            by = "thread_count()" if loop.step == 1 else f"thread_count() * {loop.step}"
            step = f"{var} += {by}"
            spread = False
        yield f"{pad}for (int64_t {var} = {low}; {var} < {high}; {step}) {{"
        yield from self._lines(loop.body, inner, depth + 1, spread)
        yield f"{pad}}}"

    def _element(self, name: str, indices: list[Text], scope: Scope) -> Text:
        text, buffer = scope.buffers[name]
        if buffer.scope == "fragment":
            buffer, indices = _of_thread(buffer), [*indices[1:-2], indices[-1]]
        if (s := buffer.swizzle) is not None:
            place = self._flat("", buffer, indices, scope)[1:-1]
            return f"{text}[swizzled<{s.bits}, {s.base}, {s.shift}>({place})]", ATOM
        if not indices:
            return (text if buffer.scope in ("local", "register") else f"{text}[0]"), ATOM
        return self._flat(text, buffer, indices, scope), ATOM

    def _type(self, dtype: DType) -> str:
        return value_type(dtype)

    def _stored(self, dtype: DType, text: str) -> str:
        return self.expressions.stored(dtype, text)

    def _accumulated(self, target: Load, result: Expr, scope: Scope) -> str:
        if not is_small(target.dtype):
            return CFunction._accumulated(self, target, result, scope)
        return f"{self.expressions.place(target, scope)} = {self._bits(result, scope)};"

    def _declared(self, buffer: Buffer, scope: Scope, pad: str) -> Iterator[str]:
        kind, name = stored_type(buffer.dtype), scope.buffers[buffer.name][0]
        if buffer.scope == "fragment":
            yield f"{pad}alignas(4) {kind} {name}[{_elements(_of_thread(buffer), self.kernel)}];"
            return
        yield f"{pad}{kind} {name}{f'[{_elements(buffer, self.kernel)}]' if buffer.shape else ''};"

    def _freed(self, buffer: Buffer, scope: Scope, pad: str) -> Iterator[str]:
        yield from ()

    def _simple(self, stmt: Stmt, scope: Scope) -> Iterator[str]:
        match stmt:
            case Barrier():
                yield "block_barrier();"
            case Store(name, indices, value) if is_small(value.dtype):
                yield f"{self._target(name, indices, scope)} = {self._bits(value, scope)};"
            case Issue(instruction, operands):
                assert instruction.warp is not None, "a warp issues it"
                places = (self._fragment(name, tile, scope) for name, tile in operands)
                yield f"{instruction.warp.symbol}({', '.join(places)});"
            case LoadMatrices(target, tile, source, indices, _, matrices, transposed):
                to = self._fragment(target, tile, scope)
                at = self._target(source, indices, scope)
                kind = f"{matrices}, {'true' if transposed else 'false'}"
                yield f"load_matrices<{kind}>({to}, &{at});"
            case AsyncCopy((target, to), (source, start), count, valid):
                yield f"copy_async<{count}>("
                yield f"    &{self._target(target, to, scope)},"
                yield f"    &{self._target(source, start, scope)}, {self._text(valid, scope)});"
            case CommitCopies():
                yield "copies_commit();"
            case AwaitCopies(left):
                yield f"copies_wait<{left}>();"
            case Check(condition, code, detail):
                first, second = (self._text(d, scope) for d in detail)
                yield f"if (!({self._text(condition, scope)})) {{"
                yield f"  check_failed(status, step, {code}, {first}, {second});"
                yield "}"
            case _:
                yield from CFunction._simple(self, stmt, scope)

    def _fragment(self, name: str, tile: tuple[Expr, ...], scope: Scope) -> str:
        """Where a thread's part of a fragment begins."""
        zero = literal(0)
        return f"&{self._target(name, (*tile, zero, zero), scope)}"

    def _bits(self, value: Expr, scope: Scope) -> str:
        """``value``, of 16 bits, as it lies in memory: what came from there is taken as it is."""
        match value:
            case Load():
                return self.expressions.place(value, scope)
            case Select(condition, Load() as kept, Literal(0)):
                test = self._text(condition, scope, 4)
                return f"{test} ? {self.expressions.place(kept, scope)} : 0"
        return self.expressions.bits(self._plain(value), scope)


def _of_thread(buffer: Buffer) -> Buffer:
    """What one thread has of a fragment."""
    shape = (*buffer.shape[1:-2], buffer.shape[-1])
    strides: list[Expr] = []
    for k in range(len(shape)):
        strides.append(simplify(_product(shape[k + 1 :])))
    return replace(buffer, shape=shape, strides=tuple(strides))


def _product(sizes: Sequence[Expr]) -> Expr:
    total: Expr = literal(1)
    for size in sizes:
        total = total * size
    return total


# ---- Grids: the loops of a nest, each with its first value and the number of its turns; neither
# depends on the others.


@dataclass(frozen=True, slots=True)
class _Grid:
    """``conditions``: where a block has work, if the bounds of its loops depend on each other."""

    loops: tuple[For, ...]
    lows: tuple[Expr, ...]
    counts: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    body: Stmt

    @classmethod
    def of(cls, nest: Stmt, kernel: Kernel) -> _Grid:
        loops: list[For] = []
        lows: list[Expr] = []
        counts: list[Expr] = []
        conditions: list[Expr] = []
        while isinstance(nest, For) and nest.kind == "grid":
            low, high = nest.lower, nest.upper
            for loop, first, count in reversed(list(zip(loops, lows, counts, strict=True))):
                last = first + (count - 1) * loop.step
                low = _extreme(low, loop.var, first, last, False, kernel)
                high = _extreme(high, loop.var, first, last, True, kernel)
            if low != nest.lower:
                conditions.append(Var(nest.var) >= nest.lower)
            if high != nest.upper:
                conditions.append(Var(nest.var) < nest.upper)
            loops.append(nest)
            lows.append(low)
            counts.append(simplify((high - low + (nest.step - 1)) // nest.step))
            nest = nest.body
        return cls(tuple(loops), tuple(lows), tuple(counts), tuple(conditions), nest)


def _extreme(expr: Expr, var: str, low: Expr, high: Expr, up: bool, kernel: Kernel) -> Expr:
    """A bound of ``expr``, from above if ``up``, where ``var`` is from ``low`` to ``high``."""
    if var not in variable_names(expr):
        return expr

    def of(part: Expr, way: bool) -> Expr:
        return _extreme(part, var, low, high, way, kernel)

    match expr:
        case Var():
            return high if up else low
        case Apply("add" | "min" | "max", (left, right)):
            return apply(expr.op, of(left, up), of(right, up))
        case Apply("sub", (left, right)):
            return of(left, up) - of(right, not up)
        case Apply("mul", (left, Literal(factor))) | Apply("mul", (Literal(factor), left)):
            return of(left, up if factor > 0 else not up) * int(factor)
        case Apply("floordiv", (left, Literal(divisor))) if divisor > 0:
            return of(left, up) // int(divisor)
        case Apply("mod", (_, Literal(divisor))) if divisor > 0:
            return literal(int(divisor) - 1 if up else 0)
    raise CompileError(
        "WEFT-E0506",
        f"the grid of {kernel.name} has bounds whose hull is not known",
        hint="bind fewer loops to the grid",
    )


def _threads(body: Stmt, gpu: Gpu) -> int:
    """Threads of a block: the turns of its longest loop, in whole warps."""
    longest, warps, stack = 0, 0, [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and stmt.kind == "warp":
            most = bounds(stmt.upper - stmt.lower, {})[1]
            warps = max(warps, gpu.block // gpu.warp if most is None else most)
        elif isinstance(stmt, For) and stmt.kind == "block":
            most = bounds(stmt.upper - stmt.lower, {})[1]
            longest = max(longest, gpu.block if most is None else most)
        else:
            stack.extend(children(stmt))
    if warps:  # each has fragments of its own
        return warps * gpu.warp
    return min(gpu.block, -(-longest // gpu.warp) * gpu.warp) if longest else 1


def _places(shared: Sequence[Buffer], kernel: Kernel) -> tuple[dict[str, int], int]:
    """Where each of ``shared`` begins, one after the other, and the bytes of all."""
    places, total = dict[str, int](), 0
    for buffer in shared:
        places[buffer.name] = total
        total += -(-_bytes(buffer, kernel) // ALIGNED) * ALIGNED
    return places, total


def _shared_in(body: Stmt) -> list[Buffer]:
    return [s.buffer for s in walk(body) if isinstance(s, Allocate) and s.buffer.scope == "shared"]


@dataclass(frozen=True, slots=True)
class _Used:
    """What a launch takes of the scope around it."""

    variables: tuple[str, ...]
    buffers: tuple[str, ...]


def _used(grid: _Grid, scope: Scope) -> _Used:
    touched = {name for stmt in walk(grid.body) for name in buffers_touched(stmt)}
    buffers = [name for name in scope.buffers if name in touched]
    exprs = [e for stmt in walk(grid.body) for e in expressions(stmt)]
    exprs += [s for b in buffers for s in scope.buffers[b][1].strides]
    exprs += [*grid.lows, *grid.conditions]
    mentioned = {n.name for e in exprs for n in walk_expr(e) if isinstance(n, Var)}
    return _Used(tuple(v for v in scope.variables if v in mentioned), tuple(buffers))


# ---- text ---------------------------------------------------------------------------------------


def _head(start: str, arguments: Sequence[str]) -> Iterator[str]:
    line = f"{start}({', '.join(arguments)}) {{"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{start}("
    yield ",\n".join(f"    {argument}" for argument in arguments) + ") {"


def _wrapped(pad: str, parts: Sequence[str]) -> Iterator[str]:
    line = pad
    for number, part in enumerate(parts):
        text = part + (", " if number + 1 < len(parts) else ");")
        if len(line) + len(text.rstrip()) > _WIDTH and line.strip():
            yield line.rstrip()
            line = pad + "    "
        line += text
    yield line
