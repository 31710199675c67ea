"""Programs and schedules that nobody means well with: compiled, refused by name, never a crash.

Random source text of kernels with ranks that differ, empty and endless loops, steps back and by
nothing, numbers at the edges of 64 bits, shapes without elements; steps of schedules with any
argument. Whatever is not refused with an error of Weft's own must compile, and where Python is done
in time, compute what Python does.
"""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import weft
from tests.properties.alarm import Late, alarm
from tests.properties.examine import Outcome
from weft.driver.schedule_value import TRANSFORMATIONS, Schedule
from weft.ir.errors import CallError, ExecutionError, InternalError, WeftError

EDGES = (
    *(1 << k for k in (31, 32, 40, 62, 63, 64)), (1 << 31) - 1, (1 << 63) - 1, 10**30,
    -(1 << 31), -(1 << 63), -(1 << 63) - 1,
)  # fmt: skip
SIZES = (0, 1, 2, 5)
SECONDS = 60  # for one program; one that takes longer hangs
PATIENCE = 1  # seconds for Python


def examine(seed: int) -> Outcome:
    """Program ``seed``, compiled as it is and under a schedule of random steps."""
    r = Random(f"hostile {seed}")
    text = _Source(r).kernel()
    try:
        with alarm(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _examine(text, r, seed)
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        weft_places = [p for p in places if "/tests/" not in p.filename] or places
        where = f"{Path(weft_places[-1].filename).name}:{weft_places[-1].lineno}"
        kind = "hang" if isinstance(error, Late) else "crash"
        return Outcome(kind, f"{type(error).__name__} at {where}: {error}\n{text}")


def _examine(text: str, r: Random, seed: int) -> Outcome:
    notes: Counter[str] = Counter()
    try:
        kernel = _kernel(text, seed)
        program = kernel.compile(options=weft.Options(cache=False, texts=False, threads=2))
    except WeftError as error:
        if isinstance(error, InternalError):
            raise
        return Outcome(f"refused, {error.code}", "", Counter({f"refused {error.code}": 1}))
    problem = _wrong(kernel, program, r)
    if not problem:
        problem = _under_steps(kernel, r, notes)
    return Outcome("compiled", f"{problem}\n{text}" if problem else "", notes)


def _kernel(text: str, seed: int) -> weft.Kernel:
    name = f"<hostile {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"weft": weft}
    exec(compile(text, name, "exec"), names)
    made: weft.Kernel = names["k"]
    return made


def _wrong(kernel: weft.Kernel, program: weft.Executable, r: Random) -> str:
    """Where compiled code and Python differ, or ''."""
    far = (-1, 1 << 40, (1 << 40) - 1, -(1 << 40), 1 << 61, (1 << 63) - 1, -(1 << 63))
    for n, t in (*zip(SIZES, SIZES, strict=True), (5, r.choice(far)), (2, r.choice(far))):
        m = r.choice(SIZES)
        shapes = {"A": (n,), "B": (n, m), "C": (3,)}
        arrays = {name: np.arange(np.prod(s)).reshape(s) - 2 for name, s in shapes.items()}
        want = {name: a.copy() for name, a in arrays.items()}
        try:
            with alarm(PATIENCE), np.errstate(all="ignore"):
                kernel.python(T=t, **want)
        except (Exception, Late):
            continue  # a step of 0, an index outside, a number that does not fit, too long
        try:
            program(T=t, **arrays)
        except (CallError, ExecutionError):
            continue  # a size that is refused; a check at run time
        for name, array in arrays.items():
            if not np.array_equal(array, want[name]):
                return f"wrong result: {name} for n={n}, m={m}, t={t}\n{array}\nnot\n{want[name]}"
    return ""


def _under_steps(kernel: weft.Kernel, r: Random, notes: Counter[str]) -> str:
    """The same under a schedule of a few steps that are not refused."""
    schedule = weft.schedule(kernel)
    for _ in range(8):
        method = r.choice(TRANSFORMATIONS)
        args, named = _arguments(r, schedule, method)
        try:
            schedule = getattr(schedule, method)(*args, **named)
        except TypeError as error:
            if "argument" not in str(error):
                raise
        except WeftError as error:
            if isinstance(error, InternalError):
                raise InternalError(error.code, f"{method}{args}{named}: {error}") from error
            notes[f"step refused {error.code}"] += 1
        else:
            notes[f"step {method}"] += 1
    if not schedule.steps:
        return ""
    try:
        program = schedule.compile(weft.Options(cache=False, texts=False, threads=2))
    except WeftError as error:
        if isinstance(error, InternalError):
            raise InternalError(error.code, f"{schedule}\n{error}") from error
        notes[f"schedule refused {error.code}"] += 1
        return ""
    notes["compiled under steps"] += 1
    problem = _wrong(kernel, program, r)
    return f"{problem}\nunder\n{schedule}" if problem else ""


def _arguments(r: Random, schedule: Schedule, method: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for ``method``: most of the types that it takes, few that make sense."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for p in list(signature(getattr(Schedule, method)).parameters.values())[1:]:
        if p.default is not p.empty and r.random() < 0.7:
            continue
        value = _argument(r, schedule, str(p.annotation) if r.random() < 0.95 else "object")
        if p.kind is p.VAR_POSITIONAL:
            args += [_argument(r, schedule, str(p.annotation)) for _ in range(r.randint(0, 3))]
        elif p.kind is p.KEYWORD_ONLY or named:
            named[p.name] = value
        elif p.default is p.empty:
            args.append(value)
        else:
            named[p.name] = value
    return args, named


def _argument(r: Random, schedule: Schedule, annotation: str) -> Any:
    of = schedule.scheduled
    loops = [x.name for x in of.loops()] or ["i"]
    statements = [s.name for s in of.scop.statements]
    tensors = [t.name for t in of.scop.tensors]
    name = r.choice(r.choice((loops, loops, statements, tensors, ["x", "", "for", "é", "A.1"])))
    number = r.choice((0, 1, 1, 2, 3, 4, 7, -1, -3, r.choice(EDGES)))
    if annotation.startswith(("Mapping", "dict")):
        return {r.choice(loops): number, **({name: number} if r.random() < 0.2 else {})}
    if annotation.startswith(("Seq", "list", "tuple")):
        return r.sample(loops, r.randint(1, len(loops))) + ([name] if r.random() < 0.1 else [])
    if annotation.startswith("str"):
        return name
    if annotation.startswith("int"):
        return number
    if annotation.startswith("bool"):
        return r.random() < 0.5
    return r.choice((
        name, number, None, 1.5, b"x", [], {}, (), True, "parallel", "vector", [[name]],
        {name: name}, {name: number},
    ))  # fmt: skip


# ---- source text --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Source:
    """A kernel of A[N], B[N, M], C[3] and T, all int64."""

    random: Random
    lines: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    locals: list[str] = field(default_factory=list)
    count: int = 0
    evil: float = 0.0  # the share of what makes no sense

    def kernel(self) -> str:
        self.evil = self.random.choice((0.0, 0.02, 0.1))
        self.lines = [
            "@weft.kernel",
            'def k(T: weft.i64, A: weft.i64["N"], B: weft.i64["N", "M"], C: weft.i64[3]):',
        ]
        if self.random.random() < 0.3:
            self._local()
        self._block(1, self.random.choice((1, 2, 2, 3)))
        return "\n".join(self.lines) + "\n"

    def _say(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _local(self) -> None:
        shape = ", ".join(self._bound() for _ in range(self.random.choice((1, 1, 2))))
        self.locals.append(f"L{len(self.locals)}")
        self._say(1, f"{self.locals[-1]} = weft.zeros(({shape},), weft.i64)")

    def _block(self, depth: int, count: int) -> None:
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.6 and depth < 4:
                self._loop(depth)
            elif kind < 0.7 and depth < 4:
                self._say(depth, f"if {self._affine()} {self._choice('<', '>=', '==', '!=')} "
                                 f"{self._affine()}:")  # fmt: skip
                self._block(depth + 1, 1)
            else:
                target, value = self._element(), self._value(2)
                operator = self._choice("=", "=", "+=", "-=", "*=", "//=", "%=")
                self._say(depth, f"{target} {operator} {value}")

    def _loop(self, depth: int) -> None:
        self.count += 1
        name = self._choice("i", "j", f"i{self.count}")
        low, high = self._bound(), self._bound()
        step = self._number((1, 2, 3, -1, -2, 0) if self._evil() else (1, 2, 3))
        given = self._choice(high, f"{low}, {high}", f"{low}, {high}, {step}",
                             f"{high} - 1, {low} - 1, -{step}")  # fmt: skip
        self._say(depth, f"for {name} in range({given}):")
        self.loops.append(name)
        self._block(depth + 1, self.random.choice((1, 1, 2)))
        self.loops.pop()

    def _choice(self, *given: str) -> str:
        return self.random.choice(given)

    def _number(self, usual: tuple[int, ...]) -> int:
        return self.random.choice(EDGES if self._evil() else usual)

    def _evil(self) -> bool:
        return self.random.random() < self.evil

    def _bound(self) -> str:
        plain = self._choice("N", "N", "M", "T", "3", str(self._number((0, 1, 2, 4, -1))))
        return self._choice(plain, plain, plain, self._affine(), f"min({plain}, {self._affine()})")

    def _affine(self) -> str:
        name = self._choice(*self.loops, *self.loops, "N", "T", "1")
        other = self._choice(*self.loops, "M", str(self._number((0, 1, 2, -1))))
        number = self._number((1, 2, 3, -1, 5))
        if self._evil():
            return self._choice(
                f"{name} * {other}", f"{name} // {other}", f"{name} ** 2", f"-{name}"
            )
        return self._choice(
            name, name, name, f"{name} + {number}", f"{name} - {other}", f"{number} * {name}",
            f"{name} // {abs(number)}", f"{name} % {abs(number)}", f"{number} * {name} + {other}",
            f"({name} + {other}) // {abs(number)}",
        )  # fmt: skip

    def _element(self) -> str:
        array, rank = self.random.choice((("A", 1), ("A", 1), ("B", 2), ("B", 2), ("C", 1)))
        if self.locals and self.random.random() < 0.3:
            array, rank = self._choice(*self.locals), 1
        rank = self.random.choice((0, 1, 2, 3)) if self._evil() else rank
        indices = [self._affine() if self.random.random() < 0.3 else self._choice(*self.loops, "0")
                   for _ in range(rank)]  # fmt: skip
        if self._evil():
            indices = [self._choice(":", "A[0]", "1.5", "None", "...") for _ in indices]
        return f"{array}[{', '.join(indices)}]" if indices else array

    def _value(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.3:
            return self._choice(
                self._element(), self._element(), self._affine(), str(self._number((0, 1, 3, -7)))
            )
        one, two = self._value(depth - 1), self._value(depth - 1)
        return self._choice(
            f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} // {two})",
            f"({one} % {two})", f"max({one}, {two})", f"min({one}, {two})", f"-{one}",
            f"abs({one})", f"({one} if {two} > 0 else {two})",
            f"({one} << 70)" if self._evil() else one, f"({one} ** {two})" if self._evil() else two,
        )  # fmt: skip
