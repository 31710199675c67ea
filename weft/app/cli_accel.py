"""``weft accel``: streams of accelerators as text, checked, simulated."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import Any

import click
import numpy as np

from weft.accel.artifact import Artifact, Placed
from weft.accel.disassembler import annotated, listing
from weft.accel.machines.vta import Config, vta
from weft.accel.relocate import relocated, used
from weft.accel.timing import Timing, timing
from weft.app.cli_models import made_by
from weft.app.cli_shared import Address, as_json_option, base_option, print_json, reported
from weft.driver.options import Options
from weft.ir.accelerator import Accelerator
from weft.ir.errors import ArtifactError
from weft.ir.instruction_stream import Stream, decode
from weft.offload.accelerators import Semantics
from weft.offload.simulator import Simulator, check_stream, simulate
from weft.offload.stream_files import read_stream, write_stream
from weft.runtime.files import write_atomically

_FILE = click.Path(path_type=Path)
PAGE = 1 << 12  # bytes, on which a memory that stands for a missing image begins
MOST = 1 << 30  # bytes that it has at most
_stream = click.argument("stream", metavar="FILE", type=_FILE)
_machine = click.option(
    "--machine", metavar="FILE.py:FUNCTION", help="What makes the machine, if it is not Weft's."
)
_config = click.option(
    "--config", type=_FILE, metavar="vta_config.json", help="The configuration that VTA must have."
)
_image = click.option(
    "--image", type=_FILE, metavar="FILE.image", help="Main memory of a raw stream, as bytes."
)
_base = base_option("The address that the image of a raw stream begins at.")


@click.group()
def accel() -> None:
    """Streams of accelerators: NAME.bin, with NAME.json and NAME.image beside it."""


@accel.command()
@_stream
@_machine
@_config
@_image
@_base
@reported
def disasm(
    stream: Path, machine: str | None, config: Path | None, image: Path | None, base: int | None
) -> None:
    """Print the instructions of FILE: queue, tokens, fields, what each touches, micro-operations.

    With --machine or --config FILE may be a raw stream alone; --image says what main memory has.
    """
    given = _given(stream, machine, config, image, base)
    if given.blank:
        for line in listing(given.artifact.stream):
            click.echo(line)
        return
    semantics = _semantics(given.artifact)
    plain = relocated(given.artifact, semantics.analysed, 0)
    state = Simulator(semantics, plain.image)
    lines = annotated(
        plain.stream,
        semantics.footprints(len(plain.image)),
        state.memories,
        lambda number: state.run(number, plain.stream.issues[number]),
    )
    for line in _as_given(lines, given.artifact):
        click.echo(line)


@accel.command()
@_stream
@_machine
@_config
@_image
@_base
@as_json_option
@reported
def check(
    stream: Path,
    machine: str | None,
    config: Path | None,
    image: Path | None,
    base: int | None,
    as_json: bool,
) -> None:
    """Refuse FILE if it might do what it should not.

    Accesses that leave their memory, hazards that no token orders, tokens left over, deadlocks,
    what is read and was never written, and the rules of the machine. Of a raw stream without an
    image, what micro-operations decide is left out.
    """
    given = _given(stream, machine, config, image, base)
    semantics = _semantics(given.artifact)
    check_stream(given.artifact, semantics, blank=given.blank)
    issues = given.artifact.stream.issues
    blank = sum(bool(semantics.analysed[i.operation].contents) for i in issues
                if i.operation in semantics.analysed) if given.blank else 0  # fmt: skip
    if as_json:
        unchecked = {"unchecked": blank} if given.blank else {}
        print_json({"instructions": len(issues), "right": True, **unchecked})
        return
    click.echo(f"{stream}: {len(issues):,} instructions, nothing to refuse")
    if blank:
        click.echo(f"of {blank:,}, what they touch is not known without main memory: --image FILE")


@accel.command()
@_stream
@_machine
@_config
@click.option("--base", type=Address(), required=True, metavar="ADDRESS", help="The new address.")
@click.option("-o", "--output", type=_FILE, required=True, metavar="NAME.bin")
@as_json_option
@reported
def relocate(
    stream: Path,
    machine: str | None,
    config: Path | None,
    base: int,
    output: Path,
    as_json: bool,
) -> None:
    """Write FILE again for a main memory where its image begins at an address of your choice."""
    artifact = read_stream(stream, _given_machine(machine, config))
    moved = relocated(artifact, _semantics(artifact).analysed, base)
    written = [str(path) for path in write_stream(moved, output)]
    if as_json:
        print_json({"files": written, "base": base})
    for path in [] if as_json else written:
        click.echo(path)


@accel.command()
@_stream
@_machine
@_config
@_image
@_base
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
    image: Path | None,
    base: int | None,
    inputs: Path | None,
    output: Path | None,
    trace_path: Path | None,
    order: str,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate FILE: its outputs, and how many cycles it takes.

    Of a raw stream, --output has main memory after it, as bytes: `image`. Without --image that is
    zeros before.
    """
    found = _given(stream, machine, config, image, base)
    artifact = found.artifact
    given = _inputs(artifact, inputs, seed)
    semantics = _semantics(artifact)
    plain = relocated(artifact, semantics.analysed, 0)
    after = simulate(plain.stream, plain.filled(given), order=_order(order), semantics=semantics)
    outputs, taken = plain.outputs(after), timing(artifact.stream)
    if found.raw:
        outputs = {"image": after}
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


# ---- what is given ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Given:
    """``raw``: it has no manifest; ``blank``: nor an image, zeros stand for it."""

    artifact: Artifact
    raw: bool = False
    blank: bool = False


def _given(
    stream: Path, machine: str | None, config: Path | None, image: Path | None, base: int | None
) -> _Given:
    own = _given_machine(machine, config)
    if own is None or stream.suffix == ".json" or stream.with_suffix(".json").exists():
        if image is not None or base is not None:
            raise click.UsageError("--image and --base are for raw streams, and a manifest says it")
        return _Given(read_stream(stream, own))
    found = decode(own, _bytes(stream))
    if image is None and (beside := stream.with_suffix(".image")).exists():
        image = beside
    if image is not None:
        memory = np.frombuffer(_bytes(image), np.uint8).copy()
        return _Given(Artifact(found, memory, (), base or 0), raw=True)
    if base is not None:
        raise click.UsageError("--base says where an image begins, and there is no --image")
    empty = Artifact(found, np.zeros(0, np.uint8), ())
    touched = used(empty, _semantics(empty).analysed)
    main = (memory.nbytes for memory in own.memories if memory.depth is None)
    first = touched.start - touched.start % lcm(PAGE, *main)
    if touched.stop - first > MOST:
        size = touched.stop - first
        raise ArtifactError(
            "WEFT-E1026",
            f"{stream} reads and writes {size:,} bytes of main memory",
            why=f"zeros stand for it up to {MOST:,}",
            hint="--image FILE, and --base ADDRESS where that begins",
        )
    return _Given(Artifact(found, np.zeros(touched.stop - first, np.uint8), (), first), True, True)


def _as_given(lines: Iterator[str], artifact: Artifact) -> Iterator[str]:
    """``lines`` about ``artifact`` at address 0, with its own instructions."""
    own = listing(artifact.stream)
    for line in lines:
        number = line[:6].strip().isdigit() and line[6:8] == "  "
        yield next(own) if number else line
    if artifact.base:
        yield f"what is touched is counted from the image's begin, {artifact.base:#x}"


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
