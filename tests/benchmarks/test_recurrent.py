from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import weft
from weft.benchmarks import recurrent
from weft.benchmarks.case import error_of
from weft.benchmarks.recurrent import Layer


def test_every_name_is_there_once_and_quick_is_a_part() -> None:
    names = [planned.name for planned in recurrent.cases(quick=False)]
    assert len(set(names)) == len(names)
    assert {planned.name for planned in recurrent.cases(quick=True)} < set(names)


@pytest.mark.parametrize("op", recurrent.GATES)
@pytest.mark.parametrize(
    "hidden, batch, steps, threads", [(1, 1, 1, 1), (19, 1, 5, 2), (19, 3, 5, 1), (48, 2, 4, 2)]
)
def test_a_case_is_what_it_says(op: str, hidden: int, batch: int, steps: int, threads: int) -> None:
    case = recurrent.case(Layer(op, hidden, batch, steps))
    (expected,) = case.expected()
    (reference,) = ReferenceEvaluator(case.model).run(None, dict(case.inputs))
    assert error_of(np.asarray(reference), expected) <= case.tolerance
    program = weft.compile(case.model, options=weft.Options(threads=threads))
    assert error_of(np.asarray(program(**case.inputs)), expected) <= case.tolerance
