"""Random kernels from their text to machine code, as a user meets them.

    generated text → parsed → scheduled automatically → code for one thread and for two → called

against the function itself, run by Python on NumPy arrays, bit for bit. Unlike the programs of
``hostile`` these make sense (``source_text``). Code for two threads is made with tiles and grains
so small that small sizes have full tiles and spread over threads.
"""

from __future__ import annotations

import linecache
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np

import weft
from tests.properties.alarm import Late, alarm
from tests.properties.examine import Outcome
from tests.properties.scheduler import TINY_SIZES, Constants, constants, described
from tests.properties.source_text import FLOATS, NARROW, SHAPES, Source
from weft.codegen.llvm.program import emit_program
from weft.driver import program_code
from weft.ir.errors import CallError, ExecutionError, InternalError, WeftError, WeftWarning

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33)
CALLS = 4  # combinations of sizes
SECONDS = 120  # for one program; one that takes longer hangs
PATIENCE = 2  # seconds for Python
BUDGET = "WEFT-E0400"  # said where isl would take too long, which is no fault
SHARED = (program_code, {"emit_program": partial(emit_program, grain=1)})
SMALL: Constants = (*TINY_SIZES, SHARED)


def examine(seed: int) -> Outcome:
    """Program ``seed``."""
    r = Random(f"source {seed}")
    text = Source(r).kernel()
    try:
        with alarm(SECONDS), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", WeftWarning)
            found = _examine(text, r, seed)
    except Late as late:
        return Outcome("hang", f"{late}\n{text}")
    except Exception as error:
        return Outcome("crash", f"{described(error)}\n{text}")
    messages = [str(warning.message) for warning in told]
    if wrong := [message for message in messages if BUDGET not in message]:
        return Outcome("a schedule that was refused", f"{wrong[0]}\n{text}")
    if messages and not found.problem:
        return Outcome(f"{found.kind} after a budget", "", found.notes)
    return found


def _examine(text: str, r: Random, seed: int) -> Outcome:
    kernel, notes = parsed(text, f"<source {seed}>"), Counter[str]()
    try:
        programs = [_compiled(kernel, threads) for threads in (1, 2)]
    except WeftError as error:
        if isinstance(error, InternalError):
            raise
        return Outcome(f"refused, {error.code}", "", notes)
    for sizes in _sizes(r):
        given = _arguments(sizes, r)
        want = _copies(given)
        try:
            with alarm(PATIENCE), np.errstate(all="ignore"):
                kernel.python(**want)
        except (IndexError, OverflowError, CallError, Late) as error:
            notes[f"Python stopped: {type(error).__name__}"] += 1
            continue
        for threads, program in enumerate(programs, start=1):
            problem = _different(program, given, want, notes)
            if problem:
                where = f"wrong result for {sizes} on {threads} threads: {problem}"
                return Outcome("compiled", f"{where}\n{text}", notes)
    return Outcome("compiled", "", notes)


def parsed(text: str, name: str) -> weft.Kernel:
    """The kernel ``k`` of ``text``, which Python finds under ``name``."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"weft": weft, "__name__": "source_text"}
    exec(compile(text, name, "exec"), names)
    made: weft.Kernel = names["k"]
    return made


def _compiled(kernel: weft.Kernel, threads: int) -> weft.Executable:
    with constants(SMALL if threads > 1 else ()):
        return kernel.compile(options=weft.Options(cache=False, texts=False, threads=threads))


def _different(
    program: weft.Executable, given: dict[str, Any], want: dict[str, Any], notes: Counter[str]
) -> str:
    """Where a call leaves something else than is wanted, or ''."""
    got = _copies(given)
    try:
        program(**got)
    except (CallError, ExecutionError) as error:
        notes[f"call refused {error.code}"] += 1
        return ""
    notes["calls"] += 1
    for name, array in got.items():
        if isinstance(array, np.ndarray) and array.tobytes() != want[name].tobytes():
            return f"{name}\n{array}\nnot\n{want[name]}"
    return ""


def _sizes(r: Random) -> Iterator[dict[str, int]]:
    for count in range(CALLS):
        n, m = (r.choice(SIZES[:6] if count < 2 or r.random() < 0.3 else SIZES) for _ in range(2))
        yield {"N": n, "M": m, "T": r.choice((0, 1, 2, 3, 5))}


def _arguments(sizes: dict[str, int], r: Random) -> dict[str, Any]:
    data = np.random.default_rng(r.randrange(1 << 30))
    found: dict[str, Any] = {"T": sizes["T"]}
    for name, shape in SHAPES.items():
        array = data.integers(-20, 20, [sizes[s] if s in sizes else int(s) for s in shape])
        found[name] = array.astype("f8" if name in FLOATS else "i4" if name in NARROW else "i8")
    found["X"] = data.integers(0, max(1, sizes["N"]), sizes["N"])
    return found


def _copies(given: dict[str, Any]) -> dict[str, Any]:
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in given.items()}
