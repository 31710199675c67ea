from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import weft
from weft.benchmarks import conv
from weft.benchmarks.case import error_of
from weft.benchmarks.conv import CONVS, Conv, mobilenet, resnet
from weft.frontend.zoo.registry import MODELS


def test_every_name_is_there_once_and_quick_is_a_part() -> None:
    names = [planned.name for planned in conv.cases(quick=False)]
    assert len(set(names)) == len(names) == 2 * len(CONVS)
    assert {planned.name for planned in conv.cases(quick=True)} <= set(names)


@pytest.mark.parametrize(
    ("name", "convs"),
    [
        ("resnet18", list(resnet((2, 2, 2, 2), bottleneck=False))),
        ("mobilenetv2", list(mobilenet())),
    ],
)
def test_they_are_those_of_the_networks(name: str, convs: list[Conv]) -> None:
    """In number and in the shapes of weights, as the embedded models have them."""
    graph = MODELS[name].build().graph
    shapes = {t.name: tuple(t.dims) for t in graph.initializer}
    found = [shapes[node.input[1]] for node in graph.node if node.op_type == "Conv"]
    mine = [(c.filters, c.channels // c.group, c.kernel, c.kernel) for c in convs]
    assert sorted(mine) == sorted(found)


def test_resnet50_computes_what_is_published() -> None:
    """4.1 G multiply-adds, of which the last layer has 2 M."""
    convs = resnet((3, 4, 6, 3), bottleneck=True)
    total = sum(c.filters * c.out**2 * c.channels // c.group * c.kernel**2 for c in convs)
    assert round(total / 1e6) == 4087


@pytest.mark.parametrize(
    "each",
    [
        Conv(3, 5, 3, 1, 6, "add relu"),
        Conv(3, 5, 3, 2, 7, "relu6"),
        Conv(4, 4, 3, 2, 6, "", 4),
        Conv(3, 5, 1, 2, 6, "add"),
        Conv(2, 3, 7, 2, 9, "relu"),
    ],
    ids=lambda each: each.label,
)
def test_a_case_is_what_it_says(each: Conv) -> None:
    case = conv.case(each, 2)
    (expected,) = case.expected()
    values = {**case.inputs}
    values |= {t.name: np.asarray(_array(t)) for t in case.model.graph.initializer}
    np.testing.assert_allclose(expected, _by_hand(each, values), rtol=1e-12, atol=1e-12)
    found = weft.compile(case.model, options=weft.Options(threads=1))(*case.inputs.values())
    assert error_of(found, expected) <= case.tolerance


def _array(tensor: object) -> np.ndarray:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def _by_hand(each: Conv, values: dict[str, np.ndarray]) -> np.ndarray:
    x, w = values["x"].astype(float), values["w"].astype(float)
    y = np.zeros((2, each.filters, each.out, each.out))
    inside, pad = w.shape[1], each.kernel // 2
    for n, k, i, j in product(*map(range, y.shape)):
        for c, r, s in product(range(inside), range(each.kernel), range(each.kernel)):
            row, column = i * each.stride + r - pad, j * each.stride + s - pad
            if 0 <= row < each.side and 0 <= column < each.side:
                y[n, k, i, j] += x[n, (k if each.group > 1 else 0) + c, row, column] * w[k, c, r, s]
    y += values["b"][:, None, None]
    if "add" in each.then:
        y += values["other"]
    if "relu" in each.then:
        y = np.maximum(y, 0)
    return np.minimum(y, 6) if "relu6" in each.then else y
