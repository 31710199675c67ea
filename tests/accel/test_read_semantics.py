"""Operations that the compiler cannot use, with the reason; and one of each kind that it can."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft.accel.capabilities import Capabilities
from weft.ir.accelerator import Accelerator, Cost, Memory, Operation, Queue
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import i32
from weft.offload.offload import Target

FIELDS = ("at", "from_", "count", "rows", "stride", "flag")


def capabilities(semantics: Callable[..., None]) -> Capabilities:
    """Of a machine with this operation alone."""
    code = semantics.__code__
    names = code.co_varnames[: code.co_argcount]
    fields = [Field(n, 1 if n == "flag" else 10) for n in names if n in FIELDS]
    encoding = Encoding((Field("opcode", 8, value=1), *fields), 128)
    memories = (
        Memory("a", i32, (4,), 32),
        Memory("b", i32, (4,), 32),
        Memory("dram", i32, (4,), None),
        Memory("dram2", i32, (4,), None),
    )
    operation = Operation("it", "only", encoding, lambda f: Cost(1), semantics)
    machine = Accelerator("one", memories, (Queue("only", 8),), (), (operation,))
    return Target.of(machine).capabilities


def load(a, dram, at, from_, count):
    for x in range(count):
        for p in range(4):
            a[at + x, p] = dram[from_ + x, p]


def add(a, b, at, from_, count):
    for x in range(count):
        for p in range(4):
            a[at + x, p] = a[at + x, p] + b[from_ + x, p]


def test_a_transfer() -> None:
    (found,) = capabilities(load).transfers
    assert found.into and found.local.memory == "a" and found.main.memory == "dram"
    assert found.columns.size == "count" and found.local.base == (("at", 1),)


def test_a_computation() -> None:
    (found,) = capabilities(add).computes
    assert found.target.memory == "a" and [at.memory for at in found.operands] == ["b"]
    assert [turn.field for turn in found.loops] == ["count"] and found.extents == {"p": 4}


def doubled(a, dram, at, from_, count):
    for x in range(count):
        for p in range(4):
            a[at + x, p] = 2 * dram[from_ + x, p]


def main_to_main(dram, dram2, at, from_, count):
    for x in range(count):
        for p in range(4):
            dram2[at + x, p] = dram[from_ + x, p]


def sum_of_main(a, dram, at, from_, count):
    for x in range(count):
        for p in range(4):
            a[at + x, p] += dram[from_ + x, p]


def turned(a, dram, at, from_, count):
    for x in range(count):
        for p in range(4):
            a[at + x, p] = dram[from_ + x, 3 - p]


def apart(a, dram, at, from_, count, stride):
    for x in range(count):
        for p in range(4):
            a[at + x * stride, p] = dram[from_ + x, p]


def numbers(a, at, count):
    for x in range(count):
        for p in range(4):
            a[at + x, p] = a[at + x, p] + x


def triangle(a, b, at, from_, count):
    for y in range(count):
        for x in range(y):
            for p in range(4):
                a[at + x, p] = a[at + x, p] + b[from_ + y, p]


def two_fields(a, b, at, from_, count, rows):
    for x in range(count + rows):
        for p in range(4):
            a[at + x, p] = a[at + x, p] + b[from_ + x, p]


def late(a, b, at, from_, count):
    for x in range(2, count):
        for p in range(4):
            a[at + x, p] = a[at + x, p] + b[from_ + x, p]


def product_of_fields(a, b, at, from_, count, stride):
    for x in range(count):
        for p in range(4):
            a[at * stride + x, p] = a[at * stride + x, p] + b[from_ + x, p]


def one_or_the_other(a, b, at, from_, count, flag):
    for x in range(count):
        for p in range(4):
            a[at + x, p] = b[from_ + x, p] if flag > 0 else a[at + x, p] + b[from_ + x, p]


@pytest.mark.parametrize(
    ("semantics", "reason"),
    (
        (doubled, "it changes what it copies: a copy fills with zeros, and does nothing else"),
        (main_to_main, "it copies from main memory to main memory"),
        (sum_of_main, "it touches main memory, and is no copy"),
        (turned, "dram has an index other than its first that is no loop"),
        (apart, "rows do not lie side by side in a"),
        (numbers, "it computes with x, the number of a turn"),
        (triangle, "depend on other loops"),
        (two_fields, "the number of turns along x is no field, nor one and a number"),
        (late, "x does not begin at 0"),
        (product_of_fields, "the address in a is no sum of fields"),
        (one_or_the_other, "what it does depends on flag: make two operations of it"),
    ),
)
def test_refusals(semantics: Any, reason: str) -> None:
    found = capabilities(semantics)
    assert not found.transfers and not found.computes
    assert list(found.refusals) == ["it"]
    assert reason in found.refusals["it"], found.refusals["it"]
    assert "test_read_semantics.py" in found.refusals["it"], "it says where"
