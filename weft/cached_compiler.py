"""Compile a graph, or find it in the cache of compiled programs."""

from __future__ import annotations

import warnings
from dataclasses import replace

from weft.cache import open_cache
from weft.codegen.llvm_target import host_target
from weft.codegen.machines.host import host_machine
from weft.compiled import Compiled
from weft.compiled_cache import cache_key, find, store
from weft.compiler import compile_graph
from weft.errors import WeftWarning
from weft.executable import Executable
from weft.graph.canonical import canonical_text
from weft.graph.operator_graph import Graph
from weft.graph.printer import print_graph
from weft.options import Options


def compile_or_find(graph: Graph, options: Options) -> Executable:
    """``graph`` as machine code for this processor, kept between processes.

    ``stats["from_cache"]`` says which it was. A compilation that is to be watched (dumps, printed
    stages, full verification) happens.
    """
    watched = options.dump or options.print_after or options.verify == "full"
    if not options.cache or watched:
        return compile_graph(graph, options)
    cache = open_cache(options.cache_dir, options.cache_bytes)
    key = cache_key(_identity(graph), graph.constants.items(), host_target(), options)
    found = find(cache, key)
    if found is None or (options.texts and not found.texts):
        made = compile_graph(graph, options)
        store(cache, key, made.compiled)
        return made
    _warn_again(found)
    stats = {**found.stats, "from_cache": True}
    return Executable(replace(found, stats=stats), threads=options.threads)


def _identity(graph: Graph) -> str:
    """Everything about ``graph`` but the data of its constants; names too, for errors show them."""
    programs = [canonical_text(node.program) for node in graph.nodes]
    return "\n".join([print_graph(graph), *programs, repr(host_machine())])


def _warn_again(compiled: Compiled) -> None:
    """What was given up when compiling is given up still."""
    if compiled.stats.get("serial_fallbacks"):
        warnings.warn(
            f"{compiled.name}: some clusters run the serial schedule; explain() says which and why",
            WeftWarning,
            stacklevel=4,
        )
