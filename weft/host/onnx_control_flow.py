"""If, Loop, Scan and SequenceMap on the host, around compiled bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from weft.frontend.onnx.onnx_graph import Region
from weft.frontend.onnx.tensors import dtype_of
from weft.host.onnx_host import Data, Host, HostTable
from weft.ir.errors import BudgetError
from weft.ir.limits import MAX_TENSOR_BYTES

MAX_ITERATIONS = 100_000


def if_(node: Host) -> Sequence[Data]:
    """The branch that the condition chooses."""
    taken = bool(node.scalar(0))
    return node.run(node.body("then_branch" if taken else "else_branch"), [])


def loop(node: Host) -> Sequence[Data]:
    """``for i < trip_count and condition``: carried values, then stacked scan outputs."""
    body = node.body("body")
    trips = None if node.optional(0) is None else node.scalar(0)
    proceed = True if node.optional(1) is None else bool(node.scalar(1))
    carried = list(node.inputs[2:])
    if len(body.outputs) < 1 + len(carried):
        raise node.malformed("the body gives fewer values than the loop carries")
    stacks = [_Stack(node) for _ in body.outputs[1 + len(carried) :]]
    index = 0
    while proceed and (trips is None or index < trips):
        if index >= MAX_ITERATIONS:
            raise BudgetError(
                "WEFT-E0232",
                f"the loop ran {MAX_ITERATIONS} times without an end",
                where=node.node.where,
            )
        given = [np.array(index, np.int64), np.array(proceed), *carried]
        results = node.run(body, given[: len(body.inputs)] if not carried else given)
        proceed = bool(np.asarray(results[0]).reshape(-1)[:1].any())
        carried = results[1 : 1 + len(carried)]
        for stack, value in zip(stacks, results[1 + len(carried) :], strict=True):
            stack.push(value)
        index += 1
    first = 1 + len(carried)
    scans = [s.stacked(0, body, first + i) for i, s in enumerate(stacks)]
    return [*carried, *scans]


def scan(node: Host) -> Sequence[Data]:
    """A body over slices of the scan inputs, states carried along; opset 8 has a batch axis."""
    if node.node.opset >= 9:
        axes = node.attribute("scan_input_axes")
        return _scan(node, list(node.inputs), axes, node.attribute("scan_input_directions"))
    if node.optional(0) is not None:
        raise node.failed("Scan with sequence lengths is not supported")
    inputs = [np.asarray(x) for x in node.inputs[1:]]
    results = [
        _scan(node, [x[b] for x in inputs], None, node.attribute("directions"))
        for b in range(len(inputs[0]))
    ]
    return [np.stack([r[i] for r in results]) for i in range(len(node.body("body").outputs))]


def _scan(
    node: Host, inputs: list[Data], axes: list[int] | None, directions: list[int] | None
) -> list[Data]:
    body = node.body("body")
    count = int(node.attribute("num_scan_inputs", 0))
    n_states = len(inputs) - count
    if count < 1 or n_states < 0 or len(body.outputs) < n_states:
        raise node.malformed(f"num_scan_inputs is {count}")
    scanned = [np.asarray(x) for x in inputs[n_states:]]
    input_axes = _axes(node, "scan_input_axes", axes, [x.ndim for x in scanned])
    backwards = [bool(d) for d in directions or [0] * count]
    lengths = {x.shape[a] for x, a in zip(scanned, input_axes, strict=True)}
    if len(lengths) != 1 or len(backwards) != count:
        raise node.failed(f"scan inputs have the lengths {sorted(lengths)}")
    (length,) = lengths
    states = inputs[:n_states]
    stacks = [_Stack(node) for _ in body.outputs[n_states:]]
    for step in range(length):
        slices = [
            np.asarray(np.take(x, length - 1 - step if back else step, axis))
            for x, axis, back in zip(scanned, input_axes, backwards, strict=True)
        ]
        results = node.run(body, [*states, *slices])
        states = results[:n_states]
        for stack, value in zip(stacks, results[n_states:], strict=True):
            stack.push(value)
    return [*states, *_scan_outputs(node, body, stacks, n_states)]


def _scan_outputs(node: Host, body: Region, stacks: list[_Stack], first: int) -> list[np.ndarray]:
    axes = node.attribute("scan_output_axes") or [0] * len(stacks)
    backwards = node.attribute("scan_output_directions") or [0] * len(stacks)
    if len(axes) != len(stacks) or len(backwards) != len(stacks):
        raise node.malformed("one scan output axis and direction per scan output is needed")
    found = []
    for i, (stack, axis, back) in enumerate(zip(stacks, axes, backwards, strict=True)):
        if back:
            stack.values.reverse()
        found.append(stack.stacked(axis, body, first + i))
    return found


def sequence_map(node: Host) -> Sequence[Data]:
    """The body on each element; other inputs are sequences too, or the same for all."""
    body = node.body("body")
    first = node.sequence(0)
    results: list[list[Data]] = [[] for _ in body.outputs]
    for index in range(len(first)):
        given = []
        for position in range(len(node.inputs)):
            value = node.input(position)
            if isinstance(value, list) and index >= len(value):
                raise node.failed(f"input {position} has {len(value)} elements, not {len(first)}")
            given.append(value[index] if isinstance(value, list) else value)
        for collected, value in zip(results, node.run(body, given), strict=True):
            collected.append(value)
    return results


class _Stack:
    """The values of one scan output, within the memory that one tensor may take."""

    def __init__(self, node: Host) -> None:
        self.node = node
        self.values: list[np.ndarray] = []
        self.bytes = 0

    def push(self, value: Data) -> None:
        array = np.asarray(value)
        self.bytes += array.nbytes
        if self.bytes > MAX_TENSOR_BYTES:
            raise BudgetError(
                "WEFT-E0232", "a scan output grows too large", where=self.node.node.where
            )
        if self.values and (array.shape, array.dtype) != (
            self.values[0].shape,
            self.values[0].dtype,
        ):
            raise self.node.failed("a scan output changes its shape between iterations")
        self.values.append(array)

    def stacked(self, axis: int, body: Region, output: int) -> np.ndarray:
        """All values along a new ``axis``; without any, what the body declares of them."""
        if self.values:
            rank = self.values[0].ndim
            if not -rank - 1 <= axis <= rank:
                raise self.node.malformed(f"scan output axis {axis} of rank {rank + 1}")
            return np.stack(self.values, axis)
        declared = body.output_types[output] if output < len(body.output_types) else None
        return _empty(declared, axis)


def _empty(declared: onnx.TypeProto | None, axis: int) -> np.ndarray:
    if declared is None or not declared.HasField("tensor_type"):
        return np.zeros(0, np.float32)
    tensor = declared.tensor_type
    shape = [d.dim_value if d.dim_value > 0 else 0 for d in tensor.shape.dim]
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 0)
    return np.zeros(shape, dtype_of(tensor.elem_type).numpy)


def _axes(node: Host, name: str, given: list[int] | None, ranks: list[int]) -> list[int]:
    axes = given or [0] * len(ranks)
    if len(axes) != len(ranks) or any(not -r <= a < r for a, r in zip(axes, ranks, strict=True)):
        raise node.malformed(f"{name} {axes} for inputs of ranks {ranks}")
    return [a % r for a, r in zip(axes, ranks, strict=True)]


OPERATORS: HostTable = {
    ("", "If"): if_,
    ("", "Loop"): loop,
    ("", "Scan"): scan,
    ("", "SequenceMap"): sequence_map,
}
