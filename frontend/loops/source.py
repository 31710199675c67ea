"""The source of a Python function: its syntax tree, what its names mean, where each part stands."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

from weft.ir.errors import ExpressionError, KernelError


class LoopFunction:
    """A ``function`` that is a loop kernel: what kernels inline when they call it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._source: Source | None = None

    @property
    def source(self) -> Source:
        """Read when first asked for. Raises ``KernelError`` (WEFT-E0160) where there is none."""
        if self._source is None:
            self._source = read_source(self.function)
        return self._source


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The text of ``function``, which stands in ``file``. ``lines`` are those of the function
    alone, in UTF-8, whose bytes columns count, with so many lines ``above`` them; ``tree`` has the
    line numbers of the file, and its columns less ``indent``. ``captured``: what its closure holds.
    ``names``: what each node assigns, by the node's id."""

    function: FunctionType
    file: str
    lines: tuple[bytes, ...]
    tree: ast.FunctionDef
    indent: int
    above: int
    captured: dict[str, Any] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in reversed(list(ast.walk(self.tree))):  # parts come before the whole
            found = [name for part in ast.iter_child_nodes(node) for name in self.assigned(part)]
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.append(node.id)
            if found:
                self.names[id(node)] = tuple(dict.fromkeys(found))

    def assigned(self, *nodes: ast.AST) -> tuple[str, ...]:
        """The names that ``nodes`` assign, loop variables included."""
        found = (name for node in nodes for name in self.names.get(id(node), ()))
        return tuple(dict.fromkeys(found))

    def begins(self, name: str, node: ast.stmt) -> bool:
        """Whether ``node`` assigns ``name``, of which there are comparisons, before all else that
        mentions it, in the block of ``node`` and nowhere else: no value of another turn of the
        block is ever read."""
        every = {id(n) for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id == name}
        conditions = (n for n in ast.walk(self.tree) if isinstance(n, ast.Compare))
        if every.isdisjoint(id(n) for condition in conditions for n in ast.walk(condition)):
            return False
        for around in ast.walk(self.tree):
            for block in (getattr(around, "body", ()), getattr(around, "orelse", ())):
                if isinstance(block, list) and node in block:
                    rest = block[block.index(node) + 1 :]
                    there = {id(n) for stmt in rest for n in ast.walk(stmt)}
                    targets = {id(target) for target in getattr(node, "targets", ())}
                    return bool(targets & every) and every <= there | targets
        return False

    @property
    def name(self) -> str:
        """The function's."""
        return self.tree.name

    def where(self, node: ast.AST) -> str:
        """``/home/me/lu.py:12:9``"""
        return f"{self.file}:{getattr(node, 'lineno', self.tree.lineno)}:{self._column(node)}"

    def _column(self, node: ast.AST) -> int:
        return int(getattr(node, "col_offset", 0)) + self.indent + 1

    def label(self, node: ast.AST) -> str:
        """``lu.py:12: A[i, j] -= A[i, k] * A[k, j]``"""
        line = getattr(node, "lineno", self.tree.lineno)
        return f"{Path(self.file).name}:{line}: {self.code(node)}"

    def code(self, node: ast.AST) -> str:
        """The source of ``node`` on one line."""
        found: Any = node
        if getattr(node, "end_lineno", None) is None:
            return ast.unparse(node)
        lines = self.lines[found.lineno - 1 - self.above : found.end_lineno - self.above]
        last = lines[-1][: found.end_col_offset]
        joined = b" ".join([*lines[:-1], last])[found.col_offset :]
        return " ".join(joined.decode(errors="replace").split())

    def meaning(self, name: str, default: Any = None) -> Any:
        """What ``name`` is outside the function: in its closure, its module or Python itself; else
        ``default``."""
        for names in (self.captured, self.function.__globals__, vars(builtins)):
            if name in names:
                return names[name]
        return default

    def error(
        self, code: str, node: ast.AST, what: str, *, why: str = "", hint: str = ""
    ) -> KernelError:
        """The error ``code``, "E0161" say, at ``node``: ``what``, ``why`` and ``hint`` as
        ``WeftError`` has them."""
        return KernelError(f"WEFT-{code}", what, where=self.where(node), why=why, hint=hint)

    def refuse(
        self, code: str, node: ast.AST, what: str, *, why: str = "", hint: str = ""
    ) -> NoReturn:
        """Raises ``KernelError``: ``error(code, node, what, why=why, hint=hint)``."""
        raise self.error(code, node, what, why=why, hint=hint)


@contextmanager
def located(source: Source, node: ast.AST) -> Iterator[None]:
    """What expressions refuse in here is refused at ``node``."""
    try:
        yield
    except ExpressionError as error:
        raise KernelError(
            error.code,
            error.what,
            where=f"{source.where(node)}, {source.code(node)}",
            why=error.why,
            hint=error.hint,
        ) from None


def read_source(function: Callable[..., Any]) -> Source:
    """The source of ``function``, a plain ``def``.

    Raises ``KernelError`` (WEFT-E0160) for anything else, and where the text is not to be had.
    """
    name = getattr(function, "__name__", repr(function))
    if not isinstance(function, FunctionType):
        raise _unreadable(name, f"it is a {type(function).__name__}, not a function")
    if hasattr(function, "__wrapped__"):
        raise _unreadable(name, "another decorator has put a function of its own around it")
    try:
        lines, start = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError) as error:
        file = function.__code__.co_filename
        nowhere = f"Python keeps no text of what is typed at its prompt or comes from {file}"
        raise _unreadable(name, nowhere if file.startswith("<") else str(error)) from None
    whole = "".join(lines)
    text = textwrap.dedent(whole)
    indent = len(lines[0]) - len(text.splitlines(keepends=True)[0])
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise _unreadable(name, str(error)) from None
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef) or found.name != function.__name__:
        raise _unreadable(name, "it is a lambda or a coroutine, not a plain def")
    ast.increment_lineno(tree, start - 1)
    encoded = tuple(line.encode() for line in text.splitlines())
    return Source(function, file, encoded, found, indent, start - 1, dict(_cells(function)))


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    closure = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, closure, strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _unreadable(name: str, why: str) -> KernelError:
    return KernelError(
        "WEFT-E0160",
        f"the source of {name} cannot be read",
        why=why,
        hint="write the kernel as a def in a file or a notebook cell, with no other decorator",
    )
