"""``python -m benchmarks SUITE [options]``: one suite, its answers checked, a row for each case."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from weft.benchmarks import (
    attention,
    blind,
    chain,
    compile_times,
    conv,
    costs,
    environment,
    estimates,
    explore,
    gemm,
    memory,
    models,
    quantiser,
    recurrent,
    report,
    spaces,
    suite,
    torch_models,
    tune,
    vta,
)
from weft.benchmarks import environment as avx2_only
from weft.benchmarks import report as compare
from weft.benchmarks.case import Planned
from weft.benchmarks.gpu import bundle, published_tiles
from weft.benchmarks.gpu import rows as gpu_rows
from weft.benchmarks.loop_programs import run as loop_programs
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.polybench.benchmark import DATASETS
from weft.benchmarks.polybench.run import Settings
from weft.benchmarks.polybench.run import run as run_polybench
from weft.codegen.machines.nvidia import GPUS
from weft.ir.errors import WeftError

Rows = list[dict[str, Any]]
Command = Callable[..., None]

_FOUND = click.Path(exists=True, dir_okay=False, path_type=Path)
_WIDTH = 200  # columns where the output is no terminal


class _File(click.Path):
    """A file to be written at the end: refused at the beginning where it cannot be."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent}", param, ctx)
        return path


def _common(command: Command) -> Command:
    """The options of every suite."""
    threads = click.IntRange(1, 1024)
    for option in (
        click.option("--json", "path", type=_File(), help="Write the rows here too."),
        click.option("--quick", is_flag=True, help="Fewer repetitions and sizes."),
        click.option(
            "--threads", type=threads, default=1, show_default=True, help="Threads of Weft."
        ),
    ):
        command = option(command)
    return command


@click.group()
def main() -> None:
    """Run one suite, check its answers and print a row for each case, losses included."""


class _Apart(click.Command):
    """A suite that remembers its arguments, to be run again in the peers' own environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = [str(ctx.info_name), *args]
        return super().parse_args(ctx, args)


def _measured(command: Callable[..., None]) -> Command:
    """The options of suites beside peers, which ``command`` gets as settings and a path."""

    @functools.wraps(command)
    def wrapped(
        threads: int,
        quick: bool,
        path: Path | None,
        only: str,
        cpu_time: bool,
        tvm_trials: int,
        avx2: bool,
        **more: Any,
    ) -> None:
        clock = _allowed(cpu_time, threads)
        if avx2 and not avx2_only.held(os.environ):
            _run_on_avx2()
        command(suite.Settings(threads, quick, clock, _names(only), tvm_trials), path, **more)

    result: Command = wrapped
    for option in (
        click.option(
            "--tvm-trials", type=click.IntRange(0), default=0, show_default=True,
            help="Candidates that TVM's tuner measures for each row; 0: without TVM.",
        ),
        click.option("--cpu-time", is_flag=True, help="Processor time, for a busy machine."),
        click.option(
            "--avx2", is_flag=True,
            help=f"Weft for {avx2_only.TARGET} and peers on a processor that seems to be no more.",
        ),
        click.option("--only", default="", help="Patterns of names with commas between."),
    ):  # fmt: skip
        result = option(result)
    return _common(result)


@main.command("gemm", cls=_Apart)
@_measured
def _gemm(settings: suite.Settings, path: Path | None) -> None:
    """Matrix products beside onnxruntime, OpenBLAS, PyTorch and oneDNN."""
    _beside("gemm", gemm.cases(settings.quick), gemm.PEERS, settings, path)


@main.command("conv", cls=_Apart)
@_measured
def _conv(settings: suite.Settings, path: Path | None) -> None:
    """Convolutions of ResNet-18, ResNet-50 and MobileNetV2, with what follows them."""
    _beside("conv", conv.cases(settings.quick), conv.PEERS, settings, path)


@main.command("attention", cls=_Apart)
@_measured
def _attention(settings: suite.Settings, path: Path | None) -> None:
    """Causal attention beside onnxruntime and PyTorch's scaled_dot_product_attention."""
    _beside("attention", attention.cases(settings.quick), attention.PEERS, settings, path)


@main.command("memory", cls=_Apart)
@_measured
def _memory(settings: suite.Settings, path: Path | None) -> None:
    """What moves data: softmax, normalisations, transposes, reductions, at each cache's size."""
    _beside("memory", memory.cases(settings.quick), memory.PEERS, settings, path)


@main.command("recurrent", cls=_Apart)
@_measured
def _recurrent(settings: suite.Settings, path: Path | None) -> None:
    """Recurrent layers of DeepBench beside onnxruntime and PyTorch (of LSTMs, oneDNN)."""
    _beside("recurrent", recurrent.cases(settings.quick), recurrent.PEERS, settings, path)


@main.command("quantiser", cls=_Apart)
@_measured
def _quantiser(settings: suite.Settings, path: Path | None) -> None:
    """Models as onnxruntime's quantiser leaves them, beside onnxruntime."""
    try:
        cases = list(quantiser.cases(settings.threads, settings.quick))
    except ImportError:
        raise click.ClickException("not installed: onnxruntime") from None
    _beside("quantiser", cases, quantiser.PEERS, settings, path, loop_of=models.loop_of)


@main.command("models", cls=_Apart)
@_measured
@click.option("--onnx", "files", multiple=True, type=_FOUND, help="A model instead; or several.")
@click.option(
    "--build", "built", multiple=True, type=click.Choice(models.BUILDERS),
    help="A larger model instead, with random weights; repeat it.",
)  # fmt: skip
@click.argument("more", nargs=-1, type=_FOUND, metavar="")
def _models(
    settings: suite.Settings,
    path: Path | None,
    files: tuple[Path, ...],
    built: tuple[str, ...],
    more: tuple[Path, ...],
) -> None:
    """Whole models beside onnxruntime and PyTorch, compiled with freezing unless --quick."""
    quick = settings.quick
    peers = models.QUICK_PEERS if quick else models.PEERS
    cases = models.cases(settings.threads, quick=quick, files=(*files, *more), built=built)
    _beside("models", cases, peers, settings, path, loop_of=models.loop_of, row_seconds=10.0)


def _run_on_avx2() -> None:
    """The same command again where libraries find AVX2 alone; exits as it does."""
    try:
        with avx2_only.changes() as changes:
            sys.exit(environment.run_apart(_arguments(), changes))
    except avx2_only.Unheld as reason:
        raise click.ClickException(f"--avx2: {reason}") from None


def _arguments() -> list[str]:
    """What the command was called with."""
    found: list[str] = click.get_current_context().meta["arguments"]
    return found


def _beside(
    name: str,
    cases: Iterable[Planned],
    peers: Sequence[Peer],
    settings: suite.Settings,
    path: Path | None,
    **how: Any,
) -> None:
    """A suite beside its peers, in an environment that suits them all; exits with 1 on failures."""
    changes = environment.wanted(settings.threads, os.environ)
    if changes:
        sys.exit(environment.run_apart(_arguments(), changes))
    rows: Rows = []

    def tell(row: dict[str, Any]) -> None:
        """What there is so far is kept, should somebody lose patience."""
        rows.append(row)
        click.echo(report.line(row), err=True)
        _write(path, rows)

    found = suite.run(cases, peers, settings, tell, **how)
    report.show(name, found.rows, found.limits, found.left_out)
    _write(path, found.rows)
    if report.failures(found.rows):
        sys.exit(1)


@main.command("compare")
@click.argument("old", type=_FOUND)
@click.argument("new", type=_FOUND)
def _compare(old: Path, new: Path) -> None:
    """Two files of --json; exits with 1 where a row became slower beyond its noise."""
    try:
        before, after = compare.read(old), compare.read(new)
    except compare.Unreadable as error:
        raise click.UsageError(str(error)) from None
    changes = compare.compare(before, after)
    for text in compare.lines(changes, compare.missing(before, after)):
        click.echo(text)
    if any(found.regressed for found in changes):
        sys.exit(1)


@main.command("chain")
@_common
def _chain(threads: int, quick: bool, path: Path | None) -> None:
    """Compile time of elementwise chains against their length."""
    _show("chain", chain.run(quick), path)


@main.command("compile")
@_common
@click.option("--only", default="", help="Names with commas between; all by default.")
@click.option("--cpu-time", is_flag=True, help="Processor time, for a busy machine; one thread.")
def _compile(threads: int, quick: bool, path: Path | None, only: str, cpu_time: bool) -> None:
    """Compile times of both efforts, and what their code takes to run.

    Exits with 1 where their answers differ.
    """
    clock = _allowed(cpu_time, threads)
    settings = compile_times.Settings(threads, quick, clock, _names(only))
    try:
        _ = settings.names
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from None
    _report("compile", compile_times.run(settings), path)


@main.command("blind")
@_common
def _blind(threads: int, quick: bool, path: Path | None) -> None:
    """The same computation under other names, beside the built-in operator."""
    _show("blind", blind.run(threads, quick), path)


@main.command("polybench")
@_common
@click.option("--size", type=click.Choice(DATASETS), default="large", show_default=True)
@click.option("--kernels", default="", help="Names with commas between; all by default.")
@click.option("--untiled", is_flag=True, help="Beside Weft's best code without time tiles.")
@click.option("--verify", is_flag=True, help="Verify all dtypes at mini to medium; time nothing.")
@click.option("--cpu-time", is_flag=True, help="Processor time, for a busy machine; one thread.")
def _polybench(
    threads: int,
    quick: bool,
    path: Path | None,
    size: str,
    kernels: str,
    untiled: bool,
    verify: bool,
    cpu_time: bool,
) -> None:
    """The 30 kernels of PolyBench 4.2.1 beside gcc and clang on one thread.

    Exits with 1 where an answer is wrong or a kernel does not compile.
    """
    settings = Settings(
        threads, quick, _allowed(cpu_time, threads), size, _names(kernels), untiled, verify
    )
    try:
        _ = settings.benchmarks
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--kernels") from None
    _report(f"polybench {'' if verify else size}", run_polybench(settings), path)


@main.command("programs")
@_common
@click.option("--kernels", default="", help="Names with commas between; all by default.")
@click.option("--cpu-time", is_flag=True, help="Processor time, for a busy machine; one thread.")
def _programs(threads: int, quick: bool, path: Path | None, kernels: str, cpu_time: bool) -> None:
    """Loop programs outside PolyBench beside gcc and clang on one thread.

    Exits with 1 where an answer is wrong or a program does not compile.
    """
    settings = loop_programs.Settings(threads, quick, _allowed(cpu_time, threads), _names(kernels))
    try:
        _ = settings.programs
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--kernels") from None
    _report("programs", loop_programs.run(settings), path)


@main.command("torch", cls=_Apart)
@_common
@click.option("--only", "--kernels", default="", help="Patterns of names with commas between.")
@click.option("--cpu-time", is_flag=True, help="Processor time, for a busy machine; one thread.")
def _torch(threads: int, quick: bool, path: Path | None, only: str, cpu_time: bool) -> None:
    """PyTorch models, fixed and open, beside eager mode, torch.compile and onnxruntime.

    --quick: a few small ones, without torch.compile. Exits with 1 where an answer is wrong or a
    model is refused.
    """
    settings = torch_models.Settings(threads, quick, _allowed(cpu_time, threads), _names(only))
    try:
        _ = settings.architectures
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from None
    except torch_models.Missing as error:
        raise click.ClickException(f"not installed: {error}") from None
    if changes := environment.wanted(threads, os.environ):
        sys.exit(environment.run_apart(_arguments(), changes))
    _report("torch", torch_models.run(settings), path, torch_models.means)


@main.command("tiles")
@click.option("--json", "path", type=_File(), help="Write the rows here too.")
def _tiles(path: Path | None) -> None:
    """Tiles that DeepGEMM and cuBLAS publish for products, beside the cheapest by Weft's price.

    Exits with 1 where one costs more than 5% more.
    """
    _report("tiles", published_tiles.run(), path)


@main.command("gpu")
@click.option(
    "--bundle", "folder", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write: code, a manifest, and run.py, to be carried to a GPU.",
)  # fmt: skip
@click.option("--only", default="", help="Patterns of names with commas between; all by default.")
@click.option(
    "--architectures", default=",".join(bundle.ARCHITECTURES), show_default=True,
    help="GPUs, with commas between.",
)  # fmt: skip
@click.option("--json", "path", type=_File(), help="Write what each row took here too.")
def _gpu(folder: Path, only: str, architectures: str, path: Path | None) -> None:
    """Kernels for GPUs, to be checked and measured where there is one; needs NVIDIA's compiler.

    Exits with 1 where a row is refused.
    """
    if unknown := sorted(set(_names(architectures)) - set(GPUS)):
        raise click.BadParameter(f"{unknown[0]!r} is none", param_hint="--architectures")
    wanted = suite.Settings(only=_names(only))
    rows = [row for row in gpu_rows.rows() if wanted.takes(row.name)]
    try:
        with bundle.assembler() as assemble:
            folder.mkdir(parents=True, exist_ok=True)
            made = bundle.write_bundle(folder, rows, _names(architectures), assemble)
            _report("gpu", made, path)
    except WeftError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror or error}") from None


@main.command("vta")
@click.option("--json", "path", type=_File(), help="Write the rows here too.")
@click.option("--quick", is_flag=True, help="Three layers of the default, in one order of queues.")
@click.option(
    "--configs", default=",".join(vta.CONFIGS), show_default=True,
    help="Configurations, with commas between.",
)  # fmt: skip
def _vta(path: Path | None, quick: bool, configs: str) -> None:
    """ResNet-18 on VTA, its layers and as a whole: cycles; exact or not.

    Exits with 1 where an answer is wrong.
    """
    names = _names(configs)
    if unknown := sorted(set(names) - set(vta.CONFIGS)):
        raise click.BadParameter(f"{unknown[0]!r} is none", param_hint="--configs")
    _report("vta", vta.run(quick, names[:1] if quick else names), path)


@main.command("explore")
@_common
def _explore(threads: int, quick: bool, path: Path | None) -> None:
    """The front of an exploration beside brute force; closed forms beside simulated tilings.

    Exits with 1 where fronts differ, or closed forms rank badly. --threads: processes.
    """
    _report("explore", explore.run(threads, quick), path)


@main.command("costs")
@_common
@click.option("--only", default="", help="Names with commas between; all by default.")
@click.option("--candidates", default=costs.CANDIDATES, show_default=True, help="Schedules each.")
def _costs(threads: int, quick: bool, path: Path | None, only: str, candidates: int) -> None:
    """How estimates rank random schedules beside their times, and whether lower bounds hold.

    Exits with 1 where something ran faster than its bound. On one thread, processor time.
    """
    if unknown := sorted(set(_names(only)) - set(costs.subjects())):
        raise click.BadParameter(f"{unknown[0]!r} is none", param_hint="--only")
    _report("costs", costs.run(threads, quick, _names(only), candidates), path)


@main.command("estimates")
@click.argument("files", nargs=-1, required=True, type=_FOUND)
@click.option("--picture", type=_File(), help="NAME.svg: estimates over times.")
@click.option("--json", "path", type=_File(), help="Write the rows here too.")
def _estimates(files: tuple[Path, ...], picture: Path | None, path: Path | None) -> None:
    """Estimates and bounds of the rows in FILES of --json, a suite each, beside their times.

    Exits with 1 where a row ran faster than its bound. A file is called after its suite.
    """
    try:
        found = {file.stem: estimates.points(compare.rows_of(file)) for file in files}
    except compare.Unreadable as error:
        raise click.UsageError(str(error)) from None
    if picture is not None:
        picture.write_text(estimates.chart(found), encoding="utf-8")
    _report("estimates", estimates.summaries(found), path)


@main.command("spaces")
@_common
@click.option("--only", default="", help="Names with commas between; all by default.")
def _spaces(threads: int, quick: bool, path: Path | None, only: str) -> None:
    """How soon a tuner's search finds what exhaustive search finds, on real kernels."""
    if unknown := sorted(set(_names(only)) - set(spaces.NAMES)):
        raise click.BadParameter(f"{unknown[0]!r} is none", param_hint="--only")
    _report("spaces", spaces.run(threads, quick, _names(only)), path)


@main.command("tune")
@_common
@click.option("--only", default="", help="Names with commas between; all by default.")
@click.option("--seconds", default=60.0, show_default=True, help="For each row.")
@click.option("--target", default="host", show_default=True, help="Another processor's record.")
@click.option("--picture", type=_File(), help="NAME.svg: gains.")
def _tune(
    threads: int,
    quick: bool,
    path: Path | None,
    only: str,
    seconds: float,
    target: str,
    picture: Path | None,
) -> None:
    """What a tuner gains over Weft's own choice, and how often it takes noise for a gain.

    Exits with 1 where a plan is slower than the untuned program, or noise is taken for gains.
    """
    if unknown := sorted(set(_names(only)) - set(tune.names())):
        raise click.BadParameter(f"{unknown[0]!r} is none", param_hint="--only")
    settings = tune.Settings(threads, quick, seconds, target, _names(only))
    found: list[dict[str, Any]] = []
    try:
        _report("tune", _kept(tune.run(settings), found), path)
    finally:
        if picture is not None:
            picture.write_text(tune.chart(found), encoding="utf-8")


def _kept(rows: Iterator[dict[str, Any]], found: Rows) -> Iterator[dict[str, Any]]:
    for row in rows:
        found.append(row)
        yield row


def _names(kernels: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in kernels.split(",") if name.strip())


def _allowed(cpu_time: bool, threads: int) -> bool:
    if cpu_time and threads > 1:
        raise click.BadParameter("of several threads it is no time", param_hint="--cpu-time")
    return cpu_time


def _report(
    title: str,
    found: Iterator[dict[str, Any]],
    path: Path | None,
    summary: Callable[[Rows], Iterable[str]] = lambda rows: (),
) -> None:
    """The rows as they come and as a table, and lines about all; exits with 1 where one is not
    right."""
    rows = []
    for row in found:
        rows.append(row)
        _write(path, rows)  # should somebody lose patience
        if not sys.stderr.isatty():  # where there is no progress bar
            click.echo(" ".join(f"{key}={value}" for key, value in row.items()), err=True)
    _show(title, rows, path)
    for line in summary(rows):
        click.echo(line)
    if not all(row.get("right", True) for row in rows):
        sys.exit(1)


def _show(title: str, rows: Rows, path: Path | None) -> None:
    columns = list(dict.fromkeys(k for row in rows for k in row if not isinstance(row[k], dict)))
    if "note" in columns:  # the longest comes last
        columns = [key for key in columns if key != "note"] + ["note"]
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(str(row.get(key, "")) for key in columns))
    console = Console()
    (console if console.is_terminal else Console(width=_WIDTH)).print(table)
    _write(path, rows)


def _write(path: Path | None, rows: Rows) -> None:
    if path is not None:
        path.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
