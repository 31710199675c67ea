"""Kernels as affine statements mean what the Python functions mean, instance by instance."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.loops.kernels import PROGRAMS, SIZES, in_python
from weft.ir.scalar_expr import Select, walk
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_verifier import verify


@pytest.mark.parametrize("name", PROGRAMS)
def test_statements_compute_what_the_function_does(name: str) -> None:
    kernel, make = PROGRAMS[name]
    verify(kernel.lowered.scop)
    arguments = kernel.lowered.arguments
    for n in SIZES[:6]:
        given = make(n)
        wanted = dict(zip([a.name for a in arguments], in_python(kernel, given), strict=True))
        inputs = {
            a.name: np.asarray(v, a.dtype.numpy)
            for a, v in zip(arguments, given, strict=True)
            if a.kind != "parameter"
        }
        known = {
            a.name: int(v) for a, v in zip(arguments, given, strict=True) if a.kind == "parameter"
        }
        results = interpret(kernel.lowered.scop, inputs, known)
        assert results
        for tensor, result in results.items():
            np.testing.assert_allclose(result, wanted[tensor], rtol=1e-6, err_msg=f"{tensor}, {n}")


def test_one_of_several_values_of_an_element_is_one_statement() -> None:
    kernel, _ = PROGRAMS["either"]
    (statement,) = kernel.lowered.scop.statements
    assert [w.tensor for w in statement.writes] == ["y"] and statement.update is None


def test_comparisons_of_integers_and_conditions_fold() -> None:
    kernel, _ = PROGRAMS["folds"]
    found = [s.update.monoid.name if s.update else "" for s in kernel.lowered.scop.statements]
    assert found == ["min", "max", "min", "max", "", "or", "and", "or"]


def test_comparisons_of_floats_fold_in_their_own_way() -> None:
    """The fourth and the last take NaN, as no fold does."""
    kernel, _ = PROGRAMS["float_folds"]
    found = [s.update for s in kernel.lowered.scop.statements]
    names = [update.monoid.name if update else "" for update in found]
    assert names == ["min_lt", "max_ge", "min_lt", "", "max_gt", "max_ge", ""]
    assert not any(update.monoid.laws for update in found if update)


def test_names_that_are_compared_under_their_condition_alone_are_worked_out_everywhere() -> None:
    """Not ``last``, which a later turn reads, nor an element that may not exist, nor ``e``."""
    kernel, _ = PROGRAMS["guarded_names"]
    plain = [
        s.writes[0].tensor
        for s in kernel.lowered.scop.statements
        if not any(isinstance(n, Select) for e in s.body.results for n in walk(e))
    ]
    assert [name for name in plain if name in ("d", "e", "last", "far")] == ["last", "d"]
