"""``weft``: run, compile and explain models from a terminal.

Exit codes: 0 fine; 1 results differ from onnxruntime's, or what `weft check` is to prove does not
hold; 2 a Weft error (WEFT-E…); 64 wrong use of the command line; 130 interrupted. With ``--json``
everything on standard output is one JSON object, errors included. Progress, warnings and errors for
people go to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import weft
from weft.app.cli_accel import accel
from weft.app.cli_accelerated import open_accelerated, run_accelerated, write_streams
from weft.app.cli_check import check
from weft.app.cli_explore import explore_
from weft.app.cli_models import (
    Loaded,
    QuantizedRun,
    accelerator_named,
    make_inputs,
    open_program,
    open_quantized,
)
from weft.app.cli_report import Run, measured, print_run, run_data, write_outputs
from weft.app.cli_shared import (
    DIFFERENT,
    FAILED,
    INTERRUPTED,
    MISUSED,
    as_json_option,
    base_option,
    compile_progress,
    fail,
    print_json,
    progress,
    reported,
    shape_option,
    size_option,
    threads_option,
)
from weft.app.cli_tune import records, tune
from weft.app.measure import DEFAULT_REPEAT
from weft.app.user_files import seeds_named
from weft.codegen.c_interface import identifier
from weft.driver.options import Options
from weft.driver.targets import Listed, calibrate_host, listed
from weft.frontend.zoo.registry import MODELS
from weft.host.onnx_shapes import Shapes
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CallError, WeftError
from weft.offload.accelerated import Accelerated
from weft.runtime.cache import open_cache
from weft.runtime.executable import Executable, available_threads

# ---- ``weft cache``: the compiled programs that are kept between runs.


@click.group()
def cache() -> None:
    """The compiled programs that are kept between runs."""


@cache.command()
@as_json_option
@reported
def info(as_json: bool) -> None:
    """Where the cache is, and how large."""
    options = Options.from_environment()
    found = open_cache(options.cache_dir, options.cache_bytes) if options.cache else None
    data: dict[str, object] = {"folder": None, "entries": 0, "bytes": 0}
    if found is not None:
        entries = len(list(found.folder.glob("*.weft")))
        data = {"folder": str(found.folder), "entries": entries, "bytes": found.size()}
    if as_json:
        print_json(data | {"limit": options.cache_bytes})
    else:
        click.echo(
            f"{data['folder'] or 'off'}: {data['entries']} programs, {data['bytes']:,} bytes"
        )


@cache.command()
@as_json_option
@reported
def clear(as_json: bool) -> None:
    """Forget every compiled program."""
    options = Options.from_environment()
    found = open_cache(options.cache_dir, options.cache_bytes) if options.cache else None
    size = found.size() if found is not None else 0
    if found is not None:
        found.clear()
    if as_json:
        print_json({"freed": size})
    else:
        click.echo(f"{size:,} bytes freed")


MODEL_HELP = f"MODEL: {', '.join(MODELS)} (built on the spot, seeded random weights), or the path\
 of an .onnx file, of a .pt2 file of torch.export's or of a .weft artifact, or FILE.py:KERNEL, a\
 loop kernel of a Python file, which is run for it."


_model = click.argument("model")
_target = click.option(
    "--target", metavar="NAME", help="The processor to compile for, one of `weft targets`."
)
_seeds = click.option(
    "--seeds", multiple=True, metavar="NAME|FILE.py[:NAME]",
    help="Schedules of your own, taken where they are estimated to cost least: all that FILE.py"
    " registers by @weft.seed, one of them, or a registered one (docs/extending.md).",
)  # fmt: skip
_any_target = click.option(
    "--target", metavar="NAME",
    help="The processor to compile for, one of `weft targets`, or an accelerator: vta, or"
    " FILE.py:FUNCTION.",
)  # fmt: skip
_config = click.option(
    "--config", type=click.Path(path_type=Path), metavar="vta_config.json",
    help="The configuration of --target vta.",
)  # fmt: skip
_quantize = click.option(
    "--quantize", is_flag=True,
    help="In 8-bit integers: scales, layer by layer, and accuracy beside floating point.",
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(weft.__version__, prog_name="weft")
def cli() -> None:
    """Weft compiles models and tensor programs with a polyhedral compiler."""


def main() -> None:
    """The command ``weft``; always ends in ``SystemExit``."""
    try:
        sys.exit(cli.main(prog_name="weft", standalone_mode=False) or 0)
    except click.ClickException as error:
        if "--json" in sys.argv:
            fail(WeftError("WEFT-E0806", error.format_message()), as_json=True, code=MISUSED)
        error.show()
        sys.exit(MISUSED)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # `weft explain … | head`; nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)


# ---- run ----------------------------------------------------------------------------------------


@cli.command(epilog=MODEL_HELP)
@_model
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=@FILE.npy|NAME=VALUE",
    help="An input; VALUE is a number or JSON array. Others are random.",
)  # fmt: skip
@click.option(
    "--output", "outputs", multiple=True, metavar="NAME=@FILE.npy", help="Where to write an output."
)
@threads_option
@_any_target
@_config
@_seeds
@shape_option
@click.option("--seed", type=click.IntRange(0), default=0, help="Of random inputs.")
@click.option(
    "--repeat", type=click.IntRange(1),
    help=f"Timed runs; by default {DEFAULT_REPEAT}, or fewer in 10 s.",
)  # fmt: skip
@click.option("--no-peer", is_flag=True, help="Do not compare with onnxruntime.")
@_quantize
@as_json_option
@reported
def run(
    model: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    threads: int | None,
    target: str | None,
    config: Path | None,
    seeds: tuple[str, ...],
    shapes: Shapes,
    seed: int,
    repeat: int | None,
    no_peer: bool,
    quantize: bool,
    as_json: bool,
) -> None:
    """Run MODEL: its results, its latency beside onnxruntime's, and what the compiler did.

    On an accelerator it is simulated: what each layer takes, and whether results are right.
    """
    started = time.perf_counter()
    machine = accelerator_named(target, config)
    if machine is not None:
        _no_seeds(seeds)
        _run_accelerated(model, machine, threads, inputs, outputs, shapes, seed, quantize, as_json)
        return
    choices: dict[str, Any] = {"threads": threads, "target": target, "seeds": seeds_named(seeds)}
    if quantize:
        loaded, quantised = _quantised(model, shapes, inputs, seed, **choices)
    else:
        loaded, quantised = _open(model, shapes, **choices), None
    given = make_inputs(loaded, inputs, seed)
    with compile_progress(f"running {loaded.name}", watched=False):
        results = loaded.program.run(given)  # a model of open shapes compiles here
    seconds = time.perf_counter() - started
    write_outputs(results, outputs)
    count = min(threads or available_threads(), available_threads())
    timing, peer = measured(loaded, given, results, count, repeat, with_peer=not no_peer)
    found = Run(loaded.name, results, seconds, count, loaded.program.stats, timing, peer)
    if as_json:
        print_json(run_data(found) | ({"quantisation": quantised.data()} if quantised else {}))
    else:
        if quantised is not None:
            click.echo(quantised)
        print_run(found, Console(highlight=False, soft_wrap=True))
    if peer is not None and peer.difference is not None and not peer.difference.equal:
        sys.exit(DIFFERENT)


def _run_accelerated(
    model: str,
    machine: Accelerator,
    threads: int | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    shapes: Shapes,
    seed: int,
    quantize: bool,
    as_json: bool,
) -> None:
    options = _options({"threads": threads})
    with compile_progress(f"compiling {model} for {machine.name}", watched=False):
        loaded, quantised = open_accelerated(
            model, machine, options, shapes, inputs, seed, quantize=quantize
        )
    given = make_inputs(loaded, inputs, seed)
    with progress(f"simulating {loaded.name}"):
        found, results = run_accelerated(loaded, quantised, given, options, shapes)
    write_outputs(results, outputs)
    if as_json:
        print_json(found.data() | ({"quantisation": quantised.data()} if quantised else {}))
    else:
        if quantised is not None:
            click.echo(quantised)
        found.print(Console(highlight=False, soft_wrap=True))
    if not found.equal:
        sys.exit(DIFFERENT)


def _quantised(
    model: str, shapes: Shapes, inputs: tuple[str, ...], seed: int, **choices: Any
) -> tuple[Loaded, QuantizedRun]:
    """The same in 8-bit integers, calibrated with ``inputs`` and random ones."""
    with compile_progress(f"quantising {model}", watched=False):
        return open_quantized(model, _options(choices), shapes, inputs, seed)


def _no_seeds(seeds: tuple[str, ...]) -> None:
    if seeds:
        raise click.UsageError("--seeds are schedules for processors")


def _options(choices: Mapping[str, Any]) -> Options:
    given = {name: value for name, value in choices.items() if value is not None}
    return replace(Options.from_environment(), **given)


def _open(model: str, shapes: Shapes, /, plan: Path | None = None, **choices: Any) -> Loaded:
    """The model compiled with the environment's options, but for the ``choices`` that are made, by
    the decisions of the file ``plan``."""
    options = _options(choices)
    watched = bool(options.logs or options.print_after)
    with compile_progress(f"compiling {model}", watched=watched):
        return open_program(model, options, shapes, plan)


@cli.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure Weft beside onnxruntime, PyTorch and BLAS; `weft bench --help` lists the suites."""
    from weft.benchmarks.__main__ import main as benchmarks  # and NumPy's peers, with it

    benchmarks.main(args=list(arguments), prog_name="weft bench", standalone_mode=False)


# ---- compile, explain, targets ------------------------------------------------------------------


@cli.command("compile", epilog=MODEL_HELP)
@_model
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="By default NAME.weft; NAME.o or NAME.so: a library for C programs; NAME.cu: kernels.",
)
@click.option("--header", type=click.Path(path_type=Path), help="Of a library: where it goes.")
@click.option("--name", help="Of a library: what its functions' names start with.")
@_any_target
@_config
@base_option("Of an accelerator: the address in main memory that its images begin at.")
@_quantize
@_seeds
@shape_option
@click.option("--texts/--no-texts", default=True, help="Keep the IRs and LLVM's text inside.")
@click.option("--plan", type=click.Path(path_type=Path), help="Decisions to take: docs/plans.md.")
@click.option(
    "--effort", type=click.Choice(("full", "quick")), help="quick: soon compiled, slower code."
)
@click.option("--certificate/--no-certificate", default=True, help="Keep what `weft check` proves.")
@as_json_option
@reported
def compile_(
    model: str,
    output: Path | None,
    header: Path | None,
    name: str | None,
    target: str | None,
    config: Path | None,
    base: int | None,
    quantize: bool,
    seeds: tuple[str, ...],
    shapes: Shapes,
    texts: bool,
    plan: Path | None,
    effort: str | None,
    certificate: bool,
    as_json: bool,
) -> None:
    """Compile MODEL to an artifact that runs without compiling, or to a library for C programs.

    For an accelerator, to streams: NAME.bin, NAME.json, NAME.image; see `weft accel`.
    """
    machine = accelerator_named(target, config)
    if machine is not None:
        _no_seeds(seeds)
        _compile_streams(model, machine, output, shapes, quantize, base or 0, as_json)
        return
    if base is not None:
        raise click.UsageError("--base is for accelerators: --target vta, or FILE.py:FUNCTION")
    kernels = output is not None and output.suffix == ".cu"
    if kernels and target is not None and not target.startswith("cuda-twin"):
        target = f"cuda-twin:{target}"  # which says what the results are
    library = kernels or (output is not None and output.suffix in (".o", ".so"))
    if not library and (header is not None or name is not None):
        raise CallError(
            "WEFT-E0807",
            "--header and --name are for libraries",
            hint="-o NAME.o, or -o NAME.so where there is a linker",
        )
    choices: dict[str, Any] = {"target": target, "effort": effort, "seeds": seeds_named(seeds)}
    if quantize:
        loaded, _ = _quantised(model, shapes, (), 0, **choices)
    else:
        loaded = _open(model, shapes, plan=plan, **choices)
    assert not isinstance(loaded.program, Accelerated), "it was made for a processor"
    path = output or Path(f"{loaded.name}.weft")
    if library:
        loaded.program.export(path, header=header, name=name or identifier(loaded.name))
    else:
        loaded.program.save(path, texts=texts, certificate=certificate)
    size = path.stat().st_size
    if as_json:
        made = {"artifact": str(path), "header": str(header)} if header else {"artifact": str(path)}
        print_json({**made, "bytes": size, "stats": dict(loaded.program.stats)})
    else:
        click.echo(f"{path}: {size:,} bytes")


def _compile_streams(
    model: str,
    machine: Accelerator,
    output: Path | None,
    shapes: Shapes,
    quantize: bool,
    base: int,
    as_json: bool,
) -> None:
    with compile_progress(f"compiling {model} for {machine.name}", watched=False):
        loaded, _ = open_accelerated(model, machine, _options({}), shapes, (), 0, quantize=quantize)
    assert isinstance(loaded.program, Accelerated), "it was made for an accelerator"
    written = write_streams(loaded.program, output or Path(f"{loaded.name}.bin"), base)
    if as_json:
        print_json({"files": [str(path) for path in written], "stats": loaded.program.stats})
    for path in [] if as_json else written:
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


@cli.command(epilog=MODEL_HELP)
@_model
@_target
@_seeds
@shape_option
@click.option("--stage", help="The text after this stage of the compiler instead.")
@click.option("--source", type=click.Choice(["llvm", "asm"]), help="The generated code instead.")
@click.option("--plan", is_flag=True, help="The decisions as JSON instead: docs/plans.md.")
@click.option("--details", is_flag=True, help="Of a loop kernel: what is decided otherwise costs.")
@size_option
@as_json_option
@reported
def explain(
    model: str,
    target: str | None,
    seeds: tuple[str, ...],
    shapes: Shapes,
    stage: str | None,
    source: str | None,
    plan: bool,
    details: bool,
    numbers: dict[str, int],
    as_json: bool,
) -> None:
    """Say what was fused, tiled and scheduled in MODEL, and why.

    Clusters, their statements, dependences and schedules, and for each pair of neighbouring
    operators why they were fused or not; of a loop kernel, what else could be decided and, with
    --details, what that is estimated to cost, which takes seconds.
    """
    program = _open(model, shapes, target=target, seeds=seeds_named(seeds)).program
    assert not isinstance(program, Accelerated), "it was made for a processor"
    if plan:
        text = str(program.plan)
    elif source is not None:
        text = program.source(source)
    elif stage is not None:
        text = program.as_text(stage)
    elif isinstance(program, Executable):
        text = program.explain(details=details, sizes=numbers)
    elif numbers:
        raise CallError("WEFT-E0802", "--size has no meaning: a model is compiled for --shape")
    else:
        text = program.explain()
    if as_json:
        print_json({"text": text, "stats": dict(program.stats)})
    else:
        click.echo(text)


@cli.command()
@click.option("--calibrate", is_flag=True, help="Measure this processor, as host-calibrated.")
@as_json_option
@reported
def targets(calibrate: bool, as_json: bool) -> None:
    """List the processors to compile for: vectors, caches, instructions; which run here.

    A calibrated record says what this processor was measured to do: clock, multiply-adds, bandwidth
    of each memory, barriers. Only `--target host-calibrated` uses it.
    """
    options = Options.from_environment()
    if calibrate:
        with progress("measuring", 1):
            calibrate_host(options)
    rows = listed(options)
    if as_json:
        print_json({"targets": [target_data(row) for row in rows]})
    else:
        click.echo(targets_text(rows))


cli.add_command(accel)
cli.add_command(cache)
cli.add_command(check)
cli.add_command(explore_)
cli.add_command(tune)
cli.add_command(records)


# ---- The table of ``weft targets``, for people and as JSON.


def target_data(row: Listed) -> dict[str, object]:
    """One row as JSON data; ``machine`` has all that an estimate goes by, in the units of
    ``weft/ir/machine.py``."""
    target, machine = row.target, row.target.machine
    data = asdict(replace(machine, extensions=()))
    return {
        "name": target.name,
        "host": target.name.startswith("host"),
        "runs_here": not row.lacking,
        "lacking": list(row.lacking),
        "triple": target.llvm.triple,
        "cpu": target.llvm.cpu,
        "cores": target.cores,
        "instructions": _instructions(row),
        "machine": data | {"extensions": [x.name for x in machine.extensions]},
    }


def targets_text(rows: Sequence[Listed]) -> str:
    """A table, and below it what was measured here."""
    table = [("target", "processor", "vectors", "caches", "instructions", "runs here")]
    table += [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table]
    measured = [_rates(row) for row in rows if row.target.name == "host-calibrated"]
    lines += ["", *(f"measured: {rates}" for rates in measured)]
    return "\n".join([*lines, "Any other processor that LLVM knows by name is a target too."])


def _cells(row: Listed) -> tuple[str, str, str, str, str, str]:
    target, machine = row.target, row.target.machine
    return (
        target.name,
        target.llvm.cpu,
        f"{machine.vector_registers} x {8 * machine.vector_bytes} bits",
        " ".join(_size(cache.size) for cache in machine.caches),
        " ".join(_instructions(row)) or "-",
        "no" if row.lacking else "yes",
    )


def _instructions(row: Listed) -> list[str]:
    """What it has beyond multiplications and additions."""
    fused = ["fma"] if row.target.llvm.fma else []
    return [*fused, *dict.fromkeys(x.name for x in row.target.machine.extensions)]


def _rates(row: Listed) -> str:
    machine = row.target.machine
    lanes = machine.vector_bytes // 4
    peak = 2 * lanes * machine.fma_per_cycle * machine.frequency
    caches = ", ".join(f"{cache.bandwidth:g}" for cache in machine.caches)
    return (
        f"{machine.frequency / 1e9:g} GHz, {machine.fma_per_cycle} multiply-adds a cycle after"
        f" {machine.fma_latency} ({peak / 1e9:.0f} GFLOP/s in float32), {caches} bytes a cycle out"
        f" of the caches, {machine.memory_bandwidth / 1e9:g} GB/s out of memory"
        f" ({machine.shared_bandwidth / 1e9:g} for all threads), {machine.barrier * 1e6:g} µs a"
        f" barrier, {machine.wake * 1e6:g} µs to wake up"
    )


def _size(size: int) -> str:
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


if __name__ == "__main__":
    main()
