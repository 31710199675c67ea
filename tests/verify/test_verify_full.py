"""A bug in any pass is found and named by full verification, and nothing else is.

Each bug is put into the pass's own module, where a programmer would make it.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.weft import verified_examples as examples
from weft.codegen.rebuild import map_children
from weft.driver.options import Options
from weft.ir.errors import InternalError, WeftWarning
from weft.ir.loop_ir import For
from weft.ir.operator_graph import Graph
from weft.ir.scalar_expr import Apply, Literal, Load, literal, rewrite
from weft.verify.verify_full import verify_full

OPTIONS = Options(cache=False, workers=0, verify="full")
Break = Callable[[Any], Any]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Break], None]:
    """``broken("module.name", change)`` puts ``change(original)`` in the place of a function."""

    def put(path: str, change: Break) -> None:
        module, name = path.rsplit(".", 1)
        try:
            owner = importlib.import_module(module)
        except ModuleNotFoundError:
            outer, cls = module.rsplit(".", 1)
            owner = getattr(importlib.import_module(outer), cls)
        monkeypatch.setattr(owner, name, change(getattr(owner, name)))

    return put


def after(change: Callable[[Any], Any]) -> Break:
    """The original, and then ``change`` on its result."""
    return lambda original: lambda *args, **kwargs: change(original(*args, **kwargs))


def diverging(graph: Graph) -> InternalError:
    with pytest.raises(InternalError) as caught:
        verify_full(graph, OPTIONS)
    assert caught.value.code == "WEFT-E0920"
    return caught.value


def named(graph: Graph) -> str:
    """The pass that verification blames: in an error, or in the warning of a refused schedule."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            verify_full(graph, OPTIONS)
        except InternalError as error:
            found = re.search(r"results diverge after pass (\w+), on a small", error.what)
            assert found, error
            return found[1]
    text = str(next(w.message for w in caught if "refused after" in str(w.message)))
    found = re.search(r"refused after (\w+), on a small instance\nWEFT-E04", text)
    assert found, text
    return f"{found[1]}, refused"


# ---- bugs ---------------------------------------------------------------------------------------


def constant_off(graph: Graph) -> Graph:
    data = {name: value + np.float32(1) for name, value in graph.constants.items()}
    for value in data.values():
        value.flags.writeable = False
    return replace(graph, constants=data)


def swapped_subtraction(expr: Any) -> Any:
    def change(node: Any) -> Any:
        return Apply("sub", node.args[::-1]) if isinstance(node, Apply) and node.op == "sub" and (
            node.dtype.is_float) else None  # fmt: skip

    return rewrite(expr, change)


def swapped_in_scop(scop: Any) -> Any:
    def body(s: Any) -> Any:
        return replace(s.body, results=tuple(map(swapped_subtraction, s.body.results)))

    return replace(scop, statements=tuple(replace(s, body=body(s)) for s in scop.statements))


def constant_operand(expr: Any) -> Any:
    """An operand is dropped: its value is 0."""

    def change(node: Any) -> Any:
        dropped = isinstance(node, Load) and node.dtype.is_float
        return literal(0.0, node.dtype) if dropped else None

    return rewrite(expr, change)


def one_instance_less(stmt: Any) -> Any:
    """Loops of four turns and more end one early."""

    def change(node: Any) -> Any:
        node = map_children(node, change)
        if isinstance(node, For) and isinstance(node.upper, Literal) and node.upper.value > 3:
            return replace(node, upper=node.upper - 1)
        return node

    return change(stmt)


def misfolding(original: Any) -> Any:
    """A condition ``i - 1 >= 0`` is taken to hold."""

    def simplify(expr: Any, ranges: Any = None) -> Any:
        match original(expr, ranges):
            case Apply("ge", (left, Literal())) if not left.dtype.is_float:
                return literal(True, "bool")
            case result:
                return result

    return simplify


def all_at_zero(result: Any) -> Any:
    offsets, arena = result
    return {name: literal(0) for name in offsets}, arena


def swapped_operands(original: Any) -> Any:
    return lambda self, op, args: original(self, op, args[::-1] if op == "sub" else args)


TRANSFORM = "weft.polyhedral.transform"
BUGS: list[tuple[str, Callable[[], Graph], str, Break]] = [
    ("fold", examples.dense, "weft.driver.graph_front.fold_constants", after(constant_off)),
    ("simplify", examples.dense, "weft.driver.graph_front.simplify", after(constant_off)),
    ("dead", examples.dense, "weft.driver.graph_front.eliminate_dead", after(constant_off)),
    ("outputs", examples.dense, "weft.driver.graph_front.own_outputs", after(constant_off)),
    ("from_tensor_expr", examples.dense, "weft.polyhedral.lower_compute.Body",
     lambda body: lambda lets, results: body(lets, tuple(map(swapped_subtraction, results)))),
    ("coalesce", examples.dense, "weft.verify.verify_cluster.coalesce", after(swapped_in_scop)),
    ("inline", examples.dense, f"{TRANSFORM}.inline_producer._instance",
     after(constant_operand)),
    ("hoist", examples.dense, f"{TRANSFORM}.hoist_constants._hoist",
     after(swapped_in_scop)),
    ("pack", examples.dense, f"{TRANSFORM}.local_copy._copy",
     after(lambda s: replace(s, body=replace(s.body, results=(literal(0.0, "float32"),))))),
    ("from_schedule", examples.dense, "weft.codegen.from_schedule.scan", after(one_instance_less)),
    ("simplify", examples.convolution, "weft.codegen.simplify.simplify", misfolding),
    ("transpose_strips", examples.chain, "weft.codegen.transpose_strips._written_out",
     after(one_instance_less)),
    ("assemble", examples.chain, "weft.driver.assemble.plan", after(all_at_zero)),
    ("llvm", examples.dense, "weft.codegen.llvm.scalar.ScalarOps._float", swapped_operands),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "graph", "path", "change"), BUGS, ids=[f"{b[0]}-{b[2].split('.')[-2]}" for b in BUGS]
)
def test_a_bug_is_named(
    broken: Callable[[str, Break], None],
    name: str,
    graph: Callable[[], Graph],
    path: str,
    change: Break,
) -> None:
    broken(path, change)
    assert named(graph()) == name


@pytest.mark.long
@pytest.mark.parametrize("graph", [examples.dense, examples.convolution, examples.chain])
def test_correct_passes_pass(graph: Callable[[], Graph], recwarn: pytest.WarningsRecorder) -> None:
    verify_full(graph(), OPTIONS)
    assert not [w for w in recwarn if issubclass(w.category, WeftWarning)]


def test_the_error_shows_where_and_both_programs(
    broken: Callable[[str, Break], None], tmp_path: Path
) -> None:
    broken(f"{TRANSFORM}.inline_producer._instance", after(constant_operand))
    with pytest.raises(InternalError) as caught:
        verify_full(examples.dense(), replace(OPTIONS, dump=str(tmp_path)))
    error = caught.value
    assert "compute 'product'" in error.where and "result[" in error.why
    before, now = error.__notes__
    assert "before inline (after regroup)" in before and "after inline" in now
    texts = {path.name.split("verify-")[1]: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(texts) == ["after-inline.txt", "before-inline.txt"]
    assert "centred" in texts["before-inline.txt"]
    assert "centred_centred[" not in texts["after-inline.txt"]


def test_a_pass_that_crashes_is_named(broken: Callable[[str, Break], None]) -> None:
    broken("weft.codegen.split_tails._separated", lambda original: lambda body, outer: body.lost)
    error = diverging(examples.dense())
    assert "pass split_tails" in error.what and "AttributeError" in error.why


def test_through_the_front_door(broken: Callable[[str, Break], None]) -> None:
    x = weft.placeholder((5, 11), name="x")
    y = weft.compute((5, 11), lambda i, j: x[i, j] - 1.0, name="y")
    data = np.arange(55, dtype=np.float32).reshape(5, 11)
    np.testing.assert_array_equal(weft.compile(y, options=OPTIONS)(data), data - 1)
    broken("weft.codegen.llvm.scalar.ScalarOps._float", swapped_operands)
    with pytest.raises(InternalError, match="after pass llvm"):
        weft.compile(y, options=OPTIONS)


def test_what_is_too_large_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.verify.verify_cluster.MAX_POINTS", 10)
    with pytest.warns(WeftWarning, match="static checkers only.*points"):
        verify_full(examples.dense(), OPTIONS)
