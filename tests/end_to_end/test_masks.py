"""Constant masks, as models have them: right beside the definition, and not computed where they
rule everything out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import weft
from weft.driver.graph_front import cluster_scops
from weft.frontend.onnx.importer import import_model
from weft.ir.named_isl import domain_set

LEAST = float(np.finfo(np.float32).min)
Constants = dict[str, np.ndarray]


def triangle(rows: int, columns: int, offset: int = 0) -> np.ndarray:
    return np.tri(rows, columns, offset, dtype=bool)


def model(
    nodes: Sequence[onnx.NodeProto], shapes: dict[str, tuple[int, ...]], constants: Constants
) -> onnx.ModelProto:
    """``nodes`` make "masked" of "scores"; attention of q, k and v around them."""
    turned = helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2])
    scores = helper.make_node("MatMul", ["q", "turned"], ["scores"])
    softmax = helper.make_node("Softmax", ["masked"], ["weights"], axis=-1)
    product = helper.make_node("MatMul", ["weights", "v"], ["y"])
    return whole([turned, scores, *nodes, softmax, product], shapes, constants)


def whole(
    nodes: Sequence[onnx.NodeProto], shapes: dict[str, tuple[int, ...]], constants: Constants
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "masked",
        [helper.make_tensor_value_info(n, 1, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def sizes(rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {"q": (1, 2, rows, 8), "k": (1, 2, columns, 8), "v": (1, 2, columns, 8)}


def draw(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def expected(data: dict[str, np.ndarray], mask: np.ndarray, scale: float = 1.0) -> np.ndarray:
    q, k, v = (data[n].astype(np.float64) for n in "qkv")
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True) @ v


def run(proto: onnx.ModelProto, data: dict[str, np.ndarray], **options) -> np.ndarray:
    chosen = weft.Options(cache=False, workers=0, **{"threads": 1, **options})
    return weft.compile(proto, options=chosen)(**data)


def products(proto: onnx.ModelProto, **options) -> int:
    """Multiplications of both products that are computed."""
    chosen = weft.Options(cache=False, threads=1, **options)
    scops = cluster_scops(import_model(proto), chosen).values()
    return sum(
        int(domain_set(scop, s).count_val().to_python())
        for scop in scops
        for s in scop.statements
        if s.update is not None and len(s.reads) == 2
    )


def check_products(proto: onnx.ModelProto, kept: np.ndarray) -> None:
    """The second product is cut, and the first one where both are in one kernel."""
    each, everything = 2 * 8 * int(kept.sum()), 2 * 8 * kept.size
    assert products(proto) in (2 * each, each + everything)
    assert products(proto, strict=True) == 2 * everything


def added(kept: np.ndarray, never: float) -> tuple[list[onnx.NodeProto], Constants]:
    mask = np.where(kept, 0, never).astype(np.float32)
    return [helper.make_node("Add", ["scores", "mask"], ["masked"])], {"mask": mask[None, None]}


def chosen(kept: np.ndarray) -> tuple[list[onnx.NodeProto], Constants]:
    node = helper.make_node("Where", ["out", "never", "scores"], ["masked"])
    return [node], {"out": ~kept[None, None], "never": np.array(-np.inf, np.float32)}


def trilu(kept: np.ndarray) -> tuple[list[onnx.NodeProto], Constants]:
    """As PyTorch's ``triu(full(-inf), 1)``."""
    shape = np.array(kept.shape)
    value = numpy_helper.from_array(np.array([-np.inf], np.float32))
    return [
        helper.make_node("ConstantOfShape", ["shape"], ["full"], value=value),
        helper.make_node("Trilu", ["full", "one"], ["mask"], upper=1),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
    ], {"shape": shape, "one": np.array(1)}


def compared(kept: np.ndarray) -> tuple[list[onnx.NodeProto], Constants]:
    """As ``arange(rows)[:, None] >= arange(columns)``."""
    rows, columns = kept.shape
    return [
        helper.make_node("Range", ["zero", "rows", "one"], ["r"]),
        helper.make_node("Range", ["zero", "columns", "one"], ["c"]),
        helper.make_node("Unsqueeze", ["r", "last"], ["down"]),
        helper.make_node("Unsqueeze", ["c", "zero1"], ["across"]),
        helper.make_node("LessOrEqual", ["across", "down"], ["kept"]),
        helper.make_node("Where", ["kept", "scores", "never"], ["masked"]),
    ], {
        "zero": np.array(0), "one": np.array(1), "rows": np.array(rows),
        "columns": np.array(columns), "last": np.array([1]), "zero1": np.array([0]),
        "never": np.array(-np.inf, np.float32),
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 7, 33, 130])
@pytest.mark.parametrize("how", ["add", "where", "trilu", "compare"])
def test_causal(how: str, size: int, threads: int) -> None:
    kept = triangle(size, size)
    makers = {"where": chosen, "trilu": trilu, "compare": compared}
    nodes, constants = added(kept, -np.inf) if how == "add" else makers[how](kept)
    shapes = sizes(size, size)
    proto, data = model(nodes, shapes, constants), draw(shapes)
    wanted = expected(data, np.where(kept, 0, -np.inf))
    np.testing.assert_allclose(run(proto, data, threads=threads), wanted, rtol=0, atol=1e-5)
    if size > 7:
        check_products(proto, kept)


MASKS = {
    "band": triangle(40, 40) & ~triangle(40, 40, -9),
    "window": abs(np.arange(40)[:, None] - np.arange(40)) <= 5,
    "later queries": triangle(12, 40, 28),
    "padding": np.broadcast_to(np.arange(40) < 23, (40, 40)),
    "padded triangle": triangle(40, 40) & (np.arange(40) < 30),
    "anti": triangle(40, 40)[:, ::-1],
}


@pytest.mark.long
@pytest.mark.parametrize("name", MASKS)
def test_other_shapes(name: str) -> None:
    kept = MASKS[name]
    nodes, constants = added(kept, -np.inf)
    shapes = sizes(*kept.shape)
    proto, data = model(nodes, shapes, constants), draw(shapes)
    wanted = expected(data, np.where(kept, 0, -np.inf))
    np.testing.assert_allclose(run(proto, data), wanted, rtol=0, atol=1e-5)
    check_products(proto, kept)


@pytest.mark.parametrize("never", [-1e9, LEAST])
def test_a_number_rules_nothing_out(never: float) -> None:
    """Scores may be as large: then they count."""
    kept = triangle(24, 24)
    nodes, constants = added(kept, never)
    shapes = sizes(24, 24)
    proto = model(nodes, shapes, constants)
    data = draw(shapes)
    wanted = expected(data, np.where(kept, 0, never))
    np.testing.assert_allclose(run(proto, data), wanted, rtol=0, atol=1e-5)
    data["k"][:, :, 17:] *= np.float32(1e10)  # -1e9 is little beside it
    if never == -1e9:
        masked = data["q"] @ data["k"].swapaxes(-1, -2) + constants["mask"]
        assert (masked.argmax(-1)[..., :17] >= 17).any()
        wanted = expected(data, np.where(kept, 0, never))
        np.testing.assert_allclose(run(proto, data), wanted, rtol=1e-4, atol=1e-4)


def test_a_row_that_is_ruled_out_is_what_the_definition_says() -> None:
    kept = triangle(33, 33, -1)  # nothing is left of the first row
    nodes, constants = added(kept, -np.inf)
    shapes = sizes(33, 33)
    proto, data = model(nodes, shapes, constants), draw(shapes)
    wanted = expected(data, np.where(kept, 0, -np.inf))
    assert np.isnan(wanted[:, :, 0]).all()
    np.testing.assert_allclose(run(proto, data), wanted, rtol=0, atol=1e-5)


def test_what_is_kept_may_be_infinite_or_nan() -> None:
    kept = triangle(33, 33)
    nodes, constants = added(kept, -np.inf)
    shapes = sizes(33, 33)
    data = draw(shapes)
    data["q"][0, 0, 20] = np.nan
    wanted = expected(data, np.where(kept, 0, -np.inf))
    actual = run(model(nodes, shapes, constants), data)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)
    assert np.isnan(wanted[0, 0, 20]).all() and not np.isnan(wanted[0, 0, 21]).any()


@pytest.mark.parametrize("rows", [33, 130])
def test_the_attribute_of_attention(rows: int) -> None:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    shapes = sizes(rows, rows)
    proto, data = whole([node], shapes, {}), draw(shapes)
    kept = triangle(rows, rows)
    wanted = expected(data, np.where(kept, 0, -np.inf), 8**-0.5)
    np.testing.assert_allclose(run(proto, data), wanted, rtol=0, atol=1e-5)
    check_products(proto, kept)


@pytest.mark.long
def test_in_blocks() -> None:
    """Rows that no cache holds go by in blocks, of which whole ones are left out."""
    size = 1500
    kept = triangle(size, size)
    nodes, constants = added(kept, -np.inf)
    shapes = {"q": (1, 1, size, 64), "k": (1, 1, size, 64), "v": (1, 1, size, 64)}
    data = draw(shapes)
    data["q"] /= 8
    wanted = expected(data, np.where(kept, 0, -np.inf))
    actual = run(model(nodes, shapes, constants), data, threads=2)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_exact_zeros_of_a_factor(lower: bool) -> None:
    """A triangular factor, with nothing of softmax about it."""
    factor = np.tril(draw({"l": (60, 60)})["l"])
    factor = factor if lower else factor.T.copy()
    node = helper.make_node("MatMul", ["l", "x"], ["y"])
    shapes = {"x": (60, 20)}
    proto, data = whole([node], shapes, {"l": factor}), draw(shapes)
    wanted = factor.astype(np.float64) @ data["x"]
    np.testing.assert_allclose(run(proto, data), wanted, rtol=0, atol=1e-4)
    assert products(proto) == 20 * 60 * 61 // 2
