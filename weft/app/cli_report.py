"""What ``weft run`` found, as JSON data and as text for people."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from weft.app.cli_models import Loaded
from weft.app.cli_shared import progress
from weft.app.measure import (
    ATOL,
    DEFAULT_REPEAT,
    RTOL,
    Difference,
    Peer,
    Timing,
    difference,
    take_turns,
)
from weft.ir.errors import CallError

TOP = 5
CLASSES = 10  # a row of fewer scores is no classifier's


@dataclass(frozen=True, slots=True)
class PeerRun:
    """onnxruntime in the same run; ``timing`` and ``difference`` are None where it failed."""

    version: str
    timing: Timing | None = None
    difference: Difference | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One ``weft run``: outputs by name, seconds to get a program, statistics, timings."""

    model: str
    outputs: Mapping[str, Any]
    open_seconds: float
    threads: int
    stats: Mapping[str, Any]
    timing: Timing
    peer: PeerRun | None = None


def run_data(run: Run) -> dict[str, object]:
    """Everything that the text says, as JSON data."""
    peer = run.peer
    return {
        "model": run.model,
        "threads": run.threads,
        "outputs": {name: _summary(value) for name, value in run.outputs.items()},
        "top": [{"class": c, "probability": p} for c, p in top_classes(run.outputs)],
        "latency_ms": _milliseconds(run.timing),
        "open_seconds": round(run.open_seconds, 4),
        "stats": dict(run.stats),
        "peer": None if peer is None else _peer_json(peer, run.timing),
    }


def _peer_json(peer: PeerRun, timing: Timing) -> dict[str, object]:
    found: dict[str, object] = {"name": "onnxruntime", "version": peer.version}
    if peer.timing is None or peer.difference is None:
        return found | {"failure": peer.failure}
    return found | {
        "latency_ms": _milliseconds(peer.timing),
        "times_slower": round(timing.median / peer.timing.median, 3),
        "largest_difference": _json_number(peer.difference.largest),
        "largest_value": peer.difference.scale,
        "equal": peer.difference.equal,
        "rtol": RTOL,
        "atol": ATOL,
    }


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no infinity


def _milliseconds(timing: Timing) -> dict[str, object]:
    return {
        "median": round(timing.median * 1e3, 4),
        "min": round(timing.best * 1e3, 4),
        "runs": len(timing.seconds),
    }


def top_classes(outputs: Mapping[str, Any]) -> list[tuple[int, float]]:
    """The likeliest classes with their probabilities, if this is one row of class scores."""
    if len(outputs) != 1:
        return []
    (scores,) = outputs.values()
    if not isinstance(scores, np.ndarray) or scores.dtype.kind != "f":
        return []
    row = scores.reshape(-1).astype(np.float64)
    is_row = scores.ndim in (1, 2) and scores.shape[-1] == row.size
    if not is_row or row.size < CLASSES or not np.isfinite(row).all():
        return []
    if row.min() < 0 or abs(row.sum() - 1) > 1e-3:  # scores, not probabilities
        row = np.exp(row - row.max())
        row /= row.sum()
    best = np.argsort(-row, kind="stable")[:TOP]
    return [(int(c), round(float(row[c]), 6)) for c in best]


def _summary(value: Any) -> dict[str, object]:
    """Shape, dtype and a few numbers of one output; the value itself where it is short."""
    if not isinstance(value, np.ndarray):
        return {"type": type(value).__name__, "value": str(value)}
    found: dict[str, object] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if value.dtype.kind not in "biufV" or not value.size:
        return found
    numbers = value.astype(np.float64)
    good = numbers[np.isfinite(numbers)]
    if good.size:
        found |= {
            "min": float(good.min()), "mean": float(good.mean()), "max": float(good.max()),
        }  # fmt: skip
    return found | {"not_finite": int(numbers.size - good.size)}


# ---- text ---------------------------------------------------------------------------------------


def print_run(run: Run, console: Console) -> None:
    """``run`` for people, a screen at most."""
    console.print(f"[bold]{run.model}[/bold]  {_pipeline(run.stats)}", soft_wrap=True)
    top = top_classes(run.outputs)
    console.print(_top_table(top) if top else _outputs_table(run.outputs))
    facts = _facts(run)
    width = max(len(label) for label, _ in facts)
    for label, text in facts:
        console.print(f"{label:{width}}  {text}", soft_wrap=True)


def _pipeline(stats: Mapping[str, Any]) -> str:
    if "operators" not in stats:
        return ""
    kernels = f"{stats['kernels']} kernels in {stats['launches']} launches"
    parts = [
        f"{stats['operators']} operators",
        f"{stats['statements']} statements",
        f"{stats['clusters']} clusters ({stats['unique_clusters']} distinct)",
        kernels,
    ]
    host = f", {stats['host']} nodes on the host" if stats.get("host") else ""
    return " → ".join(parts) + host


def _top_table(top: Sequence[tuple[int, float]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("class", justify="right")
    table.add_column("probability", justify="right")
    for number, probability in top:
        table.add_row(str(number), f"{probability:.4f}")
    return table


def _outputs_table(outputs: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("output", "type", "min", "mean", "max"):
        table.add_column(column)
    for name, value in outputs.items():
        summary = _summary(value)
        kind = f"{summary.get('dtype', summary.get('type'))}{summary.get('shape', '')}"
        numbers = [
            f"{summary[key]:.6g}" if key in summary else "" for key in ("min", "mean", "max")
        ]
        table.add_row(name, kind, *numbers)
    return table


def _facts(run: Run) -> list[tuple[str, str]]:
    threads = f"{run.threads} thread{'s' if run.threads > 1 else ''}"
    facts = [("latency", f"{_timing(run.timing)}, {threads}")]
    if run.peer is not None:
        facts += _peer_facts(run.peer, run.timing)
    return [*facts, *_memory(run.stats), ("ready in", _ready(run)), *_stages(run.stats)]


def _timing(timing: Timing) -> str:
    median, best = timing.median * 1e3, timing.best * 1e3
    return f"median {median:.3f} ms, min {best:.3f} ms of {len(timing.seconds)} runs"


def _peer_facts(peer: PeerRun, timing: Timing) -> list[tuple[str, str]]:
    name = f"onnxruntime {peer.version}".strip()
    if peer.timing is None or peer.difference is None:
        return [(name, peer.failure)]
    ratio = timing.median / peer.timing.median
    verdict = "equal" if peer.difference.equal else "NOT equal"
    return [
        (name, f"{_timing(peer.timing)}; Weft takes {ratio:.2f} times as long"),
        (
            "difference",
            f"at most {peer.difference.largest:.3g}, values up to {peer.difference.scale:.3g}:"
            f" {verdict} within rtol {RTOL:g}, atol {ATOL:g}",
        ),
    ]


def _memory(stats: Mapping[str, Any]) -> list[tuple[str, str]]:
    arena, whole = stats.get("arena_bytes"), stats.get("intermediate_bytes")
    if not isinstance(arena, int):
        return []
    if not isinstance(whole, int) or not whole:
        return [("arena", f"{arena:,} bytes")]
    share = f"{arena / whole:.1%} of the {whole:,} bytes of intermediates of the unfused graph"
    return [("arena", f"{arena:,} bytes, {share}")]


def _ready(run: Run) -> str:
    took = f"{run.open_seconds:.2f} s"
    return f"{took}, from the cache" if run.stats.get("from_cache") else took


def _stages(stats: Mapping[str, Any]) -> list[tuple[str, str]]:
    seconds = stats.get("seconds")
    if not isinstance(seconds, Mapping) or not seconds:
        return []
    total = sum(seconds.values())
    parts = ", ".join(f"{stage} {value:.2f}" for stage, value in seconds.items())
    return [("compile stages", f"{total:.2f} s: {parts}")]


# ---- What ``weft run`` does with a compiled model: latency, onnxruntime's beside it, its outputs.


def measured(
    loaded: Loaded,
    given: Mapping[str, Any],
    results: Mapping[str, Any],
    threads: int,
    repeat: int | None,
    *,
    with_peer: bool,
) -> tuple[Timing, PeerRun | None]:
    """Latency, and onnxruntime's in turn with it where there is one."""
    found, peer = _beside(loaded, given, threads) if with_peer else (None, None)
    actions: list[Callable[[], object]] = [lambda: loaded.program.run(given)]
    if peer is not None:
        actions.append(functools.partial(peer.run, given))
    with progress("measuring", repeat or DEFAULT_REPEAT) as advance:
        timings = take_turns(actions, repeat, tick=lambda: advance(""))
    if found is None or peer is None:
        return timings[0], found
    gap = difference(results, peer.run(given))
    return timings[0], replace(found, timing=timings[1], difference=gap)


def _beside(
    loaded: Loaded, given: Mapping[str, Any], threads: int
) -> tuple[PeerRun | None, Peer | None]:
    """onnxruntime with the model loaded, where it is installed and takes the model."""
    source = loaded.onnx
    if source is None:
        return None, None
    try:
        peer = Peer(
            source.SerializeToString() if isinstance(source, onnx.ModelProto) else str(source),
            threads,
        )
        peer.run(given)
    except ImportError:
        return None, None
    except Exception as error:  # whatever onnxruntime raises is its own affair
        reason = " ".join(str(error).split())[:200]
        return PeerRun("", failure=f"fails: {reason}"), None
    return PeerRun(peer.version), peer


def write_outputs(results: Mapping[str, Any], wanted: tuple[str, ...]) -> None:
    for text in wanted:
        name, _, file = text.partition("=@")
        if not file or name not in results:
            raise CallError(
                "WEFT-E0804",
                f"--output {text!r} names no output",
                hint=f"NAME=@FILE.npy with NAME one of {', '.join(results)}",
            )
        value = results[name]
        if not isinstance(value, np.ndarray) or value.dtype == np.dtype(object):
            raise CallError("WEFT-E0804", f"output {name!r} is no array of numbers")
        try:
            with Path(file).open("wb") as stream:
                np.save(stream, value, allow_pickle=False)
        except OSError as error:
            raise CallError("WEFT-E0805", f"{file!r} cannot be written", why=str(error)) from None
