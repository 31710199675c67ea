"""Lines asked for ahead, by the names of tensors."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import matmul
from tests.polyhedral.transform.machine_code import computes
from tests.polyhedral.transform.test_stream import chain, kernel_of
from tests.polyhedral.transform.test_tensorize import tiled
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_printer import print_kernel
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Prefetched, Streamed, payloads
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.prefetch import prefetch
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.stream import stream
from weft.polyhedral.transform.tensorize import tensorize


def hints(now: Scheduled) -> set[str]:
    lines = print_kernel(kernel_of(now)).splitlines()
    return {line.strip() for line in lines if line.strip().startswith("prefetch")}


def test_nests_that_write_it_do_not_ask() -> None:
    now = prefetch(chain(), "Y", 512)
    assert str(now.steps[-1]) == 'prefetch("Y", 512)'
    assert print_schedule(now.tree).splitlines()[-2:] == [
        "    mark Prefetched('Y', ahead=512)", "      S1",
    ]  # fmt: skip
    assert hints(now) == {"prefetch Y[i_2 + 64]"}  # of 8 bytes
    computes(now)


def test_who_asks_and_how_far() -> None:
    one = prefetch(chain(), "Y", 512, ["S1"])
    assert one.tree == prefetch(chain(), "Y", 512).tree
    assert prefetch(prefetch(chain(), "Y", 8), "Y", 512).tree == one.tree
    with pytest.raises(IllegalScheduleError, match="E0425") as caught:
        prefetch(chain(), "Y", 512, ["S0"])
    assert caught.value.why == "no nest reads it without writing it"


def test_one_statement_may_do_both() -> None:
    now = stream(prefetch(chain(), "X", 128), "Y")
    assert payloads(now.tree) == (Prefetched("X", 128), Streamed("Y"))
    computes(now)


def test_register_tiles_ask_and_stay_tiles() -> None:
    before = prefetch(tensorize(tiled(), ["k"], ["i_S1_p"], "j_S1_p"), "B", 64)
    after = tensorize(prefetch(tiled(), "B", 64), ["k"], ["i_S1_p"], "j_S1_p")
    assert before.tree == after.tree
    computes(before)


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0452.*'W'"):
        prefetch(chain(), "W", 8)
    with pytest.raises(IllegalScheduleError, match=r"E0451.*'S9'"):
        prefetch(chain(), "Y", 8, ["S9"])
    for ahead in (0, -1, True, "1"):
        with pytest.raises(IllegalScheduleError, match="E0460"):
            prefetch(chain(), "Y", ahead)  # type: ignore[arg-type]
    for tensor, now in (("Z", chain()), ("C", initial(matmul()))):
        with pytest.raises(IllegalScheduleError, match="E0425") as caught:
            prefetch(now, tensor, 8)
        assert caught.value.why == "no nest reads it without writing it"
