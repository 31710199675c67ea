"""What the compiler decided and why, in the user's terms; and the counts behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from weft.driver.cluster_code import ClusterCode
from weft.driver.program_code import Lowered
from weft.graph.partition import Cluster
from weft.ir.errors import BudgetError
from weft.ir.isl_context import exclusively
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph, Node
from weft.ir.program import Aligned, Program
from weft.ir.scalar_expr import Literal
from weft.ir.schedule_printer import print_schedule
from weft.ir.scop import Scop, Statement
from weft.ir.scop_printer import tensor_text
from weft.ir.size_arithmetic import text
from weft.ir.tensor_expr import Size, constant_size
from weft.polyhedral.analysis.costs import costs
from weft.polyhedral.analysis.dependences import dependences
from weft.polyhedral.analysis.tile_costs import tile_costs
from weft.polyhedral.analysis.tile_domain import marked_tiles
from weft.polyhedral.policy.instruction_choice import unused
from weft.polyhedral.transform.scheduled import Scheduled

ESTIMATED = 100  # statements of a model whose costs are estimated: some milliseconds each
NOTES = {  # what passes over the graph say about nodes, by attribute
    "winograd": "correlations, by fewer multiplications where that pays",
    "online": "sums of exponentials in blocks, where rows do not stay in a cache",
    "layout": "what is stored with its dimensions in another order, since that pays",
}


def statistics(lowered: Lowered) -> dict[str, object]:
    """Counts and bytes of one compilation, as JSON data."""
    codes = [code for code in lowered.codes if code is not None]
    unique = list({id(code): code for code in codes}.values())
    main = lowered.assembly.main
    return {
        "operators": len(lowered.graph.nodes),
        "statements": sum(len(code.scheduled.original.statements) for code in codes),
        "clusters": len(codes),
        "unique_clusters": len(unique),
        "kernels": len(main.kernels),
        "launches": len(main.steps),
        "prepared": len(lowered.assembly.prepare.steps) if lowered.assembly.prepare else 0,
        "schedules_checked": len(unique),
        "serial_fallbacks": sum(bool(code.fallback) for code in unique),
        "arena_bytes": _constant(main),
        "intermediate_bytes": intermediate_bytes(lowered.graph),
        "host": 0,
    }


def _constant(program: Program) -> int | None:
    return int(program.arena.value) if isinstance(program.arena, Literal) else None


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


Lines = list[str | Callable[[], list[str]]]
"""Lines of a text, and what makes some when the text is asked for."""


def explanation(lowered: Lowered) -> Callable[[], str]:
    """Clusters with their statements, dependences and schedule, and every fusion decision; what
    schedules cost, which takes most of the time, is worked out when this is called."""
    return partial(_text, _explained(lowered))


@exclusively
def _text(lines: Lines) -> str:
    made = (line if isinstance(line, str) else "\n".join(line()) for line in lines)
    return "\n".join(made) + "\n"


def _explained(lowered: Lowered) -> Lines:
    lines: Lines = [f"{lowered.graph.name}: {len(lowered.graph.nodes)} operators"]
    seen: dict[int, str] = {}
    estimated = 0
    for cluster, code in zip(lowered.partition.clusters, lowered.codes, strict=True):
        lines += ["", f"{cluster.name}: {', '.join(_node(n) for n in cluster.nodes)}"]
        new = code is not None and id(code) not in seen
        lines += _cluster(cluster, code, seen)
        if new and code is not None:
            estimated += len(code.scheduled.scop.statements)
            told = cost_lines if estimated <= ESTIMATED else _without_costs
            lines += [partial(told, code.scheduled, lowered.machine)]
    lines += ["", "why neighbouring operators were or were not fused"]
    lines += [
        f"  {d.producer} -> {d.consumer}: {'fused' if d.fused else 'apart'}: {d.reason}"
        for d in lowered.partition.decisions
    ]
    for attribute, title in NOTES.items():
        noted = [n for n in lowered.graph.nodes if attribute in n.attributes]
        lines += ["", title, *(f"  {n.name}: {n.attributes[attribute]}" for n in noted)]
    return [*lines, "", *memory_lines(lowered.assembly.main)]


def _node(node: Node) -> str:
    return f"{node.name} ({node.op})"


def _cluster(cluster: Cluster, code: ClusterCode | None, seen: dict[int, str]) -> list[str]:
    if code is None:
        return ["  a view: no code, no memory"]
    if id(code) in seen:
        return [f"  the same code as {seen[id(code)]}"]
    seen[id(code)] = cluster.name
    lines = ["  statements"]
    lines += [f"    {statement_line(s)}" for s in code.scheduled.original.statements]
    lines += ["  dependences"]
    lines += [f"    {line}" for line in dependence_lines(code.scheduled.original)]
    lines += ["  schedule, checked against every dependence"]
    if code.fallback:
        lines += [f"    serial, because: {code.fallback}"]
    return lines + schedule_lines(code.scheduled)


def schedule_lines(scheduled: Scheduled) -> list[str]:
    """The loops, and the layout of what they keep meanwhile: copies, accumulators, panels."""
    lines = [f"    {line}" for line in print_schedule(scheduled.tree).splitlines()]
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
    for s in scheduled.original.statements:
        parts = (n for n in tiles if n == s.name or n.startswith(f"{s.name}_edge"))
        tile = tiles[first] if (first := next(parts, None)) else None
        found = unused(scheduled.original, s, machine, tile)
        lines += [f"    {u.statement} not by {u.instruction}: {u.why}" for u in found]
    return ["  instructions that are not used", *lines] if lines else []


def cost_lines(scheduled: Scheduled, machine: Machine) -> list[str]:
    """What the schedule costs on ``machine``, in the symbolic sizes."""
    tiles = tile_costs(scheduled.scop, scheduled.tree, machine)
    mapped = [f"    {line}" for tile in tiles for line in tile.text().splitlines()]
    found = costs(scheduled, machine).text().splitlines()
    return [
        *(["  sums in registers", *mapped] if mapped else []),
        *instruction_lines(scheduled, machine),
        "  costs, estimated",
        *(f"    {line}" for line in found),
    ]


def _without_costs(scheduled: Scheduled, machine: Machine) -> list[str]:
    return [*instruction_lines(scheduled, machine), "  costs: not estimated"]


def memory_lines(program: Program) -> list[str]:
    """The arena, and the inputs that may be copied to it."""
    count = len(program.steps)
    lines = [f"arena: {text(program.arena)} bytes, {count} launch{'es' * (count != 1)}"]
    places = [buffer.place for buffer in program.buffers]
    copied = [program.inputs[p.index].name for p in places if isinstance(p, Aligned)]
    if copied:
        lines.append(f"copied where they begin within a line: {', '.join(copied)}")
    return lines
