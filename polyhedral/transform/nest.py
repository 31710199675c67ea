"""Nest: the loops of some statements, all at once, each by its value.

    for i: for j: for k:                      nest("S", {"i_t": "i // 32", "j": "j", "k": "k",
      C[i, j] += A[i, k] * B[k, j]     →                 "i_p": "i % 32"}, parallel=["i_t"])

                                              parallel i_t: for j: for k: for i_p: S

A schedule in the sense of polyhedral compilation: every loop is a quasi-affine function of the
statements' own dims, tiled (``i // 32``, ``i % 32``), skewed (``i + t``) or shifted (``i + 1``).
What the loops leave open keeps its textual order inside of them, so that an order is built from the
outside in: ``nest``, ``sequence``, ``nest``.
Also known as: schedules of Kelly and Pugh's framework (1993), of URUK and CHiLL; isl bands.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from keyword import iskeyword

from weft.ir.errors import IllegalScheduleError
from weft.ir.index_reader import parse_index
from weft.ir.instruction import labelled
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import (
    Band,
    Kind,
    Leaf,
    Loop,
    Mark,
    RegisterTile,
    Sequence,
    Tree,
    children,
    statements_below,
    walk,
    with_children,
)
from weft.ir.schedule_verifier import determined, loop_value, told_apart
from weft.ir.scop import Scop, Statement
from weft.polyhedral.transform.initial import textual
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    loops_above,
    path_to,
    rewrite,
    tidy,
    transformation,
    with_loops,
)
from weft.polyhedral.transform.tensorize import tensorize

Values = Mapping[str, str] | str  # of a loop: one for all, or by statements, "S0, S1"
_HOLE = Leaf("")


@transformation
def nest(
    scheduled: Scheduled,
    statements: str | Seq[str],
    loops: Mapping[str, Values],
    *,
    parallel: Seq[str] = (),
    vector: Seq[str] = (),
    unrolled: Seq[str] = (),
    grid: Seq[str] = (),
    block: Seq[str] = (),
) -> Scheduled:
    """``loops``, outermost first, around ``statements``, in place of those that only they share.

    ``loops``: name -> its value, in terms of the statements' dims and the sizes, for all statements
    or by statements, ``{"S0, S1": "i", "S2": "i + 1"}``; those named in ``parallel``, ``vector``,
    ``unrolled``, ``grid`` and ``block`` are of that kind. Dims that they leave open follow as
    textual loops. Where another nest has a loop of such a name, that one gets a number. Raises
    ``IllegalScheduleError``: WEFT-E0451 for an unknown statement, E0463 where no nest has these
    statements alone, E0460 for a name or value that is none or a loop of two kinds, E0412 for a
    value that is not quasi-affine in the dims, E0450 for a kind of a loop that is not there.
    """
    wanted = (statements,) if isinstance(statements, str) else tuple(statements)
    inside = _nest_of(scheduled.tree, wanted)
    named: Mapping[Kind, Seq[str]] = {
        "parallel": parallel, "vector": vector, "unrolled": unrolled, "grid": grid, "block": block
    }  # fmt: skip
    kinds: dict[str, Kind] = {}
    for kind, names in named.items():
        for name in names:
            if name not in loops:
                what = f"{name!r} is none of the loops of this nest"
                raise IllegalScheduleError("WEFT-E0450", what)
            if name in kinds:
                what = f"loop {name} cannot be {kinds[name]} and {kind}"
                raise IllegalScheduleError("WEFT-E0460", what)
            kinds[name] = kind
    around = _around(scheduled.tree, frozenset(wanted))
    outside = _replaced(scheduled.tree, frozenset(wanted), _HOLE)
    outside = _renamed(outside, loops, {loop.name for loop in around})
    order = statements_below(inside)
    new = tuple(
        Loop(name, _values(scheduled.scop, name, values, order), kinds.get(name, "serial"))
        for name, values in loops.items()
    )
    rest = _rest(scheduled.scop, order, (*around, *new), _names(outside) | {*loops})
    return replace(scheduled, tree=_filled(outside, Band(new, rest)))


def _nest_of(tree: Tree, wanted: Collection[str]) -> Tree:
    """What is in ``tree`` of the statements ``wanted``, outside of all loops that only they share:
    one subtree, or neighbours in a sequence."""
    if not wanted:
        raise IllegalScheduleError("WEFT-E0460", "a nest without statements", hint='nest("S0", …)')
    for name in wanted:
        path_to(tree, name)
    found = _found(tree, frozenset(wanted))
    if found is None:
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"no nest has just the statements {', '.join(wanted)}",
            hint="sequence puts them into a nest of their own",
        )
    return found


def _found(tree: Tree, wanted: frozenset[str]) -> Tree | None:
    if wanted == {*statements_below(tree)}:
        return tree
    parts = [c for c in children(tree) if not wanted.isdisjoint(statements_below(c))]
    return _found(parts[0], wanted) if len(parts) == 1 else _run(tree, wanted)


def _run(tree: Tree, wanted: frozenset[str]) -> Tree | None:
    """The neighbours directly in ``tree`` that hold just the statements ``wanted``."""
    every = tree.children if isinstance(tree, Sequence) else (tree,)
    parts = tuple(c for c in every if not wanted.isdisjoint(statements_below(c)))
    whole = parts[0] if len(parts) == 1 else Sequence(parts)
    return whole if wanted == {*statements_below(whole)} and _neighbours(every, parts) else None


def _neighbours(every: Seq[Tree], parts: Seq[Tree]) -> bool:
    first = next(k for k, child in enumerate(every) if child is parts[0])
    return all(child is part for child, part in zip(every[first:], parts, strict=False))


def _around(tree: Tree, wanted: frozenset[str]) -> tuple[Loop, ...]:
    """The loops of ``tree`` around the nest of the statements ``wanted``."""
    if wanted == {*statements_below(tree)}:
        return ()
    own = tree.loops if isinstance(tree, Band) else ()
    parts = [c for c in children(tree) if not wanted.isdisjoint(statements_below(c))]
    return (*own, *(_around(parts[0], wanted) if len(parts) == 1 else ()))


def _renamed(outside: Tree, wanted: Collection[str], above: Collection[str]) -> Tree:
    """``outside`` with other names for the loops that are called as one ``wanted``, none of which
    may be ``above``."""
    for name in wanted:
        if name in above:
            raise IllegalScheduleError("WEFT-E0460", f"there is a loop {name!r} around already")
        if not name.isidentifier() or iskeyword(name):
            raise IllegalScheduleError(
                "WEFT-E0460", f"{name!r} cannot name a loop", hint="a Python identifier"
            )
    taken = _names(outside) | {*wanted}

    def change(loop: Loop) -> Loop:
        return replace(loop, name=fresh(loop.name, taken)) if loop.name in wanted else loop

    return with_loops(outside, change)


def _names(tree: Tree) -> set[str]:
    return {loop.name for node in walk(tree) if isinstance(node, Band) for loop in node.loops}


def _filled(outside: Tree, new: Tree) -> Tree:
    """``outside`` with ``new`` in its hole."""
    return tidy(rewrite(outside, lambda node: new if node == _HOLE else None))


def _values(scop: Scop, loop: str, values: Values, statements: Seq[str]) -> dict[str, Expr]:
    by = {", ".join(statements): values} if isinstance(values, str) else values
    texts = {name.strip(): value for names, value in by.items() for name in names.split(",")}
    if {*texts} != {*statements}:
        what = f"loop {loop} has values for {', '.join(texts)}"
        hint = f"the statements inside are {', '.join(statements)}"
        raise IllegalScheduleError("WEFT-E0460", what, hint=hint)
    try:
        made = Loop(loop, {s: parse_index(texts[s]) for s in statements})
    except ValueError as error:
        raise IllegalScheduleError(
            "WEFT-E0460", f"loop {loop} has a value that is none", why=str(error), hint='"i // 32"'
        ) from None
    for s in statements:
        loop_value(scop, scop.statement(s), made)
    return dict(made.at)


def _rest(scop: Scop, names: Seq[str], above: Seq[Loop], taken: set[str]) -> Tree:
    """What ``names`` do inside the loops ``above``: their textual loops."""
    statements = [s for s in scop.statements if s.name in {*names}]
    if len(statements) > 1:
        every = textual(statements, lambda dim, at: Loop(fresh(dim, taken), at))
        return _needed(scop, tidy(every), above)
    (s,) = statements
    dims = [p for p in s.position if isinstance(p, str)] or s.dims
    loops = (Loop(fresh(d, taken), {s.name: Var(d)}) for d in dims)
    return _needed(scop, Band(tuple(loops), Leaf(s.name)), above)


def _needed(scop: Scop, tree: Tree, above: Seq[Loop]) -> Tree:
    """``tree`` without the loops around one statement alone that the loops ``above`` determine."""
    match tree:
        case Band(loops, Leaf(name) as leaf):
            return Band(_open(scop, scop.statement(name), loops, above), leaf)
        case Band(loops, child):
            return Band(loops, _needed(scop, child, (*above, *loops)))
        case Sequence(parts):
            return Sequence(tuple(_needed(scop, part, above) for part in parts))
    return tree


def _open(scop: Scop, s: Statement, loops: tuple[Loop, ...], above: Seq[Loop]) -> tuple[Loop, ...]:
    forms = [affine(loop.at[s.name]) for loop in above]
    dims = [variable for loop in loops for variable in affine(loop.at[s.name]).variables()]
    pairs = zip(loops, dims, strict=True)
    left = tuple(loop for loop, dim in pairs if not determined((dim,), s.dims, forms))
    return left if left and not told_apart(scop, s, forms) else ()


def _replaced(tree: Tree, wanted: frozenset[str], new: Tree) -> Tree:
    """``tree`` with ``new`` for the nest of the statements ``wanted``."""
    if wanted == {*statements_below(tree)}:
        return new
    parts = [c for c in children(tree) if not wanted.isdisjoint(statements_below(c))]
    if len(parts) == 1:
        inner = (_replaced(c, wanted, new) if c is parts[0] else c for c in children(tree))
        return with_children(tree, tuple(inner))
    kept = [c for c in children(tree) if all(c is not part for part in parts)]
    place = next(k for k, c in enumerate(children(tree)) if c is parts[0])
    return Sequence((*kept[:place], new, *kept[place:]))


# ---- Sequence: statements that share loops run one group after the other inside of them.
#
#     for t: for i: { A(t, i); B(t, i) }     →     for t:                sequence(["A", "B"], "t")
#                                                    for i: A(t, i)
#                                                    for i: B(t, i)
#
# Also known as: loop distribution at a given depth; isl sequence nodes; Exo ``fission``.


@transformation
def sequence(scheduled: Scheduled, groups: Seq[str | Seq[str]], inside: str = "") -> Scheduled:
    """``groups`` of statements one after the other, directly inside loop ``inside`` ('': outside of
    all loops), the statements of a group in their textual order.

    Nests that are there already stay as they are. Raises ``IllegalScheduleError``: WEFT-E0450 where
    there is no such loop, E0463 where the groups are not the statements inside.
    """
    parts = [(g,) if isinstance(g, str) else tuple(g) for g in groups]
    below = scheduled.below(inside) if inside else statements_below(scheduled.tree)
    named = [name for part in parts for name in part]
    if sorted(named) != sorted(below) or not all(parts):
        raise IllegalScheduleError(
            "WEFT-E0463",
            f"the groups name {', '.join(named)}",
            hint=f"inside {f'loop {inside}' if inside else 'the program'}: {', '.join(below)}",
        )
    above: list[Loop] = []
    if inside:
        every = loops_above(scheduled.tree, below[0])
        above += every[: [loop.name for loop in every].index(inside) + 1]
    body, outside = _inside(scheduled.tree, inside), _with_body(scheduled.tree, inside, _HOLE)
    kept = [_run(body, frozenset(part)) for part in parts]
    taken = _names(outside).union(*(_names(tree) for tree in kept if tree is not None))
    new = (
        tree or _rest(scheduled.scop, part, above, taken)
        for tree, part in zip(kept, parts, strict=True)
    )
    return replace(scheduled, tree=_filled(outside, Sequence(tuple(new))))


def _inside(tree: Tree, loop: str) -> Tree:
    """What is directly inside ``loop``."""
    if not loop:
        return tree
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Band):
            names = [x.name for x in node.loops]
            if loop in names:
                rest = node.loops[names.index(loop) + 1 :]
                return Band(rest, node.child) if rest else node.child
        stack += children(node)
    raise AssertionError(f"no loop {loop}")


def _with_body(tree: Tree, loop: str, body: Tree) -> Tree:
    """``tree`` with ``body`` directly inside ``loop``."""
    if not loop:
        return body
    if isinstance(tree, Band):
        names = [x.name for x in tree.loops]
        if loop in names:
            return Band(tree.loops[: names.index(loop) + 1], body)
    return with_children(tree, tuple(_with_body(c, loop, body) for c in children(tree)))


# ---- Other sizes of the tiles of a nest.


def resized(loops: Seq[Loop]) -> Iterator[dict[str, Values]]:
    """``loops`` as ``nest`` takes them, with one size of their tiles halved or doubled."""
    values = {loop.name: _text(loop.at) for loop in loops}
    sizes = {int(n) for text in map(str, values.values()) for n in _DIVISORS.findall(text)}
    for size in sorted(sizes):
        for other in (size // 2, size * 2):
            if other > 1:
                yield {name: _with_size(value, size, other) for name, value in values.items()}


_DIVISORS = re.compile(r"(?:// |% )(\d+)")


def _with_size(value: Values, old: int, new: int) -> Values:
    if not isinstance(value, str):
        return {names: str(_with_size(text, old, new)) for names, text in value.items()}
    return re.sub(rf"(?<=// ){old}\b|(?<=% ){old}\b|\b{old}(?=\*\()", str(new), value)


# ---- The moves that lead to a given tree.


def build(scheduled: Scheduled, tree: Tree) -> Scheduled:
    """``scheduled`` in the order of ``tree``, a tidy one of its statements, by ``nest``,
    ``sequence`` and ``tensorize``, from the outside in."""
    return _build(scheduled, tree, "")


def _build(now: Scheduled, node: Tree, inside: str) -> Scheduled:
    match node:
        case Leaf():
            return now
        case Sequence(parts):
            groups = [statements_below(part) for part in parts]
            if not _stand(_inside(now.tree, inside), groups):
                now = sequence(now, [g[0] if len(g) == 1 else g for g in groups], inside)
            for part in parts:
                now = _build(now, part, inside)
            return now
    loops, mark, inner, child = _chain(node)
    names = statements_below(node)
    if _nest_of(now.tree, names) != node:
        now = _nested(now, names, (*loops, *inner))
    if mark is not None:
        now = _tensorized(now, mark, inner)
    return _build(now, child, (*loops, *inner)[-1].name)


def _stand(body: Tree, groups: Seq[Seq[str]]) -> bool:
    """Whether ``groups`` stand in ``body`` one after the other."""
    order = statements_below(body)
    for group in groups:
        here, order = order[: len(group)], order[len(group) :]
        if {*here} != {*group} or _run(body, frozenset(group)) in (None, body):
            return False
    return True


def _chain(node: Tree) -> tuple[tuple[Loop, ...], RegisterTile | None, tuple[Loop, ...], Tree]:
    """The loops down to a register tile, that tile and its loops, or down to what has several
    children; and what is inside."""
    match node:
        case Band(outer, Mark(RegisterTile() as mark, Band(inner, child))):
            return outer, mark, inner, child
        case Mark(RegisterTile() as mark, Band(inner, child)):
            return (), mark, inner, child
        case Band(outer, child):
            return outer, None, (), child
    raise AssertionError(f"a schedule of the scheduler's has a {type(node).__name__} alone")


def _nested(now: Scheduled, names: Seq[str], loops: Seq[Loop]) -> Scheduled:
    def named(kind: Kind) -> tuple[str, ...]:
        return tuple(loop.name for loop in loops if loop.kind == kind)

    return nest(
        now,
        names[0] if len(names) == 1 else names,
        {loop.name: _text(loop.at) for loop in loops},
        parallel=named("parallel"),
        vector=named("vector"),
        unrolled=named("unrolled"),
        grid=named("grid"),
        block=named("block"),
    )


def _text(at: Mapping[str, Expr]) -> Values:
    values: dict[str, list[str]] = {}
    for statement, value in at.items():
        values.setdefault(str(affine(value)), []).append(statement)
    if len(values) == 1:
        return next(iter(values))
    return {", ".join(names): value for value, names in values.items()}


def _tensorized(now: Scheduled, mark: RegisterTile, inner: Seq[Loop]) -> Scheduled:
    labels = [label for label, x in labelled(now.instructions).items() if x == mark.instruction]
    names = [loop.name for loop in inner]
    streams = len(names) - len(mark.rows) - 1
    return tensorize(
        now,
        names[:streams],
        dict(zip(names[streams:-1], mark.rows, strict=True)),
        {names[-1]: mark.lanes},
        instruction=labels[0] if mark.instruction else None,
        ahead=mark.ahead,
        shared=mark.shared,
        warps=mark.warps,
        depth=mark.depth,
        stages=mark.stages,
    )
