"""``Schedule``: in which order, where and how a program's statements run, as an immutable value.

    s = weft.schedule(lu)                     the order of the source
    s = s.tile({"i": 32, "j": 32})            each step a new, checked schedule
    s = s.parallel("i_t")
    print(s)                                  this script
    run = s.compile()

Loops and statements go by their names; ``s.show()`` prints them. Every step is a transformation of
``polyhedral/transform``, whose page says what it does; it is checked at once, against the
dependences of the program, and a wrong one raises ``IllegalScheduleError`` with two instances of
statements that it would put in the wrong order.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import Parameter, getdoc, isfunction, signature
from keyword import iskeyword
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from weft.driver.schedule_advice import WrongArguments, checker, placed_calls, plain, way_out
from weft.driver.schedule_text import schedule_text
from weft.ir.errors import BudgetError, CompileError, IllegalScheduleError, did_you_mean, short
from weft.ir.isl_context import exclusively
from weft.ir.machine import Machine
from weft.ir.registry import Place, Registry
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Band, Leaf, Mark, Sequence, Tree
from weft.ir.schedule_verifier import source_of
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.analysis.linear import hull_extent
from weft.polyhedral.proof.legality import check, check_bounds
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.register_tile import check_closed_form
from weft.polyhedral.transform.alias import alias
from weft.polyhedral.transform.cache_read import cache_read, copy_operand
from weft.polyhedral.transform.cache_write import cache_write
from weft.polyhedral.transform.compute_at import compute_at
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.cut import cut
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.double_buffer import double_buffer
from weft.polyhedral.transform.expand import expand
from weft.polyhedral.transform.expand_all import privatize, separate
from weft.polyhedral.transform.expand_carried import expand_carried
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.hoist_constants import hoist
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline
from weft.polyhedral.transform.nest import nest, sequence
from weft.polyhedral.transform.order import order
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.panels import panels
from weft.polyhedral.transform.partials import partials
from weft.polyhedral.transform.precompute import precompute
from weft.polyhedral.transform.prefetch import prefetch
from weft.polyhedral.transform.private_results import detach, private_result
from weft.polyhedral.transform.promote import promote
from weft.polyhedral.transform.recompute import recompute
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.scheduled import Scheduled, Step, transformation, unknown
from weft.polyhedral.transform.set_kinds import parallel, set_kinds, vectorize
from weft.polyhedral.transform.share import share
from weft.polyhedral.transform.shift import shift
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.skew import reverse, skew
from weft.polyhedral.transform.space import SPACES, space
from weft.polyhedral.transform.split import split
from weft.polyhedral.transform.split_node import split_node
from weft.polyhedral.transform.stream import stream
from weft.polyhedral.transform.tensorize import tensorize
from weft.polyhedral.transform.tile import tile
from weft.polyhedral.transform.transpose_sums import transpose_sums
from weft.polyhedral.transform.unroll import unroll, unroll_and_jam
from weft.runtime.pickling import StaysHere

P = ParamSpec("P")
M = TypeVar("M", bound=Callable[..., Any])
_SAME_ORDER = {
    "split",
    "unroll",
    "parallel",
    "vectorize",
    "set_kinds",
    "stream",
    "prefetch",
}  # of statements' instances


def _step(
    transformation: Callable[Concatenate[Scheduled, P], Scheduled],
) -> Callable[Concatenate[Schedule, P], Schedule]:
    """The method that takes one step and proves it legal."""
    check_arguments = checker(transformation)

    def unproved(self: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        given: Any = plain(args)
        named: Any = plain(kwargs)
        check_arguments(self, *given, **named)
        after = transformation(self.scheduled, *given, **named)
        return self if after is self.scheduled else replace(self, scheduled=after)

    @exclusively
    def proved(self: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        after = unproved(self, *args, **kwargs)
        if after is self:
            return self
        try:
            _prove(self.scheduled, after.scheduled)
        except IllegalScheduleError as error:
            raise _of_step(after.steps[-1], error) from None
        return after

    @_documented
    @wraps(transformation)
    def method(self: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        try:
            return proved(self, *args, **kwargs)
        except IllegalScheduleError as error:
            if error.code in _VIOLATIONS:
                error.hint = way_out(self, transformation.__name__, args, kwargs) or error.hint
            raise

    method.unproved = unproved  # type: ignore[attr-defined]
    method.proved = proved  # type: ignore[attr-defined]
    return method


def _documented(method: M) -> M:
    """``method`` with a schedule's signature, and the page of its transformation in ``help``: code
    before and after, and what others call it."""
    given = signature(method)
    own = [Parameter("self", Parameter.POSITIONAL_ONLY), *list(given.parameters.values())[1:]]
    shown = given.replace(parameters=own, return_annotation="Schedule")
    method.__signature__ = shown  # type: ignore[attr-defined]
    page = getattr(sys.modules.get(method.__module__), "__doc__", None)
    method.__doc__ = "\n\n".join(filter(None, (getdoc(method), page)))
    return method


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What a schedule is for. ``text``: how a script names its unscheduled schedule."""

    text: str
    compile: Callable[[Schedule, Any], Any]  # with ``Options`` or None
    automatic: Callable[[Scop], Scheduled]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Schedule(StaysHere):
    """An order of a program's statements that is known to compute what the program does.

    ``weft.schedule(x)`` begins one, in the order of the source. Each step is a method, which gives
    another schedule: ``s.tile({"i": 32, "j": 32}).parallel("i_t")``. What the dependences of the
    program forbid is refused at once, with two instances in conflict (``IllegalScheduleError``,
    WEFT-E0420 to E0422). ``str`` is the script that rebuilds it; ``scheduled`` and ``subject`` are
    its parts: the program in its order, and what it is a schedule of. After Halide's schedules
    (Ragan-Kelley and others 2013) and Exo's checked rewrites (Ikarashi and others 2022).
    """

    scheduled: Scheduled
    subject: Subject
    _elsewhere: ClassVar[str] = (
        "its script is a text, str(schedule): Schedule.from_script(text, source) builds it there"
    )

    # The order of loops.
    split = _step(split)
    tile = _step(tile)
    reorder = _step(reorder)
    fuse = _step(fuse)
    distribute = _step(distribute)
    skew = _step(skew)
    shift = _step(shift)
    reverse = _step(reverse)
    share = _step(share)
    sink = _step(sink)
    order = _step(order)
    nest = _step(nest)
    sequence = _step(sequence)
    cut = _step(cut)

    # How loops run.
    parallel = _step(parallel)
    vectorize = _step(vectorize)
    unroll = _step(unroll)
    unroll_and_jam = _step(unroll_and_jam)
    tensorize = _step(tensorize)
    set_kinds = _step(set_kinds)

    # Where values are computed and kept.
    compute_at = _step(compute_at)
    inline = _step(inline)
    cache_read = _step(cache_read)
    cache_write = _step(cache_write)
    pack = _step(pack)
    double_buffer = _step(double_buffer)
    rfactor = _step(rfactor)
    partials = _step(partials)
    recompute = _step(recompute)
    expand = _step(expand)
    expand_carried = _step(expand_carried)
    privatize = _step(privatize)
    separate = _step(separate)
    detach = _step(detach)
    private_result = _step(private_result)
    split_node = _step(split_node)
    hoist = _step(hoist)
    precompute = _step(precompute)
    copy_operand = _step(copy_operand)
    transpose_sums = _step(transpose_sums)
    panels = _step(panels)
    contract = _step(contract)
    promote = _step(promote)
    alias = _step(alias)
    stream = _step(stream)
    prefetch = _step(prefetch)

    # ---- steps ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """A registered move (``weft.move``) as the method of its name."""
        move = None if name.startswith("_") else MOVES.find(name)
        if move is None:
            near = did_you_mean(name, (x for x in (*dir(Schedule), *MOVES.names()) if x[0] != "_"))
            what = f"a schedule has no attribute or transformation {name!r}; {near}".rstrip("; ")
            raise AttributeError(what, name=name, obj=self)
        return partial(_move(name, move), self)

    def automatic(self) -> Schedule:
        """The schedule that Weft chooses when nobody says anything, for as many threads as its
        options say; steps so far are dropped. Its script has the moves that lead there."""
        start = self.unscheduled().scheduled
        made = exclusively(self.subject.automatic)(start.original)
        _prove(start, made)
        return replace(self, scheduled=made)

    def unscheduled(self) -> Schedule:
        """The order of the source."""
        own = self.scheduled
        return replace(self, scheduled=initial(own.original, own.instructions))

    @property
    def tree(self) -> Tree:
        """Its schedule tree, which ``weft/ir/schedule_tree.py`` describes."""
        return self.scheduled.tree

    @property
    def scop(self) -> Scop:
        """What runs, whatever the order: tensors, and statements with what each reads, writes and
        folds along. ``weft/ir/scop.py`` describes it, docs/extending.md what is asked of it."""
        return self.scheduled.scop

    def scop_text(self) -> str:
        """``scop`` as text."""
        return scop_text(self.scheduled.scop).rstrip()

    def extent(self, statement: str, dim: str) -> int | None:
        """How many values ``dim`` of ``statement`` has at most; None where an open size or another
        dim bounds it.

        Raises ``IllegalScheduleError``: WEFT-E0451 for an unknown statement, E0460 for a ``dim``
        that it has not.
        """
        known = {s.name: s for s in self.scop.statements}
        if statement not in known:
            what = f"the schedule has no statement {statement!r}"
            raise unknown("WEFT-E0451", what, "statements", statement, list(known))
        dims = known[statement].dims
        if dim not in dims:
            what = f"statement {statement} has no dim {dim!r}"
            raise unknown("WEFT-E0460", what, "dims", dim, dims)
        return hull_extent(known[statement], dim)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What was done, in order."""
        return self.scheduled.steps

    def why_not(self, method: str, *args: Any, **kwargs: Any) -> str | None:
        """Why ``getattr(self, method)(*args, **kwargs)`` would be refused, and what to try instead.

        None where it is legal. Raises ``IllegalScheduleError`` (WEFT-E0019) for a method that is
        no transformation.
        """
        known = transformations()
        if method not in known:
            what = f"there is no transformation {method!r}"
            raise unknown("WEFT-E0019", what, "transformations", method, known)
        try:
            getattr(self, method)(*args, **kwargs)
        except (IllegalScheduleError, BudgetError) as error:
            return str(error)
        return None

    def space(self, machine: Machine, method: str | None = None) -> Iterator[Schedule]:
        """What one more step makes of this schedule, for every step that is worth trying on
        ``machine`` and legal: those of ``method``, or of all of Weft's own.

        Raises ``IllegalScheduleError`` (WEFT-E0019) for a method that is no transformation.
        """
        if method is not None and method not in transformations():
            what = f"there is no transformation {method!r}"
            raise unknown("WEFT-E0019", what, "transformations", method, transformations())
        for name in SPACES if method is None else (method,) if method in SPACES else ():
            for args, kwargs in space(self.scheduled, machine, name):
                try:
                    yield getattr(Schedule, name).proved(self, *args, **kwargs)
                except (IllegalScheduleError, BudgetError):
                    continue

    # ---- as text ----------------------------------------------------------------------------

    def __str__(self) -> str:
        """The Python script that rebuilds this schedule."""
        return "\n".join(_script(self.subject.text, self.steps))

    def __repr__(self) -> str:
        return f"<Schedule of {self.scheduled.original.name}, {len(self.steps)} steps>"

    def __eq__(self, other: object) -> bool:
        """Whether both do the same steps to the same program."""
        if not isinstance(other, Schedule):
            return NotImplemented
        return str(self) == str(other) and self.scheduled.original == other.scheduled.original

    def __hash__(self) -> int:
        return hash(str(self))

    def diff(self, other: Schedule) -> str:
        """What changes from this script to that of ``other``, line by line; '' if nothing does.
        Raises ``CompileError`` (WEFT-E0015) where ``other`` is no schedule."""
        if not isinstance(other, Schedule):
            raise not_a_schedule("other", other)
        lines = difflib.unified_diff(
            str(self).splitlines(), str(other).splitlines(), "this", "other", lineterm=""
        )
        return "\n".join(lines)

    def replay(self, script: str, *, proved: bool = True, advised: bool = True) -> Schedule:
        """The schedule that ``script`` builds, its first line standing for this schedule.

        Nothing of it is executed but steps with literal arguments. Without ``proved``, no step is
        proved by itself, which takes most of the time: whoever compiles the last one proves that.
        Unless ``advised``, no way out is looked for where a step is illegal.
        Raises ``IllegalScheduleError`` (WEFT-E0018) for a line that is no step, E0460 for arguments
        that no step has, and what steps raise, ``where`` with the line.
        """
        made = self
        way = "unproved" if not proved else "" if advised else "proved"
        for place, (method, args, kwargs) in placed_calls(script, transformations()):
            step = getattr(made, method)
            other = getattr(step, way, None) if way else None
            try:
                made = other(made, *args, **kwargs) if other else step(*args, **kwargs)
            except WrongArguments as error:
                raise IllegalScheduleError("WEFT-E0460", str(error), where=place) from None
            except (IllegalScheduleError, BudgetError) as error:
                error.where = f"{place}, {error.where}".removesuffix(", ")
                raise
        return made

    @staticmethod
    def from_script(script: str, source: Any) -> Schedule:
        """The schedule that ``script``, the text of a schedule, builds for ``source``.

        ``source``: a kernel, or any schedule of the same program. Raises as ``replay`` does, and
        ``CompileError`` (WEFT-E0015) for another kind of ``source``.
        """
        start = source if isinstance(source, Schedule) else getattr(source, "schedule", None)
        start = start() if callable(start) else start
        if not isinstance(start, Schedule):
            raise not_a_schedule("source", source)
        return start.unscheduled().replay(script)

    def show(self) -> str:
        """The program as it runs, as Python-like loops."""
        return schedule_text(self.scheduled)

    def tree_text(self) -> str:
        """The schedule tree: for each loop its value in terms of the statements' own dims."""
        return print_schedule(self.scheduled.tree)

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of all loops, outermost first, in textual order."""
        return tuple(loop.name for loop in self.scheduled.loops())

    @property
    def statements(self) -> dict[str, str]:
        """Name -> where it comes from, for every statement."""
        return {s.name: source_of(s) for s in self.scheduled.scop.statements}

    def compile(self, options: Any = None) -> Any:
        """The program, compiled in this order; ``options`` as ``weft.compile`` has them. An
        ``Executable``, or what ``weft.compile`` gives for the same source."""
        return self.subject.compile(self, options)


def _script(start: str, steps: Seq[Step]) -> list[str]:
    return [f"s = {start}", *(f"s = s.{step}" for step in steps)]


def not_a_schedule(name: str, value: object) -> CompileError:
    return CompileError(
        "WEFT-E0015",
        f"{name} is a {type(value).__name__}, not a Schedule",
        hint="weft.schedule(x), or weft.schedules(x) by name",
    )


TRANSFORMATIONS = tuple(
    name for name, v in vars(Schedule).items() if isfunction(v) and hasattr(v, "__wrapped__")
)
"""The methods of ``Schedule`` that are steps, without registered moves."""


def transformations() -> tuple[str, ...]:
    """The names of all steps."""
    return (*TRANSFORMATIONS, *MOVES.names())


# ---- Moves of users ------------------------------------------------------------------------------


def register_move(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, by a method of ``Schedule``
    say, E0006 for what is no function of a schedule, or has no name for a method."""
    if not isfunction(found) or not name.isidentifier() or iskeyword(name) or name[0] == "_":
        raise CompileError(
            "WEFT-E0006",
            f"move {name!r} is a {type(found).__name__}, not a function with the name of a method",
            where=place.text,
        )
    if hasattr(Schedule, name) or name in Schedule.__slots__:
        raise CompileError(
            "WEFT-E0005",
            f"two definitions of move {name}",
            where=f"weft.Schedule and {place.text}",
            hint="give it another name: what schedules have stays",
        )
    MOVES.add(name, found, place, replace)


MOVES: Registry[str, Callable[..., Any]] = Registry("move", "weft.moves", register_move)


def _move(name: str, function: Callable[..., Any]) -> Callable[..., Schedule]:
    """The method that takes the step ``function``, from schedule to schedule or to its tree, and
    proves it legal."""

    @wraps(function)
    def method(self: Schedule, /, *args: Any, **kwargs: Any) -> Schedule:
        @wraps(function)
        def step(scheduled: Scheduled, *args: Any, **kwargs: Any) -> Scheduled:
            try:
                return _moved(name, self, function(self, *args, **kwargs))
            except CompileError as error:
                call = ", ".join(
                    [*map(short, args), *(f"{k}={short(v)}" for k, v in kwargs.items())]
                )
                error.where = f"{error.where}, in {name}({call})".removeprefix(", ")
                raise

        step.__name__ = name
        return _step(transformation(step))(self, *args, **kwargs)

    return method


def _moved(name: str, before: Schedule, made: object) -> Scheduled:
    """What a move has made of ``before``, its steps left out: it is one step itself."""
    match made:
        case Schedule(after) if after.original == before.scheduled.original:
            same = after.scop == before.scheduled.scop and after.tree == before.tree
        case Leaf() | Band() | Sequence() | Mark():
            after, same = replace(before.scheduled, tree=made), made == before.tree
        case _:
            raise IllegalScheduleError(
                "WEFT-E0455",
                f"move {name} gives a {type(made).__name__}",
                hint="it gives a schedule of the same program, or a schedule tree",
            )
    own = before.scheduled
    return own if same else replace(after, steps=own.steps)


_VIOLATIONS = {"WEFT-E0420", "WEFT-E0421", "WEFT-E0422"}


def _prove(before: Scheduled, after: Scheduled) -> None:
    """Raise unless ``after``, one step from ``before``, is legal, given that ``before`` is.

    Orders of the same instances are compared by their dependences. Other instances, other storage,
    and statements that the source has no place for are validated against the original.
    """
    changed = after.scop is not before.scop
    placed = all(s.position for s in after.scop.statements)
    if changed:
        check_bounds(after.scop)
    check(after.scop, after.tree)
    check_closed_form(after.scop, after.tree)
    if changed or not (placed or after.steps[-1].name in _SAME_ORDER):
        validate(after.original, after.scop, after.tree)


def _of_step(step: Step, error: IllegalScheduleError) -> IllegalScheduleError:
    """``error``, which names the step that it comes from."""
    return IllegalScheduleError(
        error.code, f"{step}: {error.what}", where=error.where, why=error.why, hint=error.hint
    )
