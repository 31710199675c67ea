"""Versions of a program for some of its open sizes: ahead of time, or while calls go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

from weft.graph.specialize import specialize, symbols_of
from weft.ir.errors import CompileError, WeftError
from weft.ir.operator_graph import Graph
from weft.runtime.executable import Executable
from weft.runtime.versions import Versions, size_places, text_of

Specialize: TypeAlias = Sequence[Mapping[str, int]] | Literal["background"]
"""Sizes by name, one mapping for each version; or "background"."""
CompileGraph = Callable[[Graph], Executable]

MOST = 8  # versions that are made in the background
CALLS = 2  # of the same sizes, before these are worth a version

_LOG = logging.getLogger("weft.versions")


def specialized(
    program: Executable, graph: Graph, wanted: Specialize, compile_graph: CompileGraph
) -> Executable:
    """``program``, which is ``graph`` compiled, with the versions that are ``wanted``.

    Raises ``CompileError``: WEFT-E0033 for sizes that it does not have, E0034 for such as break
    what it assumes, E0035 for what is no such list, and as ``compile_graph`` does.
    """
    versions: Versions[Executable] = Versions(program.inputs)
    if wanted == "background":
        if symbols_of(graph):
            versions.missed = _Background(graph, versions, compile_graph)
        return program.with_versions(versions)
    if not isinstance(wanted, list | tuple):
        raise _refused(wanted)
    for sizes in wanted:
        if not isinstance(sizes, Mapping):
            raise _refused(wanted)
        versions.add(sizes, compile_graph(specialize(graph, sizes)))
    return program.with_versions(versions)


def _refused(wanted: object) -> CompileError:
    return CompileError(
        "WEFT-E0035",
        f"specialize cannot be {wanted!r}",
        hint='[{"batch": 1}, …], sizes by name for each version, or "background"',
    )


class _Background:
    """Compiles versions for the sizes that calls have, one at a time, in a thread: at most
    ``MOST``, each for sizes that came ``CALLS`` times."""

    def __init__(
        self, graph: Graph, versions: Versions[Executable], compile_graph: CompileGraph
    ) -> None:
        self.graph, self.versions, self.compile_graph = graph, versions, compile_graph
        self.places = size_places(versions.inputs)
        self.calls: dict[tuple[int, ...], int] = {}
        self.begun = 0
        self.lock = threading.Lock()
        self.thread: ThreadPoolExecutor | None = None

    def __call__(self, given: Sequence[Any]) -> None:
        """Take note of a call with these arguments."""
        if self.begun >= MOST:
            return
        key = tuple([given[k].shape[d] for k, d in self.places.values()])
        with self.lock:
            self.calls[key] = self.calls.get(key, 0) + 1
            if self.calls[key] != CALLS or self.begun >= MOST:
                return
            self.begun += 1
            self.calls = {k: n for k, n in self.calls.items() if n >= CALLS}
            if self.thread is None:
                self.thread = ThreadPoolExecutor(1, "weft versions")
            self.thread.submit(self.make, dict(zip(self.places, key, strict=True)))

    def make(self, sizes: Mapping[str, int]) -> None:
        """A version for ``sizes``; where it cannot be made, the program serves them as before."""
        if not threading.main_thread().is_alive():
            return  # nobody will call it
        try:
            self.versions.add(sizes, self.compile_graph(specialize(self.graph, sizes)))
        except WeftError as error:
            _LOG.warning("%s has no version for %s: %s", self.graph.name, text_of(sizes), error)
