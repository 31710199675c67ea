"""``python -m benchmarks costs``: how estimates rank what runs, and whether bounds hold.

Each program gets random legal schedules by public moves; all are compiled and take turns. A row has
Spearman's correlation of estimate and time, how much slower than the fastest the one is that the
estimate likes best, and how many ran faster than their lower bound, which none may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.loop_programs.run import PROGRAMS
from weft.benchmarks.polybench.c_peer import sizes_of
from weft.benchmarks.polybench.run import SUITE, restorer
from weft.benchmarks.polybench.verify import fresh
from weft.benchmarks.timing import Contestant, interleaved_restored
from weft.codegen.machines.host import host
from weft.driver.schedule_value import Schedule
from weft.driver.targets import calibrated_host, measured_host
from weft.ir import dtypes
from weft.ir.errors import WeftError
from weft.ir.schedule_tree import Band, Leaf, walk
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.polyhedral.cost.price import prices
from weft.polyhedral.transform.scheduled import Scheduled
from weft.tuner.confirm import spearman

POLYBENCH = (
    "gemm", "gemver", "gesummv", "symm", "syr2k", "syrk", "trmm", "2mm", "atax", "bicg", "doitgen",
    "mvt", "cholesky", "lu", "trisolv", "covariance", "floyd-warshall", "jacobi-1d", "jacobi-2d",
    "seidel-2d", "heat-3d", "fdtd-2d",
)  # fmt: skip
LOOPS = (
    "lu_kij", "cholesky_left", "qr_givens", "thomas_batch", "banded_matvec", "closure_int", "lcs",
    "integral_image", "convolve_1d", "convolve_2d", "convolve_layer", "separable_blur",
    "downsample", "transpose_blocks", "batched_matmul", "matmul_both_transposed", "contraction",
    "statistics", "softmax_rows", "layer_norm", "attention", "sobel",
)  # fmt: skip
QUICK = (
    "gemm",
    "mvt",
    "jacobi-2d",
    "convolve_2d",
    "softmax_rows",
    "product 256",
    "transpose",
    "sums",
)
OPTIONS = weft.Options(cache=False, winograd="off")  # a convolution is one cluster
SIZES = (4, 8, 16, 32, 64, 128)
CANDIDATES = 16  # for each program
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """A program with the ``inputs`` of a call, by name, and ``sizes``."""

    name: str
    schedule: Schedule
    inputs: Mapping[str, Any]
    sizes: Mapping[str, int]


def run(
    threads: int, quick: bool, only: Sequence[str] = (), count: int = CANDIDATES
) -> Iterator[Row]:
    """A row for each program as it is done, and a last one for all; ``count`` candidates each."""
    made = {name: make for name, make in subjects(quick).items() if not only or name in only}
    rows: list[Row] = []
    every: list[tuple[float, float]] = []
    with progress("costs", len(made)) as step:
        for name, make in made.items():
            step(name)
            row, pairs = _row(make(), threads, *((5, 0.1) if quick else (count, 0.2)))
            every += pairs
            rows.append(row)
            yield row
    ranked = [row["spearman"] for row in rows if "spearman" in row]
    yield {
        "name": "all",
        "count": len(every),
        "spearman": round(spearman(*zip(*every, strict=True)), 3) if every else "",
        "median": round(float(np.median(ranked)), 3) if ranked else "",
        "violated": sum(row.get("violated", 0) for row in rows),
        "right": all(row["right"] for row in rows),
    }


# ---- programs -----------------------------------------------------------------------------------


def subjects(quick: bool = False) -> dict[str, Callable[[], Subject]]:
    """Each program by name."""
    found: dict[str, Callable[[], Subject]] = {
        name: partial(_polybench, name) for name in POLYBENCH
    }
    found |= {name: partial(_loops, name) for name in LOOPS}
    found |= {f"product {n}": partial(_product, n) for n in (64, 256, 509)}
    found |= {f"convolution {c}": partial(_convolution, c, n) for c, n in ((64, 28), (16, 112))}
    found |= {"transpose": _transpose, "sums": _sums, "stream": _stream}
    return {name: found[name] for name in QUICK} if quick else found


def _polybench(name: str) -> Subject:
    benchmark = SUITE[name]
    kernel = benchmark.make(dtypes.float64)
    inputs = benchmark.inputs(np.dtype(np.float64), **benchmark.sizes("medium"))
    return Subject(name, kernel.schedule(), inputs, sizes_of(kernel.scop, inputs))


def _loops(name: str) -> Subject:
    program = PROGRAMS[name]
    names = [argument.name for argument in program.kernel.lowered.arguments]
    inputs = dict(zip(names, program.make(max(8, program.large // 2)), strict=True))
    return Subject(name, program.kernel.schedule(), inputs, sizes_of(program.kernel.scop, inputs))


def _tensors(name: str, result: weft.Tensor, **shapes: tuple[int, ...]) -> Subject:
    random = np.random.default_rng(1)
    inputs = {n: random.random(shape).astype(np.float32) for n, shape in shapes.items()}
    return Subject(name, weft.schedule(result, options=OPTIONS), inputs, {})


def _product(n: int) -> Subject:
    a, b = (weft.placeholder((n, n), name=name) for name in "ab")
    k = weft.reduce_axis((0, n), name="k")
    c = weft.compute((n, n), lambda i, j: weft.sum(a[i, k] * b[k, j], k), name="c")
    return _tensors(f"product {n}", c, a=(n, n), b=(n, n))


def _convolution(channels: int, size: int) -> Subject:
    """A window of 3 x 3, without padding."""
    shape, window = (channels, size + 2, size + 2), (channels, channels, 3, 3)
    x, f = weft.placeholder(shape, name="x"), weft.placeholder(window, name="f")
    c, p, q = (weft.reduce_axis((0, n), name=d) for n, d in ((channels, "c"), (3, "p"), (3, "q")))

    def sums(k: weft.Expr, i: weft.Expr, j: weft.Expr) -> weft.Expr:
        return weft.sum(x[c, i + p, j + q] * f[k, c, p, q], (c, p, q))

    y = weft.compute((channels, size, size), sums, name="y")
    return _tensors(f"convolution {channels}", y, x=shape, f=window)


def _transpose() -> Subject:
    x = weft.placeholder((1500, 1700), name="x")
    y = weft.compute((1700, 1500), lambda i, j: x[j, i], name="y")
    return _tensors("transpose", y, x=(1500, 1700))


def _sums() -> Subject:
    x = weft.placeholder((1500, 1700), name="x")
    k = weft.reduce_axis((0, 1500), name="k")
    y = weft.compute((1700,), lambda j: weft.sum(x[k, j], k), name="y")
    return _tensors("sums", y, x=(1500, 1700))


def _stream() -> Subject:
    x, y = (weft.placeholder((2000, 1000), name=name) for name in "xy")
    z = weft.compute((2000, 1000), lambda i, j: x[i, j] * 2.0 + y[i, j], name="z")
    return _tensors("stream", z, x=(2000, 1000), y=(2000, 1000))


# ---- candidates ---------------------------------------------------------------------------------


def candidates(start: Schedule, count: int, seed: int = 1) -> list[Schedule]:
    """The order of the source, Weft's own, and random legal ones by public moves."""
    r = Random(seed)
    own = _tried(start.automatic)
    found = {str(s): s for s in (start, own) if s is not None}
    for _ in range(8 * count):
        if len(found) >= count:
            break
        made = own if own is not None and r.random() < 0.2 else start
        for _ in range(r.randint(1, 4)):
            move = r.choice((_tile, _tile, _reorder, _reorder, _vectorize, _jam, _fuse, _copy))
            made = _tried(partial(move, r, made)) or made
        if r.random() < 0.6:
            made = _tried(partial(_vectorize, r, made)) or made
        found.setdefault(str(made), made)
    return list(found.values())


def _tried(move: Callable[[], Schedule | None]) -> Schedule | None:
    try:
        return move()
    except WeftError:
        return None


def _bands(s: Schedule) -> list[list[str]]:
    return [[x.name for x in node.loops] for node in walk(s.tree) if isinstance(node, Band)]


def _tile(r: Random, s: Schedule) -> Schedule:
    band = r.choice(_bands(s))
    chosen = r.sample(band, r.randint(1, min(3, len(band))))
    return s.tile({name: r.choice(SIZES) for name in chosen})


def _reorder(r: Random, s: Schedule) -> Schedule:
    band = r.choice(_bands(s))
    return s.reorder(r.sample(band, len(band)))


def _vectorize(r: Random, s: Schedule) -> Schedule:
    """The innermost loops, those of them that may be."""
    inner = [x for x in walk(s.tree) if isinstance(x, Band) and isinstance(x.child, Leaf)]
    for band in inner:
        s = _tried(partial(s.vectorize, band.loops[-1].name)) or s
    return s


def _jam(r: Random, s: Schedule) -> Schedule:
    return s.unroll_and_jam(r.choice(s.loops), r.choice((2, 4)))


def _fuse(r: Random, s: Schedule) -> Schedule | None:
    """Neighbouring nests."""
    heads = [
        [c.loops[0].name for c in node.children if isinstance(c, Band)]
        for node in walk(s.tree)
        if isinstance(node, TreeSequence)
    ]
    found = [pair for names in heads for pair in pairwise(names)]
    return s.fuse(*r.choice(found)) if found else None


def _copy(r: Random, s: Schedule) -> Schedule | None:
    """What a statement reads, into memory of its own, in a loop."""
    statement = r.choice([x for x in s.scheduled.scop.statements if x.reads] or [None])
    if statement is None:
        return None
    loops = [x.name for x in s.scheduled.loops() if statement.name in x.at]
    return s.cache_read(r.choice(statement.reads).tensor, statement.name, r.choice(loops))


# ---- rows ---------------------------------------------------------------------------------------


def _row(
    subject: Subject, threads: int, count: int, seconds: float
) -> tuple[Row, list[tuple[float, float]]]:
    """And (estimate, time) of each candidate, in milliseconds; each is timed for ``seconds``."""
    options = replace(OPTIONS, threads=threads)
    machine = (calibrated_host(options) if measured_host(options) else host()).machine
    arguments = fresh(subject.inputs)
    restore = restorer(arguments, fresh(subject.inputs))
    made: list[Scheduled] = []
    contestants: dict[str, Contestant] = {}
    for schedule in candidates(subject.schedule, count):
        try:
            call = schedule.compile(options).bind(*arguments.values())
        except WeftError:
            continue
        contestants[str(len(made))] = Contestant(call, restore)
        made.append(schedule.scheduled)
    found = prices(made, machine, threads, subject.sizes)
    clock = time.process_time if threads == 1 else time.perf_counter
    samples = interleaved_restored(contestants, seconds=seconds * len(contestants), clock=clock)
    times = [min(samples[name]) for name in contestants]
    guessed = [p.seconds * 1e3 for p in found]
    least = [p.bound / p.frequency * 1e3 for p in found]
    violated = sum(b > t for b, t in zip(least, times, strict=True))
    row: Row = {
        "name": subject.name,
        "count": len(made),
        "spearman": round(spearman(guessed, times), 3),
        "median": round(float(np.median(np.array(guessed) / times)), 3),
        "regret": round(times[int(np.argmin(guessed))] / min(times), 3),
        "fastest_ms": round(min(times), 4),
        "bound_ms": round(least[int(np.argmin(times))], 4),
        "violated": violated,
        "right": not violated,
    }
    return row, list(zip(guessed, times, strict=True))
