"""Numbers that write code: arithmetic on ``MathValue`` emits LLVM IR, for scalars and vectors alike.

Operations round exactly once each, in order (no contraction), so that error-free transformations
(two-sum, products split with a fused multiply-add) mean what they say.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.llvm_builder import Builder, Value, floating, integer

Operand = "MathValue | float | int"


@dataclass(frozen=True, slots=True)
class Writer:
    b: Builder


@dataclass(frozen=True, slots=True)
class MathValue:
    """A float, an integer or a truth value, in one lane or many."""

    writer: Writer
    value: Value

    @property
    def type(self) -> str:
        return self.value.type
