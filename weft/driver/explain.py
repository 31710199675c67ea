"""What the compiler decided and why, in the user's terms; and the counts behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from weft.driver.alternatives import TITLE, because, briefly, decision_lines
from weft.driver.cluster_code import ClusterCode
from weft.driver.guards import guards_of
from weft.driver.launch_text import launch_lines
from weft.driver.lowered import Lowered
from weft.graph.fusion_rules import bytes_of, size_text
from weft.graph.partition import Cluster, Decision, Partition
from weft.ir.dtypes import bool_
from weft.ir.errors import BudgetError, CallError, did_you_mean
from weft.ir.isl_context import exclusively
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph, Node
from weft.ir.program import Aligned, Program
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, rewrite, variable_names, walk
from weft.ir.scalar_printer import python_text
from weft.ir.schedule_tree import marked_tiles
from weft.ir.scop import Access, Scop, Statement
from weft.ir.scop_printer import tensor_text
from weft.ir.size_arithmetic import text
from weft.ir.tensor_expr import Size, constant_size
from weft.ir.units import time_text
from weft.polyhedral.cost.price import Price
from weft.polyhedral.cost.text import Told, bound_text, price_lines, tile_lines, told
from weft.polyhedral.policy.instruction_choice import unused
from weft.polyhedral.proof.dependences import dependences
from weft.polyhedral.transform.edit import origin_of
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.compiled import Estimate, sizes_of_a_model

LARGEST_SIZE = 1 << 31  # that an estimate may be asked for
LONGEST = 3  # kernels, and intermediates, that the summary of a model names
GIVEN_UP = "gave up", "no register tile"  # what a note begins with that a user may want mended
NOTES = {  # what passes over the graph say about nodes, by attribute
    "winograd": "correlations, by fewer multiplications where that pays",
    "online": "sums of exponentials in blocks, where rows do not stay in a cache",
    "layout": "what is stored with its dimensions in another order, since that pays",
}
STRATEGIES = {  # those of ``schedule_loops``, in its order
    "one loop": "statements that stream through the same memory share loops",
    "matrix": "register tiles over cache tiles",
    "stencil": "skewed tiles of time and rows",
    "sweeps": "one time step after the other, statements share their rows",
    "skewed unroll-and-jam": "rows, each behind the one before: lanes, or unrolled and jammed",
    "single": "each by itself, its best loop innermost",
    "serial": "a loop that carries dependences, others inside it",
    "as written": "the loops of the source",
}
_GUARDED = ", if "  # in what the front end says of a statement: a condition on data follows


def statistics(lowered: Lowered) -> dict[str, object]:
    """Counts and bytes of one compilation, as JSON data."""
    codes = [code for code in lowered.codes if code is not None]
    main, prepare = lowered.program, lowered.assembly.prepare
    found: dict[str, object] = {
        "statements": sum(len(code.scheduled.original.statements) for code in codes),
        "clusters": len(codes),
        "unique_clusters": len(lowered.distinct),
        "kernels": len(main.kernels),
        "launches": len(main.steps),
        "prepared": len(prepare.steps) if prepare else 0,
        "schedules_checked": len(lowered.distinct),
        "serial_fallbacks": sum(bool(code.fallback) for code in lowered.distinct),
        "arena_bytes": int(main.arena.value) if isinstance(main.arena, Literal) else None,
        "host": 0,
    }
    graph = lowered.source.graph
    if graph is None:
        return found
    return {
        "operators": len(graph.nodes),
        **found,
        "intermediate_bytes": intermediate_bytes(graph),
    }


def intermediate_bytes(graph: Graph) -> int | None:
    """Bytes of all values between the operators of the unfused graph; None: sizes are symbolic."""
    final = {v.name for v in graph.outputs}
    total = 0
    for node in graph.nodes:
        for value in node.outputs:
            elements = _elements(value.shape)
            if elements is None:
                return None
            if value.name not in final:
                total += elements * value.dtype.itemsize
    return total


def _elements(shape: Sequence[Size]) -> int | None:
    sizes = [constant_size(size) for size in shape]
    return prod(size for size in sizes if size is not None) if None not in sizes else None


@exclusively
def weighed(lowered: Lowered, details: bool, sizes: Mapping[str, int]) -> str:
    """The explanation of a loop kernel at ``sizes``; with ``details``, what each alternative would
    have cost, and why others do not apply. Raises ``CallError`` (WEFT-E0609) for sizes that it does
    not have."""
    (code,) = lowered.distinct
    _check_sizes(sizes, code.scheduled.original)
    decisions = decision_lines(lowered, sizes) if details else _decisions(lowered)
    return _kernel_text(lowered, decisions, sizes)


@exclusively
def estimate(lowered: Lowered, sizes: Mapping[str, int]) -> Estimate:
    """What a call takes on one thread; loop kernels at ``sizes``. Raises ``CallError``
    (WEFT-E0609) for sizes that they do not have, and where there is no estimate."""
    parts = lowered.source.partition
    if parts is None:
        (code,) = lowered.distinct
        _check_sizes(sizes, code.scheduled.original)
        found = [told(code.scheduled, lowered.machine, sizes)]
    else:
        if sizes:
            raise sizes_of_a_model()
        known = {id(c): told(c.scheduled, lowered.machine) for c in lowered.distinct}
        found = [known[id(code)] for _, code in _running(lowered, parts)]
    if lost := [each.why for each in found if each.price is None]:
        raise CallError("WEFT-E0609", f"{lowered.source.name}: {lost[0]}")
    return _total([each.price for each in found if each.price is not None])


def _total(prices: Iterable[Price]) -> Estimate:
    each = list(prices)
    return Estimate(sum(p.seconds for p in each), sum(p.bound / p.frequency for p in each))


def _running(lowered: Lowered, parts: Partition) -> list[tuple[Cluster, ClusterCode]]:
    """The clusters of which a call runs some kernel."""
    calls = {kernel.name for kernel in lowered.program.kernels}
    return [
        (cluster, code)
        for cluster, code in zip(parts.clusters, lowered.codes, strict=True)
        if code is not None and any(k.kernel.name in calls for k in code.kernels)
    ]


def _check_sizes(sizes: Mapping[str, int], scop: Scop) -> None:
    derived = {name for name, _ in scop.derived}
    known = [name for name in scop.parameters if name not in derived]
    for name, value in sizes.items():
        if name not in known:
            hint = f"{did_you_mean(name, known)}sizes: {', '.join(known) or 'none'}"
            raise CallError("WEFT-E0609", f"{scop.name} has no size {name!r}", hint=hint)
        if type(value) is not int or not 0 <= value <= LARGEST_SIZE:
            raise CallError("WEFT-E0609", f"{name} = {value!r} is no size to estimate for")


def _kernel_text(
    lowered: Lowered, decisions: Sequence[str], sizes: Mapping[str, int] | None = None
) -> str:
    (code,) = lowered.distinct
    lines = [*_kernel(code.scheduled.original), *_code(code)]
    known = told(code.scheduled, lowered.machine, sizes)
    lines += cost_lines(code.scheduled, lowered.machine, known)
    lines += [f"  {line}" for line in (*decisions, *memory_lines(lowered.program))]
    return "\n".join(lines) + "\n"


@exclusively
def explanation(lowered: Lowered) -> str:
    """Clusters with their statements, dependences and schedule, and every fusion decision."""
    graph, parts = lowered.source.graph, lowered.source.partition
    if graph is None or parts is None:
        return _kernel_text(lowered, _decisions(lowered))
    known = {id(c): told(c.scheduled, lowered.machine) for c in lowered.distinct}
    lines = [*_summary(lowered, parts, known), *_clusters(lowered, parts, known)]
    lines += [*_fusion(parts), *_notes(graph)]
    lines += ["", *_decisions(lowered), "", *memory_lines(lowered.program)]
    return "\n".join(lines) + "\n"


def _kernel(scop: Scop) -> list[str]:
    """What a loop kernel is called with."""
    lines = [f"{scop.name}({', '.join(scop.parameters)})", "  tensors"]
    lines += [f"    {tensor_text(tensor)}" for tensor in scop.tensors]
    guards = guards_of([scop])
    if guards:
        lines += ["  compiled for sizes with", *(f"    {guard.text}" for guard in guards)]
    return lines


def _summary(lowered: Lowered, parts: Partition, known: Mapping[int, Told]) -> list[str]:
    """Where the time of a call goes, what limits the kernels that take most of it, and what was
    lost."""
    each = [
        (code, cluster, found)
        for cluster, code in _running(lowered, parts)
        if (found := known[id(code)].price) is not None
    ]
    total, least = _total(found for _, _, found in each)
    counts = Counter(id(code) for code, _, _ in each)
    first = {id(code): (cluster, found) for code, cluster, found in reversed(each)}
    lines = [
        f"{lowered.source.name}: {len(each)} clusters run, {len(first)} of them distinct",
        f"  estimated {time_text(total)} on one thread; no less than {time_text(least)}",
    ]
    for k in sorted(first, key=lambda k: -counts[k] * first[k][1].seconds)[:LONGEST]:
        cluster, found = first[k]
        share = counts[k] * found.seconds / total if total else 0.0
        times = f"{counts[k]} times " if counts[k] > 1 else ""
        names = ", ".join(map(_node, cluster.nodes[:LONGEST]))
        limit = bound_text(found)
        lines.append(f"  {share:.0%}: {times}{time_text(found.seconds)}, {limit}: {names}")
    return [*lines, *_lost(lowered, parts, [cluster for _, cluster, _ in each])]


def _lost(lowered: Lowered, parts: Partition, clusters: Sequence[Cluster]) -> list[str]:
    """Schedules that were given up, and the largest intermediates of ``clusters`` that go through
    memory, those of one size for one reason once."""
    lines = [f"  lost: {code.fallback}" for code in lowered.distinct if code.fallback]
    for code in lowered.distinct:
        lines += [f"  lost: {note}" for note in code.scheduled.notes if note.startswith(GIVEN_UP)]
    results = {n.name: n.outputs for c in clusters for n in c.nodes}
    alike: dict[tuple[int, str], list[Decision]] = {}
    for d in parts.decisions:
        if not d.fused and {d.producer, d.consumer} <= results.keys():
            made = results[d.producer]
            named = "|".join(re.escape(v.name) for v in made)
            why = re.sub(rf"(?<![\w.])({named})(?![\w.]\w)", "it", d.reason)
            alike.setdefault((sum(map(bytes_of, made)), why), []).append(d)
    ranked = sorted(alike, key=lambda key: -key[0] * len(alike[key]))
    for size, why in ranked[:LONGEST]:
        (one, *_), count = alike[size, why], len(alike[size, why])
        times = f"{count} times " if count > 1 else ""
        lines.append(f"  lost: {times}{size_text(size)}, {one.producer} for {one.consumer}: {why}")
    return lines


def _clusters(lowered: Lowered, parts: Partition, known: Mapping[int, Told]) -> list[str]:
    """The clusters of a graph in order, those that share their code explained once."""
    lines: list[str] = []
    seen: dict[int, str] = {}
    for cluster, code in zip(parts.clusters, lowered.codes, strict=True):
        lines += ["", f"{cluster.name}: {', '.join(map(_node, cluster.nodes))}"]
        if code is None:
            lines += ["  a view: no code, no memory"]
        elif id(code) in seen:
            lines += [f"  the same code as {seen[id(code)]}"]
        else:
            seen[id(code)] = cluster.name
            lines += _code(code)
            lines += cost_lines(code.scheduled, lowered.machine, known[id(code)])
    return lines


def _node(node: Node) -> str:
    return f"{node.name} ({node.op})"


def _fusion(parts: Partition) -> list[str]:
    made = (
        f"  {d.producer} -> {d.consumer}: {'fused' if d.fused else 'apart'}: {d.reason}"
        for d in parts.decisions
    )
    return ["", "why neighbouring operators were or were not fused", *made]


def _notes(graph: Graph) -> list[str]:
    lines: list[str] = []
    for attribute, title in NOTES.items():
        noted = [n for n in graph.nodes if attribute in n.attributes]
        lines += ["", title, *(f"  {n.name}: {n.attributes[attribute]}" for n in noted)]
    return lines


def _decisions(lowered: Lowered) -> list[str]:
    lines, said = [TITLE], set[str]()
    for d in lowered.plan.decisions:
        lines += [f"  {briefly(d)}", *because(d, said)]
    return lines


def _code(code: ClusterCode) -> list[str]:
    """Statements, what is not known before data are, dependences and the schedule."""
    scop = code.scheduled.original
    lines = ["  statements", *(f"    {statement_line(s)}" for s in scop.statements)]
    lines += _data_dependent(scop)
    lines += ["  dependences", *(f"    {line}" for line in dependence_lines(scop) or ["none"])]
    lines += ["  schedule, checked against every dependence"]
    if code.fallback:
        lines += [f"    serial, because: {code.fallback}"]
    lines += [f"    {_in_words(note)}" for note in code.scheduled.notes]
    lines += schedule_lines(code.scheduled)
    lines += launch_lines([k.kernel for k in code.kernels])
    return lines + [
        f"  not claimed: that {name} is filled before it is read, because {why}"
        for kernel in code.kernels
        for name, why in kernel.unclaimed
    ]


def _in_words(note: str) -> str:
    """``matrix: S0, S1`` with what that strategy does."""
    strategy = note.partition(": ")[0]
    return f"{note}  ({STRATEGIES[strategy]})" if strategy in STRATEGIES else note


def schedule_lines(scheduled: Scheduled) -> list[str]:
    """The moves that lead there, which ``Schedule.replay`` takes, and the layout of what is kept
    meanwhile: copies, accumulators, panels."""
    lines = [f"    {step}" for step in scheduled.steps] or ["    in the order of the source"]
    made = [t for t in scheduled.scop.tensors if t not in scheduled.original.tensors]
    if made:
        lines += ["  memory of its own", *(f"    {tensor_text(t)}" for t in made)]
    return lines


def dependence_lines(scop: Scop) -> list[str]:
    """``flow S0 -> S1 on A``, once for all pairs of accesses of which that is all to say."""
    try:
        counts = Counter(map(str, dependences(scop, implied=False)))
    except BudgetError as error:
        return [f"not known: {error.what}"]
    return [line + (f"  ({n} pairs of accesses)" if n > 1 else "") for line, n in counts.items()]


def statement_line(s: Statement) -> str:
    """``S0[i, j] writes A folds add over j  # lu.py:12: …``"""
    source = f"  # {s.origin.source}" if s.origin and s.origin.source else ""
    written = ", ".join(w.tensor for w in s.writes)
    kind = f" folds {s.update.monoid.name}" if s.update else ""
    if s.update and s.update.dims:
        kind += f" over {', '.join(s.update.dims)}"
    return f"{s.name}[{', '.join(s.dims)}] writes {written}{kind}{source}"


def instruction_lines(scheduled: Scheduled, machine: Machine) -> list[str]:
    """Which of the target's instructions compute no sum of the program, and why."""
    tiles = {name: tile.payload for name, tile in marked_tiles(scheduled.tree).items()}
    lines = []
    whole = {n: origin_of(scheduled.scop.statement(n)).statement for n in tiles}
    for s in scheduled.original.statements:
        tile = next((tiles[n] for n in tiles if whole[n] == s.name), None)
        found = unused(scheduled.original, s, machine, tile)
        lines += [f"    {u.statement} not by {u.instruction}: {u.why}" for u in found]
    return ["  instructions that are not used", *lines] if lines else []


def cost_lines(scheduled: Scheduled, machine: Machine, known: Told) -> list[str]:
    """What the schedule costs on ``machine``, which is ``known``."""
    return [
        *instruction_lines(scheduled, machine),
        "  costs, estimated for one thread",
        *(f"    {line}" for line in (*price_lines(known), *tile_lines(scheduled, machine))),
    ]


def memory_lines(program: Program) -> list[str]:
    """The arena, and the inputs that may be copied to it."""
    count = len(program.steps)
    lines = [f"arena: {text(program.arena)} bytes, {count} launch{'es' * (count != 1)}"]
    places = [buffer.place for buffer in program.buffers]
    copied = [program.inputs[p.index].name for p in places if isinstance(p, Aligned)]
    if copied:
        lines.append(f"copied where they begin within a line: {', '.join(copied)}")
    return lines


def _data_dependent(scop: Scop) -> list[str]:
    """Accesses of which some subscripts are data: each may touch any element that has the others.
    Statements under a condition on data: in the dependences they do what they may do."""
    found = [
        f"    {s.name}: {verb} {_element(s, access)}"
        for s in scop.statements
        for verb, accesses in (("may read", s.reads), ("may write", s.writes))
        for access in accesses
        if access.may
    ]
    if found:
        why = "any element that the other subscripts allow; checked at run time"
        found = [f"  depends on data: {why}", *found]
    guarded = [
        f"    {s.name}: only if {guard}"
        for s in scop.statements
        if s.origin is not None and (guard := s.origin.source.partition(_GUARDED)[2])
    ]
    if guarded:
        found += ["  runs everywhere, changes elements where data say so", *guarded]
    chosen = [
        f"    {s.name}: {why}"
        for s in scop.statements
        if (along := _rewritten_by_choice(s)) and (why := _no_fold(scop, s, along))
    ]
    if chosen:
        found += ["  no register tile", *chosen]
    return found


def _rewritten_by_choice(s: Statement) -> tuple[str, ...]:
    """The dims along which ``s``, inside three loops or more, goes back to one element, which it
    reads, to change it or not as data say; none where no operand serves several elements, so that
    a register tile would gain nothing."""
    nodes = (n for e in s.body.results for n in walk(e))
    (target, *_), own = s.writes, _dims(s, s.writes[0])
    along = tuple(d for d in s.dims if d not in own)
    shared = any({*along} & _dims(s, r) and own - _dims(s, r) for r in s.reads)
    chooses = any(isinstance(n, Select) for n in nodes) and target in s.reads
    return along if len(s.dims) >= 3 and chooses and shared else ()


def _no_fold(scop: Scop, s: Statement, along: Sequence[str]) -> str:
    """What keeps ``s`` from folding into its element ``along`` these dims in registers."""
    place, dims = _element(s, s.writes[0]), ", ".join(along)
    conditions = {t.name for t in scop.tensors if t.role == "temp" and t.dtype == bool_}
    decided = {r.tensor for r in s.reads} & conditions
    alike = [o.name for o in scop.statements if decided & {r.tensor for r in o.reads}]
    if s.update is not None:
        return f"its condition reads {place}, which the fold along {dims} changes"
    if len(alike) > 1:
        return f"one condition on data decides about {' and '.join(alike)}, which is no fold"
    return f"its condition on data is no minimum, maximum or other fold into {place} along {dims}"


def _dims(s: Statement, access: Access) -> set[str]:
    """The dims of ``s`` along which ``access`` moves."""
    return {n for index in access.indices for n in variable_names(index)} & {*s.dims}


def _element(s: Statement, access: Access) -> str:
    """``A[p[i], j]``, the operands of ``s`` in its subscripts written out."""

    def operand(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, int):
            return Var(_element(s, s.reads[node.source]), node.dtype)
        return None

    indices = access.body_indices if access.may else access.indices
    shown = ", ".join(python_text(rewrite(index, operand)) for index in indices)
    return f"{access.tensor}[{shown}]" if indices else access.tensor
