from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.benchmarks import attention
from weft.benchmarks.case import error_of
from weft.benchmarks.peers.onnx_to_torch import module_of


def test_every_name_is_there_once_and_quick_is_a_part() -> None:
    names = [planned.name for planned in attention.cases(quick=False)]
    assert len(set(names)) == len(names)
    assert {planned.name for planned in attention.cases(quick=True)} < set(names)


@pytest.mark.parametrize("form", attention.FORMS)
@pytest.mark.parametrize("tokens", [1, 40])
def test_a_case_is_what_it_says(form: str, tokens: int) -> None:
    case = attention.case(form, tokens)
    (expected,) = case.expected()
    program = weft.compile(case.model, options=weft.Options(threads=1))
    assert error_of(np.asarray(program(**case.inputs)), expected) <= case.tolerance


def test_pytorch_computes_the_same() -> None:
    torch = pytest.importorskip("torch")
    case = attention.case("causal", 40)
    (found,) = module_of(torch, case.model)(*map(torch.from_numpy, case.inputs.values()))
    assert error_of(found.numpy(), case.expected()[0]) <= case.tolerance
