"""Providers: what runs subgraphs in Weft's place, a library or code by hand.

A provider is a function of a ``Subgraph`` that gives a callable on arrays, or None where it does
not take the subgraph; ``weft.place`` chooses among them. Nothing that one gives is believed
before it has been tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from weft.ir.errors import CompileError, did_you_mean
from weft.ir.operator_graph import Graph
from weft.ir.registry import Place, Registry

Layout = tuple[int, ...]  # the axes in the order in which they lie in memory, outermost first
WEFT = "weft"  # the name of Weft itself among providers


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """What a provider is asked for: ``graph``, all sizes of which are numbers, on so many
    ``threads``. ``to_onnx()`` is the same as a model of ONNX's, with inputs and outputs of the same
    names, or None: where its nodes are not those of the model that is placed. ``alone``: this is
    all of the model; otherwise threads that wait by spinning take processors from others."""

    graph: Graph
    threads: int
    to_onnx: Callable[[], onnx.ModelProto | None] = lambda: None
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs a subgraph: ``call(*arrays)`` takes the graph's inputs and gives its outputs, both
    in order, a single one as it is.

    An array is row-major unless ``inputs``, or ``outputs``, has another layout for its name: the
    axes in the order in which they lie in memory, outermost first. (0, 2, 3, 1) is that of images
    whose channels come last. Shapes stay those of the graph: only strides differ.
    """

    call: Callable[..., Any]
    inputs: Mapping[str, Layout] = field(default_factory=dict)
    outputs: Mapping[str, Layout] = field(default_factory=dict)


Provider = Callable[[Subgraph], Callable[..., Any] | Runner | None]


def register_provider(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, E0006 for what is no
    function."""
    if not callable(found):
        raise CompileError(
            "WEFT-E0006",
            f"provider {name} is a {type(found).__name__}, not a function of a subgraph",
            where=place.text,
        )
    if name == WEFT:
        raise CompileError(
            "WEFT-E0005", "weft is Weft's own name among providers", where=place.text
        )
    PROVIDERS.add(name, found, place, replace)


PROVIDERS: Registry[str, Provider] = Registry("provider", "weft.providers", register_provider)


def providers_of(given: Sequence[Provider | str]) -> dict[str, Provider]:
    """Those of ``given``, functions or names of registered ones, by name, without Weft. Raises
    ``CompileError`` (WEFT-E1501) for a name that none has, or that two have."""
    found: dict[str, Provider] = {}
    for each in given:
        if each == WEFT:
            continue
        provider = PROVIDERS.find(each) if isinstance(each, str) else each
        if not callable(provider):
            raise CompileError(
                "WEFT-E1501",
                f"there is no provider {each!r}",
                hint=did_you_mean(each, PROVIDERS.names())
                + "@weft.provider registers one: docs/providers.md",
            )
        name = each if isinstance(each, str) else getattr(each, "__name__", "provider")
        if name in found or name == WEFT:
            raise CompileError("WEFT-E1501", f"two providers are called {name!r}")
        found[name] = provider
    return found
