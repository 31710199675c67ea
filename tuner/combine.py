"""The best combination of providers for a graph, by measured prices.

What is measured: all of it and each unit, by each provider, the units one after the other: alone in
a loop each would find its weights in the caches. A run of neighbouring units costs what these do,
but for the calls between them and for what all of them together cost less than one by one; that is
an estimate, until the run is part of the best combination: then it is measured, and the best is
looked for again. In the end the best combination and each provider alone are measured whole, in
several processes, side by side. The combination is taken where it is faster than the best of these
beyond doubt.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from weft.driver.providers import WEFT
from weft.ir.errors import ProviderError
from weft.tuner.placement import Choice, Layout, Placement, cheapest
from weft.tuner.prices import Plan, Run, Setting, Spot, compared, priced, step_seconds
from weft.tuner.runners import laid
from weft.tuner.subgraphs import identity

GAIN = 1.02  # what a combination must gain at least: less is within the noise of good measurements
CONFIDENCE = 0.95
FRESH = 3  # processes in which finalists are measured
COMBINATION = "combination"
Key = tuple[str, str]  # what is computed, and by whom


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of a call, and the layouts at its boundary that are not row-major, by number."""

    seconds: float
    reads: Mapping[int, Layout] = field(default_factory=dict)
    makes: Mapping[int, Layout] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Final:
    """Whole plans side by side: seconds of each ``single`` provider and of the ``combination``, its
    ``gain`` over the best of them and the ``low`` limit of that. ``taken`` is what is fastest."""

    taken: str
    plan: Plan
    singles: dict[str, float]
    combination: float | None = None
    gain: float = 1.0
    low: float = 1.0
    proved: bool = True


class Combination:
    """Looks for the best combination for ``setting``, in about ``seconds`` of measuring. ``prices``
    by what is computed and by whom; ``step``: what a part costs besides, in Python; ``refused``:
    whoever fails, in order."""

    def __init__(self, setting: Setting, seconds: float) -> None:
        self.setting, self.seconds = setting, seconds
        self.count = len(setting.units.nodes)
        self.all: Run = frozenset(range(self.count))
        self.names = (WEFT, *setting.providers)
        self.prices: dict[Key, Price | None] = {}  # None: it does not take it
        self.refused: list[ProviderError] = []
        self.step = step_seconds(setting)
        self._first: dict[Key, Spot] = {}  # which was measured
        self._identities: dict[Run, str] = {}
        self._conversions: dict[tuple[str, Layout, Layout], float] = {}

    def best(self) -> Final:
        """Measures; what is fastest in the end."""
        slot = self.seconds / 3
        wholes = [[(self.all, name)] for name in self.names]
        singles = [frozenset([u]) for u in range(self.count)]
        # In the same rounds: what the machine does meanwhile hits all alike.
        self._measure([*wholes, *([(run, name) for run in singles] for name in self.names)], slot)
        return self._confirmed(self._refined(slot / 4, time.monotonic() + slot))

    # ---- prices ----------------------------------------------------------------------------------

    def _identity(self, run: Run) -> str:
        if run not in self._identities:
            self._identities[run] = identity(self.setting.units.subgraph(run))
        return self._identities[run]

    def _key(self, spot: Spot) -> Key:
        return self._identity(spot[0]), spot[1]

    def price(self, run: Run, name: str) -> Price | None:
        """What ``run`` costs by that provider; None where that is not known, or it does not run."""
        return self.prices.get((self._identity(run), name))

    def _measure(self, turns: Sequence[Sequence[Spot]], seconds: float) -> None:
        """Prices of the spots that have none yet, one for all that compute the same; what has one
        runs between them, to leave caches as it does."""
        asked = ([spot for spot in turn if self._asks(spot)] for turn in turns)
        first = self._first.setdefault
        rows = [dict.fromkeys(first(self._key(spot), spot) for spot in row) for row in asked]
        new = [s for s in dict.fromkeys(s for row in rows for s in row) if self.price(*s) is None]
        if not new:
            return
        rows = [row for row in rows if not row.keys().isdisjoint(new)]
        found = priced(self.setting, [list(row) for row in rows], seconds)
        self.refused += found.refused.values()
        seconds_of = {s: t for row in rows for s, t in quiet(list(row), found.times).items()}
        for spot in new:
            layouts = found.layouts.get(spot, ({}, {}))
            known = spot in seconds_of
            self.prices[self._key(spot)] = Price(seconds_of[spot], *layouts) if known else None

    def _asks(self, spot: Spot) -> bool:
        """Whether its price, if there is none, is still asked for."""
        key = self._key(spot)
        return self.prices.get(key) is not None or (
            key not in self.prices and self.setting.trusts(spot[1])
        )

    def _convert(self, value: str, made: Layout, wanted: Layout) -> float:
        """Seconds of a conversion, measured once."""
        if (value, made, wanted) not in self._conversions:
            array = laid(self.setting.values[value], made)
            taken = []
            for _ in range(5):
                begun = time.perf_counter()
                laid(array, wanted)
                taken.append(time.perf_counter() - begun)
            self._conversions[value, made, wanted] = median(taken)
        return self._conversions[value, made, wanted]

    # ---- candidates ------------------------------------------------------------------------------

    def _choice(self, run: Run, name: str, price: Price) -> Choice:
        graph = self.setting.units.subgraph(run)
        wants = {graph.inputs[k].name: layout for k, layout in price.reads.items()}
        gives = {graph.outputs[k].name: layout for k, layout in price.makes.items()}
        return Choice(run, name, price.seconds + self.step, wants, gives)

    def _choices(self, *, only_measured: bool) -> list[Choice]:
        found = [
            self._choice(run, name, price)
            for run in self._runs()
            for name in self.names
            if (price := self.price(run, name)) is not None
        ]
        return found if only_measured else found + self._estimated()

    def _runs(self) -> list[Run]:
        """All runs of units that were measured, or are what a measured one is."""
        known = {key for key, _ in self.prices}
        return [run for run in self._identities if self._identities[run] in known]

    def _estimated(self) -> list[Choice]:
        """Runs of two units or more that nobody has measured."""
        found = []
        for name in self.names:
            if not self.setting.trusts(name):
                continue
            singles = [self.price(frozenset([u]), name) for u in range(self.count)]
            known = [p.seconds for p in singles if p is not None]
            call = min(known, default=0.0)  # no unit takes less than a call
            ratio = self._ratio(name, known, call)
            for first in range(self.count):
                total = call
                for last in range(first, self.count):
                    single = singles[last]
                    if single is None:
                        break
                    total += ratio * (single.seconds - call)
                    run = frozenset(range(first, last + 1))
                    if last > first and (self._identities.get(run), name) not in self.prices:
                        found.append(self._estimate(run, name, total))
        return found

    def _ratio(self, name: str, known: Sequence[float], call: float) -> float:
        """What a unit costs among others, of what it costs alone: at most 1, so that no run that
        may be good stays without a measurement."""
        whole = self.price(self.all, name)
        alone = sum(seconds - call for seconds in known)
        if whole is None or len(known) < self.count or alone <= 0:
            return 1.0
        return min(1.0, max(0.0, whole.seconds - call) / alone)

    def _estimate(self, run: Run, name: str, seconds: float) -> Choice:
        """With the layouts that its units want and give alone."""
        wants: dict[str, Layout] = {}
        gives: dict[str, Layout] = {}
        for unit in sorted(run):
            alone = self.price(frozenset([unit]), name)
            assert alone is not None
            if alone.reads or alone.makes:
                choice = self._choice(frozenset([unit]), name, alone)
                wants |= {v: layout for v, layout in choice.wants.items() if v not in gives}
                gives |= choice.gives
        return Choice(run, name, seconds + self.step, wants, gives)

    # ---- the best --------------------------------------------------------------------------------

    def _refined(self, slot: float, end: float) -> Placement | None:
        """The best combination, all of which is measured; at ``end``, of what is measured then."""
        while time.monotonic() < end:
            found = self._cheapest(self._choices(only_measured=False))
            if found is None or all(map(self._known, found.choices)):
                return found
            self._measure([[(c.parts, c.provider) for c in found.choices]], slot)
        return self._cheapest(self._choices(only_measured=True))

    def _known(self, choice: Choice) -> bool:
        """Whether it was chosen by a measured price."""
        run, name = choice.parts, choice.provider
        return run in self._identities and self.price(run, name) is not None

    def _cheapest(self, choices: Sequence[Choice]) -> Placement | None:
        units = self.setting.units
        outputs = [v.name for v in units.graph.outputs]
        return cheapest(units.parts, outputs, choices, self._convert)

    def _confirmed(self, found: Placement | None) -> Final:
        plans: dict[str, Plan] = {
            name: [(self.all, name)]
            for name in self.names
            if self.price(self.all, name) is not None
        }
        if found is not None and len(found.choices) > 1:
            plans[COMBINATION] = [(c.parts, c.provider) for c in found.choices]
        rounds: dict[str, list[float]] = {}
        for _ in range(FRESH):
            again = compared(self.setting, plans, self.seconds / 3 / FRESH)
            self.refused += again.refused.values()
            plans = {label: plan for label, plan in plans.items() if label in again.times}
            rounds = {k: [*rounds.get(k, []), *again.times[k]] for k in plans}
        plans.setdefault(WEFT, [(self.all, WEFT)])  # which runs it even where nothing was measured
        return decided(plans, rounds, found is None or found.proved)


def quiet(row: Sequence[Spot], times: Mapping[Spot, Sequence[float]]) -> dict[Spot, float]:
    """Mean seconds of each spot of a turn over the quarter of its rounds in which all of them took
    least: what else the machine does only adds to them. Were each taken where it alone was fastest,
    many short ones would seem to take less than one that is as long as all of them."""
    there = [spot for spot in row if spot in times]
    totals = [sum(each) for each in zip(*(times[spot] for spot in there), strict=True)]
    best = sorted(range(len(totals)), key=totals.__getitem__)[: max(1, len(totals) // 4)]
    return {spot: fmean(times[spot][k] for k in best) for spot in there}


def decided(plans: dict[str, Plan], rounds: dict[str, list[float]], proved: bool) -> Final:
    """Of ``plans``, by seconds in each of the same ``rounds``, which to take."""
    singles = {name: median(times) for name, times in rounds.items() if name != COMBINATION}
    best = min(singles, key=lambda name: singles[name], default=WEFT)
    if COMBINATION not in rounds or best not in rounds:
        return Final(best, plans[best], singles)
    pairs = zip(rounds[best], rounds[COMBINATION], strict=True)
    gains = sorted(one / other for one, other in pairs)
    low = lower_limit(gains)
    taken = COMBINATION if low > GAIN else best
    combined = median(rounds[COMBINATION])
    return Final(taken, plans[taken], singles, combined, median(gains), low, proved)


def lower_limit(ordered: Sequence[float]) -> float:
    """Below which the median lies with a probability of 1 - ``CONFIDENCE`` at most, whatever the
    distribution: the order statistic of the sign test; 0 where there are too few."""
    n, below, k = len(ordered), 0.0, 0
    while k < n:
        below += math.comb(n, k) / 2**n
        if below > 1 - CONFIDENCE:
            break
        k += 1
    return ordered[k - 1] if k else 0.0
