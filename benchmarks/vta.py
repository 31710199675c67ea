"""ResNet-18 on VTA: cycles by the written rules, exact against integers in NumPy.

The ten layers of the TVM project's tables, C2 to C11, each with bias, shift and clip, as often as
ResNet-18 has it; its residual adds are rows of their own. Then the whole model, quantised: all that
is computed on the accelerator, the first layer, pool, residual adds and last product included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from weft.accel.execution_order import ORDERS
from weft.accel.machines.vta import Config, vta
from weft.accel.place import Offloaded
from weft.accel.timing import timing
from weft.benchmarks.quantised import CALIBRATED, reference
from weft.frontend.operators.conv import convolve, kernel_window
from weft.frontend.zoo.registry import MODELS
from weft.ir import dtypes
from weft.ir.build import compute, maximum, minimum, placeholder
from weft.ir.scalar_expr import Expr, cast, literal
from weft.ir.tensor_expr import Program, Tensor, constant_size
from weft.offload.accelerated import Accelerated
from weft.offload.offload import Target, offload
from weft.offload.simulator import check_stream, simulate
from weft.polyhedral.from_tensor_expr import lower

Array = np.ndarray[Any, Any]
Row = dict[str, Any]
SHIFT = 8

# The default one, two images at once, larger blocks, small memories.
CONFIGS = {
    "default": Config(),
    "batch 2": Config(log_batch=1),
    "block 32": Config(log_block=5, log_wgt_buff_size=19, log_inp_buff_size=16),
    "small": Config(
        log_uop_buff_size=12, log_inp_buff_size=13, log_wgt_buff_size=16, log_acc_buff_size=15
    ),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of ``size`` by ``size`` elements, padded by half of its kernel, or ``around``
    that."""

    name: str
    occurrences: int
    channels: int
    filters: int
    size: int
    kernel: int
    stride: int
    around: int | None = None

    @property
    def pad(self) -> int:
        return self.kernel // 2 if self.around is None else self.around

    @property
    def outputs(self) -> int:
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def macs(self) -> int:
        return self.channels * self.filters * (self.kernel * self.outputs) ** 2

    @property
    def label(self) -> str:
        stride = f" s{self.stride}" if self.stride > 1 else ""
        return (
            f"{self.name} {self.channels}→{self.filters} {self.size}² "
            f"{self.kernel}×{self.kernel}{stride}"
        )


LAYERS = (
    Layer("C2", 4, 64, 64, 56, 3, 1),
    Layer("C3", 1, 64, 128, 56, 3, 2),
    Layer("C4", 1, 64, 128, 56, 1, 2),
    Layer("C5", 3, 128, 128, 28, 3, 1),
    Layer("C6", 1, 128, 256, 28, 3, 2),
    Layer("C7", 1, 128, 256, 28, 1, 2),
    Layer("C8", 3, 256, 256, 14, 3, 1),
    Layer("C9", 1, 256, 512, 14, 3, 2),
    Layer("C10", 1, 256, 512, 14, 1, 2),
    Layer("C11", 3, 512, 512, 7, 3, 1),
)
QUICK = ("C4", "C8", "C10")
ADDS = ((64, 56), (128, 28), (256, 14), (512, 7))  # channels and sizes, two of each


def program(layer: Layer) -> Program:
    """int8 sums in int32, plus a bias, shifted, clipped to 0 … 127."""
    x = placeholder((1, layer.channels, layer.size, layer.size), dtypes.int8, name="x")
    shape = (layer.filters, layer.channels, layer.kernel, layer.kernel)
    w = placeholder(shape, dtypes.int8, name="w")
    bias = placeholder((layer.filters,), dtypes.int32, name="bias")
    window = kernel_window(x, w, (layer.stride,) * 2, (layer.pad,) * 4, None)
    sums = convolve(x, w, window, 1)
    y = compute(sums.shape, lambda *i: _clipped((sums[i] + bias[i[1]]) >> SHIFT, 0), name="y")
    return Program(layer.name, (x, w, bias), (y,))


def residual(channels: int, size: int) -> Program:
    """Two int8 tensors added, clipped to 0 … 127."""
    shape = (1, channels, size, size)
    a, b = (placeholder(shape, dtypes.int8, name=name) for name in "ab")

    def body(*i: Any) -> Expr:
        return _clipped(cast(a[i], dtypes.int32) + cast(b[i], dtypes.int32), 0)

    return Program("add", (a, b), (compute(shape, body, name="y"),))


def _clipped(value: Expr, low: int) -> Expr:
    clipped = minimum(maximum(value, literal(low, dtypes.int32)), literal(127, dtypes.int32))
    return cast(clipped, dtypes.int8)


def data_for(given: Program, seed: int = 0) -> dict[str, Array]:
    """Random values of all inputs."""
    generator = np.random.default_rng(seed)
    return {tensor.name: _random(tensor, generator) for tensor in given.inputs}


def _random(tensor: Tensor, generator: np.random.Generator) -> Array:
    shape = [constant_size(size) or 0 for size in tensor.shape]
    low, high = (-128, 128) if tensor.dtype == dtypes.int8 else (-(1 << 12), 1 << 12)
    found: Array = generator.integers(low, high, shape).astype(tensor.dtype.numpy)
    return found


def expected(layer: Layer, data: dict[str, Array]) -> Array:
    """The layer in int64, tap by tap."""
    pad, stride, outputs = layer.pad, layer.stride, layer.outputs
    x = np.pad(data["x"].astype(np.int64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    w = data["w"].astype(np.int64)
    sums = np.zeros((1, layer.filters, outputs, outputs), np.int64)
    reach = stride * (outputs - 1) + 1
    for r in range(layer.kernel):
        for s in range(layer.kernel):
            part = x[:, :, r : r + reach : stride, s : s + reach : stride]
            sums += np.tensordot(w[:, :, r, s], part, axes=(1, 1)).swapaxes(0, 1)
    shifted = (sums + data["bias"][None, :, None, None]) >> SHIFT
    result: Array = np.clip(shifted, 0, 127).astype(np.int8)
    return result


def run(quick: bool, configs: tuple[str, ...]) -> Iterator[Row]:
    """A row for each layer of each configuration; after those of one, what they come to; last the
    whole model, for each."""
    for name in configs:
        target = Target.of(vta(CONFIGS[name]))
        rows: list[Row] = []
        for layer in LAYERS:
            if not quick or layer.name in QUICK:
                rows.append(_layer_row(layer, target, name, quick))
                yield rows[-1]
        if not quick:
            yield _total(rows, name)
            yield from (_add_row(channels, size, target, name) for channels, size in ADDS)
    if not quick:
        yield from whole_rows(configs)


def _layer_row(layer: Layer, target: Target, config: str, quick: bool) -> Row:
    given = program(layer)
    data = data_for(given)
    hidden, plain = (_offloaded(given, target, data, buffers) for buffers in (2, 1))
    right = _exact(hidden, target, data, expected(layer, data), quick)
    cycles, alone = (timing(each.artifact.stream).cycles for each in (hidden, plain))
    width = target.machine.memory("wgt").shape[0] * target.machine.memory("wgt").shape[1]
    lanes = width * target.machine.memory("inp").shape[0]
    return _row(layer.label, config, layer.occurrences, cycles, alone, hidden, right) | {
        "utilisation": round(layer.macs / lanes / cycles, 4)
    }


def _add_row(channels: int, size: int, target: Target, config: str) -> Row:
    given = residual(channels, size)
    data = data_for(given)
    hidden, plain = (_offloaded(given, target, data, buffers) for buffers in (2, 1))
    wanted = np.clip(data["a"].astype(int) + data["b"], 0, 127).astype(np.int8)
    right = _exact(hidden, target, data, wanted, True)
    cycles, alone = (timing(each.artifact.stream).cycles for each in (hidden, plain))
    return _row(f"residual add {channels} {size}²", config, 2, cycles, alone, hidden, right)


def _row(
    name: str, config: str, occurrences: int, cycles: int, alone: int, made: Offloaded, right: bool
) -> Row:
    return {
        "name": name,
        "configuration": config,
        "occurrences": occurrences,
        "cycles": cycles,
        "cycles_without_latency_hiding": alone,
        "utilisation": "",
        "dram_bytes": made.bytes,
        "instructions": len(made.artifact.stream.issues),
        "exact": right,
        "right": right,
    }


def _total(rows: list[Row], config: str) -> Row:
    def total(key: str) -> int:
        return sum(row[key] * row["occurrences"] for row in rows)

    right = all(row["right"] for row in rows)
    return {
        "name": "ResNet-18, these layers",
        "configuration": config,
        "occurrences": sum(row["occurrences"] for row in rows),
        "cycles": total("cycles"),
        "cycles_without_latency_hiding": total("cycles_without_latency_hiding"),
        "utilisation": "",
        "dram_bytes": total("dram_bytes"),
        "instructions": total("instructions"),
        "exact": right,
        "right": right,
    }


def whole_rows(configs: tuple[str, ...]) -> Iterator[Row]:
    """A row of the whole model for each configuration, beside ``reference``."""
    zoo = MODELS["resnet18"]
    model = zoo.build()
    *calibrated, given = (zoo.seeded_inputs(seed) for seed in range(1, CALIBRATED + 2))
    quantized = weft.quantize(model, calibrated)
    wanted = reference(model, quantized, given)
    for name in configs:
        made = weft.compile(quantized, target=vta(CONFIGS[name]))
        assert isinstance(made, Accelerated), "it was made for an accelerator"
        made.check()
        yield _whole_row(made, name, np.array_equal(made.run(given)["output"], wanted))


def _whole_row(made: Accelerated, config: str, right: bool) -> Row:
    layers = made.layers
    return {
        "name": f"ResNet-18, all {len(layers)} parts on the accelerator",
        "configuration": config,
        "occurrences": 1,
        "cycles": sum(layer.cycles for layer in layers),
        "cycles_without_latency_hiding": "",
        "utilisation": "",
        "dram_bytes": sum(layer.bytes for layer in layers),
        "instructions": sum(layer.instructions for layer in layers),
        "exact": right,
        "right": right,
    }


def _offloaded(given: Program, target: Target, data: dict[str, Array], buffers: int) -> Offloaded:
    constants: dict[str, Array] = {n: data[n] for n in ("w", "bias") if n in data}
    return offload(lower(given, given.name), target, constants, buffers=buffers)


def _exact(
    made: Offloaded, target: Target, data: dict[str, Array], wanted: Array, quick: bool
) -> bool:
    """Whether the checker accepts the stream, and it computes what is ``wanted`` in all orders, out
    of poisoned memories."""
    artifact = made.artifact
    check_stream(artifact, target.semantics)
    image = artifact.filled(made.prepared(data))
    found = (
        made.results(simulate(artifact.stream, image, order=order, semantics=target.semantics))
        for order in (ORDERS[:1] if quick else ORDERS)
    )
    return all(np.array_equal(each, wanted) for each in found)
