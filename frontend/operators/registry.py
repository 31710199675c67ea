"""The table of operator definitions, and the one way to call one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, cast

import numpy as np

import weft.frontend.operators as families
from weft.frontend.loops.source import LoopFunction
from weft.ir.errors import CompileError, ExpressionError, did_you_mean
from weft.ir.interrupts import uninterrupted
from weft.ir.operator_graph import Value
from weft.ir.registry import Place, Registry, calling
from weft.ir.tensor_axes import fresh_axes
from weft.ir.tensor_expr import Program, Tensor

Definition = Callable[..., Tensor | tuple[Tensor, ...]]
"""``definition(*tensors_or_None, **attributes)`` returns tensor expressions."""


def _adopt(name: str, found: object, place: Place) -> None:
    register_operator(name, found, place)


OPERATORS: Registry[str, Definition] = Registry("operator", "weft.operators", _adopt)


def operator(name: str) -> Callable[[Definition], Definition]:
    """Register a definition under Weft's own name for it (snake_case)."""
    place = calling(1)

    def register(definition: Definition) -> Definition:
        OPERATORS.add(name, definition, place)
        return definition

    return register


def register_operator(name: str, found: object, place: Place, replace: bool = False) -> None:
    """From outside. Raises ``CompileError``: WEFT-E0005 for a name that is taken, by one of Weft's
    own operators say, E0006 for what is no function."""
    kernel = isinstance(found, LoopFunction)
    if kernel or not callable(found):
        raise CompileError(
            "WEFT-E0006",
            f"operator {name} is a {type(found).__name__}, not a function of tensors",
            where=place.text,
            why="it gives no tensors: it overwrites the arrays of its call" if kernel else "",
            hint="say by weft.compute what each element is" if kernel else "",
        )
    load_families()
    OPERATORS.add(name, cast(Definition, found), place, replace)


@cache  # one for one function, however often it is registered
def taking_tensors(definition: Definition) -> Definition:
    """``definition``, a function, that says so where it is called with a value of a graph, or with
    an array for a tensor. Raises ``ExpressionError`` (WEFT-E0106)."""
    names = list(inspect.signature(definition).parameters)

    @wraps(definition)
    def checked(*tensors: Any, **attributes: Any) -> Tensor | tuple[Tensor, ...]:
        for name, given in (*zip(names, tensors, strict=False), *attributes.items()):
            array = isinstance(given, np.ndarray) and name not in attributes
            if array or isinstance(given, Value):
                raise ExpressionError(
                    "WEFT-E0106",
                    f"{definition.__name__}: {name} is a {type(given).__name__}, not a tensor",
                    hint="weft.placeholder makes tensors; compile the result to call it with arrays"
                    if array
                    else f'node.call("{definition.__name__}", …) in a handler, edit.call in a pass',
                )
        return definition(*tensors, **attributes)

    return checked


@cache
def load_families() -> None:
    """Import every module of this package, in sorted order: all of Weft's own operators."""
    with uninterrupted():  # or what half a family has defined would be defined twice
        for module in sorted(m.name for m in pkgutil.iter_modules(families.__path__)):
            importlib.import_module(f"{families.__name__}.{module}")


def definition_of(name: str) -> Definition:
    """The definition of ``name``. Raises ``ExpressionError`` (WEFT-E0007) where there is none."""
    load_families()
    found = OPERATORS.find(name)
    if found is None:
        raise ExpressionError(
            "WEFT-E0007",
            f"there is no operator {name!r}",
            hint=did_you_mean(name, OPERATORS.names())
            + "@weft.operator registers one: docs/extending.md",
        )
    return found


def instantiate(
    op: str | Definition, inputs: Sequence[Tensor | None], **attributes: object
) -> Program:
    """The program that calls ``op``, an operator's name or a definition, on placeholders
    ``inputs`` (None: an absent optional one)."""
    definition = definition_of(op) if isinstance(op, str) else op
    outputs = definition(*inputs, **attributes)
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    name = op if isinstance(op, str) else getattr(op, "__name__", "operator")
    return fresh_axes(Program(name, tuple(t for t in inputs if t is not None), many))
