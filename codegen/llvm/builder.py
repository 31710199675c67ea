"""A small writer of LLVM IR text in which one call serves scalars and vectors alike.

A ``Value`` has an element type and a number of lanes (0: a scalar). Scalar operands are broadcast
to vector ones, so that callers need not distinguish them. A ``Ramp`` is the int64 vector ``base +
stride * lane`` in symbolic form, so that addresses stay scalar arithmetic (Halide's ``Ramp`` node);
so is ``Repeated``, of which some lanes are alike.
Text, not llvmlite's object model: it is several times faster to make.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from weft.ir.dtypes import DType
from weft.ir.program import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Value:
    """``const`` is the Python number, for a literal (the same in all lanes). ``unit``: of another
    integer, a power of two that divides it."""

    text: str
    type: str
    lanes: int = 0
    const: int | float | None = None
    unit: int = field(default=1, compare=False)

    @property
    def full_type(self) -> str:
        return vector_type(self.type, self.lanes)

    @property
    def even(self) -> int:
        """A power of two that divides this integer."""
        return self.unit if self.const is None else power_in(int(self.const))

    def __str__(self) -> str:
        return f"{self.full_type} {self.text}"


@dataclass(frozen=True, slots=True)
class Ramp:
    """The int64 vector ``base + stride * (0, 1, …, lanes - 1)``."""

    base: Value
    stride: Value
    lanes: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """The int64 vector ``base + stride * (lane // times)``: what is the same in ``times`` lanes,
    which divide ``lanes``."""

    base: Value
    stride: Value
    lanes: int
    times: int


Index = Value | Ramp | Repeated


def vector_type(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>" if lanes else element


def register_type(dtype: DType) -> str:
    """The LLVM type in which a value of ``dtype`` is held: small floats as an exact float."""
    if dtype.kind == "bool":
        return "i1"
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return f"i{dtype.storage_bits}"


@lru_cache(maxsize=4096, typed=True)
def integer(value: int, type_: str = "i64") -> Value:
    """An integer literal, signed or unsigned, in the range of its type."""
    if type_ == "i1":
        return Value("true" if value else "false", type_, 0, int(bool(value)))
    bits = int(type_[1:])
    signed = value - (1 << bits) if value >> (bits - 1) > 0 else value
    return Value(str(signed), type_, 0, value)


def floating(value: float, type_: str) -> Value:
    """A float literal, rounded to nearest for ``float``."""
    if type_ == "float":
        value = _single(value)
    bits = (
        0x7FF8000000000000
        if math.isnan(value)
        else struct.unpack("<Q", struct.pack("<d", value))[0]
    )
    return Value(f"0x{bits:016X}", type_, 0, value)


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _suffix(type_: str, lanes: int) -> str:
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type_, type_)
    return f"v{lanes}{short}" if lanes else short


class Builder:
    """One function under construction, and the declarations of its module. ``features``: of the
    processor, as far as LLVM IR has no operations for their instructions."""

    def __init__(self, features: frozenset[str] = frozenset()) -> None:
        self.features = features
        self.declarations: dict[str, None] = {}
        self.support: dict[str, str] = {}  # internal functions that the code calls, by name
        self.begin()

    def begin(self) -> None:
        """Start a new function body."""
        self._count = 0
        self._allocas: list[str] = []
        self._blocks: dict[str, list[str]] = {"entry": []}
        self._lines = self._blocks["entry"]
        self._indices: dict[tuple[str, str], Value] = {}  # by block and instruction
        self.label = "entry"

    def nested(self) -> Builder:
        """For another function of the same module."""
        inner = Builder(self.features)
        inner.declarations, inner.support = self.declarations, self.support
        return inner

    def finish(self, head: str) -> str:
        """The function ``head`` with everything emitted since ``begin``."""
        text = [f"define {head} {{", "entry:", *self._allocas]
        for label, lines in self._blocks.items():
            if label != "entry":
                text.append(f"{label}:")
            text += lines
        return "\n".join([*text, "}", ""])

    # ---- blocks -------------------------------------------------------------------------------

    def new_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def at(self, label: str) -> None:
        """Continue at the end of block ``label``, made if there is none."""
        self._lines = self._blocks.setdefault(label, [])
        self.label = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(
        self, condition: Value, yes: str, no: str, unrolled: int = 1, *, seldom: bool = False
    ) -> None:
        """To ``yes``, perhaps ``seldom``, or ``no``; ``unrolled``: the unroll factor of the loop
        whose back edge this is."""
        count = f'!{{!"llvm.loop.unroll.count", i32 {unrolled}}}'
        loop = f"distinct !{{!self, {count}}}"
        note = f", !llvm.loop {self._note(loop)}" if unrolled > 1 else ""
        if seldom:
            weights = '!{!"branch_weights", i32 1, i32 2000}'
            note += f", !prof {self._note(weights)}"
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}{note}")

    def _note(self, text: str) -> str:
        """The number of metadata ``text``; equal texts share a number unless distinct."""
        found = [k for k, known in self.support.items() if known == f"{k} = {text}"]
        name = found[0] if found else f"!{sum(key.startswith('!') for key in self.support)}"
        self.support[name] = f"{name} = {text.replace('!self', name)}"
        return name

    def phi(self, *incoming: tuple[Value, str]) -> Value:
        first = incoming[0][0]
        pairs = ", ".join(f"[ {v.text}, %{label} ]" for v, label in incoming)
        return self.emit(f"phi {first.full_type} {pairs}", first.type, first.lanes)

    # ---- instructions -------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._lines.append("  " + text)

    def emit(self, text: str, type_: str, lanes: int = 0) -> Value:
        self._count += 1
        name = f"%t{self._count}"
        self._lines.append(f"  {name} = {text}")
        return Value(name, type_, lanes)

    def once(self, text: str, type_: str, lanes: int) -> Value:
        """The value of ``text``, index arithmetic or an address: that of an equal instruction
        before it in the block, if there is one. LLVM takes longer to find out."""
        key = self.label, text
        if key not in self._indices:
            self._indices[key] = self.emit(text, type_, lanes)
        return self._indices[key]

    def opaque(self, value: Value) -> Value:
        """``value``, opaque to LLVM, so that it is computed before a loop and kept, not
        rematerialised in each iteration."""
        text = f'call {value.type} asm "", "=r,0"({value}) nounwind willreturn memory(none)'
        return self.emit(text, value.type)

    def alloca(self, type_: str, count: int = 1, align: int = ALIGNMENT) -> Value:
        self._count += 1
        name = f"%a{self._count}"
        self._allocas.append(f"  {name} = alloca [{count} x {type_}], align {align}")
        return Value(name, "ptr")

    def first(self, text: str) -> None:
        """A line at the beginning of the entry block."""
        self._allocas.append("  " + text)

    def cell(self, start: Value) -> Value:
        """A mutable variable that starts as ``start``; LLVM promotes it to a register."""
        cell = self.alloca(start.full_type)
        self.store(start, cell)
        return cell

    def load(self, pointer: Value, type_: str, lanes: int = 0, align: int = ALIGNMENT) -> Value:
        return self.emit(
            f"load {vector_type(type_, lanes)}, {pointer}, align {align}", type_, lanes
        )

    def store(
        self, value: Value, pointer: Value, align: int = ALIGNMENT, *, streams: bool = False
    ) -> None:
        """``streams``: a non-temporal store."""
        note = f", !nontemporal {self._note('!{i32 1}')}" if streams else ""
        self.line(f"store {value}, {pointer}, align {align}{note}")

    def element(self, pointer: Value, type_: str, offset: Value) -> Value:
        """The address of element ``offset`` (an int64, or a vector of them)."""
        if offset.const == 0 and not offset.lanes:
            return pointer
        return self.once(f"getelementptr {type_}, {pointer}, {offset}", "ptr", offset.lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        """``value`` in every one of ``lanes`` (0 leaves it as it is)."""
        if value.lanes == lanes:
            return value
        if value.lanes:
            raise ValueError(f"cannot broadcast {value.lanes} lanes to {lanes}")
        if value.const is not None:
            return Value(f"splat ({value.type} {value.text})", value.type, lanes, value.const)
        vector = vector_type(value.type, lanes)
        first = self.emit(f"insertelement {vector} poison, {value}, i32 0", value.type, lanes)
        return self.emit(
            f"shufflevector {vector} {first.text}, {vector} poison, "
            f"{vector_type('i32', lanes)} zeroinitializer",
            value.type,
            lanes,
        )

    def match(self, *values: Value) -> list[Value]:
        """All ``values`` broadcast to the widest of them."""
        lanes = max(v.lanes for v in values)
        return [self.splat(v, lanes) for v in values]

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """``op`` with its flags: ``add``, ``fmul contract`` …"""
        a, b = self.match(left, right)
        return self.emit(f"{op} {a.full_type} {a.text}, {b.text}", a.type, a.lanes)

    def compare(self, op: str, left: Value, right: Value) -> Value:
        """``op``: ``icmp slt``, ``fcmp oeq`` …"""
        a, b = self.match(left, right)
        return self.emit(f"{op} {a.full_type} {a.text}, {b.text}", "i1", a.lanes)

    def select(self, condition: Value, if_true: Value, if_false: Value) -> Value:
        if condition.const is not None:
            return if_true if condition.const else if_false
        lanes = max(condition.lanes, if_true.lanes, if_false.lanes)
        a, b = self.splat(if_true, lanes), self.splat(if_false, lanes)
        # A scalar select on data is a conditional move, not a branch: it is unpredictable.
        note = "" if lanes else f", !unpredictable {self._note('!{}')}"
        return self.emit(f"select {condition}, {a}, {b}{note}", a.type, lanes)

    def cast(self, op: str, value: Value, type_: str, lanes: int = 0) -> Value:
        """``value`` as ``type_``, in as many lanes or, of a ``bitcast``, in ``lanes``."""
        count = lanes or value.lanes
        return self.emit(f"{op} {value} to {vector_type(type_, count)}", type_, count)

    def negate(self, value: Value) -> Value:
        return self.emit(f"fneg {value}", value.type, value.lanes)

    def intrinsic(
        self, name: str, *args: Value, result: str = "", extra: str = "", flags: str = ""
    ) -> Value:
        """``llvm.<name>`` overloaded on its first argument (and its result where that differs)."""
        args = tuple(self.match(*args))
        lanes, type_ = args[0].lanes, result or args[0].type
        over = _suffix(args[0].type, lanes)
        if result:
            over = f"{_suffix(result, lanes)}.{over}"
        full = vector_type(type_, lanes)
        parameters = ", ".join(a.full_type for a in args) + (
            f", {extra.split()[0]}" if extra else ""
        )
        self.declare(f"{full} @llvm.{name}.{over}({parameters})")
        actual = ", ".join(str(a) for a in args) + (f", {extra}" if extra else "")
        call = f"call {flags} {full}" if flags else f"call {full}"
        return self.emit(f"{call} @llvm.{name}.{over}({actual})", type_, lanes)

    def declare(self, signature: str) -> None:
        self.declarations.setdefault(f"declare {signature}")

    # ---- lanes --------------------------------------------------------------------------------

    def lane_numbers(self, lanes: int, type_: str = "i64", *, times: int = 1) -> Value:
        return self.constants([i // times for i in range(lanes)], type_)

    @staticmethod
    def constants(values: Sequence[int], type_: str = "i64") -> Value:
        """A vector of numbers."""
        text = ", ".join(f"{type_} {value}" for value in values)
        return Value(f"<{text}>", type_, len(values))

    def extract(self, vector: Value, lane: Value) -> Value:
        return self.emit(f"extractelement {vector}, {lane}", vector.type)

    def insert(self, vector: Value, element: Value, lane: Value) -> Value:
        return self.emit(f"insertelement {vector}, {element}, {lane}", vector.type, vector.lanes)

    def shuffle(self, a: Value, b: Value | None, lanes: list[int]) -> Value:
        """Lanes of ``a`` followed by ``b`` by number; undefined for a number below 0."""
        second = b.text if b else "poison"
        mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in lanes)
        return self.emit(
            f"shufflevector {a}, {a.full_type} {second}, <{len(lanes)} x i32> <{mask}>",
            a.type,
            len(lanes),
        )

    def parts(self, value: Value, lanes: int) -> list[Value]:
        """``value`` in pieces of ``lanes``, which divide its own."""
        starts = range(0, value.lanes, lanes)
        if len(starts) == 1:
            return [value]
        return [self.shuffle(value, None, list(range(k, k + lanes))) for k in starts]

    def joined(self, parts: Sequence[Value]) -> Value:
        """The concatenation of ``parts``, a power of two of vectors."""
        parts = list(parts)
        while len(parts) > 1:
            lanes = list(range(2 * parts[0].lanes))
            parts = [self.shuffle(parts[k], parts[k + 1], lanes) for k in range(0, len(parts), 2)]
        return parts[0]

    def pack(self, mask: Value) -> Value:
        """A mask of n lanes as an integer of n bits, lane 0 the lowest."""
        return self.emit(f"bitcast {mask} to i{mask.lanes}", f"i{mask.lanes}")

    def any_lane(self, mask: Value) -> Value:
        """An i1: is any lane of ``mask`` set? (``mask`` itself for a scalar.)"""
        if not mask.lanes:
            return mask
        packed = self.pack(mask)
        return self.emit(f"icmp ne {packed}, 0", "i1")

    def reduce_lanes(self, name: str, vector: Value) -> Value:
        """``llvm.vector.reduce.<name>``: 'smin', 'smax' …"""
        full = f"@llvm.vector.reduce.{name}.{_suffix(vector.type, vector.lanes)}"
        self.declare(f"{vector.type} {full}({vector.full_type})")
        return self.emit(f"call {vector.type} {full}({vector})", vector.type)

    # ---- int64 index arithmetic, on scalars, vectors and ramps --------------------------------

    def materialise(self, value: Index) -> Value:
        """A ramp as a vector."""
        if isinstance(value, Value):
            return value
        times = value.times if isinstance(value, Repeated) else 1
        numbers = self.lane_numbers(value.lanes, times=times)
        scaled = numbers if value.stride.const == 1 else self.binary("mul", numbers, value.stride)
        return scaled if value.base.const == 0 else self.binary("add", scaled, value.base)

    def add(self, a: Index, b: Index) -> Index:
        match a, b:
            case Ramp(), Ramp():
                return self._ramp(self._add(a.base, b.base), self._add(a.stride, b.stride), a.lanes)
            case Ramp(), Value(lanes=0):
                return Ramp(self._add(a.base, b), a.stride, a.lanes)
            case Value(lanes=0), Ramp():
                return Ramp(self._add(a, b.base), b.stride, b.lanes)
            case (Repeated() as x, Value(lanes=0) as y) | (Value(lanes=0) as y, Repeated() as x):
                return replace(x, base=self._add(x.base, y))
            case Repeated(), Repeated() if a.times == b.times:
                stride = self._add(a.stride, b.stride)
                return replace(a, base=self._add(a.base, b.base), stride=stride)
        return self._add(self.materialise(a), self.materialise(b))

    def sub(self, a: Index, b: Index) -> Index:
        return self.add(a, self.mul(b, integer(-1)))

    def mul(self, a: Index, b: Index) -> Index:
        match a, b:
            case Ramp(), Value(lanes=0):
                return self._ramp(self._mul(a.base, b), self._mul(a.stride, b), a.lanes)
            case Value(lanes=0), Ramp():
                return self._ramp(self._mul(a, b.base), self._mul(a, b.stride), b.lanes)
            case (Repeated() as x, Value(lanes=0) as y) | (Value(lanes=0) as y, Repeated() as x):
                return replace(x, base=self._mul(x.base, y), stride=self._mul(x.stride, y))
        return self._mul(self.materialise(a), self.materialise(b))

    @staticmethod
    def _ramp(base: Value, stride: Value, lanes: int) -> Index:
        return base if stride.const == 0 else Ramp(base, stride, lanes)

    def _add(self, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None and not (a.lanes or b.lanes):
            return integer(wrap64(int(a.const) + int(b.const)))
        if a.const == 0 and a.lanes <= b.lanes:
            return b
        if b.const == 0 and b.lanes <= a.lanes:
            return a
        if b.const is not None and not b.lanes and b.const < 0 and b.const > -(1 << 63):
            return self._index("sub", a, integer(-int(b.const)))
        return self._index("add", a, b)

    def _mul(self, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None and not (a.lanes or b.lanes):
            return integer(wrap64(int(a.const) * int(b.const)))
        for this, other in ((a, b), (b, a)):
            if not this.lanes and this.const == 1:
                return other
            if not this.lanes and not other.lanes and this.const == 0:
                return integer(0)
        return self._index("mul", a, b)

    def _index(self, op: str, left: Value, right: Value) -> Value:
        a, b = self.match(left, right)
        made = self.once(f"{op} {a.full_type} {a.text}, {b.text}", a.type, a.lanes)
        even = min(a.even * b.even, 1 << 62) if op == "mul" else min(a.even, b.even)
        return replace(made, unit=even) if even > 1 else made


def wrap64(value: int) -> int:
    """``value`` modulo 2**64 as a signed number."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def power_in(value: int) -> int:
    """The greatest power of two that divides ``value``, up to 2**62."""
    return value & -value or 1 << 62


def power_above(value: int) -> int:
    """The least power of two that is no less than ``value``."""
    return 1 << (value - 1).bit_length()
