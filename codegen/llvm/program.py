"""Host program → LLVM IR: the entry point that launches the kernels over one arena.

``entry``, ``entry_arena`` and ``entry_threads`` are specified in ``weft/ir/program.py``. Kernels
and the functions of ``runtime`` are external symbols: the module links with any objects that define
them, in this process or ahead of time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.codegen.llvm.sizes import CHECKED_DECLARATIONS, CheckedSizeFunction, SizeFunction
from weft.codegen.llvm.teams import Teams, emit_teams, emit_worth
from weft.ir.machine import TYPICAL, Machine
from weft.ir.program import (
    ALIGNMENT,
    Aligned,
    Arena,
    Buffer,
    Constant,
    Input,
    Launch,
    Output,
    Place,
    Program,
)
from weft.ir.scalar_expr import Expr, Var, apply, literal, substitute
from weft.ir.size_arithmetic import LIMIT


@dataclass(frozen=True, slots=True)
class KernelSymbols:
    """The symbols of a compiled kernel, ``function(buffers, params, status, scratch, begin, end)``
    and ``extent(params)`` (the trip count of the worksharing loop), and its need of scratch memory.
    """

    function: str
    extent: str
    scratch: Expr = field(default_factory=lambda: literal(0))  # bytes a thread, over its parameters
    shared: Expr = field(default_factory=lambda: literal(0))  # bytes for all threads together


def emit_program(
    program: Program,
    symbols: Mapping[str, KernelSymbols],
    entry: str,
    machine: Machine = TYPICAL,
    *,
    grain: int | None = None,
    strict: bool = False,
    quick: bool = False,
) -> str:
    """The module that defines ``entry``, ``entry_arena`` and ``entry_threads`` for ``program``.

    ``machine``: what runs it. ``grain``: operations of a kernel that are worth a thread, if not
    those of ``machine``. ``strict``: denormals as in IEEE 754;
    otherwise they are flushed to zero (``float_mode``). ``quick``: in less code.
    """
    used = [symbols[kernel.name] for kernel in program.kernels]
    lines = [
        f"; host program {_comment(program.name)}",
        *CHECKED_DECLARATIONS,
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare i32 @weft_acquire(i32)",
        "declare void @weft_release(i32)",
        "declare i64 @weft_enter(i32)",
        "declare void @weft_leave(i64)",
        "declare i32 @weft_team(i32, i32)",
        "declare i32 @weft_launch(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)",
        *(
            f"declare void {_symbol(name)}(ptr, ptr, ptr, ptr, i64, i64)"
            for name in dict.fromkeys(s.function for s in used)
        ),
        *(f"declare i64 {_symbol(name)}(ptr)" for name in dict.fromkeys(s.extent for s in used)),
    ]
    worth = _symbol(f"{entry}_worth")
    teams = {
        kernel.name: emit_teams(
            kernel, _symbol(f"{entry}_team{number}"), worth, machine, grain, quick=quick
        )
        for number, kernel in enumerate(program.kernels)
    }
    if any(each.function for each in teams.values()):
        lines += emit_worth(worth, machine, grain)
    for each in teams.values():
        lines += each.lines
    lines += _entry(entry, strict) + _steps(program, symbols, entry, teams)
    lines += _arena(program, symbols, entry)
    lines += _threads(program, entry, teams)
    return "\n".join(lines) + "\n"


def _symbol(name: str) -> str:
    """A global in LLVM's quotes, which allow any name."""
    escaped = re.sub(rb"[^A-Za-z0-9._$]", lambda m: b"\\%02X" % m[0][0], name.encode())
    return f'@"{escaped.decode()}"'


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


def scratch_stride(program: Program, symbols: Mapping[str, KernelSymbols]) -> Expr:
    """Bytes of scratch memory for one thread, rounded up to cache lines: the largest need of any
    launch."""
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
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


_PARAMETERS = (
    "ptr %inputs, ptr %outputs, ptr %constants, ptr %arena, ptr %parameters, ptr %status,"
    " i32 %threads"
)


def _entry(entry: str, strict: bool) -> list[str]:
    """The steps in the floating-point mode of compiled code; the caller's is restored on every
    exit."""
    return [
        f"define i32 {_symbol(entry)}({_PARAMETERS}) {{",
        f"  %caller = call i64 @weft_enter(i32 {int(strict)})",
        f"  %code = call i32 {_symbol(entry + '_steps')}({_PARAMETERS})",
        "  call void @weft_leave(i64 %caller)",
        "  ret i32 %code",
        "}",
    ]


def _steps(
    program: Program, symbols: Mapping[str, KernelSymbols], entry: str, teams: Mapping[str, Teams]
) -> list[str]:
    function = SizeFunction(program.parameters)
    buffers = {b.name: b for b in program.buffers}
    kernels = {kernel.name: kernel.parameters for kernel in program.kernels}
    constants = {b.place: number for number, b in enumerate(program.constants)}
    arguments = max((len(step.arguments) for step in program.steps), default=0)
    table = function.value(f"alloca ptr, i64 {arguments + 1}, align 16")
    sizes = _sizes_table(function, program)
    found = function.value("getelementptr i64, ptr %status, i64 1")
    function.do(f"store i64 0, ptr {found}, align 8")  # of an earlier call
    team = function.value("call i32 @weft_acquire(i32 %threads)")
    many = function.value(f"icmp sgt i32 {team}, 1")
    stride = function.size(scratch_stride(program, symbols))
    end = function.size(_round_up(program.arena))
    shared = function.value(f"getelementptr i8, ptr %arena, i64 {end}")
    size = function.size(shared_scratch(program, symbols))
    scratch = function.value(f"getelementptr i8, ptr {shared}, i64 {size}")
    aligned: dict[str, str] = {}
    block = "begin"
    for buffer in program.buffers:
        if isinstance(buffer.place, Aligned):
            aligned[buffer.name], block = _aligned(function, buffer, buffer.place, block)
    function.do("br label %step0")
    function.lines.append("step0:")
    for number, step in enumerate(program.steps):
        pointers = [
            aligned.get(name) or _pointer(function, buffers[name], constants)
            for name in step.arguments
        ]
        for position, pointer in enumerate([*pointers, shared]):
            slot = function.value(f"getelementptr ptr, ptr {table}, i64 {position}")
            function.do(f"store ptr {pointer}, ptr {slot}, align 8")
        given = _parameters(function, program, kernels[step.kernel], step, sizes)
        kernel = symbols[step.kernel]
        few = _team(function, teams[step.kernel], number, given, (team, many))
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
        f"define internal i32 {_symbol(entry + '_steps')}({_PARAMETERS}) {{",
        "begin:",
        *function.lines,
        f"  call void @weft_release(i32 {team})",
        "  ret i32 0",
        "}",
    ]


def _sizes_table(function: SizeFunction, program: Program) -> str:
    """Space for the parameters of any kernel."""
    counts = [len(kernel.parameters) for kernel in program.kernels]
    return function.value(f"alloca i64, i64 {max([1, *counts])}, align 16")


def _team(
    function: SizeFunction, teams: Teams, number: int, given: str, many: tuple[str, str]
) -> str:
    """The number of threads that run step ``number``, an i32 >= 1."""
    if not teams.function:
        return "1"
    team, several = many
    function.do(f"br i1 {several}, label %ask{number}, label %run{number}")
    function.lines.append(f"ask{number}:")
    pair = function.value(f"call {{i32, i32}} {teams.function}(ptr {given}, i32 {team})")
    awake, asleep = (function.value(f"extractvalue {{i32, i32}} {pair}, {k}") for k in (0, 1))
    asked = function.value(f"call i32 @weft_team(i32 {awake}, i32 {asleep})")
    function.do(f"br label %run{number}")
    function.lines.append(f"run{number}:")
    return function.value(f"phi i32 [ 1, %step{number} ], [ {asked}, %ask{number} ]")


def _threads(program: Program, entry: str, teams: Mapping[str, Teams]) -> list[str]:
    """The function that returns the greatest number of threads of any step."""
    function = SizeFunction(program.parameters)
    kernels = {kernel.name: kernel.parameters for kernel in program.kernels}
    sizes = _sizes_table(function, program)
    most = "1"
    for step in program.steps:
        if teams[step.kernel].function:
            given = _parameters(function, program, kernels[step.kernel], step, sizes)
            call = f"call {{i32, i32}} {teams[step.kernel].function}(ptr {given}, i32 %threads)"
            awake = function.value(f"extractvalue {{i32, i32}} {function.value(call)}, 0")
            more = function.value(f"icmp sgt i32 {awake}, {most}")
            most = function.value(f"select i1 {more}, i32 {awake}, i32 {most}")
    return [
        f"define i32 {_symbol(entry + '_threads')}(ptr %parameters, i32 %threads) {{",
        *function.lines,
        f"  ret i32 {most}",
        "}",
    ]


def _aligned(
    function: SizeFunction, buffer: Buffer, place: Aligned, before: str
) -> tuple[str, str]:
    """(pointer, block): the input aligned to a cache line, in place or copied, and the block that
    ends with it, as ``before`` is the block before."""
    given = _pointer(function, replace(buffer, place=Input(place.index)), {})
    copy = _pointer(function, replace(buffer, place=Arena(place.offset)), {})
    size: Expr = literal(buffer.dtype.itemsize)
    for extent in buffer.shape:
        size = size * extent
    bytes_ = function.size(size)
    address = function.value(f"ptrtoint ptr {given} to i64")
    rest = function.value(f"and i64 {address}, 63")
    within = function.value(f"icmp ne i64 {rest}, 0")
    label = f"aligned{place.index}"
    function.do(f"br i1 {within}, label %copy_{label}, label %{label}")
    function.lines.append(f"copy_{label}:")
    function.do(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {copy}, ptr {given}, i64 {bytes_}, i1 false)"
    )
    function.do(f"br label %{label}")
    function.lines.append(f"{label}:")
    return function.value(f"phi ptr [ {given}, %{before} ], [ {copy}, %copy_{label} ]"), label


def _pointer(function: SizeFunction, buffer: Buffer, constants: Mapping[Place, int]) -> str:
    match buffer.place:
        case Arena(offset):
            return function.value(f"getelementptr i8, ptr %arena, i64 {function.size(offset)}")
        case Input(number) | Aligned(number):
            source = "%inputs"
        case Output(number):
            source = "%outputs"
        case Constant():
            source, number = "%constants", constants[buffer.place]
    slot = function.value(f"getelementptr ptr, ptr {source}, i64 {number}")
    return function.value(f"load ptr, ptr {slot}, align 8")


def _parameters(
    function: SizeFunction, program: Program, names: Sequence[str], step: Launch, sizes: str
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
    function = CheckedSizeFunction(program.parameters)
    arena = function.size(_round_up(program.arena))
    stride = function.size(scratch_stride(program, symbols))
    some = function.value("icmp sgt i32 %threads, 1")
    team = function.value(f"select i1 {some}, i32 %threads, i32 1")
    wide = function.value(f"sext i32 {team} to i64")
    scratch = function.checked("mul", stride, wide)
    shared = function.size(shared_scratch(program, symbols))
    fixed = function.checked("add", arena, shared)
    total = function.checked("add", fixed, scratch)
    huge = function.value(f"icmp sgt i64 {total}, {LIMIT}")
    none = function.value(f"or i1 {function.overflow}, {huge}")
    known = function.value(f"select i1 {none}, i64 -1, i64 {total}")
    return [
        f"define i64 {_symbol(entry + '_arena')}(ptr %parameters, i32 %threads) {{",
        *function.lines,
        f"  ret i64 {known}",
        "}",
    ]
