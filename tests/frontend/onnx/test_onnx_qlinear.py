"""Quantised operators of com.microsoft beside onnxruntime, whose operators they are: bit for bit
where results are integers, by the interpreter and, once each, as machine code."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import helper

try:
    import onnxruntime
except ImportError:
    warnings.warn("com.microsoft is NOT compared: onnxruntime is missing", stacklevel=1)
    pytest.skip("onnxruntime is not installed: pip install 'weft[peers]'", allow_module_level=True)

import weft
from tests.frontend.onnx.run_onnx import run_model
from weft.ir.errors import ModelError, UnsupportedError

Arrays = list[np.ndarray | None]
F, I32 = np.float32, np.int32
OPTIONS = weft.Options(threads=1, cache=False, workers=0)
SEEDS = range(6)


def model_of(op: str, arrays: Arrays, dtype: type, **attributes: object) -> onnx.ModelProto:
    names = ["" if a is None else f"x{k}" for k, a in enumerate(arrays)]
    element = helper.np_dtype_to_tensor_dtype
    ports = [
        helper.make_tensor_value_info(n, element(a.dtype), a.shape)
        for n, a in zip(names, map(np.asarray, arrays), strict=True)
        if n
    ]
    out = helper.make_tensor_value_info("y", element(np.dtype(dtype)), None)
    node = helper.make_node(op, names, ["y"], name="it", domain="com.microsoft", **attributes)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "one", ports, [out])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def oracle(model: onnx.ModelProto, arrays: list[np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {v.name: a for v, a in zip(model.graph.input, arrays, strict=True)}
    return session.run(None, feeds)[0]


def check(
    op: str,
    arrays: Arrays,
    dtype: type | None = None,
    native: bool = False,
    near: float = 1e-5,
    alike: Arrays | None = None,
    **attributes: object,
) -> None:
    """Integers are equal; floats within ``near`` of the largest. The oracle may get arrays
    ``alike``."""
    arrays = [None if a is None else np.asarray(a) for a in arrays]
    dtype = dtype or arrays[0].dtype
    model = model_of(op, arrays, dtype, **attributes)
    given = [a for a in arrays if a is not None]
    there = [np.asarray(a) for a in alike or arrays if a is not None]
    expected = oracle(model_of(op, alike or arrays, dtype, **attributes), there)
    found = run_model(model, given)
    if native:
        found.append(weft.compile(model, options=OPTIONS)(*given))
    for y in found:
        assert y.shape == expected.shape and y.dtype == expected.dtype
        if y.dtype == F:
            largest = np.abs(expected).max(initial=1)
            np.testing.assert_allclose(y, expected, rtol=near, atol=near * largest)
        else:
            np.testing.assert_array_equal(y, expected)


class Random:
    """Random tensors of one small type, scales whose ratios make ties, zero points at the ends."""

    def __init__(self, seed: int, dtype: type | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype or (np.uint8, np.int8)[seed % 2]
        self.limits = np.iinfo(self.dtype)

    def tensor(self, *shape: int) -> np.ndarray:
        low, high = self.limits.min, self.limits.max
        whole = self.rng.integers(low, high, shape, endpoint=True)
        return np.where(self.rng.random(shape) < 0.1, high, whole).astype(self.dtype)

    def scale(self) -> np.float32:
        return F(self.rng.integers(1, 40) / F(self.rng.choice([10, 16, 100, 127, 255])))

    def zero(self) -> np.ndarray:
        ends = [self.limits.min, self.limits.max, int(self.tensor())]
        return self.dtype(ends[self.rng.integers(3)])

    def two(self) -> tuple[np.float32, np.ndarray]:
        return self.scale(), self.zero()


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize(
    "left, right",
    [((3, 101), (3, 101)), ((1,), (101,)), ((101,), ()), ((7, 1), (7, 13)), ((2, 7, 13), (7, 1)),
     ((13,), (7, 13)), ((), ()), ((3, 1, 5), (4, 1)), ((0, 3), (3,)), ((1, 1, 2), (3, 1, 1))],
)  # fmt: skip
def test_sums_and_products(op: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    for seed in SEEDS:
        r = Random(seed)
        a, b = r.tensor(*left), r.tensor(*right)
        check(op, [a, *r.two(), b, *r.two(), *r.two()], native=seed == 0 and a.size > 100)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_scales_far_apart(op: str, dtype: type) -> None:
    """The least and the greatest results, and such as a scale hides; below 2**31, beyond which
    onnxruntime's conversion to int32 gives the least instead of the greatest."""
    r = Random(3, dtype)
    a, b = r.tensor(257), r.tensor(257)
    for scales in ((1e-30, 1e-8, 1.0), (1e3, 10.0, 1.0), (1e-20, 1e-21, 1e-17), (3e5, 1e-9, 7.0)):
        sa, sb, sy = map(F, scales)
        check(op, [a, sa, r.zero(), b, sb, r.zero(), sy, r.zero()])


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_absent_zero_points_are_zero(op: str) -> None:
    """onnxruntime's inference of types takes none but the last to be absent."""
    for seed in SEEDS:
        r = Random(seed)
        a, b, zero = r.tensor(67), r.tensor(67), r.dtype(0)
        scales = r.scale(), r.scale(), r.scale()
        absent = [a, scales[0], None, b, scales[1], None, scales[2], None]
        check(op, absent, alike=[zero if x is None else x for x in absent])


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_tables_of_activations(op: str, dtype: type) -> None:
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    extra = {"alpha": 0.3} if op == "QLinearLeakyRelu" else {}
    for seed in SEEDS:
        r = Random(seed, dtype)
        for scale in (F(1 / 256), r.scale(), F(1e-3), F(1e6)):
            check(op, [every, r.scale(), r.zero(), scale, r.zero()], native=seed == 5, **extra)
        check(op, [every.reshape(2, 1, 128), r.scale(), None, r.scale(), None])
        check(op, [every[:0], *r.two(), *r.two()])


def test_choices() -> None:
    for seed in SEEDS:
        r = Random(seed)
        keep = r.rng.random((5, 1)) < 0.5
        a, b = r.tensor(5, 7), r.tensor(7)
        native = seed == 0
        check("QLinearWhere", [keep, a, *r.two(), b, *r.two(), *r.two()], r.dtype, native)
        check("QLinearWhere", [keep[:0], a[:0], *r.two(), b, *r.two(), *r.two()], r.dtype)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation(axis: int) -> None:
    for seed in SEEDS:
        r = Random(seed)
        shapes = [[2, 3, 5] for _ in range(4)]
        for shape, size in zip(shapes, (1, 0, 7, 13), strict=True):
            shape[axis] = size
        parts = [part for shape in shapes for part in (r.tensor(*shape), *r.two())]
        check("QLinearConcat", [*r.two(), *parts], r.dtype, native=seed == 0, axis=axis)


POOLS = [
    ((2, 3, 11), {"kernel_shape": [3]}),
    ((1, 2, 11, 7), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ((1, 2, 11, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 1, 5, 4, 7), {"kernel_shape": [2, 2, 3], "pads": [1, 0, 1, 0, 1, 1]}),
    ((1, 1, 1, 1), {"kernel_shape": [1, 1]}),
    ((0, 3, 5, 5), {"kernel_shape": [2, 2]}),
    ((1, 3, 14, 14), {"kernel_shape": [13, 13]}),
]


@pytest.mark.parametrize("shape, window", POOLS)
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
def test_average_pooling(
    shape: tuple[int, ...], window: dict[str, object], ceil_mode: int, include: int
) -> None:
    how = {**window, "ceil_mode": ceil_mode, "count_include_pad": include}
    for seed in SEEDS:
        r = Random(seed)
        x = r.tensor(*shape)
        native = seed == ceil_mode == include == 0
        check("QLinearAveragePool", [x, *r.two(), *r.two()], native=native, **how)
        scale = r.scale()  # means are quarters and the like: ties
        alike = [x, scale, r.dtype(0), scale, r.dtype(0)]
        check("QLinearAveragePool", [x, scale, None, scale, None], alike=alike, **how)


@pytest.mark.parametrize(
    "shape", [(2, 5, 7, 11), (1, 3, 1), (3, 2, 2, 3, 5), (0, 2, 4), (1, 9, 56, 56)]
)
def test_global_average_pooling(shape: tuple[int, ...]) -> None:
    for seed in SEEDS[:2]:
        r = Random(seed)
        x, native = r.tensor(*shape), seed == 0
        check("QLinearGlobalAveragePool", [x, *r.two(), *r.two()], native=native)


@pytest.mark.parametrize("opset, axis", [(13, -1), (13, 1), (12, 1), (11, -1), (13, 0)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_softmax(opset: int, axis: int, dtype: type) -> None:
    how = {"opset": opset, "axis": axis}
    for seed in SEEDS[:3]:
        r = Random(seed, dtype)
        for x in (r.tensor(2, 3, 17), r.tensor(1, 1, 1), r.tensor(3, 0, 2), r.tensor(1, 1, 1024)):
            result = F(1 / 256), dtype(r.limits.min)
            native = seed == 0 and x.size == 102
            check("QLinearSoftmax", [x, *r.two(), *result], native=native, **how)
        for scale in (F(1e-6), F(1e-3), F(30.0)):
            x = r.tensor(5, 31)
            check("QLinearSoftmax", [x, scale, r.zero(), F(1 / 256), dtype(3)], opset=13)
    same = np.full((2, 512), 7, dtype)
    check("QLinearSoftmax", [same, F(0.1), dtype(0), F(1 / 256), dtype(0)], opset=13)


def test_means_of_axes() -> None:
    """onnxruntime has a schema and no kernel."""
    for seed in SEEDS:
        r = Random(seed)
        x, scale = r.tensor(3, 5, 7), r.scale()
        model = model_of(
            "QLinearReduceMean", [x, scale, r.dtype(3), scale, r.dtype(5)], r.dtype,
            axes=[0, -1], keepdims=seed % 2,
        )  # fmt: skip
        (y,) = run_model(model, [x, scale, np.asarray(r.dtype(3)), scale, np.asarray(r.dtype(5))])
        exact = (x.astype(float) - 3).mean((0, 2), keepdims=bool(seed % 2)) + 5
        assert y.shape == exact.shape
        assert np.abs(y - np.clip(exact, r.limits.min, r.limits.max)).max() <= 0.5001


# ---- Products.


class Weights(Random):
    """int8 beside either type of activations, uint8 only beside uint8. int8 of seven bits:
    without VNNI onnxruntime's products saturate at 16 bits (its option ``reduce_range``)."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, np.uint8 if seed % 4 == 0 else np.int8)

    def tensor(self, *shape: int) -> np.ndarray:
        whole = super().tensor(*shape)
        return whole if self.dtype is np.uint8 else np.clip(whole, -64, 63)


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
def test_products_of_all_bits(left: type, right: type) -> None:
    """Beside integers of 64 bits, with the ends of both types next to each other."""
    a, b = Random(2, left).tensor(17, 64), Random(3, right).tensor(64, 31)
    a[:3], b[:, :5] = np.iinfo(left).max, np.iinfo(right).max
    a[3:6], b[:, 5:9] = np.iinfo(left).min, np.iinfo(right).min
    exact = (a.astype(np.int64) - 3) @ (b.astype(np.int64) - 5)
    c = np.zeros(31, I32)
    arrays = [np.asarray(x) for x in (a, F(1), left(3), b, F(1), right(5), c)]
    model = model_of("QGemm", arrays, F)
    for y in (*run_model(model, arrays), weft.compile(model, options=OPTIONS)(*arrays)):
        np.testing.assert_array_equal(y, exact)


@pytest.mark.parametrize("m, k, n", [(5, 67, 13), (1, 1, 1), (0, 5, 3), (17, 64, 31)])
@pytest.mark.parametrize("columns", [False, True])
def test_gemm(m: int, k: int, n: int, columns: bool) -> None:
    for seed in SEEDS:
        r, w = Random(seed), Weights(seed)
        b_scale = w.rng.random(n).astype(F) if columns else w.scale()
        b_zero = w.tensor(n) if columns else w.zero()
        c = r.rng.integers(-9999, 9999, [(n,), (m, 1), (1,), (), (1, n), (m, n)][seed])
        b = (w.tensor(k, n), b_scale, b_zero, c.astype(I32))
        native = seed == 1
        large = F(r.scale() * np.sqrt(k + 1) * 50)
        check("QGemm", [r.tensor(m, k), *r.two(), *b, large, r.zero()], native=native)
        turned = [r.tensor(k, m), *r.two(), w.tensor(n, k), b_scale, b_zero]
        check("QGemm", turned, F, transA=1, transB=1, alpha=0.3)


@pytest.mark.parametrize(
    "left, right",
    [((2, 5, 7), (7, 13)), ((3, 1, 5, 67), (2, 67, 3)), ((1, 1), (1, 1)), ((0, 3), (3, 5))],
)
def test_products_to_floats(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    n = right[-1]
    for seed in SEEDS:
        r, w = Random(seed, np.uint8), Weights(seed)
        columns = seed % 3 == 0 and len(right) == 2
        b_scale = w.rng.random(n).astype(F) if columns else F(w.scale()).reshape(1)
        b_zero = w.tensor(n) if columns else w.zero().reshape(1)
        bias = r.rng.standard_normal(n).astype(F) if seed % 2 else None
        a, b, native = r.tensor(*left), w.tensor(*right), seed == 1
        operands = [a, b, r.scale(), b_scale, r.zero(), b_zero, bias]
        check("MatMulIntegerToFloat", operands, F, native)
        x = (r.rng.standard_normal(left) * 3).astype(F)
        for zero in (b_zero, None):
            check("DynamicQuantizeMatMul", [x, b, b_scale, zero, bias], F, native)
        check("DynamicQuantizeMatMul", [np.zeros_like(x), b, b_scale, b_zero, bias], F)


def test_a_gemm_of_no_columns_is_its_bias() -> None:
    """onnxruntime leaves bytes there that it did not write."""
    c, parts = np.array([40, -90, 7], I32), [F(0.5), np.uint8(3), F(0.25), np.int8(1)]
    arrays = [np.zeros((2, 0), np.uint8), *parts[:2], np.zeros((0, 3), np.int8), *parts[2:], c]
    arrays = [np.asarray(a) for a in (*arrays, F(0.25), np.uint8(100))]
    (y,) = run_model(model_of("QGemm", arrays, np.uint8), arrays)
    np.testing.assert_array_equal(y, np.uint8([[120, 55, 104]] * 2))  # 3.5 is a tie


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("masked", [None, "some", "all", "dummy"])
def test_attention(unidirectional: int, masked: str | None) -> None:
    for seed, (batch, length, width, heads, size) in enumerate(
        [(2, 5, 6, 2, 4), (1, 1, 3, 1, 1), (3, 17, 16, 4, 8)]
    ):
        r, w = Random(seed, np.uint8), Weights(seed)
        columns = 3 * heads * size
        many = seed == 2
        mask = {
            None: None,
            "some": r.rng.integers(0, 2, (batch, length)).astype(I32),
            "all": np.zeros((batch, length), I32),
            "dummy": np.zeros((batch, 1), I32),
        }[masked]
        operands = [
            r.tensor(batch, length, width), w.tensor(width, columns),
            r.rng.standard_normal(columns).astype(F), F(0.01),
            F(w.rng.random(columns) / 50) if many else F(0.02), mask, r.zero(),
            w.tensor(columns) if many else None,
        ]  # fmt: skip
        how = {"num_heads": heads, "unidirectional": unidirectional}
        near = 1e-3 if masked == "all" else 1e-5  # of scores at -10000
        check("QAttention", operands, F, native=seed == 0, near=near, **how)


# ---- Quantisation, and what is refused.


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_quantisation(dtype: type) -> None:
    r = np.random.default_rng(0)
    x = (r.standard_normal((3, 5, 7)) * 50).astype(F)
    limits = np.iinfo(dtype)
    scales, zeros = r.random(5).astype(F), r.integers(limits.min, limits.max, 5).astype(dtype)
    for scale, zero in ((scales, zeros), (F(0.5), dtype(limits.max)), (F(0.1), None)):
        if zero is not None:
            check("QuantizeLinear", [x, scale, zero], dtype, axis=1)
            check("DequantizeLinear", [x.astype(dtype), scale, zero], F, axis=1)
        check("DequantizeLinear", [x.astype(dtype), scale, None], F, axis=1)
    check("QuantizeLinear", [x, F(0.1), None], np.uint8)


U8, S8 = np.zeros(4, np.uint8), np.zeros(4, np.int8)
ONE, ZERO = np.ones((), F), np.zeros((), np.uint8)
MATRIX = np.zeros((4, 6), np.uint8)
X = MATRIX[None]
SELF = [X, np.zeros((6, 9), np.uint8), np.zeros(9, F), ONE, ONE]
BAD = {
    "two types": ("QLinearAdd", [U8, ONE, ZERO, S8, ONE, None, ONE, ZERO], {}),
    "a float": ("QLinearMul", [ONE, ONE, None, U8, ONE, ZERO, ONE, ZERO], {}),
    "a zero point of another type": ("QLinearSigmoid", [S8, ONE, ZERO, ONE, None], {}),
    "a scale in float64": ("QLinearSigmoid", [U8, np.ones(()), ZERO, ONE, ZERO], {}),
    "two scales": ("QLinearLeakyRelu", [U8, np.ones(2, F), ZERO, ONE, ZERO], {}),
    "a missing scale": ("QLinearAdd", [U8, ONE, ZERO, U8], {}),
    "an operand cut short": ("QLinearConcat", [ONE, ZERO, U8, ONE], {"axis": 0}),
    "no axis": ("QLinearConcat", [ONE, ZERO, U8, ONE, ZERO], {}),
    "choices of two types": ("QLinearWhere",
                             [U8 > 0, U8, ONE, ZERO, S8, ONE, None, ONE, ZERO], {}),
    "an axis": ("QLinearSoftmax", [U8, ONE, ZERO, ONE, ZERO], {"opset": 13, "axis": 1}),
    "no opset": ("QLinearSoftmax", [U8, ONE, ZERO, ONE, ZERO], {}),
    "a vector": ("QGemm", [U8, ONE, ZERO, MATRIX, ONE, ZERO], {}),
    "y without a zero point": ("QGemm", [MATRIX, ONE, ZERO, MATRIX.T, ONE, ZERO, None, ONE], {}),
    "weights in float": ("DynamicQuantizeMatMul", [np.ones((2, 4), F), np.ones((4, 2), F), ONE],
                         {}),
    "heads": ("QAttention", SELF, {"num_heads": 2}),
    "rank": ("QAttention", [MATRIX, *SELF[1:]], {"num_heads": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_malformed_nodes_are_refused(what: str) -> None:
    op, arrays, attributes = BAD[what]
    model = model_of(op, arrays, np.uint8, **attributes)
    with pytest.raises(ModelError) as caught:
        run_model(model, [a for a in arrays if a is not None])
    assert caught.value.where == f"node 'it' ({op})"


UNSUPPORTED = {
    "channels last": ("QLinearAveragePool", [X, ONE, ZERO, ONE, ZERO],
                      {"kernel_shape": [2], "channels_last": 1}),
    "lengths": ("QAttention", [*SELF, np.ones(1, I32)], {"num_heads": 3}),
    "past": ("QAttention", [*SELF, None, None, None, np.zeros((2, 1, 3, 2, 1), F)],
             {"num_heads": 3}),
    "rotary": ("QAttention", SELF, {"num_heads": 3, "do_rotary": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_is_not_done_says_so(what: str) -> None:
    op, arrays, attributes = UNSUPPORTED[what]
    model = model_of(op, arrays, F, **attributes)
    with pytest.raises(UnsupportedError) as caught:
        run_model(model, [a for a in arrays if a is not None])
    assert (caught.value.code, caught.value.where) == ("WEFT-E0201", f"node 'it' ({op})")
