"""A function of many small things, in several processes: no data go in, numbers come out."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.errors import InternalError

_CHUNK = 1 << 16


def forked(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    processes: int,
    done: Callable[[], None] = lambda: None,
) -> list[Any]:
    """``function`` of each of ``items``, in their order: what JSON can say. The processes are
    copies of this one, each with every so-manieth item. ``done`` is called for each result.

    Raises ``InternalError`` (WEFT-E0901) where a process ends before its work does.
    """
    processes = min(processes, len(items))
    if processes <= 1 or not hasattr(os, "fork"):
        return [_told(function(item), done) for item in items]
    results: dict[int, Any] = {}
    children: dict[int, int] = {}  # pipe -> process
    try:
        for first in range(processes):
            numbers = range(first, len(items), processes)
            pipe, child = _child(function, items, numbers, [*children])
            children[pipe] = child
        _collect(list(children), results, done)
    finally:
        for pipe, child in children.items():
            os.close(pipe)  # whoever still writes ends
            os.waitpid(child, 0)
    if len(results) != len(items):
        raise InternalError("WEFT-E0901", "a process of the exploration ended before its work")
    return [results[n] for n in range(len(items))]


def _told(result: Any, done: Callable[[], None]) -> Any:
    done()
    return result


def _child(
    function: Callable[[Any], Any], items: Sequence[Any], numbers: Sequence[int], others: list[int]
) -> tuple[int, int]:
    """A process for ``numbers`` of the items: the pipe that it answers on, and its id."""
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        os.close(writes)
        return reads, child
    code = 1
    try:
        for each in (reads, *others):
            os.close(each)
        for number in numbers:
            line = json.dumps([number, function(items[number])]) + "\n"
            _write(writes, line.encode())
        code = 0
    finally:
        os._exit(code)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _collect(pipes: list[int], results: dict[int, Any], done: Callable[[], None]) -> None:
    """Lines from all ``pipes`` until they are closed."""
    begun = dict.fromkeys(pipes, b"")
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while begun:
            for key, _ in selector.select():
                pipe = key.fd
                data = os.read(pipe, _CHUNK)
                *lines, begun[pipe] = (begun[pipe] + data).split(b"\n")
                for line in lines:
                    number, result = json.loads(line)
                    results[number] = result
                    done()
                if not data:
                    selector.unregister(pipe)
                    del begun[pipe]
