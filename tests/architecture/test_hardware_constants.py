"""No fact about hardware outside a machine's record (``weft/ir/machine.py``, ``codegen/machines/``).

Off the syntax trees: every number at the top of a module of the rooms that transform, and every
numeric default of a class's field, is on the list below, by name, as one of

    effort    a bound on what the compiler itself looks at, writes out or waits for
    format    of numbers, files, instructions, calls or texts
    ratio     a share or multiple of what a record says, or of what a policy compares

A fact about hardware (bytes, cycles, seconds, how many of a thing a processor has) is none of
these. Inside functions, numbers that look like one are refused whatever they are for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("polyhedral", "graph", "codegen")
RECORDS = "codegen/machines/"
CLASSES = ("effort", "format", "ratio")

ALLOWED = """
@@@
"""

# Sizes of lines and pages, or one less, as masks and round-ups have them.
_SIZES = {63, 64, 127, 128, 2048, 4095, 4096}
_MEMORY = re.compile(r"line|page|itemsize|bytes|size|data|address|align", re.I)
_LEAST_FREQUENCY = 1e8
_MOST_TIME = 1e-5


def allowed() -> dict[str, dict[str, str]]:
    """file → name → class."""
    found: dict[str, dict[str, str]] = {}
    for line in ALLOWED.split("\n"):
        if line.strip():
            file, _, groups = line.partition(" ")
            assert file not in found, f"{file} is listed twice"
            found[file] = {
                name: kind
                for group in groups.split(";")
                for kind, names in [group.strip().split(":")]
                for name in names.split()
            }
    return found


def sources() -> dict[str, str]:
    """All files of the rooms but records."""
    files = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    names = {str(file.relative_to(ROOT)): file for file in files}
    return {name: file.read_text() for name, file in names.items() if not name.startswith(RECORDS)}


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, complex)


def has_number(value: ast.expr) -> bool:
    return any(_is_number(node) for node in ast.walk(value))


def constants(text: str) -> Iterator[str]:
    """Names of a module's numbers, and of fields of its classes that have numbers as defaults."""
    for statement in ast.parse(text).body:
        yield from _assigned(statement, "")
        if isinstance(statement, ast.ClassDef):
            for inside in statement.body:
                yield from _assigned(inside, f"{statement.name}.")


def _assigned(statement: ast.stmt, within: str) -> Iterator[str]:
    match statement:
        case ast.Assign(targets, value) if has_number(value):
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(ast.Name(name), _, ast.expr() as value) if has_number(value):
            names = [name]
        case _:
            names = []
    yield from (within + name for name in names)


def suspicious(text: str) -> Iterator[str]:
    """Numbers inside functions that look like a line, a page, a time or a frequency."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.Lambda):
            yield from map(ast.unparse, filter(_of_hardware, ast.walk(function)))


def _of_hardware(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(one, ast.LShift() | ast.RShift() | ast.Pow(), other):
            return False
        case ast.BinOp(one, operator, other):
            scales = isinstance(operator, ast.Mult | ast.Div)
            return _of_memory([one, other]) or (scales and any(map(_is_rate, (one, other))))
        case ast.Compare(one, _, others):
            return _of_memory([one, *others])
        case ast.Call(ast.Name("max" | "min"), given):
            return _of_memory(given)
        case ast.arguments(args=args, defaults=defaults):
            named = zip(args[len(args) - len(defaults) :], defaults, strict=True)
            own = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            pairs = [(a.arg, d) for a, d in (*named, *own) if d is not None]
            return any((_is_size(d) and _MEMORY.search(a)) or _is_rate(d) for a, d in pairs)
    return False


def _of_memory(operands: list[ast.expr]) -> bool:
    """Whether one operand is a size of lines or pages, and another speaks of memory."""
    others = [ast.unparse(node) for node in operands if not _is_size(node)]
    return len(others) < len(operands) and any(map(_MEMORY.search, others))


def _number(node: ast.expr) -> float:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    found = node.value if isinstance(node, ast.Constant) and _is_number(node) else 0
    return found if isinstance(found, int | float) else 0


def _is_size(node: ast.expr) -> bool:
    return _number(node) in _SIZES


def _is_rate(node: ast.expr) -> bool:
    """Whether ``node`` is a time of some microseconds, or a frequency."""
    value = _number(node)
    return isinstance(value, float) and (0 < value <= _MOST_TIME or value >= _LEAST_FREQUENCY)


def test_numbers_of_modules_are_no_facts_about_hardware() -> None:
    listed = allowed()
    found = {file: set(constants(text)) for file, text in sources().items()}
    unknown = {f: sorted(names - {*listed.get(f, {})}) for f, names in found.items()}
    assert not {f: names for f, names in unknown.items() if names}, (
        "a number of these files is on no record and not listed above"
    )


def test_the_list_has_nothing_that_is_gone() -> None:
    texts = sources()
    gone = {
        (file, name)
        for file, names in allowed().items()
        for name in names
        if name not in set(constants(texts.get(file, "")))
    }
    assert not gone
    assert {kind for names in allowed().values() for kind in names.values()} == set(CLASSES)


def test_functions_have_no_lines_pages_times_or_frequencies() -> None:
    found = {file: list(suspicious(text)) for file, text in sources().items()}
    assert not {file: numbers for file, numbers in found.items() if numbers}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("LINE = 64", ["LINE"]),
        ("NEAR, FAR = 200, 1024", ["NEAR", "FAR"]),
        ("CYCLES: dict[str, float] = {'div': 8.0}", ["CYCLES"]),
        ("MOST = -(1 << 20)", ["MOST"]),
        ("A = B = [3]", ["A", "B"]),
        ("class Cache:\n    line: int = 64\n    size: int", ["Cache.line"]),
        ("class Cache:\n    line = 64", ["Cache.line"]),
        ("NAME, TRUE = 'x', True", []),
        ("def f(n):\n    WIDTH = 3", []),
    ],
)
def test_what_counts_as_a_number_of_a_module(text: str, names: list[str]) -> None:
    assert list(constants(text)) == names


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("64 // t.itemsize", True),
        ("max(1, 64 // dtype.itemsize)", True),
        ("(size + 63) // 64 * 64", True),
        ("x.ctypes.data % -64", True),
        ("stride_bytes >= 4096", True),
        ("max(4096, size)", True),
        ("cycles / 3.0e9", True),
        ("launches * 2e-6", True),
        ("(lambda line=64: line)()", True),
        ("(lambda *, wake=4e-5: wake)()", False),  # longer than anything that is refused
        ("(lambda *, barrier=1e-6: barrier)()", True),
        ("1 << 64", False),
        ("dtype.bits == 64", False),
        ("abs(x) > 1e-9", False),  # a tolerance
        ("2 * size", False),
    ],
)
def test_what_looks_like_hardware(expression: str, found: bool) -> None:
    assert bool(list(suspicious(f"def f(*given):\n    return {expression}"))) == found


def test_most_numbers_are_seen() -> None:
    """The rooms are where this file looks for them."""
    found = sources()
    assert len(found) > 200 and sum(len(list(constants(t))) for t in found.values()) > 200
    assert not any(file.startswith(RECORDS) for file in found)
    machines = [*(ROOT / RECORDS).glob("*.py")]
    assert len(machines) > 4
