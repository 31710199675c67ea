"""Register tiles compute, bit for bit in integers, what the statement's own order computes: on full
tiles, on tiles cut by parametric bounds and by all kinds of diagonals, in place, for any monoid;
and they touch nothing outside the domain (arrays end at forbidden pages)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, groupby, product

import numpy as np
import pytest

from tests.codegen.kernel_runner import Fenced
from weft.codegen.from_schedule import build_kernel
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects.native_library import link
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_interpreter import interpret as interpret_kernel
from weft.ir.loop_ir import Allocate, For, Kernel, Store, walk
from weft.ir.loop_ir import Update as LoopUpdate
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Literal, Load, Var, apply, literal
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.scop import (
    Access,
    Body,
    Constraint,
    Scop,
    Statement,
    Tensor,
    Update,
)
from weft.ir.scop_interpreter import interpret
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.proof.legality import check, check_bounds

i, j, k, M, N, K = map(Var, ("i", "j", "k", "M", "N", "K"))
BOX = (i, M - 1 - i, j, N - 1 - j, k, K - 1 - k)
SQUARE = (i, N - 1 - i, j, N - 1 - j, k, N - 1 - k)

# Constraints beside a cube of side N: what a tile may be cut by.
CUTS: dict[str, tuple[Expr, ...]] = {
    "cube": (),
    "j <= i": (i - j,),
    "j < i": (i - j - 1,),
    "band": (i - j + 2, j - i + 3),
    "other diagonal": (N - 1 - i - j,),
    "k <= i": (i - k,),
    "k >= j": (k - j,),
    "k < i, k < j": (i - k - 1, j - k - 1),
    "k between i and j": (k - i, j - k),
    "j <= k <= i": (k - j, i - k),
    "k + i + j < N": (N - 1 - i - j - k,),
    "steep": (2 * i - j, k - 3 * i + 4),
    "two lanes a row": (2 * j - i, i + 1 - 2 * j),
    "slanted": (i + 2 * j - k, 2 * k + 5 - i),
}


def statement(
    cut: tuple[Expr, ...],
    dtype: dtypes.DType,
    fold: str = "add",
    value: Expr | None = None,
    write: tuple[Expr, ...] = (i, j),
    reads: tuple[tuple[str, tuple[Expr, ...]], ...] = (("A", (i, k)), ("B", (k, j))),
) -> Statement:
    product = Load(0, (), dtype) * Load(1, (), dtype)
    return Statement(
        "S",
        ("i", "j", "k"),
        tuple(map(Constraint, cut)),
        (0, "i", 0, "j", 0, "k", 0),
        (Access("C", write),),
        tuple(Access(name, indices) for name, indices in reads),
        Body((), (product if value is None else value,)),
        Update(monoid(fold, dtype), ("k",)),
    )


def program(s: Statement, dtype: dtypes.DType, shapes: Mapping[str, tuple[Expr, ...]]) -> Scop:
    written = {w.tensor for w in s.writes}
    tensors = tuple(
        Tensor(name, shape, dtype, "inout" if name in written else "input")
        for name, shape in shapes.items()
    )
    return Scop("tile", ("M", "N", "K"), (), tensors, (s,))


def tiled(rows: int, lanes: int, deep: int) -> Tree:
    outer = Band(
        (Loop("kt", {"S": k // deep}), Loop("jt", {"S": j // lanes}), Loop("it", {"S": i // rows})),
        Mark(
            RegisterTile((rows,), lanes),
            Band(
                (
                    Loop("kp", {"S": k % deep}),
                    Loop("ip", {"S": i % rows}),
                    Loop("jp", {"S": j % lanes}),
                ),
                Leaf("S"),
            ),
        ),
    )
    return outer


@dataclass(frozen=True)
class Native:
    """A kernel compiled once, run on arrays that end at a forbidden page, or begin behind one."""

    kernel: Kernel

    def __call__(
        self, parameters: Mapping[str, int], arrays: Mapping[str, np.ndarray], at_end: bool
    ) -> dict[str, np.ndarray]:
        run, extent, need = _function(self.kernel)
        fenced = {b.name: Fenced(arrays[b.name].ravel(), at_end) for b in self.kernel.buffers}
        pointers = (ctypes.c_void_p * len(fenced))(*(f.address for f in fenced.values()))
        values = [parameters[p] for p in self.kernel.parameters]
        given = (ctypes.c_int64 * len(values))(*values)
        status = (ctypes.c_int64 * 4)()
        scratch = Fenced(np.zeros(-(-evaluate(need, parameters) // 64) * 64, np.uint8), at_end)
        run(pointers, given, status, scratch.address, 0, extent(given))
        return {name: f.array.copy().reshape(arrays[name].shape) for name, f in fenced.items()}


@cache
def _function(kernel: Kernel):  # type: ignore[no-untyped-def]
    loose = replace(kernel, buffers=tuple(replace(b, alignment=1) for b in kernel.buffers))
    emitted = emit_kernel(loose, host_target())
    names = (emitted.symbols.function, emitted.symbols.extent)
    library = link([to_object(emitted.text, host_target())], names, {})
    void, word = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(None, void, void, void, void, word, word)(library[names[0]])
    run.library = library  # type: ignore[attr-defined]
    return run, ctypes.CFUNCTYPE(word, void)(library[names[1]]), emitted.symbols.scratch


def agree(
    scop: Scop, tree: Tree, sizes: list[dict[str, int]], *, exact: bool = True, low: int = -9
) -> None:
    """Legal, and native code and loop IR compute what the statements' own order computes; native
    code by turns on arrays that begin and that end at a forbidden page."""
    check(scop, tree)
    check_bounds(scop)
    kernel = optimise_kernel(build_kernel(scop, tree, "tile"))
    verify_kernel(kernel)
    native = Native(kernel)
    rng = np.random.default_rng(7)
    turns = count()
    for size, repeated in groupby(sizes):
        arrays = {}
        for t in scop.tensors:
            shape = [int(x.value) if hasattr(x, "value") else size[x.name] for x in t.shape]  # type: ignore[attr-defined]
            arrays[t.name] = rng.integers(low, 10, shape).astype(t.dtype.numpy)
            if not exact:
                arrays[t.name] = rng.normal(size=shape).astype(t.dtype.numpy)
        expected = interpret(scop, arrays, size)
        for _ in repeated:
            actual = native(size, arrays, bool(next(turns) % 2))
            for name, wanted in expected.items():
                if exact:
                    np.testing.assert_array_equal(actual[name], wanted, err_msg=f"{name} {size}")
                else:
                    scale = np.finfo(wanted.dtype).eps * 40
                    np.testing.assert_allclose(actual[name], wanted, rtol=scale, atol=scale)
        if max(size.values()) <= 20:
            memory = {name: array.ravel().copy() for name, array in arrays.items()}
            interpret_kernel(kernel, size, memory)
            for name, wanted in expected.items() if exact else ():
                np.testing.assert_array_equal(memory[name], wanted.ravel(), err_msg=str(size))


def cubes(*sides: int) -> list[dict[str, int]]:
    return [{"M": 1, "N": n, "K": 1} for n in sides]


@pytest.mark.long
@pytest.mark.parametrize("name", CUTS)
def test_cuts_of_a_cube(name: str) -> None:
    s = statement((*SQUARE, *CUTS[name]), dtypes.int64)
    scop = program(s, dtypes.int64, {"A": (N, N), "B": (N, N), "C": (N, N)})
    agree(scop, tiled(3, 8, 8), cubes(0, 1, 2, 7, 17, 27))


@pytest.mark.parametrize("name", ["k <= i", "j < i", "k < i, k < j", "k + i + j < N"])
def test_arrays_that_hold_the_domain_and_nothing_else(name: str) -> None:
    """Operands are shifted so that what lies outside the domain may lie outside the array."""
    s = statement(
        (*SQUARE, i - 1, k - 1, j - 1, *CUTS[name]),
        dtypes.int64,
        write=(i - 1, j - 1),
        reads=(("A", (i - 1, k - 1)), ("B", (k - 1, j - 1))),
    )
    shape = (N - 1, N - 1)
    scop = program(s, dtypes.int64, {"A": (M, M), "B": (M, M), "C": (M, M)})
    scop = replace(scop, context=(Constraint(N - 1 - M, True),))
    del shape
    agree(scop, tiled(3, 8, 8), [{"M": n - 1, "N": n, "K": 1} for n in (1, 2, 5, 18, 29)])


@pytest.mark.parametrize("rows, lanes", [(4, 24), (1, 8), (5, 13)])
def test_boxes(rows: int, lanes: int) -> None:
    s = statement(BOX, dtypes.float64)
    scop = program(s, dtypes.float64, {"A": (M, K), "B": (K, N), "C": (M, N)})
    shapes = [(0, 5, 3), (5, 0, 3), (5, 16, 0), (1, 1, 1), (3, 16, 8), (4, 17, 9), (11, 37, 23)]
    agree(
        scop, tiled(rows, lanes, 8), [{"M": m, "N": n, "K": d} for m, n, d in shapes], exact=False
    )


@pytest.mark.long
@pytest.mark.parametrize("fold", ["max", "min", "mul"])
@pytest.mark.parametrize("name", ["k >= j", "j <= i"])
def test_other_monoids(fold: str, name: str) -> None:
    x, y = Load(0, (), dtypes.int32), Load(1, (), dtypes.int32)
    value = x + y if fold != "mul" else apply("max", x, y)
    s = statement((*SQUARE, *CUTS[name]), dtypes.int32, fold, value)
    scop = program(s, dtypes.int32, {"A": (N, N), "B": (N, N), "C": (N, N)})
    agree(scop, tiled(2, 16, 4), cubes(1, 5, 19))


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.float64])
def test_sums_are_folded_term_by_term(dtype: dtypes.DType) -> None:
    a, b = Load(0, (), dtype), Load(1, (), dtype)
    s = statement((*SQUARE, i - k), dtype, value=a * b - (b - a * 2) + 3)
    scop = program(s, dtype, {"A": (N, N), "B": (N, N), "C": (N, N)})
    agree(scop, tiled(2, 8, 4), cubes(1, 6, 17), exact=not dtype.is_float)


def test_in_place_below_and_beside_the_diagonal_block() -> None:
    """An LU update: the block of pivots is left of and above the tile, in the same array."""
    block = 16 * (k // 16)
    cut = (*SQUARE, i - k - 1, j - k - 1, i - block - 16, j - block - 16)
    s = statement(
        cut,
        dtypes.int64,
        value=-(Load(0, (), dtypes.int64) * Load(1, (), dtypes.int64)),
        reads=(("C", (i, k)), ("C", (k, j))),
    )
    scop = program(s, dtypes.int64, {"C": (N, N)})
    agree(scop, tiled(3, 8, 16), cubes(5, 16, 33, 47), low=-2)


def allocated(kernel: Kernel) -> set[tuple[int, ...]]:
    """The shapes of the tiles in registers."""
    held = (x.buffer for x in walk(kernel.body) if isinstance(x, Allocate))
    return {tuple(int(size.value) for size in b.shape) for b in held if ".tile" in b.name}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "first, sizes, cut, tiles",
    [
        (0, (11, 37, 9), (), {(4, 16), (3, 16), (4, 5), (3, 5)}),
        (0, (12, 33, 5), (), {(4, 16), (4, 1)}),
        (0, (4, 32, 5), (), {(4, 16)}),
        (2, (11, 37, 9), (), {(4, 16)}),  # the first tile is cut as well: on a clamped box
        (0, (11, 37, 9), (i + 8 - j,), {(4, 16)}),
    ],
)
def test_known_edges_are_tiles_of_their_own(
    first: int, sizes: tuple[int, int, int], cut: tuple[Expr, ...], tiles: set[tuple[int, int]]
) -> None:
    m, n, depth = map(literal, sizes)
    inside = (i - first, m - 1 - i, j, n - 1 - j, k, depth - 1 - k, *cut)
    s = statement(inside, dtypes.int64)
    scop = program(s, dtypes.int64, {"A": (m, depth), "B": (depth, n), "C": (m, n)})
    tree = tiled(4, 16, 4)
    agree(scop, tree, [{"M": 1, "N": 1, "K": 1}] * 2)
    assert allocated(optimise_kernel(build_kernel(scop, tree, "tile"))) == tiles


def test_edges_that_are_not_known_are_smaller_tiles_as_well() -> None:
    s = statement(BOX, dtypes.int64)
    scop = program(s, dtypes.int64, {"A": (M, K), "B": (K, N), "C": (M, N)})
    shapes = product((1, 2, 3, 4, 6, 7), (1, 8, 9, 16, 17, 24, 25), (3,))
    agree(scop, tiled(4, 24, 2), [{"M": m, "N": n, "K": d} for m, n, d in shapes])
    body = build_kernel(scop, tiled(4, 24, 2), "tile").body
    rows = (x for x in walk(body) if isinstance(x, For) and x.kind == "unrolled")
    lanes = ((x, y) for x in rows for y in walk(x) if isinstance(y, For) and y.kind == "vector")
    updated = {
        (x.upper, y.upper) for x, y in lanes if any(isinstance(s, LoopUpdate) for s in walk(y))
    }
    tiles = ((4, 24), (4, 16), (4, 8), (2, 24))
    assert updated == {(literal(r), literal(n)) for r, n in tiles}


@pytest.mark.parametrize(("rows", "tiles"), [(2, {2}), (3, {2, 3}), (7, {2, 3, 4, 5, 6, 7})])
def test_an_open_number_of_rows_has_a_tile_for_each(rows: int, tiles: set[int]) -> None:
    s = statement((*BOX[:2], j, literal(15) - j, *BOX[4:]), dtypes.int64)
    scop = program(s, dtypes.int64, {"A": (M, K), "B": (K, literal(16)), "C": (M, literal(16))})
    shapes = product(range(2 * rows + 2), (0, 3))
    agree(scop, tiled(rows, 16, 2), [{"M": m, "N": 1, "K": d} for m, d in shapes])
    body = optimise_kernel(build_kernel(scop, tiled(rows, 16, 2), "tile")).body
    loops = (x for x in walk(body) if isinstance(x, For) and x.kind == "unrolled")
    found = {
        x.upper for x in loops if any(isinstance(y, LoopUpdate) for y in walk(x))
    }  # neither the loops that load and store, nor one of a single iteration
    assert found == set(map(literal, tiles))


@pytest.mark.parametrize(
    "steps, b, kind", [(16, (k, j), "unrolled"), (17, (k, j), "serial"), (17, (j + k,), "unrolled")]
)
def test_few_steps_are_written_out(steps: int, b: tuple[Expr, ...], kind: str) -> None:
    """Of a product fewer than of a window, which reads elements again: 17 by 16 of B would be held
    in registers that there are not."""
    inside = (i, 7 - i, j, 15 - j, k, steps - 1 - k)
    s = statement(inside, dtypes.int64, reads=(("A", (i, k)), ("B", b)))
    sizes = {"A": (8, steps), "B": (40,) if len(b) == 1 else (steps, 16), "C": (8, 16)}
    shapes = {name: tuple(map(literal, shape)) for name, shape in sizes.items()}
    scop, tree = program(s, dtypes.int64, shapes), tiled(4, 16, 32)
    agree(scop, tree, [{"M": 1, "N": 1, "K": 1}])
    loops = (x for x in walk(build_kernel(scop, tree, "tile").body) if isinstance(x, For))
    assert {x.kind for x in loops if x.upper == literal(steps)} - {"vector"} == {kind}


def test_rows_of_two_loops() -> None:
    h = Var("h")
    s = Statement(
        "S",
        ("h", "i", "j", "k"),
        tuple(map(Constraint, (h, M - 1 - h, i, h - i, j, N - 1 - j, k, K - 1 - k, j + 2 - i))),
        (0, "h", 0, "i", 0, "j", 0, "k", 0),
        (Access("C", (h, i, j)),),
        (Access("A", (h, k)), Access("B", (k, j))),
        Body((), (Load(0, (), dtypes.int64) * Load(1, (), dtypes.int64),)),
        Update(monoid("add", dtypes.int64), ("k",)),
    )
    scop = program(s, dtypes.int64, {"A": (M, K), "B": (K, N), "C": (M, M, N)})
    outer = (("ht", h // 2), ("it", i // 3), ("jt", j // 8))
    inner = (("k", k), ("hp", h % 2), ("ip", i % 3), ("jp", j % 8))
    tree = Band(
        tuple(Loop(n, {"S": e}) for n, e in outer),
        Mark(
            RegisterTile((2, 3), 8),
            Band(tuple(Loop(n, {"S": e}) for n, e in inner), Leaf("S")),
        ),
    )
    agree(scop, tree, [{"M": m, "N": n, "K": x} for m, n, x in ((1, 1, 1), (7, 9, 5), (6, 16, 3))])


def test_lanes_that_are_not_contiguous() -> None:
    """A transposed operand and target: gathered and scattered, and still right."""
    s = statement(
        (*BOX, i - j + 4), dtypes.int64, write=(j, i), reads=(("A", (k, i)), ("B", (j, k)))
    )
    scop = program(s, dtypes.int64, {"A": (K, M), "B": (N, K), "C": (N, M)})
    agree(scop, tiled(3, 8, 4), [{"M": 10, "N": 19, "K": 6}, {"M": 3, "N": 8, "K": 4}])


def test_two_cache_levels_that_tiles_do_not_divide() -> None:
    s = statement((*SQUARE, i - j, i - k), dtypes.int64)
    scop = program(s, dtypes.int64, {"A": (N, N), "B": (N, N), "C": (N, N)})
    outer = (("itt", i // 10), ("kt", k // 7), ("jt", j // 16), ("it", i % 10 // 4))
    inner = (("kp", k % 7), ("ip", i % 10 % 4), ("jp", j % 16))
    tree = Band(
        tuple(Loop(n, {"S": e}) for n, e in outer),
        Mark(RegisterTile((4,), 16), Band(tuple(Loop(n, {"S": e}) for n, e in inner), Leaf("S"))),
    )
    agree(scop, tree, cubes(1, 10, 23, 41))


@pytest.mark.parametrize("name", ["cube", "j <= i", "k >= j"])
def test_tiles_stay_in_registers(name: str) -> None:
    """Only loops of constant bounds number a tile's elements: a register has no address."""
    s = statement((*SQUARE, *CUTS[name]), dtypes.float64)
    scop = program(s, dtypes.float64, {"A": (N, N), "B": (N, N), "C": (N, N)})
    kernel = optimise_kernel(build_kernel(scop, tiled(3, 8, 8), "tile"))
    constant: dict[str, bool] = {}
    numbering: set[str] = set()
    for stmt in walk(kernel.body):
        if isinstance(stmt, For):
            fixed = isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal)
            constant[stmt.var] = constant.get(stmt.var, True) and fixed
        match stmt:
            case (
                LoopUpdate(targets=((str(name_), indices),)) | Store(buffer=name_, indices=indices)
            ):
                if "tile" in name_:
                    numbering |= {
                        v.name for e in indices for v in walk_expr(e) if isinstance(v, Var)
                    }
    assert numbering
    assert all(constant[v] for v in numbering)
