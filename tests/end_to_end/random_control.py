"""Random nodes that a host runs: control flow, sequences, optionals, strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.end_to_end.random_models import F32, I64, Growing, Refused
from tests.end_to_end.random_operators import makes, number
from tests.end_to_end.random_oracle import info

UNARY = ("Abs", "Neg", "Relu", "Tanh", "Sigmoid", "Floor")
BINARY = ("Add", "Sub", "Max", "Min")


def steps(g: Growing, reads: Sequence[str], prefix: str) -> list[onnx.NodeProto]:
    """A few nodes on values of one shape; the last one gives ``{prefix}_out``."""
    known, nodes = list(reads), []
    count = int(g.rng.integers(1, 4))
    for k in range(count):
        output = f"{prefix}_out" if k == count - 1 else f"{prefix}_{k}"
        if g.chance(0.5):
            nodes.append(helper.make_node(g.choice(*UNARY), [g.choice(*known)], [output]))
        else:
            pair = [g.choice(*known), g.choice(*known)]
            nodes.append(helper.make_node(g.choice(*BINARY), pair, [output]))
        known.append(output)
    return nodes


def body(nodes: Any, name: str, inputs: Any, outputs: Any) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


def some_floats(g: Growing, low: int = 0) -> str:
    return g.tensor("Neg", 0, low, 4, types=[F32])


@makes("If")
def branches(g: Growing, op_type: str) -> None:
    x = some_floats(g)
    a = g.values[x]
    outputs = [info("o", a)]
    given = []
    for name in ("then", "else"):
        nodes = steps(g, [x], f"{name}{len(g.nodes)}")
        nodes[-1].output[0] = "o"
        given.append(body(nodes, name, [], outputs))
    condition = g.fixed(g.chance(0.5), np.dtype(bool))
    g.add(op_type, condition, then_branch=given[0], else_branch=given[1])


@makes("Loop")
def loop(g: Growing, op_type: str) -> None:
    """Some turns that change one value, and collect what they saw."""
    x, other = some_floats(g), ""
    a = g.values[x]
    if g.chance(0.5):
        other = g.weight(a.shape)
    nodes = steps(g, ["carried", *([other] if other else [])], "loop")
    nodes.append(helper.make_node("Identity", ["going"], ["still"]))
    nodes.append(helper.make_node("Identity", ["carried"], ["seen"]))
    scalar = helper.make_tensor_value_info
    turns = body(
        nodes, "turns",
        [scalar("turn", TensorProto.INT64, []), scalar("going", TensorProto.BOOL, []),
         info("carried", a)],
        [scalar("still", TensorProto.BOOL, []), info("loop_out", a), info("seen", a)],
    )  # fmt: skip
    count = g.fixed(g.choice(1, 2, 3, 0 if g.empty else 1), I64)
    g.add(op_type, count, g.fixed(True, np.dtype(bool)), x, outputs=2, body=turns)


@makes("Scan")
def scan(g: Growing, op_type: str) -> None:
    x = some_floats(g, 2)
    a = g.values[x]
    state = g.weight(a.shape[1:])
    nodes = [*steps(g, ["state", "part"], "scan"), helper.make_node("Identity", ["part"], ["seen"])]
    part = info("part", a[0] if len(a) else np.zeros(a.shape[1:], F32))
    state_info, out, seen = (onnx.ValueInfoProto() for _ in range(3))
    for made, name in ((state_info, "state"), (out, "scan_out"), (seen, "seen")):
        made.CopyFrom(part)
        made.name = name
    over = body(nodes, "over", [state_info, part], [out, seen])
    backwards = g.some(scan_input_directions=[int(g.chance(0.5))], scan_output_directions=[1])
    g.add(op_type, state, x, outputs=2, num_scan_inputs=1, body=over, **backwards)


@makes("SequenceMap", "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase",
       "SequenceAt", "SequenceLength", "SplitToSequence", "ConcatFromSequence")  # fmt: skip
def sequences(g: Growing, op_type: str) -> None:
    """A sequence that is made, changed by ``op_type``, and read."""
    x = g.tensor("SequenceConstruct", 0, 1, 4, types=[F32, I64])
    a = g.values[x]
    if op_type == "SplitToSequence":
        axis = g.axis(x)
        if not a.shape[axis]:
            raise Refused("nothing to split")
        pieces = {} if g.chance(0.3) else {"split": np.asarray(g.choice(1, 2))}
        keep = {} if pieces else g.some(keepdims=int(g.chance(0.5)))
        (s,) = g.add(op_type, x, axis=axis, **pieces, **keep)
    elif op_type == "SequenceEmpty":
        (s,) = g.add(op_type, dtype=number(a.dtype))
        (s,) = g.add("SequenceInsert", s, x)
    else:
        more = [x, *(g.choice(x, g.weight(a.shape, 1, a.dtype)) for _ in range(g.choice(1, 2)))]
        (s,) = g.add("SequenceConstruct", *more)
    place = np.asarray(g.choice(0, -1))
    if op_type == "SequenceInsert":
        (s,) = g.add(op_type, s, g.weight(a.shape, 1, a.dtype), **g.some(position=place))
    elif op_type == "SequenceErase":
        (s,) = g.add(op_type, s, **g.some(position=place))
    elif op_type == "SequenceMap":
        one = helper.make_tensor_value_info("one", number(a.dtype), [None] * a.ndim)
        out = helper.make_tensor_value_info("map_out", number(a.dtype), [None] * a.ndim)
        nodes = [helper.make_node(g.choice("Abs", "Neg"), ["one"], ["map_out"])]
        (s,) = g.add(op_type, s, body=body(nodes, "each", [one], [out]))
    if op_type == "ConcatFromSequence" or g.chance(0.3):
        new = g.some(new_axis=int(g.chance(0.5)))
        g.add("ConcatFromSequence", s, axis=g.choice(0, -1), **new)
    elif op_type == "SequenceLength":
        g.add(op_type, s)
    else:
        g.add("SequenceAt", s, position=place)


@makes("Optional", "OptionalHasElement", "OptionalGetElement")
def optionals(g: Growing, op_type: str) -> None:
    (s,) = g.add("Optional", some_floats(g))
    g.add("OptionalHasElement" if op_type == "OptionalHasElement" else "OptionalGetElement", s)


WORDS = np.array(["a", "Ab", "b c", "", "x,y", "été", "a b  c"], object)


@makes("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch")
def strings(g: Growing, op_type: str) -> None:
    x = g.given(g.rng.choice(WORDS, g.shape(g.choice(1, 2), 4)))
    match op_type:
        case "StringConcat":
            g.add(op_type, x, g.given(g.rng.choice(WORDS, (1,))))
        case "StringSplit":
            g.add(op_type, x, outputs=2, **g.some(delimiter=g.choice(",", "b"), maxsplit=1))
        case "StringNormalizer":
            x = g.given(g.rng.choice(WORDS, g.size(5)))
            case_action = g.choice("LOWER", "UPPER", "NONE")
            g.add(op_type, x, case_change_action=case_action, is_case_sensitive=int(g.chance(0.5)),
                  locale="C.UTF-8", **g.some(stopwords=["a"]))  # fmt: skip
        case _:
            g.add(op_type, x, pattern=g.choice("a.*", "[a-z ]+", ".*,.*"))
