"""What users reach has a docstring that says enough; ``help`` and the stub say what the code says.

Users reach ``weft.__all__``, what documents and examples import besides, the classes that these
give, and the public methods and properties of all of them. Asked for is

1. a docstring of its own, not one that Python inherits or makes;
2. the name, as code, of each parameter where there are two or more, and of each field of a record:
   for construction and calls in the docstring of the class, which is what ``help`` shows;
3. "Raises", and the class or the code, of each error of Weft's, ValueError and TypeError that
   its body raises, or the body of a private function of the same file that it calls.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import pydoc
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

import pytest

import weft
from weft.ir.errors import CallError, WeftError

ROOT = Path(__file__).parents[2]
TEXTS = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
IMPORT = re.compile(r"^from (weft(?:\.\w+)*) import ([\w, ]+)", re.MULTILINE)
IN_FULL = re.compile(r"`(weft(?:\.\w+){2,})`")
ERRORS = (WeftError, ValueError, TypeError)
OF_THE_CLASS = ("__init__", "__post_init__", "__call__")  # its docstring speaks for these


# ---- what users reach ----------------------------------------------------------------------------


def imported() -> Iterator[object]:
    """What documents and examples import or name in full; of a module, what it offers."""
    for text in map(Path.read_text, TEXTS):
        named = IN_FULL.findall(text)
        for home, names in IMPORT.findall(text):
            named += [f"{home}.{name.split()[0]}" for name in names.split(",")]
        for value in map(resolve_name, named):
            yield from [getattr(value, name) for name in getattr(value, "__all__", ())] or [value]


def reached() -> list[Any]:
    """The functions and classes, those that they return included."""
    found: dict[Any, None] = {}
    stack = [*(getattr(weft, name) for name in weft.__all__), *imported()]
    while stack:
        value = stack.pop()
        if is_ours(value) and isinstance(value, type | FunctionType) and value not in found:
            found[value] = None
            inside = [value] if isinstance(value, FunctionType) else dict(members(value)).values()
            stack += [part for function in inside for part in parts(returned(function))]
    return sorted(found, key=path)


def is_ours(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith(("weft.", __name__))


def returned(function: Callable[..., Any]) -> object:
    """What a function is annotated to return."""
    function = inspect.unwrap(function)
    return eval(str(function.__annotations__.get("return")), function.__globals__)


def parts(hint: object) -> list[object]:
    """What a type is made of."""
    return [hint, *(part for each in typing.get_args(hint) for part in parts(each))]


def path(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def members(owner: type) -> Iterator[tuple[str, FunctionType]]:
    """Public methods and properties as functions, what is inherited from classes of Weft's too."""
    for cls in filter(is_ours, reversed(owner.__mro__)):
        for name, value in vars(cls).items():
            for kind, inner in (
                (property, "fget"),
                (cached_property, "func"),
                (classmethod | staticmethod, "__func__"),
            ):
                value = getattr(value, inner) if isinstance(value, kind) else value
            public = name[0] != "_" or name in OF_THE_CLASS
            if public and isinstance(value, FunctionType) and is_ours(value):
                yield name, value


# ---- what is lacking -----------------------------------------------------------------------------


def lacking(value: Any) -> list[str]:
    """What the docstrings of a function, or of a class with its members, should say and do not."""
    if isinstance(value, FunctionType):
        return [f"{path(value)} {what}" for what in lacks(value, value.__doc__)]
    text = vars(value).get("__doc__") or ""
    if not text or text.startswith(f"{value.__name__}("):  # which ``dataclass`` makes
        return [f"{path(value)} has no docstring"]
    whole = "\n".join(cls.__doc__ or "" for cls in value.__mro__ if is_ours(cls))
    record = [f.name for f in fields(value) if f.name[0] != "_"] if is_dataclass(value) else []
    unnamed = [name for name in record if name not in code(whole)]
    found = [f"{path(value)} does not name {name}" for name in unnamed]
    for name, function in dict(members(value)).items():
        own = function.__doc__ or ""
        if name in OF_THE_CLASS:
            own = f"{whole}\n{own}"
        if name != "__init__" or not record:  # whose parameters are the fields
            found += [f"{path(function)} {what}" for what in lacks(function, own)]
    return found


def lacks(function: Callable[..., Any], text: str | None) -> list[str]:
    if not text or not text.strip():
        return ["has no docstring"]
    given = parameters(function)
    found = [f"does not name {p}" for p in given if len(given) > 1 and p not in code(text)]
    said = text.partition("Raises")[2]
    for error in sorted(raised(function), key=str):
        if not re.search(rf"\b({'|'.join(error.names)})\b", said):
            found.append(f"does not say that it raises {error}")
    return found


def code(text: str) -> set[str]:
    """The words of ``text`` that stand in double backticks or in an example."""
    found = re.findall(r"``(.+?)``", text, re.DOTALL)
    found += re.findall(r"::\n\n((?: *\n| +.*\n)+)", text)
    return set(re.findall(r"\w+", " ".join(found)))


def parameters(function: Callable[..., Any]) -> list[str]:
    """Those of all overloads, if there are any, without ``self``."""
    signatures = map(inspect.signature, typing.get_overloads(function) or [function])
    names = dict.fromkeys(name for each in signatures for name in each.parameters)
    return [name for name in names if name not in ("self", "cls")]


@dataclass(frozen=True)
class Raised:
    """An error class, and the codes that it has where it is raised."""

    error: type
    codes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What a docstring may call it: a code, the class, or a wider one but for ``WeftError``."""
        wider = [c for c in self.error.__mro__ if issubclass(c, ERRORS) and c is not WeftError]
        return (*(each.removeprefix("WEFT-") for each in self.codes), *(c.__name__ for c in wider))

    def __str__(self) -> str:
        return " ".join((self.error.__name__, *self.codes))


def raised(function: Callable[..., Any], *, deep: bool = True) -> set[Raised]:
    """What the body raises, and if ``deep``, the private functions of the file that it calls."""
    function = inspect.unwrap(function)
    found: set[Raised] = set()
    for node in ast.walk(syntax(function)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            made, text = meant(node.exc.func, function), ast.unparse(node.exc)
            if isinstance(made, FunctionType):  # which makes the error
                made, text = returned(made), text + ast.unparse(syntax(made))
            if isinstance(made, type) and issubclass(made, ERRORS):
                found.add(Raised(made, tuple(dict.fromkeys(re.findall(r"WEFT-E\d+", text)))))
        elif deep and isinstance(node, ast.Call):
            called = meant(node.func, function)
            private = isinstance(called, FunctionType) and called.__name__.startswith("_")
            if private and called.__module__ == function.__module__:
                found |= raised(called, deep=False)
    return found


def syntax(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def meant(expression: ast.expr, function: Any) -> object:
    """What a name, or an attribute of ``self``, stands for in ``function``; None for others."""
    match expression:
        case ast.Name(name):
            return {**vars(builtins), **function.__globals__}.get(name)
        case ast.Attribute(ast.Name("self"), name):
            owner = function.__globals__.get(function.__qualname__.split(".")[0])
            return getattr(owner, name, None)
    return None


@pytest.mark.parametrize("value", reached(), ids=path)
def test_docstrings_say_enough(value):
    assert lacking(value) == []


# ---- what is lacking is found --------------------------------------------------------------------


def _refuse(what: str) -> None:
    raise CallError("WEFT-E0600", what)


def _refusal(what: str) -> CallError:
    return CallError("WEFT-E0601", what)


def silent(x: int) -> int:
    return x


def names_nothing(rows: int, columns: int) -> int:
    """Both, rows and columns, are numbers of elements: ``rows``."""
    return rows * columns


def hides_errors(x: int) -> None:
    """Refuses what is negative. Raises ``KeyError``."""
    if x < -2:
        raise TypeError("far too little")
    if x < -1:
        raise _refusal("too little")
    _refuse("little")


def says_all(rows: int, columns: int) -> None:
    """``rows`` by ``columns``. Raises ``CallError``: WEFT-E0600."""
    _refuse(f"{rows} by {columns}")


class Silent(WeftError):
    pass


@dataclass
class Record:
    width: int


class Hiding:
    """Does what it does."""

    def __init__(self, wide: int, high: int) -> None:
        self._check(wide + high)

    def _check(self, size: int) -> None:
        if size < 0:
            raise ValueError(size)

    @property
    def size(self) -> int:
        return 0


@dataclass
class Fields:
    """A record of a ``width``."""

    width: int
    height: int = 0

    def __post_init__(self) -> None:
        raise CallError("WEFT-E0602", "none")


def test_what_is_lacking_is_found():
    found = {
        value.__name__: [what.removeprefix(f"{__name__}.") for what in lacking(value)]
        for value in (silent, names_nothing, hides_errors, says_all, Silent, Record, Hiding, Fields)
    }
    assert found == {
        "silent": ["silent has no docstring"],
        "names_nothing": ["names_nothing does not name columns"],
        "hides_errors": [
            "hides_errors does not say that it raises CallError WEFT-E0600",
            "hides_errors does not say that it raises CallError WEFT-E0601",
            "hides_errors does not say that it raises TypeError",
        ],
        "says_all": [],
        "Silent": ["Silent has no docstring"],
        "Record": ["Record has no docstring"],
        "Hiding": [
            "Hiding.__init__ does not name wide",
            "Hiding.__init__ does not name high",
            "Hiding.__init__ does not say that it raises ValueError",
            "Hiding.size has no docstring",
        ],
        "Fields": [
            "Fields does not name height",
            "Fields.__post_init__ does not say that it raises CallError WEFT-E0602",
        ],
    }


def test_what_users_reach_goes_beyond_the_package_itself():
    """Through imports of documents, and through what functions and properties give."""
    names = {path(value) for value in reached()}
    assert {
        "weft.api.compile",
        "weft.hardware.compile",
        "weft.offload.accelerated.Accelerated",
        "weft.runtime.bound_call.BoundCall",
        "weft.ir.schedule_tree.Band",
    } <= names


# ---- the stub and ``help`` say what the source says ----------------------------------------------


def stubs() -> dict[str, ast.ClassDef | list[ast.FunctionDef]]:
    """What type checkers read where the stub leads: classes, and functions with their overloads."""
    stub = ast.parse((ROOT / "weft/__init__.pyi").read_text())
    found: dict[str, Any] = {}
    for line in (node for node in stub.body if isinstance(node, ast.ImportFrom)):
        for name in (alias.name for alias in line.names):
            value = getattr(weft, name)
            text = Path(inspect.getfile(sys.modules[str(line.module)])).read_text()
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef) and node.name == name:
                    found[name] = node
                elif isinstance(node, ast.FunctionDef) and node.name == name:
                    found.setdefault(name, []).append(node)
            assert name in found or not isinstance(value, type), name
    return found


STUBS = stubs()


def arguments(node: ast.FunctionDef) -> list[str]:
    of = node.args
    several = [of.vararg] if of.vararg else []
    named = [of.kwarg] if of.kwarg else []
    return [a.arg for a in (*of.posonlyargs, *of.args, *several, *of.kwonlyargs, *named)]


@pytest.mark.parametrize("name", STUBS)
def test_parameters_are_those_that_type_checkers_see(name):
    """Overloads may leave some out, and name what is given by position alone as they like."""
    node, value = STUBS[name], getattr(weft, name)
    if isinstance(node, list):
        real = list(inspect.signature(value).parameters)
        assert arguments(node[-1]) == real
        for overload in node[:-1]:
            first = len(overload.args.posonlyargs)
            assert set(arguments(overload)[first:]) <= set(real)
        return
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
    for method in methods:
        real = getattr(value, method.name)
        if isinstance(vars(value)[method.name], FunctionType):
            assert arguments(method) == list(inspect.signature(real).parameters), method.name


HELPED = (
    "compile", "Options", "kernel", "schedule", "Schedule", "lower", "quantize", "Executable",
    "load", "operator", "register", "Cpu", "placeholder", "compute", "sum",
)  # fmt: skip


@pytest.mark.parametrize("name", HELPED)
def test_help_of_what_is_loaded_lazily(name, monkeypatch):
    """By name, as ``help("weft.compile")`` asks: the docstring and signature of the source."""
    monkeypatch.delitem(vars(weft), name)  # to be loaded again
    text = pydoc.plain(pydoc.render_doc(f"weft.{name}"))
    node = STUBS[name]
    written = ast.get_docstring(node if isinstance(node, ast.ClassDef) else node[-1])
    assert bare(str(written)) in bare(text)
    if isinstance(node, list):
        assert bare(f"{name}{inspect.signature(getattr(weft, name))}") in bare(text)


def bare(text: str) -> str:
    """Without spaces, and the lines that ``help`` draws beside a class."""
    return re.sub(r"[\s|]", "", text)


def test_steps_of_schedules_are_methods_in_help():
    """Their transformation's parameters, and its page: code before and after."""
    shown = inspect.signature(weft.Schedule.split)
    assert str(shown) == (
        "(self, /, loop: 'str', size: 'int', *, tile: 'str | None' = None,"
        " point: 'str | None' = None) -> 'Schedule'"
    )
    own, _, page = inspect.getdoc(weft.Schedule.split).partition("Split: ")
    assert own.startswith("``loop`` in tiles of ``size`` iterations")
    assert "for i_t: for i_p in 0…7: S(8·i_t + i_p)" in page
