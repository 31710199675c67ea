"""PyTorch's own samples of its operators through ``torch.compile(backend="weft")``.

    python -m tests.frontend.torch.opinfo [--n 3] [--only NAME] [--dtype float32] [--native]

For each operator: *compiled*, by Weft alone; *fallback*, right with parts left to PyTorch, or none
that PyTorch can trace; *wrong*; *crash*, of a typed error or not. Without ``--native`` the operator
graphs are interpreted.
PyTorch's samples need the package ``expecttest``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from weft.driver.compiler import compile_graph
from weft.driver.options import Options
from weft.frontend.torch.aot import compile_traced
from weft.ir.errors import WeftWarning
from weft.ir.graph_interpreter import interpret_graph
from weft.ir.graph_verifier import verify_graph
from weft.ir.operator_graph import Graph

UNDEFINED = frozenset({  # results that PyTorch leaves undefined, or draws
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform", "pca_lowrank",
    "svd_lowrank", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
})  # fmt: skip

FREE_INDICES = frozenset({  # PyTorch leaves open which of equal elements these name
    "kthvalue", "topk", "sort", "msort", "median", "nanmedian", "mode", "cummax", "cummin",
    "argsort", "max.reduction_with_dim", "min.reduction_with_dim",
})  # fmt: skip


@dataclass(slots=True)
class Found:
    """What became of an operator's samples."""

    kinds: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        worst = ("crash", "wrong", "fallback", "compiled")
        return next((kind for kind in worst if self.kinds[kind]), "no samples")


def interpreter(graph: Graph) -> Callable[..., Any]:
    verify_graph(graph)
    return lambda *arrays: interpret_graph(graph, arrays)


def native(graph: Graph) -> Callable[..., Any]:
    return compile_graph(graph, Options(workers=0, cache=False, threads=1))


class Backend:
    """Counts the graphs that it is given."""

    def __init__(self, compiler: Callable[[Graph], Callable[..., Any]]) -> None:
        self.compiler, self.graphs = compiler, 0

    def __call__(self, module: Any, inputs: Sequence[Any]) -> Any:
        self.graphs += 1
        return compile_traced(module, inputs, self.compiler)


def check(call: Callable[..., Any], leaves: Sequence[Any], backend: Backend) -> tuple[str, str]:
    """What became of one call, and why."""
    expected = call(*leaves)
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = torch.compile(call, backend=backend)(*leaves)
        except Exception as error:
            told = f"{type(error).__name__}: {str(error).strip()[:300]}"
            return ("crash" if traces(call, leaves) else "fallback"), told
    left = [str(w.message) for w in caught if issubclass(w.category, WeftWarning)]
    if not same(found, expected) and not as_close(found, expected, call, leaves):
        return "wrong", difference(found, expected)
    if left or not backend.graphs:
        return "fallback", left[0].splitlines()[0] if left else "nothing was traced"
    return "compiled", ""


def traces(call: Callable[..., Any], leaves: Sequence[Any]) -> bool:
    """Whether PyTorch itself can trace ``call``."""
    torch._dynamo.reset()
    try:
        torch.compile(call, backend="eager")(*leaves)
    except Exception:
        return False
    return True


def tolerance(expected: Any) -> dict[str, Any]:
    """That of the narrowest float among what is expected."""
    narrow = (torch.float16, torch.bfloat16)
    tensors = [x for x in tree_flatten(expected)[0] if isinstance(x, torch.Tensor)]
    if any(x.dtype in narrow for x in tensors):
        return {"rtol": 2e-2, "atol": 2e-2, "equal_nan": True}
    return {"rtol": 2e-4, "atol": 2e-5, "equal_nan": True}


def same(found: Any, expected: Any) -> bool:
    try:
        torch.testing.assert_close(found, expected, **tolerance(expected))
    except (AssertionError, TypeError):
        return False
    return True


def as_close(found: Any, expected: Any, call: Callable[..., Any], leaves: Sequence[Any]) -> bool:
    """Whether ``found`` is as near to what float64 gives as PyTorch is, within a factor of 4."""
    double = [t.double() if t.is_floating_point() else t for t in leaves]
    try:
        exact = tree_flatten(call(*double))[0]
    except Exception:
        return False
    for a, b, c in zip(tree_flatten(found)[0], tree_flatten(expected)[0], exact, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype or not b.is_floating_point():
            return False
        errors = [(t.double() - c).abs().nan_to_num().max() if t.numel() else 0 for t in (a, b)]
        if not torch.equal(a.isfinite(), b.isfinite()) or errors[0] > 4 * errors[1]:
            return False
    return True


def difference(found: Any, expected: Any) -> str:
    try:
        torch.testing.assert_close(found, expected, **tolerance(expected))
    except (AssertionError, TypeError) as error:
        return " ".join(str(error).split())[:300]
    return ""


def samples(
    op: Any, count: int, dtype: torch.dtype
) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """``count`` samples, spread over those that there are, as functions of tensors alone."""
    torch.manual_seed(0)
    np.random.seed(0)
    every = list(islice(op.sample_inputs("cpu", dtype), 60))
    step = max(len(every) // count, 1)
    for sample in every[::step][:count]:
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

        def call(*given: Any, leaves: Any = leaves, spec: Any = spec) -> Any:
            rest = iter(given)
            whole = [next(rest) if isinstance(x, torch.Tensor) else x for x in leaves]
            first, args, kwargs = tree_unflatten(whole, spec)
            found = op.op(first, *args, **kwargs)
            return found[0] if op.name in FREE_INDICES and isinstance(found, tuple) else found

        yield call, tree_map(lambda t: t.detach(), tensors)


def run(
    op: Any, count: int, compiler: Callable[[Graph], Callable[..., Any]], dtype: torch.dtype
) -> Found:
    found = Found()
    for call, tensors in samples(op, count, dtype):
        kind, note = check(call, tensors, Backend(compiler))
        if op.name in UNDEFINED and kind == "wrong":
            kind, note = "compiled" if "empty" in op.name else "fallback", "undefined"
        found.kinds[kind] += 1
        if note:
            found.notes[f"{kind}: {note}"] = None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=3, help="samples of each operator")
    parser.add_argument("--only", help="operators whose names contain this")
    parser.add_argument("--dtype", default="float32", help="of the samples")
    parser.add_argument("--shard", default="0/1", help="which part of how many")
    parser.add_argument("--native", action="store_true", help="machine code, not the interpreter")
    given = parser.parse_args(arguments)
    part, parts = map(int, given.shard.split("/"))
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    dtype = getattr(torch, given.dtype)
    chosen = [op for op in op_db if dtype in op.dtypes and "jiterator" not in op.name]
    if given.only:
        chosen = [op for op in chosen if given.only in op.name]
    totals: Counter[str] = Counter()
    for op in chosen[part::parts]:
        found = run(op, given.n, native if given.native else interpreter, dtype)
        totals[found.kind] += 1
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        print(f"{found.kind:10} {name:45} {'; '.join(found.notes)}", flush=True)
    print(dict(totals), file=sys.stderr)
    return 1 if totals["wrong"] or totals["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
