"""Which operators PyTorch's graphs consist of: those that have handlers, and what all others are
made of by PyTorch's own definitions.

Composite operators with a handler (``linear``, ``matmul``, attention) stay whole in exported
programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.frontend.torch.context import find_handler
from weft.frontend.torch.definitions import definitions
from weft.frontend.torch.importer import load_handlers
from weft.frontend.torch.torch_module import torch

# Operators whose definitions by PyTorch write to their results: no part of functional graphs.
_IN_PLACE = frozenset(
    {"aten.complex.default", "aten.diagonal_scatter.default", "aten.polar.default"}
)

Table = dict[Any, Callable[..., Any]]  # torch._ops.OpOverload -> its definition


def decompositions() -> Table:
    """PyTorch's definitions of what has no handler, for AOTAutograd."""
    return _without_handlers(_all_definitions())


def export_decompositions(program: Any) -> Table:
    """The same for ``run_decompositions`` of ``program``, an ``ExportedProgram``, with those of
    composite operators; and of LSTMs, which have a handler, where one has projected states."""
    every = {**_all_definitions(), **dict(torch().export.default_decompositions().items())}
    lstm = torch().ops.aten.lstm.input
    found = (node for node in program.graph.nodes if node.target == lstm)
    left = [lstm] if any(map(_is_projected, found)) else []
    return {**_without_handlers(every), **{op: every[op] for op in left}}


def _is_projected(lstm: Any) -> bool:
    """Whether the states of an LSTM are smaller than its cells."""
    state, cell = (value.meta["val"].shape[-1] for value in lstm.args[1])
    return bool(state != cell)


def _all_definitions() -> Table:
    load_handlers()
    decomp = torch()._decomp
    return {
        **decomp.decomposition_table,
        **decomp.core_aten_decompositions(),
        **definitions(),
        **_draws(),
    }


def _draws() -> Table:
    """Random numbers in the shape of a tensor, drawn for its sizes: PyTorch draws them, and no
    graph is cut where they depend on none of its results."""
    aten = torch().ops.aten

    def like(draw: Callable[..., Any]) -> Callable[..., Any]:
        def definition(x: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
            return draw(x.shape, dtype=dtype or x.dtype, device=device or x.device)

        return definition

    return {
        aten.rand_like.default: like(torch().rand),
        aten.randn_like.default: like(torch().randn),
    }


def _without_handlers(table: Table) -> Table:
    overload = torch()._ops.OpOverload
    return {
        op: definition
        for op, definition in table.items()
        if isinstance(op, overload) and find_handler(str(op)) is None and str(op) not in _IN_PLACE
    }
