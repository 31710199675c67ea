"""The design space of VTA's configurations, with an estimate of area.

Areas are sums over components in µm² of a 45 nm process, without wires and control: good enough to
order machines.

    multiplier of 8 bits 282, adder of 32 bits 137, of 16 bits 67     Horowitz, ISSCC 2014
    flip-flop 4.5, two-way multiplexer 1.9                            NanGate 45 nm library
    cell of SRAM 0.346, of which arrays are about 60%                 Mistry et al., IEDM 2007
    a bit of an SRAM's port: as much as 64 cells                      assumed
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weft.accel.machines.vta import MEMORIES, Config, vta
from weft.accel.space import Point, Space
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError

MULTIPLIER, ADDER, SHORT_ADDER = 282.0, 137.0, 67.0
FLIP_FLOP, MULTIPLEXER = 4.5, 1.9
CELL = 0.346 / 0.6
PORT = 64  # cells
BURST = 16  # beats that a memory channel buffers, in either direction

# Block and batch in elements, memories in KiB, the bus in bytes a cycle, lanes as a share: 1/n.
PARAMETERS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "block": (8, 16, 32),
        "batch": (1, 2),
        "inp": (16, 32, 64),
        "wgt": (64, 128, 256, 512),
        "acc": (64, 128, 256),
        "bus": (8, 16, 32, 64),
        "alu_cycles": (1, 2),
    }
)


def vta_space(parameters: Mapping[str, tuple[int, ...]] | None = None) -> Space:
    """``parameters``: other values, by name."""
    return Space(
        "vta", {**PARAMETERS, **(parameters or {})}, _machine, area, ("block", "batch")
    )  # fmt: skip


def _machine(point: Point) -> Accelerator:
    return vta(configuration(point))


def configuration(point: Point) -> Config:
    """Raises ``CompileError`` (WEFT-E1010) for what is none."""
    return Config(
        log_batch=_log(point, "batch"),
        log_block=_log(point, "block"),
        log_inp_buff_size=_log(point, "inp") + 10,
        log_wgt_buff_size=_log(point, "wgt") + 10,
        log_acc_buff_size=_log(point, "acc") + 10,
        log_bus_bytes=_log(point, "bus"),
        log_alu_cycles=_log(point, "alu_cycles"),
    )


def _log(point: Point, name: str) -> int:
    value = point[name]
    if value < 1 or value & (value - 1):
        raise CompileError(
            "WEFT-E1010", f"no VTA configuration: {name} = {value}", why="it is no power of two"
        )
    return value.bit_length() - 1


def area(point: Point) -> float:
    """In µm², estimated."""
    config = configuration(point)
    batch, block = config.batch, config.block
    # Each product passes a register and an adder tree to an accumulator.
    product = MULTIPLIER + SHORT_ADDER + 16 * FLIP_FLOP
    gemm = batch * block * (block * product + ADDER + 32 * FLIP_FLOP)
    lanes = max(1, batch * block >> config.log_alu_cycles)
    shifter = 32 * 5 * MULTIPLEXER
    alu = lanes * (2 * ADDER + shifter + 32 * FLIP_FLOP)
    bus = 2 * BURST * 8 * (1 << config.log_bus_bytes) * FLIP_FLOP
    return gemm + alu + bus + sum(_memory(config, name) for name in MEMORIES)


def _memory(config: Config, name: str) -> float:
    """Its cells, and a port that reads or writes one element a cycle."""
    bits = 8 << config.log_size(name)
    return (bits + PORT * 8 * config.element_bytes(name)) * CELL
