"""IR 4, schedule trees: in which order the statement instances of a Scop run.

    Tree     ::= Band(loops, child) | Sequence(children) | Mark(payload, child) | Leaf(statement)
    Loop     ::= name, at: statement -> Expr, kind
    Kind     ::= serial | parallel | vector | unrolled | grid | block

* A ``Band`` orders instances lexicographically by its loops, outermost first. ``at`` gives, for
  every statement below, the loop's value as a quasi-affine expression of that statement's dims:
  ``i``, ``i // 32`` (a tile loop), ``i - 32 * (i // 32)`` (its point loop), ``i + t`` (skewed).
* A ``Sequence`` runs its children one after the other; each statement is below exactly one child.
* A ``Leaf`` runs one instance; every dim of its statement is determined by the loops above it.
* A ``Mark`` tells an emitter something about the subtree; it never changes the order, and an
  emitter that does not know the payload ignores it.
* ``Mark(RegisterTile(rows, lanes), Band((stream…, row…, lane), Leaf))`` says that the instances of
  one update that one iteration of the loops outside runs may keep the elements that they update in
  registers: loaded before the first instance, stored after the last. The conditions are in
  ``polyhedral/proof/register_tile.py``, the code in ``codegen/register_tile.py``.
* ``RegisterTile.instruction`` computes ``depth`` steps of the innermost stream at once, where that
  many are left; their order is then its own.
* ``RegisterTile.ahead``: so many lines of what later steps read along the lanes are asked for.
* ``RegisterTile.shared``: the tiles that read the same along the lanes, one after the other, ask
  together for what the next ones do.
* ``RegisterTile.warps``, along rows and lanes: the warps of a block on a GPU compute the tile
  together by ``instruction``, ``depth`` steps of the innermost stream at a time. With ``stages``
  the block has what they read in so many slots of its shared memory, filled by copies that run
  ahead of the steps from two stages on; with none, each thread reads for itself.
* ``Mark(Streamed(tensor, nest, own), …)``, over one statement: what it stores to ``tensor``
  is not read in its nest, and goes past the caches where all tensors of the nest are more than
  ``nest`` bytes and ``tensor`` more than ``own``. The conditions are in
  ``polyhedral/proof/memory_claims.py``, the code in ``codegen/stream_stores.py``.
* ``Mark(Prefetched(tensor, ahead), …)``, over one statement: what it reads of ``tensor`` along
  vector loops is asked for ``ahead`` bytes before; nobody in its nest writes it. The code is in
  ``codegen/software_prefetch.py``.
* ``kind`` is a claim that ``legality`` checks against the dependences of the final tree, whatever
  transformations led to it. ``parallel``: iterations may run at the same time on several threads.
  ``vector``: iterations may run in lockstep; reductions along a vector loop need the monoid's
  laws. ``unrolled``: a constant number of iterations, written out. ``grid`` and ``block`` bind a
  loop to a level of a GPU and are parallel: each iteration of the former is a block of threads,
  those of the latter are shared out among the threads of a block.
* Parameters are those of the Scop. The tree is immutable; transformations return new trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from weft.ir.instruction import Instruction
from weft.ir.scalar_expr import Expr

Kind = Literal["serial", "parallel", "vector", "unrolled", "grid", "block"]
CONCURRENT: tuple[Kind, ...] = ("parallel", "grid", "block")  # iterations on any thread


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, ``name``, which runs as its ``kind`` says. ``at``: statement -> its value at an
    instance, in terms of the statement's dims."""

    name: str
    at: Mapping[str, Expr]
    kind: Kind = "serial"


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Payload of a mark: row loop ``k`` has values in ``0 <= value < rows[k]`` and the lane loop,
    the innermost, in ``0 <= value < lanes``. The loops before them are the streams, at least one.
    """

    rows: tuple[int, ...]
    lanes: int
    instruction: Instruction | None = None  # None: multiply-adds of vectors
    ahead: int = 0
    shared: bool = False
    warps: tuple[int, ...] = ()
    depth: int = 0
    stages: int = 0

    def __str__(self) -> str:
        by = f", instruction={self.instruction.name!r}" if self.instruction else ""
        by += f", ahead={self.ahead}" if self.ahead else ""
        by += ", shared=True" if self.shared else ""
        by += f", warps={self.warps}, depth={self.depth}" if self.warps else ""
        by += f", stages={self.stages}" if self.stages else ""
        return f"RegisterTile(rows={self.rows}, lanes={self.lanes}{by})"


@dataclass(frozen=True, slots=True)
class Streamed:
    """Payload of a mark: stores to ``tensor`` bypass the caches where the tensors of the nest are
    more than ``nest`` bytes, and ``tensor`` itself more than ``own``."""

    tensor: str
    nest: int = 0
    own: int = 0

    def __str__(self) -> str:
        return f"Streamed({self.tensor!r}, nest={self.nest}, own={self.own})"


@dataclass(frozen=True, slots=True)
class Prefetched:
    """Payload of a mark: vector loops ask for what they read of ``tensor``, ``ahead`` bytes before
    it is due."""

    tensor: str
    ahead: int

    def __str__(self) -> str:
        return f"Prefetched({self.tensor!r}, ahead={self.ahead})"


Claim = Streamed | Prefetched
Payload = RegisterTile | Claim


@dataclass(frozen=True, slots=True)
class Leaf:
    """One instance of ``statement``, by name."""

    statement: str


@dataclass(frozen=True, slots=True)
class Band:
    """``loops``, outermost first, around ``child``."""

    loops: tuple[Loop, ...]
    child: Tree


@dataclass(frozen=True, slots=True)
class Sequence:
    """``children``, one after the other."""

    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What an emitter is told of ``child``: ``payload``."""

    payload: Payload
    child: Tree


Tree = Leaf | Band | Sequence | Mark


def children(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Band(_, child) | Mark(_, child):
            return (child,)
        case Sequence(parts):
            return parts
    return ()


def with_children(tree: Tree, new: tuple[Tree, ...]) -> Tree:
    match tree:
        case Band() | Mark():
            return replace(tree, child=new[0])
        case Sequence():
            return Sequence(new)
    return tree


def statements_below(tree: Tree) -> tuple[str, ...]:
    """Names of the statements in ``tree``, in textual order."""
    return tuple(node.statement for node in walk(tree) if isinstance(node, Leaf))


def walk(tree: Tree) -> Iterator[Tree]:
    """Every node, parents first."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def payloads(tree: Tree) -> tuple[Payload, ...]:
    """What the marks in ``tree`` say, parents first."""
    return tuple(node.payload for node in walk(tree) if isinstance(node, Mark))


@dataclass(frozen=True, slots=True)
class MarkedTile:
    """A register tile where it stands: the loops around the mark, and those of its band."""

    statement: str
    payload: RegisterTile
    outer: tuple[Loop, ...]
    loops: tuple[Loop, ...]  # streams, rows, lane

    @property
    def streams(self) -> int:
        """How many of ``loops`` are streams."""
        return len(self.loops) - len(self.payload.rows) - 1


def marked_tiles(tree: Tree) -> dict[str, MarkedTile]:
    """The register tiles of ``tree`` by statement; marks on anything but a band over one leaf are
    left out (``proof/register_tile.py`` refuses them)."""
    found: dict[str, MarkedTile] = {}
    stack: list[tuple[Tree, tuple[Loop, ...]]] = [(tree, ())]
    while stack:
        node, above = stack.pop()
        match node:
            case Mark(RegisterTile() as payload, Band(loops, Leaf(statement))):
                found[statement] = MarkedTile(statement, payload, above, loops)
            case Band(loops, child):
                stack.append((child, above + loops))
            case Sequence(parts):
                stack.extend((part, above) for part in reversed(parts))
            case Mark(_, child):
                stack.append((child, above))
    return found
