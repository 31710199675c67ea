"""Does a warp multiply what belongs together? A proof by enumeration of one step of each launch.

What is in a fragment is told apart by *labels*: the element of shared memory that it
came from. All warps, lanes and unrolled turns are run on labels; of serial loops one turn, whose
number moves all labels of a slot alike. Then, where a warp issues an instruction,

1. each operand's labels are neighbours as its record says: element (row, q) is ``row`` lines and
   ``q`` places from element (0, 0) of its tile, along the dims of shared memory in either order;
2. both operands begin at the same place along what is summed up;
3. the accumulators were started;

and where sums leave the fragments, the element that is written is one of the row of the first
operand and of the lane of the second: f(row) + g(lane) for each index, and no two sums go to one
element. So no lane's, tile's or warp's part is another's. That a record's ``elements`` is the
inverse of its ``place`` is checked first, for each instruction.

What is computed from one sum and goes to another fragment (the factor of a further product) has the
sum's row and lane for its label: 1 and 2 are asked of it like of what came from shared memory.
Operands that are read past shared memory have no labels, and 1 and 2 are not claimed of them.

All runs on arrays: what depends on warps, lanes and unrolled turns has a value for each of them.
Statements of unrolled turns come one after the other where a turn may see what another has left.

Also known as: symbolic execution; layouts as functions (CuTe, Triton's linear layouts).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weft.ir.instruction import ACCUMULATOR, ROW, Instruction, Operand
from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    Buffer,
    For,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Single,
    Stmt,
    Store,
    While,
    children,
    walk,
)
from weft.ir.scalar_expr import Expr, Load, Var, has_loads
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_interpreter import evaluate
from weft.polyhedral.launches.instruction_layout import check_layout, refused

Array = np.ndarray[Any, np.dtype[Any]]
Index = tuple[Array, ...]

NOWHERE = -1  # behind the dims of a label that has fewer than others


def check_fragments(kernel: Kernel) -> int:
    """Check what the warps of ``kernel`` multiply; how many issues were looked at.

    Raises ``IllegalScheduleError`` (WEFT-E0428) with the instruction and the element that is not
    where it belongs.
    """
    statements = list(walk(kernel.body))
    issued = {id(s.instruction): s.instruction for s in statements if isinstance(s, Issue)}
    for instruction in issued.values():
        check_layout(instruction)
    if not issued:
        return 0
    shared = [s.buffer for s in statements if isinstance(s, Allocate)]
    ranks = [len(buffer.shape) for buffer in shared if buffer.scope == "shared"]
    labels = _Labels(max([2, *ranks]))
    labels.run(kernel.body, _Turns(dict.fromkeys(kernel.parameters, 0)))
    labels.check_stored()
    return labels.issues


# ---- A kernel on labels.


@dataclass(frozen=True, slots=True)
class _Turns:
    """The turns of loops that run at once: what is bound in each of them, and how many there are of
    each loop, the innermost first. So arrays of outer loops broadcast to those of inner ones."""

    names: Mapping[str, int | Array]
    shape: tuple[int, ...] = ()

    def bound(self, name: str, value: int | Array) -> _Turns:
        return replace(self, names={**self.names, name: value})

    def inside(self, name: str, turns: range) -> _Turns:
        """In all ``turns`` of a loop."""
        axis = np.array(turns).reshape(-1, *(1 for _ in self.shape))
        return _Turns({**self.names, name: axis}, (len(turns), *self.shape))

    def values(self, exprs: Sequence[Expr]) -> list[Array]:
        return [evaluate(e, self.names) for e in exprs]

    def each(self, values: Sequence[Array]) -> Index:
        """Likewise, turn by turn, in the order of the text."""
        return tuple(np.broadcast_to(value, self.shape).T.reshape(-1) for value in values)


@dataclass(frozen=True, slots=True)
class _Sums:
    """What turns read of a ``fragment``, at ``index``."""

    fragment: _Fragment
    index: Sequence[Array]


@dataclass(frozen=True, slots=True)
class _Stored:
    """Sums of ``fragment``, at ``index``, that went to ``buffer``, at ``place``; ``visits``: how
    often each had gone there before, by the same statement."""

    buffer: str
    fragment: _Fragment
    index: Index
    place: Array
    visits: Array


class _Fragment:
    """The elements [warp, tiles…, thread, number] of a fragment: are they ``there``, and are the
    ``labels`` known that they have? Of tiles that an ``instruction`` has ``multiplied``: of which
    row and lane the ``first`` of the sums is."""

    def __init__(self, buffer: Buffer, rank: int) -> None:
        shape = [int(size) for size in _Turns({}).values(buffer.shape)]
        self.buffer = buffer
        self.there = np.zeros(shape, bool)
        self.known = np.zeros(shape, bool)
        self.labels = np.zeros((*shape, rank), int)
        self.instruction: Instruction | None = None
        self.multiplied = np.zeros(shape[:-2], bool)
        self.first = np.zeros((*shape[:-2], 2), int)

    def at(self, index: Index) -> Index:
        """``index``, of elements that there are."""
        for each, size in zip(index, self.there.shape, strict=False):
            if len(each) and not 0 <= each.min() <= each.max() < size:
                why = f"{each.min()} to {each.max()} are not all in 0 .. {size}"
                raise refused(None, f"an access to {self.buffer.name} is outside it", why)
        return index

    def put(self, index: Index, known: Array | bool, labels: Array) -> None:
        index = self.at(index)
        self.there[index] = True
        self.known[index] = known
        self.labels[index] = labels

    def products(self, index: Index) -> tuple[Array, Array]:
        """Which of the sums at ``index`` have a row and a lane; and these, where they have."""
        *tile, thread, number = self.at(index)
        if self.instruction is None:
            return np.zeros(len(thread), bool), np.zeros((len(thread), 2), int)
        own = self.instruction.operands[ACCUMULATOR].elements
        dims = [own[d] for d in (ROW, *self.instruction.across)]
        at = _Turns({"thread": thread, "number": number}, thread.shape)
        first = self.first[tuple(tile)]
        return self.multiplied[tuple(tile)], first + np.stack(at.each(at.values(dims)), -1)


@dataclass(slots=True)
class _Labels:
    """Runs a kernel on labels of so many dims, ``rank``. ``sources``: what names are computed from;
    ``stored``: which sums went where, by statement; ``visits``: how often each has gone."""

    rank: int
    issues: int = 0
    shared: set[str] = field(default_factory=set)
    fragments: dict[str, _Fragment] = field(default_factory=dict)
    sources: dict[str, tuple[_Sums, ...]] = field(default_factory=dict)
    stored: dict[int, list[_Stored]] = field(default_factory=dict)
    visits: dict[tuple[int, str], Array] = field(default_factory=dict)

    def run(self, stmt: Stmt, turns: _Turns) -> None:
        match stmt:
            case For(kind="block") | Single() | While():
                return  # no fragments inside
            case For():
                for inner in self._turns(stmt, turns):
                    self.run(stmt.body, inner)
                return
            case Let(name, value, body):
                data = value.dtype.is_float or has_loads(value)
                self.sources[name] = self._sums(value, turns) if data else ()
                self.run(body, turns.bound(name, 0 if data else turns.values([value])[0]))
                return
            case Allocate(buffer) if buffer.scope == "shared":
                self.shared.add(buffer.name)
            case Allocate(buffer) if buffer.scope == "fragment":
                self.fragments[buffer.name] = _Fragment(buffer, self.rank)
            case LoadMatrices():
                self._load_rows(stmt, turns)
            case Store():
                self._store(stmt, turns)
            case Issue():
                self._issue(stmt, turns)
        for part in children(stmt):
            self.run(part, turns)

    def _turns(self, loop: For, turns: _Turns) -> Iterator[_Turns]:
        """The turns of ``loop``: of a serial one the first, else all at once, or one by one."""
        low, high = turns.values((loop.lower, loop.upper))
        if loop.kind in ("serial", "grid"):
            yield turns.bound(loop.var, low)
            return
        numbers = range(int(low.min()), int(high.max()), loop.step)
        if loop.kind != "unrolled" or self._are_independent(loop.body):
            yield from [turns.inside(loop.var, numbers)] if numbers else []
        else:
            yield from (turns.bound(loop.var, number) for number in numbers)

    def _are_independent(self, body: Stmt) -> bool:
        """Whether turns of ``body`` see nothing that others leave: what is put into a fragment is
        put there by one formula, and no instruction is issued beside."""
        issues = any(isinstance(stmt, Issue) for stmt in walk(body))
        formulas: dict[str, tuple[Expr, ...]] = {}
        for stmt in walk(body):
            match stmt:
                case LoadMatrices(target=name, tile=index) | Store(name, index):
                    put = name in self.fragments
                    if put and (issues or formulas.setdefault(name, index) != index):
                        return False
        return True

    # ---- what is put into fragments -------------------------------------------------------------

    def _load_rows(self, stmt: LoadMatrices, turns: _Turns) -> None:
        """The elements of the row of a matrix that each lane names, in the lanes that get them."""
        fragment = self.fragments[stmt.target]
        word, numbers = WORD // fragment.buffer.dtype.itemsize, fragment.there.shape[-1]
        inner = turns.inside("", range(word * MATRIX[1]))
        element = np.asarray(inner.names[""])
        matrix, row = np.divmod(inner.values([stmt.lane])[0], MATRIX[0])
        across, number = (element, row) if stmt.transposed else (row, element)
        tile, place = np.divmod(word * matrix + number % word, numbers)
        *outer, first = inner.values(stmt.tile)
        *start, last = inner.values(stmt.indices)
        owner = MATRIX[1] * across + number // word
        (named,) = inner.each([matrix < stmt.matrices])
        index = inner.each((*outer, first + tile, owner, place))
        label = self._label(inner.each((*start, last + element)))
        fragment.put(tuple(each[named] for each in index), True, label[named])

    def _store(self, stmt: Store, turns: _Turns) -> None:
        sums = self._sums(stmt.value, turns)
        loads = [node for node in walk_expr(stmt.value) if isinstance(node, Load)]
        if stmt.buffer in self.fragments:
            shared = [load for load in loads if load.source in self.shared]
            known: Array | bool = False
            label = np.full(self.rank, NOWHERE)
            if sums:
                known, label = self._product(sums, turns)
            elif len(shared) == 1:
                known, label = True, self._label(turns.each(turns.values(shared[0].indices)))
            fragment = self.fragments[stmt.buffer]
            fragment.put(turns.each(turns.values(stmt.indices)), known, label)
            return
        if any(load.source == stmt.buffer for load in loads) or any(map(has_loads, stmt.indices)):
            return  # sums are folded into what is there
        place = np.stack(turns.each(turns.values(stmt.indices)), -1)
        for one in sums:
            index = one.fragment.at(turns.each(one.index))
            shape = one.fragment.there.shape
            known = self.visits.setdefault(
                (id(stmt), one.fragment.buffer.name), np.zeros(shape, int)
            )
            stored = _Stored(stmt.buffer, one.fragment, index, place, _visits(known, index))
            self.stored.setdefault(id(stmt), []).append(stored)

    def _sums(self, value: Expr, turns: _Turns) -> tuple[_Sums, ...]:
        """What ``value`` is computed from of fragments, the names in it looked through."""
        found: list[_Sums] = []
        for node in walk_expr(value):
            match node:
                case Load(source, indices) if source in self.fragments:
                    found.append(_Sums(self.fragments[source], turns.values(indices)))
                case Var(name):
                    found += self.sources.get(name, ())
        return tuple(found)

    def _product(self, sums: Sequence[_Sums], turns: _Turns) -> tuple[Array, Array]:
        """Whether ``sums`` are one that has a row and a lane; and these as labels."""
        own, *others = sums
        index = turns.each(own.index)
        known, places = own.fragment.products(index)
        for other in others:
            same = [a == b for a, b in zip(index, turns.each(other.index), strict=True)]
            known = known & (own.fragment is other.fragment) & np.logical_and.reduce(same)
        return known, self._label(tuple(places.T))

    def _label(self, dims: Index) -> Array:
        rest = np.full_like(dims[0], NOWHERE)
        return np.stack((*dims, *[rest] * (self.rank - len(dims))), -1)

    # ---- what is computed from them -------------------------------------------------------------

    def _issue(self, stmt: Issue, turns: _Turns) -> None:
        instruction = stmt.instruction
        sums, *factors = (self.fragments[name] for name, _ in stmt.operands)
        tiles = [
            self.fragments[name].at(turns.each(turns.values(tile))) for name, tile in stmt.operands
        ]
        self.issues += len(tiles[0][0])
        if not sums.there[tiles[0]].all():
            raise refused(
                instruction, f"sums of {sums.buffer.name} are added to that nobody started"
            )
        if sums.instruction not in (None, instruction):
            raise refused(instruction, f"sums of {sums.buffer.name} are another instruction's")
        (left, own, q), (right, other, step) = (
            _begin(factor, tile, instruction, instruction.operands[name])
            for factor, tile, name in zip(factors, tiles[1:], instruction.tensors, strict=True)
        )
        known = np.asarray(left & right)
        if (apart := np.flatnonzero(known & (q != step))).size:
            what = " and ".join(factor.buffer.name for factor in factors)
            why = f"they begin at {q[apart[0]]} and {step[apart[0]]}"
            raise refused(instruction, f"{what} are not of the same steps", why)
        tile = tuple(number[known] for number in tiles[0])
        sums.instruction = instruction
        sums.multiplied[tile] = True
        sums.first[tile] = np.stack((own, other), -1)[known]

    # ---- where sums go --------------------------------------------------------------------------

    def check_stored(self) -> None:
        """Check that each index of what is stored from sums is a part of the row, and one of the
        lane."""
        for group in self.stored.values():
            parts = [(one, *one.fragment.products(one.index)) for one in group]
            visits = np.concatenate([one.visits[known] for one, known, _ in parts])
            keys = np.concatenate([own[known] for _, known, own in parts])
            places = np.concatenate([one.place[known] for one, known, _ in parts])
            issued = [one.fragment.instruction for one, known, _ in parts if known.any()]
            for visit in range(visits.max(initial=-1) + 1):
                now = visits == visit
                assert issued[0] is not None, "there are products"
                _check_parts(issued[0], group[0].buffer, keys[now], places[now])


def _visits(before: Array, index: Index) -> Array:
    """How often there was something at ``index``, of each in turn; counted on in ``before``."""
    flat = np.ravel_multi_index(index, before.shape)
    order = np.argsort(flat, kind="stable")
    _, first, many = np.unique(flat[order], return_index=True, return_counts=True)
    again = np.empty_like(flat)
    again[order] = np.arange(len(flat)) - np.repeat(first, many)
    visits = before[index] + again
    np.add.at(before, index, 1)
    return visits


def _begin(
    fragment: _Fragment, tile: Index, instruction: Instruction, operand: Operand
) -> tuple[Array, Array, Array]:
    """Which of the operands in ``tile`` of ``fragment`` are from shared memory; and where their
    elements (0, 0) came from, along their own dim and what is summed."""
    name = fragment.buffer.name
    if not fragment.there[tile].all():
        raise refused(instruction, f"{name} is multiplied before it is there")
    labels, known = fragment.labels[tile], fragment.known[tile]  # by tile, thread and number
    (summed,) = instruction.summed
    (dim,) = (d for d in operand.elements if d != summed)
    at = _Turns({"thread": np.arange(known.shape[1])[:, None], "number": np.arange(known.shape[2])})
    own, q = (
        np.broadcast_to(value, known.shape[1:])
        for value in at.values([operand.elements[d] for d in (dim, summed)])
    )
    begin, *further = (
        labels[:, *np.argwhere((own == a) & (q == b))[0]] for a, b in ((0, 0), (1, 0), (0, 1))
    )
    axes = [np.argmax(other - begin == 1, axis=1) for other in further]
    turns = np.arange(len(begin))
    want = np.tile(begin[:, None, None], (*known.shape[1:], 1))
    for axis, value in zip(axes, (own, q), strict=True):
        want[turns, :, :, axis] += value
    begun = np.asarray(known.any((1, 2)))
    wrong = ~known | (labels != want).any(-1) | (axes[0] == axes[1])[:, None, None]
    if (bad := np.argwhere(wrong & begun[:, None, None])).size:
        k, thread, number = bad[0]
        label, right = labels[k, thread, number].tolist(), want[k, thread, number].tolist()
        why = f"{dim} {own[thread, number]}, {summed} {q[thread, number]} is {label}, not {right}"
        raise refused(instruction, f"{name} is not as the instruction takes it", why)
    return begun, begin[turns, axes[0]], begin[turns, axes[1]]


def _check_parts(instruction: Instruction, buffer: str, keys: Array, places: Array) -> None:
    """Check that ``places``, by row and lane, are sums of one part for each, and differ."""
    low = keys.min(axis=0)
    wide = int(keys[:, 1].max() - low[1]) + 1
    code = (keys[:, 0] - low[0]) * wide + keys[:, 1] - low[1]
    codes, first, of = np.unique(code, return_index=True, return_inverse=True)
    _agree(instruction, buffer, keys, places, (places != places[first][of]).any(1))
    keys, places = keys[first], places[first]
    order = np.lexsort(places.T)
    taken = np.zeros(len(order), bool)
    taken[order[1:]] = (places[order[1:]] == places[order[:-1]]).all(1)
    _agree(instruction, buffer, keys, places, taken)
    row, lane = codes // wide, codes % wide
    along, across = row * wide + lane[0], row[0] * wide + lane
    both = np.isin(along, codes) & np.isin(across, codes)
    own, other = (np.searchsorted(codes, c[both]) for c in (along, across))
    apart = np.zeros(len(order), bool)
    apart[both] = (places[both] - places[own] != places[other] - places[0]).any(1)
    _agree(instruction, buffer, keys, places, apart)


def _agree(instruction: Instruction, buffer: str, keys: Array, places: Array, wrong: Array) -> None:
    """Refuse what is ``wrong`` of the sums of these ``keys``, rows and lanes."""
    if wrong.any():
        k = int(np.argmax(wrong))
        row, lane = keys[k].tolist()
        why = f"the sum of row {row} and lane {lane} goes to {places[k].tolist()}"
        raise refused(instruction, f"sums are stored to elements of {buffer} that are others'", why)
