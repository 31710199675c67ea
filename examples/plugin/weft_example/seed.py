"""A seed: a schedule for programs of a kind. It is taken where it is estimated to cost least."""

import weft


@weft.seed
def jammed_rows(s: weft.Schedule, machine, choose) -> weft.Schedule | None:
    """A few rows of the outer loop at a time, for one statement in a nest of two loops."""
    if len(s.statements) != 1 or len(s.loops) != 2:
        return None
    (name,), (outer, inner) = s.statements, s.loops
    rows = choose("rows", (2, 4, 8), 4)
    loops = {"r_t": f"{outer} // {rows}", "c": inner, "r": f"{outer} % {rows}"}
    return s.nest(name, loops, unrolled=["r"])
