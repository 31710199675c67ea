"""One program after each pass, run by the interpreter of each IR, until results diverge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from weft.codegen.llvm.target import LlvmTarget, host_target
from weft.codegen.target import machine_of
from weft.driver.options import Options
from weft.driver.passes import Passes, excerpt
from weft.ir.errors import CompileError, InternalError, WeftError
from weft.ir.machine import Cache, Machine
from weft.verify.oracle import Arrays, Expected

T = TypeVar("T")
Text = Callable[[], str]


SHORT_VECTORS = 16  # bytes
FEW_REGISTERS = 8
TINY = tuple(Cache(size, line=16, ways=2) for size in (1024, 4096, 16384))  # bytes


@dataclass(frozen=True, slots=True)
class Setting:
    """How small instances are compiled: for a processor of short vectors, few registers and tiny
    caches, so that tiles and their tails exist on them and passes for what is large have something
    to do, and without a word."""

    options: Options  # the user's

    @property
    def target(self) -> LlvmTarget:
        return replace(host_target(), vector_bytes=SHORT_VECTORS)

    @property
    def machine(self) -> Machine:
        own = machine_of(self.target)
        return replace(own, vector_registers=FEW_REGISTERS, caches=TINY)

    @property
    def quiet(self) -> Options:
        return replace(
            self.options, verify="normal", cache=False, workers=0, texts=False, dump=None,
            print_after=(), logs=(),
        )  # fmt: skip


@dataclass(slots=True)
class Ladder:
    """``where``: what is compiled, in the user's terms. ``text``: the program before any pass."""

    where: str
    setting: Setting
    expected: Expected
    text: Text
    passed: str = "the program as given"  # the pass before

    def make(self, name: str, action: Callable[[], T]) -> T:
        """What pass ``name`` makes; Weft's own refusals pass through."""
        try:
            return action()
        except WeftError as error:
            if isinstance(error, InternalError):
                raise self.failure(name, f"it fails: {error}", str) from error
            raise
        except Exception as error:
            raise self.failure(name, f"it fails: {_described(error)}", str) from error

    def step(
        self, name: str, text: Text, run: Callable[[], Arrays], *, users: bool = False
    ) -> None:
        """Raise ``InternalError`` (WEFT-E0920), or ``CompileError`` (WEFT-E0340) if pass ``name``
        is the ``users``, unless ``run`` after it gives what it should."""
        problem = self.problem(run)
        if problem:
            raise self.failure(name, problem, text, users=users)
        self.passed, self.text = name, text

    def problem(self, run: Callable[[], Arrays]) -> str:
        """How the results of ``run`` differ from those expected; '' if they do not."""
        try:
            results = run()
        except Exception as error:  # whatever an interpreter makes of a broken program
            return f"its interpretation fails: {_described(error)}"
        return self.expected.difference(results)

    def failure(self, name: str, problem: str, text: Text, *, users: bool = False) -> CompileError:
        before, after = self.text(), text()
        self._dump(f"before-{name}", before)
        self._dump(f"after-{name}", after)
        error: CompileError
        if users:
            error = CompileError(
                "WEFT-E0340",
                f"pass {name} of Options.passes changes what the model computes",
                where=self.where,
                why=problem,
                hint="the folder WEFT_DUMP=… writes has the graph before and after it",
            )
        else:
            error = InternalError(
                "WEFT-E0920",
                f"results diverge after pass {name}, on a small instance",
                where=self.where,
                why=problem,
                hint="this is a bug in Weft: please report it, with the folder WEFT_DUMP=… writes",
            )
        error.add_note(f"the IR before {name} (after {self.passed}):\n{excerpt(before)}")
        if after:
            error.add_note(f"the IR after {name}:\n{excerpt(after)}")
        return error

    def _dump(self, stage: str, text: str) -> None:
        options = replace(self.setting.options, print_after=(), logs=())
        Passes(options, "verify").run(stage, lambda: text, show=str)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
