"""A program's C interface → LLVM IR: the three functions of ``c_interface``.

The first 64 bytes of a workspace are the status of a call: what its data checks found, as
``kernel`` writes it; then, for the caller, the two numbers of a failed check. The arena follows,
then results that are copied over an input at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.c_interface import Field, Interface
from weft.codegen.llvm.processor import processor_check
from weft.codegen.llvm.sizes import CHECKED_DECLARATIONS, CheckedSizeFunction, SizeFunction
from weft.codegen.llvm.target import LlvmTarget
from weft.ir.program import ALIGNMENT
from weft.ir.scalar_expr import Expr, literal
from weft.ir.size_arithmetic import SizeError, evaluate

MAX_THREADS = 256  # of one call
MAX_SIZE = 1 << 40
STATUS_BYTES = ALIGNMENT  # of the status, at the beginning of a workspace
TOO_LARGE = "the sizes are too large"
UNFIT = "this processor lacks instructions that the code was compiled for"
UNKNOWN = "there is no such status"


def exports(interface: Interface) -> dict[str, str]:
    """Internal name → C name of the functions; internal names differ from all kernels'."""
    names = ("run", "workspace_bytes", "message")
    return {f"weft_c_{name}": f"{interface.name}_{name}" for name in names}


def emit_interface(interface: Interface, target: LlvmTarget) -> str:
    """The module that defines the functions of ``interface``, under the names of ``exports``; its
    program is code for ``target``.

    It is compiled for ``processor.plain(target)``, so that it can report an unsuitable processor.
    """
    return _Emitter(interface).module(target)


class _Emitter:
    """Status -k means ``refusals[k - 1]``, status k ``failures[k - 1]``."""

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        self.refusals: list[str] = []
        self.failures = list(dict.fromkeys(m for step in interface.checks for m in step))
        self.types = {
            group: f"{{ {', '.join(map(_type, fields))} }}"
            for group, fields in (
                ("inputs", interface.inputs),
                ("outputs", interface.outputs),
                ("sizes", interface.sizes),
            )
        }

    def module(self, target: LlvmTarget) -> str:
        functions = [*self.parameters(), *self.run(), *self.workspace_bytes()]
        entry, constants = self.interface.entry, range(self.interface.constants)
        table = ", ".join(f"ptr @weft_constant_{k}" for k in constants)
        lines = [
            f'target triple = "{target.triple}"',
            *processor_check(target, "fits"),
            f'declare i32 @"{entry}"(ptr, ptr, ptr, ptr, ptr, ptr, i32)',
            f'declare i64 @"{entry}_arena"(ptr, i32)',
            f'declare i32 @"{entry}_threads"(ptr, i32)',
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
            "declare i32 @llvm.smin.i32(i32, i32)",
            *CHECKED_DECLARATIONS,
            *(f"@weft_constant_{k} = external hidden constant i8" for k in constants),
            f"@constants = internal constant [{len(constants)} x ptr] [{table}]",
            *functions,
            *self.statuses(),
            *self.message(),
        ]
        return "\n".join(lines) + "\n"

    def given(self, *, arrays: bool) -> str:
        """The structs that a function takes, as parameters."""
        groups = [("sizes", self.interface.sizes)]
        if arrays:
            groups = [
                ("inputs", self.interface.inputs), ("outputs", self.interface.outputs), *groups
            ]  # fmt: skip
        return "".join(f"ptr %{name}, " for name, fields in groups if fields)

    # ---- sizes ----------------------------------------------------------------------------------

    def parameters(self) -> list[str]:
        """``parameters(sizes, parameters)`` fills the table of parameters; 0, or why not."""
        interface = self.interface
        f = CheckedSizeFunction(())
        for number, size in enumerate(interface.sizes):
            at = self.field(f, "sizes", number)
            value = f.parameters[size.label] = f.value(f"load i64, ptr {at}, align 8")
            if size.label not in interface.signed:
                fits = f.value(f"icmp ule i64 {value}, {MAX_SIZE}")
                self.require(f, fits, f"{size.name} is no size: 0 to {MAX_SIZE}")
        for name, equation in interface.derived:
            if name not in f.parameters:
                f.parameters[name] = f.size(equation)
        for array in (*interface.inputs, *interface.outputs):
            self.bound(f, array)
        fits = f.value(f"xor i1 {f.overflow}, true")
        self.require(f, fits, TOO_LARGE)
        for condition, text in interface.guards:
            self.require(f, f.size(condition), f"this was compiled for {text}")
        for number, name in enumerate(interface.parameters):
            at = f.value(f"getelementptr i64, ptr %parameters, i64 {number}")
            f.do(f"store i64 {f.parameters[name]}, ptr {at}, align 8")
        head = "define internal i32 @parameters(ptr %sizes, ptr %parameters) noinline {"
        return [head, *f.lines, "  ret i32 0", "}"]

    def bound(self, f: CheckedSizeFunction, array: Field) -> None:
        """Check that no size of ``array`` is negative and that its size in bytes does not
        overflow."""
        if _known_bytes(array) is not None:
            return
        for size in array.shape:
            good = f.value(f"icmp sge i64 {f.size(size)}, 0")
            self.require(f, good, f"{array.name} would have a negative size")
        f.size(_bytes(array))

    def workspace_bytes(self) -> list[str]:
        f = SizeFunction(())
        self.prepare(f, "i64 0")
        total = self.staged(f, "i64 0")[1]
        head = f"define i64 @weft_c_workspace_bytes({self.given(arrays=False)}i32 %threads) {{"
        return [head, *f.lines, f"  ret i64 {total}", "}"]

    def prepare(self, f: SizeFunction, otherwise: str) -> None:
        """Define the parameters, known to ``f`` from here on, and ``%team``, the number of threads;
        return ``otherwise`` (the status if it is '') for invalid ones or an unsuitable processor.
        """
        self.require(f, f.value("call i1 @fits()"), UNFIT, otherwise)
        count = len(self.interface.parameters)
        f.do(f"%parameters = alloca i64, i64 {count + 1}, align 16")
        if self.interface.sizes:
            some = f.value("icmp ne ptr %sizes, null")
            self.require(f, some, "sizes is NULL", otherwise)
        sizes = "%sizes" if self.interface.sizes else "null"
        f.do(f"%refused = call i32 @parameters(ptr {sizes}, ptr %parameters)")
        f.do("%fit = icmp eq i32 %refused, 0")
        f.do("br i1 %fit, label %sized, label %unfit")
        f.lines += ["unfit:", f"  ret {otherwise or 'i32 %refused'}", "sized:"]
        f.load(self.interface.parameters)
        some = f.value("icmp sgt i32 %threads, 0")
        self.require(f, some, "threads is less than 1", otherwise)
        f.do(f"%most = call i32 @llvm.smin.i32(i32 %threads, i32 {MAX_THREADS})")
        entry = self.interface.entry
        f.do(f'%team = call i32 @"{entry}_threads"(ptr %parameters, i32 %most)')

    def staged(self, f: SizeFunction, otherwise: str) -> tuple[dict[int, str], str]:
        """The offsets in the workspace of results that are copied at the end, and its size in
        bytes; returns as ``prepare`` does on overflow."""
        entry = self.interface.entry
        end = f.value(f'call i64 @"{entry}_arena"(ptr %parameters, i32 %team)')
        self.require(f, f.value(f"icmp sge i64 {end}, 0"), TOO_LARGE, otherwise)
        end = f.value(f"add i64 {end}, {STATUS_BYTES + ALIGNMENT - 1}")
        end = f.value(f"and i64 {end}, -{ALIGNMENT}")
        places: dict[int, str] = {}
        for number, result in enumerate(self.interface.results):
            if result.copied:
                places[number] = end
                own = _bytes(self.interface.inputs[result.index])
                size = f.size((own + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT)
                end = f.value(f"add i64 {end}, {size}")
        return places, end

    # ---- calls ----------------------------------------------------------------------------------

    def run(self) -> list[str]:
        interface = self.interface
        f = SizeFunction(())
        self.prepare(f, "")
        self.aligned(f, "%workspace", "workspace", ALIGNMENT, "false")
        pointers = {g: self.pointers(f, g) for g in ("inputs", "outputs")}
        sizes = [self.field(f, "sizes", k) for k in range(len(interface.sizes))]
        staged, _ = self.staged(f, "")
        inputs = [pointers["inputs"][k] if k >= 0 else sizes[-1 - k] for k in interface.arguments]
        outputs = []
        for number, result in enumerate(interface.results):
            if result.copied:
                at = f"getelementptr i8, ptr %workspace, i64 {staged[number]}"
                outputs.append(f.value(at))
            else:
                group = "inputs" if result.in_place else "outputs"
                outputs.append(pointers[group][result.index])
        tables = [_table(f, inputs), _table(f, outputs)]
        arena = f.value(f"getelementptr i8, ptr %workspace, i64 {STATUS_BYTES}")
        given = f"ptr {tables[0]}, ptr {tables[1]}, ptr @constants, ptr {arena}, ptr %parameters"
        f.do(f'%code = call i32 @"{interface.entry}"({given}, ptr %workspace, i32 %team)')
        f.do("%ok = icmp eq i32 %code, 0")
        f.do("br i1 %ok, label %done, label %failed")
        f.lines += ["failed:", *self.failure(), "done:"]
        for number in staged:
            result = interface.results[number]
            size = f.size(_bytes(interface.inputs[result.index]))
            place = pointers["inputs"][result.index]
            f.do(
                f"call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr {outputs[number]},"
                f" i64 {size}, i1 false)"
            )
        head = f"define i32 @weft_c_run({self.given(arrays=True)}i32 %threads, ptr %workspace) {{"
        return [head, *f.lines, "  ret i32 0", "}"]

    def pointers(self, f: SizeFunction, group: str) -> list[str]:
        """The addresses of the arrays, and of the values, of a struct."""
        fields = self.interface.inputs if group == "inputs" else self.interface.outputs
        if fields:
            self.require(f, f.value(f"icmp ne ptr %{group}, null"), f"{group} is NULL")
        found = []
        for number, each in enumerate(fields):
            at = self.field(f, group, number)
            if not each.by_value:
                at = f.value(f"load ptr, ptr {at}, align 8")
                known = _known_bytes(each)
                empty = "true" if known == 0 else "false"
                if known is None:
                    empty = f.value(f"icmp eq i64 {f.size(_bytes(each))}, 0")
                self.aligned(f, at, f"{group}->{each.name}", each.alignment, empty)
            found.append(at)
        return found

    def aligned(self, f: SizeFunction, at: str, what: str, alignment: int, empty: str) -> None:
        """Check that ``at`` is aligned, unless the array is empty."""
        low = f.value(f"ptrtoint ptr {at} to i64")
        low = f.value(f"and i64 {low}, {alignment - 1}")
        fits = f.value(f"icmp eq i64 {low}, 0")
        some = f.value(f"icmp ne ptr {at}, null")
        both = f.value(f"and i1 {fits}, {some}")
        good = f.value(f"or i1 {both}, {empty}")
        rest = f" or not aligned to {alignment} bytes" if alignment > 1 else ""
        self.require(f, good, f"{what} is NULL{rest}")

    def failure(self) -> list[str]:
        """Return the status of a failed check, and move its two numbers to the front."""
        return [
            "  %step = load i64, ptr %workspace, align 8",
            "  %base.at = getelementptr i64, ptr @bases, i64 %step",
            "  %base = load i64, ptr %base.at, align 8",
            "  %code64 = sext i32 %code to i64",
            "  %sum = add i64 %base, %code64",
            "  %index = sub i64 %sum, 1",
            "  %status.at = getelementptr i32, ptr @codes, i64 %index",
            "  %status = load i32, ptr %status.at, align 4",
            "  %from = getelementptr i64, ptr %workspace, i64 2",
            "  %numbers = load <2 x i64>, ptr %from, align 8",
            "  store <2 x i64> %numbers, ptr %workspace, align 8",
            "  ret i32 %status",
        ]

    def statuses(self) -> list[str]:
        """``codes[bases[step] + code - 1]``: the status of a check of a step's kernel."""
        bases: list[int] = []
        codes: list[int] = []
        for messages in self.interface.checks:
            bases.append(len(codes))
            codes += [self.failures.index(m) + 1 for m in messages]
        return [
            f"@bases = internal constant {_array('i64', bases)}",
            f"@codes = internal constant {_array('i32', codes)}",
        ]

    def field(self, f: SizeFunction, group: str, number: int) -> str:
        struct = self.types[group]
        return f.value(f"getelementptr {struct}, ptr %{group}, i32 0, i32 {number}")

    def require(self, f: SizeFunction, good: str, message: str, otherwise: str = "") -> None:
        """Unless ``good``, return the status of ``message``, or ``otherwise``."""
        if not otherwise:
            if message not in self.refusals:
                self.refusals.append(message)
            otherwise = f"i32 {-1 - self.refusals.index(message)}"
        f.count += 1
        label = f"{f.count}"
        f.do(f"br i1 {good}, label %right{label}, label %wrong{label}")
        f.lines += [f"wrong{label}:", f"  ret {otherwise}", f"right{label}:"]

    def message(self) -> list[str]:
        texts = [*reversed(self.refusals), "done", *self.failures, UNKNOWN]
        lines = []
        for number, text in enumerate(texts):
            data = text.replace("\0", "?").encode(errors="replace") + b"\0"
            shown = "".join(f"\\{byte:02X}" for byte in data)
            lines.append(
                f'@text{number} = internal constant [{len(data)} x i8] c"{shown}", align 1'
            )
        table = ", ".join(f"ptr @text{k}" for k in range(len(texts)))
        return [
            *lines,
            f"@texts = internal constant [{len(texts)} x ptr] [{table}]",
            "define ptr @weft_c_message(i32 %status) {",
            f"  %from.zero = add i32 %status, {len(self.refusals)}",
            f"  %known = icmp ult i32 %from.zero, {len(texts)}",
            f"  %index = select i1 %known, i32 %from.zero, i32 {len(texts) - 1}",
            "  %wide = zext i32 %index to i64",
            "  %at = getelementptr ptr, ptr @texts, i64 %wide",
            "  %text = load ptr, ptr %at, align 8",
            "  ret ptr %text",
            "}",
        ]


def _type(field: Field) -> str:
    if not field.by_value:
        return "ptr"
    if field.dtype.is_float and field.dtype.bits >= 32:
        return "float" if field.dtype.bits == 32 else "double"
    return f"i{field.dtype.storage_bits}"


def _bytes(array: Field) -> Expr:
    total: Expr = literal(array.dtype.itemsize)
    for size in array.shape:
        total = total * size
    return total


def _known_bytes(array: Field) -> int | None:
    """The bytes of an array of fixed shape."""
    try:
        return evaluate(_bytes(array), {})
    except SizeError:
        return None


def _table(f: SizeFunction, pointers: Sequence[str]) -> str:
    table = f.value(f"alloca ptr, i64 {len(pointers) + 1}, align 16")
    for number, pointer in enumerate(pointers):
        at = f.value(f"getelementptr ptr, ptr {table}, i64 {number}")
        f.do(f"store ptr {pointer}, ptr {at}, align 8")
    return table


def _array(kind: str, values: Sequence[int]) -> str:
    return f"[{len(values)} x {kind}] [{', '.join(f'{kind} {v}' for v in values)}]"
