"""Exported programs with sizes that depend on data: parts compiled once, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

from torch import nn  # noqa: E402

import weft  # noqa: E402
from tests.frontend.torch.run_torch import interpreted  # noqa: E402
from tests.frontend.torch.test_counted import COUNTS, KNOWN, LEFT, SIZE, data  # noqa: E402
from weft.frontend.torch.exported import import_exported  # noqa: E402
from weft.ir.errors import WeftError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
OPTIONS = weft.Options(workers=0, threads=1, cache=False)
DYNAMIC = torch.export.Dim.DYNAMIC


class Call(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *x: torch.Tensor) -> Any:
        return self.call(*x)


def exported(call: Callable[..., Any], *args: Any, open_rows: bool = False) -> Any:
    shapes = (tuple({0: DYNAMIC} for _ in args),) if open_rows else None
    return torch.export.export(Call(call), args, dynamic_shapes=shapes)


def refusal(action: Callable[[], object]) -> WeftError:
    with pytest.raises(WeftError) as caught:
        action()
    return caught.value


def item(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    count = (x > 0).sum().item()
    torch._check(count <= 7)
    return torch.arange(count) * 2, x[:count].sum(0), x * count


def several(x: torch.Tensor) -> Any:
    """Two choices, one among what the other chose, and what needs none or both."""
    rows = x[x[:, 0] > 0]
    return {
        "rows": rows,
        "again": (rows[rows[:, 1] > 0] @ x.t(), None),
        "size": rows.shape[0],
        "all": torch.cat([rows, torch.nonzero(x).float() @ x[:2]]),
        "none": x.exp(),
        "x": x,
    }


MORE: dict[str, Callable[..., Any]] = {
    "several": several,
    "no rest": lambda x: torch.nonzero(x > 0),
    "the same twice": lambda x: (lambda y: (y, y + 1, y))(x[x > 0]),
    "what is read across parts": lambda x: (lambda y, z: z[x > 0] * y.sum() + z.mean())(
        x[x > 0], -x
    ),
}


@pytest.mark.parametrize("name", [*KNOWN, *MORE])
def test_any_count_is_computed_by_what_was_compiled_before(name: str) -> None:
    call = {**KNOWN, **MORE}[name]
    program = interpreted(import_exported(exported(call, data(3))))
    for count in COUNTS:
        torch.testing.assert_close(program(data(count)), call(data(count)))


def test_open_rows_and_their_guards() -> None:
    program = interpreted(import_exported(exported(several, data(3), open_rows=True)))
    for rows in (2, 7, 3, 5):
        for count in (9, 4):
            x = data(count)[:rows]
            torch.testing.assert_close(program(x), several(x))


@pytest.mark.parametrize("count", [0, 1, 5, 7])
def test_a_size_that_is_an_element(count: int) -> None:
    program = interpreted(import_exported(exported(item, data(3))))
    torch.testing.assert_close(program(data(count)), item(data(count)))


def test_sizes_that_the_model_excludes() -> None:
    """In a part that computes, and in one that checks alone."""

    def few(x: torch.Tensor) -> torch.Tensor:
        found = torch.nonzero(x > 0)
        torch._check(found.shape[0] <= 4)
        return found

    def sized(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.sum() + torch.arange(n.item())

    for call in (item, few):
        program = weft.compile(exported(call, data(3)), options=OPTIONS)
        error = refusal(lambda program=program: program(data(8)))  # type: ignore[misc]
        assert error.code == "WEFT-E0608" and "8" in error.where, error
    program = weft.compile(exported(sized, data(3), torch.tensor(2)), options=OPTIONS)
    assert program(data(3), torch.tensor(0)).shape == (0,)
    error = refusal(lambda: program(data(3), torch.tensor(-1)))
    assert error.code == "WEFT-E0608" and "-1" in str(error)


class Counts(nn.Module):
    """Keeps how many elements were positive, and overwrites an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        rows = x[x[:, 0] > 0]
        self.seen += rows.sum()
        place[:] = rows.sum(0)
        return self.linear(rows)


def test_the_same_as_machine_code_with_state() -> None:
    torch.manual_seed(0)
    model = Counts()
    a, b = torch.zeros(3), torch.zeros(3)
    program = weft.compile(torch.export.export(model, (data(3), a)), options=OPTIONS)
    for count in COUNTS:
        torch.testing.assert_close(program(data(count), b), model(data(count), a).detach())
        assert torch.equal(a, b)
    np.testing.assert_allclose(program.state["seen"], model.seen)
    assert len(program.executables) == 2 and program.stats["kernels"] > 1  # type: ignore[operator]
    assert "linear/linear (linear)" in program.explain()
    found = program(data(5).numpy(), b.numpy())
    assert isinstance(found, np.ndarray)


def test_one_part_that_writes() -> None:
    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(7, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x
            return torch.nonzero(x > 0)

    model = Adds()
    program = interpreted(import_exported(torch.export.export(model, (data(3),))))
    for count in COUNTS:
        torch.testing.assert_close(program(data(count)), model(data(count)))
    np.testing.assert_array_equal(program.state["total"], model.total)


def test_what_takes_one_program(tmp_path: Path) -> None:
    source = exported(KNOWN["elements of a mask"], data(3))
    program = weft.compile(source, options=OPTIONS)
    for action in (
        lambda: program.executable,
        lambda: program.save(tmp_path / "m.weft"),
        lambda: program.export(tmp_path / "m.so"),
        lambda: program.run({}),
    ):
        assert refusal(action).code == "WEFT-E0706"
    for action in (
        lambda: weft.lower(source),
        lambda: weft.compile(source, specialize=[{}], options=OPTIONS),
    ):
        error = refusal(action)
        assert error.code == "WEFT-E0273" and error.what.startswith("the model is 2 programs")


def test_one_program_gives_the_greatest_size_and_the_count(tmp_path: Path) -> None:
    """Where nothing follows; it is saved so."""
    program = weft.compile(exported(lambda x: x[x > 0], data(3)), options=OPTIONS)
    program.save(tmp_path / "m.weft")
    x = data(5).numpy()
    found, count = weft.load(tmp_path / "m.weft")(x)
    assert found.shape == (SIZE,) and count == 5
    np.testing.assert_array_equal(found[:5], x[x > 0])


@pytest.mark.parametrize("name", [n for n in LEFT if n != "a size that is an element"])
def test_what_has_no_bound_is_refused_by_module_and_line(name: str) -> None:
    model = nn.Sequential(nn.Identity(), Call(LEFT[name]))
    error = refusal(lambda: weft.compile(model, (data(3),), options=OPTIONS))
    assert error.code == "WEFT-E0273" and "gives a size that depends on data" in error.what
    assert "module '1'" in error.where and "test_parts.py" in error.where
    assert error.why == "no greatest size of it is known" and "torch.where" in error.hint


def test_all_that_is_refused_in_all_parts_is_listed() -> None:
    def call(x: torch.Tensor) -> Any:
        return torch.unique(x), torch.special.gammainc(x[x > 0], x[x > 0])

    error = refusal(lambda: weft.compile(exported(call, data(3)), options=OPTIONS))
    assert "prims.igamma.default" in error.what and "_unique2" in error.what
