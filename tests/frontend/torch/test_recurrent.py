"""Recurrent layers of PyTorch stay whole, and compute what it computes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from torch import nn  # noqa: E402

from tests.frontend.torch.run_torch import exported, interpreted  # noqa: E402
from weft.frontend.torch.exported import import_exported  # noqa: E402
from weft.ir.errors import UnsupportedError  # noqa: E402

DYNAMIC = torch.export.Dim.DYNAMIC
LAYERS = {
    "lstm": lambda: nn.LSTM(3, 4),
    "lstm, two layers, both directions": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "lstm, no bias, batch first": lambda: nn.LSTM(3, 4, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(3, 4, 2, batch_first=True),
    "gru, no bias, both directions": lambda: nn.GRU(3, 4, bias=False, bidirectional=True),
    "rnn": lambda: nn.RNN(3, 4, bidirectional=True),
    "rnn, relu": lambda: nn.RNN(3, 4, 2, nonlinearity="relu"),
}


class With(nn.Module):
    """A layer that begins with given states, ``h`` and for an LSTM ``c``."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x, *states):  # type: ignore[no-untyped-def]
        return self.layer(x, states if len(states) > 1 else states[0]) if states else self.layer(x)


def states_of(layer: nn.RNNBase, batch: int) -> list[torch.Tensor]:
    passes = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size]
    return [torch.randn(passes, batch, n) for n in sizes[: 2 if layer.mode == "LSTM" else 1]]


def close(found: object, expected: object) -> None:
    flat = torch.utils._pytree.tree_leaves
    for one, other in zip(flat(found), flat(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("given", [False, True], ids=["from zeros", "given states"])
def test_a_layer_is_one_operator(name: str, given: bool) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]()
    model = With(layer).eval()
    states = states_of(layer, 2) if given else []
    x = torch.randn(*((2, 5, 3) if layer.batch_first else (5, 2, 3)))
    program = exported(model, (x, *states))
    found = [node.op for node in program.imported.graph.nodes]
    assert found.count(layer.mode.split("_")[0].lower()) == layer.num_layers
    with torch.no_grad():
        close(interpreted(program)(x, *states), model(x, *states))


def test_an_open_batch() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LSTM(3, 4, 2, bidirectional=True)).eval()
    x = torch.randn(5, 3, 3)
    program = import_exported(torch.export.export(model, (x,), dynamic_shapes=({1: DYNAMIC},)))
    call = interpreted(program)
    for batch in (1, 2, 7):
        x = torch.randn(5, batch, 3)
        with torch.no_grad():
            close(call(x), model(x))


def test_projected_states_are_written_out_by_pytorch() -> None:
    torch.manual_seed(0)
    model, x = With(nn.LSTM(3, 4, proj_size=2)).eval(), torch.randn(3, 2, 3)
    program = exported(model, (x,))
    assert "lstm" not in [node.op for node in program.imported.graph.nodes]
    with torch.no_grad():
        close(interpreted(program)(x), model(x))


def test_dropout_between_layers_is_refused() -> None:
    model = With(nn.GRU(3, 4, 2, dropout=0.5)).train()
    with pytest.raises(UnsupportedError, match="dropout between layers draws random numbers") as e:
        exported(model, (torch.randn(3, 2, 3),))
    assert e.value.code == "WEFT-E0272"
