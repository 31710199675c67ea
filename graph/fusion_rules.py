"""May an operator join a cluster, and does that pay? Decided from accesses and sizes alone.

An operator that reads a cluster's values joins it where

* what has to be computed again, or stays in a near cache between the two, is little: a value that
  can move into its reader is read about once per element, and one that cannot shares outer loops
  with its reader, so many of them that all cores have work;
* no contraction loses a loop: its operands are reused along all of them (``shared_loops``); or
  else, tiles of rows of the intermediate stay in a near cache, in which it runs along the others;
* statements, contractions and values stay within ``Limits``.

What is gained is the intermediate's trip through memory, twice its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from weft.graph.access_pattern import How, Step, elements, extent, steps_of
from weft.graph.shared_loops import Loss, Nest, extended
from weft.graph.simplify import is_view
from weft.ir.machine import TYPICAL
from weft.ir.operator_graph import Node, Value
from weft.ir.tensor_expr import constant_size
from weft.polyhedral.analysis.work import LEAST_ROWS, rows_in_cache


@dataclass(frozen=True, slots=True)
class Limits:
    """``rereads``: reads per element up to which an element is as good as read once.
    ``parallelism``: outer iterations that keep all cores busy. ``l1``, ``l2``: bytes of these
    caches; in the second, row tiles of large intermediates stay. ``sweeps``: they may also be made
    a tile at a time, in registers, for those who sweep over them.
    ``search``: edges between clusters that one acyclicity check may look at.
    """

    statements: int = 24
    contractions: int = 2
    values: int = 48
    rereads: float = 1.5
    parallelism: int = 16
    l1: int = TYPICAL.caches[0].size
    l2: int = TYPICAL.l2
    search: int = 4096
    sweeps: bool = False

    @property
    def private_bytes(self) -> int:
        """What stays near, of intermediates, in one outer iteration."""
        return self.l2 // 4

    @property
    def small_bytes(self) -> int:
        """Values that never matter."""
        return self.l1 // 2


@dataclass(frozen=True)
class Facts:
    """What fusion needs to know about one node."""

    node: Node
    steps: tuple[Step, ...]
    is_view: bool

    @cached_property
    def statements(self) -> int:
        return sum(step.statements for step in self.steps)

    @cached_property
    def contractions(self) -> int:
        return sum(step.contraction for step in self.steps)

    @cached_property
    def is_map(self) -> bool:
        return all(step.is_map or not step.loops for step in self.steps)

    @cached_property
    def arithmetic(self) -> int:
        return sum(step.arithmetic for step in self.steps)

    @cached_property
    def parallelism(self) -> int:
        """The outer iterations that the node has on its own."""
        return max((_iterations(step) for step in self.steps), default=1)


def facts_of(node: Node) -> Facts:
    return Facts(node, steps_of(node.program), is_view(node.program))


def _iterations(step: Step) -> int:
    return prod(extent(a.extent) for a in step.loops if a.name in step.parallel)


@dataclass(frozen=True, slots=True)
class Draft:
    """A cluster in the making. ``is_move``: nothing is computed, elements only change places.
    ``inner``: bytes of the values, by name, that have to be there as a whole for those who read
    them inside."""

    nodes: tuple[int, ...]
    nest: Nest
    statements: int
    contractions: int
    parallelism: int
    is_move: bool
    reads: frozenset[str]
    results: frozenset[str]
    inner: Mapping[str, int]


def draft_of(number: int, facts: Facts) -> Draft:
    """The cluster of one node."""
    return joined([], number, facts)


def joined(drafts: Sequence[Draft], number: int, facts: Facts) -> Draft:
    """One cluster of ``drafts`` and a node that reads from them, whether it is good or not."""
    node = facts.node
    names = [v.name for v in node.inputs], [v.name for v in node.outputs]
    nest = extended([d.nest for d in drafts], node.program, facts.steps, *names)
    inner = {name: size for draft in drafts for name, size in draft.inner.items()}
    if not facts.is_map:  # else it may move into its reader
        made = frozenset[str]().union(*(d.results for d in drafts))
        inner |= {v.name: bytes_of(v) for v in node.inputs if v.name in made}
    return Draft(
        (*(n for d in drafts for n in d.nodes), number),
        nest,
        sum(d.statements for d in drafts) + facts.statements,
        sum(d.contractions for d in drafts) + facts.contractions,
        max([facts.parallelism, *(d.parallelism for d in drafts)]),
        facts.is_map and not facts.arithmetic and all(d.is_move for d in drafts),
        frozenset(names[0]).union(*(d.reads for d in drafts)),
        frozenset(names[1]).union(*(d.results for d in drafts)),
        inner,
    )


@dataclass(frozen=True, slots=True)
class Passed:
    """A value that a node reads from its cluster; ``elsewhere``: others read it too."""

    value: Value
    elsewhere: bool


def objection(
    drafts: Sequence[Draft],
    whole: Draft,
    facts: Facts,
    values: Mapping[str, Passed],
    limits: Limits,
) -> str:
    """Why ``whole``, made of ``drafts`` and the node of ``facts``, is no good cluster; '' if it is.

    ``values`` are those that the node reads from the drafts, by name.
    """
    if whole.statements > limits.statements:
        return f"together {whole.statements} statements, more than {limits.statements}"
    deepest = max((d.contractions for d in drafts), default=0) + facts.contractions
    apart = whole.contractions > deepest  # or one has the loops of the other for an epilogue
    apart = apart or (0 < facts.contractions < whole.contractions and whole.nest.keeps_contractions)
    if whole.contractions > limits.contractions or apart:
        return (
            f"together {whole.contractions} contractions: each reuses its operands along all of "
            "its loops and needs them for itself"
        )
    n_values = len(whole.reads | whole.results)
    if n_values > limits.values:
        return f"together {n_values} values, more than {limits.values}"
    why = _rereads(drafts, facts, values, limits)
    if not whole.nest.keeps_contractions:
        return why or _row_tiles(whole, facts, limits)
    return why or _loops(whole, values, limits)


def _rereads(
    drafts: Sequence[Draft], facts: Facts, values: Mapping[str, Passed], limits: Limits
) -> str:
    """Objects to values that would move into a reader which reads their elements many times."""
    placeholders = {
        t: v.name for t, v in zip(facts.node.program.inputs, facts.node.inputs, strict=True)
    }
    tied = {name for draft in drafts for name in draft.nest.dims}
    moves = all(draft.is_move for draft in drafts)
    for step in facts.steps:
        for read in step.reads:
            name = placeholders.get(read.tensor, "")
            if name not in values or name in tied:
                continue
            if any(index.how is How.DATA for index in read.indices):
                return f"it reads {name} at places that depend on data"
            value, elsewhere = values[name].value, values[name].elsewhere
            times = read.times / max(elements(value.shape), 1)
            matters = bytes_of(value) > limits.small_bytes or elsewhere
            if times > limits.rereads and matters and not moves:
                return (
                    f"each element of {name} is read about {times:.3g} times, "
                    "so that storing it is cheaper than computing it again"
                )
    return ""


def _loops(whole: Draft, values: Mapping[str, Passed], limits: Limits) -> str:
    """Objects to a nest without enough common outer loops."""
    nest = whole.nest
    if nest.shared is None:
        return ""
    sizes = [bytes_of(passed.value) for passed in values.values()]
    large = sum(size for size in sizes if size > limits.small_bytes)
    if not large:
        return ""
    enough = min(limits.parallelism, whole.parallelism)
    if nest.parallelism < enough:
        return f"{nest.parallelism} common outer iterations are left of {whole.parallelism}" + (
            _because(nest.losses) or ": they run along different dimensions"
        )
    each = large // nest.parallelism
    if each > limits.private_bytes:
        return f"{size_text(each)} of intermediate results in each common outer iteration"
    return ""


def _row_tiles(whole: Draft, facts: Facts, limits: Limits) -> str:
    """Objects to contractions that lose loops, unless tiles of rows stay in the near cache: each
    then has all of its loops within a tile, and the intermediate does not go through memory."""
    nest = whole.nest
    why = _because(nest.losses) or ", because the others do not run along all of its loops"
    lost = f"the contraction would lose a loop, and with it its reuse{why}"
    rows, inner = nest.rows, sum(whole.inner.values())
    if not (rows and nest.shared and inner) or any(
        loss.how is not How.SWEPT for loss in nest.losses
    ):
        return lost
    if limits.sweeps:
        return ""
    passed = [v for v in facts.node.inputs if v.name in whole.inner]
    if any(constant_size(size) is None for v in passed for size in v.shape):
        return f"{lost}; how many of its rows stay in a cache is not known"
    if 2 * inner <= limits.l2:
        return f"{lost}, while the {size_text(inner)} between them stay in a cache as they are"
    tiles = rows.around * max(1, rows.count // LEAST_ROWS)
    if tiles < min(limits.parallelism, whole.parallelism):
        return f"{lost}; there are {tiles} tiles of its rows"
    row = inner // (rows.around * rows.count)
    if rows_in_cache(limits.l2, rows.count, row, rows.held):
        return ""
    return (
        f"{lost}; tiles of its rows, {size_text(row)} each, would not stay in a cache of "
        f"{size_text(limits.l2)} with the {size_text(rows.held)} that all of them read"
    )


_HOW = {
    How.SWEPT: "all of dimension {dim} of {tensor} is needed for one result",
    How.WINDOW: "windows along dimension {dim} of {tensor} are read",
    How.SHIFTED: "dimension {dim} of {tensor} is read at other places than it is made",
    How.FIXED: "dimension {dim} of {tensor} is read at one place",
    How.DATA: "dimension {dim} of {tensor} is read at places that depend on data",
    How.ALONG: "a recurrence runs along dimension {dim} of {tensor}",
}


def _because(losses: Sequence[Loss]) -> str:
    if not losses:
        return ""
    loss = losses[0]
    return ": " + _HOW[loss.how].format(dim=loss.dim, tensor=loss.tensor)


def bytes_of(value: Value) -> int:
    """Bytes of ``value``; symbolic sizes count as what ``access_pattern`` assumes."""
    return elements(value.shape) * value.dtype.itemsize


def size_text(n_bytes: int) -> str:
    """``n_bytes`` for people: 512 B, 3.1 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes} B"
