"""One row of a suite: everybody's answer checked, everybody timed in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

import numpy as np

import weft
from weft.benchmarks.case import WRONG, Case, error_of
from weft.benchmarks.estimates import estimates
from weft.benchmarks.limits import Limits, Probe
from weft.benchmarks.native_loop import NativeLoop
from weft.benchmarks.peers.peer import Peer, Prepared, Unfit
from weft.benchmarks.timing import spread
from weft.driver.options import Options
from weft.ir.errors import WeftError
from weft.tuner.turns import Loop, interleaved_loops

Row = dict[str, Any]
"""``name``, ``group``, ``threads``; ``weft_ms``; ``estimate_ms`` and ``bound_ms``: of the cost
model on one thread, where there are any; ``peers``: name -> ms, each less ``overhead_ms``,
what an empty call of that peer takes; ``best_peer``; ``best_peer_ratio``: its time over Weft's;
``peak_fraction``: of ``limit``, whose rate is ``limit_per_s``: of arithmetic the best in this run,
of copying the median in the row's own turns (memory is shared with other machines, and is not as
fast at all times); ``turn_fraction``: of what the best probe of ``limit`` did in the same round,
the median (nor are clocks the same at all times), on one thread; ``max_error``: relative to the
largest element; ``right``; ``rounds``; ``spread``: relative, of each median;
``relative``: name -> [Weft's time over the other's within rounds, its spread], the machine's own
probe included; ``absent``: who did not take part, and why; ``failure``: why Weft did not;
``operations``, ``bytes``, ``saving``, ``own`` and ``facts`` as of the case. Times that are missing
are None."""


class WeftLoop(Protocol):
    """Weft's program on some inputs: run a number of times; run once more for its results."""

    def __call__(self, times: int) -> None: ...

    def results(self) -> list[np.ndarray]: ...


LoopOf = Callable[[Any, Mapping[str, np.ndarray]], WeftLoop]

_LEAST_SHARE = 0.1  # of what was measured stays, however much an empty call takes


@dataclass(slots=True)
class Bench:
    """What the rows of one run share. ``seconds``: of timing for each row."""

    threads: int
    seconds: float
    peers: Sequence[Peer]
    limits: Limits
    clock: Callable[[], float] = time.perf_counter
    overheads: dict[tuple[str, str], float] = field(default_factory=dict)

    def row(self, case: Case, loop_of: LoopOf = NativeLoop) -> Row:
        """``case`` measured, Weft as ``loop_of`` runs it; what Weft refuses is a row, too."""
        row: Row = {"name": case.name, "group": case.group, "threads": self.threads}
        row |= {"limit": case.limit, "operations": case.operations, "bytes": case.bytes}
        cheaper = Options.from_environment().winograd == "on"
        row |= {"saving": case.saving if cheaper else 1.0, "own": case.own}
        expected = case.expected()
        loop, row["failure"] = self._weft(case, loop_of, row)
        if loop is not None:
            row["max_error"] = _largest_error(loop.results(), expected)
        else:
            row["max_error"] = None
        row["right"] = loop is not None and row["max_error"] <= case.tolerance
        prepared, row["absent"] = self._prepared(case, expected)
        loops: dict[str, Loop] = {name: peer.loop for name, peer in prepared.items()}
        if loop is not None:
            loops = {"weft": loop, **loops}
        self._time(case, row, loops)
        row["facts"] = dict(case.facts())
        return row

    def _weft(self, case: Case, loop_of: LoopOf, row: Row) -> tuple[WeftLoop | None, str]:
        try:
            program = compiled(case, self.threads)
            row |= estimates(program, self.threads)
            return loop_of(program, case.inputs), ""
        except WeftError as error:
            return None, f"{error.code}: {error.what}"
        except Exception as error:  # a bug costs its own row, not all the others
            return None, f"{type(error).__name__}: {error}"

    def _prepared(
        self, case: Case, expected: Sequence[np.ndarray]
    ) -> tuple[dict[str, Prepared], dict[str, str]]:
        """Peers that give the right answer, and why others do not take part."""
        fit: dict[str, Prepared] = {}
        absent: dict[str, str] = {}
        for peer in self.peers:
            try:
                prepared = peer.prepare(case, self.threads)
                prepared.call()
                error = _largest_error(prepared.results(), expected)
                if error > case.tolerance:
                    raise Unfit(f"wrong by {error:.1e}")
                fit[peer.name] = prepared
            except Unfit as reason:
                absent[peer.name] = str(reason)
        return fit, absent

    def _time(self, case: Case, row: Row, loops: Mapping[str, Loop]) -> None:
        """Times of ``loops`` and of the machine's own probes, in turns."""
        probes = self.limits.of(case.limit, case.bytes)
        everyone = {**loops, **{name: probe.loop for name, probe in probes.items()}}
        samples = interleaved_loops(
            everyone, seconds=self.seconds, clock=self.clock, park=self.threads > 1
        )
        for name, probe in probes.items():
            probe.note(samples[name])
        overhead = {name: self._overhead(case, name) for name in loops if name != "weft"}
        times = {name: median(found) for name, found in samples.items()}
        row["weft_ms"] = times.get("weft") if "weft" in loops else None
        row["peers"] = {
            name: max(times[name] - overhead[name], _LEAST_SHARE * times[name]) for name in overhead
        }
        row["overhead_ms"] = overhead
        row["rounds"] = len(next(iter(samples.values())))
        row["spread"] = {name: spread(found) for name, found in samples.items()}
        row["relative"] = relative(samples)
        # On several threads a probe is too short for one turn: to start them takes part of it.
        row["turn_fraction"] = None if self.threads > 1 else _in_turns(row, samples, probes)
        settle(row, self._limit(case, {name: times[name] for name in probes}))

    def _limit(self, case: Case, probed: Mapping[str, float]) -> float:
        """Operations or bytes per second; ``probed``: medians of the probes in the row's turns."""
        if case.limit != "copy":
            return self.limits.best(case.limit)
        probes = self.limits.of(case.limit, case.bytes)
        return max(probes[name].work / (1e-3 * ms) for name, ms in probed.items())

    def _overhead(self, case: Case, peer: str) -> float:
        """Milliseconds of an empty call of ``peer``, measured once for each kind of call."""
        if case.empty is None:
            return 0.0
        empty = case.empty()
        key = (peer, empty.name)
        if key not in self.overheads:
            self.overheads[key] = self._empty_call(empty, peer)
        return self.overheads[key]

    def _empty_call(self, empty: Case, name: str) -> float:
        (peer,) = [peer for peer in self.peers if peer.name == name]
        try:
            loop = peer.prepare(empty, self.threads).loop
        except Unfit:
            return 0.0
        found = interleaved_loops({name: loop}, seconds=0.05, turn=0.001, clock=self.clock)
        return median(found[name])


def compiled(case: Case, threads: int) -> Any:
    """``case`` by Weft, anew: an ``Executable``, or a ``Model`` where shapes are open. Raises
    ``WeftError``."""
    options = replace(Options.from_environment(), threads=threads, cache=False)
    return weft.compile(case.model, options=options)


def settle(row: Row, limit_per_s: float) -> None:
    """What follows from the times of ``row`` and the machine's best rate."""
    row["limit_per_s"] = limit_per_s
    ms, peers = row["weft_ms"], row["peers"]
    row["peak_fraction"] = _work(row) / (1e-3 * ms) / limit_per_s if ms and limit_per_s else None
    row["best_peer"] = min(peers, key=peers.__getitem__) if peers else None
    row["best_peer_ratio"] = peers[row["best_peer"]] / ms if ms and peers else None


def _largest_error(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    if len(found) != len(expected):
        return WRONG
    return max(map(error_of, found, expected))


def _in_turns(
    row: Row, samples: Mapping[str, list[float]], probes: Mapping[str, Probe]
) -> float | None:
    """The median, over rounds, of Weft's rate over that of the best probe."""
    if not probes or "weft" not in samples:
        return None
    rates = [[probe.work / ms for ms in samples[name]] for name, probe in probes.items()]
    own = [_work(row) / ms for ms in samples["weft"]]
    found = [rate / max(best) for rate, *best in zip(own, *rates, strict=True)]
    return float(median(found))


def _work(row: Row) -> float:
    return float(row["bytes"] if row["limit"] == "copy" else row["operations"])


def relative(samples: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Weft's time over each other's in the same round: median and spread."""
    if "weft" not in samples:
        return {}
    found = {}
    for name in samples.keys() - {"weft"}:
        ratios = [a / b for a, b in zip(samples["weft"], samples[name], strict=True)]
        found[name] = [median(ratios), spread(ratios)]
    return dict(sorted(found.items()))
