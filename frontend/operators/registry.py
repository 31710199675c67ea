"""The table of operator definitions, and the one way to call one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import weft.frontend.operators as families
from weft.ir.errors import ExpressionError
from weft.ir.interrupts import uninterrupted
from weft.ir.tensor_axes import fresh_axes
from weft.ir.tensor_expr import Program, Tensor

Definition = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Operator:
    """``definition(*tensors_or_None, **attributes)`` returns tensor expressions."""

    name: str
    definition: Definition


OPERATORS: dict[str, Operator] = {}


def operator(name: str) -> Callable[[Definition], Definition]:
    """Register a definition under Weft's own name for it (snake_case)."""

    def register(definition: Definition) -> Definition:
        if name in OPERATORS:
            raise ExpressionError("WEFT-E0120", f"operator {name} is defined twice")
        OPERATORS[name] = Operator(name, definition)
        return definition

    return register


def definition_of(name: str) -> Definition:
    """The definition of ``name``; its family's module is imported where that has not happened."""
    if name not in OPERATORS:
        with uninterrupted():  # or what half a family has defined would be defined twice
            for module in sorted(m.name for m in pkgutil.iter_modules(families.__path__)):
                importlib.import_module(f"{families.__name__}.{module}")
    return OPERATORS[name].definition


def instantiate(name: str, inputs: Sequence[Tensor | None], **attributes: object) -> Program:
    """The program that calls ``name`` on placeholders ``inputs`` (None: an absent optional one)."""
    outputs = definition_of(name)(*inputs, **attributes)
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    return fresh_axes(Program(name, tuple(t for t in inputs if t is not None), many))
