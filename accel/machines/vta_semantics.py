"""What VTA's instructions do, in the language of loop kernels: for one configuration each.

The arguments are memories and fields (``accelerator``); their types follow from the machine.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

from weft.ir.bit_fields import Encoding
from weft.ir.dtypes import i8, i32, i64

Function = Callable[..., None]


def load(shape: tuple[int, int]) -> Function:
    """Rows of elements of ``shape`` with zeros around them, into ``sram`` from ``dram``."""
    most, least = shape

    def load(
        sram, dram, sram_base, dram_base, y_size, x_size, x_stride,
        y_pad_0, y_pad_1, x_pad_0, x_pad_1,
    ):  # fmt: skip
        for y in range(y_pad_0 + y_size + y_pad_1):
            for x in range(x_pad_0 + x_size + x_pad_1):
                for p in range(most):
                    for q in range(least):
                        sram[sram_base + y * (x_pad_0 + x_size + x_pad_1) + x, p, q] = (
                            dram[dram_base + (y - y_pad_0) * x_stride + x - x_pad_0, p, q]
                            if y_pad_0 <= y < y_pad_0 + y_size and x_pad_0 <= x < x_pad_0 + x_size
                            else 0
                        )

    return load


def load_micro_ops(sram, dram, sram_base, dram_base, y_size, x_size, x_stride):
    for y in range(y_size):
        for x in range(x_size):
            sram[sram_base + y * x_size + x] = dram[dram_base + y * x_stride + x]


def store(shape: tuple[int, int]) -> Function:
    most, least = shape

    def store(sram, dram, sram_base, dram_base, y_size, x_size, x_stride):
        for y in range(y_size):
            for x in range(x_size):
                for p in range(most):
                    for q in range(least):
                        dram[dram_base + y * x_stride + x, p, q] = sram[
                            sram_base + y * x_size + x, p, q
                        ]

    return store


class Places:
    """Addresses of operands: of a micro-operation, in iteration (y, x) of the two loops around."""

    def __init__(self, micro_op: Encoding) -> None:
        masks = {f.name: (1 << f.width) - 1 for f in micro_op.fields}
        self.dst = _operand(micro_op.places["dst"], masks["dst"])
        self.src = _operand(micro_op.places["src"], masks["src"])
        self.wgt = _operand(micro_op.places["wgt"], masks["wgt"])


def _operand(place: int, mask: int) -> Callable[..., int]:
    def operand(word, y, y_factor, x, x_factor):
        return i64((word >> place) & mask) + y * y_factor + x * x_factor

    return operand


def gemm(batch: int, block: int, at: Places) -> Function:
    """Products of an input with the transposed weights, for each micro-operation in each
    iteration."""
    dst, src, weight = at.dst, at.src, at.wgt

    def gemm(
        acc, out, inp, wgt, uop, uop_bgn, uop_end, iter_out, iter_in,
        dst_factor_out, dst_factor_in, src_factor_out, src_factor_in,
        wgt_factor_out, wgt_factor_in,
    ):  # fmt: skip
        for y in range(iter_out):
            for x in range(iter_in):
                for u in range(uop_bgn, uop_end):
                    for b in range(batch):
                        for o in range(block):
                            for i in range(block):
                                acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] += i32(
                                    inp[src(uop[u], y, src_factor_out, x, src_factor_in), b, i]
                                ) * i32(
                                    wgt[weight(uop[u], y, wgt_factor_out, x, wgt_factor_in), o, i]
                                )
                            out[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] = i8(
                                acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o]
                            )

    return gemm


def reset(batch: int, block: int, at: Places) -> Function:
    dst = at.dst

    def reset(acc, uop, uop_bgn, uop_end, iter_out, iter_in, dst_factor_out, dst_factor_in):
        for y in range(iter_out):
            for x in range(iter_in):
                for u in range(uop_bgn, uop_end):
                    for b in range(batch):
                        for o in range(block):
                            acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] = 0

    return reset


def _shifted(value, by):
    return value >> by if by >= 0 else value << -by


def _added(value, other):
    return value + other


# By opcode.
OPERATIONS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "add": _added,
    "shr": _shifted,
}


def with_tensor(batch: int, block: int, at: Places, combine: Callable[..., int]) -> Function:
    """Accumulators combined with others, element by element."""
    dst, src = at.dst, at.src

    def alu(
        acc, out, uop, uop_bgn, uop_end, iter_out, iter_in,
        dst_factor_out, dst_factor_in, src_factor_out, src_factor_in,
    ):  # fmt: skip
        for y in range(iter_out):
            for x in range(iter_in):
                for u in range(uop_bgn, uop_end):
                    for b in range(batch):
                        for o in range(block):
                            acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] = combine(
                                acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o],
                                acc[src(uop[u], y, src_factor_out, x, src_factor_in), b, o],
                            )
                            out[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] = i8(
                                acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o]
                            )

    return alu


def with_number(batch: int, block: int, at: Places, combine: Callable[..., int]) -> Function:
    """Accumulators combined with one number."""
    dst = at.dst

    def alu(acc, out, uop, uop_bgn, uop_end, iter_out, iter_in, dst_factor_out, dst_factor_in, imm):
        for y in range(iter_out):
            for x in range(iter_in):
                for u in range(uop_bgn, uop_end):
                    for b in range(batch):
                        for o in range(block):
                            acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] = combine(
                                acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o],
                                i32(imm),
                            )
                            out[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o] = i8(
                                acc[dst(uop[u], y, dst_factor_out, x, dst_factor_in), b, o]
                            )

    return alu
