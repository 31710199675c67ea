"""Is what streams past the caches left alone? What ``Mark(Streamed(tensor), …)`` claims.

Streaming changes no value: threads meet behind their stores. What it claims is that the lines are
not wanted again soon, so that

1. the mark stands over one statement, which writes the tensor;
2. the tensor is memory of the program, not storage that iterations reuse;
3. no statement in the same top-level nest reads it, except that updates fold into it.
"""

from __future__ import annotations

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Mark, Sequence, Streamed, Tree, statements_below, walk
from weft.ir.schedule_verifier import originals, source_of
from weft.ir.scop import Scop


def check_streamed(scop: Scop, tree: Tree) -> None:
    """Check every mark of streaming stores in ``tree``, a verified schedule of ``scop``.

    Raises IllegalScheduleError (WEFT-E0425), with what stands against it.
    """
    for nest in tree.children if isinstance(tree, Sequence) else (tree,):
        inside = statements_below(nest)
        for node in walk(nest):
            match node:
                case Mark(Streamed() as claim, child):
                    _check(scop, inside, claim, child)


def _check(scop: Scop, inside: tuple[str, ...], claim: Streamed, child: Tree) -> None:
    name, *others = statements_below(child)
    writer = scop.statement(name)
    if others:
        raise _refused(scop, claim, (name, *others), "the mark stands over several statements")
    if claim.tensor not in {w.tensor for w in writer.writes}:
        raise _refused(scop, claim, (name,), f"{name} does not write it")
    tensor = scop.tensor(claim.tensor)
    if tensor.scope != "global" or tensor.contracted:
        raise _refused(scop, claim, (name,), "its storage is reused")
    for other in map(scop.statement, inside):
        if claim.tensor in {r.tensor for r in other.reads}:
            why = f"{other.name} reads it in the same nest"
            raise _refused(scop, claim, (name, other.name), why)


def _refused(scop: Scop, claim: Streamed, names: tuple[str, ...], why: str) -> IllegalScheduleError:
    statements = [scop.statement(name) for name in names]
    return IllegalScheduleError(
        "WEFT-E0425",
        f"stores to {claim.tensor} cannot stream past the caches",
        where=", ".join(dict.fromkeys(map(source_of, statements))),
        why=why,
        statements=originals(*statements),
        hint="stream results that only later nests read",
    )
