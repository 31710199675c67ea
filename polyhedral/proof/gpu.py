"""Are launches free of races? The proof of kernels with grid and block loops, on their loop IR.

Two accesses to one element, one of them a write, conflict where they are

* of different blocks, which never wait for each other, in memory of the device; or
* of different threads of one block, with no barrier between them.

An access is a relation from its instance to the element. The instance has the numbers of its block
(grid loops), its *time*, the number of its thread, and the loops of the thread inside. Time is what
all threads of a block go through alike: places in sequences and serial loops outside block loops,
in lexicographic order, barriers among them. Which thread runs a turn of a block loop depends on how
many there are: turns of equal distance from the lower bound are one thread's, all others may be
different ones. Effects in a ``Single`` are the thread's with number 0; what all threads evaluate
(bounds, conditions), any thread's.

The lanes of a warp are threads, numbered through the warps. What fragments hold is a thread's own
(``loop_verifier``). An asynchronous copy writes, and reads, at any time from its beginning until
its thread has waited for it: another access has to be before it as before any other, or behind a
wait for it, and if it is another thread's, behind a barrier after that wait. Which waits are for it
is counted: all but the last ``left`` groups are there, so between it and the wait there are
``left`` commits more than its own.

What is not quasi-affine makes an access reach further, never less: an index by data is any index, a
condition on data may hold, and a barrier under one counts for nothing. Pairs between two barriers
are found by isl for all sizes at once; what is left is empty, or a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations_with_replacement

import islpy as isl

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import CONTEXT, bounded, derived
from weft.ir.isl_text import affine_text, below_text, condition_texts, sides
from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    CommitCopies,
    For,
    If,
    Kernel,
    Let,
    LoadMatrices,
    Single,
    Stmt,
    Store,
    Update,
    While,
    children,
    expressions,
    is_grid,
    walk,
)
from weft.ir.named_isl import (
    encode,
    sample_pair,
    where_different,
    where_first_as,
    where_same,
    where_second_as,
    whoever_first,
)
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, literal

_BUDGET = 20_000_000  # isl operations for one launch


def check_races(kernel: Kernel) -> int:
    """Check every launch of ``kernel``; how many pairs of accesses were asked about.

    Raises ``IllegalScheduleError`` (WEFT-E0426) with two accesses that race, their threads and
    instances; ``BudgetError`` (WEFT-E0400) rather than running unbounded.
    """
    asked = 0
    for launch in launches_of(kernel):
        with bounded(_BUDGET, f"the race check of {kernel.name}"):
            for one, other in launch.conflicting():
                asked += 1
                _check_pair(kernel, launch.reader, one, other, launch.order)
    return asked


def launches_of(kernel: Kernel) -> Sequence[Launch]:
    """The launches of ``kernel``, in the order of the text; read once."""
    return derived(lambda: tuple(_read(kernel)), "launches", (), kernel)


def _read(kernel: Kernel) -> Iterator[Launch]:
    stack = [(kernel.body, {n: encode("p", n) for n in kernel.parameters})]
    while stack:
        stmt, names = stack.pop()
        if is_grid(stmt):
            with bounded(_BUDGET, f"reading the launches of {kernel.name}"):
                reader = Reader(kernel, tuple(names.values()), _warp_size(stmt))
                reader.read(stmt, Place(names))
                reader.shorten()
                yield Launch(stmt, reader, reader.accesses(), Order(reader))
            continue
        match stmt:
            case For(var=name) | Let(name):
                names = {**names, name: encode("p", name)}
        stack.extend((child, names) for child in reversed(children(stmt)))


@dataclass(frozen=True, slots=True)
class Launch:
    """``nest``, the grid loops of a launch, as relations."""

    nest: Stmt
    reader: Reader
    accesses: Sequence[Access]
    order: Order

    def conflicting(self) -> Iterator[tuple[Access, Access]]:
        """Accesses that may touch one element, of which one writes."""
        for one, other in combinations_with_replacement(self.accesses, 2):
            if one.memory == other.memory and (one.writes or other.writes):
                yield one, other


@dataclass(frozen=True, slots=True)
class Access:
    """``element``: instance → element; instances are [grid…, time…, thread]. ``late``: it ends some
    time after its instance; ``once``: a thread has one of them at a time. ``place``, ``indices``:
    where it stands, and which element it touches."""

    memory: str
    writes: bool
    private: bool  # to a block: shared memory
    element: isl.Map
    text: str
    place: Place
    indices: tuple[Expr, ...]
    late: bool = False
    once: bool = True


def _check_pair(kernel: Kernel, reader: Reader, one: Access, other: Access, order: Order) -> None:
    pairs, thread = touching(one, other), reader.grid + reader.depth
    if not one.private:
        apart = where_different(pairs, range(reader.grid))
        if not apart.is_empty():
            raise _race(kernel, reader, one, other, apart, "two blocks")
    apart = by_two_threads(reader, pairs)
    if not apart.is_empty():
        apart = apart.intersect(order.between(one, other, order.fenced))
    if not apart.is_empty():
        raise _race(kernel, reader, one, other, apart, "two threads of a block")
    if not (one.late or other.late):
        return  # one thread keeps its own order
    alone = where_same(pairs, [*range(reader.grid), thread])
    if one is other and one.once:
        alone = alone.subtract(where_same(pairs, range(thread + 1)))
    alone = alone.intersect(order.between(one, other, order.followed))
    if not alone.is_empty():
        raise _race(kernel, reader, one, other, alone, "a thread and its own copies")


def touching(one: Access, other: Access) -> isl.Map:
    """Pairs of instances that touch one element."""
    return one.element.apply_range(other.element.reverse())


def by_two_threads(reader: Reader, pairs: isl.Map) -> isl.Map:
    """Those of ``pairs`` that are of different threads of one block."""
    return where_different(where_same(pairs, range(reader.grid)), [reader.grid + reader.depth])


class Order:
    """What is before what in a block, as relations of instances; threads do not count in them: a
    barrier's is nobody's."""

    def __init__(self, reader: Reader) -> None:
        self._thread = reader.grid + reader.depth
        self._grid = range(reader.grid)
        self.earlier = _ordered(reader.grid, reader.depth)
        self._fences = reader.happen(Barrier)
        self._commits = reader.happen(CommitCopies)
        self._waits = {left: reader.happen(AwaitCopies, left) for left in reader.waits()}

    def moments(self, one: Access, other: Access) -> isl.Map:
        """Pairs of instances of a block, whoever runs them, and perhaps others."""
        ends = (whoever_first(access.element, self._thread) for access in (one, other))
        return where_same(isl.Map.from_domain_and_range(*ends), self._grid)

    def between(
        self, one: Access, other: Access, behind: Callable[[Access, isl.Map], isl.Map]
    ) -> isl.Map:
        """Those of their ``moments`` of which neither is ``behind`` the other."""
        pairs = self.moments(one, other)
        for end in (one, other):
            pairs = (pairs if pairs.is_empty() else pairs.subtract(behind(end, pairs))).reverse()
        return pairs

    def fenced(self, access: Access, pairs: isl.Map) -> isl.Map:
        """From ``access`` to what any thread runs after it is over and a barrier, as far as
        ``pairs`` may be."""
        over, later = self.around(access, pairs)
        return over.intersect_range(self._fences).apply_range(later)

    def around(self, access: Access, pairs: isl.Map) -> tuple[isl.Map, isl.Map]:
        """From ``access`` to what is after it is over; from there to what is later; likewise."""
        return where_first_as(self._over(access), pairs), where_second_as(self.earlier, pairs)

    def followed(self, access: Access, pairs: isl.Map) -> isl.Map:
        """From ``access`` to what its own thread runs after it is over, likewise."""
        return where_second_as(where_first_as(self._over(access), pairs), pairs)

    def _over(self, access: Access) -> isl.Map:
        if not access.late:
            return self.earlier
        begun = where_first_as(self.earlier, access.element)
        return derived(lambda: self._copied(begun), "copied", (), self, access)

    def _copied(self, begun: isl.Map) -> isl.Map:
        """From copies to all that comes after waits for them; ``begun``: to what comes later."""
        total = isl.Map.empty(begun.get_space())
        for left, waits in self._waits.items():
            reached = begun.intersect_range(self._commits).coalesce()
            for _ in range(left):
                later = self.earlier.intersect_range(self._commits)
                reached = reached.apply_range(later).coalesce()
            over = reached.apply_range(self.earlier.intersect_range(waits)).coalesce()
            total = total.union(over.apply_range(self.earlier))
        return total.coalesce()


def _warp_size(nest: Stmt) -> int | None:
    """Threads of a warp: the turns of every lane loop in ``nest``; None if they differ."""
    lanes = [s for s in walk(nest) if isinstance(s, For) and s.kind == "lane"]
    found = {s.upper.value for s in lanes if isinstance(s.upper, Literal)}
    same = len(found) == 1 and all(s.lower == literal(0) and s.step == 1 for s in lanes)
    return int(found.pop()) if same else None


def _ordered(grid: int, time: int) -> isl.Map:
    """Instances of one block of which the first is earlier."""
    g = [f"g{k}" for k in range(grid)]
    a, b = [f"a{k}" for k in range(time)], [f"b{k}" for k in range(time)]
    equal = [f"{x} = {y}" for x, y in zip(a, b, strict=True)]
    cases = [" and ".join([*equal[:k], f"{a[k]} < {b[k]}"]) for k in range(time)]
    held = " or ".join(f"({case})" for case in cases) or "false"
    first, second = ", ".join([*g, *a, "x"]), ", ".join([*g, *b, "y"])
    return isl.Map(f"{{ [{first}] -> [{second}] : {held} }}", context=CONTEXT)


def _race(
    kernel: Kernel, reader: Reader, one: Access, other: Access, pairs: isl.Map, who: str
) -> IllegalScheduleError:
    found = sample_pair(pairs)
    assert found is not None, "an empty set of races"
    parameters, first, second = found
    sizes = ", ".join(f"{name} = {value}" for name, value in parameters.items())
    return IllegalScheduleError(
        "WEFT-E0426",
        f"{who} of {kernel.name} race for {one.memory}",
        why=f"{reader.instance(one, first)} and {reader.instance(other, second)} touch one element"
        + (f" for {sizes}" if sizes else "")
        + ", and no barrier is between them",
        hint="a barrier between the two loops, or one loop for both",
    )


# ---- Reading a launch: each access and each barrier with the conditions under which it happens.


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands. ``names``: isl's, by variable; ``time``: places and loops so far;
    ``inner``: the thread's own loops; ``facts``: conditions in isl's words; ``thread``: the number
    of the thread, None outside block loops; ``certain``: all ``facts`` are known."""

    names: Mapping[str, str]
    values: Mapping[str, str] = field(default_factory=dict)  # of lets
    grid: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    thread: str | None = None
    certain: bool = True
    private: frozenset[str] = frozenset()  # a thread's own memory
    warp: str | None = None  # the number of the warp, in a warp loop

    def word(self, name: str) -> str | None:
        """Isl's, for a variable."""
        return self.values.get(name) or self.names.get(name)

    def where(self, condition: str | None) -> Place:
        if condition is None:
            return replace(self, certain=False)
        return replace(self, facts=(*self.facts, condition))


@dataclass(slots=True)
class Reader:
    kernel: Kernel
    parameters: tuple[str, ...]
    warp: int | None = None  # threads of one
    shared: set[str] = field(default_factory=set)
    itemsize: dict[str, int] = field(default_factory=dict)
    grid: int = 0
    depth: int = 0
    _found: list[tuple[str, tuple[Expr, ...], bool, Place, bool]] = field(default_factory=list)
    _events: list[tuple[Stmt, Place]] = field(default_factory=list)
    _told: list[int] = field(default_factory=list)  # places of the time that differ

    def read(self, stmt: Stmt, place: Place) -> None:
        match stmt:
            case For(kind="grid"):
                inner = self._entered(stmt, place)
                inner = replace(inner, grid=(*place.grid, inner.names[stmt.var]))
                self.grid = len(inner.grid)
                self.read(stmt.body, inner)
            case Let(name, value, body):
                self._loads((value,), place)
                text = affine_text(value, place.word)
                if text is None:
                    known = self._named(name, place)
                    self.read(body, replace(known, inner=(*place.inner, known.names[name])))
                else:
                    self.read(body, replace(place, values={**place.values, name: text}))
            case Block(stmts) if place.thread is None:
                for k, part in enumerate(stmts):
                    self.read(part, replace(place, time=(*place.time, str(k))))
            case Block(stmts):
                for part in stmts:
                    self.read(part, place)
            case For() | While():
                self._loop(stmt, place)
            case If(condition, then, otherwise):
                self._loads((condition,), place)
                yes, no = condition_texts(condition, place.word)
                branch = replace(place, time=(*place.time, "0")) if place.thread is None else place
                self.read(then, branch.where(yes))
                self.read(otherwise, branch.where(no))
            case Allocate(buffer, body):
                private = place.private
                self.itemsize[buffer.name] = buffer.dtype.itemsize
                if buffer.scope == "shared":
                    self.shared.add(buffer.name)
                else:
                    private |= {buffer.name}
                self.read(body, replace(place, private=private))
            case Single(body):
                self.read(body, replace(place, thread="0"))
            case Barrier() | CommitCopies() | AwaitCopies():
                self._reach(place)
                self._events.append((stmt, place))
            case _:
                self._effects(stmt, place)

    def _loop(self, stmt: For | While, place: Place) -> None:
        self._loads(expressions(stmt), place)
        if isinstance(stmt, While):
            name = f"while{len(place.names)}"
            inner = self._named(name, place).where(None)
        else:
            name = stmt.var
            inner = self._entered(stmt, place)
        var = inner.names[name]
        if isinstance(stmt, For) and stmt.kind == "warp" and place.thread is None:
            inner = self._in_warp(stmt, inner, place)
        elif isinstance(stmt, For) and stmt.kind == "lane" and place.warp is not None:
            inner = replace(inner, inner=(*place.inner, var))
            if self.warp is not None:
                inner = inner.where(f"{place.thread} = {self.warp}*{place.warp} + {var}")
        elif place.thread is not None:
            inner = replace(inner, inner=(*place.inner, var))
        elif isinstance(stmt, For) and stmt.kind == "block":
            low = affine_text(stmt.lower, place.word)
            thread = self._named(f"{name} thread", inner)
            number = thread.names[f"{name} thread"]
            inner = replace(thread, thread=number, inner=(*place.inner, var))
            if low is not None:
                inner = inner.where(f"{stmt.step}*{number} = {var} - ({low})")
        else:
            inner = replace(inner, time=(*place.time, var))
        self.read(stmt.body, inner)

    def _in_warp(self, loop: For, inner: Place, place: Place) -> Place:
        """Any thread of the warp that runs a turn of ``loop``."""
        var, low = inner.names[loop.var], affine_text(loop.lower, place.word)
        made = self._named(f"{loop.var} thread", inner)
        thread = made.names[f"{loop.var} thread"]
        made = replace(made, thread=thread, inner=(*place.inner, var), warp=f"({var} - ({low}))")
        if low is None or loop.step != 1 or self.warp is None:
            return made
        first = f"{self.warp}*{made.warp}"
        return made.where(f"{first} <= {thread} < {first} + {self.warp}")

    def _named(self, name: str, place: Place) -> Place:
        return replace(place, names={**place.names, name: f"v{len(place.names)}"})

    def _entered(self, loop: For, place: Place) -> Place:
        """Inside ``loop``: its bounds hold."""
        inner = self._named(loop.var, place)
        var = inner.names[loop.var]
        low = affine_text(loop.lower, place.word)
        inner = inner.where(None if low is None else f"{var} >= {low}")
        for most in sides(loop.upper, "min"):
            high = affine_text(most, place.word)
            inner = inner.where(None if high is None else f"{var} < {high}")
        if loop.step != 1:
            inner = inner.where(None if low is None else f"({var} - ({low})) mod {loop.step} = 0")
        return inner

    def _effects(self, stmt: Stmt, place: Place) -> None:
        self._loads(expressions(stmt), place)
        targets: list[tuple[str, tuple[Expr, ...]]] = []
        if isinstance(stmt, Store):
            targets = [(stmt.buffer, stmt.indices)]
        elif isinstance(stmt, Update):
            targets = list(stmt.targets)
        for name, indices in targets:
            self._add(name, indices, True, place)
        match stmt:
            case AsyncCopy((name, indices), (source, start), count, valid):
                self._run(name, indices, literal(count), True, place, late=True)
                self._run(source, start, valid, False, place, late=True)
            case LoadMatrices(source=source, indices=indices):
                size = MATRIX[1] * WORD // self.itemsize[source]
                self._run(source, indices, literal(size), False, place)

    def _run(
        self,
        name: str,
        indices: tuple[Expr, ...],
        count: Expr,
        writes: bool,
        place: Place,
        *,
        late: bool = False,
    ) -> None:
        """``count`` neighbours along the last dim, from ``indices`` on."""
        at = self._named("neighbour", place)
        var = at.names["neighbour"]
        at = replace(at, inner=(*place.inner, var)).where(f"{var} >= 0")
        at = at.where(below_text(var, count, place.word))
        self._add(name, (*indices[:-1], indices[-1] + Var("neighbour")), writes, at, late)

    def _loads(self, exprs: Sequence[Expr], place: Place) -> None:
        """The loads of ``exprs``, whatever selects them."""
        stack = [(e, place) for e in exprs]
        while stack:
            node, at = stack.pop()
            if isinstance(node, Load):
                self._add(str(node.source), node.indices, False, at)
            if isinstance(node, Select):
                yes, no = condition_texts(node.condition, at.word)
                stack.append((node.condition, at))
                stack.append((node.if_true, at.where(yes)))
                stack.append((node.if_false, at.where(no)))
            else:
                stack.extend((child, at) for child in node.children)

    def _add(
        self,
        name: str,
        indices: tuple[Expr, ...],
        writes: bool,
        place: Place,
        late: bool = False,
    ) -> None:
        if name not in place.private:
            self._reach(place)
            self._found.append((name, indices, writes, place, late))

    def _reach(self, place: Place) -> None:
        self.depth = max(self.depth, len(place.time))

    # ---- as relations ---------------------------------------------------------------------------

    def accesses(self) -> list[Access]:
        """Every access that may meet another: those of memory that is written."""
        memory = _same_memory(self.kernel)
        written = {memory.get(name, name) for name, _, writes, *_ in self._found if writes}
        made: dict[object, Access] = {}
        for name, indices, writes, place, late in self._found:
            where = memory.get(name, name)
            if where in written or late:
                alone = list(memory.values()).count(where) <= 1
                text = self.relation(indices if alone else (), place)
                key = (where, writes, text, late)
                if key not in made:
                    element = isl.Map(text, context=CONTEXT)
                    shown = ("a copy's " if late else "a ") + ("write" if writes else "read")
                    private = where in self.shared
                    ends = late, len(place.inner) <= 2  # the block's loop, and neighbours
                    made[key] = Access(
                        where, writes, private, element, shown, place, indices, *ends
                    )
        return list(made.values())

    def relation(self, indices: tuple[Expr, ...], place: Place) -> str:
        facts = list(place.facts)
        for k, index in enumerate(indices):
            text = affine_text(index, place.word)
            facts += [] if text is None else [f"e{k} = {text}"]
        elements = ", ".join(f"e{k}" for k in range(len(indices)))
        held = " and ".join(facts) or "true"
        held = f"exists ({', '.join(place.inner)} : {held})" if place.inner else held
        return f"{self._space()} -> {{ {self._instance(place)} -> [{elements}] : {held} }}"

    def waits(self) -> list[int]:
        """How many groups are left where copies are awaited."""
        return sorted({stmt.left for stmt, _ in self._events if isinstance(stmt, AwaitCopies)})

    def happen(self, kind: type[Stmt], left: int | None = None) -> isl.Set:
        """When what all threads do, of that ``kind``, surely is."""
        ends = ", ".join(f"x{k}" for k in range(self.grid + self.depth + 1))
        none = isl.Set(f"{{ [{ends}] : false }}", context=CONTEXT)
        return reduce(isl.Set.union, self.each(kind, left), none)

    def each(self, kind: type[Stmt], left: int | None = None) -> Iterator[isl.Set]:
        """Likewise for each by itself, in the order of the text; never what is not certain."""
        for stmt, place in self._events:
            if isinstance(stmt, kind) and getattr(stmt, "left", None) == left:
                held = " and ".join(place.facts) or "true"
                held = held if place.certain else "false"
                text = f"{self._space()} -> {{ {self._instance(place)} : {held} }}"
                yield isl.Set(text, context=CONTEXT)

    def _space(self) -> str:
        return f"[{', '.join(self.parameters)}]"

    def shorten(self) -> None:
        """Leave out what is one number in the times of all."""
        places = [*(p for _, _, _, p, _ in self._found), *(p for _, p in self._events)]
        times = [[*p.time, *["0"] * (self.depth - len(p.time))] for p in places]
        for k, each in enumerate(zip(*times, strict=True)):
            if len({*each}) > 1 or not each[0].isdigit():
                self._told.append(k)
        self.depth = len(self._told)

    def _instance(self, place: Place) -> str:
        whole = dict(enumerate(place.time))
        time = [whole.get(k, "0") for k in self._told]
        return f"[{', '.join([*place.grid, *time, place.thread or 'any'])}]"

    def instance(self, access: Access, point: Sequence[int]) -> str:
        """One end of a race in words."""
        grid, thread = point[: self.grid], point[self.grid + self.depth]
        return f"{access.text} by thread {thread} of block {list(grid)}"


def _same_memory(kernel: Kernel) -> dict[str, str]:
    """Buffer → a representative of the buffers that it may overlap."""
    names = {b.name: b.name for b in kernel.buffers}
    for buffer in kernel.buffers:
        for other in buffer.aliases:
            old, new = names[other], names[buffer.name]
            names = {n: new if m == old else m for n, m in names.items()}
    return names
