"""What ``weft run`` does with a compiled model: latency, onnxruntime's beside it, its outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from weft.cli_models import Loaded
from weft.cli_progress import progress
from weft.cli_report import PeerRun
from weft.errors import CallError
from weft.measure import DEFAULT_REPEAT, Peer, Timing, difference, take_turns


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
