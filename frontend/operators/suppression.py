"""Non-maximum suppression: a scan over boxes from the best score down."""

from __future__ import annotations

from collections.abc import Callable

from weft.frontend.operators.arguments import expect, expect_same, total
from weft.frontend.operators.registry import operator
from weft.frontend.operators.unique import greater, last_or_zero, ranks, running_count
from weft.ir import build, dtypes
from weft.ir.build import (
    compute,
    maximum,
    minimum,
    reduce_axis,
    reshape,
    scan,
    scatter,
    select,
)
from weft.ir.limits import check_comparisons
from weft.ir.scalar_expr import Expr, literal
from weft.ir.tensor_expr import Tensor

Corners = tuple[Expr, Expr, Expr, Expr]  # y_low, x_low, y_high, x_high


@operator("non_max_suppression")
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None,
    iou_threshold: Tensor | None,
    score_threshold: Tensor | None,
    *,
    center_point_box: bool,
) -> tuple[Tensor, Tensor]:
    """Rows (batch, class, box) of the boxes kept, in that order and best first; and their number.

    ``boxes`` is (batch, box, 4), ``scores`` (batch, class, box). A box is dropped where it overlaps
    a better one that was kept by more than ``iou_threshold`` (0), where its score does not exceed
    ``score_threshold``, or beyond ``most`` (0) a class. Equal scores keep the order of the boxes.
    """
    where = "non_max_suppression"
    expect(boxes.rank == scores.rank == 3, f"{boxes.shape} and {scores.shape}", where, "WEFT-E0191")
    expect_same(boxes.shape, (scores.shape[0], scores.shape[2], 4), where)
    expect(boxes.dtype.is_float, f"boxes of {boxes.dtype}", where, "WEFT-E0192")
    check_comparisons(where, *scores.shape, scores.shape[2])
    order = _by_score(scores)
    corners = _corners(boxes, center_point_box)
    kept = _kept(corners, scores, order, _scalar(most, 0), iou_threshold, score_threshold)
    return _rows(kept, order)


def _scalar(x: Tensor | None, default: int) -> Expr:
    return literal(default) if x is None else x[(literal(0),) * x.rank].astype(dtypes.int64)


def _by_score(scores: Tensor) -> Tensor:
    """(batch, class, place) -> the box at that place when sorted by falling score."""
    rank = ranks(scores, 2, greater)
    base = compute(scores.shape, lambda b, c, i: literal(0), name="unsorted")
    return scatter(base, scores.shape, lambda b, c, i: ((b, c, rank[b, c, i]), i), name="by_score")


def _corners(boxes: Tensor, center_point_box: bool) -> tuple[Tensor, ...]:
    """The corners of every box, each (batch, box), low before high."""

    def body(b: Expr, i: Expr) -> Corners:
        if center_point_box:
            x, y = boxes[b, i, 0], boxes[b, i, 1]
            half_width, half_height = boxes[b, i, 2] * 0.5, boxes[b, i, 3] * 0.5
            return y - half_height, x - half_width, y + half_height, x + half_width
        y1, x1, y2, x2 = (boxes[b, i, d] for d in range(4))
        return minimum(y1, y2), minimum(x1, x2), maximum(y1, y2), maximum(x1, x2)

    return build.computes(boxes.shape[:2], body, name="corners")


def _overlap(one: Corners, other: Corners, threshold: Expr) -> Expr:
    """Whether the boxes' intersection over union exceeds ``threshold``."""

    def area(box: Corners) -> Expr:
        return (box[2] - box[0]) * (box[3] - box[1])

    height = minimum(one[2], other[2]) - maximum(one[0], other[0])
    width = minimum(one[3], other[3]) - maximum(one[1], other[1])
    shared = height * width
    union = area(one) + area(other) - shared
    meet = (height > 0) & (width > 0) & (area(one) > 0) & (area(other) > 0) & (union > 0)
    return meet & (shared / union > threshold)


def _kept(
    corners: tuple[Tensor, ...],
    scores: Tensor,
    order: Tensor,
    most: Expr,
    iou_threshold: Tensor | None,
    score_threshold: Tensor | None,
) -> Tensor:
    """(place, batch, class) -> whether the box at that place is kept."""
    batches, classes, places = scores.shape
    dtype = corners[0].dtype
    threshold: Expr = literal(0, dtype)
    if iou_threshold is not None:
        threshold = iou_threshold[(literal(0),) * iou_threshold.rank].astype(dtype)

    def body(itself: Callable[..., Expr], place: Expr, b: Expr, c: Expr) -> tuple[Expr, ...]:
        def box_at(at: Expr) -> Corners:
            y1, x1, y2, x2 = (corner[b, order[b, c, at]] for corner in corners)
            return y1, x1, y2, x2

        better = reduce_axis((0, place), name="better")
        covered = build.any_over(
            itself(0, better, b, c) & _overlap(box_at(place), box_at(better), threshold),
            axis=better,
        )
        before = select(place > 0, itself(1, place - 1, b, c), 0)
        keep = ~covered & (before < most)
        if score_threshold is not None:
            score = scores[b, c, order[b, c, place]]
            least = score_threshold[(literal(0),) * score_threshold.rank]
            keep = keep & (score > least.astype(score.dtype))
        return keep, before + keep.astype(dtypes.int64)

    shape = (places, batches, classes)
    return scan(shape, body, dtypes_=(dtypes.bool_, dtypes.int64), along=1, name="kept")[0]


def _rows(kept: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """The kept boxes as rows (batch, class, box), and their number."""
    batches, classes, places = order.shape
    by_class = compute(order.shape, lambda b, c, i: kept[i, b, c], name="kept_by_class")
    count = total(order.shape)
    running = running_count(reshape(by_class, (count,), name="kept_flat"))
    row = reshape(running, order.shape, name="row_after")
    selected = scatter(
        compute((count, 3), lambda r, d: literal(0), name="no_rows"),
        (batches, classes, places, 3),
        lambda b, c, i, d: (
            (row[b, c, i] - 1, d),
            select(d.equal(0), b, select(d.equal(1), c, order[b, c, i])),
        ),
        condition=lambda b, c, i, d: by_class[b, c, i],
        name="selected",
    )
    return selected, last_or_zero(running)
