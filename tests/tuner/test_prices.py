"""Prices come from processes that may die, and everybody else has one all the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tuner.small_graphs import data, layers
from weft.driver.providers import Provider, Runner, Subgraph
from weft.frontend.onnx.importer import import_model
from weft.ir.graph_interpreter import interpret_graph
from weft.tuner.prices import Run, Setting, compared, priced
from weft.tuner.subgraphs import Units

GRAPH = import_model(layers())
UNITS = Units(GRAPH, tuple((node,) for node in GRAPH.nodes))
A, B, C, D, Y = (frozenset([k]) for k in range(5))


def interpreted(part: Subgraph) -> Callable[..., Any]:
    return lambda *arrays: list(interpret_graph(part.graph, arrays))


def setting(patience: float = 20.0, **providers: Provider) -> Setting:
    def weft(run: Run) -> Callable[..., Any]:
        return interpreted(UNITS.asked(run, 1))

    values = {**GRAPH.constants, "x": data()}
    for part in (UNITS.asked([k], 1) for k in range(5)):
        results = interpreted(part)(*[values[v.name] for v in part.graph.inputs])
        values |= zip((v.name for v in part.graph.outputs), results, strict=True)
    return Setting(UNITS, providers, weft, values, 1, None, patience)


def test_spots_of_several_providers() -> None:
    def only_products(part: Subgraph) -> Callable[..., Any] | None:
        return interpreted(part) if part.graph.nodes[0].op == "matmul" else None

    def dies_at_d(part: Subgraph) -> Callable[..., Any]:
        if part.graph.nodes[0].op == "softmax":
            os.kill(os.getpid(), signal.SIGKILL)
        return interpreted(part)

    def wrong_at_b(part: Subgraph) -> Callable[..., Any]:
        wrong = part.graph.nodes[0].op == "relu"
        return (lambda x: x) if wrong else interpreted(part)

    names = ("weft", "products", "dies", "wrong")
    found = priced(
        setting(products=only_products, dies=dies_at_d, wrong=wrong_at_b),
        [[(run, name) for run in (A, B, D)] for name in names],
        0.0,
    )
    assert {name: [run for run in (A, B, D) if (run, name) in found.times] for name in names} == {
        "weft": [A, B, D], "products": [A], "dies": [A, B], "wrong": [A, D],
    }  # fmt: skip
    assert all(len(times) == 3 and min(times) > 0 for times in found.times.values())
    assert found.left == {(B, "products"), (D, "products")}
    told = {spot: (error.code, error.where) for spot, error in found.refused.items()}
    d, b = UNITS.nodes[3][0].name, UNITS.nodes[1][0].name
    assert told == {
        (D, "dies"): ("WEFT-E1511", f"provider dies, node {d!r}"),
        (B, "wrong"): ("WEFT-E1515", f"provider wrong, node {b!r}"),
    }


def test_after_two_deaths_nobody_is_asked() -> None:
    def dies(part: Subgraph) -> None:
        os._exit(9)

    lab = setting(dies=dies)
    found = priced(lab, [[(run, "dies") for run in (A, B, C, D)], [(A, "weft")]], 0.0)
    assert list(found.refused) == [(A, "dies"), (B, "dies")] and list(found.times) == [(A, "weft")]
    assert not lab.trusts("dies") and lab.trusts("weft")
    again = priced(lab, [[(Y, "dies")]], 0.0)
    assert not (again.times or again.refused or again.left)


def test_arguments_come_as_they_are_wanted() -> None:
    def columns(part: Subgraph) -> Runner:
        def run(x: np.ndarray) -> np.ndarray:
            assert x.shape == (5, 7) and x.flags.f_contiguous
            return np.asfortranarray(np.maximum(x, 0))

        return Runner(run, {"a": (1, 0)}, {"b": (1, 0)})

    def rows(part: Subgraph) -> Runner:
        return Runner(lambda x: np.maximum(x, 0), {"a": (0, 1)})

    found = priced(setting(columns=columns, rows=rows), [[(B, "columns"), (B, "rows")]], 0.0)
    assert found.layouts == {
        (B, "columns"): ({0: (1, 0)}, {0: (1, 0)}),
        (B, "rows"): ({}, {}),  # as everybody
    }
    assert set(found.times) == {(B, "columns"), (B, "rows")}


def test_whole_plans() -> None:
    def weak(part: Subgraph) -> Callable[..., Any]:
        return lambda *arrays: [a.copy() for a in arrays]

    plans = {
        "all": [(A | B | C | D | Y, "weft")],
        "mixed": [(A | B, "weft"), (C, "same"), (D | Y, "weft")],
        "bad": [(A, "same"), (B, "weak"), (C | D | Y, "same")],
    }
    found = compared(setting(same=interpreted, weak=weak), plans, 0.1)
    assert set(found.times) == {"all", "mixed"}
    assert found.refused["bad"].code == "WEFT-E1515"
    assert len(found.times["all"]) == len(found.times["mixed"]) >= 3
