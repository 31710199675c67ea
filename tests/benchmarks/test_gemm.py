from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import weft
from weft.benchmarks import gemm
from weft.benchmarks.case import error_of, is_constant, operands
from weft.benchmarks.gemm import Product


def test_every_name_is_there_once_and_quick_is_a_part() -> None:
    names = [planned.name for planned in gemm.cases(quick=False)]
    assert len(set(names)) == len(names)
    assert {planned.name for planned in gemm.cases(quick=True)} <= set(names)
    own = [planned.build().own for planned in gemm.cases(quick=True)]
    assert set(filter(None, own)) <= set(names)
    for kind in "wx":
        for dtype in ("f32", "f64", "bf16", "int8"):
            assert any(name.startswith(f"gemm {kind} {dtype} ") for name in names)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    "product",
    [
        Product(3, 5, 7),
        Product(3, 5, 7, transposed="a"),
        Product(3, 5, 7, transposed="ab"),
        Product(3, 5, 7, batch=2),
        Product(3, 5, 7, "float64"),
        Product(3, 5, 7, "bfloat16"),
        Product(3, 5, 7, "int8"),
    ],
    ids=lambda product: f"{product.dtype} {product.label}",
)
def test_a_case_is_what_it_says(product: Product, constant: bool) -> None:
    case = gemm.case(product, constant=constant)
    held = {t.name: numpy_helper.to_array(t) for t in case.model.graph.initializer}
    assert set(held) == ({"b"} if constant else set())
    assert is_constant(case) == constant
    a, b = (({**held, **case.inputs})[name].astype(np.float64) for name in "ab")
    if product.batch == 1:
        a = a.T if "a" in product.transposed else a
        b = b.T if "b" in product.transposed else b
    (expected,) = case.expected()
    assert expected.shape[-2:] == (3, 5)
    np.testing.assert_allclose(expected, np.einsum("...mk,...kn->...mn", a, b))
    sides = operands(case)
    assert sides is not None
    np.testing.assert_array_equal(sides[0].astype(np.float64), a)
    np.testing.assert_array_equal(sides[1].astype(np.float64), b)
    assert case.operations == 2 * 3 * 5 * 7 * product.batch
    found = weft.compile(case.model, options=weft.Options(threads=1))(*case.inputs.values())
    assert error_of(found, expected) <= case.tolerance
    assert case.empty is not None and case.empty().operations <= 4
    if case.own:
        assert case.own == case.name.replace("bf16", "f32").replace("int8", "f32")
