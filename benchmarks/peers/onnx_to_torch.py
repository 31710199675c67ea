"""ONNX models as PyTorch modules, for the operators of inference: written as PyTorch's users would.

Tracing compilers see straight-line code: the loop over nodes unrolls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Attributes = Mapping[str, Any]
Step = Callable[..., Any]  # tensors (None: absent) → a tensor or a tuple of them


class Unknown(Exception):
    """An operator, or a form of it, that has no translation here."""


def module_of(torch: Any, model: onnx.ModelProto) -> Any:
    """``model`` as a module of its inputs in order; initializers are its buffers.

    Raises ``Unknown``.
    """
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    steps = [_step(torch, node, constants) for node in nodes]
    return _module(torch, model, constants, list(zip(nodes, steps, strict=True)))


def _module(torch: Any, model: onnx.ModelProto, constants: Any, steps: Any) -> Any:
    inputs = [port.name for port in model.graph.input if port.name not in constants]
    outputs = [port.name for port in model.graph.output]
    plan = [(step, tuple(node.input), tuple(node.output)) for node, step in steps]
    attribute = {name: f"c{k}" for k, name in enumerate(constants)}

    class OnnxModule(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, value in constants.items():
                tensor = torch.from_numpy(np.array(value))
                self.register_buffer(attribute[name], tensor)

        def forward(self, *given: Any) -> Any:
            known = dict(zip(inputs, given, strict=True))
            for name, held in attribute.items():
                known[name] = getattr(self, held)
            for step, sources, targets in plan:
                found = step(*[known[s] if s else None for s in sources])
                many = found if isinstance(found, tuple) else (found,)
                known.update(zip(targets, many, strict=False))
            return tuple(known[name] for name in outputs)

    return OnnxModule()


def _step(torch: Any, node: onnx.NodeProto, constants: Mapping[str, np.ndarray]) -> Step:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in _GATES:
        return _recurrent(torch, node, attributes, constants)
    if node.op_type in _STRUCTURE:  # what decides shapes must be known beforehand
        known = [constants.get(name) if name else None for name in node.input[1:]]
        if any(value is None and name for value, name in zip(known, node.input[1:], strict=True)):
            raise Unknown(f"{node.op_type} whose shape depends on data")
        return _structure(torch, node.op_type, attributes, known)
    plain = _plain(torch).get(node.op_type) or _window(torch, node.op_type, attributes)
    return plain or _normalised(torch, node.op_type, attributes)


def _plain(torch: Any) -> dict[str, Step]:
    """Operators without attributes."""
    functional = torch.nn.functional
    return {
        "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
        "MatMul": torch.matmul, "Relu": torch.relu, "Tanh": torch.tanh, "Erf": torch.erf,
        "Exp": torch.exp, "Sqrt": torch.sqrt, "Sigmoid": torch.sigmoid, "Neg": torch.neg,
        "Identity": lambda x: x, "Where": torch.where, "Reciprocal": torch.reciprocal,
        "GlobalAveragePool": lambda x: functional.adaptive_avg_pool2d(x, 1),
    }  # fmt: skip


def _pads(attributes: Attributes) -> Sequence[int]:
    """One number for each side of a window that is padded alike before and after."""
    pads = list(attributes.get("pads", ()))
    half = len(pads) // 2
    if pads[:half] != pads[half:] or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise Unknown("padding that differs before and after")
    return pads[:half] or 0  # type: ignore[return-value]


def _window(torch: Any, op: str, attributes: Attributes) -> Step | None:
    functional = torch.nn.functional
    strides = attributes.get("strides", 1)
    dilations, group = attributes.get("dilations", 1), attributes.get("group", 1)
    if op == "Conv":
        pads = _pads(attributes)
        return lambda x, w, b=None: functional.conv2d(x, w, b, strides, pads, dilations, group)
    if op == "MaxPool":
        kernel, pads = attributes["kernel_shape"], _pads(attributes)
        return lambda x: functional.max_pool2d(x, kernel, strides, pads, dilations)
    return None


def _normalised(torch: Any, op: str, attributes: Attributes) -> Step:
    functional = torch.nn.functional
    axis, epsilon = attributes.get("axis", -1), attributes.get("epsilon", 1e-5)
    match op:
        case "BatchNormalization":
            return lambda x, s, b, mean, var: functional.batch_norm(
                x, mean, var, s, b, False, 0.0, epsilon
            )
        case "Softmax":
            return lambda x: torch.softmax(x, axis)
        case "LayerNormalization" if axis == -1:
            return lambda x, s, b=None: functional.layer_norm(x, x.shape[-1:], s, b, epsilon)
        case "RMSNormalization" if axis == -1:
            return lambda x, s: functional.rms_norm(x, x.shape[-1:], s, epsilon)
        case "Attention" if attributes.keys() <= {"is_causal"}:
            causal = bool(attributes.get("is_causal"))
            attend = functional.scaled_dot_product_attention
            return lambda q, k, v: attend(q, k, v, is_causal=causal)
        case "Gelu":
            how = attributes.get("approximate", b"none").decode()
            return lambda x: functional.gelu(x, approximate=how)
        case "Gemm":
            return _gemm(torch, attributes)
        case "Gather":
            axis = attributes.get("axis", 0)
            return lambda x, i: functional.embedding(i, x) if not axis else _take(x, i, axis)
        case "Transpose":
            return lambda x: x.permute(attributes["perm"]).contiguous()
        case "Flatten":
            return lambda x: torch.flatten(x, attributes.get("axis", 1))
        case "Concat":
            return lambda *parts: torch.cat(parts, axis)
        case "Cast":
            kinds = {1: torch.float32, 7: torch.int64, 6: torch.int32, 9: torch.bool}
            if attributes["to"] in kinds:
                return lambda x: x.to(kinds[attributes["to"]])
    raise Unknown(op)


def _take(x: Any, indices: Any, axis: int) -> Any:
    """ONNX's Gather along ``axis``."""
    taken = x.index_select(axis, indices.reshape(-1))
    return taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gemm(torch: Any, attributes: Attributes) -> Step:
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    flip_a, flip_b = attributes.get("transA", 0), attributes.get("transB", 0)

    def gemm(a: Any, b: Any, c: Any = None) -> Any:
        left, right = a.T if flip_a else a, b.T if flip_b else b
        if c is not None:
            return torch.addmm(c, left, right, beta=beta, alpha=alpha)
        return torch.matmul(left, right) if alpha == 1.0 else alpha * torch.matmul(left, right)

    return gemm


# How many gates a layer has, and where PyTorch's are among ONNX's.
_GATES = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}


def _recurrent(
    torch: Any,
    node: onnx.NodeProto,
    attributes: Attributes,
    constants: Mapping[str, np.ndarray],
) -> Step:
    """A layer in one direction of known weights and biases, without an initial state."""
    order, known = _GATES[node.op_type], [constants.get(name) for name in node.input[1:]]
    hidden = attributes["hidden_size"]
    resets = node.op_type != "GRU" or attributes.get("linear_before_reset", 0)
    plain = not attributes.keys() - {"hidden_size", "linear_before_reset"}
    match known:
        case [np.ndarray() as w, np.ndarray() as r, np.ndarray() as biases] if plain and resets:
            parts = [w[0], r[0], *np.split(biases[0], 2)]
        case _:
            raise Unknown(f"this {node.op_type}")
    weights = [
        torch.from_numpy(np.concatenate([np.split(part, len(order))[gate] for gate in order]))
        for part in parts
    ]
    run = {"RNN": torch.rnn_tanh, "GRU": torch.gru, "LSTM": torch.lstm}[node.op_type]

    def step(x: Any, *_: Any) -> Any:
        zero = x.new_zeros(1, x.shape[1], hidden)
        state = (zero, zero) if node.op_type == "LSTM" else zero
        states, *last = run(x, state, weights, True, 1, 0.0, False, False, False)
        return (states.unsqueeze(1), *last)

    return step


_STRUCTURE = ("Reshape", "Unsqueeze", "Squeeze", "Clip", "ReduceSum", "ReduceMean", "ReduceMax")


def _structure(torch: Any, op: str, attributes: Attributes, known: Sequence[Any]) -> Step:
    """Operators whose further inputs are constants here."""
    value: Any = known[0].tolist() if known and known[0] is not None else None
    match op:
        case "Reshape":
            return lambda x, *_: x.reshape([s or x.shape[k] for k, s in enumerate(value)])
        case "Unsqueeze":
            axes = sorted(value)

            def unsqueeze(x: Any, *_: Any) -> Any:
                for axis in axes:
                    x = x.unsqueeze(axis)
                return x

            return unsqueeze
        case "Squeeze":
            return lambda x, *_: x.squeeze(tuple(value))
        case "Clip":
            high = known[1].tolist() if len(known) > 1 and known[1] is not None else None
            return lambda x, *_: torch.clamp(x, value, high)
    keep = bool(attributes.get("keepdims", 1))
    fold = {"ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax}[op]
    return lambda x, *_: fold(x, dim=tuple(value), keepdim=keep)
