"""Flow is what an execution sees: the last writer of every element that is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import islpy as isl
import pytest

from tests.polyhedral.example_scops import gemm, gemm_tree
from tests.polyhedral.proof.test_implied import crowded_scop
from tests.polyhedral.scops import (
    Band,
    Constraint,
    Leaf,
    Sequence,
    Var,
    at,
    box,
    instances,
    loop,
    nest,
    scop,
    statement,
    tensor,
)
from tests.properties.brute_force import Element, all_parameters, touched
from tests.properties.random_scops import random_scop
from weft.ir.named_isl import constrained, decode, domain_set, parameter_space, union_maps
from weft.ir.schedule_times import original_schedule, schedule_map
from weft.ir.scop import Scop
from weft.polyhedral.proof.flow import FINAL, Flow, Read, flow

i, j, k = Var("i"), Var("j"), Var("k")

Pair = tuple[tuple[int, ...], str, tuple[int, ...]]  # reader's point, writer or tensor, point


def _executed(of: Scop, parameters: Mapping[str, int]) -> dict[Read, set[Pair]]:
    """What every read sees, by running ``of``."""
    rows = []
    for number, s in enumerate(of.statements):
        for env in instances(s, parameters, -1, 6):
            key = tuple(env[p] if isinstance(p, str) else p for p in s.position)
            rows.append(((*key, *[0] * (20 - len(key)), number), s, env))
    memory: dict[Element, tuple[str, tuple[int, ...]]] = {}
    found: dict[Read, set[Pair]] = defaultdict(set)
    for _, s, env in sorted(rows, key=lambda row: row[0]):
        point = tuple(env[d] for d in s.dims)
        implicit = [w if s.update or w.may else None for w in s.writes]
        for number, access in enumerate((*s.reads, *implicit)):
            for element in () if access is None else touched(of, access, env):
                found[Read(s.name, number)].add((point, *memory.get(element, element)))
        for write in s.writes:
            memory.update(dict.fromkeys(touched(of, write, env), (s.name, point)))
    for t in of.tensors:
        for (name, point), writer in memory.items():
            size = 5 if t.shape else 0
            if name == t.name and all(0 <= p < size for p in point):
                found[Read(t.name, FINAL)].add((point, *writer))
    return found


def _computed(of: Scop, seen: Flow, parameters: Mapping[str, int]) -> dict[Read, set[Pair]]:
    here = tuple(Constraint(Var(p) - v, equality=True) for p, v in parameters.items())
    space = parameter_space(of).set_from_params()
    fixed = isl.Set(constrained(space, (), here)).params()
    found: dict[Read, set[Pair]] = defaultdict(set)
    for part in (seen.sources, seen.initial):
        for read, pairs in part.items():
            for one in union_maps(pairs.intersect_params(fixed)):
                split = one.dim(isl.dim_type.in_)
                name = decode(one.get_tuple_name(isl.dim_type.out))
                points: list[isl.Point] = []
                one.wrap().flatten().foreach_point(points.append)
                for p in points:
                    row = tuple(
                        p.get_coordinate_val(isl.dim_type.set, q).to_python()
                        for q in range(split + one.dim(isl.dim_type.out))
                    )
                    final_initial = read.number == FINAL and part is seen.initial
                    if not final_initial:  # elements that nothing writes
                        found[read].add((row[:split], name, row[split:]))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_random_scops_against_execution(seed: int) -> None:
    of = random_scop(Random(seed))
    of = replace(of, tensors=tuple(replace(t, role="output") for t in of.tensors))
    seen = flow(of)
    for parameters in all_parameters(of):
        assert _computed(of, seen, parameters) == _executed(of, parameters)


@pytest.mark.parametrize("seed", range(30))
def test_crowded_scops_against_execution(seed: int) -> None:
    """Writes that others hide are not even looked at: nothing that is seen is lost by that."""
    of = crowded_scop(Random(seed))
    seen, slowly = flow(of), flow(of, original_schedule(of))
    assert list(seen.sources) == list(slowly.sources) and list(seen.initial) == list(slowly.initial)
    assert all(seen.sources[r].is_equal(slowly.sources[r]) for r in seen.sources)
    assert all(seen.initial[r].is_equal(slowly.initial[r]) for r in seen.initial)
    for size in (3, 4):
        expected, found = _executed(of, {"n": size}), _computed(of, seen, {"n": size})
        assert {r: p for r, p in found.items() if p and r.number != FINAL} == {
            r: p for r, p in expected.items() if r.number != FINAL
        }


def test_folds_show_all_contributions() -> None:
    seen = flow(gemm(4), schedule_map(gemm(4), gemm_tree()), folds=lambda s: s.update is not None)
    final = _computed(gemm(4), seen, {})[Read("C", FINAL)]
    at_corner = {pair[1:] for pair in final if pair[0] == (0, 3)}
    assert at_corner == {("init", (0, 3)), *(("mac", (0, 3, q)) for q in range(4))}
    assert Read("mac", 2) not in seen.sources


def test_only_inputs_and_outputs_are_final() -> None:
    of = scop(
        (tensor("T", 4), tensor("U", 4, role="input"), tensor("Y", 4, role="output")),
        statement("a", box(i=4), at("T", i)),
        statement("b", box(i=4), at("Y", i), (at("T", i), at("U", i)), position=1),
    )
    assert {read.name for read in flow(of).sources if read.number == FINAL} == {"Y"}
    assert set(flow(of).initial) == {Read("b", 1), Read("U", FINAL)}


@pytest.mark.parametrize("size", [0, 1])
def test_statements_without_instances(size: int) -> None:
    of = scop(
        (tensor("T", 4, role="output"), tensor("Y", 4, role="output")),
        statement("a", box(i=size), at("T", i)),
        statement("b", box(i=4), at("Y", i), (at("T", i),), position=1),
        statement("c", box(i=0), at("Y", i), (at("Y", i),), position=2),
    )
    seen = flow(of)
    assert _computed(of, seen, {}) == _executed(of, {})
    assert set(flow(replace(of, statements=())).initial) == {Read("T", FINAL), Read("Y", FINAL)}


def test_no_read_is_lost() -> None:
    """isl's analysis forgets reads where the schedule repeats the divs of the domain: a copy into a
    tile of a skewed band, found by the fuzzer."""
    n, t, a, b = Var("n"), Var("t"), Var("a"), Var("b")
    u, v, x, y = Var("u"), Var("v"), Var("x"), Var("y")
    sweep = statement(
        "S", box(t=3, a=(1, n), b=(1, n)), at("A", a, b), (at("A", a + 1, b + 1),),
        dims=("t", "a", "b"),
    )  # fmt: skip
    domain = (
        Constraint(x + 2 - y * 2 - n, equality=True), Constraint(n - u - 2), Constraint(v + n - 3),
        Constraint(1 - v), *box(t=3, u=2, y=2),
    )  # fmt: skip
    copy = statement(
        "copy", domain, at("L", t, u, v, x, y), (at("A", y + u + 1, x + v - 1),),
        dims=("t", "u", "v", "x", "y"),
    )  # fmt: skip
    whole = scop(
        (tensor("A", n + 1, n + 1, role="inout"), tensor("L", 3, 2, n, n + 1, 2)),
        sweep, copy, parameters=("n",), context=(Constraint(n - 1), Constraint(3 - n)),
    )  # fmt: skip
    tree = Band(
        (
            loop("t", S=t, copy=t), loop("u", S=(a + 1) % 2, copy=u),
            loop("v", S=b - n + 2, copy=v),
        ),
        Sequence((nest("copy", x, y), Leaf("S"))),
    )  # fmt: skip
    found = flow(whole, schedule_map(whole, tree))
    read = Read("copy", 0)
    seen = found.sources[read].domain().union(found.initial[read].domain())
    assert seen.is_equal(domain_set(whole, copy).to_union_set())


def test_the_last_of_several_writes_through_redundant_constraints() -> None:
    """isl took the first one, before redundant constraints were removed."""
    m, o = Var("m"), Var("o")
    domain = (
        Constraint((o + 2) // 3 * 3 - o - 2, equality=True),
        *map(Constraint, (1 - m, o - 1, o + j - m * 6 - 2, m * 6 + 3 - o - j, 4 - o)),
        Constraint(m * 6 + 1 - o),
    )
    store = replace(statement("s", box(j=1), at("A", o + j - m * 6 - 1)), dims=("j", "m", "o"))
    of = scop((tensor("A", 4, role="inout"),), replace(store, domain=domain))
    times = schedule_map(of, nest("s", j, m, o))
    seen = flow(of, times, wanted={Read("A", FINAL)}).sources[Read("A", FINAL)]
    (part,) = union_maps(seen)
    expected = {(1, 7, 1, 1), (2, 8, 1, 1)}
    points: list[isl.Point] = []
    part.wrap().foreach_point(points.append)
    found = {
        tuple(p.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(4))
        for p in points
    }
    assert found == expected
