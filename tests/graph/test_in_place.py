"""Which results may be computed in the memory of the inputs that they replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import weft
from weft.graph.from_program import from_program
from weft.graph.in_place import updates

n = weft.var("n")
X, Y = weft.placeholder((n,), name="x"), weft.placeholder((n,), name="y")
AT = weft.placeholder((3,), "int64", name="at")


def of(*outputs: Any, inputs: Sequence[Any] = (X, Y, AT)) -> tuple[tuple[int, int], ...]:
    """What may share memory where the first of ``outputs`` replaces ``x``."""
    program = weft.Program("p", tuple(inputs), outputs, in_place=((0, 0),))
    return updates(from_program(program))


def each(body: Any, name: str = "new") -> Any:
    return weft.compute((n,), body, name=name)


def sums(i: Any) -> Any:
    k = weft.reduce_axis((0, n), name="k")
    return weft.sum(X[i] * Y[k], axis=k)


NEW = each(lambda i: weft.select(i < 3, Y[i], X[i]))


@pytest.mark.parametrize(
    "result",
    [
        NEW,
        each(lambda i: X[i] + 1),
        each(lambda i: X[i] * X[i] + Y[n - 1 - i]),
        weft.scatter(X, (3,), lambda k: ((AT[k],), Y[k]), name="new"),
        weft.scatter(X, (3,), lambda k: ((AT[k],), Y[k]), combine="add", name="new"),
    ],
)
def test_updates(result: Any) -> None:
    assert of(result) == ((0, 0),)


@pytest.mark.parametrize(
    "outputs",
    [
        (each(lambda i: Y[i]),),  # nothing of x
        (each(lambda i: X[n - 1 - i]),),  # other elements
        (each(lambda i: X[i] + X[0]),),
        (each(sums),),  # a fold begins with its identity, in the result
        (weft.scatter(X, (3,), lambda k: ((AT[k],), X[k]), name="new"),),
        (weft.scatter(Y, (3,), lambda k: ((AT[k],), X[k]), name="new"),),
        (NEW, X),  # x is wanted as it was
        (NEW, each(lambda i: X[i] * 2, "more")),  # and read by somebody else
        (X,),
        weft.computes((n,), lambda i: (X[i] + 1, X[i] * 2), name="both"),
        (weft.reshape(each(lambda i: X[i] + 1), (n, 1), name="new"),),
    ],
)  # fmt: skip
def test_no_updates(outputs: Any) -> None:
    assert of(*outputs) == ()
