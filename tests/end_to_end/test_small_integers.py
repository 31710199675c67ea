"""Products of small integers, through ONNX's operators and in a user's own words: exact, and by the
processor's dot products, whatever is subtracted from the elements."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import weft

OPTIONS = weft.Options(threads=1, cache=False, workers=0)
random = np.random.default_rng(11)


def numbers(dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def compiled(
    op: str, known: str, arrays: dict[str, np.ndarray], shape: tuple[int, ...], **attributes: object
) -> weft.Executable:
    """``model_of`` them, for this machine."""
    return weft.compile(model_of(op, known, arrays, shape, **attributes), options=OPTIONS)


def model_of(
    op: str, known: str, arrays: dict[str, np.ndarray], shape: tuple[int, ...], **attributes: object
) -> onnx.ModelProto:
    """One ``op`` on ``arrays``, those in ``known`` initializers."""
    element = helper.np_dtype_to_tensor_dtype
    ports = [
        helper.make_tensor_value_info(n, element(a.dtype), a.shape)
        for n, a in arrays.items()
        if n not in known
    ]
    values = [
        helper.make_tensor(n, element(a.dtype), a.shape, a.tobytes(), raw=True)
        for n, a in arrays.items()
        if n in known
    ]
    out = helper.make_tensor_value_info("y", element(np.dtype(np.int32)), shape)
    node = helper.make_node(op, list(arrays), ["y"], **attributes)
    graph = helper.make_graph([node], "one", ports, [out], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    "m, k, n, left, right, known",
    [
        (17, 37, 53, np.uint8, np.int8, "bcd"),
        (33, 67, 49, np.int8, np.int8, "bd"),
        (64, 64, 65, np.uint8, np.uint8, ""),
        (1, 41, 48, np.int8, np.uint8, "bd"),
        (1, 67, 130, np.int8, np.int8, "bcd"),
        (50, 1, 1, np.uint8, np.int8, "d"),
        (5, 0, 7, np.uint8, np.int8, "bcd"),
        (0, 5, 7, np.uint8, np.int8, ""),
    ],
)
def test_matrix_products(m: int, k: int, n: int, left: type, right: type, known: str) -> None:
    a, b = numbers(left, 2, m, k), numbers(right, k, n)
    c, d = numbers(left), numbers(right, n)
    arrays = {"a": a, "b": b, "c": c, "d": d}
    run = compiled("MatMulInteger", known, arrays, (2, m, n))
    expected = (a.astype(np.int32) - c) @ (b.astype(np.int32) - d)
    given = {name: x for name, x in arrays.items() if name not in known}
    np.testing.assert_array_equal(run(**given), expected)


@pytest.mark.parametrize(
    "size, channels, filters, group, stride, left",
    [
        (9, 8, 40, 1, 1, np.int8),
        (7, 5, 17, 1, 2, np.uint8),
        (6, 12, 16, 4, 1, np.uint8),
        (23, 16, 3, 1, 1, np.uint8),
    ],
)
def test_convolutions(
    size: int, channels: int, filters: int, group: int, stride: int, left: type
) -> None:
    a, b = (
        numbers(left, 1, channels, size, size),
        numbers(np.int8, filters, channels // group, 3, 3),
    )
    c, d = numbers(left), numbers(np.int8, filters)
    arrays = {"a": a, "b": b, "c": c, "d": d}
    out = -(-size // stride)
    shape = (1, filters, out, out)
    how = {"group": group, "pads": [1, 1, 1, 1], "strides": [stride, stride]}
    run = compiled("ConvInteger", "bcd", arrays, shape, **how)
    x = np.pad(a.astype(np.int32) - c, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    windows = windows[:, :, ::stride, ::stride].reshape(group, -1, out, out, 3, 3)
    w = (b.astype(np.int32) - d[:, None, None, None]).reshape(group, -1, channels // group, 3, 3)
    expected = np.einsum("gchwrs,gkcrs->gkhw", windows, w).reshape(shape)
    np.testing.assert_array_equal(run(a), expected)


def own() -> weft.Tensor:
    """The product of a transposed and of a plain matrix, in other words than any operator's."""
    left, right = (
        weft.placeholder((70, 40), "uint8", name="a"),
        weft.placeholder((70, 60), "int8", name="b"),
    )
    middle = weft.placeholder((), "uint8", name="c")
    q = weft.reduce_axis((0, 70), name="q")
    wide = weft.compute((70, 60), lambda u, v: right[u, v].astype(weft.i32), name="wide")

    def body(u, v):
        return weft.sum((left[q, u].astype(weft.i32) - middle[()].astype(weft.i32)) * wide[q, v], q)

    return weft.compute((40, 60), body, name="own")


def test_one_s_own_words_are_dot_products_too() -> None:
    a, b, c = numbers(np.uint8, 70, 40), numbers(np.int8, 70, 60), numbers(np.uint8)
    expected = (a.astype(np.int32) - c).T @ b.astype(np.int32)
    np.testing.assert_array_equal(weft.compile(own(), options=OPTIONS)(a, b, c), expected)
    made = weft.compile(own(), options=OPTIONS, target="znver5")
    assert "instruction='vpdpbusd'" in made.as_text("schedule")
    assert 'instruction="vpdpbusd' in made.explain()


def test_one_row_and_few_pixels_are_dot_products() -> None:
    """One row reads its constants as words; filters are the lanes where pixels are few."""
    row = {"a": numbers(np.uint8, 1, 70), "b": numbers(np.int8, 70, 60)}
    few = {"a": numbers(np.uint8, 1, 32, 7, 7), "b": numbers(np.int8, 64, 32, 3, 3)}
    for model, rows in (
        (model_of("MatMulInteger", "b", row, (1, 60)), "()"),
        (model_of("ConvInteger", "b", few, (1, 64, 5, 5)), "(5,)"),
    ):
        text = weft.compile(model, options=OPTIONS, target="znver5").as_text("schedule")
        assert re.search(rf"rows={re.escape(rows)}, .*instruction='vpdpbusd'", text)
