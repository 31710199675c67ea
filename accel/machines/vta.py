"""VTA, the accelerator of the TVM project (Moreau et al., IEEE Micro 2019), in all configurations.

Five instructions of 128 bits in three queues, and micro-operations of 32 bits that GEMM and ALU
step through. ``Config`` has the names of ``vta_config.json``. Field widths follow from the sizes of
memories: the C bit-fields of the hardware's own headers.

STORE stores the last results of GEMM or ALU, from a memory of its own beside the accumulators
(``out``), which LOAD and a resetting GEMM do not write. Main memory is viewed as elements of the
transferred type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any

from weft.accel.machines import vta_semantics as semantics
from weft.accel.machines.vta_rules import rules
from weft.ir.accelerator import Accelerator, Channel, Cost, Memory, Operation, Queue, Wire
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import i8, i32, u32
from weft.ir.errors import CompileError

LOAD, STORE, GEMM, FINISH, ALU = range(5)
UOP, WGT, INP, ACC, OUT = range(5)
DEPTH = 512  # instructions per queue
TOKENS = 255  # per counter between two queues
LATENCY = 16  # of main memory, in cycles
NULL_PAGE = 1 << 12  # bytes: the first page of its virtual memory
PIPELINE = 8  # cycles of a GEMM or ALU instruction without its micro-operations
APART = 3  # micro-operations between two updates of an accumulator: there is no forwarding


@dataclass(frozen=True, slots=True)
class Config:
    """Logarithms to the base 2: widths in bits, batch and block in elements, memories in bytes.

    Two are Weft's own, and change only times: the bytes per cycle of the bus, and the cycles per
    element of the ALU, more than one if it has fewer lanes.

    Raises ``CompileError`` (WEFT-E1010) for an impossible machine.
    """

    log_inp_width: int = 3
    log_wgt_width: int = 3
    log_acc_width: int = 5
    log_batch: int = 0
    log_block: int = 4
    log_uop_buff_size: int = 15
    log_inp_buff_size: int = 15
    log_wgt_buff_size: int = 18
    log_acc_buff_size: int = 17
    log_bus_bytes: int = 3
    log_alu_cycles: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value) is not int or not 0 <= value <= 40:
                raise _impossible(f"{each.name.upper()} = {value!r}", "0 to 40 are possible")
        if (self.log_inp_width, self.log_wgt_width, self.log_acc_width) != (3, 3, 5):
            widths = (self.log_inp_width, self.log_wgt_width, self.log_acc_width)
            raise _impossible(
                f"widths of {', '.join(str(1 << w) for w in widths)} bits",
                "operands have 8 bits, accumulators 32",
            )
        for name in MEMORIES:
            if self.log_depth(name) < 1:
                size = 1 << self.log_size(name)
                raise _impossible(
                    f"an {name} memory of {size} bytes",
                    f"one element has {self.element_bytes(name)}, and two have to fit",
                )
        if max(map(self.log_depth, ("inp", "wgt", "acc"))) > 16:
            raise _impossible("a memory of more than 65,536 elements", "sram_base has 16 bits")

    @staticmethod
    def read(text: str) -> Config:
        """From the text of a ``vta_config.json``; other entries are ignored."""
        try:
            given = json.loads(text)
        except ValueError as error:
            raise _impossible("no JSON", str(error)) from None
        if not isinstance(given, Mapping):
            raise _impossible("no JSON object", f"it is a {type(given).__name__}")
        names = {each.name.upper(): each.name for each in fields(Config)}
        return Config(**{names[key]: value for key, value in given.items() if key in names})

    @property
    def batch(self) -> int:
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        return 1 << self.log_block

    def shape(self, memory: str) -> tuple[int, ...]:
        """Of one element: what one address holds."""
        return {
            "uop": (),
            "wgt": (self.block, self.block),
            "inp": (self.batch, self.block),
            "acc": (self.batch, self.block),
            "out": (self.batch, self.block),
        }[memory]

    def element_bytes(self, memory: str) -> int:
        return prod(self.shape(memory)) * (4 if memory in ("uop", "acc") else 1)

    def log_size(self, memory: str) -> int:
        """Of its bytes; ``out`` has as many elements as the accumulators."""
        if memory == "out":
            return self.log_acc_buff_size + self.log_inp_width - self.log_acc_width
        size: int = getattr(self, f"log_{memory}_buff_size")
        return size

    def log_depth(self, memory: str) -> int:
        """Of its elements."""
        return self.log_size(memory) - (self.element_bytes(memory).bit_length() - 1)

    def depth(self, memory: str) -> int:
        return 1 << self.log_depth(memory)


PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
PADDED = ("inp", "acc")  # memories that a LOAD may pad with zeros
MEMORIES = {"uop": UOP, "wgt": WGT, "inp": INP, "acc": ACC, "out": OUT}


def _impossible(what: str, why: str) -> CompileError:
    return CompileError("WEFT-E1010", f"no VTA configuration: {what}", why=why)


# ---- the machine ---------------------------------------------------------------------------------


def vta(config: Config | None = None) -> Accelerator:
    """The machine of ``config``, by default that of a missing ``vta_config.json``.

    Raises ``CompileError`` (WEFT-E1001) if addresses exceed the fields of an instruction.
    """
    config = config or Config()
    elements = {"wgt": i8, "inp": i8, "acc": i32, "out": i8, "uop": u32}
    twins, records = {"out": "acc"}, {"uop": micro_op(config)}
    memories = [
        Memory(n, t, config.shape(n), config.depth(n), twins.get(n, ""), records.get(n))
        for n, t in elements.items()
    ]
    main = [Memory(f"dram_{n}", t, config.shape(n), None) for n, t in elements.items()]
    return Accelerator(
        "vta",
        (*memories, *main),
        (Queue("load", DEPTH), Queue("compute", DEPTH), Queue("store", DEPTH)),
        (
            Wire("load", "compute", "push_next", "pop_prev", TOKENS),
            Wire("compute", "load", "push_prev", "pop_next", TOKENS),
            Wire("compute", "store", "push_next", "pop_prev", TOKENS),
            Wire("store", "compute", "push_prev", "pop_next", TOKENS),
        ),
        (*_transfers(config), *_computations(config)),
        (Channel("read", ("compute", "load")), Channel("write", ("store",))),
        micro_op(config),
        "finish",
        asdict(config),
        rules(config.depth("acc"), micro_op(config)),
        NULL_PAGE,
    )


def _transfers(config: Config) -> list[Operation]:
    """LOAD of each memory, and STORE: bursts of two beats, with a cycle in between."""
    bus = 1 << config.log_bus_bytes

    def cost(memory: str) -> Callable[[Any], Cost]:
        size = config.element_bytes(memory)

        def takes(f: Any) -> Cost:
            if not f.x_size:
                return Cost(1)
            padded = (f.y_pad_0 + f.y_size + f.y_pad_1) * (f.x_pad_0 + f.x_size + f.x_pad_1)
            beats = f.y_size * -(-f.x_size * size // bus)
            return Cost(padded - f.y_size * f.x_size, "read", LATENCY, beats)

        return takes

    def micro_ops(f: Any) -> Cost:
        return Cost(0, "read", LATENCY, -(-f.x_size * 4 // bus)) if f.x_size else Cost(1)

    def stored(f: Any) -> Cost:
        units = -(-f.y_size * f.x_size * config.element_bytes("out") // (2 * bus))
        return Cost(0, "write", LATENCY, 3 * units) if units else Cost(1)

    def load(name: str, queue: str) -> Operation:
        shape = config.shape(name)
        own = semantics.load((shape[0], shape[1])) if shape else semantics.load_micro_ops
        takes = cost(name) if shape else micro_ops
        places = {"sram": name, "dram": f"dram_{name}"}
        encoding = _transfer(LOAD, MEMORIES[name])
        pads = {} if name in PADDED else dict.fromkeys(PADS, (0, 0))
        limits = {"y_size": (1, (1 << 16) - 1) if shape else (1, 1), **pads}
        return Operation(f"load_{name}", queue, encoding, takes, own, places, limits=limits)

    return [
        load("uop", "compute"),
        load("acc", "compute"),
        load("wgt", "load"),
        load("inp", "load"),
        Operation(
            "store",
            "store",
            _transfer(STORE, OUT),
            stored,
            semantics.store((config.batch, config.block)),
            {"sram": "out", "dram": "dram_out"},
        ),
    ]


def _computations(config: Config) -> list[Operation]:
    """GEMM, ALU with each of its operations, FINISH."""

    def count(f: Any) -> int:
        turns: int = f.iter_out * f.iter_in * max(0, f.uop_end - f.uop_bgn)
        return turns

    def once(f: Any) -> Cost:
        return Cost(count(f) + PIPELINE)

    def alu(operands: int) -> Callable[[Any], Cost]:
        return lambda f: Cost((operands * count(f) << config.log_alu_cycles) + PIPELINE)

    at = semantics.Places(micro_op(config))
    sizes = config.batch, config.block, at
    found = [
        Operation("gemm", "compute", _gemm(config, 0), once, semantics.gemm(*sizes), apart=APART),
        Operation("reset", "compute", _gemm(config, 1), once, semantics.reset(*sizes)),
    ]
    for code, (name, combine) in enumerate(semantics.OPERATIONS.items()):
        tensors, immediate = _alu(config, code, 0), _alu(config, code, 1)
        other = semantics.with_tensor(*sizes, combine)
        number = semantics.with_number(*sizes, combine)
        found += [
            Operation(name, "compute", tensors, alu(2), other, apart=APART),
            _with_number(name, immediate, alu(1), number),
        ]
    finish = Encoding(_head(FINISH), 128)
    return [*found, Operation("finish", "compute", finish, lambda f: Cost(1))]


def _with_number(
    name: str, encoding: Encoding, cost: Callable[[Any], Cost], does: Callable[..., None]
) -> Operation:
    # Implementations differ in whether the first operand is at src or at dst, and in shifts by
    # more than 15.
    same = {"src": "dst", "src_factor_out": "dst_factor_out", "src_factor_in": "dst_factor_in"}
    limits = {"imm": (-15, 15)} if name == "shr" else {}
    return Operation(
        f"{name}_imm", "compute", encoding, cost, does, apart=APART, same=same, limits=limits
    )


# ---- encodings ----------------------------------------------------------------------------------


def _head(opcode: int) -> tuple[Field, ...]:
    flags = ("pop_prev", "pop_next", "push_prev", "push_next")
    return (Field("opcode", 3, value=opcode), *(Field(flag, 1) for flag in flags))


def _transfer(opcode: int, memory: int) -> Encoding:
    return Encoding(
        (
            *_head(opcode),
            Field("memory_type", 3, value=memory),
            Field("sram_base", 16),
            Field("dram_base", 32),
            *(Field(name, 16) for name in ("y_size", "x_size", "x_stride")),
            *(Field(name, 4) for name in PADS),
        ),
        128,
    )


def _gemm(config: Config, reset: int) -> Encoding:
    a, i, w = map(config.log_depth, ("acc", "inp", "wgt"))
    return Encoding((*_loops(config, GEMM, reset), *_factors(dst=a, src=i, wgt=w)), 128)


def _alu(config: Config, opcode: int, use_imm: int) -> Encoding:
    a = config.log_depth("acc")
    more = (
        Field("alu_opcode", 3, value=opcode),
        Field("use_imm", 1, value=use_imm),
        Field("imm", 16, signed=True),
    )
    return Encoding((*_loops(config, ALU, None), *_factors(dst=a, src=a), *more), 128)


def _loops(config: Config, opcode: int, reset: int | None) -> tuple[Field, ...]:
    u = config.log_depth("uop")
    return (
        *_head(opcode),
        Field("reset", 1, value=reset),
        Field("uop_bgn", u),
        Field("uop_end", u + 1),
        Field("iter_out", 14),
        Field("iter_in", 14),
    )


def _factors(**widths: int) -> tuple[Field, ...]:
    """The step of each operand in either loop."""
    return tuple(
        Field(f"{name}_factor_{loop}", width)
        for name, width in widths.items()
        for loop in ("out", "in")
    )


def micro_op(config: Config) -> Encoding:
    a, i, w = map(config.log_depth, ("acc", "inp", "wgt"))
    return Encoding((Field("dst", a), Field("src", max(a, i)), Field("wgt", w)), 32, 32)
