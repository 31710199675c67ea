"""What the launches of a GPU ask memory for, in words: bytes by level, and bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.codegen.cuda.bank_conflicts import bank_conflicts
from weft.codegen.cuda.block_traffic import DEVICE, SHARED, BlockTraffic, block_traffic
from weft.graph.fusion_rules import size_text
from weft.ir.loop_ir import Kernel
from weft.ir.scalar_expr import Expr, Literal
from weft.ir.scalar_printer import python_text


def launch_lines(kernels: Sequence[Kernel]) -> list[str]:
    """What a full block of each launch of ``kernels`` asks for; nothing for those of processors."""
    lines = [line for kernel in kernels for line in _kernel(kernel)]
    title = "  memory that a block with all its elements asks for, before caches"
    return [title, *(f"    {line}" for line in lines)] if lines else []


def _kernel(kernel: Kernel) -> Iterator[str]:
    for number, found in enumerate(block_traffic(kernel)):
        parts = [part for level in (DEVICE, SHARED) for part in _level(level, found)]
        yield f"{kernel.name}_{number}, {_number(found.blocks)} blocks: {'; '.join(parts)}"
    conflicts = bank_conflicts(kernel)
    if conflicts:
        yield f"{kernel.name}, bank conflicts of shared memory: {_conflicts(conflicts)}"


def _level(level: str, found: BlockTraffic) -> Iterator[str]:
    if level in found.read or level in found.written:
        read, written = (
            _bytes(x[level]) if level in x else "0 B" for x in (found.read, found.written)
        )
        yield f"{level} memory {read} read, {written} written"


def _conflicts(found: Mapping[str, int]) -> str:
    several = [f"{name} {times} at a time" for name, times in found.items() if times > 1]
    return ", ".join(several) or "none"


def _bytes(size: Expr | None) -> str:
    if isinstance(size, Literal):
        return size_text(int(size.value))
    return f"{_number(size)} B"


def _number(count: Expr | None) -> str:
    return "any number of" if count is None else python_text(count)
