"""Tables of what has a name: Weft's own entries, and those of users and of installed packages.

One definition for each name, from wherever it comes: the order of imports decides nothing.

* A second definition of a name is an error that names both places, unless it says ``replace=True``:
  then it counts, whether it came before or after the one that it replaces (of several that replace,
  the last). The same place run again, a module that is reloaded or a cell of a notebook, is no
  second definition.
* Packages have entries by entry points, in the group of the table: ``name = "module:object"``, or
  ``name = "module"`` for one whose import registers what it has. They are loaded when the table is
  first asked for something; those of a package that is installed later, when a name is missing.
"""

from __future__ import annotations

import importlib.metadata
import sys
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import RLock
from types import ModuleType
from typing import Generic, TypeVar

from weft.ir.errors import CompileError, WeftError, WeftWarning

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
_LOADING = RLock()


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was defined: ``identity`` is equal for the same code run again."""

    text: str
    identity: tuple[object, ...]


def calling(depth: int) -> Place:
    """The line that called a function, ``depth`` calls above the one that asks."""
    frame = sys._getframe(depth + 1)
    file, line = frame.f_code.co_filename, frame.f_lineno
    module = str(frame.f_globals.get("__name__"))
    typed = getattr(sys.modules.get(module), "__file__", None) is None and file != "<string>"
    return Place(f"{file}:{line}", (module,) if typed else (file, line))


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    value: T
    place: Place


class Registry(Generic[K, T]):
    """``kind`` in words; ``group`` of entry points; ``adopt``: what to do with the object of one,
    given its name and place, where that is no module; ``words``: a key for people."""

    def __init__(
        self,
        kind: str,
        group: str,
        adopt: Callable[[str, object, Place], object],
        words: Callable[[K], str] = str,
    ) -> None:
        self.kind, self.group = kind, group
        self._adopt, self._words = adopt, words
        self._plain: dict[K, _Entry[T]] = {}
        self._replacing: dict[K, _Entry[T]] = {}
        self._loaded: set[object] | None = None  # entry points; None: nobody has looked yet

    def add(self, key: K, value: T, place: Place, replace: bool = False) -> None:
        """Raises ``CompileError`` (WEFT-E0005) where ``key`` is defined elsewhere."""
        if replace:
            self._replacing[key] = _Entry(value, place)
            return
        old = self._plain.get(key)
        if old is not None and old.place.identity != place.identity and old.value is not value:
            raise CompileError(
                "WEFT-E0005",
                f"two definitions of {self.kind} {self._words(key)}",
                where=f"{old.place.text} and {place.text}",
                hint="give one of them another name, or replace=True to have it instead",
            )
        self._plain[key] = _Entry(value, place)

    def find(self, key: K) -> T | None:
        """What has this name, None where nothing has."""
        self.load()
        found = self.known(key)
        if found is None:
            self.load(again=True)
        return self.known(key)

    def known(self, key: K) -> T | None:
        """``find`` among what is loaded."""
        entry = self._replacing.get(key) or self._plain.get(key)
        return None if entry is None else entry.value

    def __contains__(self, key: object) -> bool:
        self.load()
        return key in self._plain or key in self._replacing

    def names(self) -> list[K]:
        """All names, in order."""
        self.load()
        return sorted({*self._plain, *self._replacing}, key=self._words)

    def has(self, value: object) -> bool:
        """Whether ``value`` is registered under some name."""
        entries = [*self._plain.values(), *self._replacing.values()]
        return any(entry.value is value for entry in entries)

    def load(self, again: bool = False) -> None:
        """Load the entry points of installed packages. One that cannot be loaded is named in a
        warning: what others install does not stop what does not need it. Raises what registering
        raises, WEFT-E0005 say."""
        with _LOADING:
            if self._loaded is not None and not again:
                return
            loaded = self._loaded = self._loaded or set()  # what is loaded may ask for what is here
            for point in sorted(importlib.metadata.entry_points(group=self.group)):
                if point in loaded:
                    continue
                loaded.add(point)
                try:
                    self._enter(point)
                except WeftError:
                    self._loaded = None  # until somebody mends it
                    raise
                except Exception as error:
                    what = f"entry point {point.name!r} of {self.group} ({point.value})"
                    text = f"{what} cannot be loaded: {type(error).__name__}: {error}"
                    warnings.warn(text, WeftWarning, stacklevel=2)

    def _enter(self, point: importlib.metadata.EntryPoint) -> None:
        found = point.load()
        if not isinstance(found, ModuleType) and not self.has(found):
            package = point.dist.name if point.dist else point.value
            text = f"entry point {point.name!r} of package {package}"
            self._adopt(point.name, found, Place(text, (text, point.value)))
