"""What was decided about a loop kernel and why, in the user's terms; and the counts behind it."""

from __future__ import annotations

from weft.codegen.program import Program
from weft.explain import cost_lines, dependence_lines, memory_lines, schedule_lines, statement_line
from weft.frontend.scalar_expr import Expr, Literal, Load, Var, rewrite
from weft.frontend.scalar_printer import python_text
from weft.guards import guards_of
from weft.polyhedral.isl_context import exclusively
from weft.polyhedral.machine import Machine
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.scop_printer import tensor_text
from weft.polyhedral.transform.scheduled import Scheduled

STRATEGIES = {  # those of ``schedule_loops``, in its order
    "one loop": "statements that stream through the same memory share loops",
    "matrix": "register tiles over cache tiles",
    "stencil": "skewed tiles of time and rows",
    "sweeps": "one time step after the other, statements share their rows",
    "slanted": "a few rows side by side, each behind the one before",
    "single": "each by itself, its best loop innermost",
    "serial": "a loop that carries dependences, others inside it",
    "source order": "its own loops, outer ones shared by threads where nothing crosses them",
    "as written": "the loops of the source",
}
_GUARDED = ", if "  # in what the front end says of a statement: a condition on data follows


def statistics(scheduled: Scheduled, program: Program, fallback: str) -> dict[str, object]:
    """Counts and bytes of one compilation, as JSON data."""
    arena = program.arena
    return {
        "statements": len(scheduled.original.statements),
        "kernels": len(program.kernels),
        "launches": len(program.steps),
        "serial_fallbacks": int(bool(fallback)),
        "schedule": "; ".join(scheduled.notes),
        "arena_bytes": int(arena.value) if isinstance(arena, Literal) else None,
    }


@exclusively
def explain(scheduled: Scheduled, machine: Machine, fallback: str, program: Program) -> str:
    """Statements, what is not known before data are, dependences, schedule, memory."""
    scop = scheduled.original
    lines = [f"{scop.name}({', '.join(scop.parameters)})", "  tensors"]
    lines += [f"    {tensor_text(tensor)}" for tensor in scop.tensors]
    guards = guards_of([scop])
    if guards:
        lines += ["  compiled for sizes with", *(f"    {guard.text}" for guard in guards)]
    lines += ["  statements"]
    lines += [f"    {statement_line(s)}" for s in scop.statements]
    lines += _data_dependent(scop)
    lines += ["  dependences", *(f"    {line}" for line in dependence_lines(scop) or ["none"])]
    lines += ["  schedule, checked against every dependence"]
    if fallback:
        lines += [f"    serial, because: {fallback}"]
    lines += [f"    {_in_words(note)}" for note in scheduled.notes]
    lines += schedule_lines(scheduled)
    lines += cost_lines(scheduled, machine)
    lines += [f"  {line}" for line in memory_lines(program)]
    return "\n".join(lines) + "\n"


def _in_words(note: str) -> str:
    """``matrix: S0, S1`` with what that strategy does."""
    strategy = note.partition(": ")[0]
    return f"{note}  ({STRATEGIES[strategy]})" if strategy in STRATEGIES else note


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
    return found


def _element(s: Statement, access: Access) -> str:
    """``A[p[i], j]``, the operands of ``s`` in its subscripts written out."""

    def operand(node: Expr) -> Expr | None:
        if isinstance(node, Load) and isinstance(node.source, int):
            return Var(_element(s, s.reads[node.source]), node.dtype)
        return None

    indices = access.body_indices if access.may else access.indices
    shown = ", ".join(python_text(rewrite(index, operand)) for index in indices)
    return f"{access.tensor}[{shown}]" if indices else access.tensor
