"""``python -m benchmarks tune``: what a tuner gains over Weft's own choice, with confidence.

Kernels are tuned from nothing, in a file of records of their own; ``gain`` is what the tuner says,
1 where the untuned program stays. ``again``: what it is when both programs are compiled anew and
timed by this suite, which has to be at least 0.98. ``--target`` tunes code for another processor's
record, as where nobody has measured this one's. The last row has the geometric mean of ``again``;
the one before it says how often a program was taken for faster than itself (A/A).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.loop_programs.run import PROGRAMS
from weft.benchmarks.polybench.run import SUITE, restorer
from weft.benchmarks.polybench.verify import fresh
from weft.benchmarks.timing import Contestant, interleaved_restored
from weft.frontend.zoo.registry import MODELS
from weft.ir import dtypes
from weft.ir.size_arithmetic import evaluate
from weft.tuner.confirm import Gain, gain
from weft.tuner.laboratory import workshop
from weft.tuner.problem import problem_of_kernel
from weft.tuner.tune import Tuned
from weft.tuner.workplace import here

Row = dict[str, Any]
Made = Callable[[], tuple[Any, Any]]  # a program, and the arguments of a call

QUICK = ("gemm 100x200x3", "depthwise 96", "trmm large", "lu medium", "jacobi-2d medium")
SIZES = ("mini", "small", "medium", "large")
STENCILS = ("jacobi-1d", "jacobi-2d", "heat-3d", "fdtd-2d", "seidel-2d")
SOLVERS = ("trmm", "lu", "cholesky", "ludcmp", "trisolv", "gramschmidt")
LOOPS = ("attention", "convolve_2d", "separable_blur", "softmax_rows", "contraction")
PRODUCTS = ((100, 200, 3), (17, 1000, 333), (509, 509, 509), (1, 768, 3072), (64, 64, 1024))
NO_WORSE = 0.98  # of the speed of the untuned program
CHECKED = 5.0  # seconds in which a plan is timed again
SAME = 40  # comparisons of a program with itself


@dataclass(frozen=True, slots=True)
class Settings:
    """``seconds`` for each row; ``target``: a processor by name, or "host"; ``only``: rows."""

    threads: int
    quick: bool
    seconds: float
    target: str = "host"
    only: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    return tuple(rows())


def rows() -> dict[str, Made]:
    """What is tuned, by name."""
    found: dict[str, Made] = {
        f"gemm {m}x{n}x{k}": partial(_product, m, n, k) for m, n, k in PRODUCTS
    }
    found |= {f"depthwise {c}": partial(_depthwise, c) for c in (32, 96)}
    found |= {name: partial(_loops, name) for name in LOOPS}
    first = (*STENCILS, *SOLVERS, *(n for n in SUITE if n not in (*STENCILS, *SOLVERS)))
    found |= {f"{name} {size}": partial(_polybench, name, size) for size in SIZES for name in first}
    found |= {name: partial(_model, name) for name in MODELS}
    return found


def run(settings: Settings) -> Iterator[Row]:
    """A row for each as it is done, then those of all."""
    every = rows()
    default = QUICK if settings.quick else tuple(every)
    chosen = settings.only or default
    gains: list[float] = []
    with tempfile.TemporaryDirectory() as folder, progress("tune", len(chosen)) as step:
        for name in chosen:
            step(name)
            found = _tuned(every[name], settings, Path(folder) / "records.sqlite")
            again = _again(every[name], settings, found) if found.plan else 1.0
            gains.append(again)
            yield {**row_of(name, found), "again": round(again, 3), "right": again >= NO_WORSE}
    same = _itself(settings)
    wins = sum(found.sure for found in same)
    yield {"name": "A/A", "trials": len(same), "wins": wins, "right": wins <= 0.01 * len(same)}
    worst = min(gains, default=1.0)
    mean = float(np.exp(np.mean(np.log(gains)))) if gains else 1.0
    right = worst >= NO_WORSE
    yield {"name": "all", "again": round(mean, 3), "low": round(worst, 3), "right": right}


def row_of(name: str, found: Tuned) -> Row:
    """What the table says of one search."""
    (first, *_) = found.outcomes or (None,)
    low, high = (found.gain.low, found.gain.high) if found.gain else (1.0, 1.0)
    ranked = [o.spearman for o in found.outcomes if o.spearman is not None]
    gap = first.gap if first is not None and len(found.outcomes) == 1 else None
    return {
        "name": name,
        "untuned_ms": round(found.before * 1e3, 4),
        "tuned_ms": round(found.after * 1e3, 4),
        "gain": round(found.gain.median if found.gain else 1.0, 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "trials": found.trials,
        "seconds": round(found.seconds, 1),
        "gap_to_bound": "" if gap is None else round(gap, 2),
        "spearman": round(float(np.median(ranked)), 2) if ranked else "",
    }


def _tuned(make: Made, settings: Settings, records: Path) -> Tuned:
    source, args = make()
    options = weft.Options(threads=settings.threads, target=settings.target)
    return weft.tune(source, args, budget=settings.seconds, options=options, records=records)


def _again(make: Made, settings: Settings, found: Tuned) -> float:
    """How many times faster the program by the plan is than the untuned one."""
    source, args = make()
    options = weft.Options(threads=settings.threads, target=settings.target, cache=False)
    contestants = {}
    for name, plan in (("untuned", {}), ("tuned", found.plan)):
        run = weft.compile(source, options=options, plan=plan)
        assert isinstance(run, weft.Executable), "shapes are fixed"
        given = _arguments(run) if args is None else args
        own = fresh(given)
        call = run.bind(**own)
        contestants[name] = Contestant(call, restorer(own, fresh(given)))
    times = interleaved_restored(contestants, seconds=CHECKED)
    return float(np.median(np.divide(times["untuned"], times["tuned"])))


def _arguments(run: Any) -> dict[str, np.ndarray]:
    """Random inputs of fixed shapes."""
    random = np.random.default_rng(0)
    shapes = {s.name: [evaluate(n, {}) for n in s.shape] for s in run.inputs}
    return {s.name: random.random(shapes[s.name]).astype(s.dtype.numpy) for s in run.inputs}


def _itself(settings: Settings) -> list[Gain]:
    """A program beside itself, each time in processes of their own as a finalist is."""
    source, args = _polybench("gemm", "small")
    arrays = {name: np.asarray(value) for name, value in args.items()}
    options = weft.Options(threads=settings.threads)
    problem = problem_of_kernel(source.lowered, arrays)
    found = []
    with here(options) as place, workshop(place) as shop:
        lab = shop.laboratory(problem, options, arrays)
        (built,) = lab.build([{}])
        for _ in range(SAME // 4 if settings.quick else SAME):
            (pairs,) = lab.timer.confirm(built, [built], 0.1, 3)
            found.append(gain([pair for pair in pairs if not isinstance(pair, str)]))
    return found


# ---- programs ------------------------------------------------------------------------------------


def _product(m: int, n: int, k: int) -> tuple[Any, Any]:
    a, b = weft.placeholder((m, k), name="a"), weft.placeholder((k, n), name="b")
    r = weft.reduce_axis((0, k), name="r")
    return weft.compute((m, n), lambda i, j: weft.sum(a[i, r] * b[r, j], r), name="c"), None


def _depthwise(channels: int) -> tuple[Any, Any]:
    """A convolution of 3 x 3 of each channel by itself, 56 x 56."""
    shape, window = (channels, 58, 58), (channels, 3, 3)
    x, f = weft.placeholder(shape, name="x"), weft.placeholder(window, name="f")
    p, q = (weft.reduce_axis((0, 3), name=name) for name in "pq")

    def sums(c: weft.Expr, i: weft.Expr, j: weft.Expr) -> weft.Expr:
        return weft.sum(x[c, i + p, j + q] * f[c, p, q], (p, q))

    return weft.compute((channels, 56, 56), sums, name="y"), None


def _loops(name: str) -> tuple[Any, Any]:
    program = PROGRAMS[name]
    given = [argument.name for argument in program.kernel.lowered.arguments]
    return program.kernel, dict(zip(given, program.make(program.large), strict=True))


def _polybench(name: str, size: str) -> tuple[Any, Any]:
    benchmark = SUITE[name]
    dtype = benchmark.dtype if benchmark.dtype.startswith("int") else "float64"
    inputs = benchmark.inputs(np.dtype(dtype), **benchmark.sizes(size))
    return benchmark.make(dtypes.as_dtype(dtype)), dict(inputs)


def _model(name: str) -> tuple[Any, Any]:
    return MODELS[name].build(), MODELS[name].seeded_inputs(0)


def chart(found: Sequence[Row]) -> str:
    """Gains as bars, an SVG picture."""
    bars = [row for row in found if "untuned_ms" in row]
    height = 24 * len(bars) + 40
    most: float = max([1.5, *(row["high"] for row in bars)])

    def x(value: float) -> float:
        return 200 + 480 * max(0.0, value - 0.9) / (most - 0.9)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="720" height="{height}" fill="white"/>',
        '<text x="16" y="20">gain over the untuned program, with its interval</text>',
    ]
    for k, row in enumerate(bars):
        y = 36 + 24 * k

        parts += [
            f'<text x="16" y="{y + 12}">{row["name"]}</text>',
            f'<rect x="{x(1):.1f}" y="{y}" width="{max(0.0, x(row["gain"]) - x(1)):.1f}"'
            ' height="14" fill="#3a7"/>',
            f'<line x1="{x(row["low"]):.1f}" x2="{x(row["high"]):.1f}" y1="{y + 7}" y2="{y + 7}"'
            ' stroke="#222"/>',
            f'<text x="{x(row["high"]) + 6:.1f}" y="{y + 12}">{row["gain"]:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])
