"""How many iterations run at once, against running the loops."""

from __future__ import annotations

import pytest

from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.scops import evaluate, instances
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.costs import parallelism, reduced
from weft.polyhedral.analysis.counting import Counter
from weft.polyhedral.analysis.nest_coordinates import NestCoordinates
from weft.polyhedral.analysis.polynomials import number, symbol

N, T = symbol("N"), symbol("T")


def _at_once(of: Scop, s: Statement, loops: list[Loop], sizes: dict[str, int]) -> list[int]:
    """Iterations of the second loop in each of the first."""
    fronts: dict[int, set[int]] = {}
    for env in instances(s, sizes, -1, max(sizes.values()) + 2):
        first, second = (evaluate(loop.at[s.name], env) for loop in loops[:2])
        fronts.setdefault(first, set()).add(second)
    return [len(found) for found in fronts.values()]


@pytest.mark.parametrize("tile", [1, 4])
@pytest.mark.parametrize("name", ["jacobi-1d", "jacobi-2d", "seidel-2d"])
def test_wavefronts_count_by_their_mean(name: str, tile: int) -> None:
    of = program(name)
    bands = {}
    for s, values in BANDS[name].items():
        t, i = values[0] // tile, values[1] // tile
        bands[s] = (t + i, i, *values)
    tree = tiled(of, bands, kinds="sp")
    sizes = dict.fromkeys(of.parameters, 32)
    counter = Counter(sizes)
    for s in of.statements:
        loops = [entry for entry in paths(tree)[s.name] if isinstance(entry, Loop)]
        found = parallelism(NestCoordinates(s, loops, counter), loops, counter)
        real = _at_once(of, s, loops, sizes)
        mean, rel = sum(real) / len(real), 0.15 if tile == 1 else 0.4
        assert found[loops[1].name].about(sizes) == pytest.approx(mean, rel=rel)
        assert mean < max(real)


def test_common_factors_cancel() -> None:
    assert str(reduced(N * T * T / 12, T * 4)) == "N*T/48"
    assert str(reduced(N * T / 288, N / 24 + T / 6)) == "N*T/12 / (N + 4*T)"
    assert str(reduced(N * N - N, N * 2)) == "N/2 - 1/2"
    assert str(reduced(number(7), number(2))) == "4"
    assert str(reduced(N, number(0))) == "N"


def test_text_is_rounded() -> None:
    def main_terms(form: object) -> object:
        return N * T if form == N * T - N + 1 else T

    shown = reduced(N * T - N + 1, T + 3)
    assert str(shown) == "(N*T - N + 1) / (T + 3)"
    assert shown.shown(main_terms) == "N"  # type: ignore[arg-type]
