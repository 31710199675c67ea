"""Everything that a user may choose about a compilation, as one frozen record.

Each variable is the default of the field of its name: what a program gives itself it gets, and what
it leaves alone the environment decides (docs/decisions/044). The environment is read when a record
is made, and only then; below the API's edge, which makes one where none is passed, nothing is
ambient.

    WEFT_STRICT=1            no reassociation of sums: bitwise the same results at any thread count;
                             denormals as IEEE 754 has them, not as zeros
    WEFT_TARGET=x86-64-v3    the processor to compile for: a name of `weft targets`, by default host
    WEFT_EFFORT=quick        less time to compile, slower code
    WEFT_WINOGRAD=off        convolutions by direct sums alone, for smaller errors
    WEFT_ONLINE=off          softmax and attention with whole rows, however long these are
    WEFT_THREADS=2           threads of a call; WEFT_WORKERS=2: processes that compile (0: none)
    WEFT_VERIFY=full         interpret every IR on a shrunken instance
    WEFT_TUNED=records       take what `weft tune` found; WEFT_RECORDS=file: where that is kept
    WEFT_CACHE_DIR=folder    where compiled programs are kept; "off": nowhere (``cache``)
    WEFT_DUMP=folder         each stage's text as a numbered file
    WEFT_PRINT_AFTER=scop    a stage's text on standard error; several with commas, or "all"
    WEFT_LOGS=+fusion,tiling logging topics: "+" debug, plain info, "-" errors only; "all"
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from weft.codegen.target import Cpu
from weft.ir.errors import CompileError, WeftWarning, short
from weft.ir.instruction import Instruction
from weft.ir.operator_graph import Graph

VARIABLES = (
    "WEFT_STRICT", "WEFT_TARGET", "WEFT_EFFORT", "WEFT_WINOGRAD", "WEFT_ONLINE", "WEFT_THREADS",
    "WEFT_WORKERS", "WEFT_VERIFY", "WEFT_TUNED", "WEFT_RECORDS", "WEFT_CACHE_DIR", "WEFT_DUMP",
    "WEFT_PRINT_AFTER", "WEFT_LOGS",
)  # fmt: skip
_TOPIC = re.compile(r"[+-]?[A-Za-z_][A-Za-z0-9_.-]*")


def _said(name: str, default: Any, variable: str = "") -> Any:
    """The field ``name``: by default what ``variable`` says, else ``default``."""

    def read(environment: Mapping[str, str]) -> Any:
        return _setting(variable or f"WEFT_{name.upper()}", environment).get(name, default)

    return field(default_factory=lambda: read(os.environ), metadata={"read": read})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What may be chosen about a compilation: ``weft.compile(x, options=weft.Options(threads=1))``.

    The environment variable of its name, ``WEFT_STRICT`` say, is the default of a field where there
    is one; the defaults named here are those without it.

    *The code.* ``target``: the processor, a name that ``weft targets`` lists or LLVM knows, or a
    ``weft.Cpu`` ("host"). ``instructions``: of the target besides its own, what
    ``weft.instruction`` made or the names of registered ones. ``strict``: keep the order of every
    sum, and denormals; the same bits at any number of threads (False). ``effort``: "full", or
    "quick" for what runs once: less code, without versions for sizes and most of those for edges of
    tiles, and no convolutions by fewer multiplications, so that there is less to compile; what is
    proved is the same. ``winograd``: convolutions by fewer multiplications (Winograd 1980; Lavin
    and Gray 2016), "on" or "off"; ``memory``: bytes that one of them may take for intermediates
    (None: any number). ``online``: long sums of exponentials in blocks (the online softmax of
    Milakov and Gimelshein 2018), "on" or "off". Neither happens if ``strict``. ``fold_bytes``:
    constants computed at compile time, in all (256 MiB). ``passes``: over the operator graph,
    before Weft's own, functions or the names of registered ones. ``seeds``: schedules of your own,
    functions or the names of registered ones, each taken where it is estimated to cost less than
    Weft's; nothing is kept in the cache then.

    ``tuned``: "records" takes the plans that ``weft.tune`` has confirmed for parts of the program
    on this machine, from the file ``records`` (None: the user's); "off".

    *Running.* ``threads``: of a call, 1 to 1024 (None: one per processor).

    *Compiling.* ``workers``: processes that compile, 0 to 256 (None: one per processor, 0: none).
    ``job_seconds``: after so many seconds a process that hangs is ended, and a seed (300).
    ``cache``: whether compiled programs are kept (True), in the folder ``cache_dir`` (None: the
    user's), of ``cache_bytes`` at most (4 GiB).

    *Looking.* ``verify``: "normal", or "full", which interprets every IR on a small instance.
    ``texts``: keep each stage's text for ``Executable.as_text``, and the explanation of what is
    kept in the cache (True). ``dump``: a folder for them, as numbered files. ``print_after``:
    stages whose text goes to standard error, or "all". ``logs``: topics like "+fusion", "+" for
    debug and "-" for errors only.

    Raises ``CompileError`` (WEFT-E0001) for a value that is out of range.
    """

    strict: bool = _said("strict", False)
    target: str | Cpu = _said("target", "host")  # noqa: RUF009 (a field)
    effort: Literal["full", "quick"] = _said("effort", "full")
    winograd: Literal["on", "off"] = _said("winograd", "on")
    memory: int | None = None
    online: Literal["on", "off"] = _said("online", "on")
    threads: int | None = _said("threads", None)
    workers: int | None = _said("workers", None)
    verify: Literal["normal", "full"] = _said("verify", "normal")
    tuned: Literal["off", "records"] = _said("tuned", "off")
    records: str | None = _said("records", None)
    cache: bool = _said("cache", True, "WEFT_CACHE_DIR")
    cache_dir: str | None = _said("cache_dir", None)
    cache_bytes: int = 4 << 30
    fold_bytes: int = 256 << 20
    job_seconds: float = 300.0
    texts: bool = True
    dump: str | None = _said("dump", None)
    print_after: tuple[str, ...] = _said("print_after", ())
    logs: tuple[str, ...] = _said("logs", ())
    instructions: tuple[Instruction | str, ...] = ()
    passes: tuple[Callable[[Graph], Graph] | str, ...] = ()
    seeds: tuple[Callable[..., Any] | str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("strict", "cache", "texts"):
            _check(isinstance(getattr(self, name), bool), name, self, "True or False")
        good = isinstance(self.target, str | Cpu)
        _check(good, "target", self, "the name of a processor, or a record of one")
        given: object = self.instructions
        good = isinstance(given, tuple) and all(isinstance(x, Instruction | str) for x in given)
        _check(good, "instructions", self, "a tuple of instructions: instructions=(x,)")
        given = self.passes
        good = isinstance(given, tuple) and all(isinstance(x, str) or callable(x) for x in given)
        _check(good, "passes", self, "a tuple of functions from graph to graph, or of their names")
        given = self.seeds
        good = isinstance(given, tuple) and all(isinstance(x, str) or callable(x) for x in given)
        _check(good, "seeds", self, "a tuple of functions of a schedule, or of their names")
        _check(_integer(self.threads, 1, 1024, optional=True), "threads", self, "1 to 1024 or None")
        _check(_integer(self.workers, 0, 256, optional=True), "workers", self, "0 to 256 or None")
        _check(self.verify in ("normal", "full"), "verify", self, '"normal" or "full"')
        _check(self.tuned in ("off", "records"), "tuned", self, '"off" or "records"')
        _check(self.effort in ("full", "quick"), "effort", self, '"full" or "quick"')
        for name in ("winograd", "online"):
            _check(getattr(self, name) in ("on", "off"), name, self, '"on" or "off"')
        _check(_integer(self.memory, 0, 1 << 60, optional=True), "memory", self, "bytes or None")
        for name in ("cache_bytes", "fold_bytes"):
            _check(_integer(getattr(self, name), 0, 1 << 60), name, self, "a number of bytes")
        seconds = self.job_seconds
        good = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        _check(good and 0 < seconds < float("inf"), "job_seconds", self, "a positive number")
        for name in ("cache_dir", "dump", "records"):
            value = getattr(self, name)
            _check(value is None or isinstance(value, str), name, self, "a path or None")
        for name in ("print_after", "logs"):
            value = getattr(self, name)
            good = isinstance(value, tuple) and all(isinstance(part, str) for part in value)
            _check(good, name, self, "a tuple of names")
        for topic in self.logs:
            _check(_TOPIC.fullmatch(topic) is not None, "logs", self, 'topics like "+fusion"')

    @property
    def key(self) -> str:
        """What of these options can change the code: part of every cache key, as the record of the
        target is, and the graph that ``passes`` give."""
        sums = f"strict={self.strict} winograd={self.winograd} memory={self.memory}"
        return f"{sums} online={self.online} fold_bytes={self.fold_bytes} effort={self.effort}"

    @property
    def quick(self) -> bool:
        """Whether to compile in less time, to slower code."""
        return self.effort == "quick"

    @property
    def watched(self) -> bool:
        """Whether somebody wants to see the compilation, so that it must happen."""
        return bool(self.dump or self.print_after or self.verify == "full")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Options:
        """The options that ``WEFT_*`` variables of ``environment`` (None: the process's) ask for;
        unknown ones are warned about. Raises ``CompileError`` (WEFT-E0001) as the class does."""
        given = os.environ if environment is None else environment
        _warn_of_unknown(given)
        return cls(**{f.name: f.metadata["read"](given) for f in fields(cls) if f.metadata})


def _warn_of_unknown(environment: Mapping[str, str]) -> None:
    for name in sorted(environment):
        if name.startswith("WEFT_") and name not in VARIABLES:
            warnings.warn(
                f"{name} means nothing to Weft; known are {', '.join(VARIABLES)}",
                WeftWarning,
                stacklevel=3,
            )


def _setting(name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The fields that the variable ``name`` sets."""
    value = environment.get(name, "").strip()
    if not value and not (name == "WEFT_CACHE_DIR" and name in environment):
        return {}
    match name:
        case "WEFT_STRICT":
            return {"strict": _flag(name, value)}
        case "WEFT_THREADS" | "WEFT_WORKERS":
            if not re.fullmatch(r"\d{1,9}", value):
                raise _refusal(name, value, "a number")
            return {name.removeprefix("WEFT_").lower(): int(value)}
        case "WEFT_CACHE_DIR":
            if value.lower() in ("", "off", "0"):
                return {"cache": False}
            return {"cache_dir": value}
        case "WEFT_PRINT_AFTER" | "WEFT_LOGS":
            parts = tuple(part.strip() for part in value.split(",") if part.strip())
            return {name.removeprefix("WEFT_").lower(): parts}
        case _:
            return {name.removeprefix("WEFT_").lower(): value}


def _flag(name: str, value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("0", "false", "no", "off"):
        return False
    raise _refusal(name, value, "1 or 0")


def _integer(value: object, low: int, high: int, *, optional: bool = False) -> bool:
    if value is None:
        return optional
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _check(good: bool, name: str, options: Options, expected: str) -> None:
    if not good:
        raise _refusal(name, getattr(options, name), expected)


def _refusal(name: str, value: object, expected: str) -> CompileError:
    known = ", ".join(field.name for field in fields(Options))
    return CompileError(
        "WEFT-E0001",
        f"option {name} is {short(value)}, not {expected}",
        hint=f"options: {known}",
    )


def options_or_default(options: Options | None) -> Options:
    """``options``, or what the environment says. Raises ``CompileError`` (WEFT-E0003)."""
    if options is not None and not isinstance(options, Options):
        raise CompileError(
            "WEFT-E0003",
            f"options is a {type(options).__name__}, not weft.Options",
            hint="weft.Options(threads=1), say",
        )
    _warn_of_unknown(os.environ)
    return options or Options()
