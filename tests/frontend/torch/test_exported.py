"""``weft.compile`` of exported programs and of modules: calls, state, files, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from torch import nn  # noqa: E402

import weft  # noqa: E402
from tests.frontend.torch.run_torch import exported, interpreted  # noqa: E402
from tests.weft.registered import forgotten  # noqa: E402
from weft.app.cli import cli  # noqa: E402
from weft.frontend.torch import torch_module  # noqa: E402
from weft.frontend.torch.context import HANDLERS  # noqa: E402
from weft.frontend.torch.exported import import_exported  # noqa: E402
from weft.ir.errors import WeftError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
OPTIONS = weft.Options(workers=0, threads=1)


class Counter(nn.Module):
    """Reads and writes buffers, takes a number and a nested argument, returns a nested result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("total", torch.zeros(2))
        self.register_buffer("shift", torch.tensor([1.0, -1.0]))

    def forward(self, x: torch.Tensor, more: dict[str, Any], scale: int = 2) -> Any:
        y = self.linear(x) * scale + self.shift
        self.total += y.sum(0)
        return {"y": y, "rest": (more["z"].t() + 1, self.total * 1, None)}


def arguments() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return torch.randn(4, 3), {"z": torch.randn(2, 5)}


def test_nested_calls_and_state() -> None:
    model, args = Counter().eval(), arguments()
    program = weft.compile(torch.export.export(model, args), options=OPTIONS)
    assert isinstance(program, weft.TorchModel)
    for _ in range(2):
        expected, found = model(*args), program(*args)
        torch.testing.assert_close(found, expected, check_stride=True)
    np.testing.assert_allclose(program.state["total"], model.total.detach(), rtol=1e-6)


def test_numpy_in_numpy_out() -> None:
    model, (x, more) = Counter().eval(), arguments()
    program = interpreted(exported(model, (x, more)))
    found = program(x.numpy(), {"z": more["z"].numpy()})
    assert isinstance(found["y"], np.ndarray) and found["rest"][2] is None
    np.testing.assert_allclose(found["y"], model(x, more)["y"].detach(), rtol=1e-5)


def test_a_module_and_a_file_are_compiled_alike(tmp_path: Path) -> None:
    model, args = nn.Sequential(nn.Linear(3, 4), nn.Tanh()).eval(), (torch.randn(2, 3),)
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(model, args), path)
    for program in (weft.compile(model, args, options=OPTIONS), weft.compile(str(path))):
        torch.testing.assert_close(program(*args), model(*args).detach())


def test_the_command_line_and_a_run_without_pytorch(tmp_path: Path) -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    np.save(tmp_path / "x.npy", x.numpy())
    files = [str(tmp_path / name) for name in ("m.pt2", "m.weft")]
    done = CliRunner().invoke(cli, ["compile", files[0], "-o", files[1]])
    assert done.exit_code == 0, done.output
    script = (
        "import sys, numpy, weft; p = weft.load('m.weft'); "
        "numpy.save('y.npy', p(numpy.load('x.npy'))); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(x).detach(), rtol=1e-5)


def test_explain_speaks_of_modules_and_lines() -> None:
    model, args = Counter(), arguments()
    text = weft.compile(model, args, options=OPTIONS).explain()
    assert "linear/linear (linear)" in text
    assert "module 'linear'" in text and "test_exported.py" in text


def test_import_weft_loads_no_pytorch() -> None:
    script = "import sys, weft; weft.compile; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_input_that_is_written_to() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
            cache[:, 1] = x
            return cache.sum()

    model, x = Adds(), torch.randn(3)
    a, b = torch.ones(3, 2), torch.ones(3, 2)
    program = weft.compile(model, (x, torch.zeros(3, 2)), options=OPTIONS)
    torch.testing.assert_close(program(x, b), model(x, a))
    assert torch.equal(a, b)


# ---- refusals -----------------------------------------------------------------------------------


def code(action: Any) -> str:
    with pytest.raises(WeftError) as caught:
        action()
    return caught.value.code.removeprefix("WEFT-")


class Unknown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        special = torch.special
        self.inner.forward = lambda x: special.laguerre_polynomial_l(special.gammainc(x, x), x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner.forward(x) + torch.special.gammainc(x, x)


def test_unknown_operators_are_listed_at_once() -> None:
    with pytest.raises(weft.UnsupportedError) as caught:
        weft.compile(Unknown(), (torch.eye(3),))
    error = caught.value
    assert error.code == "WEFT-E0271"
    assert error.what == (
        "operators that Weft does not compile: prims.igamma.default,"
        " aten.special_laguerre_polynomial_l.default"
    )
    assert error.where.count("test_exported.py") == 3


class Call(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


REFUSED = {
    "complex": (lambda x: torch.view_as_real(torch.complex(x, x)), (torch.randn(3),)),
    "masks": (lambda x: x.index_put((x > 0,), torch.randn(3)), (torch.randn(3),)),
    "dropout": (
        lambda x: torch.ops.aten.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
        (torch.randn(1, 1, 3, 2),),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_uses_that_are_refused(name: str) -> None:
    function, args = REFUSED[name]
    assert code(lambda: weft.compile(Call(function), args)) in ("E0271", "E0272")


def test_a_model_that_cannot_be_exported() -> None:
    model = Call(lambda x: x if x.sum() > 0 else -x)
    assert code(lambda: weft.compile(model, (torch.ones(3),))) == "E0274"


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(b"no archive")
    assert code(lambda: weft.compile(str(path))) == "E0275"
    assert code(lambda: weft.compile(tmp_path / "missing.pt2")) == "E0275"


def test_arguments_that_are_missing_or_out_of_place() -> None:
    assert code(lambda: weft.compile(nn.Linear(2, 2))) == "E0030"
    x = weft.placeholder((2,), name="x")
    assert code(lambda: weft.compile(x, (1,))) == "E0030"


def test_calls_that_do_not_fit() -> None:
    model, (x, more) = Counter(), arguments()
    program = interpreted(exported(model, (x, more, 3)))
    assert code(lambda: program(x)) == "E0632"
    assert code(lambda: program(x, more, 4)) == "E0632"
    assert code(lambda: program("x", more, 3)) == "E0632"
    compiled = weft.compile(nn.Linear(3, 2), (x,), options=OPTIONS)
    assert code(lambda: compiled(x.double())) == "E0603"
    assert code(lambda: compiled(x[:2])) == "E0605"


def test_pytorch_that_is_missing_or_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    find = torch_module.torch.__wrapped__
    monkeypatch.setitem(sys.modules, "torch", None)
    assert code(find) == "E0270"

    class Old:
        __version__ = "1.13.0"

    monkeypatch.setitem(sys.modules, "torch", Old)
    assert code(find) == "E0270"


def test_a_handler_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(Call(lambda x: torch.sin(x)), (torch.ones(3),))
    import_exported(program)  # handlers are loaded
    sin = HANDLERS._plain["aten.sin"]
    wrong = type(sin)(lambda node, x: node.call("reshape", x, shape=(3, 1)), sin.place)
    monkeypatch.setitem(HANDLERS._plain, "aten.sin", wrong)
    assert code(lambda: import_exported(program)) == "E0279"


# ---- handlers from outside ----------------------------------------------------------------------


def test_a_handler_from_outside_counts_instead() -> None:
    with forgotten():

        @weft.torch_handler("aten.sin", replace=True)
        def doubled(node: Any, x: weft.Value) -> weft.Value:
            return node.call("add", x, x)

        model, x = Call(lambda x: torch.sin(x)), torch.ones(3)
        found = interpreted(exported(model, (x,)))(x)
        assert torch.equal(found, x * 2)


def test_handlers_that_are_none() -> None:
    assert code(lambda: weft.torch_handler("aten.sin")(lambda node, x: x)) == "E0005"
    assert code(lambda: weft.torch_handler("sin")) == "E0006"
    assert code(lambda: weft.torch_handler("mylib.mine")(3)) == "E0006"
