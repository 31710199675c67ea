"""Records that are no machine are refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.accel.accelerator_verifier import verify
from weft.accel.machines.vta import Config, vta
from weft.ir.accelerator import Accelerator, Channel, Cost, Memory, Operation, Queue, Wire
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import i8
from weft.ir.errors import CompileError


def go(vec, at):  # type: ignore[no-untyped-def]
    vec[at] = 1


def other(vec, nowhere):  # type: ignore[no-untyped-def]
    vec[nowhere] = 1


ENCODING = Encoding((Field("opcode", 2, value=1), Field("at", 10), Field("flag", 1)), 32, 32)
GO = Operation("go", "one", ENCODING, lambda f: Cost(1, "bus"), go)
HALT = Encoding((Field("opcode", 2, value=2), Field("flag", 1)), 32, 32)
STOP = replace(GO, name="stop", encoding=HALT, semantics=None)
MACHINE = Accelerator(
    "m",
    (Memory("vec", i8, (), 32),),
    (Queue("one", 4), Queue("two", 4)),
    (Wire("one", "one", "flag", "flag", 9),),
    (GO, STOP),
    (Channel("bus", ("one",)),),
)


@pytest.mark.parametrize("machine", [MACHINE, vta(), vta(Config(log_block=5))])
def test_machines(machine: Accelerator) -> None:
    verify(machine)


def operation(**changes: Any) -> dict[str, Any]:
    return {"operations": (replace(GO, **changes), STOP)}


@pytest.mark.parametrize(("changes", "message"), [
    ({"memories": MACHINE.memories * 2}, "2 times a memory 'vec'"),
    ({"queues": (Queue("one", 4), Queue("one", 4))}, "2 times a queue 'one'"),
    ({"wires": MACHINE.wires * 2}, "2 times a wire 'one to one'"),
    ({"operations": (GO, GO)}, "2 times a operation 'go'"),
    ({"memories": (Memory("vec", i8, (), 0),)}, "memory vec of 0 elements"),
    ({"memories": (Memory("vec", i8, (3, 0), None),)}, "memory vec of None elements"),
    ({"memories": (Memory("vec", i8, (), 32, "mat"),)}, "memory vec is no twin of 'mat'"),
    ({"memories": (*MACHINE.memories, Memory("mat", i8, (), 9, "vec"))}, "mat is no twin of 'vec'"),
    ({"queues": (Queue("one", 0),)}, "queue one holds 0"),
    ({"wires": (Wire("one", "three", "flag", "flag", 9),)}, "no queue 'three'"),
    ({"wires": (Wire("one", "one", "flg", "flag", 9),)}, "no field of queue one's .* 'flg'"),
    ({"wires": (Wire("one", "two", "flag", "flag", 9),)}, "no field of queue two's operations"),
    ({"wires": (Wire("one", "one", "flag", "flag", 0),)}, "counts 0 tokens"),
    ({"channels": (Channel("bus", ("three",)),)}, "no queue 'three'"),
    ({"channels": ()}, "no channel 'bus'"),
    (operation(queue="three"), "no queue 'three'"),
    (operation(memories={"vec": "mat"}), "no memory 'mat'"),
    (operation(memories={"mat": "vec"}), "no argument of go 'mat'"),
    (operation(semantics=other), "no memory or field of go 'nowhere'"),
    (operation(semantics=print), "no function"),
    (operation(cost=lambda f: 3), "the cost of go is a int, no Cost"),
    (operation(cost=lambda f: f.nothing), "the cost of go raises"),
    (operation(encoding=HALT, semantics=None), "go and stop cannot be told apart"),
    (operation(encoding=replace(ENCODING, bits=64)), "instructions of 4, 8 bytes"),
])  # fmt: skip
def test_what_is_no_machine(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=f"WEFT-E1032: m is no machine: .*{message}"):
        verify(replace(MACHINE, **changes))


def test_where_semantics_stand() -> None:
    with pytest.raises(CompileError) as caught:
        verify(replace(MACHINE, **operation(semantics=other)))
    line = other.__code__.co_firstlineno
    assert caught.value.where == f"{__file__}:{line}: go"
