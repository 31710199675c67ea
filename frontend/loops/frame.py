"""What the names of one function stand for at one place of its execution.

A local variable is one of

* a value: it is assigned a number or index arithmetic (``k = i + 1``), a part of an array
  (``row = A[i]``) or an array of its own (``weft.zeros``), and read only where that assignment is
  the last one on every way;
* a variable in memory: a tensor without dimensions.

Which one turns out while the function is lowered: a value that is read where its assignment is not
the only one that may have come last is ``GONE``, and lowering starts again with the variable in
memory (``Restart``).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from weft.frontend.loops.source import Source, read_source
from weft.frontend.loops.values import Scalar, Value, View, number
from weft.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class Variable:
    """A local scalar in memory; ``weak``: nothing but Python numbers is assigned to it."""

    view: View
    weak: bool


@dataclass(frozen=True, slots=True)
class Gone:
    """A name whose value depends on the way taken; ``why`` is for the user."""

    why: str
    array: bool = False


class Restart(Exception):
    """Something about a variable has been learned that lowering needs from the start."""


@dataclass(slots=True)
class Knowledge:
    """What is known of local variables, by function and name; it only grows.

    ``kinds``: dtype of a variable in memory, and whether it is a Python number's.
    ``held``: conditions of ``if`` statements that must be evaluated before their bodies.
    ``helpers``: the plain functions that expressions call.
    """

    in_memory: set[tuple[int, str]] = field(default_factory=set)
    kinds: dict[tuple[int, str], tuple[DType, bool]] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    helpers: dict[FunctionType, Source] = field(default_factory=dict)

    def helper(self, function: FunctionType) -> Source:
        """The source of a plain function, read once."""
        if function not in self.helpers:
            self.helpers[function] = read_source(function)
        return self.helpers[function]


@dataclass(slots=True)
class Frame:
    """One activation of a function; ``callers`` are the functions that are being inlined."""

    source: Source
    env: dict[str, Value]
    fixed: Mapping[str, str]  # names that cannot be assigned, and why
    callers: tuple[Source, ...] = ()
    variables: dict[str, Variable] = field(default_factory=dict)

    def key(self, name: str) -> tuple[int, str]:
        return id(self.source), name

    def read(self, name: str, node: ast.AST, knowledge: Knowledge) -> Value:
        """What ``name`` stands for. Raises ``Restart`` and ``KernelError`` (WEFT-E0165)."""
        found = self.env.get(name)
        if found is None:
            return self._outside(name, node)
        if isinstance(found, Gone):
            if found.array:
                self.source.refuse("E0165", node, f"{name} has no one meaning here", why=found.why)
            knowledge.in_memory.add(self.key(name))
            raise Restart
        if isinstance(found, Variable):
            return Scalar(found.view.element, found.weak)
        if isinstance(found, View) and not found.subscripts:
            return Scalar(found.element)
        return found

    def _outside(self, name: str, node: ast.AST) -> Value:
        if name in self.source.assigned(self.source.tree):
            why = "it is assigned further below, or only in a loop that has ended"
            self.source.refuse("E0165", node, f"{name} is used before it is assigned", why=why)
        value = self.source.meaning(name, self)
        if value is self:
            self.source.refuse(
                "E0165",
                node,
                f"there is no {name}",
                hint="names are arguments, sizes of the signature, local variables, and numbers and"
                " functions of the module",
            )
        return plain(value)


def plain(value: Any) -> Value:
    """A captured Python object as a value: numbers become scalars, the rest stays."""
    if isinstance(value, np.bool_ | np.number):
        strong = number(value.item())
        return Scalar(strong.expr.astype(str(value.dtype)))
    return number(value) if isinstance(value, bool | int | float) else value
