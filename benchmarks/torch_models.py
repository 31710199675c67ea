"""PyTorch models, fixed and open, beside eager mode, ``torch.compile`` and onnxruntime.

Each architecture is two rows. "fixed" is exported and compiled for the sizes that are measured,
beside ``torch.compile(dynamic=False)``; "open" is compiled once for all sizes, beside
``dynamic=True``, both at other sizes than those that are measured. Everybody who computes what
eager mode does is timed in turns.
"""

from __future__ import annotations

import importlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from importlib.util import find_spec
from statistics import median, quantiles
from typing import Any

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.report import geometric_mean
from weft.benchmarks.row import relative
from weft.benchmarks.timing import Timed
from weft.tuner.turns import Loop, interleaved_loops

Row = dict[str, Any]
Call = Callable[[], Any]
FEW = ("small mixer", "small gpt2", "small llama with given cache")  # where calls cost the most
KINDS = ("fixed", "open")
PEERS = ("eager", "compiled", "onnxruntime")
TOLERANCE = 1e-4  # of the largest element
WHY = 120  # characters of a reason


class Missing(Exception):
    """What is not installed."""


@dataclass(frozen=True, slots=True)
class Settings(Timed):
    """What one run does. ``only``: patterns of architectures' names, of larger and small ones; all
    larger ones where empty, a few small ones if ``quick``, which leaves out ``torch.compile``."""

    only: tuple[str, ...] = ()

    @property
    def architectures(self) -> dict[str, Any]:
        """By name. Raises ``ValueError`` for a pattern that fits none, ``Missing``."""
        if absent := [name for name in ("torch", "transformers") if find_spec(name) is None]:
            raise Missing(", ".join(absent))
        large = _architectures("measured").MEASURED
        small = _architectures("open_sizes").ARCHITECTURES
        known = {**large, **{f"small {name}": each for name, each in small.items()}}
        wanted = self.only or (FEW if self.quick else tuple(large))
        for pattern in wanted:
            if not any(fnmatch(name, pattern) for name in known):
                raise ValueError(f"no architecture {pattern} in {', '.join(known)}")
        return {n: a for n, a in known.items() if any(fnmatch(n, pattern) for pattern in wanted)}


def run(settings: Settings) -> Iterator[Row]:
    """Two rows for each architecture as it is done.

    ``name``, ``threads``, ``right``, ``weft_ms``; ``eager_ms``, ``compiled_ms``,
    ``onnxruntime_ms`` of who took part; ``ratio``: the best peer's time over Weft's, with the
    quartiles ``low`` and ``high`` of the rounds; ``compile_s`` of Weft, ``compiled_s`` of
    ``torch.compile``; ``over_fixed``: Weft's open time over its fixed one; ``relative``: name ->
    Weft's time over the other's within rounds, its spread; ``note``: who took no part, and why.
    """
    architectures = settings.architectures
    with progress("torch", len(architectures)) as step, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of models are about their own future
        for name, architecture in architectures.items():
            step(name)
            yield from _rows(name, architecture, settings)


def means(rows: Sequence[Row]) -> list[str]:
    """Lines for people: geometric means over rows of each kind."""
    lines = []
    for kind in KINDS:
        mine = [row for row in rows if row["name"].endswith(kind)]
        found = {
            "of the best peer's speed": [row["ratio"] for row in mine if "ratio" in row],
            **{
                f"of the speed of {peer}": [
                    1 / row["relative"][peer][0] for row in mine if peer in row["relative"]
                ]
                for peer in PEERS
            },
            "times its fixed time": [row["over_fixed"] for row in mine if "over_fixed" in row],
        }
        lines += [
            f"geometric mean, {kind}: {geometric_mean(values):.3f} {what}"
            f" (least {min(values):.3f}, largest {max(values):.3f}, {len(values)} rows)"
            for what, values in found.items()
            if values
        ]
    return lines


def _architectures(file: str) -> Any:
    """The module of architectures that is called ``file``, which imports PyTorch."""
    return importlib.import_module(f"weft.benchmarks.architectures.{file}")


def _rows(name: str, architecture: Any, settings: Settings) -> Iterator[Row]:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(settings.threads)
    with torch.no_grad():
        model = architecture.seeded()
        given = architecture.arguments(*architecture.tried[0])
        programs: dict[str, Call] = {}
        for kind in KINDS:
            race = _Race(architecture, model, given, kind == "open", settings)
            race.weft(programs)
            race.peers()
            yield {"name": f"{name} {kind}", "threads": settings.threads, **race.row()}


class _Race:
    """Who computes ``model`` on ``given`` with fixed or open sizes, and what each took."""

    def __init__(
        self, architecture: Any, model: Any, given: Any, is_open: bool, settings: Settings
    ) -> None:
        self._architecture, self._model, self._given = architecture, model, given
        self._open, self._settings = is_open, settings
        self._expected = model(*given)
        self._calls: dict[str, Call] = {}
        self._row: Row = {"right": False}
        self._notes: list[str] = []

    def weft(self, programs: dict[str, Call]) -> None:
        """Weft's own program, also kept in ``programs``; beside the fixed one, if it is open."""
        options = weft.Options(cache=False, workers=0, threads=self._settings.threads)

        def compiled() -> Call:
            exported = self._architecture.export(self._model, None if self._open else self._given)
            begin = self._spent()
            program: Any = weft.compile(exported, options=options)
            self._row["compile_s"] = round(self._spent() - begin, 2)
            return lambda: program(*self._given)

        if self._takes_part("weft", compiled):
            self._row["right"] = True
            programs["open" if self._open else "fixed"] = self._calls["weft"]
            if self._open and "fixed" in programs:
                self._calls["fixed"] = programs["fixed"]

    def peers(self) -> None:
        """The others."""
        architecture, model, given = self._architecture, self._model, self._given
        contestants = _architectures("contestants")
        self._calls["eager"] = lambda: model(*given)
        if not self._settings.quick:
            first = [architecture.arguments(*architecture.exported)] if self._open else []
            inductor = partial(contestants.inductor, model, [*first, given], self._open)

            def compiled() -> Call:
                begin = self._spent()
                call: Call = inductor()
                self._row["compiled_s"] = round(self._spent() - begin, 2)
                return call

            self._takes_part("compiled", compiled)
        threads = self._settings.threads
        self._takes_part(
            "onnxruntime",
            partial(contestants.onnxruntime, architecture, model, given, self._open, threads),
        )

    def _takes_part(self, name: str, prepare: Callable[[], Call]) -> bool:
        """Whether ``name`` computes what it should; else a note says why it does not."""
        try:
            call = prepare()
            error = _architectures("open_sizes").largest_error(call(), self._expected)
        except Exception as reason:  # of many types; it costs its own part, not the others'
            why = " ".join(f"{type(reason).__name__}: {reason}".split())
            self._notes.append(f"{name}: {why[:WHY]}")
            return False
        if error > TOLERANCE:
            self._notes.append(f"{name}: wrong by {error:.1e}")
            return False
        self._calls[name] = call
        return True

    def row(self) -> Row:
        """Everybody timed in turns."""
        settings = self._settings
        loops = {name: _loop(call) for name, call in self._calls.items()}
        samples = interleaved_loops(
            loops, seconds=1.0 if settings.quick else 6.0, clock=settings.clock,
            park=settings.threads > 1,
        )  # fmt: skip
        return {**_times(samples), **self._row, "note": "; ".join(self._notes)}

    def _spent(self) -> float:
        """Seconds by the run's clock, those of compilers that were called included."""
        return sum(os.times()[:4]) if self._settings.cpu_time else time.perf_counter()


def _loop(call: Call) -> Loop:
    def loop(times: int) -> None:
        for _ in range(times):
            call()

    return loop


def _times(samples: Mapping[str, list[float]]) -> Row:
    """What rounds of milliseconds say; of Weft nothing where it took no part."""
    beside = {name: found for name, found in samples.items() if name != "fixed"}
    took = {name: median(found) for name, found in beside.items()}
    row: Row = {f"{name}_ms": round(ms, 4) for name, ms in took.items()}
    row |= {"relative": relative(beside), "rounds": len(samples["eager"])}
    if "weft" not in took:
        return row
    best = min((name for name in took if name != "weft"), key=took.__getitem__)
    rounds = [peer / own for peer, own in zip(samples[best], samples["weft"], strict=True)]
    low, _, high = quantiles(rounds, n=4, method="inclusive") if len(rounds) > 1 else rounds * 3
    row |= {"ratio": round(took[best] / took["weft"], 3)}
    row |= {"low": round(low, 3), "high": round(high, 3)}
    if "fixed" in samples:
        row["over_fixed"] = round(took["weft"] / median(samples["fixed"]), 3)
    return row
