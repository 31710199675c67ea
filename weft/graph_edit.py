"""``GraphEdit``: an operator graph on its way to another one, for passes that users write.

    @weft.graph_pass
    def factor_into_conv(graph):
        edit = weft.GraphEdit(graph)
        for mul in graph.nodes:
            conv = edit.computes(mul, "mul") and edit.producer(mul.inputs[0])
            factor = edit.number(mul.inputs[1]) if conv else None
            if factor is not None and edit.computes(conv, "conv"):
                x, *weights = conv.inputs
                scaled = [edit.call("mul", w, factor) for w in weights]
                edit.replace(mul.outputs[0], edit.call("conv", x, *scaled, **conv.attributes))
        return edit.graph()

Nodes are matched by what they compute, not by what they are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as with_fields
from typing import Any

import numpy as np

from weft.frontend.operators.registry import Definition, definition_of, instantiate
from weft.graph.canonical import canonical_text
from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.rebuild import fresh_name
from weft.ir.build import compute, placeholder
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CompileError, ExpressionError
from weft.ir.graph_printer import value_text
from weft.ir.graph_verifier import same_shape
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.tensor_expr import Program, Tensor


class GraphEdit:
    """Begins with ``graph``, which stays as it is; ``graph()`` gives the new one."""

    def __init__(self, graph: Graph) -> None:
        self._given = graph
        self._readers = graph.consumers
        self._producers = graph.producers
        self._constants = dict(graph.constants)
        self._new: dict[str, Node] = {}  # by the name of its result
        self._instead: dict[str, str] = {}  # old value -> the new one that takes its name
        self._outputs = {value.name for value in graph.outputs}
        values = (v.name for node in graph.nodes for v in node.outputs)
        self._taken = {*values, *graph.constants, *(v.name for v in graph.inputs)}

    # ---- what there is ----------------------------------------------------------------------

    def computes(self, node: Node, op: str | Definition, **attributes: Any) -> bool:
        """Whether ``node`` does to its inputs what operator ``op``, a name or a definition, does.

        ``attributes`` are those of ``op``; without any, those that the node was called with. Raises
        ``ExpressionError`` (WEFT-E0007) for a name that no operator has.
        """
        if isinstance(op, str):
            definition_of(op)
        given = attributes or dict(node.attributes)
        try:
            program = instantiate(op, _placeholders(node.inputs), **given)
        except (ExpressionError, TypeError):  # no such arguments
            return False
        return canonical_text(program) == canonical_text(node.program)

    def producer(self, value: Value, *, shared: bool = False) -> Node | None:
        """The node that defines ``value``; unless ``shared``, only if one node alone reads it and
        it is no output: then nothing needs it once that node is replaced."""
        if not shared and (len(self.readers(value)) != 1 or value.name in self._outputs):
            return None
        return self._producers.get(value.name)

    def readers(self, value: Value) -> tuple[Node, ...]:
        """The nodes of the given graph that read ``value``, in order."""
        return tuple(self._readers.get(value.name, ()))

    def constant(self, value: Value) -> np.ndarray | None:
        """The data of ``value``, None where it is no constant."""
        return self._constants.get(value.name)

    def number(self, value: Value) -> np.ndarray | None:
        """Of a constant with a single element, that as a 0-d array; None for any other value."""
        data = self.constant(value)
        return data.reshape(()) if data is not None and data.size == 1 else None

    # ---- what there will be -----------------------------------------------------------------

    def call(
        self, op: str | Definition, *operands: Value | np.ndarray | None, **attributes: Any
    ) -> Value:
        """The result of operator ``op``, a name or a definition with one result, on ``operands``:
        values, arrays for new constants, None for an optional one that is absent. ``attributes``
        are those of the operator.

        Raises ``ExpressionError`` for operands and attributes that do not fit, and ``CompileError``
        (WEFT-E0340) for an operator of several results.
        """
        given = [self._value(operand) for operand in operands]
        inputs = tuple(value for value in given if value is not None)
        program = instantiate(op, _placeholders(given), **attributes)
        if len(program.outputs) != 1:
            raise _no_edit(f"{program.name} has {len(program.outputs)} results, not one")
        return self._add(program, inputs, attributes)

    def replace(self, old: Value, new: Value) -> None:
        """Have ``new`` wherever ``old`` is read, and as an output; both have one shape and
        dtype. Raises ``CompileError`` (WEFT-E0340) for others, and where ``old`` is an input."""
        for what, given in (("old", old), ("new", new)):
            _check_value(given, what)
        if old.name not in self._producers:
            raise _no_edit(f"{value_text(old)} is no result of a node")
        if old.dtype != new.dtype or not same_shape(old.shape, new.shape):
            raise _no_edit(
                f"{value_text(old)} cannot be replaced by {value_text(new)}",
                "replace takes a value of the same shape and dtype",
            )
        if new.name not in self._new or new.name in self._instead.values():
            tensor = _placeholder(new)
            copied = compute(new.shape, lambda *i: tensor[i], name="copy")
            new = self._add(Program("copy", (tensor,), (copied,)), (new,), {})
        self._instead[old.name] = new.name

    def graph(self) -> Graph:
        """The new graph, without what it does not need. Raises ``CompileError`` (WEFT-E0340) where
        what replaces a value is computed from it."""
        if not self._instead:
            return self._given
        names = {new: old for old, new in self._instead.items()}
        hidden = {old: fresh_name(f"{old}.replaced", self._taken) for old in self._instead}

        def read(value: Value) -> Value:
            return with_fields(value, name=names.get(value.name, value.name))

        def defined(value: Value) -> Value:
            return with_fields(read(value), name=hidden.get(value.name, read(value).name))

        nodes = [
            with_fields(
                node,
                inputs=tuple(map(read, node.inputs)),
                outputs=tuple(map(defined, node.outputs)),
            )
            for node in (*self._given.nodes, *self._new.values())
        ]
        changed = with_fields(self._given, nodes=_in_order(nodes), constants=self._constants)
        return eliminate_dead(changed)

    def _value(self, operand: Value | np.ndarray | None) -> Value | None:
        if operand is None or isinstance(operand, Value):
            return operand
        if isinstance(operand, Node):
            _check_value(operand)
        data = np.array(operand)  # not the caller's to change
        data.flags.writeable = False
        value = Value(fresh_name("constant", self._taken), data.shape, as_dtype(data.dtype))
        self._constants[value.name] = data
        return value

    def _add(
        self, program: Program, inputs: tuple[Value, ...], attributes: Mapping[str, object]
    ) -> Value:
        (result,) = program.outputs
        value = Value(fresh_name(program.name, self._taken), result.shape, result.dtype)
        origin = f"{program.name}, made by a pass"
        node = Node(value.name, program.name, inputs, (value,), attributes, program, origin)
        self._new[value.name] = node
        return value


def _placeholder(value: Value) -> Tensor:
    return placeholder(value.shape, value.dtype, name=value.name)


def _placeholders(values: Sequence[Value | None]) -> list[Tensor | None]:
    return [None if value is None else _placeholder(value) for value in values]


def _in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Each node behind those that it reads, else in the order given."""
    producers = {value.name: node for node in nodes for value in node.outputs}
    done: dict[int, Node] = {}
    begun: set[int] = set()
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, ready = stack.pop()
        if ready:
            done.setdefault(id(node), node)
            continue
        if id(node) in done:
            continue
        if id(node) in begun:
            raise _no_edit(f"{node.outputs[0].name} would be computed from itself")
        begun.add(id(node))
        stack.append((node, True))
        before = [producers[v.name] for v in node.inputs if v.name in producers]
        stack.extend((each, False) for each in before if id(each) not in done)
    return tuple(done.values())


def _check_value(given: object, what: str = "the operand") -> None:
    if isinstance(given, Node):
        raise _no_edit(f"{what} is node {given.name}, not a value", "pass node.outputs[0]")
    if not isinstance(given, Value):
        why = f"{what} is a {type(given).__name__}, not a value"
        raise _no_edit(why, "pass node.outputs[0], or what edit.call gives")


def _no_edit(why: str, hint: str = "") -> CompileError:
    what = "a pass gives no graph that computes the same"
    return CompileError("WEFT-E0340", what, why=why, hint=hint)
