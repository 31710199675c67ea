"""What the scheduler does without, once the checkers have refused what it chose.

    everything
    → without what it did to the statements of the violated dependence: these keep their textual
      loops and their storage, all others have what they had
    → without changes of storage
    → without threads

What is refused even then runs as it is written. Each step is told to the user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.errors import CompileError, IllegalScheduleError
from weft.polyhedral.scop import Scop

STEPS = 3  # refusals after each of which the statements named are set aside


@dataclass(frozen=True, slots=True)
class Limits:
    """What a schedule may not do, and why, in the order in which it was given up."""

    plain: frozenset[str] = frozenset()  # statements that stay as they are written
    storage: bool = True  # whether any tensor may change
    one_thread: bool = False
    given_up: tuple[str, ...] = ()

    def kept(self, scop: Scop) -> frozenset[str]:
        """The tensors of ``scop`` that stay as they are."""
        if not self.storage:
            return frozenset(t.name for t in scop.tensors)
        plain = (s for s in scop.statements if s.name in self.plain)
        return frozenset(access.tensor for s in plain for access in (*s.reads, *s.writes))

    def after(self, error: CompileError, scop: Scop, threads: int) -> Limits | None:
        """What to do without next, where a schedule of ``scop`` for ``threads`` was refused; None
        where nothing is left."""
        about = error.statements if isinstance(error, IllegalScheduleError) else ()
        named = [s.name for s in scop.statements if s.name in about and s.name not in self.plain]
        if named and len(self.given_up) < STEPS:
            what = f"better loops and storage than written for {', '.join(named)}"
            less = replace(self, plain=self.plain | {*named})
        elif self.storage:
            what, less = "changes of storage", replace(self, storage=False)
        elif threads > 1 and not self.one_thread:
            what, less = "threads", replace(self, one_thread=True)
        else:
            return None
        reason = f"{what}, because {error.code}: {error.what}"
        return replace(less, given_up=(*self.given_up, reason))
