"""Arguments of transformations, held against what their signatures say: users mistype."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from weft.errors import IllegalScheduleError


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
            if not all(_fits(v, hints[name]) for v in (value if variable else (value,))):
                raise IllegalScheduleError(
                    "WEFT-E0460",
                    f"{transformation.__name__}: {name} is {value!r}",
                    hint=f"{name}: {texts[name].replace('Seq[', 'Sequence[')}",
                )

    return check


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
