"""``torch.compile(model, backend="weft")``: training, mutation, fallbacks, sizes, options."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from torch import nn  # noqa: E402

from tests.frontend.torch.run_torch import interpreter, traced  # noqa: E402
from weft.frontend.torch import aot  # noqa: E402
from weft.frontend.torch.layouts import layout_of  # noqa: E402
from weft.frontend.torch.tensors import laid_out  # noqa: E402
from weft.ir.errors import CompileError, WeftError, WeftWarning  # noqa: E402
from weft.torch_backend import backend, chosen_options  # noqa: E402

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


class Small(nn.Module):
    """A bit of everything that training meets: running statistics, a counter, pools, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4)
        self.table, self.head = nn.Embedding(7, 4), nn.Linear(4, 3)
        self.layer = nn.LayerNorm(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        y = torch.relu(self.norm(self.conv(x)))
        y = nn.functional.avg_pool2d(nn.functional.max_pool2d(y, 3, 2, 1), 2).flatten(2).mT
        y = (y + self.table(ids))[:, None]
        y = nn.functional.scaled_dot_product_attention(y, y * 2, y, is_causal=True)
        return self.head(self.layer(y[:, 0])).log_softmax(-1)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 2, 15, 16), torch.randint(0, 7, (2, 4))


def test_a_step_of_training() -> None:
    model = Small()
    ours = copy.deepcopy(model)
    x, ids = inputs()
    step = traced(lambda m, x, ids: m(x, ids))
    for m, call in ((model, lambda m, x, ids: m(x, ids)), (ours, step)):
        call(m, x.clone(), ids).square().sum().backward()
    for (name, a), b in zip(ours.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5, msg=name)
    for (name, a), b in zip(ours.named_buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)


def test_gradients_of_inputs_and_of_losses() -> None:
    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(x.t() @ x, target)

    x, target = torch.randn(5, 3, requires_grad=True), torch.tensor([0, 2, 1])
    (expected,) = torch.autograd.grad(loss(x, target), x)
    (found,) = torch.autograd.grad(traced(loss)(x, target), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("causal", "masked"), [(True, False), (False, True)])
def test_gradients_of_attention_with_groups_of_heads(causal: bool, masked: bool) -> None:
    def loss(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(15.0).view(3, 5) if masked else None
        found = nn.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=causal, enable_gqa=True
        )
        return found.sin().sum()

    shapes = (2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2)
    tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
    expected = torch.autograd.grad(loss(*tensors), tensors)
    found = torch.autograd.grad(traced(loss)(*tensors), tensors)
    torch.testing.assert_close(found, expected)


def test_machine_code_trains(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 2))
    ours = copy.deepcopy(model)
    options = {"workers": 0, "threads": 1, "cache_dir": str(tmp_path)}
    compiled = torch.compile(ours, backend=backend, options=options)
    for x in (torch.randn(3, 5), torch.randn(3, 5)):
        for m, call in ((model, model), (ours, compiled)):
            call(x).square().sum().backward()
            with torch.no_grad():
                for parameter in m.parameters():
                    parameter -= 0.1 * parameter.grad
    for a, b in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_what_is_written_in_place_and_what_is_a_view() -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        y = x + 1
        y[0] = 7
        return y, x.t(), x[1:], x, y.view(-1)

    a = torch.randn(3, 5)
    b = a.clone()
    expected, found = call(a), traced(call)(b)
    torch.testing.assert_close(found, expected)
    assert found[3] is b and found[1].data_ptr() == b.data_ptr()
    found[4][0] = 100
    assert found[0][0, 0] == 100


def test_views_of_what_begins_elsewhere() -> None:
    """Dynamo does not guard where in its memory a tensor begins."""
    base = torch.arange(20.0).view(5, 4)
    compiled = traced(lambda x: (x[1:, ::2], x * 2))
    for part in (base[:3], base[1:4], base[2:]):
        view, double = compiled(part)
        assert torch.equal(view, part[1:, ::2]) and torch.equal(double, part * 2)
        assert view.data_ptr() == part[1:].data_ptr()


def test_a_view_of_what_lies_otherwise() -> None:
    x = torch.arange(12.0).view(3, 4)
    other = x.t().contiguous().t()
    assert other.stride() != x.stride()
    assert torch.equal(laid_out(other, layout_of(x)), x)
    assert laid_out(other, layout_of(x)).stride() == x.stride()
    assert laid_out(x, layout_of(x)) is x


@pytest.mark.parametrize("layout", ["channels_last", "expanded", "transposed", "offset"])
def test_strides_are_kept(layout: str) -> None:
    x = torch.randn(2, 3, 4, 5)
    given = {
        "channels_last": x.to(memory_format=torch.channels_last),
        "expanded": x[:1].expand(2, -1, -1, -1),
        "transposed": x.transpose(0, 3),
        "offset": x[:, 1:, ::2],
    }[layout]

    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2, torch.relu(x).permute(3, 0, 2, 1), (x[:1] + 1).expand(4, -1, -1, -1)

    expected, found = call(given), traced(call)(given)
    torch.testing.assert_close(found, expected, check_stride=True)


def test_channels_last_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def compiler(graph: Any) -> Any:
        def run(*arrays: np.ndarray) -> Any:
            seen.extend(arrays)
            return tuple(np.zeros([int(n) for n in v.shape], v.dtype.numpy) for v in graph.outputs)

        return run

    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    torch.compile(torch.sin, backend=lambda m, i: aot.compile_traced(m, i, compiler))(x)
    assert seen[0].flags.c_contiguous and np.shares_memory(seen[0], x.numpy())


def test_unknown_operators_are_left_to_pytorch_and_listed_once() -> None:
    graphs: list[Any] = []

    def compiler(graph: Any) -> Any:
        graphs.append(graph)
        return interpreter(graph)

    def call(x: torch.Tensor) -> torch.Tensor:
        y = torch.special.gammainc(x * x, x * 2 + 1) * 3
        return torch.special.laguerre_polynomial_l(y + 2, x * 0 + 1) + 1

    x = torch.randn(3, 3) * 0.1
    compiled = torch.compile(call, backend=lambda m, i: aot.compile_traced(m, i, compiler))
    with pytest.warns(WeftWarning) as caught:
        found = compiled(x)
    torch.testing.assert_close(found, call(x))
    (warning,) = [w for w in caught if issubclass(w.category, WeftWarning)]
    text = str(warning.message)
    assert "prims.igamma.default" in text and "aten.special_laguerre_polynomial_l" in text
    assert "test_backend.py" in text and "torch.special.gammainc" in text
    assert len(graphs) == 3


def test_random_numbers_are_pytorchs_and_cut_no_graph() -> None:
    graphs: list[Any] = []

    def compiler(graph: Any) -> Any:
        graphs.append(graph)
        return interpreter(graph)

    def call(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        return nn.functional.dropout(y, 0.25) + y

    x = torch.rand(20, 10).add(0.1).requires_grad_()
    compiled = torch.compile(call, backend=lambda m, i: aot.compile_traced(m, i, compiler))
    with pytest.warns(WeftWarning, match="aten.rand.default"):
        found = compiled(x)
    found.sum().backward()
    kept = found > 1.5 * x.sin()
    assert 100 < kept.sum() < 190
    factor = 1 + kept / 0.75
    torch.testing.assert_close(found, x.sin() * factor)
    torch.testing.assert_close(x.grad, x.cos() * factor)
    assert len(graphs) == 2


def test_a_graph_that_the_compiler_refuses_is_left_to_pytorch() -> None:
    def refusing(graph: Any) -> Any:
        raise CompileError("WEFT-E0572", "out of memory")

    compiled = torch.compile(torch.sin, backend=lambda m, i: aot.compile_traced(m, i, refusing))
    with pytest.warns(WeftWarning, match="out of memory"):
        assert torch.equal(compiled(torch.ones(3)), torch.sin(torch.ones(3)))


def counted(call: Any) -> tuple[Any, list[Any]]:
    """``call`` compiled for open sizes, and the graphs that were compiled for it."""
    graphs: list[Any] = []

    def compiler(graph: Any) -> Any:
        graphs.append(graph)
        return interpreter(graph)

    def backend(module: Any, inputs: Any) -> Any:
        return aot.compile_traced(module, inputs, compiler)

    return torch.compile(call, dynamic=True, backend=backend, fullgraph=True), graphs


@pytest.mark.long
def test_open_sizes_are_compiled_once_forward_and_backward() -> None:
    model, graphs = counted(Small())
    ours, theirs = model._orig_mod, copy.deepcopy(model._orig_mod)
    for b, size in ((3, 15), (8, 19), (5, 31), (7, 23), (4, 17)):
        x, ids = torch.randn(b, 2, size, size + 4), torch.randint(0, 7, (b, 1))
        expected, found = theirs(x, ids), model(x, ids)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        for m, y in ((ours, found), (theirs, expected)):
            m.zero_grad()
            y.square().sum().backward()
        for a, c in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, c.grad, rtol=1e-4, atol=1e-4)
    assert len(graphs) == 2


def test_views_and_numbers_of_open_sizes() -> None:
    def call(x: torch.Tensor) -> Any:
        y = x * x.shape[1]
        return y, y.t(), x[1:], x.shape[0] * 2, torch.arange(x.shape[0]) + x.numel()

    compiled, graphs = counted(call)
    for shape in ((3, 4), (5, 7), (6, 2), (9, 9), (4, 11)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), call(x), check_stride=True)
    assert len(graphs) == 1
    torch.testing.assert_close(compiled(x.t()), call(x.t()), check_stride=True)
    torch.testing.assert_close(compiled(x[:, 1:4]), call(x[:, 1:4]), check_stride=True)


def test_sizes_that_have_to_be_known_are_those_of_the_call() -> None:
    compiled, graphs = counted(lambda x: x.sort()[0] * 2)
    with pytest.warns(WeftWarning, match=aot.SPECIALISED):
        for size in (5, 7):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x), x.sort()[0] * 2)
    assert len(graphs) == 2


def test_numbers_and_none_among_results() -> None:
    def call(x: torch.Tensor, n: int) -> Any:
        y = x + 1
        return x * n, None, n, [y, y]

    x = torch.randn(3)
    found = traced(call)(x, 4)
    assert found[1] is None and found[2] == 4
    assert found[3][0].data_ptr() == found[3][1].data_ptr()
    torch.testing.assert_close((found[0], found[3][0]), (x * 4, x + 1))


@pytest.mark.parametrize(
    ("mode", "options"), [(None, {"treads": 2}), ("max-autotune", {}), (None, {"threads": 0})]
)
def test_options_that_are_none(mode: str | None, options: dict[str, object]) -> None:
    with pytest.raises(WeftError) as caught:
        chosen_options(mode, options)
    assert caught.value.code == ("WEFT-E0001" if "threads" in options else "WEFT-E0031")


def test_options_reach_the_compiler() -> None:
    assert chosen_options(None, {"strict": True, "threads": 2}).strict


def test_texts_that_nobody_can_read_are_not_made() -> None:
    assert not chosen_options(None, {}).texts
    assert chosen_options(None, {"texts": True}).texts


def test_pytorch_finds_the_backend_by_its_name() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    table = text.split('[project.entry-points."torch_dynamo_backends"]\n')[1]
    assert table.splitlines()[0] == 'weft = "weft.torch_backend:backend"'
