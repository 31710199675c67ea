"""Arguments of transformations, held against what their signatures say: users mistype."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from weft.errors import IllegalScheduleError

LARGEST = 2**31  # of sizes, factors and shifts: two of them multiplied fit 64 bits


def checker(transformation: Callable[..., Any]) -> Callable[..., None]:
    """A function of the arguments of ``transformation`` (a schedule, then the user's own).

    It raises ``TypeError`` where they do not fit the signature, as Python does, and
    ``IllegalScheduleError`` (WEFT-E0460) where one is of another type than declared.
    """
    declared, hints = signature(transformation), get_type_hints(transformation)
    texts: Mapping[str, str] = transformation.__annotations__

    def check(*args: Any, **kwargs: Any) -> None:
        for name, value in list(declared.bind(*args, **kwargs).arguments.items())[1:]:
            variable = declared.parameters[name].kind is declared.parameters[name].VAR_POSITIONAL
            what = f"{transformation.__name__}: {name} is {value!r}"
            if not all(_fits(v, hints[name]) for v in (value if variable else (value,))):
                hint = f"{name}: {_described(texts[name], hints[name])}"
                raise IllegalScheduleError("WEFT-E0460", what, hint=hint)
            if any(abs(number) > LARGEST for number in _integers(value)):
                raise IllegalScheduleError("WEFT-E0460", what, hint="numbers up to 2**31")

    return check


def _described(text: str, hint: Any) -> str:
    """The declared type, and the values of its literals."""
    text = text.replace("Seq[", "Sequence[")
    words = ", ".join(f'"{word}"' for word in _literals(hint))
    return f"{text}; {words}" if words else text


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _integers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _integers(each)


def _literals(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for inner in get_args(hint) for word in _literals(inner))


def _fits(value: object, hint: Any) -> bool:
    """Whether ``value`` is of the type ``hint``, elements included. No text is a sequence."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(v, inner[0]) for v in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items()
        )
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return value is None if hint is NoneType else isinstance(value, hint)
