"""The cheapest way to cover a graph by choices, each of some nodes that one provider runs: exactly.

Prices are all that is known here. A plan is choices that share no node and have all of them, in an
order in which each finds what it reads; so a choice that could only run both before and after
another is in no plan, and nothing need be said of cycles. It costs the sum of its choices and of
the conversions between them: a value is wanted in a layout, and made in another.

The least cost is that of a shortest path over down-sets (the nodes that have run, closed under what
they read): there are n + 1 of them on a chain of n nodes, and few where the graph is narrow, as
those of models are. A path whose cost and bound reach the cost of a plan ends (branch and bound).
Where more than ``width`` sets of one size remain, the worst of them are dropped, and the plan says
that it is not proved to be the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Layout = tuple[int, ...] | None  # None: row-major, in which inputs come and outputs leave
Convert = Callable[[str, Layout, Layout], float]  # a value, from, to -> seconds
WIDTH = 20_000


@dataclass(frozen=True, slots=True)
class Part:
    """A node by the values that it ``reads`` and ``makes``."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """``provider`` runs ``parts``, by number, in ``seconds``; it ``wants`` and ``gives`` values in
    other layouts than row-major, by name."""

    parts: frozenset[int]
    provider: str
    seconds: float
    wants: Mapping[str, Layout] = field(default_factory=dict, hash=False)
    gives: Mapping[str, Layout] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Placement:
    """``choices`` in an order in which they run, ``seconds`` of all with conversions; whether that
    is ``proved`` to be the least."""

    choices: tuple[Choice, ...]
    seconds: float
    proved: bool


@dataclass(frozen=True, slots=True)
class _State:
    """Which parts have ``run``, as bits, and for values that are still read and that some choice
    wants or gives in another layout: (name, layout as made, layout that it is in)."""

    run: int
    held: frozenset[tuple[str, Layout, Layout]]


@dataclass(frozen=True, slots=True)
class _Path:
    seconds: float
    choice: Choice | None = None
    before: _State | None = None


def cheapest(
    parts: Sequence[Part],
    outputs: Sequence[str],
    choices: Sequence[Choice],
    convert: Convert = lambda value, made, wanted: 0.0,
    *,
    width: int = WIDTH,
) -> Placement | None:
    """The plan of least cost for ``parts``, whose ``outputs`` leave row-major; None where there is
    none of ``choices``. ``convert`` prices a conversion, which each value needs once for each
    layout that it is wanted in."""
    search = _Search(parts, outputs, choices, convert)
    begin = search.begin()
    paths = {begin: _Path(0.0)}
    layers: list[list[_State]] = [[] for _ in range(len(parts) + 1)]
    layers[0].append(begin)
    least, proved = float("inf"), True
    for size in range(len(parts)):
        layer = [(paths[s].seconds + search.bound(s), s) for s in layers[size]]
        layer = sorted((each for each in layer if each[0] < least), key=lambda each: each[0])
        proved = proved and len(layer) <= width
        for _, state in layer[:width]:
            for choice, after, seconds in search.steps(state):
                cost = paths[state].seconds + seconds
                known = paths.get(after)
                if cost >= least or (known is not None and known.seconds <= cost):
                    continue
                if known is None:
                    layers[size + len(choice.parts)].append(after)
                paths[after] = _Path(cost, choice, state)
                if after.run == search.all:
                    least = cost
    if not layers[-1]:
        return None
    last = min(layers[-1], key=lambda state: paths[state].seconds)
    return Placement(tuple(_choices(paths, last)), paths[last].seconds, proved)


def _choices(paths: Mapping[_State, _Path], last: _State) -> list[Choice]:
    found: list[Choice] = []
    state: _State | None = last
    while state is not None and (choice := paths[state].choice) is not None:
        found.append(choice)
        state = paths[state].before
    return found[::-1]


class _Search:
    def __init__(
        self,
        parts: Sequence[Part],
        outputs: Sequence[str],
        choices: Sequence[Choice],
        convert: Convert,
    ) -> None:
        self.parts, self.convert, self.outputs = parts, convert, frozenset(outputs)
        self.maker = {v: n for n, part in enumerate(parts) for v in part.makes}
        self.readers: dict[str, int] = {}
        for n, part in enumerate(parts):
            for value in part.reads:
                self.readers[value] = self.readers.get(value, 0) | 1 << n
        self.all = (1 << len(parts)) - 1
        self.laid = {v for choice in choices for v in (*choice.wants, *choice.gives)}
        self.choices = [(choice, *self._masks(choice)) for choice in choices]
        share = [float("inf")] * len(parts)
        for choice in choices:
            for n in choice.parts:
                share[n] = min(share[n], choice.seconds / len(choice.parts))
        self.share = share

    def _masks(self, choice: Choice) -> tuple[int, int, tuple[str, ...], tuple[str, ...]]:
        """Its parts and what must have run, as bits; what it reads and makes that has layouts."""
        own = sum(1 << n for n in choice.parts)
        numbers = sorted(choice.parts)
        made = {v for n in numbers for v in self.parts[n].makes}
        read = dict.fromkeys(v for n in numbers for v in self.parts[n].reads if v not in made)
        makers = {self.maker[v] for v in read if v in self.maker}
        left = (v for n in numbers for v in self.parts[n].makes if self._leaves(v, own))
        return (
            own,
            sum(1 << n for n in makers),
            tuple(v for v in read if v in self.laid),
            tuple(v for v in left if v in self.laid),
        )

    def _leaves(self, value: str, run: int) -> bool:
        return value in self.outputs or bool(self.readers.get(value, 0) & ~run)

    def begin(self) -> _State:
        given = [v for v in self.readers if v in self.laid and v not in self.maker]
        return _State(0, frozenset((v, None, None) for v in given))

    def bound(self, state: _State) -> float:
        """Of what remains: each part for its share of the choice that is cheapest a part."""
        return sum(s for n, s in enumerate(self.share) if not state.run >> n & 1)

    def steps(self, state: _State) -> Iterator[tuple[Choice, _State, float]]:
        """Each choice that can run next, the state after it, and what it costs."""
        for choice, own, before, read, made in self.choices:
            if own & state.run or before & ~state.run:
                continue
            run, held, seconds = state.run | own, set(state.held), choice.seconds
            for value in read:
                seconds += self._converted(held, value, choice.wants.get(value))
            for value in made:
                layout = choice.gives.get(value)
                held.add((value, layout, layout))
                if value in self.outputs:
                    seconds += self._converted(held, value, None)
            alive = (each for each in held if self.readers.get(each[0], 0) & ~run)
            yield choice, _State(run, frozenset(alive)), seconds

    def _converted(
        self, held: set[tuple[str, Layout, Layout]], value: str, wanted: Layout
    ) -> float:
        """Seconds until ``value`` is there as ``wanted``, too."""
        made = next(made for name, made, _ in held if name == value)
        if (value, made, wanted) in held:
            return 0.0
        held.add((value, made, wanted))
        return self.convert(value, made, wanted)
