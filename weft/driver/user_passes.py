"""Passes over the operator graph that users bring: functions from graph to graph.

    Options(passes=(fold_factors, "another"))     functions, or names of registered ones

They run in this order before all of Weft's own, and before the cache is asked: the key is of the
graph that they give, so that it holds whatever a pass reads, a file or a closure. Nothing that one
gives is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.ir.errors import CompileError, InternalError, WeftError, did_you_mean
from weft.ir.graph_printer import print_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph
from weft.ir.registry import Place, Registry

GraphPass = Callable[[Graph], Graph]


def register_pass(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, E0006 for what is no
    function."""
    if not callable(found):
        raise CompileError(
            "WEFT-E0006",
            f"pass {name} is a {type(found).__name__}, not a function from graph to graph",
            where=place.text,
        )
    PASSES.add(name, found, place, replace)


PASSES: Registry[str, GraphPass] = Registry("pass", "weft.passes", register_pass)


def with_user_passes(graph: Graph, passes: Passes) -> Graph:
    """``graph`` after the passes of the options. Raises ``CompileError``: WEFT-E0008 for a name
    that no pass has, E0340 for a pass that fails or makes something else of the graph."""
    for name, action in user_stages(passes.options):
        graph = passes.run(name, partial(action, graph), show=print_graph)
    return graph


def user_stages(options: Options) -> tuple[tuple[str, GraphPass], ...]:
    """The passes by name, in order, each checked."""
    return tuple(map(_stage, options.passes))


def _stage(given: GraphPass | str) -> tuple[str, GraphPass]:
    function = PASSES.find(given) if isinstance(given, str) else given
    if function is None:
        raise CompileError(
            "WEFT-E0008",
            f"there is no pass {given!r}",
            hint=did_you_mean(given, PASSES.names())
            + "@weft.graph_pass registers one: docs/extending.md",
        )
    name = given if isinstance(given, str) else getattr(given, "__name__", "pass")
    return name, partial(_checked, name, function)


def _checked(name: str, function: GraphPass, graph: Graph) -> Graph:
    try:
        made = function(graph)
        if not isinstance(made, Graph):
            raise _wrong(name, f"it gives a {type(made).__name__}, not a graph")
        if (made.inputs, made.outputs) != (graph.inputs, graph.outputs):
            raise _wrong(name, "it changes what the inputs or outputs of the graph are")
        if made.in_place != graph.in_place:
            raise _wrong(name, "it changes which outputs share memory with inputs")
        verify_graph(made)
    except InternalError as error:
        why = f"{error.what}{f': {error.why}' if error.why else ''}"
        raise _wrong(name, why, error.where) from error
    except WeftError:
        raise
    except Exception as error:
        raise _wrong(name, f"{type(error).__name__}: {error}") from error
    return made


def _wrong(name: str, why: str, where: str = "") -> CompileError:
    return CompileError(
        "WEFT-E0340",
        f"pass {name} of Options.passes gives no graph that computes the same",
        where=where,
        why=why,
        hint="weft.GraphEdit keeps a graph well-formed: docs/extending.md",
    )
