"""What a C program sees of a compiled program: structs of pointers and sizes, and their names.

    int NAME_run(const NAME_inputs *, const NAME_outputs *, const NAME_sizes *, int threads,
                 void *workspace)
    size_t NAME_workspace_bytes(const NAME_sizes *, int threads)
    const char *NAME_message(int status)

* Each struct has one field for each array or size, in the program's order; a struct that would have
  none is no parameter either. What has no dimensions and is only read is passed by value.
* An output that is computed in place of an input has no field: the input is overwritten.
* Sizes are the symbols of the shapes that no other determines, and the numbers that a loop kernel
  takes as such.
* ``run`` returns 0; less than 0 where the call itself is wrong, and then nothing was written; more
  than 0 where data broke a rule of the program. ``workspace_bytes`` returns 0 for sizes or threads
  that ``run`` refuses.

``llvm/interface`` writes these functions, ``c_header`` declares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr

LONGEST = 60  # characters of an identifier that a user's name gives

_RESERVED = """
alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char class compl
complex concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
decltype default delete do double dynamic_cast else enum errno explicit export extern false float
for friend goto I if imaginary inline int linux long mutable namespace new noexcept not not_eq
nullptr NULL operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast stderr stdin stdout struct switch
template this thread_local throw true try typedef typeid typename typeof union unix unsigned using
virtual void volatile wchar_t while xor xor_eq EOF
"""  # what C, C++ or a usual macro means something by
_TAKEN = frozenset(_RESERVED.split())


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. ``name``: a C identifier; ``label``: what the user calls it.

    ``shape`` is over the symbols of ``Interface.parameters``. ``alignment``: bytes that the code
    relies on. ``written``: the program writes there.
    """

    name: str
    label: str
    dtype: DType
    shape: tuple[Expr, ...] = ()
    alignment: int = 1
    by_value: bool = False
    written: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The field of an output: ``index`` in the outputs, or in the inputs if it is computed
    ``in_place`` (``copied``: elsewhere first)."""

    index: int
    in_place: bool = False
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Interface:
    """``name``: prefix of all names; ``title``: the program's own. ``entry``: the function that
    ``weft/ir/program.py`` describes, with ``constants`` many constants, ``weft_constant_0`` and so
    on. ``arguments``: for each input of the program its field of the inputs, or, less than 0, of
    the sizes (-1: the first). ``results``: of each output. ``guards``: what parameters must
    satisfy, in words. ``checks``: as ``Compiled.checks``."""

    name: str
    title: str
    entry: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    sizes: tuple[Field, ...]  # int64 each; ``label``: the symbol
    arguments: tuple[int, ...]
    results: tuple[Result, ...]
    parameters: tuple[str, ...]
    derived: tuple[tuple[str, Expr], ...] = ()
    guards: tuple[tuple[Expr, str], ...] = ()
    checks: tuple[tuple[str, ...], ...] = ()
    constants: int = 0
    signed: frozenset[str] = frozenset()  # sizes that are numbers of any sign


def identifier(text: str) -> str:
    """A C identifier like ``text`` that is not reserved in C and C++."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:LONGEST].strip("_")
    if not name or name[0].isdigit() or name in _TAKEN:
        name = f"m_{name}".strip("_")
    return name


def identifiers(texts: Iterable[str]) -> list[str]:
    """One for each of ``texts``, all different."""
    found: dict[str, int] = {}
    for text in texts:
        name = plain = identifier(text)
        while name in found:
            found[plain] += 1
            name = f"{plain}_{found[plain]}"
        found[name] = 1
    return list(found)
