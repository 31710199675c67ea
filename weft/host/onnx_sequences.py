"""Sequences and optionals: Python lists and None around tensors that compiled code makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.host.onnx_host import Data, Host, HostTable


def sequence_construct(node: Host) -> Sequence[Data]:
    return [[node.input(i) for i in range(len(node.inputs))]]


def sequence_empty(node: Host) -> Sequence[Data]:
    return [[]]


def sequence_insert(node: Host) -> Sequence[Data]:
    """A new sequence with the tensor before ``position``, at the end without one."""
    items = node.sequence(0)
    at = node.scalar(2, default=len(items))
    if not -len(items) <= at <= len(items):
        raise node.failed(f"position {at} of a sequence of {len(items)}")
    at = at + len(items) if at < 0 else at
    return [[*items[:at], node.input(1), *items[at:]]]


def sequence_erase(node: Host) -> Sequence[Data]:
    items = node.sequence(0)
    at = _position(node, items, node.scalar(1, default=-1))
    return [[*items[:at], *items[at + 1 :]]]


def sequence_at(node: Host) -> Sequence[Data]:
    items = node.sequence(0)
    return [items[_position(node, items, node.scalar(1))]]


def _position(node: Host, items: list[Data], at: int) -> int:
    if not -len(items) <= at < len(items):
        raise node.failed(f"position {at} of a sequence of {len(items)}")
    return at % len(items)


def sequence_length(node: Host) -> Sequence[Data]:
    return [np.array(len(node.sequence(0)), np.int64)]


def split_to_sequence(node: Host) -> Sequence[Data]:
    """Pieces along ``axis``: as long as ``split`` says, or of 1 with the axis kept or dropped."""
    data = node.array(0)
    axis = int(node.attribute("axis", 0))
    if not -data.ndim <= axis < data.ndim:
        raise node.malformed(f"axis {axis} of rank {data.ndim}")
    size = data.shape[axis]
    split = node.optional(1)
    lengths = _lengths(node, size, None if split is None else np.asarray(split))
    if not lengths:
        return [[]]
    pieces = node.tensor(
        "Split", data, np.array(lengths, np.int64), outputs=len(lengths), axis=axis
    )
    if split is None and not node.attribute("keepdims", 1):
        pieces = [node.tensor("Squeeze", p, np.array([axis], np.int64))[0] for p in pieces]
    return [pieces]


def _lengths(node: Host, size: int, split: np.ndarray | None) -> list[int]:
    if split is None:
        return [1] * size
    if split.ndim == 0:
        step = int(split)
        if step < 1:
            raise node.failed(f"split is {step}")
        return [min(step, size - at) for at in range(0, size, step)]
    lengths = [int(n) for n in split.reshape(-1)]
    if any(n < 0 for n in lengths) or sum(lengths) != size:
        raise node.failed(f"split {lengths[:8]} of a size of {size}")
    return lengths


def concat_from_sequence(node: Host) -> Sequence[Data]:
    items = [np.asarray(x) for x in node.sequence(0)]
    axis = int(node.attribute("axis", 0))
    if not items:
        raise node.failed("an empty sequence cannot be concatenated")
    if node.attribute("new_axis", 0):
        at = np.array([axis], np.int64)
        items = [node.tensor("Unsqueeze", x, at)[0] for x in items]
    return node.tensor("Concat", *items, axis=axis)


def identity(node: Host) -> Sequence[Data]:
    return [node.optional(0)]


def optional(node: Host) -> Sequence[Data]:
    return [node.optional(0)]


def optional_has_element(node: Host) -> Sequence[Data]:
    return [np.array(node.optional(0) is not None)]


def optional_get_element(node: Host) -> Sequence[Data]:
    return [node.input(0)]


OPERATORS: HostTable = {
    ("", "SequenceConstruct"): sequence_construct,
    ("", "SequenceEmpty"): sequence_empty,
    ("", "SequenceInsert"): sequence_insert,
    ("", "SequenceErase"): sequence_erase,
    ("", "SequenceAt"): sequence_at,
    ("", "SequenceLength"): sequence_length,
    ("", "SplitToSequence"): split_to_sequence,
    ("", "ConcatFromSequence"): concat_from_sequence,
    ("", "Identity"): identity,
    ("", "Optional"): optional,
    ("", "OptionalHasElement"): optional_has_element,
    ("", "OptionalGetElement"): optional_get_element,
}
