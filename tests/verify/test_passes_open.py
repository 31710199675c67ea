"""On the machine that small instances are compiled for, passes over loops have something to do."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest

import weft
from weft.benchmarks.loop_programs.run import PROGRAMS
from weft.benchmarks.polybench.run import SUITE
from weft.codegen.from_schedule import build_kernel
from weft.codegen.optimise_kernel import passes
from weft.driver.cluster_code import nests
from weft.driver.graph_front import cluster_scops
from weft.frontend.onnx.importer import import_model
from weft.ir.dtypes import as_dtype
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops
from weft.verify.ladder import Setting

MACHINE = Setting(weft.Options()).machine
MODELS = (
    "(float[40,24] x) => (float[24,40] y) { y = Transpose(x) }",
    "(float[24,40] x, float[40,32] w) => (float[24,32] y) { h = MatMul(x, w) y = Relu(h) }",
    "(float[300,48] x) => (float[300] y) <int64[1] a = {1}> { y = ReduceSum<keepdims=0>(x, a) }",
    "(float[300,48] x) => (float[300,48] y) { y = Softmax<axis=0>(x) }",
    "(float[8,5,6] x, float[8,4,6] z) => (float[8,9,6] y) { y = Concat<axis=1>(x, z) }",
)


def scops() -> Iterator[Scop]:
    for name in ("gemm", "lu", "deriche", "jacobi-2d"):
        yield SUITE[name].make(as_dtype(SUITE[name].dtype)).scop
    yield PROGRAMS["components"].kernel.scop  # its indices are data
    for text in MODELS:
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> m {text}')
        yield from cluster_scops(import_model(model, {})).values()


@pytest.fixture(scope="module")
def changed() -> set[str]:
    """The passes that change a kernel."""
    found = set()
    for scop in scops():
        for nest in nests(schedule_loops(scop, MACHINE), scop.name):
            kernel = build_kernel(nest.scop, nest.tree, nest.scop.name, MACHINE)
            for name, action in passes(MACHINE):
                made = action(kernel)
                found |= {name} if made != kernel else set()
                kernel = made
    return found


# What these look for, few programs have; their own tests have it.
RARE = (
    "group_guards", "cut_ranges", "peel_first", "collapse_rows", "unroll_and_jam",
    "software_pipeline", "late_operands", "short_sums", "known_loads",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n, _ in passes(MACHINE) if n not in RARE])
def test_each_changes_something(name: str, changed: set[str]) -> None:
    assert name in changed
