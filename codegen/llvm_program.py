"""Host program → LLVM IR: the entry point that launches the kernels over one arena.

``entry`` and ``entry_arena`` are as ``codegen/program.py`` says. Kernels are external symbols, and
so are the functions of ``llvm_runtime``: the text links with any objects that define them, in this
process or ahead of time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.codegen.kernel_work import kernel_barriers, kernel_work
from weft.codegen.loop_ir import Kernel
from weft.codegen.program import Arena, Buffer, Constant, Input, Launch, Output, Place, Program
from weft.errors import InternalError
from weft.frontend.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Select,
    Var,
    apply,
    literal,
    substitute,
    walk,
)

# Operations (of ``kernel_work``) that are worth a thread: some 5 µs, where sharing them with a
# worker that still spins costs 1 µs or 2; waking one up that sleeps costs some 40 µs.
GRAIN = 1 << 15
ASLEEP = 8  # times as many for a worker that sleeps
# Threads come to a barrier at different times: 0.6 µs, of which 0.1 µs is the barrier itself.
BARRIERS_PER_GRAIN = 8


@dataclass(frozen=True, slots=True)
class KernelSymbols:
    """What a compiled kernel offers: ``function(buffers, params, status, scratch, begin, end)``,
    ``extent(params)`` (trip count of the loop that is spread) and its need of scratch memory."""

    function: str
    extent: str
    scratch: Expr = field(default_factory=lambda: literal(0))  # bytes a thread, over its parameters
    shared: Expr = field(default_factory=lambda: literal(0))  # bytes for all threads together


def emit_program(
    program: Program, symbols: Mapping[str, KernelSymbols], entry: str, *, grain: int = GRAIN
) -> str:
    """The module that defines ``entry`` and ``entry_arena`` for ``program``.

    ``grain``: how many operations of a kernel are worth a thread.
    """
    used = [symbols[kernel.name] for kernel in program.kernels]
    lines = [
        f"; host program {_comment(program.name)}",
        "declare i32 @weft_acquire(i32)",
        "declare void @weft_release(i32)",
        "declare i32 @weft_team(i32, i32)",
        "declare i32 @weft_launch(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)",
        *(
            f"declare void {_symbol(name)}(ptr, ptr, ptr, ptr, i64, i64)"
            for name in dict.fromkeys(s.function for s in used)
        ),
        *(f"declare i64 {_symbol(name)}(ptr)" for name in dict.fromkeys(s.extent for s in used)),
    ]
    lines += _entry(program, symbols, entry, grain) + _arena(program, symbols, entry)
    return "\n".join(lines) + "\n"


def _symbol(name: str) -> str:
    """A global in LLVM's quotes, which allow any name."""
    escaped = re.sub(rb"[^A-Za-z0-9._$]", lambda m: b"\\%02X" % m[0][0], name.encode())
    return f'@"{escaped.decode()}"'


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


def scratch_stride(program: Program, symbols: Mapping[str, KernelSymbols]) -> Expr:
    """Bytes of scratch memory for one thread: the largest need of any launch, in cache lines."""
    return _largest(program, {name: s.scratch for name, s in symbols.items()})


def shared_scratch(program: Program, symbols: Mapping[str, KernelSymbols]) -> Expr:
    """Bytes of scratch memory for all threads together, likewise."""
    return _largest(program, {name: s.shared for name, s in symbols.items()})


def _largest(program: Program, bytes_: Mapping[str, Expr]) -> Expr:
    names = {kernel.name: kernel.parameters for kernel in program.kernels}
    needs: list[Expr] = []
    for step in program.steps:
        need = bytes_[step.kernel]
        if step.parameters is not None:
            need = substitute(need, dict(zip(names[step.kernel], step.parameters, strict=True)))
        needs.append(need)
    largest: Expr = literal(0)
    for need in dict.fromkeys(needs):
        largest = apply("max", largest, need)
    return _round_up(largest)


def _round_up(size: Expr) -> Expr:
    return (size + 63) // 64 * 64


class _Function:
    """Lines of one function; size expressions become values once each."""

    def __init__(self, parameters: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.parameters: dict[str, str] = {}
        self.known: dict[int, tuple[Expr, str]] = {}  # by identity: structure may be deep
        for number, name in enumerate(parameters):
            at = self.value(f"getelementptr i64, ptr %parameters, i64 {number}")
            self.parameters[name] = self.value(f"load i64, ptr {at}, align 8")

    def value(self, instruction: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def size(self, expr: Expr) -> str:
        """The i64 (or i1) operand that holds ``expr``."""
        for node in walk(expr):
            if id(node) not in self.known:
                self.known[id(node)] = (node, self._node(node))
        return self.known[id(expr)][1]

    def _node(self, node: Expr) -> str:
        operands = [self.known[id(child)][1] for child in node.children]
        match node:
            case Var(name) if name in self.parameters:
                return self.parameters[name]
            case Literal(bool(value)):
                return "true" if value else "false"
            case Literal(value):
                return str(int(value))
            case Select():
                c, a, b = operands
                return self.value(f"select i1 {c}, i64 {a}, i64 {b}")
            case Apply(op) if op in _PLAIN:
                return self.value(f"{_PLAIN[op]} i64 {operands[0]}, {operands[1]}")
            case Apply(op, (left, _)) if op in _LOGIC:
                width = "i1" if left.dtype.kind == "bool" else "i64"
                return self.value(f"{op} {width} {operands[0]}, {operands[1]}")
            case Apply(op) if op in _COMPARE:
                return self.value(f"icmp {_COMPARE[op]} i64 {operands[0]}, {operands[1]}")
            case Apply("neg"):
                return self.value(f"sub i64 0, {operands[0]}")
            case Apply("not"):
                return self.value(f"xor i1 {operands[0]}, true")
            case Apply("min" | "max" as op):
                verdict = self.value(
                    f"icmp {'slt' if op == 'min' else 'sgt'} i64 {operands[0]}, {operands[1]}"
                )
                return self.value(f"select i1 {verdict}, i64 {operands[0]}, i64 {operands[1]}")
            case Apply("floordiv" | "mod" as op):
                return self._floor(op, *operands)
        raise InternalError(
            "WEFT-E0560", f"{type(node).__name__} {getattr(node, 'op', '')} in a size"
        )

    def _floor(self, op: str, a: str, b: str) -> str:
        """Floor division and modulo that never trap: by zero both are 0."""
        zero = self.value(f"icmp eq i64 {b}, 0")
        minus = self.value(f"icmp eq i64 {b}, -1")
        either = self.value(f"or i1 {zero}, {minus}")
        safe = self.value(f"select i1 {either}, i64 1, i64 {b}")
        quotient = self.value(f"sdiv i64 {a}, {safe}")
        remainder = self.value(f"srem i64 {a}, {safe}")
        signs = self.value(f"xor i64 {remainder}, {safe}")
        opposite = self.value(f"icmp slt i64 {signs}, 0")
        inexact = self.value(f"icmp ne i64 {remainder}, 0")
        below = self.value(f"and i1 {opposite}, {inexact}")
        if op == "mod":
            lifted = self.value(f"add i64 {remainder}, {safe}")
            return self.value(f"select i1 {below}, i64 {lifted}, i64 {remainder}")
        lowered = self.value(f"sub i64 {quotient}, 1")
        floored = self.value(f"select i1 {below}, i64 {lowered}, i64 {quotient}")
        negated = self.value(f"sub i64 0, {a}")
        exact = self.value(f"select i1 {minus}, i64 {negated}, i64 {floored}")
        return self.value(f"select i1 {zero}, i64 0, i64 {exact}")


_PLAIN = {"add": "add", "sub": "sub", "mul": "mul"}
_LOGIC = frozenset({"and", "or", "xor"})
_COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def _entry(
    program: Program, symbols: Mapping[str, KernelSymbols], entry: str, grain: int
) -> list[str]:
    function = _Function(program.parameters)
    buffers = {b.name: b for b in program.buffers}
    kernels = {kernel.name: kernel.parameters for kernel in program.kernels}
    worth = {k.name: _threads_worth(k, grain) for k in program.kernels}
    constants = {b.place: number for number, b in enumerate(program.constants)}
    arguments = max((len(step.arguments) for step in program.steps), default=0)
    counts = [len(kernel.parameters) for kernel in program.kernels]
    table = function.value(f"alloca ptr, i64 {arguments + 1}, align 16")
    sizes = function.value(f"alloca i64, i64 {max([1, *counts])}, align 16")
    team = function.value("call i32 @weft_acquire(i32 %threads)")
    stride = function.size(scratch_stride(program, symbols))
    end = function.size(_round_up(program.arena))
    shared = function.value(f"getelementptr i8, ptr %arena, i64 {end}")
    size = function.size(shared_scratch(program, symbols))
    scratch = function.value(f"getelementptr i8, ptr {shared}, i64 {size}")
    for number, step in enumerate(program.steps):
        pointers = [_pointer(function, buffers[name], constants) for name in step.arguments]
        for position, pointer in enumerate([*pointers, shared]):
            slot = function.value(f"getelementptr ptr, ptr {table}, i64 {position}")
            function.do(f"store ptr {pointer}, ptr {slot}, align 8")
        given = _parameters(function, program, kernels[step.kernel], step, sizes)
        kernel = symbols[step.kernel]
        few = _team(function, worth[step.kernel], kernels[step.kernel], step, team)
        extent = function.value(f"call i64 {_symbol(kernel.extent)}(ptr {given})")
        code = function.value(
            f"call i32 @weft_launch(ptr {_symbol(kernel.function)}, ptr {table}, ptr {given},"
            f" ptr %status, ptr {scratch}, i64 {stride}, i64 {extent}, i32 {few})"
        )
        failed = function.value(f"icmp ne i32 {code}, 0")
        function.do(f"br i1 {failed}, label %fail{number}, label %step{number + 1}")
        function.lines += [
            f"fail{number}:",
            f"  store i64 {number}, ptr %status, align 8",
            f"  call void @weft_release(i32 {team})",
            f"  ret i32 {code}",
            f"step{number + 1}:",
        ]
    return [
        f"define i32 {_symbol(entry)}(ptr %inputs, ptr %outputs, ptr %constants, ptr %arena,"
        " ptr %parameters, ptr %status, i32 %threads) {",
        *function.lines,
        f"  call void @weft_release(i32 {team})",
        "  ret i32 0",
        "}",
    ]


def _threads_worth(kernel: Kernel, grain: int) -> tuple[Expr, Expr]:
    """How many threads the work of ``kernel`` is worth, if they are awake and if they sleep; 0 and
    less count as one.

    On n threads it takes less time by (1 - 1/n) of what they share: on as many as these, that is
    no less than what it costs to start them and to meet.
    """
    shared, meetings = kernel_work(kernel), kernel_barriers(kernel) * (grain // BARRIERS_PER_GRAIN)
    awake, asleep = (shared // (meetings + start) for start in (grain, grain * ASLEEP))
    return awake, asleep


def _team(
    function: _Function, worth: tuple[Expr, Expr], names: Sequence[str], step: Launch, team: str
) -> str:
    """How many of the team's threads run the launch, as an i32: one at least."""
    found = []
    for threads in worth:
        if step.parameters is not None:
            threads = substitute(threads, dict(zip(names, step.parameters, strict=True)))
        found.append(_clamped(function, apply("max", threads, literal(1)), team))
    if found[0] == "1":
        return "1"
    return function.value(f"call i32 @weft_team(i32 {found[0]}, i32 {found[1]})")


def _clamped(function: _Function, threads: Expr, team: str) -> str:
    """``threads``, or all of the team if that is fewer, as an i32."""
    if threads == literal(1):
        return "1"
    wide = function.value(f"sext i32 {team} to i64")
    count = function.size(threads)
    fewer = function.value(f"icmp slt i64 {count}, {wide}")
    chosen = function.value(f"select i1 {fewer}, i64 {count}, i64 {wide}")
    return function.value(f"trunc i64 {chosen} to i32")


def _pointer(function: _Function, buffer: Buffer, constants: Mapping[Place, int]) -> str:
    match buffer.place:
        case Arena(offset):
            return function.value(f"getelementptr i8, ptr %arena, i64 {function.size(offset)}")
        case Input(number):
            source = "%inputs"
        case Output(number):
            source = "%outputs"
        case Constant():
            source, number = "%constants", constants[buffer.place]
    slot = function.value(f"getelementptr ptr, ptr {source}, i64 {number}")
    return function.value(f"load ptr, ptr {slot}, align 8")


def _parameters(
    function: _Function, program: Program, names: Sequence[str], step: Launch, sizes: str
) -> str:
    """A pointer to the kernel's parameters: the program's own where they are the same."""
    values = tuple(map(Var, names)) if step.parameters is None else step.parameters
    if values == tuple(Var(name) for name in program.parameters[: len(values)]):
        return "%parameters"
    for position, value in enumerate(values):
        slot = function.value(f"getelementptr i64, ptr {sizes}, i64 {position}")
        function.do(f"store i64 {function.size(value)}, ptr {slot}, align 8")
    return sizes


def _arena(program: Program, symbols: Mapping[str, KernelSymbols], entry: str) -> list[str]:
    function = _Function(program.parameters)
    arena = function.size(_round_up(program.arena))
    stride = function.size(scratch_stride(program, symbols))
    some = function.value("icmp sgt i32 %threads, 1")
    team = function.value(f"select i1 {some}, i32 %threads, i32 1")
    wide = function.value(f"sext i32 {team} to i64")
    scratch = function.value(f"mul i64 {stride}, {wide}")
    shared = function.size(shared_scratch(program, symbols))
    fixed = function.value(f"add i64 {arena}, {shared}")
    total = function.value(f"add i64 {fixed}, {scratch}")
    return [
        f"define i64 {_symbol(entry + '_arena')}(ptr %parameters, i32 %threads) {{",
        *function.lines,
        f"  ret i64 {total}",
        "}",
    ]
