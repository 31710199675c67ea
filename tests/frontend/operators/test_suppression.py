import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.operators.run_operator import run
from weft.ir.errors import ExpressionError


def reference(boxes, scores, most, iou, score, center):
    names = ["boxes", "scores", "most", "iou", "" if score is None else "score"]
    node = helper.make_node("NonMaxSuppression", names, ["y"], center_point_box=center)
    graph = helper.make_graph(
        [node],
        "nms",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names if n],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    feeds = {"boxes": boxes, "scores": scores, "most": most, "iou": iou, "score": score}
    return ReferenceEvaluator(model).run(None, {n: feeds[n] for n in names if n})[0]


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("score", [None, 0.4])
def test_agrees_with_the_reference(center, count, most, score):
    rng = np.random.default_rng(count)
    boxes = rng.random((2, count, 4), np.float32)
    scores = np.round(rng.random((2, 3, count)), 1).astype(np.float32)  # with ties
    limits = np.array([most]), np.array([0.3], np.float32)
    threshold = None if score is None else np.array([score], np.float32)
    rows, number = run(
        "non_max_suppression", boxes, scores, *limits, threshold, center_point_box=bool(center)
    )
    assert rows.shape == (2 * 3 * count, 3)
    expected = reference(boxes, scores, *limits, threshold, center)
    np.testing.assert_array_equal(rows[:number], expected)


def test_without_limits_nothing_is_selected():
    boxes, scores = np.zeros((1, 2, 4), np.float32), np.zeros((1, 1, 2), np.float32)
    assert (
        run("non_max_suppression", boxes, scores, None, None, None, center_point_box=False)[1] == 0
    )


def test_no_boxes():
    boxes, scores = np.zeros((2, 0, 4), np.float32), np.zeros((2, 1, 0), np.float32)
    most = np.array(5)
    rows, number = run(
        "non_max_suppression", boxes, scores, most, None, None, center_point_box=False
    )
    assert rows.shape == (0, 3) and number == 0


def test_a_box_has_four_numbers():
    boxes, scores = np.zeros((1, 2, 3), np.float32), np.zeros((1, 1, 2), np.float32)
    with pytest.raises(ExpressionError, match="differ"):
        run("non_max_suppression", boxes, scores, None, None, None, center_point_box=False)
