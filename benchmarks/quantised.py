"""Quantised ResNet-18 beside integer arithmetic in NumPy, node by node of the ONNX model.

    python -m benchmarks.quantised          exact or not, accuracy beside floating point, latencies

The reference knows the model and the exponents that were chosen. Sums are in float64, where all of
these integers are exact, so that BLAS makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

import weft
from weft.app.measure import take_turns
from weft.frontend.zoo.registry import MODELS
from weft.graph.quantize import Layer

Array = np.ndarray[Any, Any]
CALIBRATED, COMPARED = 4, 16


def main() -> None:
    zoo = MODELS["resnet18"]
    model = zoo.build()
    inputs = [zoo.seeded_inputs(seed) for seed in range(1, 1 + CALIBRATED + COMPARED)]
    quantized = weft.quantize(model, inputs[:CALIBRATED])
    program, whole = weft.compile(quantized), weft.compile(model)
    given = inputs[-1]
    exact = np.array_equal(program.run(given)["output"], reference(model, quantized, given))
    print(quantized.accuracy(inputs[CALIBRATED:]))
    times = take_turns([lambda: program.run(given), lambda: whole.run(given)])
    print(f"int8 {times[0].median * 1e3:.2f} ms, float32 {times[1].median * 1e3:.2f} ms")
    print("equal to the integer reference" if exact else "NOT equal to the integer reference")
    if not exact:
        raise SystemExit(1)


def reference(
    model: onnx.ModelProto, quantized: weft.Quantized, inputs: Mapping[str, Array]
) -> Array:
    """The output that ``quantized`` must have."""
    data = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    folded = quantized.original.constants
    layers = {layer.name: layer for layer in quantized.layers}
    exponents = {name: exponent for name, (_, exponent) in quantized.held.items()}
    values: dict[str, Array] = {}
    for name, array in inputs.items():
        values[name] = nearest(array, exponents[name])
    pending: dict[str, tuple[str, Array, Array]] = {}  # operand, weights and addend of a layer
    shape: dict[str, tuple[int, int]] = {}  # its stride and padding
    sums: dict[str, tuple[str, str]] = {}
    for node in model.graph.node:
        x, name = node.input[0], node.output[0]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        layer = layers.get(name)
        match node.op_type:
            case "Conv":
                pending[name] = x, data[node.input[1]].astype(np.float64), np.zeros(1)
                strides, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4)
                shape[name] = strides[0], pads[0]
                continue
            case "BatchNormalization":
                operand, weights, _ = pending[x]
                a, b = (folded[f"{name}.{k}"].astype(np.float64) for k in (1, 2))
                pending[name] = operand, weights * a[:, None, None, None], b
                shape[name] = shape[x]
                if layer is None:
                    continue
                values[name] = convolved(values, exponents, pending[name], layer, *shape[name])
            case "Relu" if x in pending and layer is not None:
                y = convolved(values, exponents, pending[x], layer, *shape[x])
                values[name] = np.maximum(y, 0)
            case "Relu" if layer is not None:
                values[name] = np.maximum(added(values, exponents, sums[x], layer.result), 0)
            case "Add":
                sums[name] = node.input[0], node.input[1]
            case "MaxPool":
                values[name] = pooled(values[x])
            case "GlobalAveragePool" if layer is not None:
                values[name] = averaged(values[x], exponents[x], layer.result)
            case "Flatten":
                values[name] = values[x].reshape(len(values[x]), -1)
            case "Gemm" if layer is not None:
                w, b = (data[n].astype(np.float64) for n in node.input[1:])
                exponent = exponents[x] + layer.weights[0]
                y = values[x] @ nearest(w, layer.weights[0]).T + nearest(b, exponent, 2**40)
                values[name] = requantised(y, exponent, layer.result)
    name = model.graph.output[0].name
    return np.asarray(np.ldexp(values[name], exponents[name]), np.float32)


def nearest(values: Array, exponent: int, largest: float = 127) -> Array:
    scaled = np.rint(np.ldexp(values.astype(np.float64), -exponent))
    return np.asarray(np.clip(scaled, -largest, largest))


def requantised(values: Array, exponent: int, goal: int) -> Array:
    return np.asarray(np.clip(np.floor(np.ldexp(values, exponent - goal) + 0.5), -127, 127))


def convolved(
    values: Mapping[str, Array],
    exponents: Mapping[str, int],
    operands: tuple[str, Array, Array],
    layer: Layer,
    stride: int,
    pad: int,
) -> Array:
    name, weights, addend = operands
    w = nearest(weights, layer.weights[0])
    exponent = exponents[name] + layer.weights[0]
    edges = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    places = (2, 3)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(values[name], edges), w.shape[2:], places
    )[:, :, ::stride, ::stride]
    y = np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    y = y + nearest(addend, exponent, 2**40)[:, None, None]
    return requantised(y, exponent, layer.result)


def added(
    values: Mapping[str, Array], exponents: Mapping[str, int], names: tuple[str, str], goal: int
) -> Array:
    one, two = (np.ldexp(values[name], exponents[name]) for name in names)
    return requantised(one + two, 0, goal)


def pooled(x: Array) -> Array:
    """The greatest of 3 by 3 with stride 2."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-127)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.asarray(windows[:, :, ::2, ::2].max((4, 5)))


def averaged(x: Array, exponent: int, goal: int) -> Array:
    """The mean of 7 by 7, by a factor of 15 bits."""
    mantissa, power = np.frexp(1 / (x.shape[2] * x.shape[3]))
    total = x.sum((2, 3), keepdims=True) * np.rint(mantissa * 2**15)
    return requantised(total, exponent + int(power) - 15, goal)


if __name__ == "__main__":
    main()
