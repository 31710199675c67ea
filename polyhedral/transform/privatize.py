"""Privatize: every temporary gets elements of its own for each iteration that shares no values.

    for t: for i: { x = A[i]; B[i] = x }   →   for t: for i: { x[t, i] = A[i]; B[i] = x[t, i] }

``expand`` of everything at once: what loops then carry is the flow of values, not the reuse of
memory. ``contract`` gives the memory back under the final order.
Also known as: scalar and array expansion (Feautrier 1988), privatisation; implicit in Halide and
TVM; Exo ``expand_dim`` one by one.
"""

from __future__ import annotations

from dataclasses import replace

from weft.polyhedral.transform.expand_all import expand_all
from weft.polyhedral.transform.scheduled import Scheduled, transformation


@transformation
def privatize(scheduled: Scheduled) -> Scheduled:
    """All temporaries separated into independent ones, and expanded along their textual loops.

    Temporaries that may be read before they are written stay as they are.
    """
    return replace(scheduled, scop=expand_all(scheduled.scop))
