"""``weft.tune``: a plan that is faster for sure, or the untuned program."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.api import Source, graph_of
from weft.codegen.target import Cpu
from weft.driver.options import Options, options_or_default
from weft.ir.errors import CompileError, short
from weft.ir.operator_graph import Graph, Value
from weft.ir.plan import Value as Chosen
from weft.ir.scalar_expr import Var
from weft.ir.size_arithmetic import SizeError, bind, evaluate
from weft.ir.tensor_expr import as_size
from weft.loop_kernel import Kernel
from weft.runtime.records import REPLACES, Records
from weft.tuner.cluster import cluster as cluster_at
from weft.tuner.confirm import Gain
from weft.tuner.laboratory import workshop
from weft.tuner.model import tune_graph
from weft.tuner.problem import Problem, made_up, problem_of_kernel
from weft.tuner.session import Budget, Change, Outcome, Setup, tuned
from weft.tuner.sizes import Sized, several, tune_calls
from weft.tuner.workplace import Place, here

Arguments = Sequence[Any] | Mapping[str, Any]
_TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
DEFAULT = "60s"


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a tuner found for the program ``name``. ``plan`` is for ``weft.compile(x, plan=…)``;
    empty where the untuned program stays. ``before``, ``after``: seconds of a call; ``gain`` of the
    plan, None without one. ``outcomes``: of each kernel, or cluster of a graph. ``seconds`` of the
    search, which was ``interrupted``, or not. ``str`` is a table."""

    name: str
    plan: Mapping[str, Chosen]
    before: float
    after: float
    gain: Gain | None
    outcomes: tuple[Outcome, ...]
    seconds: float
    interrupted: bool = False

    @property
    def trials(self) -> int:
        """How many candidates were timed."""
        return sum(o.trials for o in self.outcomes)

    def data(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=dict))
        return found

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def tune(
    source: Source,
    args: Arguments | None = None,
    *,
    budget: str | float | None = None,
    trials: int | None = None,
    seed: int = 0,
    target: str | Cpu | None = None,
    options: Options | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    records: str | Path | None = None,
    cluster: str | None = None,
    tell: Callable[[str, float], None] = lambda name, best: None,
) -> Tuned:
    """A plan for ``source`` that is faster than Weft's own for sure, if one is found.

    ::

        tuned = weft.tune(model, budget="5m")
        print(tuned)
        run = weft.compile(model, plan=tuned.plan)

    ``source``: a loop kernel, tensors, a ``Program``, or an ONNX model of fixed shapes (or fixed by
    ``shapes``). ``args``: arrays of a call that is timed, in order or by name; a loop kernel needs
    them, others get made-up ones. A list of such calls, tuples or mappings, of a loop kernel makes
    one plan for all of them, in up to four versions by size. ``budget``: seconds, or text such as
    "90s", "5m", "1h" (1 minute, unless ``trials`` says how many candidates are timed at most).
    ``seed``: of what is random; the same one, with the same records, leads to the same plan.
    ``options``, ``target``: as ``compile`` has them; ``threads`` matter. ``records``: a file of
    records (None: that of the options, by default the user's), which a search goes on from.
    ``cluster``: the address of a scheduler of dask.distributed, "tcp://host:8786", whose workers
    time (None: this machine does). ``tell`` hears which kernel is at work, and its best gain so
    far. Ctrl-C ends the search, and what was found until then is confirmed.

    Plans change no result: each is proved like any schedule. Trials run in processes of their own.
    A plan is taken only where the lower end of its gain is above 1.02, in three fresh processes.

    Raises ``CompileError``: WEFT-E1100 for a budget that is none, E1101 for options that other
    processes cannot have, E1102 where arguments of a call are missing or do not fit, E1103 where
    the untuned program does not run, E1105 without dask.distributed, E1106 for a cluster of which
    nobody answers, E1107 for a model on a cluster of other machines; and as ``compile`` does.
    """
    given = _budget(budget, trials)
    own = source.options if isinstance(source, Kernel) else None
    chosen = options_or_default(options or own)
    chosen = replace(chosen, tuned="off", target=chosen.target if target is None else target)
    if type(seed) is not int or not 0 <= seed < 1 << 63:
        raise CompileError("WEFT-E1100", f"{short(seed)} is no seed", hint="0 to 2^63 - 1")
    with (
        Records(records or chosen.records) as kept,
        _place(cluster, chosen) as place,
        workshop(place) as shop,
    ):
        setup = Setup(shop, chosen, kept, seed, tell)
        if not isinstance(source, Kernel):
            graph = graph_of(source, shapes)
            arrays, sizes = _of_graph(graph, args, seed)
            whole = tune_graph(graph, arrays, sizes, given, setup)
            return Tuned(
                graph.name, whole.plan, whole.before, whole.after, whole.gain, whole.outcomes,
                sum(o.seconds for o in whole.outcomes), whole.interrupted,
            )  # fmt: skip
        if shapes:
            raise CompileError("WEFT-E0013", "shapes is for ONNX models, not loop kernels")
        if several(args):
            calls = [_of_kernel(source, each) for each in args or ()]
            problems = [_problem(source, arrays) for arrays in calls]
            return _sized(tune_calls(problems, calls, given, setup))
        arrays = _of_kernel(source, args)
        tuner = setup.tuner(_problem(source, arrays), arrays).begun()
        found = tuned(tuner, given, seed)
        return Tuned(
            found.name, found.plan, found.before, found.after, found.gain, (found,),
            found.seconds, found.interrupted,
        )  # fmt: skip


def _place(cluster: str | None, options: Options) -> AbstractContextManager[Place]:
    return here(options) if cluster is None else cluster_at(cluster)


def _problem(kernel: Kernel, arrays: Mapping[str, np.ndarray]) -> Problem:
    try:
        return problem_of_kernel(kernel.lowered, arrays)
    except SizeError as error:
        raise _unfit(str(error)) from None


def _sized(found: Sized) -> Tuned:
    """Seconds of one call of each."""
    first = found.outcomes[0]
    before = sum(o.before for o in found.outcomes)
    gains = [g.median if g is not None and found.plan else 1.0 for g in found.gains]
    after = sum(o.before / g for o, g in zip(found.outcomes, gains, strict=True))
    return Tuned(
        first.name, found.plan, before, after, found.gain, found.outcomes,
        sum(o.seconds for o in found.outcomes), any(o.interrupted for o in found.outcomes),
    )  # fmt: skip


def _budget(budget: str | float | None, trials: int | None) -> Budget:
    """Raises ``CompileError`` (WEFT-E1100)."""
    if trials is not None and (type(trials) is not int or trials < 1):
        raise _no_budget("trials", trials, "a positive integer")
    if budget is None:
        return Budget(None, trials) if trials is not None else Budget(seconds_of(DEFAULT))
    return Budget(seconds_of(budget), trials)


def seconds_of(budget: str | float) -> float:
    """The seconds of "90s", "5m", "1h" or a number. Raises ``CompileError`` (WEFT-E1100)."""
    found = math.nan
    if isinstance(budget, str):
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smh]?)", budget.strip(), re.ASCII)
        found = float(match[1]) * _TIMES[match[2]] if match else math.nan
    elif isinstance(budget, int | float) and not isinstance(budget, bool):
        found = float(budget) if abs(budget) < 1e300 else math.nan
    if not 0 < found < math.inf:
        raise _no_budget("budget", budget, "a positive time such as 90s, 5m or 1h")
    return found


def _no_budget(name: str, value: object, hint: str) -> CompileError:
    return CompileError("WEFT-E1100", f"{name}={short(value)} is no budget", hint=hint)


def _of_kernel(kernel: Kernel, args: Arguments | None) -> dict[str, np.ndarray]:
    """The arguments of a call by name, in dtypes of the kernel."""
    names = [a.name for a in kernel.lowered.arguments]
    by_name = _by_name(names, args)
    if by_name is None:
        what = f"a call of {kernel.__name__} to time: weft.tune({kernel.__name__}, (A, B, …))"
        raise CompileError("WEFT-E1102", "there are no arguments", hint=what)
    return {
        a.name: _array(a.name, by_name[a.name], a.dtype.numpy, len(a.shape))
        for a in kernel.lowered.arguments
    }


def _array(name: str, value: Any, dtype: Any, rank: int) -> np.ndarray:
    try:
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            raise TypeError("no numbers")
        number = array if rank else array.astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise _unfit(f"{name} is {short(value)}: {error}") from None
    if array.ndim != rank:
        raise _unfit(f"{name} has {array.ndim} dimensions, not {rank}")
    if rank and array.dtype != dtype:
        raise _unfit(f"{name} is an array of {array.dtype}, not of {np.dtype(dtype)}")
    if not rank and number.dtype.kind in "iu" and number != array:
        raise _unfit(f"{name} is {short(value)}, no {number.dtype}")
    return np.ascontiguousarray(array) if rank else number


def _by_name(names: Sequence[str], args: Arguments | None) -> dict[str, Any] | None:
    if args is None:
        return None
    if not isinstance(args, Mapping | Sequence) or isinstance(args, str):
        raise _unfit(f"they are {short(args)}, neither a sequence nor a mapping")
    if isinstance(args, Mapping):
        missing = [n for n in names if n not in args]
        more = [str(n) for n in args if n not in names]
        if missing or more:
            raise _unfit(f"missing: {', '.join(missing)}; not known: {', '.join(more)}")
        return dict(args)
    if len(args) != len(names):
        raise _unfit(f"{len(args)} arguments, where {len(names)} are taken: {', '.join(names)}")
    return dict(zip(names, args, strict=True))


def _unfit(why: str) -> CompileError:
    return CompileError("WEFT-E1102", "the arguments do not fit", why=why)


def _of_graph(
    graph: Graph, args: Arguments | None, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """The inputs by name, made up where none are given, and the values of open sizes."""
    names = [v.name for v in graph.inputs]
    given = _by_name(names, args)
    declared = [tuple(map(as_size, v.shape)) for v in graph.inputs]
    sizes: dict[str, int] = {}
    if given is not None:
        arrays = {
            v.name: _array(v.name, given[v.name], v.dtype.numpy, len(v.shape)) for v in graph.inputs
        }
        try:
            sizes = bind(declared, [arrays[n].shape for n in names], names=names)
        except SizeError as error:
            raise _unfit(str(error)) from None
        return arrays, sizes
    random = np.random.default_rng(seed)
    return {v.name: _made_up(v, random) for v in graph.inputs}, sizes


def _made_up(value: Value, random: np.random.Generator) -> np.ndarray:
    if any(isinstance(size, Var) for size in map(as_size, value.shape)):
        raise CompileError(
            "WEFT-E1102",
            f"the sizes of {value.name} are open",
            hint="give args, arrays of a call to time, or shapes of an ONNX model",
        )
    shape = tuple(int(evaluate(as_size(n), {})) for n in value.shape)
    return made_up(random, value.dtype, shape)


def _lines(found: Tuned) -> list[str]:
    """The table: what took how long, and which decisions changed."""
    head = f"{found.name}: {_ms(found.before)} untuned"
    if found.gain is None:
        why = "no plan is faster for sure" if found.trials else "nothing was timed"
        head += f", and stays as it is: {why}"
    else:
        low, high = f"{found.gain.low:.3f}", f"{found.gain.high:.3f}"
        head += (
            f", {_ms(found.after)} tuned: {found.gain.median:.3f} times as fast ({low} to {high})"
        )
    rows = [("kernel", "times", "before", "after", "gain", "of its bound", "trials")]
    for o in sorted(found.outcomes, key=lambda o: -o.before * o.occurrences):
        gap = f"{o.gap:.2f}" if o.gap else "?"
        won = f"{o.gain.median:.3f}" if o.gain else "–"
        rows.append(
            (o.name, str(o.occurrences), _ms(o.before), _ms(o.after), won, gap, str(o.trials))
        )
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [head, ""]
    lines += ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    for o in found.outcomes:
        lines += [f"{o.name}: {_change(c)}" for c in o.changes]
        if o.closed:
            lines.append(f"{o.name}: nothing is left to find: {o.closed}")
    noise = max([1.0, *(o.noise for o in found.outcomes)])
    lines.append(
        f"{found.trials} candidates timed; equal programs differed by up to {noise:.3f}; "
        f"plans replace others above {REPLACES}"
    )
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _change(change: Change) -> str:
    if change.name.endswith(".script"):
        return f"{change.name}: a script of {len(str(change.after).splitlines()) - 1} steps"
    worth = "" if change.worth is None else f"; {change.worth:.3f} times slower without"
    return f"{change.name}: {change.after}, not {change.before}{worth}"
