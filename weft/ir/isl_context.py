"""isl's context: the quota that bounds every computation, the lock, and the cache of isl objects.

isl has no notion of time, only of operations: whatever may blow up runs inside ``bounded``. Objects
are cached by the identity of what they were made from, and derived again after pickling.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import islpy as isl

from weft.ir.errors import BudgetError

CONTEXT: isl.Context = isl.Context()
"""The context of every isl object in this process."""

_T = TypeVar("_T")
_P = ParamSpec("_P")

# --- budget --------------------------------------------------------------------------------------

_lock = threading.RLock()
_limits: list[int] = []


@contextmanager
def bounded(operations: int = 5_000_000, what: str = "the polyhedral analysis") -> Iterator[None]:
    """Run isl computations with a quota, so that none of them runs unbounded.

    Nested quotas are capped by the outer one and counted afresh. Operations are not time (between
    40 and 9,000 of them take a millisecond), but they are the same on every machine. Checking or
    validating a cluster takes 1,000 to 100,000 of them.

    Raises BudgetError (WEFT-E0400) when the quota is exhausted; the context is usable afterwards.
    """
    with _lock:
        outer = _limits.copy()
        try:
            _limits.append(min([operations, *outer[-1:]]))
            _start_counting()
            yield
        except (isl.Error, TypeError) as error:  # some of islpy takes what isl could not give
            if not _exhausted(error):
                raise
            raise BudgetError(
                "WEFT-E0400",
                f"{what} exceeded its budget of {_limits[-1]:,} isl operations",
                hint="simplify the index expressions, or make tile sizes and sizes constant",
            ) from None
        finally:
            _limits[:] = outer  # also where Ctrl-C came in between
            _start_counting()


def exclusively(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """``function``, run by one thread at a time: all isl objects live in one context, and the
    quota of one thread would end the work of another."""

    @wraps(function)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _lock:
            return function(*args, **kwargs)

    return alone


def _exhausted(error: Exception) -> bool:
    """Whether ``error`` comes from the quota; some calls report it as another failure."""
    if "maximal number of operations" in str(error):
        return True
    try:
        isl.Set.universe(isl.Space.params_alloc(CONTEXT, 0))
    except isl.Error:  # the quota stays exhausted until it is reset
        return True
    return False


def _start_counting() -> None:
    CONTEXT.set_max_operations(_limits[-1] if _limits else 0)
    CONTEXT.reset_operations()


# --- cache ---------------------------------------------------------------------------------------

_CACHE_SIZE = 8192
_cache: OrderedDict[tuple[object, ...], tuple[object, object]] = OrderedDict()


def derived(make: Callable[[], _T], kind: str, parameters: tuple[str, ...], *sources: object) -> _T:
    """``make()``, kept for as long as the very same (immutable) ``sources`` are asked for."""
    key = (kind, parameters, *map(id, sources))
    with _lock:
        found = _cache.get(key)
        if found is None:
            found = (make(), sources)  # the sources stay alive, so their ids stay theirs
            _cache[key] = found
            if len(_cache) > _CACHE_SIZE:
                _cache.popitem(last=False)
        else:
            _cache.move_to_end(key)
        return found[0]  # type: ignore[return-value]
