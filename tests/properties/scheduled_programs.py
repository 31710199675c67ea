"""Correct scheduled programs, a few for each thing that a schedule can do: what mutations break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from tests.properties.program_maker import Maker
from tests.properties.random_affine import Affine, affine_program
from tests.properties.random_schedules import Pair, Subject
from tests.properties.verdicts import Program
from weft.ir.scalar_expr import Var
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.compute_at import compute_at
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.double_buffer import double_buffer
from weft.polyhedral.transform.expand import expand
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline_producer
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.promote import promote
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import parallel, vectorize
from weft.polyhedral.transform.share import share
from weft.polyhedral.transform.shift import shift
from weft.polyhedral.transform.skew import skew
from weft.polyhedral.transform.split import split
from weft.polyhedral.transform.tile import tile
from weft.polyhedral.transform.unroll import unroll_and_jam

n = Var("n")
SIZES = [{"n": k} for k in range(5)]


# ---- programs -----------------------------------------------------------------------------------


def product(m: Maker) -> None:
    """C = 0; C += A B; D = f(C), each a nest of its own."""
    i, j = m.loop(0, n, name="i"), m.loop(0, n, name="j")
    m.statement(m.access("C", i, j))
    m.end(), m.end()
    i, j, k = (m.loop(0, n, name=d) for d in "ijk")
    reads = m.access("A", i, k), m.access("B", k, j)
    m.statement(m.access("C", i, j), *reads, fold="add", along=("k",))
    m.end(), m.end(), m.end()
    i, j = m.loop(0, n, name="i"), m.loop(0, n, name="j")
    m.statement(m.access("D", i, j), m.access("C", i, j))
    m.end(), m.end()


def stencils(m: Maker) -> None:
    """T[i] from X; Y[i] from T[i], T[i + 1] and T[i + 2]."""
    i = m.loop(0, n + 2, name="i")
    m.statement(m.access("T", i), m.access("X", i))
    m.end()
    i = m.loop(0, n, name="i")
    m.statement(m.access("Y", i), m.access("T", i), m.access("T", i + 1), m.access("T", i + 2))
    m.end()


def images(m: Maker) -> None:
    """T[i, j] from X; Y[i, j] from T[i, j] and T[i + 1, j + 1]."""
    i, j = m.loop(0, n + 1, name="i"), m.loop(0, n + 1, name="j")
    m.statement(m.access("T", i, j), m.access("X", i, j))
    m.end(), m.end()
    i, j = m.loop(0, n, name="i"), m.loop(0, n, name="j")
    m.statement(m.access("Y", i, j), m.access("T", i, j), m.access("T", i + 1, j + 1))
    m.end(), m.end()


def sweeps(m: Maker) -> None:
    """A[i] from A[i - 1], A[i] and A[i + 1], again and again."""
    m.loop(0, 4, name="t")
    i = m.loop(1, n + 3, name="i")
    m.statement(m.access("A", i), m.access("A", i - 1), m.access("A", i), m.access("A", i + 1))
    m.end(), m.end()


def plane(m: Maker) -> None:
    """A[i, j] from its neighbours above and to the left: Seidel."""
    i, j = m.loop(1, n + 1, name="i"), m.loop(1, n + 2, name="j")
    m.statement(m.access("A", i, j), m.access("A", i - 1, j), m.access("A", i, j - 1))
    m.end(), m.end()


def jacobi(m: Maker) -> None:
    m.loop(0, 3, name="t")
    for source, target in (("A", "B"), ("B", "A")):
        i = m.loop(1, n + 1, name="i")
        m.statement(m.access(target, i), *(m.access(source, i + d) for d in (-1, 0, 1)))
        m.end()
    m.end()


def scalars(m: Maker) -> None:
    """For each row: s = 0; s += X[i, j]; Y[i, j] = f(X[i, j], s)."""
    i = m.loop(0, n, name="i")
    m.statement(m.access("s"))
    j = m.loop(0, 3, name="j")
    m.statement(m.access("s"), m.access("X", i, j), fold="add", along=("j",))
    m.end()
    j = m.loop(0, 3, name="j")
    m.statement(m.access("Y", i, j), m.access("X", i, j), m.access("s"))
    m.end(), m.end()


def triangle(m: Maker) -> None:
    """A solver for several right-hand sides: x[i, c] -= L[i, j] x[j, c] for j < i."""
    i = m.loop(0, n, name="i")
    j = m.loop(0, i, name="j")
    c = m.loop(0, 2, name="c")
    reads = m.access("L", i, j), m.access("x", j, c)
    m.statement(m.access("x", i, c), *reads, fold="add", along=("j",))
    m.end(), m.end()
    c = m.loop(0, 2, name="c")
    m.statement(m.access("x", i, c), m.access("x", i, c), m.access("L", i, i))
    m.end(), m.end()


def maps(m: Maker) -> None:
    """Y[i] from X[i], twice."""
    for target in "YZ":
        i = m.loop(0, n + 3, name="i")
        m.statement(m.access(target, i), m.access("X", i))
        m.end()


def rows(m: Maker) -> None:
    """For each t: T[i] from X; Y[t, i] from T[i] and T[n - 1 - i]."""
    t = m.loop(0, 3, name="t")
    i = m.loop(0, n, name="i")
    m.statement(m.access("T", t, i), m.access("X", t, i))
    m.end()
    i = m.loop(0, n, name="i")
    m.statement(m.access("Y", t, i), m.access("T", t, i), m.access("T", t, n - 1 - i))
    m.end(), m.end()


# ---- schedules ----------------------------------------------------------------------------------


def _again(of: Scheduled, scop) -> Scheduled:  # type: ignore[no-untyped-def]
    return replace(initial(scop), original=of.original)


def tiled(of: Scheduled) -> Scheduled:
    return reorder(tile(of, {"i_2": 2, "j_2": 3, "k": 2}), ["i_2_t", "k_t", "j_2_t"])


def skewed(of: Scheduled) -> Scheduled:
    return tile(skew(of, "i", "t"), {"t": 2, "i": 3})


def wavefront(of: Scheduled) -> Scheduled:
    return parallel(reorder(skew(of, "j", "i"), ["j", "i"]), "i")


def time_tiled(of: Scheduled) -> Scheduled:
    of = shift(fuse(of, "i", "i_2", shift=1), "S0", "i", 0)
    return tile(skew(of, "i", "t", 2), {"t": 2, "i": 3})


def packed(of: Scheduled) -> Scheduled:
    """An operand as a whole, in panels, outside of all loops."""
    of = tile(pack(of, "B", "S1", "", {1: 2}, pad=False), {"i_2": 2, "j_2": 2})
    return vectorize(of, "j_2_p")


def accumulated(of: Scheduled) -> Scheduled:
    """Accumulators of their own for each tile of the statements that share it, and a copy out."""
    shared = {f"q{d}": {"S0": d, "S1": f"{d}_2"} for d in "ij"}
    of = tile(share(of, shared, ["S0", "S1"]), {"qi": 2, "qj": 2})
    return cache_write(of, "C", ["S0", "S1"], "qj_t")


def promoted(of: Scheduled) -> Scheduled:
    of = share(of, {"q": {"S0": "i", "S1": "i_2", "S2": "i_3"}}, ["S0", "S1", "S2"])
    return parallel(promote(tile(of, {"q": 2}), "C", ["q_t"]), "q_t")


def overlapped(of: Scheduled) -> Scheduled:
    return parallel(computed_at(of), "i_2_t")


def overlapped_in_two(of: Scheduled) -> Scheduled:
    return compute_at(tile(of, {"i_2": 2, "j_2": 3}), "S0", "j_2_t")


def fused(of: Scheduled) -> Scheduled:
    return fuse(of, "i", "i_2", shift=2)


def vector(of: Scheduled) -> Scheduled:
    return vectorize(reorder(of, ["i_2", "k", "j_2"]), "j_2", 4)


def vector_sum(of: Scheduled) -> Scheduled:
    return vectorize(parallel(of, "i_2", "j_2"), "k", 2)


def rows_in_parallel(of: Scheduled) -> Scheduled:
    return parallel(expand(of, "s", ["i"]), "i")


def columns_in_parallel(of: Scheduled) -> Scheduled:
    return vectorize(of, "c")


def jammed(of: Scheduled) -> Scheduled:
    return unroll_and_jam(of, "i_2", 2)


def inlined(of: Scheduled) -> Scheduled:
    return split(_again(of, inline_producer(of.scop, "S0")), "i", 2)


def copied(of: Scheduled) -> Scheduled:
    """A tile of an operand, in panels."""
    of = reorder(tile(of, {"i_2": 2, "j_2": 2, "k": 3}), ["j_2_t", "k_t", "i_2_t"])
    return cache_read(of, "B", "S1", "k_t", panels={1: 2})


def built(of: Scheduled) -> Scheduled:
    """A tile of the result, loaded, folded into and stored."""
    of = reorder(tile(of, {"i_2": 2, "j_2": 3, "k": 2}), ["k_t", "i_2_t", "j_2_t"])
    return cache_write(of, "C", "S1", "j_2_t")


def computed_at(of: Scheduled) -> Scheduled:
    return compute_at(tile(of, {"i_2": 2}), "S0", "i_2_t")


def double_buffered(of: Scheduled) -> Scheduled:
    of = cache_read(tile(of, {"i_2": 2}), "X", "S1", "i_2_t", name="L")
    return double_buffer(of, "L")


def partial_sums(of: Scheduled) -> Scheduled:
    return parallel(rfactor(split(of, "k", 2), "S1", "k_t", name="P"), "k_t")


def contracted(of: Scheduled) -> Scheduled:
    return contract(parallel(of, "t"), "T")


CASES: dict[str, tuple[Callable[[Maker], None], Callable[[Scheduled], Scheduled]]] = {
    "tiled": (product, tiled),
    "skewed": (sweeps, skewed),
    "wavefront": (plane, wavefront),
    "time tiled": (jacobi, time_tiled),
    "packed": (product, packed),
    "accumulated": (product, accumulated),
    "promoted": (product, promoted),
    "overlapped": (stencils, overlapped),
    "overlapped in two": (images, overlapped_in_two),
    "fused": (stencils, fused),
    "vector": (product, vector),
    "vector sum": (product, vector_sum),
    "parallel": (scalars, rows_in_parallel),
    "columns": (triangle, columns_in_parallel),
    "jammed": (product, jammed),
    "inlined": (images, inlined),
    "copied": (product, copied),
    "built": (product, built),
    "computed at": (stencils, computed_at),
    "double buffered": (maps, double_buffered),
    "partial sums": (product, partial_sums),
    "contracted": (rows, contracted),
}

_TEMPORARIES = {"T": "temp", "s": "temp"}


@cache
def case(name: str) -> Pair:
    """The scheduled program ``name``."""
    build, schedule = CASES[name]
    roles = dict(_TEMPORARIES)
    if build is product:
        roles["C"] = "temp" if name == "promoted" else "output"
    affine: Affine = affine_program(build, ("n",), SIZES, roles)  # type: ignore[arg-type]
    subject = Subject(affine, Program(affine.scop, affine.sizes))
    made = schedule(initial(affine.scop))
    return Pair(0, subject, made, Program(made.scop, affine.sizes))
