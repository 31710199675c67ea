from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import weft
from weft.benchmarks import memory
from weft.benchmarks.case import error_of
from weft.benchmarks.memory import OPERATORS, QUICK, Operator


def test_every_name_is_there_once_and_quick_is_a_part() -> None:
    names = [planned.name for planned in memory.cases(quick=False)]
    assert len(set(names)) == len(names) == len(OPERATORS) * len(memory.sizes())
    quick = [planned.name for planned in memory.cases(quick=True)]
    assert set(quick) <= set(names) and len(quick) == sum(map(len, QUICK.values()))


def test_sizes_grow_from_the_first_cache_to_beyond_the_last() -> None:
    found = list(memory.sizes().values())
    assert found == sorted(found) and found[-1] >= 4 * found[-2]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
@pytest.mark.parametrize("size", [1, 16 << 10])
def test_a_case_is_what_it_says(operator: Operator, size: int) -> None:
    case = memory.case(operator, "L1", size)
    (expected,) = case.expected()
    if "RMS" not in str(case.model.graph.node[0].op_type):  # unknown to the reference
        (found,) = ReferenceEvaluator(case.model).run(None, dict(case.inputs))
        assert error_of(found, expected) <= case.tolerance
    assert error_of(_compiled(case), expected) <= case.tolerance


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_about_as_many_bytes_are_moved_as_asked_for(operator: Operator) -> None:
    size = 1 << 20
    assert 0.8 * size < memory.case(operator, "L2", size).bytes < 1.1 * size


def _compiled(case: memory.Case) -> np.ndarray:
    program = weft.compile(case.model, options=weft.Options(threads=1))
    return np.asarray(program(*case.inputs.values()))
