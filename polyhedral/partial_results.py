"""Partial results: reductions that were split, as ``validation`` has to read them.

* A *combining* update is new, and folds bare elements of a temporary into its target: ``C += P``.
  Where only folds of that monoid write the temporary, plain writes of its identity, and bare copies
  of such temporaries, an element is the fold of the contributions that it has seen: whoever sees
  the combining instance sees these. What is behind it counts in its place; that no read sees
  anything twice by two ways, ``validation`` finds out.
* An *opening* statement stands for an instance of an update, but overwrites: the first contribution
  of a fold that starts with nothing. That is the same where the original starts with the identity,
  and where the fold has other contributions, the identity may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from weft.frontend.scalar_expr import Literal, Load
from weft.frontend.tensor_expr import Monoid
from weft.polyhedral.analysis.dependences import folding
from weft.polyhedral.scop import Origin, Scop, Statement


def why_not_combining(
    scop: Scop, statement: Statement, origins: Mapping[str, Origin], folds: Collection[str]
) -> str:
    """The reason why the new update ``statement`` of the transformed ``scop`` does not combine
    partial results, or ''. ``folds`` are the original updates whose order is free."""
    update = statement.update
    assert update is not None
    loads = tuple(Load(k, (), r.dtype) for k, r in enumerate(statement.body.results))
    if len(statement.writes) != 1 or statement.body.lets or statement.body.results != loads:
        return "it is an update, but of no original statement, and folds no bare partial results"
    (read,) = statement.reads
    if read.may or statement.writes[0].may or scop.tensor(read.tensor).role != "temp":
        return f"it folds {read.tensor}, which is no temporary at indices known here"
    if statement.name not in folding(scop):
        return f"it shares {statement.writes[0].tensor} with updates that combine in another way"
    tensors = [read.tensor]
    for tensor in tensors:  # grows: copies lead to others
        for writer in _writers(scop, tensor):
            if writer.update is not None:
                source = origins.get(writer.name)
                known = writer is not statement and (source is None or source.statement in folds)
                known = known and writer.update.monoid == update.monoid
            elif writer.name in origins:
                known = False
            elif is_copy(writer) and scop.tensor(writer.reads[0].tensor).role == "temp":
                known = True
                if writer.reads[0].tensor not in tensors:
                    tensors.append(writer.reads[0].tensor)
            else:
                known = is_identity(writer, update.monoid)
            if not known:
                return f"it folds {tensor}, but {writer.name} writes there what is no such fold"
    return ""


def is_copy(statement: Statement) -> bool:
    """Whether a plain statement writes one bare read, and nothing else."""
    if len(statement.reads) != 1 or len(statement.writes) != 1 or statement.update is not None:
        return False
    bare = Load(0, (), statement.body.results[0].dtype)
    indirect = statement.reads[0].may or statement.writes[0].may
    return not indirect and not statement.body.lets and statement.body.results == (bare,)


def is_identity(statement: Statement, monoid: Monoid) -> bool:
    """Whether a plain statement writes the identity of ``monoid``, and nothing else."""
    return (
        statement.update is None
        and not statement.reads
        and not statement.body.lets
        and len(statement.body.results) == len(monoid.identity)
        and all(
            isinstance(result, Literal) and result.value == identity
            for result, identity in zip(statement.body.results, monoid.identity, strict=True)
        )
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """An original update, whose first contribution a transformed statement may write."""

    update: str
    starts: tuple[str, ...]  # the original statements that write the identity


def opened(original: Scop, update: Statement, folds: Collection[str]) -> Opened | None:
    """What there is to know about ``update`` to open its fold; None where it cannot be opened."""
    if update.update is None or update.name not in folds or len(update.writes) != 1:
        return None
    plain = [s for s in _writers(original, update.writes[0].tensor) if s.update is None]
    if not all(is_identity(s, update.update.monoid) for s in plain):
        return None
    return Opened(update.name, tuple(s.name for s in plain))


def _writers(scop: Scop, tensor: str) -> Iterable[Statement]:
    return (s for s in scop.statements if any(w.tensor == tensor for w in s.writes))
