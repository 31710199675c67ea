"""Exploration beside brute force; fronts, refusals, the command."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

import pytest
from click.testing import CliRunner

import weft.app.cli_explore as command
from tests.accel.convolutions import convolution
from weft.accel.machines.vta import Config, vta
from weft.accel.machines.vta_space import area, configuration, vta_space
from weft.accel.space import Space
from weft.app.cli import cli
from weft.app.cli_explore import svg
from weft.ir.errors import CompileError
from weft.offload.explore import Budget, Explored, Layer, explore, front, simulated
from weft.workers.forked import forked

# The layers that follow are small, and so are the memories.
FEW: Mapping[str, tuple[int, ...]] = {
    "block": (8,),
    "batch": (1,),
    "inp": (1, 64, 128),
    "wgt": (4,),
    "acc": (2, 16),
    "bus": (8,),
    "alu_cycles": (1,),
}


def layers() -> list[Layer]:
    return [
        Layer("three", convolution(16, 6, 16, 3, 1, 1), 2),
        Layer("one", convolution(16, 6, 32, 1, 2, 0), 1),
    ]


@pytest.mark.long
def test_the_front_is_that_of_brute_force() -> None:
    space = vta_space(FEW)
    found = explore(space, layers())
    assert len(found.explored) == 6
    assert found.complete
    every = [
        Explored(e.point, e.area, e.estimate, simulated(space, layers(), e.point))
        for e in found.explored
    ]
    assert found.front == front(every)
    assert sum(e.cycles is not None for e in found.explored) < len(every)


@pytest.mark.long
def test_a_budget_ends_it_and_processes_change_nothing() -> None:
    space = vta_space({**FEW, "acc": (2,)})
    one = explore(space, layers(), Budget(points=1))
    two = explore(space, layers(), Budget(points=1), processes=2)
    assert one == two
    assert sum(e.cycles is not None for e in one.explored) == 1
    assert not one.complete
    none = explore(space, layers(), Budget(seconds=0))
    assert not none.front


def test_fronts() -> None:
    def at(area: float, cycles: int) -> Explored:
        return Explored({}, area, 0.0, cycles)

    best = [at(1, 9), at(2, 5), at(2, 5), at(7, 1)]
    worse = [at(1, 10), at(2, 6), at(3, 5), at(8, 1), at(9, 4)]
    assert front(worse + best) == tuple(best)


def test_points_that_are_no_machine_or_too_small() -> None:
    space = vta_space({**FEW, "inp": (1,), "wgt": (2, 16), "acc": (4,), "block": (16, 128)})
    found = explore(space, layers(), Budget(points=0))
    assert {e.point["block"] for e in found.explored} == {16}
    nothing = Space("none", {"n": (1,)}, lambda _: vta(Config(log_block=30)), lambda _: 1.0, ())
    with pytest.raises(CompileError, match="WEFT-E1047"):
        explore(nothing, layers())


def test_a_space_of_ones_own() -> None:
    space = Space(
        "mine",
        {"acc": (12, 13)},
        lambda point: vta(Config(log_acc_buff_size=point["acc"])),
        lambda point: float(point["acc"]),
        (),
    )
    found = explore(space, layers()[1:])
    assert found.complete
    assert [e.point["acc"] for e in found.front][:1] == [12]


def test_area_grows_with_everything() -> None:
    small = {"block": 8, "batch": 1, "inp": 16, "wgt": 64, "acc": 64, "bus": 8, "alu_cycles": 2}
    for name in small:
        other = small[name] // 2 if name == "alu_cycles" else 2 * small[name]
        assert area({**small, name: other}) > area(small)
    assert configuration({**small, "block": 16, "inp": 32, "wgt": 256, "acc": 128, "alu_cycles": 1}) == Config()  # fmt: skip  # noqa: E501
    with pytest.raises(CompileError, match="no power of two"):
        area({**small, "block": 12})


def test_the_bus_and_the_lanes_change_times_alone() -> None:
    usual, other = vta(), vta(Config(log_bus_bytes=5, log_alu_cycles=1))
    load = {"y_size": 1, "x_size": 64}
    assert usual.operation("load_inp").takes(load).beats == 128
    assert other.operation("load_inp").takes(load).beats == 32
    assert usual.operation("store").takes({"y_size": 1, "x_size": 196}).beats == 588
    assert other.operation("store").takes({"y_size": 1, "x_size": 196}).beats == 3 * 49
    turns = {"iter_out": 14, "iter_in": 14, "uop_bgn": 0, "uop_end": 1}
    assert usual.operation("add").takes(turns).cycles == 400
    assert other.operation("add").takes(turns).cycles == 2 * 392 + 8
    assert other.operation("gemm").takes(turns).cycles == 204


def test_forked_results_are_in_order() -> None:
    told: list[int] = []
    found = forked(lambda n: n * n, list(range(7)), 3, lambda: told.append(1))
    assert found == [n * n for n in range(7)]
    assert len(told) == 7


@pytest.mark.long
def test_the_command(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(command, "layers_of", lambda *_: layers())
    sets = [f"--set={k}={','.join(map(str, v))}" for k, v in {**FEW, "acc": (2,)}.items()]
    data, picture = tmp_path / "found.json", tmp_path / "found.svg"
    arguments = ["explore", "--model", "any", "--budget", "1", "--processes", "1", *sets]
    result = CliRunner().invoke(cli, [*arguments, "--json", str(data), "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    assert "simulated" in result.output
    found = json.loads(data.read_text())
    assert sum(p["cycles"] is not None for p in found["points"]) == 1
    assert all(p in found["points"] for p in found["front"])
    ElementTree.fromstring(picture.read_text())


@pytest.mark.parametrize(
    "more",
    [
        ["--budget", "soon"],
        ["--set", "block"],
        ["--set", "colour=3"],
        ["--picture", "x.gif"],
        ["--json", "/nowhere/at/all.json"],
        ["--space", "other"],
    ],
)
def test_wrong_use(more: list[str]) -> None:
    result = CliRunner().invoke(cli, ["explore", "--model", "resnet18", *more])
    assert result.exit_code == 2  # click's own; `weft` makes it 64
    assert "Usage" in result.output


def test_pictures_of_a_single_point() -> None:
    found = explore(vta_space({k: v[:1] for k, v in FEW.items()}), layers()[1:])
    ElementTree.fromstring(svg(found, "one <point>"))
