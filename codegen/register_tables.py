"""Tables in registers: each lane picks the entry that the low bits of its number say.

One instruction where a processor permutes a whole register by another (``vpermps``), as long as a
shuffle and beside the multiply-add pipes. Two registers hold a table of twice as many entries
(``vpermi2ps``). Fewer lanes than a register has pick in some of its lanes, more one register after
the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.llvm_builder import Builder, Value, floating, integer
from weft.codegen.math_values import Number

_REGISTER = 64  # bytes of those that AVX-512 permutes
_SHORT = {"float": "s", "double": "d"}


def entries(x: Number) -> int:
    """How many numbers of the type of ``x`` its lanes pick from in one register; 0: they cannot."""
    count = _REGISTER // _bytes(x.type)
    whole = x.value.lanes <= count or x.value.lanes % count == 0
    return count if "avx512f" in x.b.features and whole else 0


def pick(table: Sequence[float], index: Number, type_: str) -> Number:
    """The entry of ``table``, one register or two of ``type_``, at ``index`` modulo its length.

    ``index``: integers as wide as the entries.
    """
    b, count = index.b, _REGISTER // _bytes(type_)
    assert len(table) in (count, 2 * count)
    vector = f"<{count} x {type_}>"
    parts = [_constant(table[k : k + count], type_) for k in range(0, len(table), count)]
    found = []
    for lanes in b.parts(_widened(b, index.value, count), count):
        if len(parts) == 1:
            name, given = f"permvar.{_SHORT[type_]}f.512", [parts[0], lanes]
        else:
            name, given = f"vpermi2var.p{_SHORT[type_]}.512", [parts[0], lanes, parts[1]]
        called = f"{vector} @llvm.x86.avx512.{name}"
        b.declare(f"{called}({', '.join(value.full_type for value in given)})")
        found.append(b.emit(f"call {called}({', '.join(map(str, given))})", type_, count))
    return Number(b, _narrowed(b, b.joined(found), index.value.lanes))


def _bytes(type_: str) -> int:
    return {"float": 4, "double": 8}[type_]


def _constant(values: Sequence[float], type_: str) -> Value:
    entries = ", ".join(str(floating(value, type_)) for value in values)
    return Value(f"<{entries}>", type_, len(values))


def _widened(b: Builder, value: Value, count: int) -> Value:
    """``value`` in the first lanes of ``count``, anything in the others."""
    if not value.lanes:
        return b.insert(Value("poison", value.type, count), value, integer(0, "i32"))
    if value.lanes >= count:
        return value
    return b.shuffle(value, None, [k if k < value.lanes else -1 for k in range(count)])


def _narrowed(b: Builder, value: Value, lanes: int) -> Value:
    if not lanes:
        return b.extract(value, integer(0, "i32"))
    return value if value.lanes == lanes else b.shuffle(value, None, list(range(lanes)))
