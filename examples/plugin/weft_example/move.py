"""A move: a step of schedules made of others. Weft proves what it gives."""

import weft


@weft.move
def wavefront(s: weft.Schedule, outer: str, inner: str) -> weft.Schedule:
    """Iterations of ``inner`` run at the same time, one front for each sum of both loops."""
    if outer == inner or not {outer, inner} <= set(s.loops):
        raise weft.IllegalScheduleError(
            "EXAMPLE-1", f"no wavefront of {outer} and {inner}", hint=f"loops: {', '.join(s.loops)}"
        )
    return s.skew(inner, outer).reorder([inner, outer]).parallel(outer)
