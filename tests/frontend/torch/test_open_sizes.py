"""Models with open sizes: compiled once, right at every size, refused beyond what was proved."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from torch import nn  # noqa: E402

import weft  # noqa: E402
from tests.frontend.torch.open_models import DYNAMIC, MODELS, exported_open  # noqa: E402
from tests.frontend.torch.run_torch import interpreted  # noqa: E402
from weft.frontend.torch.exported import import_exported  # noqa: E402
from weft.ir.errors import CallError, WeftError  # noqa: E402
from weft.ir.scalar_expr import Var  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
OPTIONS = weft.Options(workers=0, threads=1)
SIZES = [(2, 5), (1, 1), (3, 7), (5, 5), (1, 13), (4, 2), (0, 3)]


def check(name: str, program: Any, model: nn.Module) -> None:
    for b, s in SIZES:
        arguments = MODELS[name][1](b, s)
        with torch.no_grad():
            expected = model(*arguments)
        found = program(*arguments)
        strides = b > 0  # arrays of no elements have none
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, check_stride=strides)


@pytest.mark.parametrize("name", MODELS)
def test_models_as_they_are_imported(name: str) -> None:
    model, program = exported_open(name)
    check(name, interpreted(import_exported(program)), model)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "perceptron" else pytest.mark.long) for n in MODELS],
)
def test_models_as_machine_code(name: str) -> None:
    model, program = exported_open(name)
    check(name, weft.compile(program, options=OPTIONS), model)


class Call(nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: torch.Tensor) -> Any:
        return self.call(*args)


def opened(call: Any, *arguments: torch.Tensor, dims: Any = None) -> Any:
    """``call`` exported with all sizes open, or with ``dims``."""
    every = dims or tuple(dict.fromkeys(range(t.dim()), DYNAMIC) for t in arguments)
    program = torch.export.export(Call(call), arguments, dynamic_shapes={"args": every})
    return interpreted(import_exported(program))


def refused(action: Any) -> WeftError:
    with pytest.raises(WeftError) as caught:
        action()
    return caught.value


def test_calls_outside_the_range_of_the_export() -> None:
    _, program = exported_open("decoder")
    compiled = weft.compile(program, options=OPTIONS)
    error = refused(lambda: compiled(torch.zeros(2, 17, dtype=torch.int64)))
    assert isinstance(error, CallError) and error.code == "WEFT-E0608"
    assert error.what == "model was compiled for s <= 16"
    assert error.where == "b = 2, s = 17"


def test_sizes_that_the_export_makes_equal() -> None:
    """Neither PyTorch nor the user says that there are as many keys as values."""
    _, program = exported_open("cached")
    graph = import_exported(program).imported.graph
    keys, values = (v.shape for v in graph.inputs[-2:])
    assert keys == values
    compiled = weft.compile(program, options=OPTIONS)
    x, keys, values = MODELS["cached"][1](2, 3)
    error = refused(lambda: compiled(x, keys, values[:, :, 1:]))
    assert error.code == "WEFT-E0605" and "dimension 2 of values" in error.what


def test_conditions_of_the_model_are_kept_by_files(tmp_path: Path) -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        return x[: x.shape[0] // 2] * 2 if x.shape[0] % 2 == 0 else x

    program = torch.export.export(
        Call(halves), (torch.randn(6),), dynamic_shapes={"args": ({0: DYNAMIC},)}
    )
    torch.export.save(program, tmp_path / "halves.pt2")
    for source in (program, tmp_path / "halves.pt2"):
        compiled = weft.compile(source, options=OPTIONS)
        x = torch.randn(10)
        torch.testing.assert_close(compiled(x), halves(x))
        error = refused(lambda call=compiled: call(torch.randn(9)))
        assert error.code in ("WEFT-E0605", "WEFT-E0608")
        assert re.search("2", error.what)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x.shape[0] + x.shape[1] / 2,
        lambda x: torch.full_like(x, x.shape[1]),
        lambda x: torch.arange(x.shape[0], x.shape[0] + x.shape[1]) * x.sum(0),
        lambda x: x.reshape(-1)[1:].cumsum(0),
        lambda x: (x.var(0), x.mean(1), x.std(correction=2)),
        lambda x: x.flip(0).roll(1, 1),
        lambda x: torch.cat([x, x[:1], x[:, :].neg()], 0),
        lambda x: torch.nn.functional.pad(x, (1, 2)).unfold(1, 3, 1),
        lambda x: x.view(-1, 1).expand(-1, 3).sum(0),
        lambda x: (x.argmax(), x.max(0), x[-1], x[:, -2:]),
        lambda x: x.t() @ x,
        lambda x: torch.tril(x[:, None] + x[None], -1),
    ],
)
def test_functions_of_sizes(call: Any) -> None:
    program = opened(call, torch.randn(4, 6))
    for shape in [(4, 6), (3, 7), (5, 5), (2, 11), (7, 3)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), call(x), check_stride=True)


def test_names_of_sizes_that_axes_have() -> None:
    i, k = torch.export.Dim("i"), torch.export.Dim("k")
    program = opened(
        lambda x: (torch.arange(x.shape[0], x.shape[0] + 4), x.t() @ x),
        torch.randn(3, 5),
        dims=({0: i, 1: k},),
    )
    x = torch.randn(7, 2)
    torch.testing.assert_close(program(x), (torch.arange(7, 11), x.t() @ x))


def test_sizes_that_have_to_be_known() -> None:
    error = refused(lambda: opened(lambda x: x.sort()[0], torch.randn(5)))
    assert error.code == "WEFT-E0273"
    error = refused(lambda: opened(lambda x: torch.unique(x) * 2, torch.randn(5)))
    assert error.code == "WEFT-E0273"


@pytest.mark.long
@pytest.mark.parametrize("name", ["perceptron", "cached", "images"])
def test_each_pass_is_right_on_small_instances(name: str) -> None:
    model, program = exported_open(name)
    with warnings.catch_warnings():  # where sizes are those of other clusters' values
        warnings.simplefilter("ignore", weft.WeftWarning)
        check(name, weft.compile(program, options=replace(OPTIONS, verify="full")), model)


def test_memory_stays_what_the_largest_call_needs() -> None:
    _, program = exported_open("perceptron")
    compiled = weft.compile(program, options=OPTIONS)
    calls = [np.zeros((n, 8), np.float32) for n in np.random.default_rng(0).integers(1, 300, 64)]
    held = []
    tracemalloc.start()
    try:
        for n in range(3000):
            compiled(calls[n % len(calls)])
            if n % 1000 == 999:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[2] - held[1] < 1 << 15


def test_versions_for_some_sizes() -> None:
    model, program = exported_open("perceptron")
    (x,) = weft.compile(program, options=OPTIONS).executable.inputs
    (name,) = (size.name for size in x.shape if isinstance(size, Var))
    compiled = weft.compile(program, options=OPTIONS, specialize=[{name: 1}])
    assert list(compiled.versions) == [f"{name} = 1"]
    for rows in (1, 2, 7):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), model(x).detach(), rtol=1e-5, atol=1e-5)


def test_a_saved_program_runs_without_pytorch(tmp_path: Path) -> None:
    model, program = exported_open("perceptron")
    weft.compile(program, options=OPTIONS).save(tmp_path / "m.weft")
    x = [torch.randn(n, 8) for n in (1, 7, 32)]
    np.savez(tmp_path / "x.npz", *[t.numpy() for t in x])
    script = (
        "import sys, numpy, weft; p = weft.load('m.weft'); x = numpy.load('x.npz'); "
        "numpy.savez('y.npz', *[p(x[n]) for n in x]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    found = np.load(tmp_path / "y.npz")
    for n, t in zip(found, x, strict=True):
        np.testing.assert_allclose(found[n], model(t).detach(), rtol=1e-5)


class Remembers(nn.Module):
    """What it is given is written to a buffer from a position on, which is an integer argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(9, 2))

    def forward(self, x: torch.Tensor, past: int) -> torch.Tensor:
        torch._check(past + x.shape[0] <= 9)
        self.seen[past : past + x.shape[0]] = x * 2
        return self.seen[: past + x.shape[0]].sum(0)


def remembering() -> Any:
    shapes = ({0: DYNAMIC}, DYNAMIC)
    return torch.export.export(Remembers(), (torch.randn(3, 2), 4), dynamic_shapes=shapes)


def test_state_of_a_growing_length_is_written_where_it_lies(tmp_path: Path) -> None:
    model, program = Remembers(), weft.compile(remembering(), options=OPTIONS)
    (pair,) = program.executable.compiled.in_place
    assert pair.shared and [spec.name for spec in program.executable.inputs][-1] == "past"
    seen = program.state["seen"]
    for rows, past in ((4, 0), (1, 4), (1, 5), (2, 6), (1, 7), (3, 2), (0, 7)):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(program(x, past), model(x, past))
        assert program.state["seen"] is seen
        np.testing.assert_allclose(seen, model.seen, rtol=1e-5)
    program.save(tmp_path / "m.weft")
    loaded, x = weft.load(tmp_path / "m.weft"), np.ones((2, 2), np.float32)
    state = np.zeros((9, 2), np.float32)
    found = loaded.run({"b_seen": state, "x": x, "past": np.empty((3, 0), np.uint8)})
    assert state.sum(0).tolist() == [4, 4] == list(found.values())[-1].tolist()


def test_integer_arguments_out_of_range_or_of_another_kind() -> None:
    program = weft.compile(remembering(), options=OPTIONS)
    error = refused(lambda: program(torch.randn(3, 2), 7))
    assert error.code == "WEFT-E0608" and "past" in error.what
    for wrong in (2.0, True, torch.tensor(3)):
        error = refused(lambda past=wrong: program(torch.randn(3, 2), past))
        assert error.code == "WEFT-E0632" and "not an integer" in error.what


def test_sizes_that_are_multiples() -> None:
    """Halves that are doubled again, and pieces counted by a quotient of quotients."""

    def folded(x: torch.Tensor) -> torch.Tensor:
        halves = x.view(x.shape[0] // 2, 2, x.shape[1])
        return torch.cat([halves.sum(1).repeat_interleave(2, 0), x], 1)[x.shape[0] - 1 :]

    program = torch.export.export(
        Call(folded), (torch.randn(6, 5),), dynamic_shapes={"args": ({0: DYNAMIC, 1: DYNAMIC},)}
    )
    compiled = weft.compile(program, options=OPTIONS)
    for shape in ((4, 3), (10, 1), (14, 7), (26, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), folded(x))
    error = refused(lambda: compiled(torch.randn(7, 3)))
    assert error.code in ("WEFT-E0605", "WEFT-E0608") and "7" in error.what + error.where
