"""IRs as bytes, and back: exact, reproducible, and safe to read from anybody.

    bytes ::= msgpack of node…       node ::= [class, field…]       the last node is the whole

Each distinct node stands once, behind those inside it, which it names by their numbers; so reading
never recurses, and what is shared stays shared. Fields are written and read as their annotations
say: numbers and texts as they are, sets in order, mappings as pairs in their own order. What no
writer writes is an exception of ``MALFORMED``; whether the IR makes sense, its verifier says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from weft.ir import scalar_expr
from weft.ir.dtypes import DType, as_dtype
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Apply, Bitcast, Select, apply, bitcast, literal, select

MALFORMED: tuple[type[Exception], ...] = (
    msgspec.MsgspecError, ValueError, TypeError, LookupError, OverflowError, RecursionError,
    ExpressionError,
)  # fmt: skip

_T = TypeVar("_T")
_Numbers = dict[int, int]  # id of a node → its number


@dataclass(frozen=True, slots=True)
class _Form:
    """How the values of one annotation are written: what nodes are ``inside``, as data, and back
    from data, given the nodes so far."""

    inside: Callable[[Any], Iterator[object]]
    put: Callable[[Any, _Numbers], object]
    get: Callable[[Any, list[object]], Any]


class Encoding:
    """Nodes of some ``classes``, frozen dataclasses. ``annotations``: (class, field) → what stands
    in a field whose own annotation says less."""

    def __init__(
        self,
        classes: Sequence[type],
        annotations: Mapping[tuple[type, str], object] | None = None,
    ) -> None:
        self._numbers = {cls: number for number, cls in enumerate(classes)}
        self._forms: list[dict[str, _Form]] = []
        for cls in classes:
            hints = get_type_hints(cls)
            hints |= {name: h for (of, name), h in (annotations or {}).items() if of is cls}
            names = [field.name for field in fields(cls) if field.init]
            self._forms.append({name: self._form(hints[name]) for name in names})
        self._classes = tuple(classes)

    def encode(self, root: object) -> bytes:
        """``root`` and all nodes inside it."""
        records: list[list[object]] = []
        known: dict[bytes, int] = {}  # a node as bytes, which tell 0.0 from -0.0 → its number
        numbers: _Numbers = {}
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in numbers:
                continue
            number = self._numbers[type(node)]
            forms = self._forms[number].items()
            if not ready:
                stack.append((node, True))
                inside = [n for name, form in forms for n in form.inside(getattr(node, name))]
                stack.extend((child, False) for child in reversed(inside))
                continue
            record = [number, *(form.put(getattr(node, name), numbers) for name, form in forms)]
            numbers[id(node)] = known.setdefault(msgspec.msgpack.encode(record), len(records))
            if numbers[id(node)] == len(records):
                records.append(record)
        return msgspec.msgpack.encode(records)

    def decode(self, data: bytes, kind: type[_T]) -> _T:
        """The node of class ``kind`` that ``data`` holds. Raises ``MALFORMED``."""
        made: list[object] = []
        for number, *values in msgspec.msgpack.decode(data, type=list[list[Any]]):
            if type(number) is not int or number < 0:
                raise TypeError(f"{number!r} is no class")
            forms = self._forms[number].values()
            given = [f.get(value, made) for f, value in zip(forms, values, strict=True)]
            node = self._classes[number](*given)
            _check(node)
            made.append(node)
        root = made[-1]
        if not isinstance(root, kind):
            raise TypeError(f"{type(root).__name__} is no {kind.__name__}")
        return root

    def _form(self, hint: Any) -> _Form:
        origin, args = get_origin(hint), get_args(hint)
        if origin is tuple and args[1:] == (...,):
            return _sequence(self._form(args[0]))
        if origin is tuple:
            return _fixed([self._form(arg) for arg in args])
        if origin is frozenset:
            return _plain(sorted, _set)
        if origin is Mapping:
            return _mapping(self._form(args[1]))
        if origin is Literal:
            return _plain(partial(_among, args), partial(_among, args))
        options = args if origin in (UnionType, Union) else (hint,)
        if set(options) <= {int, float, bool, str, NoneType}:
            return _plain(partial(_of, options), partial(_of, options))
        return _node(tuple(o for o in options if o is not NoneType), NoneType in options)


def _plain(put: Callable[[Any], object], get: Callable[[Any], Any]) -> _Form:
    return _Form(lambda _: iter(()), lambda value, _: put(value), lambda data, _: get(data))


def _of(types: tuple[type, ...], value: object) -> object:
    if type(value) not in types:
        raise TypeError(f"{value!r} is none of {types}")
    return value


def _among(values: tuple[object, ...], value: object) -> object:
    if value not in values:
        raise ValueError(f"{value!r} is none of {values}")
    return value


def _set(data: list[str]) -> frozenset[str]:
    found = frozenset(_of((str,), element) for element in _list(data))
    if sorted(found) != data:  # type: ignore[type-var]
        raise ValueError("a set is not in order")
    return found  # type: ignore[return-value]


def _list(data: object) -> list[Any]:
    _of((list,), data)
    return data  # type: ignore[return-value]


def _sequence(of: _Form) -> _Form:
    return _Form(
        lambda value: (node for element in value for node in of.inside(element)),
        lambda value, numbers: [of.put(element, numbers) for element in value],
        lambda data, made: tuple(of.get(element, made) for element in _list(data)),
    )


def _fixed(parts: list[_Form]) -> _Form:
    def each(values: Iterable[Any]) -> Iterator[tuple[_Form, Any]]:
        return zip(parts, values, strict=True)

    return _Form(
        lambda value: (node for form, element in each(value) for node in form.inside(element)),
        lambda value, numbers: [form.put(element, numbers) for form, element in each(value)],
        lambda data, made: tuple(form.get(element, made) for form, element in each(_list(data))),
    )


def _mapping(of: _Form) -> _Form:
    pairs = _sequence(_fixed([_plain(partial(_of, (str,)), partial(_of, (str,))), of]))

    def get(data: object, made: list[object]) -> dict[str, Any]:
        found = pairs.get(data, made)
        if len(dict(found)) < len(found):
            raise ValueError("a key stands twice")
        return dict(found)

    return _Form(
        lambda value: pairs.inside(value.items()),
        lambda value, numbers: pairs.put(value.items(), numbers),
        get,
    )


def _node(classes: tuple[type, ...], optional: bool) -> _Form:
    def get(data: object, made: list[object]) -> object:
        if data is None and optional:
            return None
        if type(data) is not int or not 0 <= data < len(made):
            raise IndexError(f"{data!r} of {len(made)} nodes")
        if not isinstance(made[data], classes):
            raise TypeError(f"{type(made[data]).__name__} is none of {classes}")
        return made[data]

    return _Form(
        lambda value: iter(() if value is None else (value,)),
        lambda value, numbers: None if value is None else numbers[id(value)],
        get,
    )


def _check(node: object) -> None:
    """Raise one of ``MALFORMED`` where ``node`` is a dtype or an expression that there is not."""
    match node:
        case DType(name):
            _among((as_dtype(name),), node)
        case scalar_expr.Literal(value, dtype):
            _of((type(literal(value, dtype).value),), value)
        case Apply(op, args):
            apply(op, *args)
        case Bitcast(arg, dtype):
            bitcast(arg, dtype)
        case Select(condition, if_true, if_false):
            select(condition, if_true, if_false)
