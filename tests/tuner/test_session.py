"""Sessions: never a worse plan, whatever breaks; what was found is kept, and found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.tuner.stubs import Imagined, laboratory, problem, session
from weft.runtime.records import About, Confirmed, Records, Session, Trial, plan_text
from weft.tuner.session import Budget, Tuner, spearman


def gained(place: Imagined, plan: dict[str, Any]) -> float:
    """What ``plan`` gains in truth."""
    return place.seconds({}) / place.seconds(plan)


def test_a_session_finds_what_is_faster(tmp_path: Path) -> None:
    place = Imagined()
    with Records(tmp_path / "records") as records:
        outcome, _ = session(place, records, tmp_path / "lab")
    best = min(place.seconds({f"S0.d{k}": v for k, v in enumerate(point)}) for point in points())
    assert gained(place, outcome.plan) >= 0.95 * place.seconds({}) / best
    assert outcome.gain is not None and outcome.gain.sure
    assert outcome.gain.median == pytest.approx(gained(place, outcome.plan), rel=0.02)
    assert outcome.after == outcome.before / outcome.gain.median
    assert 40 <= outcome.trials < 48 and not outcome.interrupted
    assert {c.name: c.after for c in outcome.changes} == outcome.plan
    for change in outcome.changes:
        rest = {n: v for n, v in outcome.plan.items() if n != change.name}
        alone = place.seconds(rest) / place.seconds(outcome.plan)
        if len(outcome.plan) > 1:
            assert change.worth == pytest.approx(alone, rel=0.03)


def points() -> list[tuple[str, ...]]:
    return [(a, b, c, d) for a in "012" for b in "0123" for c in "0123" for d in "01234"]


def test_noise_is_no_gain(tmp_path: Path) -> None:
    place = Imagined(noise=0.2)
    place.factors = [f * 0 + 1 for f in place.factors]
    place.seconds = lambda plan: 1e-3 * (1 + 1e-9 * len(plan_text(plan)))  # type: ignore[method-assign]
    with Records(tmp_path / "records") as records:
        outcome, _ = session(place, records, tmp_path / "lab")
    assert outcome.plan == {} and outcome.gain is None and outcome.after == outcome.before


def test_what_was_timed_is_not_timed_again(tmp_path: Path) -> None:
    with Records(tmp_path / "records") as records:
        first, _ = session(Imagined(), records, tmp_path / "lab")
        place = Imagined(seed=1)
        again, _ = session(place, records, tmp_path / "lab")
        assert again.plan == first.plan and again.gain == first.gain
        assert again.trials == first.trials and again.closed == first.closed
        more, _ = session(place, records, tmp_path / "lab", Budget(None, 60))
        assert 60 <= more.trials < 68
        fresh = Imagined()
        other, _ = session(fresh, records, tmp_path / "lab", seed=1)
        assert len(fresh.timed) > 4 and gained(fresh, other.plan) >= 1.0


def test_a_space_that_ends_is_closed(tmp_path: Path) -> None:
    with Records(tmp_path / "records") as records:
        outcome, _ = session(Imagined(), records, tmp_path / "lab", Budget(None, 1000))
        assert outcome.closed == "every candidate was timed, or is refused"
        again, _ = session(Imagined(), records, tmp_path / "lab", Budget(None, 1000))
        assert again.closed == outcome.closed


def test_nothing_is_closed_where_the_untuned_program_was_not_drafted(tmp_path: Path) -> None:
    class Undrafted(Imagined):
        def _drafted(self, plan: dict[str, Any]) -> Any:
            found = super()._drafted(plan)
            return found if plan else type(found)(refused="WEFT-E0571: it took too long")

    with Records(tmp_path / "records") as records:
        outcome, _ = session(Undrafted(), records, tmp_path / "lab")
    assert (outcome.trials, outcome.plan, outcome.closed) == (0, {}, "")


# ---- faults --------------------------------------------------------------------------------------


def damage(path: Path, random: Random) -> None:
    """What another hand may do to rows."""
    with Records(path) as records:
        for table in ("trial", "confirmed", "session"):
            column = random.choice(["plan", "names", "at", "trials", "gain"])
            junk = random.choice([None, b"\xff", "junk", -1.0, 1e308, "{"])
            columns = [row[1] for row in records._rows.execute(f"PRAGMA table_info({table})")]
            if column in columns:
                records._rows.execute(
                    f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid % 3 = ?",
                    [junk, random.randrange(3)],
                )


@pytest.mark.long
def test_a_thousand_faults_lose_no_session_and_make_no_plan_worse(tmp_path: Path) -> None:
    random, injected, number, won = Random(0), 0, 0, 0
    while injected < 1000:
        number += 1
        place = Imagined(seed=number, faults=random.choice([0.1, 0.3, 0.5, 0.8]))
        path = tmp_path / f"records {number // 5}"
        with Records(path) as records:
            outcome, tuner = session(place, records, tmp_path / "lab", seed=number)
        assert gained(place, outcome.plan) >= 1.0
        won += bool(outcome.plan)
        injected += sum(place.injected.values())
        with Records(path) as records:
            again, _ = session(
                Imagined(seed=-number, faults=0.3), records, tmp_path / "lab", seed=number
            )
        if not tuner.broken:
            assert again.plan == outcome.plan
        damage(path, random)
    assert 10 <= number <= 200 and won >= number / 3


def test_the_same_faults_lead_to_the_same_plan(tmp_path: Path) -> None:
    found = []
    for name in "ab":
        with Records(tmp_path / name) as records:
            place = Imagined(seed=3, faults=0.4)
            outcome, _ = session(place, records, tmp_path / "lab")
            found.append((outcome.plan, outcome.trials, outcome.refused, place.timed))
    assert found[0] == found[1]


# ---- Ctrl-C --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [3, 10, 25, 40, 60, 90, 130, 170])
def test_an_interrupted_session_goes_on(tmp_path: Path, number: int) -> None:
    path, lab = tmp_path / "records", tmp_path / "lab"
    place = Imagined(interrupt=number)
    with Records(path) as records:
        try:
            outcome, _ = session(place, records, lab)
            interrupted = outcome.interrupted
        except KeyboardInterrupt:  # beside the search
            interrupted = True
        about = about_of(records, lab)
    assert interrupted == (place.jobs >= number)
    with Records(path) as records:
        before = {(t.plan, t.effort) for t in records.find(Trial, about)}
        again = Imagined()
        outcome, tuner = session(again, records, lab)
        assert before <= {(t.plan, t.effort) for t in records.find(Trial, tuner.about)}
        assert not outcome.interrupted and outcome.trials >= 40
        assert all(s.done for s in records.find(Session, tuner.about))
    assert gained(again, outcome.plan) >= 1.0
    with Records(tmp_path / "whole") as records:
        whole, _ = session(Imagined(), records, lab)
    assert gained(again, outcome.plan) == pytest.approx(gained(again, whole.plan), rel=0.05)


def about_of(records: Records, lab: Path) -> About:
    return Tuner(laboratory(Imagined(), lab), records).about


def test_what_was_timed_before_an_interruption_is_reached_whatever_the_clock_says(
    tmp_path: Path,
) -> None:
    budget, lab = Budget(60.0), tmp_path / "lab"
    with Records(tmp_path / "records") as records:
        place = Imagined(interrupt=80)
        first, tuner = session(place, records, lab, budget)
        assert first.interrupted and first.trials > 0
        (row,) = records.find(Session, tuner.about)
        records.keep(tuner.about, Session(row.seed, row.budget, row.trials, 59.999, False))
        again, _ = session(Imagined(), records, lab, budget)
    assert again.trials >= first.trials and not again.interrupted


# ---- what other sessions found -------------------------------------------------------------------


def test_priors_are_those_of_others_in_names_of_here(tmp_path: Path) -> None:
    with Records(tmp_path / "records") as records:
        tuner = Tuner(laboratory(Imagined(), tmp_path / "lab"), records)
        mine = tuner.about
        assert set(mine.names) == {"S0", "A"} and mine.family == problem().family
        far = replace(
            mine, machine="far", names=tuple("T" if n == "S0" else "B" for n in mine.names)
        )
        records.keep(far, Confirmed('{"T.d1": "2"}', 1.5, 1.2, 1.7))
        records.keep(mine, Confirmed('{"S0.d2": "2"}', 1.5, 1.2, 1.7))
        other = replace(mine, program="another", sizes="(('n', 9),)")
        records.keep(other, Confirmed('{"S0.d3": "1"}', 1.5, 1.2, 1.7))
        strange = replace(mine, program="another", family="another")
        records.keep(strange, Confirmed('{"S0.d0": "1"}', 1.5, 1.2, 1.7))
        assert tuner.priors() == [{"S0.d1": "2"}, {"S0.d3": "1"}]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 1, 1], [1, 2, 3], 1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),
        ([1, 2, 2, 3], [1, 2, 3, 4], 0.9486832980505138),  # scipy.stats.spearmanr
    ],
)
def test_spearman(one: list[float], other: list[float], expected: float) -> None:
    assert spearman(one, other) == pytest.approx(expected)
