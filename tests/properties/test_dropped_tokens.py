"""Every token of small streams is left out, at both ends and at either one: the checker refuses
all of these, on VTA in two configurations and on a machine that is none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from tests.accel.convolutions import convolution
from tests.accel.targets import SMALL, target
from tests.properties.offloads import End, tokens, unnoticed
from tests.weft.strange_machines import MACHINES
from weft.accel.artifact import Artifact
from weft.ir.build import compute, placeholder, reduce_axis, sum
from weft.ir.dtypes import i8, i32
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Issue
from weft.ir.scalar_expr import cast
from weft.ir.scop import Scop
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, offload
from weft.offload.simulator import check_stream
from weft.polyhedral.from_tensor_expr import lower


def product(rows: int, columns: int, terms: int) -> Scop:
    x, w = placeholder((rows, terms), i8, name="x"), placeholder((terms, columns), i8, name="w")
    k = reduce_axis((0, terms), name="k")
    sums = compute(
        (rows, columns), lambda i, j: sum(cast(x[i, k], i32) * cast(w[k, j], i32), (k,)), name="y"
    )
    return lower(Program("product", (x, w), (sums,)), "product")


def outer_product() -> Target:
    return Target.of(MACHINES["outer_product"]())


CASES = {
    "default": (lambda: target(), lambda: convolution(16, 8, 32, 3, 1, 1)),
    "batch of 2": (lambda: target(SMALL), lambda: convolution(8, 5, 16, 3, 1, 1)),
    "outer products": (outer_product, lambda: product(41, 39, 70)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_checker_misses_each_of_them(name: str) -> None:
    make, scop = CASES[name]
    machine = make()
    artifact = offload(scop(), machine, {}).artifact
    every, notes = list(tokens(artifact)), Counter[str]()
    assert unnoticed(artifact, machine, every, notes) == []
    assert notes.total() == 3 * len(every) and len(every) >= 10


def test_a_token_too_many_is_found() -> None:
    """One more that nobody needs: left out at both ends, the stream is as good as before."""
    machine = target()
    artifact = offload(convolution(16, 8, 32, 3, 1, 1), machine, {}).artifact
    more, token = one_more(artifact, machine)
    assert unnoticed(more, machine, [token], Counter()) == [token]


def one_more(artifact: Artifact, machine: Target) -> tuple[Artifact, tuple[End, End]]:
    """``artifact`` with another token, which comes and goes before the others of its wire."""
    stream = artifact.stream
    queues = [stream.accelerator.operation(issue.operation).queue for issue in stream.issues]
    for wire in stream.accelerator.wires:
        pushes = [n for n, issue in enumerate(stream.issues) if wire in stream.pushes(issue)]
        for give, take in combinations(range(min(pushes, default=len(queues))), 2):
            if (queues[give], queues[take]) == (wire.source, wire.sink):
                issues = list(stream.issues)
                for number, flag in ((give, wire.push), (take, wire.pop)):
                    fields = {**issues[number].fields, flag: 1}
                    issues[number] = Issue(issues[number].operation, fields)
                made = replace(artifact, stream=replace(stream, issues=tuple(issues)))
                try:
                    check_stream(made, machine.semantics)
                except StreamError:
                    continue
                return made, ((give, wire.push), (take, wire.pop))
    raise AssertionError("no token fits in")
