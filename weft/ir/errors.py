"""Every error that Weft shows a user: typed, coded, located, explained.

An error carries five things: a stable ``code`` (``WEFT-E0123``), ``what`` went wrong, ``where``
in the user's own terms (file and line, ONNX node, operator), ``why``, and a ``hint`` at what to
try. ``str(error)`` prints them one to a line. Codes are never reused; ranges belong to stages:

    E00xx options and the public API      E05xx code generation
    E01xx expressions, loop kernels       E06xx calling an executable
    E02xx ONNX, PyTorch                   E07xx artifacts and the cache
    E03xx the operator graph              E08xx the command line
    E04xx affine statements, schedules    E09xx what no stage owns, and bugs in Weft
    E10xx accelerators                    E15xx providers and placement
    E11xx the tuner and its records
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from traceback import extract_tb


class WeftError(Exception):
    """Base of all errors that Weft raises on purpose.

    ``code``: "WEFT-E" and four digits, whose first two say the stage (E00 the API, E01 expressions
    and kernels, E02 ONNX and PyTorch, E03 the graph, E04 schedules, E05 code, E06 calls, E07
    artifacts, E08 the command line, E09 bugs, E10 accelerators, E11 the tuner, E15 providers).
    ``what`` went wrong, ``where`` in the user's own terms, ``why``, and a ``hint`` at what to try;
    '' where there is nothing to say. ``str`` prints them one to a line.
    """

    def __init__(
        self, code: str, what: str, *, where: str = "", why: str = "", hint: str = ""
    ) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}"]
        lines += [
            f"  {label}: {text}"
            for label, text in (("where", self.where), ("why", self.why), ("try", self.hint))
            if text
        ]
        return "\n".join(lines)

    @property
    def reason(self) -> str:
        """All but the hint, in one line: the ``why`` of an error that this one leads to."""
        said = f"{self.code}: {self.what}"
        at = f" ({self.where})" if self.where else ""
        why = f"; {self.why}" if self.why else ""
        return " ".join(f"{said}{at}{why}".split())


class CompileError(WeftError):
    """The program cannot be compiled as given."""


class ExpressionError(CompileError, ValueError):
    """A tensor expression is ill-formed (E01xx)."""


class KernelError(CompileError, ValueError):
    """A loop kernel uses what cannot be compiled, at file:line:column (E016x, E017x)."""


class ModelError(CompileError, ValueError):
    """A model of ONNX's or PyTorch's is malformed or hostile (E02xx)."""


class UnsupportedError(CompileError):
    """The program uses something that Weft does not implement; all of it is listed at once."""


class BudgetError(CompileError):
    """A bound on memory, time or size that keeps compilation safe was exceeded."""


class PlanError(CompileError):
    """A plan does not fit the program: a decision that does not come up, a value that is no option,
    options that do not go together (E0025 to E0029)."""


class IllegalScheduleError(CompileError):
    """A schedule violates a dependence; ``why`` shows one concrete instance pair (E04xx).

    ``statements`` names those of the original program that it is about, as far as is known.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        where: str = "",
        why: str = "",
        hint: str = "",
        statements: tuple[str, ...] = (),
    ) -> None:
        super().__init__(code, what, where=where, why=why, hint=hint)
        self.statements = statements


class InternalError(CompileError):
    """A verifier between two stages failed: a bug in Weft (of its stage's range, or E09xx)."""


class CallError(WeftError, ValueError):
    """An executable was called with the wrong arguments (E06xx)."""


class ExecutionError(WeftError, RuntimeError):
    """A program met data that it forbids, an index out of range say (E06xx; interpreters E0140)."""


class ArtifactError(WeftError):
    """A saved artifact is unreadable, corrupt or for another machine (E07xx)."""


class StreamError(WeftError, ValueError):
    """A stream of instructions is malformed, or its machine would never end it (E10xx)."""


class ProviderError(WeftError, RuntimeError):
    """A provider fails at a subgraph, or computes something else (E1503, E1510 to E1516)."""


class WeftWarning(UserWarning):
    """Something was given up, never silently: a fallback, an exhausted budget."""


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """``did you mean a or b?``: those of ``known`` that are like ``name``; '' where none is."""
    near = get_close_matches(str(name), dict.fromkeys(map(str, known)))
    return f"did you mean {' or '.join(near)}? " if near else ""


def short(value: object) -> str:
    """The repr of ``value`` in at most 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def line_of(error: BaseException, file: str) -> str:
    """``file:12``, the line of a user's ``file`` that led to ``error``; '' where none did."""
    lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == file]
    return f"{file}:{lines[-1]}" if lines else ""
