"""Loop IR as readable C99, one function a kernel.

    void kernel_f(int64_t n, double alpha, const double A[restrict n][n], double B[restrict n][n])

* Arguments: the kernel's parameters as ``int64_t``, then its buffers. A read-only buffer without
  dimensions and aliases is passed by value; all others are pointers, ``restrict`` unless they alias
  something, to arrays of their shape where they are row-major and flat otherwise.
* A kernel that checks indices, or needs more memory than a stack has, returns an ``int``: 0, the
  code of the check that failed (1 or more; ``detail`` has its two numbers) or -1 for want of
  memory. Others return nothing.
* Integers wrap as in loop IR under ``-fwrapv``; floats are IEEE's unless ``-ffast-math`` says not.
* Parallel loops carry OpenMP pragmas. Without ``-fopenmp`` the function runs on one thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from weft.codegen.c_expressions import (
    ATOM,
    MATH,
    UNARY,
    Expressions,
    Scope,
    Text,
    c_name,
    c_type,
    inside,
)
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplify_kernel
from weft.ir.dtypes import DType
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Check,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
    walk,
)
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, literal, substitute
from weft.ir.scalar_simplify import simplify

_WIDTH = 100  # columns
_STACK = 1 << 16  # bytes; larger arrays come from malloc
_HEADERS = (
    ("stdbool.h", r"\b(bool|true|false)\b"),
    ("stdint.h", r"int\d+_t|UINT64_C|INT64_C"),
    ("math.h", rf"\b({'|'.join(sorted(MATH))})\(|INFINITY|NAN"),
    ("stdlib.h", r"\baligned_alloc\("),
    ("string.h", r"\bmemcpy\("),
)
_BUILTIN = """#ifndef __GNUC__
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define __builtin_prefetch(pointer, write) ((void)0)
#endif
"""


def print_c(kernel: Kernel) -> str:
    """A C99 source file with ``kernel`` as its one function that is not ``static``.

    Raises ``UnsupportedError``: WEFT-E0504 for dtypes that C lacks, WEFT-E0505 for expressions that
    would be too long written out.
    """
    function = CFunction(kernel)
    lines = "\n".join(function.lines())
    helpers = function.expressions.helpers
    code = "\n\n".join([*(helpers[name] for name in sorted(helpers)), lines])
    includes = [f"#include <{header}>" for header, use in _HEADERS if re.search(use, code)]
    builtin = [_BUILTIN] if "__builtin_" in code else []
    return "\n".join([*includes, "", *builtin, code, ""])


@dataclass(slots=True)
class CFunction:
    """``kernel`` as a function; ``print_cuda`` says what is different on a GPU."""

    kernel: Kernel
    expressions: Expressions = field(init=False)
    scope: Scope = field(init=False)
    allocated: list[Buffer] = field(init=False)
    loops: set[str] = field(init=False)  # their variables

    def __post_init__(self) -> None:
        self.expressions = Expressions(self._element)
        inner = list(walk(self.kernel.body))
        self.allocated = [stmt.buffer for stmt in inner if isinstance(stmt, Allocate)]
        self.loops = {stmt.var for stmt in inner if isinstance(stmt, For)}
        scope = Scope({}, {})
        for name in self.kernel.parameters:
            scope = scope.variable(name)
        for buffer in (*self.kernel.buffers, *self._shared()):
            scope = scope.buffer(buffer)
        self.scope = scope

    def _shared(self) -> list[Buffer]:
        """What the threads of a team have in common is declared before they part."""
        return [buffer for buffer in self.allocated if buffer.scope == "shared"]

    # ---- the function -------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        scope, kernel = self.scope, self.kernel
        body = list(self._body(scope))
        checks = any(isinstance(s, Check) for s in walk(kernel.body))
        fails = checks or any(map(_on_heap, self.allocated))
        arguments = [f"int64_t {scope.variables[name]}" for name in kernel.parameters]
        arguments += [self._argument(buffer) for buffer in kernel.buffers]
        arguments += ["int64_t detail[2]"] if checks else []
        for code, message in enumerate(kernel.messages if checks else (), 1):
            yield f"// {code}: {' '.join(message.split())}"
        name = re.sub(r"\W", "_", kernel.name, flags=re.ASCII)
        head = f"{'int' if fails else 'void'} kernel_{name}({', '.join(arguments) or 'void'}) {{"
        if len(head) <= _WIDTH:
            yield head
        else:
            yield head[: head.index("(") + 1]
            yield ",\n".join(f"    {argument}" for argument in arguments) + ") {"
        for buffer in kernel.buffers:
            if buffer.alignment > buffer.dtype.itemsize and not _by_value(buffer):
                pointer, _ = scope.buffers[buffer.name]
                yield f"  {pointer} = __builtin_assume_aligned({pointer}, {buffer.alignment});"
        yield from ["  int status = 0;"] if fails else []
        yield from body
        yield from ["  return status;"] if fails else []
        yield "}"

    def _body(self, scope: Scope) -> Iterator[str]:
        depth = 1
        for buffer in self._shared():
            yield from self._declared(buffer, scope, "  " * depth)
            depth += _on_heap(buffer)
        if self.kernel.region:
            pad = "  " * depth
            yield f"{pad}#pragma omp parallel"
            yield f"{pad}{{"
            yield from self._lines(self.kernel.body, scope, depth + 1)
            yield f"{pad}}}"
        else:
            yield from self._lines(self.kernel.body, scope, depth)
        for buffer in reversed(self._shared()):
            depth -= _on_heap(buffer)
            yield from self._freed(buffer, scope, "  " * depth)

    def _argument(self, buffer: Buffer) -> str:
        kind = c_type(buffer.dtype)
        name, _ = self.scope.buffers[buffer.name]
        if _by_value(buffer):
            return f"{kind} {name}"
        kind = kind if buffer.writable else f"const {kind}"
        aliased = buffer.aliases or any(buffer.name in b.aliases for b in self.kernel.buffers)
        restrict = "" if aliased else "restrict"
        if not _row_major(buffer) or not buffer.shape:
            return f"{kind} *{restrict}{' ' if restrict else ''}{name}"
        sizes = [self._size(s, self.scope) for s in buffer.shape]
        first = f"[{' '.join(filter(None, (restrict, sizes[0])))}]"
        return f"{kind} {name}{first}{''.join(f'[{s}]' for s in sizes[1:])}"

    def _size(self, size: Expr, scope: Scope) -> str:
        """One dimension of a type, where C has no size of 0."""
        if isinstance(size, Literal):
            return str(max(1, int(size.value)))
        return self._text(size, scope)

    # ---- elements -----------------------------------------------------------------------------

    def _element(self, name: str, indices: list[Text], scope: Scope) -> Text:
        text, buffer = scope.buffers[name]
        if not indices:
            is_value = _by_value(buffer) if buffer.scope == "global" else not _on_heap(buffer)
            return (text, ATOM) if is_value else (f"*{text}", UNARY)
        if _row_major(buffer):
            return f"{text}{''.join(f'[{index}]' for index, _ in indices)}", ATOM
        return self._flat(text, buffer, indices, scope), ATOM

    def _flat(self, text: str, buffer: Buffer, indices: list[Text], scope: Scope) -> str:
        """An element by its place from the first."""
        terms = []
        for index, stride in zip(indices, buffer.strides, strict=True):
            step = self._text(stride, scope, 13)
            if step != "0":
                terms.append(inside(index, 12) if step == "1" else f"{inside(index, 13)} * {step}")
        return f"{text}[{' + '.join(terms) or '0'}]"

    def _text(self, expr: Expr, scope: Scope, level: int = 0) -> str:
        return self.expressions.text(expr, scope, level)

    def _type(self, dtype: DType) -> str:
        """The type of a value."""
        return c_type(dtype)

    def _stored(self, dtype: DType, text: str) -> str:
        """``text``, a value, as it lies in memory."""
        return text

    def _target(self, name: str, indices: tuple[Expr, ...], scope: Scope) -> str:
        return self.expressions.place(Load(name, indices, scope.buffers[name][1].dtype), scope)

    # ---- statements ---------------------------------------------------------------------------

    def _lines(self, stmt: Stmt, scope: Scope, depth: int, spread: bool = True) -> Iterator[str]:
        """``spread``: no loop around is shared out among threads yet."""
        pad = "  " * depth
        while isinstance(stmt, Let):
            value = self._text(stmt.value, scope)
            scope = scope.variable(stmt.name)
            kind = self._type(stmt.value.dtype)
            yield f"{pad}const {kind} {scope.variables[stmt.name]} = {value};"
            stmt = stmt.body
        match stmt:
            case Block(stmts):
                for part in stmts:
                    own = isinstance(part, Let | Allocate) and len(stmts) > 1
                    yield from [f"{pad}{{"] if own else []
                    yield from self._lines(part, scope, depth + own, spread)
                    yield from [f"{pad}}}"] if own else []
            case For():
                yield from self._for(stmt, scope, depth, spread)
            case While(condition, body):
                yield f"{pad}while ({self._text(condition, scope)}) {{"
                yield from self._lines(body, scope, depth + 1, spread)
                yield f"{pad}}}"
            case If(condition, then, otherwise):
                yield f"{pad}if ({self._text(condition, scope)}) {{"
                yield from self._lines(then, scope, depth + 1, spread)
                if otherwise != Block(()):
                    yield f"{pad}}} else {{"
                    yield from self._lines(otherwise, scope, depth + 1, spread)
                yield f"{pad}}}"
            case Single(body):
                yield from [f"{pad}#pragma omp master"] if self.kernel.region else []
                yield f"{pad}{{"
                yield from self._lines(body, scope, depth + 1, False)
                yield f"{pad}}}"
            case Allocate(buffer, body) if buffer.scope != "shared":
                scope = scope.buffer(buffer)
                yield from self._declared(buffer, scope, pad)
                yield from self._lines(body, scope, depth + _on_heap(buffer), spread)
                yield from self._freed(buffer, scope, pad)
            case Allocate(_, body):
                yield from self._lines(body, scope, depth, spread)
            case _:
                yield from (pad + line for line in self._simple(stmt, scope))

    def _for(self, loop: For, scope: Scope, depth: int, spread: bool) -> Iterator[str]:
        pad = "  " * depth
        low, high = self._text(loop.lower, scope), self._text(loop.upper, scope, 11)
        inner = scope.variable(loop.var, self._short(loop.var))
        var = inner.variables[loop.var]
        step = f"{var}++" if loop.step == 1 else f"{var} += {loop.step}"
        shared = loop.kind == "parallel" and spread
        if shared and self.kernel.region:
            yield f"{pad}#pragma omp for nowait"
        elif shared and self.kernel.body is loop:
            yield f"{pad}#pragma omp parallel for"
        elif loop.kind == "vector" and not any(isinstance(s, Update) for s in walk(loop.body)):
            yield f"{pad}#pragma GCC ivdep"
        elif loop.kind == "unrolled" and (turns := _turns(loop)) > 1:
            yield f"{pad}#pragma GCC unroll {min(turns, 65534)}"
        yield f"{pad}for (int64_t {var} = {low}; {var} < {high}; {step}) {{"
        yield from self._lines(loop.body, inner, depth + 1, spread and not shared)
        yield f"{pad}}}"

    def _short(self, var: str) -> str:
        """``j`` for a ``j_2`` beside a ``j``: loops that do not nest may share a name in C."""
        base = re.sub(r"_\d+$", "", var)
        return base if base in self.loops else var

    def _declared(self, buffer: Buffer, scope: Scope, pad: str) -> Iterator[str]:
        kind, (name, _) = c_type(buffer.dtype), scope.buffers[buffer.name]
        if not buffer.shape:
            yield f"{pad}{kind} {name};"
            return
        sizes = [self._size(s, scope) for s in buffer.shape] if _row_major(buffer) else []
        sizes = sizes or [self._size(extent_of(buffer), scope)]
        if not _on_heap(buffer):
            dims = "".join(f"[{size}]" for size in sizes)
            aligned = f"_Alignas({max(buffer.alignment, buffer.dtype.itemsize)})"
            yield f"{pad}{aligned} {kind} {name}{dims};"
            return
        rest = "".join(f"[{size}]" for size in sizes[1:])
        pointer = f"(*{name}){rest}" if rest else f"*{name}"
        count = " * ".join(f"({size})" for size in sizes)
        size = f"((size_t){count} * sizeof({kind}) + 127) / 64 * 64"
        yield f"{pad}{kind} {pointer} = aligned_alloc(64, {size});"
        yield f"{pad}if ({name} != NULL) {{"

    def _freed(self, buffer: Buffer, scope: Scope, pad: str) -> Iterator[str]:
        if _on_heap(buffer):
            yield f"{pad}  free({scope.buffers[buffer.name][0]});"
            yield f"{pad}}} else {{"
            yield f"{pad}  status = -1;"
            yield f"{pad}}}"

    def _simple(self, stmt: Stmt, scope: Scope) -> Iterator[str]:
        match stmt:
            case Store(buffer, indices, value):
                stored = self._stored(value.dtype, self._text(value, scope))
                yield f"{self._target(buffer, indices, scope)} = {stored};"
            case Update():
                yield from self._update(stmt, scope)
            case Check(condition, code, detail):
                first, second = (self._text(d, scope) for d in detail)
                yield f"if (!{self._text(condition, scope, UNARY)}) {{"
                yield "  #pragma omp critical"
                yield "  if (status == 0) {"
                yield f"    status = {code};"
                yield f"    detail[0] = {first};"
                yield f"    detail[1] = {second};"
                yield "  }"
                yield "}"
            case Prefetch(buffer, indices, write, far):
                place = self._target(buffer, indices, scope)
                yield f"__builtin_prefetch(&{place}, {int(write)}, {2 if far else 3});"
            case Barrier():
                yield from ["#pragma omp barrier"] if self.kernel.region else []
            case Prefetch():
                yield from ()
            case Comment(text):
                yield f"// {' '.join(text.split())}".rstrip("\\")
            case _:
                raise AssertionError(f"{type(stmt).__name__} is not a statement of loop IR")

    def _update(self, stmt: Update, scope: Scope) -> Iterator[str]:
        monoid = stmt.monoid
        old = [Load(name, i, scope.buffers[name][1].dtype) for name, i in stmt.targets]
        values: dict[str, Expr] = {v.name: o for v, o in zip(monoid.left, old, strict=True)}
        values |= {v.name: x for v, x in zip(monoid.right, stmt.values, strict=True)}
        results = [substitute(c, values) for c in monoid.combined]
        if len(results) == 1:
            yield self._accumulated(old[0], results[0], scope)
            return
        yield "{"
        names = []
        for k, result in enumerate(results):
            names.append(c_name(f"new{k}", scope.taken()))
            kind = self._type(result.dtype)
            yield f"  const {kind} {names[-1]} = {self._text(result, scope)};"
        for target, name in zip(old, names, strict=True):
            stored = self._stored(target.dtype, name)
            yield f"  {self.expressions.place(target, scope)} = {stored};"
        yield "}"

    def _accumulated(self, target: Load, result: Expr, scope: Scope) -> str:
        """``x += e`` where the result is ``x + e``."""
        place = self.expressions.place(target, scope)
        symbols = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
        match result:
            case Apply(op, (left, right)) if left == target and op in symbols:
                symbol = symbols[op]
                if op == "add" and isinstance(right, Apply) and right.op == "neg":
                    symbol, right = "-", right.args[0]
                return f"{place} {symbol}= {self._text(right, scope)};"
        return f"{place} = {self._text(result, scope)};"


# ---- buffers ------------------------------------------------------------------------------------


def _by_value(buffer: Buffer) -> bool:
    return not (buffer.shape or buffer.writable or buffer.aliases)


def _row_major(buffer: Buffer) -> bool:
    step: Expr = literal(1)
    for size, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=True):
        if simplify(stride - step) != literal(0):
            return False
        step = step * size
    return True


def extent_of(buffer: Buffer) -> Expr:
    """How many elements from the first to behind the last."""
    total: Expr = literal(1)
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        total = total + (size - 1) * stride
    return simplify(total)


def _on_heap(buffer: Buffer) -> bool:
    extent = extent_of(buffer)
    if not isinstance(extent, Literal):
        return True
    return int(extent.value) * buffer.dtype.itemsize > _STACK


def _turns(loop: For) -> int:
    turns = simplify(loop.upper - loop.lower)
    return -(-int(turns.value) // loop.step) if isinstance(turns, Literal) else 0


# ---- Fix parameters: a kernel for one set of sizes, its bounds and shapes plain numbers.


def fix_parameters(kernel: Kernel, sizes: Mapping[str, int]) -> Kernel:
    """``kernel`` with the parameters in ``sizes`` at these values, simplified.

    kernel f(n)                          kernel f()
      A: float64[n]               →        A: float64[100]
      for i in 0 .. n serial:              for i in 0 .. 100 serial:
    """
    values: dict[str, Expr] = {name: literal(value) for name, value in sizes.items()}

    def allocated(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, allocated)
        if isinstance(stmt, Allocate):
            return replace(stmt, buffer=_fixed(stmt.buffer, values))
        return stmt

    body = allocated(kernel.body)
    for name in kernel.parameters:
        if name in values:
            body = Let(name, values[name], body)
    return simplify_kernel(
        replace(
            kernel,
            parameters=tuple(p for p in kernel.parameters if p not in values),
            buffers=tuple(_fixed(b, values) for b in kernel.buffers),
            body=body,
        )
    )


def _fixed(buffer: Buffer, values: dict[str, Expr]) -> Buffer:
    return replace(
        buffer,
        shape=tuple(simplify(substitute(s, values)) for s in buffer.shape),
        strides=tuple(simplify(substitute(s, values)) for s in buffer.strides),
    )
