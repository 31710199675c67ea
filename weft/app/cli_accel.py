"""``weft accel``: streams of accelerators as text, checked, simulated."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from weft.accel.artifact import Artifact, Placed
from weft.accel.disassembler import annotated, listing
from weft.accel.machines.vta import Config, vta
from weft.accel.timing import Timing, timing
from weft.app.cli_models import made_by
from weft.app.cli_shared import as_json_option, print_json, reported
from weft.driver.options import Options
from weft.ir.accelerator import Accelerator
from weft.ir.errors import ArtifactError
from weft.ir.instruction_stream import Stream, decode
from weft.offload.accelerators import Semantics
from weft.offload.simulator import Simulator, check_stream, simulate
from weft.offload.stream_files import read_stream
from weft.runtime.files import write_atomically

_FILE = click.Path(path_type=Path)
_stream = click.argument("stream", metavar="FILE", type=_FILE)
_machine = click.option(
    "--machine", metavar="FILE.py:FUNCTION", help="What makes the machine, if it is not Weft's."
)
_config = click.option(
    "--config", type=_FILE, metavar="vta_config.json", help="The configuration that VTA must have."
)


@click.group()
def accel() -> None:
    """Streams of accelerators: NAME.bin, with NAME.json and NAME.image beside it."""


@accel.command()
@_stream
@_machine
@_config
@reported
def disasm(stream: Path, machine: str | None, config: Path | None) -> None:
    """Print the instructions of FILE: queue, tokens, fields, what each touches, micro-operations.

    With --machine or --config FILE may be a raw stream alone.
    """
    given = _given_machine(machine, config)
    if given is not None and not stream.with_suffix(".json").exists():
        for line in listing(decode(given, _bytes(stream))):
            click.echo(line)
        return
    artifact = read_stream(stream, given)
    semantics = _semantics(artifact)
    state = Simulator(semantics, artifact.image)
    issues = artifact.stream.issues
    for line in annotated(
        artifact.stream,
        semantics.footprints(len(artifact.image)),
        state.memories,
        lambda number: state.run(number, issues[number]),
    ):
        click.echo(line)


@accel.command()
@_stream
@_machine
@_config
@as_json_option
@reported
def check(stream: Path, machine: str | None, config: Path | None, as_json: bool) -> None:
    """Refuse FILE if it might do what it should not.

    Accesses that leave their memory, hazards that no token orders, tokens left over, deadlocks,
    what is read and was never written, and the rules of the machine.
    """
    artifact = read_stream(stream, _given_machine(machine, config))
    check_stream(artifact, _semantics(artifact))
    count = len(artifact.stream.issues)
    if as_json:
        print_json({"instructions": count, "right": True})
    else:
        click.echo(f"{stream}: {count:,} instructions, nothing to refuse")


@accel.command()
@_stream
@_machine
@_config
@click.option("--inputs", type=_FILE, metavar="x.npz", help="Inputs; others are random.")
@click.option("--output", type=_FILE, metavar="y.npz", help="Where to write the outputs.")
@click.option(
    "--trace", "trace_path", type=_FILE, metavar="out.json", help="When what runs, for Perfetto."
)
@click.option(
    "--order", default="first", help="Which queue goes first: first, last, turns, or a seed."
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Of random inputs.")
@as_json_option
@reported
def run(
    stream: Path,
    machine: str | None,
    config: Path | None,
    inputs: Path | None,
    output: Path | None,
    trace_path: Path | None,
    order: str,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate FILE: its outputs, and how many cycles it takes."""
    artifact = read_stream(stream, _given_machine(machine, config))
    given = _inputs(artifact, inputs, seed)
    image = simulate(
        artifact.stream,
        artifact.filled(given),
        order=_order(order),
        semantics=_semantics(artifact),
    )
    outputs, taken = artifact.outputs(image), timing(artifact.stream)
    if output is not None:
        _write_npz(output, outputs)
    if trace_path is not None:
        _write(trace_path, trace(artifact.stream, taken).encode())
    report = _report(artifact, taken)
    shapes = {n: {"dtype": str(a.dtype), "shape": list(a.shape)} for n, a in outputs.items()}
    if as_json:
        print_json({**report, "outputs": shapes})
        return
    click.echo(f"{report['instructions']:,} instructions, {report['cycles']:,} cycles")
    for name, busy in report["busy"].items():
        click.echo(f"  {name}: busy for {busy:,} cycles")
    for name, array in outputs.items():
        low, high = (array.min(), array.max()) if array.size else (0, 0)
        click.echo(f"{name}: {array.dtype}{list(array.shape)}, {low} to {high}")


# ---- parts ---------------------------------------------------------------------------------------


def _report(artifact: Artifact, taken: Timing) -> dict[str, Any]:
    machine = artifact.stream.accelerator
    busy = {queue.name: 0 for queue in machine.queues}
    for issue, span in zip(artifact.stream.issues, taken.spans, strict=True):
        busy[machine.operation(issue.operation).queue] += span.end - span.begin
    return {"instructions": len(artifact.stream.issues), "cycles": taken.cycles, "busy": busy}


def _semantics(artifact: Artifact) -> Semantics:
    options = replace(Options.from_environment(), threads=1)
    return Semantics(artifact.stream.accelerator, options)


def _given_machine(machine: str | None, config: Path | None) -> Accelerator | None:
    if machine is not None and config is not None:
        raise click.UsageError("--machine and --config both say which machine it is")
    if config is not None:
        return vta(Config.read(_bytes(config).decode("utf-8", "replace")))
    return None if machine is None else made_by(machine, Accelerator, "--machine")


def _order(text: str) -> Any:
    if text in ("first", "last", "turns"):
        return text
    if text.isdecimal():
        return int(text)
    raise click.UsageError(f"--order {text}: first, last, turns, or a number")


def _inputs(artifact: Artifact, path: Path | None, seed: int) -> dict[str, np.ndarray]:
    """Those of the file, random ones for the rest."""
    found: dict[str, np.ndarray] = {}
    if path is not None:
        try:
            with np.load(path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except Exception as error:  # zip files may be broken in many ways
            raise ArtifactError(
                "WEFT-E1026", f"cannot read {path}", why=str(error), hint="numpy.savez writes it"
            ) from None
    random = np.random.default_rng(seed)
    for each in artifact.tensors:
        if each.role == "input" and each.name not in found:
            found[each.name] = _random(random, each)
    return found


def _random(random: np.random.Generator, each: Placed) -> np.ndarray:
    dtype, shape = each.dtype, each.layout.shape
    if dtype.is_integer:
        values = random.integers(int(dtype.lowest), int(dtype.highest), shape, endpoint=True)
        return values.astype(dtype.numpy)
    return random.standard_normal(shape).astype(dtype.numpy)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError("WEFT-E1026", f"cannot read {path}", why=str(error)) from None


def _write(path: Path, data: bytes) -> None:
    try:
        write_atomically(path, [data])
    except OSError as error:
        raise ArtifactError("WEFT-E1026", f"cannot write {path}", why=str(error)) from None


def _write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]
    _write(path, file.getvalue())


# ---- When instructions run, for Perfetto and ``chrome://tracing``: a track for each queue.
#
# The format is Chrome's trace events, as JSON; a cycle is shown as a microsecond.


def trace(stream: Stream, timing: Timing) -> str:
    """The JSON text of ``timing`` of ``stream``."""
    machine = stream.accelerator
    tracks = {queue.name: number for number, queue in enumerate(machine.queues)}
    events: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": machine.name}}
    ]
    for name, track in tracks.items():
        about = {"ph": "M", "pid": 0, "tid": track}
        events.append({"name": "thread_name", **about, "args": {"name": name}})
        events.append({"name": "thread_sort_index", **about, "args": {"sort_index": track}})
    for number, (issue, span) in enumerate(zip(stream.issues, timing.spans, strict=True)):
        events.append({
            "name": issue.operation,
            "ph": "X",
            "pid": 0,
            "tid": tracks[machine.operation(issue.operation).queue],
            "ts": span.begin,
            "dur": span.end - span.begin,
            "args": {"number": number, **{n: v for n, v in issue.fields.items() if v}},
        })  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
