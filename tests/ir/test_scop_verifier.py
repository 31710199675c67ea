"""One test per rule that a Scop can break; the Scops of real programs break none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.errors import InternalError
from weft.ir.scalar_expr import Load, Var, literal
from weft.ir.scop import Access, Body, Constraint, Update
from weft.ir.scop_verifier import verify
from weft.ir.tensor_expr import Program
from weft.polyhedral.from_tensor_expr import lower

i, q = Var("i"), Var("q")


def example():
    n = w.var("n")
    a, ix = w.placeholder((n,), name="a"), w.placeholder((n,), "int64", name="ix")
    k = w.reduce_axis((0, n), name="k")
    t = w.compute((n,), lambda i: a[ix[i]] + a[i] + w.sum(a[k], k), name="t")
    return lower(Program("p", (a, ix), (t,)), "p")


def broken(code, match=None, *, statement=2, scop=None, **changes):
    """The example with ``changes`` to one statement, or ``scop``, is refused."""
    if scop is None:
        scop = example()
        parts = list(scop.statements)
        parts[statement] = replace(parts[statement], **changes)
        scop = replace(scop, statements=tuple(parts))
    with pytest.raises(InternalError, match=match) as caught:
        verify(scop)
    assert caught.value.code == f"WEFT-{code}"


def test_the_example_is_well_formed():
    verify(example())


def test_names_are_unique_identifiers():
    scop = example()
    broken("E0941", "two statements", name="t_add")
    broken("E0941", "is not an identifier", name="a b")
    twice = replace(scop, tensors=(*scop.tensors, scop.tensors[0]))
    broken("E0941", "two tensors", scop=twice)
    broken("E0941", "two parameters", scop=replace(scop, parameters=("n", "n")))


def test_parameters_shapes_and_the_context():
    scop = example()
    broken("E0942", "not a parameter", scop=replace(scop, derived=(("m", i),)))
    later = replace(scop, parameters=("n", "d"), derived=(("d", Var("d")),))
    broken("E0946", "d of dtype int64 is not in scope", scop=later)
    broken("E0944", "q is not in scope", scop=replace(scop, context=(Constraint(q),)))
    square = replace(scop.tensors[0], shape=(Var("n") * Var("n"),))
    broken("E0944", "not quasi-affine", scop=replace(scop, tensors=(square, *scop.tensors[1:])))
    gone = replace(scop.tensors[0], contracted=2)
    broken("E0942", "2 dimensions", scop=replace(scop, tensors=(gone, *scop.tensors[1:])))


def test_dims_and_positions():
    broken("E0943", "a dim has the name", dims=("i", "i"))
    broken("E0943", "a dim has the name", dims=("n",))
    broken("E0943", "is no position", position=(0,))
    broken("E0943", "is no position", position=(0, "i", 0, "i", 0))
    broken("E0943", "is no position", position=("i", 0))
    broken(
        "E0943", "one position", statement=0, position=example().statements[2].position, dims=("i",)
    )
    broken("E0944", "i \\* i is not quasi-affine", domain=(Constraint(i * i),))


def test_accesses():
    reads = example().statements[2].reads
    broken("E0945", "no tensor z", reads=(Access("z", (i,)), *reads[1:]))
    broken("E0945", "1 indices", reads=(Access("a", (i, i)), *reads[1:]))
    broken("E0945", "1 indices", reads=(Access("ix", (i,), (), True), *reads[1:]))
    broken("E0944", "q is not in scope", reads=(Access("ix", (q,)), *reads[1:]))
    broken("E0944", "quasi-affine", reads=(Access("ix", (i,), (Constraint(i * i),)), *reads[1:]))
    ahead = replace(reads[1], body_indices=(Load(1, (), dtypes.int64),))
    broken("E0946", "not an operand", reads=(reads[0], ahead, *reads[2:]))
    real = replace(reads[1], body_indices=(literal(0.0, "float32"),))
    broken("E0946", "not int64", reads=(reads[0], real, *reads[2:]))
    broken("E0945", "which is an input", writes=(Access("a", (i,)),))


def test_bodies():
    value = literal(0.0, "float32")
    broken("E0946", "one result for each write", body=Body((), ()))
    broken("E0946", "not float32", body=Body((), (literal(0),)))
    broken("E0946", "bound twice", body=Body((("i", value),), (value,)))
    broken("E0946", "x of dtype float32", body=Body((), (Var("x", dtypes.float32),)))
    broken("E0946", "not an operand", body=Body((), (Load(9, (), dtypes.float32),)))
    broken("E0946", "not an operand", body=Body((), (Load(0, (), dtypes.float32),)))
    broken("E0946", "not an operand", body=Body((), (Load("a", (), dtypes.float32),)))
    k = w.reduce_axis((0, 2), name="k")
    broken("E0946", "Reduce in the body", body=Body((), (w.sum(value, k),)))


def test_updates():
    add, wide = w.monoid("add", dtypes.float32), w.monoid("add", dtypes.float64)
    broken("E0943", "along what is no dim", update=Update(add, ("q",)))
    broken("E0946", "components of add", update=Update(wide, ("i",)))
