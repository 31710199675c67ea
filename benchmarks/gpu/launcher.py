"""Check and measure the kernels of a bundle on a GPU. Needs PyTorch and a driver, and not Weft.

    python run.py                 ceilings, every row checked and timed beside its peers: rows.json
    python run.py --check         answers alone
    python run.py --sanitize      small rows under compute-sanitizer, too
    python run.py --dry-run       the files, and what would be launched; needs neither

A row is one program: its launches, as ``manifest.json`` has them, on random inputs. Its results are
compared with PyTorch's in float64, in memory that held NaN and lies between guards; a second run
must give the same bits. Times are of CUDA graphs over copies of the arrays that the last cache
cannot hold, everybody in turns, forwards and backwards.

What cannot be is told by the name of a class below. Rows run in a process apart: one that dies,
hangs or spoils its context costs its own row. Exit codes: 0 fine; 1 rows failed; 2 nothing can run.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import math
import os
import queue
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

Row = dict[str, Any]

VERSION = 1  # of the manifest
TOOLS = ("memcheck", "racecheck", "synccheck")
PEERS = ("torch", "torch.compile", "triton")
ROUNDS = (5, 50)  # of timing, at least and at most
LEAST_MS = 1.0  # of a graph that is timed
PEER_SLACK = 16.0  # of a row's tolerance: peers round after each of their operators
GUARD = 256  # bytes before and behind each result; keeps its alignment
POISON = 0xFF  # each byte: NaN as a float
START_SECONDS = 300.0  # until a worker has PyTorch and its device
LOADED, RESTART = 0, 3  # a worker's exit codes


class Refused(Exception):
    """Why a row, or the whole run, cannot be. ``spoiled``: nor can others in this process."""

    spoiled = False

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.args[0]}"


class BadBundle(Refused):
    """Files that are not what the manifest says."""


class NoDriver(Refused):
    """No driver of NVIDIA's, or no GPU behind it."""


class NoTorch(Refused):
    """No PyTorch, or one without CUDA."""


class OtherGeneration(Refused):
    """A GPU that none of the bundle's code is for."""


class OutOfMemory(Refused):
    """More memory than the device has."""


class TooMuchSharedMemory(Refused):
    """A launch asks for more than a block may have."""


class LaunchFailed(Refused):
    """A kernel that the driver did not launch, or that did not come to its end."""


class CheckFailed(Refused):
    """A check of the program's own, of an index say."""


class Hung(Refused):
    """A row that took longer than it may."""


# ---- The driver, by ctypes: what CUDA Driver API 12 documents.


SPOILED = frozenset({700, 702, 714, 715, 716, 717, 718, 719})  # codes that end a context
KINDS: dict[int, type[Refused]] = {
    2: OutOfMemory, 35: NoDriver, 100: NoDriver, 101: NoDriver, 209: OtherGeneration,
    803: NoDriver, 804: NoDriver, 999: NoDriver,
}  # fmt: skip
MAJOR, MINOR, MOST_SHARED = 75, 76, 97  # numbers of attributes of a device
DYNAMIC_SHARED = 8  # of an attribute of a function


class Driver:
    """The functions of ``library``, libcuda say."""

    def __init__(self, library: str) -> None:
        try:
            self.library = ctypes.CDLL(library)
        except OSError as error:
            raise NoDriver(f"{library} cannot be loaded: {error}") from None
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        """Raises what ``KINDS`` has for the code that it returns; ``LaunchFailed`` for others."""
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            known = (text.value or b"unknown").decode()
            found = KINDS.get(code, LaunchFailed)(f"{name} says {known} ({code})")
            found.spoiled = code in SPOILED
            raise found

    def attribute(self, which: int, device: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def capability(self, device: int) -> tuple[int, int]:
        """Raises ``NoDriver`` where there is no such device."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if device >= count.value:
            raise NoDriver(f"there is no GPU {device}: the driver has {count.value}")
        return self.attribute(MAJOR, device), self.attribute(MINOR, device)


class Module:
    """The kernels of one program on the device."""

    def __init__(self, driver: Driver, code: bytes, launches: Sequence[Row], most: int) -> None:
        self.driver, self.launches, self.module = driver, launches, ctypes.c_void_p()
        self.code = ctypes.create_string_buffer(code, len(code))
        driver.call("cuModuleLoadData", ctypes.byref(self.module), self.code)
        self.functions = {launch["kernel"]: self._function(launch, most) for launch in launches}

    def _function(self, launch: Row, most: int) -> ctypes.c_void_p:
        function, name, asked = ctypes.c_void_p(), launch["kernel"], launch["shared"]
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        if asked > most:
            raise TooMuchSharedMemory(f"{name} asks for {asked} bytes, and a block has {most}")
        if asked:
            self.driver.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, asked)
        with suppress(AttributeError):  # drivers before 12.4 do not tell
            self._check_parameters(function, launch)
        return function

    def _check_parameters(self, function: ctypes.c_void_p, launch: Row) -> None:
        """A kernel that takes other arguments would read beyond those that it is given."""
        ask = self.driver.library.cuFuncGetParamInfo
        sizes, at, size = list[int](), ctypes.c_size_t(), ctypes.c_size_t()
        while ask(function, ctypes.c_size_t(len(sizes)), ctypes.byref(at), ctypes.byref(size)) == 0:
            sizes.append(size.value)
        if sizes != [8] * len(launch["arguments"]):
            count = len(launch["arguments"])
            raise BadBundle(f"{launch['kernel']} takes {sizes} bytes, and is given {count} × 8")

    def run(self, addresses: Callable[[Row], int], stream: int) -> None:
        for launch in self.launches:
            arguments, held = packed(launch["arguments"], addresses)
            self.driver.call(
                "cuLaunchKernel", self.functions[launch["kernel"]],
                launch["blocks"], 1, 1, launch["threads"], 1, 1, launch["shared"],
                ctypes.c_void_p(stream), arguments, None,
            )  # fmt: skip
            del held

    def unload(self) -> None:
        with suppress(Refused):
            self.driver.call("cuModuleUnload", self.module)


def packed(
    arguments: Sequence[Any], addresses: Callable[[Row], int]
) -> tuple[ctypes.Array[ctypes.c_void_p], list[ctypes.c_int64]]:
    """Where each argument lies, as ``cuLaunchKernel`` takes them, and what lies there."""
    held = [
        ctypes.c_int64(addresses(given) if isinstance(given, dict) else given)
        for given in arguments
    ]
    places = [ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in held]
    return (ctypes.c_void_p * (len(held) or 1))(*places), held


# ---- The bundle


class Bundle:
    """``manifest.json`` and the files that it names. Raises ``BadBundle``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.manifest = json.loads((folder / "manifest.json").read_text())
            if self.manifest["version"] != VERSION:
                raise BadBundle(f"a manifest of version {self.manifest['version']}, not {VERSION}")
            self.rows = [checked_row(row) for row in self.manifest["rows"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadBundle(f"manifest.json: {type(error).__name__} {error}") from None

    def architecture(self, capability: tuple[int, int]) -> str:
        """The newest code that a GPU of ``capability`` runs: of its own generation, no newer; and
        of no other than its own where it is for that alone ("sm_90a")."""
        major, minor = capability
        fit = [
            (found, name)
            for name in self.manifest["architectures"]
            for found in [generation(name)]
            if found[0] == major and found[1] <= minor and ("a" not in name or found[1] == minor)
        ]
        if not fit:
            known = ", ".join(self.manifest["architectures"])
            raise OtherGeneration(f"compute capability {major}.{minor}; the bundle is for {known}")
        return str(max(fit)[1])

    def code(self, row: Row, architecture: str) -> bytes:
        made = row["code"][architecture]
        try:
            found: bytes = (self.folder / made["file"]).read_bytes()
        except OSError as error:
            raise BadBundle(f"{made['file']}: {error.strerror}") from None
        if hashlib.sha256(found).hexdigest() != made["sha256"]:
            raise BadBundle(f"{made['file']} is not what the manifest was written for")
        return found


def generation(architecture: str) -> tuple[int, int]:
    """(9, 0) of "sm_90a"."""
    digits = architecture.removeprefix("sm_").rstrip("a")
    return int(digits[:-1]), int(digits[-1])


def checked_row(row: Row) -> Row:
    """``row``, if its launches are ones. Raises ``BadBundle``."""
    counts = {"input": len(row["inputs"]), "output": len(row["outputs"]), "arena": 1, "status": 1}
    for architecture, made in row["code"].items():
        for launch in made["launches"]:
            where = f"{row['name']}, {launch['kernel']} for {architecture}"
            if not (0 < launch["blocks"] < 1 << 31 and 0 < launch["threads"] <= 1024):
                raise BadBundle(f"{where}: {launch['blocks']} blocks of {launch['threads']}")
            for given in launch["arguments"]:
                if isinstance(given, dict):
                    if not 0 <= given["index"] < counts.get(given["memory"], 0):
                        raise BadBundle(f"{where}: there is no {given['memory']} {given['index']}")
                    inside = given["memory"] == "arena" and given["offset"] <= row["arena"]
                    if given["offset"] and not inside:
                        raise BadBundle(f"{where}: {given['offset']} bytes into what is no arena")
                elif not -(1 << 63) <= given < 1 << 63:
                    raise BadBundle(f"{where}: {given} is no int64")
    return row


# ---- The device: memory and time, by PyTorch; without CUDA (another driver) the processor's.


class Device:
    """Raises ``NoTorch``. ``real``: a GPU, and not a driver that only says so."""

    def __init__(self, driver: Driver, number: int, real: bool, guard: int) -> None:
        try:
            import torch
        except ImportError:
            raise NoTorch("PyTorch is not installed here") from None
        if real and not torch.cuda.is_available():
            raise NoTorch(f"PyTorch {torch.__version__} finds no GPU that it can use")
        self.torch, self.driver, self.real, self.guard = torch, driver, real, guard
        self.place = torch.device("cuda", number) if real else torch.device("cpu")
        if real:
            torch.cuda.set_device(number)
            torch.empty(1, device=self.place)  # which makes the context that modules go to
        self.most_shared = driver.attribute(MOST_SHARED, number)
        self.cache = torch.cuda.get_device_properties(number).L2_cache_size if real else 0

    @property
    def stream(self) -> int:
        return int(self.torch.cuda.current_stream().cuda_stream) if self.real else 0

    def synchronize(self) -> None:
        self.driver.call("cuCtxSynchronize")

    def draw(self, spec: Row) -> Any:
        """Standard normal numbers times the scale of ``spec``."""
        source = self.torch.Generator(device=self.place).manual_seed(spec["seed"])
        shape = tuple(spec["shape"])
        drawn = self.torch.randn(shape, generator=source, device=self.place)
        return (drawn * spec["scale"]).to(getattr(self.torch, spec["dtype"]))

    def poisoned(self, shape: Sequence[int], dtype: str) -> tuple[Any, Any]:
        """An array of NaN and the memory around it, as bytes."""
        kind = getattr(self.torch, dtype)
        size = math.prod(shape) * self.torch.empty(0, dtype=kind).element_size()
        whole = self.torch.full(
            (size + 2 * self.guard,), POISON, dtype=self.torch.uint8, device=self.place
        )
        inside = whole[self.guard : self.guard + size]
        return inside.view(kind).view(tuple(shape)), whole

    def guards_hold(self, whole: Any) -> bool:
        size = len(whole) - self.guard
        around = self.torch.cat((whole[: self.guard], whole[size:]))
        return bool((around == POISON).all())

    def loop(self, run: Callable[[int], object], sets: int) -> Callable[[], float]:
        """What gives the milliseconds of a call ``run(k)``, k in turns less than ``sets``."""
        run(0)
        self.synchronize()
        if not self.real:
            return lambda: _clocked(lambda: run(0))
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run(0)
        end.record()
        end.synchronize()
        calls = sets * math.ceil(max(1.0, LEAST_MS / max(begin.elapsed_time(end), 1e-3)) / sets)
        graph, kept = torch.cuda.CUDAGraph(), list[object]()
        with torch.cuda.graph(graph):
            for k in range(calls):
                kept.append(run(k % sets))  # so that results lie apart, too
                del kept[:-sets]

        def timed() -> float:
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            ms: float = begin.elapsed_time(end) / calls
            return ms

        timed()
        return timed


def _clocked(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


# ---- A row


class Work:
    """A row's program on the device, with arrays for it."""

    def __init__(self, device: Device, row: Row, module: Module, sets: int) -> None:
        self.device, self.row, self.module = device, row, module
        first = [device.draw(spec) for spec in row["inputs"]]
        self.inputs = [first, *([x.clone() for x in first] for _ in range(sets - 1))]
        self.outputs = [[device.poisoned(s["shape"], s["dtype"]) for s in row["outputs"]]
                        for _ in range(sets)]  # fmt: skip
        self.arena = device.poisoned([row["arena"]], "uint8")
        self.status = device.torch.zeros(4, dtype=device.torch.int64, device=device.place)

    def run(self, k: int = 0) -> None:
        self.module.run(lambda given: self._address(given, k), self.device.stream)

    def _address(self, given: Row, k: int) -> int:
        match given["memory"]:
            case "input":
                return int(self.inputs[k][given["index"]].data_ptr())
            case "output":
                return int(self.outputs[k][given["index"]][0].data_ptr())
            case "arena":
                return int(self.arena[0].data_ptr()) + int(given["offset"])
        return int(self.status.data_ptr())

    def results(self) -> list[Any]:
        """Of one run. Raises ``LaunchFailed`` where it wrote beside them, ``CheckFailed``."""
        for _, whole in (*self.outputs[0], self.arena):
            whole.fill_(POISON)
        if self.device.real:
            self.device.torch.cuda.synchronize()
        self.run()
        self.device.synchronize()
        step, code, *_ = self.status.tolist()
        if code:
            raise CheckFailed(f"check {code} of step {step} does not hold")
        for spec, (_, whole) in zip(self.row["outputs"], self.outputs[0], strict=True):
            if not self.device.guards_hold(whole):
                raise LaunchFailed(f"it wrote outside {spec['name']}")
        return [inside.clone() for inside, _ in self.outputs[0]]


def error_of(found: Any, exact: Any, rounding: float) -> tuple[float, float]:
    """The largest difference relative to the largest element, and what of it one rounding of an
    element, which may be off by ``rounding`` of itself, does not explain; infinite for NaN."""
    gap = (found.double() - exact).abs()
    if not gap.numel():
        return 0.0, 0.0
    largest = float(exact.abs().max()) or 1.0
    more = float((gap - rounding * exact.abs()).clamp(min=0).max())
    error = float(gap.max())
    bad = not math.isfinite(error) or not math.isfinite(more)
    return (math.inf, math.inf) if bad else (error / largest, more / largest)


def function_of(row: Row) -> Callable[..., Any]:
    """What the row computes, in PyTorch's words."""
    import torch
    import torch.nn.functional

    names = {"torch": torch, "F": torch.nn.functional, "math": math}
    made: Callable[..., Any] = eval(row["torch"], names)  # the bundle's own text
    return made


def exact_results(row: Row, inputs: Sequence[Any]) -> list[Any]:
    found = function_of(row)(*(x.double() for x in inputs))
    return list(found) if isinstance(found, tuple) else [found]


def right(row: Row, found: Sequence[Any], exact: Sequence[Any], slack: float) -> tuple[float, bool]:
    if [tuple(x.shape) for x in found] != [tuple(x.shape) for x in exact]:
        return math.inf, False
    errors = [error_of(a, b, slack * row["rounding"]) for a, b in zip(found, exact, strict=True)]
    return max(e for e, _ in errors), max(m for _, m in errors) <= slack * row["tolerance"]


def measured(device: Device, row: Row, module: Module, settings: argparse.Namespace) -> Row:
    """``row`` with what was found out about it. Raises ``Refused``."""
    small = row["bytes"] <= device.cache and device.real and not settings.check
    sets = math.ceil(3 * device.cache / row["bytes"]) if small else 1
    work = Work(device, row, module, sets)
    found: Row = dict(blank(row), failure="")
    results = work.results()
    exact = exact_results(row, work.inputs[0])
    found["max_error"], found["right"] = right(row, results, exact, 1.0)
    again = work.results()
    if not all(same_bits(one, other) for one, other in zip(results, again, strict=True)):
        found["right"], found["failure"] = False, "two runs have two answers"
    if settings.check or row["small"]:
        return finite(found)
    loops = {"weft": device.loop(work.run, sets)} if found["right"] else {}
    loops |= peers(device, row, work, exact, settings, found["absent"])
    samples = turns(loops, settings.seconds)
    times = {name: statistics.median(ms) for name, ms in samples.items()}
    found["weft_ms"] = times.pop("weft", None)
    found["peers"], found["rounds"] = times, len(next(iter(samples.values()), []))
    found["spread"] = {name: spread(ms) for name, ms in samples.items()}
    for name in times if "weft" in samples else ():
        ratios = [a / b for a, b in zip(samples["weft"], samples[name], strict=True)]
        found["relative"][name] = [statistics.median(ratios), spread(ratios)]
    return finite(found)


def same_bits(one: Any, other: Any) -> bool:
    import torch

    return bool((one.contiguous().view(torch.uint8) == other.contiguous().view(torch.uint8)).all())


def blank(row: Row) -> Row:
    """What a row is before it ran: the keys that ``weft bench compare`` and reports read."""
    kept = ("name", "group", "limit", "operations", "bytes")
    return {
        **{key: row[key] for key in kept}, "threads": 1, "weft_ms": None, "peers": {},
        "overhead_ms": {}, "best_peer": None, "best_peer_ratio": None, "limit_per_s": None,
        "peak_fraction": None, "turn_fraction": None, "max_error": None, "right": False,
        "rounds": 0, "spread": {}, "relative": {}, "absent": {}, "failure": "did not run",
        "saving": 1.0, "own": "", "facts": {},
    }  # fmt: skip


def finite(row: Row) -> Row:
    """JSON has no infinity."""
    if row["max_error"] is not None and not math.isfinite(row["max_error"]):
        row["max_error"] = 1e300
    return row


def peers(
    device: Device,
    row: Row,
    work: Work,
    exact: Sequence[Any],
    settings: argparse.Namespace,
    absent: dict[str, str],
) -> dict[str, Callable[[], float]]:
    """Those that give the right answer, ready to be timed; ``absent``: why others are not."""
    loops = {}
    for name in settings.peers.split(","):
        try:
            run = peer_function(device, row, name)
            found = run(*work.inputs[0])
            error, fine = right(row, [found], exact, PEER_SLACK)
            if not fine:
                absent[name] = f"off by {error:.1e}"
                continue
            loops[name] = device.loop(_calls(run, work.inputs), len(work.inputs))
        except Refused as error:
            absent[name] = str(error.args[0])
        except Exception as error:  # whatever others raise is their row's matter
            absent[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return loops


def _calls(run: Callable[..., Any], inputs: Sequence[Sequence[Any]]) -> Callable[[int], Any]:
    return lambda k: run(*inputs[k])


def peer_function(device: Device, row: Row, name: str) -> Callable[..., Any]:
    """Raises ``Refused`` where ``name`` has nothing for the row."""
    function = function_of(row)
    if name == "torch":
        return function
    if not device.real:
        raise Refused("not without a GPU")
    if name == "torch.compile":
        device.torch._dynamo.reset()
        compiled: Callable[..., Any] = device.torch.compile(
            function, mode="max-autotune-no-cudagraphs", dynamic=False
        )
        return compiled
    if name != "triton":
        raise Refused(f"there is no peer {name}")
    if not row["operands"]:
        raise Refused("not written for this")
    operands = eval(row["operands"])  # the bundle's own text
    return lambda *inputs: triton_product(*operands(*inputs))


def turns(loops: Mapping[str, Callable[[], float]], seconds: float) -> dict[str, list[float]]:
    """The times of each, in the order of the rounds; the first round is not counted."""
    samples: dict[str, list[float]] = {name: [] for name in loops}
    names, start, rounds = list(loops), time.perf_counter(), -1
    least, most = ROUNDS
    while names and rounds < most:
        for name in names if rounds % 2 else reversed(names):
            ms = loops[name]()
            if rounds >= 0:
                samples[name].append(ms)
        rounds += 1
        if rounds >= least and time.perf_counter() - start > seconds:
            break
    return samples


def spread(samples: list[float]) -> float:
    """Half the 95% interval of the median, relative to it, as box plots notch it."""
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return 1.57 * (high - low) / len(samples) ** 0.5 / middle if middle else 0.0


# ---- Ceilings: bytes read and written in a second by a copy, operations by PyTorch's product.


def ceilings(device: Device, seconds: float) -> dict[str, float]:
    torch, found = device.torch, {}
    side, size = (8192, 1 << 30) if device.real else (64, 1 << 16)
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device.place)
    target = torch.empty_like(source)
    loops = {"copy": device.loop(lambda _: target.copy_(source), 1)}
    for dtype in ("float16", "bfloat16"):
        kind = getattr(torch, dtype)
        a, b = (torch.randn((side, side), device=device.place).to(kind) for _ in range(2))
        loops[dtype] = device.loop(_calls(torch.matmul, [(a, b)]), 1)
    for name, ms in turns(loops, seconds).items():
        work = 2.0 * size if name == "copy" else 2.0 * side**3
        found[name] = work / (1e-3 * statistics.median(ms))
    return found


def settle(row: Row, limits: Mapping[str, float]) -> Row:
    """What follows from the times of ``row`` and the ceilings."""
    ms, others, rate = row["weft_ms"], row["peers"], limits.get(row["limit"])
    work = row["bytes"] if row["limit"] == "copy" else row["operations"]
    row["limit_per_s"] = rate
    row["peak_fraction"] = work / (1e-3 * ms) / rate if ms and rate else None
    row["best_peer"] = min(others, key=others.__getitem__) if others else None
    row["best_peer_ratio"] = others[row["best_peer"]] / ms if ms and others else None
    return row


# ---- Triton's product, where it is installed, as its tutorial has it.

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:
    CONFIGS = [
        triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=s, num_warps=w)
        for bm, bn, bk, s, w in (
            (128, 256, 64, 3, 8), (128, 128, 64, 4, 8), (128, 128, 32, 4, 4), (64, 256, 32, 4, 4),
            (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (16, 128, 128, 4, 4), (16, 64, 128, 5, 4),
        )
    ]  # fmt: skip

    @triton.autotune(configs=CONFIGS, key=["M", "N", "K"])  # type: ignore[untyped-decorator]
    @triton.jit  # type: ignore[untyped-decorator]
    def product_kernel(  # type: ignore[no-untyped-def]
        a, b, c, M, N, K, am, ak, bk, bn, cm, cn,
        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    ):  # fmt: skip
        pid = tl.program_id(0)
        down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
        group = pid // (GROUP * across)
        first = group * GROUP
        size = min(down - first, GROUP)
        i = (first + pid % (GROUP * across) % size) * BM + tl.arange(0, BM)
        j = (pid % (GROUP * across) // size) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        rows, lanes = (i % M).to(tl.int64), (j % N).to(tl.int64)
        left = a + rows[:, None] * am + k[None, :] * ak
        right = b + k[:, None] * bk + lanes[None, :] * bn
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(K, BK)):
            x = tl.load(left, mask=k[None, :] < K - step * BK, other=0.0)
            y = tl.load(right, mask=k[:, None] < K - step * BK, other=0.0)
            sums = tl.dot(x, y, sums)
            left += BK * ak
            right += BK * bk
        place = c + i.to(tl.int64)[:, None] * cm + j[None, :] * cn
        kept = (i[:, None] < M) & (j[None, :] < N)
        tl.store(place, sums.to(c.dtype.element_ty), mask=kept)


def triton_product(a: Any, b: Any) -> Any:
    """a @ b, whichever way they lie. Raises ``Refused`` where Triton is not installed."""
    if triton is None:
        raise Refused("not installed")
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty((m, n))
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    product_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
    return c


# ---- Processes: a worker runs rows until one spoils it; another goes on behind that.


def worker(bundle: Bundle, names: Sequence[str], settings: argparse.Namespace) -> int:
    """Rows as lines of JSON on standard output."""
    tell = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is for people
    try:
        driver = Driver(settings.driver or "libcuda.so.1")
        architecture = bundle.architecture(driver.capability(settings.device))
        guard = 0 if settings.unguarded else GUARD
        device = Device(driver, settings.device, not settings.driver, guard)
    except Refused as error:
        _say(tell, "refused", str(error))
        return LOADED
    _say(tell, "ready", architecture)
    if settings.ceilings:
        _say(tell, "limits", ceilings(device, settings.seconds))
    for row in [row for row in bundle.rows if row["name"] in names]:
        _say(tell, "begin", row["name"])
        found, spoiled = _one(device, bundle, row, architecture, settings)
        _say(tell, "row", found)
        if spoiled:
            return RESTART
    return LOADED


def _say(to: Any, kind: str, value: object) -> None:
    to.write(json.dumps([kind, value]) + "\n")
    to.flush()


def _one(
    device: Device, bundle: Bundle, row: Row, architecture: str, settings: argparse.Namespace
) -> tuple[Row, bool]:
    """The row, and whether nothing else can run in this process."""
    module = None
    try:
        made, code = row["code"][architecture], bundle.code(row, architecture)
        module = Module(device.driver, code, made["launches"], device.most_shared)
        return measured(device, row, module, settings), False
    except Refused as error:
        return dict(blank(row), failure=str(error)), error.spoiled
    except device.torch.OutOfMemoryError as error:
        return dict(blank(row), failure=str(OutOfMemory(str(error)[:200]))), False
    except RuntimeError as error:  # of PyTorch, which waits for what was launched before
        return dict(blank(row), failure=str(LaunchFailed(str(error)[:200]))), device.real
    finally:
        if module is not None:
            module.unload()
        if device.real:
            with suppress(RuntimeError):
                device.torch.cuda.empty_cache()


class Stopped(Exception):
    """What a worker says, or how it ended, before it ran a row."""


class Run:
    """The parent: rows as they come, whatever happens to the processes that make them."""

    def __init__(self, bundle: Bundle, settings: argparse.Namespace) -> None:
        self.bundle, self.settings = bundle, settings
        self.limits: dict[str, float] = {}
        self.more: list[str] = []  # arguments of workers
        self.before: list[str] = []  # of their command
        self.environment: dict[str, str] = {}
        self.said = ""

    def rows(self, wanted: Sequence[Row], ceiling: bool) -> Iterator[Row]:
        """Raises ``Stopped`` where no worker can run any."""
        left = {row["name"]: row for row in wanted}
        while left:
            current = None
            for kind, value in self._lines([*left], ceiling and not self.limits):
                if kind == "refused":
                    raise Stopped(value)
                if kind == "limits":
                    self.limits = value
                elif kind == "begin":
                    current = value
                elif kind == "row":
                    current = None
                    del left[value["name"]]
                    yield value
            if self.said and current is None:
                raise Stopped(self.said)
            if current is not None:
                yield dict(blank(left.pop(current)), failure=self.said)

    def _lines(self, names: Sequence[str], ceiling: bool) -> Iterator[tuple[str, Any]]:
        """What a worker for ``names`` says, until it ends or is ended; ``said``: how."""
        given = json.dumps(names)
        command = [*self.before, sys.executable, str(Path(__file__).resolve()), *self.more]
        command += ["--worker", "--bundle", str(self.bundle.folder), *_arguments(self.settings)]
        command += ["--ceilings"] if ceiling else []
        environment = {**os.environ, **self.environment}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdin is not None and process.stdout is not None
        heard: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_listen, args=(process.stdout, heard), daemon=True).start()
        with suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.close()
        self.said = ""
        limit = START_SECONDS
        try:
            while (line := heard.get(timeout=limit)) is not None:
                kind, value = json.loads(line)
                limit = self.settings.row_seconds
                yield kind, value
        except queue.Empty:
            self.said = str(Hung(f"longer than {limit:g} s"))
        finally:
            process.kill() if self.said else None
            code = process.wait()
        if not self.said and code not in (LOADED, RESTART):
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            self.said = str(LaunchFailed(f"the process ended {how}"))


def _listen(lines: Any, heard: queue.Queue[str | None]) -> None:
    for line in lines:
        heard.put(line)
    heard.put(None)


def _arguments(settings: argparse.Namespace) -> list[str]:
    given = ["--device", str(settings.device), "--seconds", str(settings.seconds)]
    given += ["--peers", settings.peers]
    given += ["--check"] if settings.check else []
    return given + (["--driver", settings.driver] if settings.driver else [])


def sanitized(run: Run, rows: Sequence[Row]) -> Iterator[Row]:
    """The small rows under each tool of compute-sanitizer: a row for each."""
    tool = shutil.which("compute-sanitizer")
    for name in TOOLS:
        row: Row = dict.fromkeys(("limit", "operations", "bytes"), 0)
        row = dict(row, name=f"sanitizer {name}", group="sanitizer", limit="")
        if tool is None:
            yield dict(blank(row), failure="compute-sanitizer is not installed")
            continue
        run.before = [tool, "--tool", name, "--error-exitcode", "9"]
        run.more = ["--unguarded"]
        run.environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        try:
            found = list(run.rows(rows, False))
        except Stopped as error:
            yield dict(blank(row), failure=str(error))
            continue
        wrong = [f"{r['name']}: {r['failure'] or 'wrong'}" for r in found if not r["right"]]
        wrong += [run.said] if run.said else []  # the tool's exit code
        yield dict(blank(row), right=not wrong, failure="; ".join(wrong))


def dry_run(bundle: Bundle) -> int:
    """What would be launched, and whether the files are whole."""
    for row in bundle.rows:
        for architecture, made in row["code"].items():
            code = bundle.code(row, architecture)
            for launch in made["launches"]:
                kernel, arguments = launch["kernel"], launch["arguments"]
                if kernel.encode() not in code:
                    raise BadBundle(f"{made['file']} has no kernel {kernel}")
                packed(arguments, lambda given: int(given["offset"]))
                text = f"{row['name']}, {architecture}: {kernel}, {launch['blocks']} blocks of "
                text += f"{launch['threads']} threads, {len(arguments)} arguments"
                text += f", {launch['shared']} bytes asked for" if launch["shared"] else ""
                print(text)
    return 0


def line(row: Row) -> str:
    """``row`` for people."""
    if not row["right"]:
        return (
            f"{row['name']}: {row['failure'] or 'WRONG, off by ' + format(row['max_error'], '.1e')}"
        )
    text = f"{row['name']}: right"
    if row["max_error"] is not None:
        text += f" ({row['max_error']:.1e})"
    if row["weft_ms"]:
        others = ", ".join(f"{n} {ms:.4f}" for n, ms in sorted(row["peers"].items()))
        text += f", {row['weft_ms']:.4f} ms; {others}"
        text += f"; {row['best_peer_ratio']:.2f} of the best" if row["best_peer_ratio"] else ""
        text += f"; {row['peak_fraction']:.2f} of the ceiling" if row["peak_fraction"] else ""
    return text


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    add = parser.add_argument
    add("--out", default="rows.json", help="where the rows are written")
    add("--only", default="*", help="patterns of names with commas between")
    add("--check", action="store_true", help="answers alone, no times")
    add("--sanitize", action="store_true", help="small rows under compute-sanitizer, too")
    add("--dry-run", action="store_true", help="show the launches; needs no GPU")
    add("--peers", default=",".join(PEERS), help="who is timed beside, with commas between")
    add("--seconds", type=float, default=1.0, help="of timing a row")
    add("--row-seconds", type=float, default=900.0, help="after which a row counts as hung")
    add("--device", type=int, default=0, help="number of the GPU")
    add("--driver", default="", help="a library instead of libcuda; memory is the processor's")
    add("--bundle", default=str(Path(__file__).resolve().parent), help="the folder")
    for hidden in ("--worker", "--ceilings", "--unguarded"):
        add(hidden, action="store_true", help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    settings = options().parse_args(arguments)
    try:
        bundle = Bundle(Path(settings.bundle))
        if settings.worker:
            return worker(bundle, json.load(sys.stdin), settings)
        if settings.dry_run:
            return dry_run(bundle)
        driver = Driver(settings.driver or "libcuda.so.1")
        print(f"code for {bundle.architecture(driver.capability(settings.device))}")
        rows = all_rows(bundle, settings)
    except (Refused, Stopped) as error:
        print(error, file=sys.stderr)
        return 2
    failed = [row for row in rows if not row["right"]]
    print(f"{len(rows)} rows, {len(failed)} of them failed")
    return 1 if failed else 0


def all_rows(bundle: Bundle, settings: argparse.Namespace) -> list[Row]:
    """Those that are wanted, told and written as they come. Raises ``Stopped``."""
    patterns = settings.only.split(",")
    wanted = [r for r in bundle.rows if any(fnmatch(r["name"], p) for p in patterns)]
    run, rows = Run(bundle, settings), list[Row]()

    def tell(row: Row) -> None:
        rows.append(row)
        print(line(row), flush=True)
        Path(settings.out).write_text(json.dumps(rows, indent=1))

    for row in run.rows(wanted, not settings.check):
        tell(settle(row, run.limits))
    for name, rate in run.limits.items():
        unit = "GB/s read and written" if name == "copy" else "GFLOP/s"
        print(f"ceiling {name}: {rate / 1e9:.0f} {unit}")
    if settings.sanitize:
        settings.check = True
        for row in sanitized(run, [r for r in wanted if r["small"]]):
            tell(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
