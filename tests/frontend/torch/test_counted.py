"""Results whose sizes depend on data: computed by Weft, and what follows compiled once, beside
PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from tests.frontend.torch.run_torch import interpreter  # noqa: E402
from weft.driver.compiler import compile_graph  # noqa: E402
from weft.driver.options import Options  # noqa: E402
from weft.frontend.torch.aot import compile_traced  # noqa: E402
from weft.ir.errors import WeftWarning  # noqa: E402
from weft.ir.operator_graph import Graph  # noqa: E402

SIZE = 7 * 3
COUNTS = (3, 0, SIZE, 1, 13, 5, SIZE - 1)

Call = Callable[..., Any]


def data(count: int) -> torch.Tensor:
    """7 × 3: positive at ``count`` random places, negative at the others."""
    generator = torch.Generator().manual_seed(count)
    x = -torch.ones(SIZE)
    places = torch.randperm(SIZE, generator=generator)[:count]
    x[places] = torch.randint(1, 4, (count,), generator=generator).float()
    return x.reshape(7, 3)


def native(graph: Graph) -> Call:
    return compile_graph(graph, Options(workers=0, cache=False, threads=1))


def counting(call: Call, compiler: Callable[[Graph], Call] = interpreter) -> tuple[Call, list[Any]]:
    """``call`` through ``torch.compile`` as one graph, and the graphs that that compiles."""
    graphs: list[Graph] = []

    def compiled(graph: Graph) -> Call:
        graphs.append(graph)
        return compiler(graph)

    def backend(module: Any, inputs: Sequence[Any]) -> Any:
        return compile_traced(module, inputs, compiled)

    torch._dynamo.reset()
    return torch.compile(call, backend=backend, fullgraph=True), graphs


@pytest.fixture(autouse=True)
def whole_graphs() -> Any:
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


def both(v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return v * 2 + 1, v.sum(), torch.cat([v, v])


KNOWN: dict[str, Call] = {
    "elements of a mask": lambda x: both(x[x > 0]),
    "rows of a mask": lambda x: x[x[:, 0] > 0] @ x.t(),
    "a mask over the first of three dimensions": lambda x: x[:, :, None][x > 0] + 1,
    "a choice among what was chosen": lambda x: (lambda v: (v, v[v > 2] * 3))(x[x > 0]),
    "places": lambda x: torch.nonzero(x > 0) * 2,
    "places of bools, a column each": lambda x: x[torch.nonzero(x > 0, as_tuple=True)] + 1,
    "argwhere of floats": lambda x: torch.argwhere(x.relu()) + 1,
    "one mask for all rows": lambda x: torch.masked_select(x, x[0] > 0).exp(),
    "the count as a number": lambda x: (lambda v: v * v.shape[0])(x[x > 0]),
    "a number that is an element": lambda x: x.relu() * x.sum().item(),
    "a result as it is": lambda x: x[x > 0],
}

LEFT: dict[str, Call] = {
    "different elements": lambda x: torch.unique(x) + 1,
    "a mask behind another dimension": lambda x: x[:, x[0] > 0] * 2,
    "repetitions": lambda x: torch.repeat_interleave(x, (x[:, 0] > 0).long() + 1, 0) * 2,
    "a size that is an element": lambda x: torch.zeros(int((x > 0).sum().item())) + x.sum(),
}


@pytest.mark.parametrize("name", KNOWN)
def test_any_count_is_computed_by_what_was_compiled_for_the_first(name: str) -> None:
    compiled, graphs = counting(KNOWN[name])
    before = 0
    for count in COUNTS:
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeftWarning)
            found = compiled(data(count))
        torch.testing.assert_close(found, KNOWN[name](data(count)))
        before = before or len(graphs)
        assert len(graphs) == before


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_pytorch_is_named(name: str) -> None:
    compiled, _ = counting(LEFT[name])
    with pytest.warns(WeftWarning, match="depends on data"):
        found = compiled(data(3))
    torch.testing.assert_close(found, LEFT[name](data(3)))
    for count in COUNTS:
        torch.testing.assert_close(compiled(data(count)), LEFT[name](data(count)))


def test_the_same_as_machine_code() -> None:
    compiled, graphs = counting(KNOWN["elements of a mask"], native)
    for count in COUNTS:
        torch.testing.assert_close(compiled(data(count)), both(data(count)[data(count) > 0]))
    assert len(graphs) == 3  # up to the mask, what it chooses, what follows


def test_open_sizes_of_arguments_too() -> None:
    compiled, graphs = counting(KNOWN["elements of a mask"])
    for rows in (7, 5, 2, 6):
        x = data(9)[:rows]
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), both(x[x > 0]))
    assert len(graphs) == 3


@pytest.mark.parametrize("shape", [(0, 3), (0,), (1,), ()])
@pytest.mark.parametrize("fill", [0.0, 2.0])
def test_of_few_elements(shape: tuple[int, ...], fill: float) -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = torch.nonzero(x) + 1, torch.masked_select(x, x > 0) + 1
        return (*found, x[x > 0] + 1) if x.dim() else found  # PyTorch refuses to trace the last

    compiled, _ = counting(call, native)
    x = torch.full(shape, fill)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)
        torch.testing.assert_close(compiled(x), call(x))


def test_gradients() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return (x[x > 0] ** 2).sum()

    compiled, _ = counting(loss)
    for count in COUNTS:
        x, y = (data(count).requires_grad_() for _ in range(2))
        compiled(x).backward()
        loss(y).backward()
        torch.testing.assert_close(x.grad, y.grad)
