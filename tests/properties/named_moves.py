"""The named transformations of ``polyhedral/transform`` with random arguments.

A new transformation joins the fuzzer by a function here and an entry in ``LOOPS`` (the tree alone
changes), ``TEXTUAL`` or ``LOCAL`` (storage or instances change). A move gives None where it finds
nothing to apply to; an ``IllegalScheduleError`` is the transformation's own refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from weft.ir.schedule_tree import Band, Leaf, Sequence, walk
from weft.ir.scop import Scop, Statement
from weft.polyhedral.proof.legality import check
from weft.polyhedral.transform.alias import alias
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.compute_at import compute_at
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.double_buffer import double_buffer
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.expand import expand
from weft.polyhedral.transform.expand_all import privatize, separate
from weft.polyhedral.transform.expand_carried import expand_carried
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline, inline_producer
from weft.polyhedral.transform.order import order
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.partials import partials
from weft.polyhedral.transform.prefetch import prefetch
from weft.polyhedral.transform.promote import promote
from weft.polyhedral.transform.recompute import recompute
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled, loops_above
from weft.polyhedral.transform.set_kinds import parallel, vectorize
from weft.polyhedral.transform.shift import shift
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.skew import reverse, skew
from weft.polyhedral.transform.split import split
from weft.polyhedral.transform.split_node import split_node
from weft.polyhedral.transform.stream import stream
from weft.polyhedral.transform.tensorize import tensorize
from weft.polyhedral.transform.tile import point_name, tile, tile_name
from weft.polyhedral.transform.unroll import unroll, unroll_and_jam

NamedMove = Callable[[Random, Scheduled], Scheduled | None]

SIZES = (1, 2, 2, 3, 4, 8)


# ---- what to apply them to ----------------------------------------------------------------------


def _loop(r: Random, of: Scheduled) -> str | None:
    names = [loop.name for loop in of.loops()]
    return r.choice(names) if names else None


def _nest(r: Random, of: Scheduled) -> list[str]:
    """The loops of one band."""
    found = [[x.name for x in node.loops] for node in walk(of.tree) if isinstance(node, Band)]
    return r.choice(found) if found else []


def _temporary(r: Random, of: Scop) -> str | None:
    found = [t.name for t in of.tensors if t.role == "temp" and not t.contracted]
    return r.choice(found) if found else None


def _copied(of: Scheduled, tensor: str) -> bool:
    """Whether copies fill ``tensor``: clones of them would stand for copies, and the original has
    none."""
    known = {s.name for s in of.original.statements}
    return any(s.name not in known for s, _, is_write in accesses_of(of.scop, tensor) if is_write)


# ---- loops --------------------------------------------------------------------------------------


def _split(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else split(of, name, r.choice(SIZES))


def _tile(r: Random, of: Scheduled) -> Scheduled | None:
    nest = _nest(r, of)
    if not nest:
        return None
    chosen = r.sample(nest, r.randint(1, min(3, len(nest))))
    return tile(of, {name: r.choice(SIZES) for name in chosen})


def _reorder(r: Random, of: Scheduled) -> Scheduled | None:
    nest = _nest(r, of)
    if len(nest) < 2:
        return None
    return reorder(of, r.sample(nest, r.randint(2, len(nest))))


def _heads(of: Scheduled) -> list[list[str]]:
    """The outermost loops of neighbouring nests."""
    return [
        [c.loops[0].name for c in node.children if isinstance(c, Band)]
        for node in walk(of.tree)
        if isinstance(node, Sequence)
    ]


def _fuse(r: Random, of: Scheduled) -> Scheduled | None:
    found = [names for names in _heads(of) if len(names) > 1]
    if not found:
        return None
    names = r.choice(found)
    k = r.randrange(len(names) - 1)
    return fuse(of, names[k], names[k + 1], shift=r.choice((0, 0, 0, 1, -1, 2)))


def _distribute(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    if name is None:
        return None
    after = r.choice([None, *of.loop(name).at])
    return distribute(of, name, after)


def _skew(r: Random, of: Scheduled) -> Scheduled | None:
    nest = _nest(r, of)
    if len(nest) < 2:
        return None
    a, b = r.sample(nest, 2)
    return skew(of, a, b, r.choice((1, 1, 1, -1, 2)))


def _shift(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    if name is None:
        return None
    return shift(of, r.choice(list(of.loop(name).at)), name, r.choice((-1, 1, 1, 2)))


def _reverse(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else reverse(of, name)


def _parallel(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else parallel(of, name)


def _vectorize(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else vectorize(of, name, r.choice((None, 2, 4, 8)))


def _unroll(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else unroll(of, name, r.choice((None, 2, 3)))


def _unroll_and_jam(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else unroll_and_jam(of, name, r.choice((2, 3, 4)))


def _sink(r: Random, of: Scheduled) -> Scheduled | None:
    name = _loop(r, of)
    return None if name is None else sink(of, [name])


def _order(r: Random, of: Scheduled) -> Scheduled | None:
    return order(of)


def _tensorize(r: Random, of: Scheduled) -> Scheduled | None:
    """Rows and lanes of an update in registers, over a stream."""
    found = [b for b in walk(of.tree) if isinstance(b, Band) and isinstance(b.child, Leaf)]
    found = [b for b in found if len(b.loops) > 1]
    if not found:
        return None
    band = r.choice(found)
    names = r.sample([x.name for x in band.loops], min(3, len(band.loops)))
    stream, lane, rows = names[0], names[1], names[2:]
    outer = [x.name for x in band.loops if x.name not in names]
    made = tile(of, {name: r.choice((2, 4)) for name in (*rows, lane)})
    tiles = [tile_name(name) for name in (*rows, lane)]
    points = [point_name(name) for name in (*rows, lane)]
    made = reorder(made, [*outer, *tiles, stream, *points])
    made = tensorize(made, [stream], points[:-1], points[-1])
    if r.random() < 0.9:
        check(made.scop, made.tree)  # mostly the conditions of register tiles refuse
    return made


def _stream(r: Random, of: Scheduled) -> Scheduled | None:
    return stream(of, r.choice(of.scop.tensors).name, r.choice((0, 100)), r.choice((0, 100)))


def _prefetch(r: Random, of: Scheduled) -> Scheduled | None:
    return prefetch(of, r.choice(of.scop.tensors).name, r.choice((1, 64, 1000)))


LOOPS: dict[NamedMove, int] = {
    _split: 3, _tile: 5, _reorder: 5, _fuse: 5, _distribute: 4, _skew: 4, _shift: 3, _reverse: 2,
    _parallel: 4, _vectorize: 4, _unroll: 1, _unroll_and_jam: 2, _sink: 1, _order: 1,
    _tensorize: 1, _stream: 1, _prefetch: 1,
}  # fmt: skip


# ---- data ---------------------------------------------------------------------------------------


def _again(of: Scheduled, scop: Scop) -> Scheduled:
    """``scop`` in its own order, standing for the original of ``of``."""
    return replace(initial(scop), original=of.original)


def _inline(r: Random, of: Scheduled) -> Scheduled | None:
    return _again(of, inline_producer(of.scop, r.choice(of.scop.statements).name))


def _inside(r: Random, of: Scheduled) -> tuple[Statement, str] | None:
    """A statement, and one of the loops around it, or '' for outside of all."""
    s = r.choice(of.scop.statements)
    around = loops_above(of.tree, s.name)
    if r.random() < 0.2:
        return s, ""
    return (s, r.choice(around).name) if around else None


def _split_node(r: Random, of: Scheduled) -> Scheduled | None:
    s = r.choice(of.scop.statements)
    return split_node(of, s.name, r.randrange(len(s.reads))) if s.reads else None


def _cache_read(r: Random, of: Scheduled) -> Scheduled | None:
    found = _inside(r, of)
    if found is None or not found[0].reads:
        return None
    s, loop = found
    operand = r.randrange(len(s.reads))
    tensor = s.reads[operand].tensor
    rank = len(s.reads[operand].indices)
    chosen = [s.name, *(o.name for o in of.scop.statements if o is not s and r.random() < 0.3)]
    several = r.random() < 0.3
    return cache_read(
        of,
        tensor,
        chosen if several else s.name,
        loop,
        operand=None if several or r.random() < 0.5 else operand,
        order=r.sample(range(rank), rank) if r.random() < 0.3 else None,
        panels={r.randrange(rank): r.choice((2, 4))} if rank and r.random() < 0.3 else None,
        pad=r.random() < 0.3,
    )


def _cache_write(r: Random, of: Scheduled) -> Scheduled | None:
    found = _inside(r, of)
    if found is None:
        return None
    s, loop = found
    tensor = r.choice(s.writes).tensor
    writers = {o.name for o, _, is_write in accesses_of(of.scop, tensor) if is_write}
    inside = [name for name in of.loop(loop).at if name in writers] if loop else sorted(writers)
    chosen = inside if r.random() < 0.7 else [s.name]
    rank = len(s.writes[0].indices)
    order = r.sample(range(rank), rank) if r.random() < 0.2 else None
    return cache_write(of, tensor, chosen, loop, order=order)


def _pack_tiles(r: Random, of: Scheduled) -> Scheduled | None:
    found = _inside(r, of)
    if found is None or not found[0].reads:
        return None
    s, loop = found
    operand = r.randrange(len(s.reads))
    access = s.reads[operand]
    if not access.indices:
        return None
    panels = {r.randrange(len(access.indices)): r.choice((2, 4))}
    return pack(of, access.tensor, s.name, loop, panels, operand=operand, pad=r.random() < 0.7)


def _compute_at(r: Random, of: Scheduled) -> Scheduled | None:
    """A producer inside a loop around all of its readers."""
    name = _temporary(r, of.scop)
    uses = accesses_of(of.scop, name or "")
    makers = {s.name for s, _, is_write in uses if is_write}
    readers = {s.name for s, _, is_write in uses if not is_write} - makers
    around = [x.name for x in of.loops() if readers <= set(x.at) and not makers & set(x.at)]
    if not makers or not around or _copied(of, name or ""):
        return None
    return compute_at(of, min(makers), r.choice(around))


def _double_buffer(r: Random, of: Scheduled) -> Scheduled | None:
    local = [t.name for t in of.scop.tensors if t.contracted]
    if local:
        return double_buffer(of, r.choice(local))
    copied = _cache_read(r, of)
    made = [t.name for t in copied.scop.tensors if t.contracted] if copied else []
    return double_buffer(copied, made[-1]) if copied and made else None


def _rfactor(r: Random, of: Scheduled) -> Scheduled | None:
    updates = [s for s in of.scop.statements if s.update is not None]
    if not updates:
        return None
    s = r.choice(updates)
    around = loops_above(of.tree, s.name)
    return rfactor(of, s.name, r.choice(around).name) if around else None


def _partials(r: Random, of: Scheduled) -> Scheduled | None:
    updates = [s for s in of.scop.statements if s.update is not None]
    if not updates:
        return None
    s, n = r.choice(updates), r.randint(1, 4)
    value, front = f"{r.choice(s.dims)} // {r.randint(1, 3)} % {n}", r.random() < 0.5
    return partials(of, s.name, value, n, front=front)


def _recompute(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    uses = accesses_of(of.scop, name or "")
    makers = {s.name for s, _, is_write in uses if is_write}
    readers = sorted({s.name for s, _, is_write in uses if not is_write} - makers)
    if name is None or not makers or not readers:
        return None
    return recompute(of, name, r.sample(readers, r.randint(1, len(readers))))


def _inline_here(r: Random, of: Scheduled) -> Scheduled | None:
    return inline(of, r.choice(of.scop.statements).name)


def _contract(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    return None if name is None else contract(of, name)


def _expand_all(r: Random, of: Scheduled) -> Scheduled | None:
    return privatize(of)


def _separate(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    return None if name is None else separate(of, name)


def _expand(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    if name is None:
        return None
    s, _, _ = r.choice(accesses_of(of.scop, name) or [(of.scop.statements[0], None, False)])
    around = [loop.name for loop in loops_above(of.tree, s.name)]
    if not around:
        return None
    return expand(of, name, around[: r.randint(1, len(around))])


def _expand_carried(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    if name is None or not of.loops():
        return None
    return expand_carried(of, name, r.choice(of.loops()).name)


def _promote(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    if name is None:
        return None
    users = [s.name for s, _, _ in accesses_of(of.scop, name)]
    if not users:
        return None
    shared = [x for x in loops_above(of.tree, users[0]) if all(u in x.at for u in users)]
    if not shared:
        return None
    return promote(of, name, [x.name for x in shared[: r.randint(1, len(shared))]])


def _alias(r: Random, of: Scheduled) -> Scheduled | None:
    name = _temporary(r, of.scop)
    readers = [s for s, _, is_write in accesses_of(of.scop, name or "") if not is_write]
    if name is None or not readers:
        return None
    return alias(of, name, r.choice(r.choice(readers).writes).tensor)


TEXTUAL: dict[NamedMove, int] = {
    _inline: 3, _split_node: 2, _expand_all: 2, _separate: 1, _partials: 2, _recompute: 2,
}  # fmt: skip
"""What begins again from the initial schedule of the changed program."""

LOCAL: dict[NamedMove, int] = {
    _expand: 3, _expand_carried: 2, _promote: 3, _cache_read: 5, _cache_write: 5, _contract: 3,
    _pack_tiles: 3, _compute_at: 9, _double_buffer: 2, _inline_here: 2, _rfactor: 4,
    _alias: 3,
}  # fmt: skip
"""What goes by the loops that there are."""
