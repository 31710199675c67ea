"""A register tile whose sums lie in the registers of a matrix unit, as loops.

    for r, l: tile[r, l] = C[r, l]
    once, by the unit:                             its registers are loaded from ``tile``
      for k in groups as deep as one issue:
        for r: for l: for q: by the unit           one block, all of its rows and lanes
          tile[r, l] += A[r, k + q] * B[k + q, l]
      what is left of k: a block of fewer steps    filled up with zeros
                                                   and stored to ``tile``
    for r, l: C[r, l] = tile[r, l]

These are ordinary loops, of which an emitter that knows the unit makes issues (``llvm_tiles.py``);
any other one, and the interpreter, runs them as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.codegen.loop_ir import For, Stmt
from weft.codegen.rebuild import map_children
from weft.frontend.scalar_expr import literal
from weft.polyhedral.instruction import Instruction


def by_unit(instruction: Instruction, stmt: Stmt) -> Stmt:
    """``stmt``, while the sums of its blocks are in the unit's registers."""
    return For(f"{instruction}.once", literal(0), literal(1), "unrolled", stmt, 1, instruction)


def one_block(instruction: Instruction, rows: Stmt) -> Stmt:
    """The loops ``rows`` over rows, lanes and steps of a block as what the unit does at once."""
    if isinstance(rows, For):
        rows = replace(rows, instruction=instruction)
    return map_children(rows, lambda part: one_block(instruction, part))


def in_blocks(instruction: Instruction, sizes: Sequence[int]) -> list[int]:
    """``sizes``, of rows and at last of lanes, rounded up to whole registers."""
    (lanes,) = (n for d, n in instruction.extents.items() if d in instruction.across)
    whole = [*[instruction.rows] * (len(sizes) - 1), lanes]
    return [-(-size // n) * n for size, n in zip(sizes, whole, strict=True)]
