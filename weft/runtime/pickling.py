"""What of Weft is pickled, and what says how its like gets elsewhere instead.

An ``Executable`` travels as its artifact; tensors, programs and options are data, kernels names.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn, Self

from weft.ir.errors import CallError


class StaysHere:
    """Is refused by pickle, joblib and the like with a sentence; what never changes is its own
    copy."""

    __slots__ = ()
    _elsewhere: ClassVar[str] = ""  # how to have one in another process

    def __reduce__(self) -> NoReturn:
        raise CallError(
            "WEFT-E0614",
            f"a weft.{type(self).__name__} is not pickled",
            why="it belongs to this process",
            hint=self._elsewhere,
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self
