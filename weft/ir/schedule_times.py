"""When instances run: their times as maps, and what orders statements without isl."""

from __future__ import annotations

import islpy as isl

from weft.ir.errors import InternalError
from weft.ir.named_isl import (
    domain_set,
    fixed_value,
    multi_aff,
    parameter_space,
    target_rank,
    tuple_space,
    where_equal,
    where_less,
)
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, variable
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree, children
from weft.ir.scop import Scop


def paths(tree: Tree) -> dict[str, tuple[Loop | int, ...]]:
    """What orders each statement, outermost first: its loops, and its places in sequences.

    Two statements share the entries before the first place at which they differ.
    """
    found: dict[str, tuple[Loop | int, ...]] = {}
    stack: list[tuple[Tree, tuple[Loop | int, ...]]] = [(tree, ())]
    while stack:
        node, path = stack.pop()
        match node:
            case Leaf(statement):
                found[statement] = path
            case Band(loops, child):
                stack.append((child, path + loops))
            case Sequence(parts):
                stack.extend((part, (*path, k)) for k, part in reversed(list(enumerate(parts))))
            case _:
                stack.extend((child, path) for child in children(node))
    return found


def schedule_map(scop: Scop, tree: Tree) -> isl.UnionMap:
    """Instances → their time under ``tree``, all times of one length, later = greater."""
    rows = {
        name: [affine(entry.at[name]) if isinstance(entry, Loop) else entry for entry in path]
        for name, path in paths(tree).items()
    }
    return _times(scop, rows)


def original_schedule(scop: Scop) -> isl.UnionMap:
    """Instances → their time in the initial order: ``Statement.position``, then list order.

    Raises InternalError (WEFT-E0943) for a statement that has no place in it.
    """
    placeless = next((s.name for s in scop.statements if not s.position), None)
    if placeless is not None:
        what = "it has no place in the initial order"
        raise InternalError("WEFT-E0943", what, where=placeless)
    length = max((len(s.position) for s in scop.statements), default=0)
    rows = {
        s.name: [variable(p) if isinstance(p, str) else p for p in s.position]
        + [0] * (length - len(s.position))
        + [number]
        for number, s in enumerate(scop.statements)
    }
    return _times(scop, rows)


def _times(scop: Scop, rows: dict[str, list[Affine | int]]) -> isl.UnionMap:
    length = max((len(row) for row in rows.values()), default=0)
    target = tuple_space(scop, "", length)
    result = isl.UnionMap.empty(parameter_space(scop))
    for name, row in rows.items():
        statement = scop.statement(name)
        values = [Affine((), v) if isinstance(v, int) else v for v in row]
        values += [Affine()] * (length - len(row))
        time = isl.Map.from_multi_aff(multi_aff(scop, statement, values, target))
        result = result.union(time.intersect_domain(domain_set(scop, statement)).to_union_map())
    return result


def runs_before(one: isl.Map, two: isl.Map) -> isl.Map:
    """Instances with the times ``one`` → those with the times ``two`` that come later."""
    times = one.range().get_space()
    equal = isl.Map.universe(times.map_from_set())
    found = isl.Map.empty(times.map_from_set())
    for k in range(target_rank(one)):
        first, second = fixed_value(one, k), fixed_value(two, k)
        if first is None or second is None:
            found = found.union(where_less(equal, k, k))
            equal = where_equal(equal, k, k)
        elif first != second:
            found = found.union(equal) if first < second else found
            break
    return one.apply_range(found).apply_range(two.reverse())
