"""Run compiled programs on memory that ends, or begins, at a page that nobody may touch.

``python -m tests.guarded`` runs every case below; an access outside any input, output, constant or
the arena kills the process, and the last name printed says in which case. ``--overrun`` reads one
element too far on purpose, to show that this is so.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.codegen.objects.native_library import NativeProgram
from weft.driver.options import Options
from weft.ir.size_arithmetic import bind, evaluate
from weft.runtime.executable import Executable

PAGE = mmap.PAGESIZE
THREADS = 2
OPTIONS = Options(cache=False, workers=0, texts=False)


def forbid(page: int) -> None:
    """Take away all rights to the page at address ``page``."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


class Guarded:
    """``size`` bytes between two pages without any rights, at the end of theirs or the start.

    All bytes between these pages are ``CANARY`` at first: NaN in floats, -1 in integers.
    """

    CANARY = 0xFF

    def __init__(self, size: int, *, at_end: bool, alignment: int = 1) -> None:
        pages = max(1, -(-size // PAGE))
        self.memory = mmap.mmap(-1, (pages + 2) * PAGE)
        self.bytes = np.frombuffer(self.memory, np.uint8)
        base = self.bytes.ctypes.data
        for page in (base, base + (pages + 1) * PAGE):
            forbid(page)
        self.bytes[PAGE : (pages + 1) * PAGE] = self.CANARY
        offset = (pages * PAGE - size) // alignment * alignment if at_end else 0
        self.start = PAGE + offset
        self.size = size
        self.address = base + self.start

    def array(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        return self.bytes[self.start : self.start + self.size].view(dtype).reshape(shape)

    def intact(self) -> bool:
        """Whether nothing was written beside the ``size`` bytes."""
        before = self.bytes[PAGE : self.start]
        behind = self.bytes[self.start + self.size : -PAGE]
        return bool((before == self.CANARY).all() and (behind == self.CANARY).all())

    @classmethod
    def copy(cls, data: np.ndarray, *, at_end: bool) -> Guarded:
        made = cls(data.nbytes, at_end=at_end)
        if data.nbytes:
            made.array(data.shape, data.dtype)[...] = data
        return made


def run_guarded(
    executable: Executable, inputs: Sequence[np.ndarray], *, at_end: bool
) -> list[np.ndarray]:
    """The outputs of ``executable``, all its memory guarded."""
    compiled = executable.compiled
    native = NativeProgram(compiled.objects, compiled.entry)
    sizes = bind([s.shape for s in compiled.inputs], [a.shape for a in inputs], compiled.derived)
    shapes = [tuple(evaluate(n, sizes) for n in spec.shape) for spec in compiled.outputs]
    given = [Guarded.copy(array, at_end=at_end) for array in inputs]
    constants = [Guarded.copy(array, at_end=at_end) for _, array in compiled.constants]
    results = [
        Guarded(int(np.prod(shape)) * spec.dtype.itemsize, at_end=at_end)
        for shape, spec in zip(shapes, compiled.outputs, strict=True)
    ]
    parameters = [sizes[name] for name in compiled.parameters]
    call_guarded(native, (given, results, constants), parameters, at_end=at_end)
    pairs = zip(results, shapes, compiled.outputs, strict=True)
    return [np.array(g.array(shape, spec.dtype.numpy)) for g, shape, spec in pairs]


def call_guarded(
    native: NativeProgram,
    memory: tuple[Sequence[Guarded], ...],
    parameters: Sequence[int],
    *,
    at_end: bool,
) -> None:
    """Call ``native`` on ``memory`` (inputs, outputs, constants), its arena guarded as well."""
    values = np.array([*parameters, 0], np.int64)
    room = native.arena_bytes(values.ctypes.data, THREADS)
    assert room >= 0, f"an arena of {room} bytes"
    arena = Guarded(room, at_end=at_end, alignment=64)
    tables = [np.array([*(g.address for g in part), 0]) for part in memory]
    status = np.zeros(4, np.int64)
    code = native.entry(
        *(table.ctypes.data for table in tables),
        arena.address,
        values.ctypes.data,
        status.ctypes.data,
        THREADS,
    )
    assert code == 0, f"status {status}"


# ---- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    source: Callable[[], object]  # what ``weft.compile`` takes
    shapes: tuple[tuple[int, ...], ...] = ()  # of the inputs, where they are symbolic


def operator(
    op: str, inputs: dict[str, tuple[str, tuple[int, ...]]], output: tuple[str, int] | None = None,
    constants: dict[str, np.ndarray] | None = None, **attributes: object,
) -> Callable[[], onnx.ModelProto]:  # fmt: skip
    """A model of one node; ``inputs``: name -> (dtype, shape); ``output``: its dtype and rank."""

    def build() -> onnx.ModelProto:
        known = constants or {}
        names = [*inputs, *known]
        node = helper.make_node(op, names, ["result"], **attributes)
        kind, rank = output or (next(iter(inputs.values()))[0], len(next(iter(inputs.values()))[1]))
        graph = helper.make_graph(
            [node],
            op,
            [_value(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
            [_value("result", kind, [None] * rank)],
            [numpy_helper.from_array(data, name) for name, data in known.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    return build


def _value(name: str, dtype: str, shape: Sequence[int | None]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)


def symbolic_matmul() -> weft.Tensor:
    m, n, h = weft.var("m"), weft.var("n"), weft.var("h")
    a, b = weft.placeholder((m, h), name="a"), weft.placeholder((n, h), name="b")
    k = weft.reduce_axis((0, h), name="k")
    return weft.compute((m, n), lambda i, j: weft.sum(a[i, k] * b[j, k], axis=k), name="c")


def attention() -> weft.Tensor:
    q, k, v = (weft.placeholder((2, 13, 11), name=name) for name in "qkv")
    d, t = weft.reduce_axis((0, 11), name="d"), weft.reduce_axis((0, 13), name="t")
    u, s = weft.reduce_axis((0, 13), name="u"), weft.reduce_axis((0, 13), name="s")
    full = (2, 13, 13)
    scores = weft.compute(
        full, lambda b, i, j: weft.sum(q[b, i, d] * k[b, j, d], axis=d), name="scores"
    )
    top = weft.compute((2, 13), lambda b, i: weft.max_over(scores[b, i, t], axis=t), name="top")
    shifted = weft.compute(
        full, lambda b, i, j: weft.exp(scores[b, i, j] - top[b, i]), name="shifted"
    )
    total = weft.compute((2, 13), lambda b, i: weft.sum(shifted[b, i, u], axis=u), name="total")
    return weft.compute(
        (2, 13, 11),
        lambda b, i, e: weft.sum(shifted[b, i, s] / total[b, i] * v[b, s, e], axis=s),
        name="mixed",
    )


def weights(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(dtype)


CASES = [
    Case("conv with pads and a stride", operator(
        "Conv", {"x": ("FLOAT", (1, 3, 17, 19))}, constants={"w": weights(5, 3, 3, 5)},
        pads=[1, 2, 1, 2], strides=[2, 1])),
    Case("depthwise conv, dilated", operator(
        "Conv", {"x": ("FLOAT", (2, 7, 11, 13))}, constants={"w": weights(7, 1, 3, 3)},
        group=7, dilations=[2, 2], pads=[2, 1, 0, 2])),
    Case("max pool, ceil", operator(
        "MaxPool", {"x": ("FLOAT", (1, 3, 11, 13))}, kernel_shape=[3, 2], strides=[2, 2],
        pads=[1, 0, 1, 1], ceil_mode=1)),
    Case("average pool", operator(
        "AveragePool", {"x": ("FLOAT", (1, 5, 7, 23))}, kernel_shape=[3, 3], pads=[1, 1, 1, 1])),
    Case("gather", operator(
        "Gather", {"x": ("FLOAT", (5, 17)), "i": ("INT64", (3, 7))}, ("FLOAT", 3), axis=0)),
    Case("dense, constant weights", operator(
        "Gemm", {"x": ("FLOAT", (13, 37))},
        constants={"w": weights(29, 37), "b": weights(29)}, transB=1)),
    *(Case(f"matmul {m}x{h}x{n}", symbolic_matmul, ((m, h), (n, h)))
      for m, h, n in ((1, 1, 1), (17, 31, 13), (3, 67, 101), (0, 5, 7), (7, 0, 5))),
    Case("attention", attention),
    Case("lstm", operator(
        "LSTM", {"x": ("FLOAT", (5, 3, 7))}, ("FLOAT", 4),
        constants={"w": weights(1, 20, 7), "r": weights(1, 20, 5), "b": weights(1, 40)},
        hidden_size=5)),
    Case("half precision", operator("Softmax", {"x": ("FLOAT16", (7, 19))}, axis=-1)),
    Case("half precision, columns", operator(
        "ReduceMean", {"x": ("FLOAT16", (19, 7))}, axes=[0], keepdims=1)),
    Case("bytes", operator(
        "MatMulInteger", {"a": ("INT8", (7, 13)), "b": ("INT8", (13, 19))}, ("INT32", 2))),
    Case("transposed bytes", operator("Transpose", {"x": ("UINT8", (67, 131))}, perm=[1, 0])),
    Case("scatter", operator(
        "ScatterElements", {"x": ("FLOAT", (5, 7)), "i": ("INT64", (3, 7)),
                            "u": ("FLOAT", (3, 7))}, ("FLOAT", 2), axis=0)),
    Case("resize", operator(
        "Resize", {"x": ("FLOAT", (1, 2, 7, 5))},
        constants={"roi": np.zeros(0, np.float32),
                   "scales": np.array([1, 1, 1.7, 2.3], np.float32)}, mode="linear")),
    Case("arg max", operator(
        "ArgMax", {"x": ("FLOAT", (3, 17))}, ("INT64", 2), axis=1)),
    Case("running sums", operator(
        "CumSum", {"x": ("FLOAT", (7, 19))}, constants={"axis": np.array(1)})),
    Case("transposed conv", operator(
        "ConvTranspose", {"x": ("FLOAT", (1, 3, 5, 7))}, constants={"w": weights(3, 2, 3, 3)},
        strides=[2, 2], pads=[1, 1, 0, 1])),
    Case("quantize", operator(
        "QuantizeLinear", {"x": ("FLOAT", (5, 23))}, ("UINT8", 2),
        constants={"s": np.array(0.03, np.float32), "z": np.array(128, np.uint8)})),
    Case("layer normalisation", operator(
        "LayerNormalization", {"x": ("FLOAT", (11, 29))},
        constants={"s": weights(29), "b": weights(29)}, axis=-1)),
    Case("concat", operator(
        "Concat", {"x": ("FLOAT", (3, 5)), "y": ("FLOAT", (3, 17))}, axis=1)),
    Case("reversed slice", operator(
        "Slice", {"x": ("FLOAT", (11, 37))},
        constants={"s": np.array([36]), "e": np.array([-100]), "a": np.array([1]),
                   "t": np.array([-3])})),
    Case("one element", operator("Exp", {"x": ("DOUBLE", (1,))})),
    Case("no element", operator("Exp", {"x": ("FLOAT", (0, 3))})),
    Case("a scalar", operator("Tanh", {"x": ("FLOAT", ())})),
]  # fmt: skip


def inputs_of(executable: Executable, case: Case) -> list[np.ndarray]:
    random = np.random.default_rng(4)
    found = []
    for number, spec in enumerate(executable.inputs):
        shape = case.shapes[number] if case.shapes else tuple(evaluate(n, {}) for n in spec.shape)
        if spec.dtype.is_float:
            found.append(random.standard_normal(shape).astype(spec.dtype.numpy))
        else:  # they may be indices
            found.append(random.integers(0, 5, shape).astype(spec.dtype.numpy))
    return found


def compiled_cases() -> Iterator[tuple[Case, Executable]]:
    known: dict[object, Executable] = {}
    for case in CASES:
        if case.source not in known:
            known[case.source] = weft.compile(case.source(), options=OPTIONS)  # type: ignore[assignment]
        yield case, known[case.source]


def main() -> None:
    for case, executable in compiled_cases():
        print(case.name, flush=True)
        inputs = inputs_of(executable, case)
        names = [spec.name for spec in executable.inputs]
        wanted = list(executable.run(dict(zip(names, inputs, strict=True))).values())
        for at_end in (True, False):
            results = run_guarded(executable, inputs, at_end=at_end)
            for result, want in zip(results, wanted, strict=True):
                assert result.tobytes() == want.tobytes(), (case.name, at_end)
    print("done", flush=True)


def overrun() -> None:
    """Kill this process: read the element behind the last."""
    memory = Guarded.copy(np.zeros(3, np.float32), at_end=True)
    print(ctypes.c_float.from_address(memory.address + 8).value, flush=True)
    print(ctypes.c_float.from_address(memory.address + 12).value)


if __name__ == "__main__":
    overrun() if "--overrun" in sys.argv else main()
