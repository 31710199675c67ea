"""Resizing against ONNX's reference evaluator, and against one formula per output element."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.operators.run_operator import run
from weft.frontend.onnx.importer import import_model
from weft.frontend.operators.registry import instantiate
from weft.frontend.operators.resize import COORDINATES, NEAREST, Kernel, Sampling
from weft.ir import dtypes
from weft.ir.build import var
from weft.ir.errors import ExpressionError
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_verifier import verify

rng = np.random.default_rng(0)


def model(shape, *, scales=None, sizes=None, roi=None, dtype=np.float32, **attributes):
    """One Resize node whose scales, sizes and roi are constants."""
    given = {
        "roi": None if roi is None else np.array(roi, np.float32),
        "scales": None if scales is None else np.array(scales, np.float32),
        "sizes": None if sizes is None else np.array(sizes, np.int64),
    }
    names = ["x", *(name if a is not None else "" for name, a in given.items())]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("Resize", names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [
            helper.make_tensor(
                name, TensorProto.INT64 if name == "sizes" else TensorProto.FLOAT, a.shape, a
            )
            for name, a in given.items()
            if a is not None
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def resized(proto, x):
    """The result of import and interpretation."""
    graph = import_model(proto)
    values = {**graph.constants, graph.inputs[0].name: x}
    for node in graph.nodes:
        verify(node.program)
        results = interpret(node.program, [values[v.name] for v in node.inputs])
        values |= {v.name: r for v, r in zip(node.outputs, results, strict=True)}
    return values[graph.outputs[0].name], graph


def check(x, **attributes):
    proto = model(x.shape, dtype=x.dtype, **attributes)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    result, graph = resized(proto, x)
    assert result.dtype == x.dtype
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-5)
    return graph


# tf_half_pixel_for_nn is gone from the reference
SHARED = [c for c in COORDINATES if c not in ("tf_half_pixel_for_nn", "tf_crop_and_resize")]


@pytest.mark.parametrize("coordinates", SHARED)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes_and_coordinates(coordinates, mode):
    for size, output in itertools.product((1, 2, 5), (1, 3, 7)):
        x = rng.standard_normal((1, 2, size, 3)).astype(np.float32)
        check(x, sizes=[1, 2, output, 4], mode=mode, coordinate_transformation_mode=coordinates)
    x = rng.standard_normal((1, 1, 5, 4)).astype(np.float32)
    for scale in (0.6, 1.3, 2.0):
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
        check(x, scales=[1, 1, scale, 1.7], **attributes)


@pytest.mark.parametrize("rounding", NEAREST)
def test_rounding_of_nearest(rounding):
    x = rng.standard_normal((1, 1, 6, 5)).astype(np.float32)
    for scales in ((2.0, 3.0), (0.5, 0.4), (1.5, 0.8)):
        for coordinates in ("half_pixel", "asymmetric", "align_corners"):
            check(x, scales=[1, 1, *scales], mode="nearest", nearest_mode=rounding,
                  coordinate_transformation_mode=coordinates)  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiasing_and_exclusion(mode):
    x = rng.standard_normal((1, 1, 11, 7)).astype(np.float32)
    for scales in ((0.3, 0.6), (0.09, 2.5), (0.5, 1.0)):
        for exclude in (0, 1):
            check(x, scales=[1, 1, *scales], mode=mode, antialias=1, exclude_outside=exclude)
            check(x, scales=[1, 1, *scales], mode=mode, exclude_outside=exclude)


def test_a_part_of_the_image():
    x = rng.standard_normal((1, 1, 6, 5)).astype(np.float32)
    for mode in ("nearest", "linear", "cubic"):
        check(x, sizes=[1, 1, 4, 3], roi=[0, 0, 0.4, 0.6, 1, 1, 1.2, 0.9], mode=mode,
              coordinate_transformation_mode="tf_crop_and_resize",
              extrapolation_value=10.0)  # fmt: skip


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_keeping_the_aspect_ratio(policy):
    x = rng.standard_normal((1, 1, 6, 4)).astype(np.float32)
    check(x, sizes=[7, 9], axes=[3, 2], mode="linear", keep_aspect_ratio_policy=policy)


def test_integers_are_rounded_and_saturated():
    x = rng.integers(0, 256, (1, 1, 5, 6)).astype(np.uint8)
    check(x, scales=[1, 1, 1.5, 0.7], mode="cubic")
    check(x, scales=[1, 1, 2, 3], mode="nearest")


def test_nearest_by_whole_factors_reads_at_quasi_affine_positions():
    x = rng.standard_normal((1, 2, 4, 6)).astype(np.float32)
    for attributes in (
        {"scales": [1, 1, 2, 3]},
        {"scales": [1, 1, 0.5, 1 / 3]},
        {"scales": [1, 1, 1.5, 2], "coordinate_transformation_mode": "asymmetric",
         "nearest_mode": "floor"},
    ):  # fmt: skip
        graph = check(x, mode="nearest", **attributes)
        assert [node.op for node in graph.nodes] == ["subsample"]


def test_the_same_size_is_the_identity():
    x = rng.standard_normal((1, 2, 4, 6)).astype(np.float32)
    assert [n.op for n in check(x, sizes=[1, 2, 4, 6], mode="cubic").nodes] == ["identity"]


@pytest.mark.parametrize("size", [3, 8])
def test_symbolic_sizes(size):
    """Twice as many outputs as inputs: the tables are computed from the size at hand."""
    h = var("h")
    symbolic = Sampling(h, h * 2, 2.0, "half_pixel")
    exact = Sampling(size, size * 2, 2.0, "half_pixel")
    kernel = Kernel("cubic")
    for op, more in (("resize_positions", {}), ("resize_weights", {"dtype": dtypes.float64})):
        program = instantiate(op, [], sampling=symbolic, kernel=kernel, **more)
        verify(program)
        (table,) = interpret(program, [], {"h": size})
        np.testing.assert_array_equal(table, run(op, sampling=exact, kernel=kernel, **more))


@pytest.mark.parametrize(
    ("sampling", "kernel"),
    [
        (Sampling(4, 8, 2.0, "sideways"), Kernel("linear")),
        (Sampling(4, 8, -2.0, "half_pixel"), Kernel("linear")),
        (Sampling(4, 8, 2.0, "half_pixel"), Kernel("nearest", "away")),
    ],
)
def test_unknown_modes_are_refused(sampling, kernel):
    with pytest.raises(ExpressionError):
        instantiate("resize_positions", [], sampling=sampling, kernel=kernel)
