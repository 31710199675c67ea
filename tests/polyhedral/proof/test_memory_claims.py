"""What may not stream past the caches or be asked for ahead, in the user's terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.test_stream import chain
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Band, Claim, Mark, Prefetched, Sequence, Streamed, Tree
from weft.ir.scop import Scop
from weft.polyhedral.proof.legality import check
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.prefetch import prefetch
from weft.polyhedral.transform.stream import stream


def refusal(scop: Scop, tree: Tree) -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        check(scop, tree)
    assert caught.value.code == "WEFT-E0425"
    return caught.value.why


def claimed(claim: str | Claim, place: int) -> tuple[Scop, Tree]:
    """The nest at ``place`` of Y = X + 1; Z = 2 Y with a claim; of a name, that it streams."""
    claim = Streamed(claim) if isinstance(claim, str) else claim
    now = chain()
    assert isinstance(now.tree, Sequence)
    parts = list(now.tree.children)
    nest = parts[place]
    assert isinstance(nest, Band)
    parts[place] = replace(nest, child=Mark(claim, nest.child))
    return now.scop, Sequence(tuple(parts))


def test_what_is_claimed_of_a_writer() -> None:
    check(*claimed("Y", 0))
    check(*claimed("Z", 1))
    assert refusal(*claimed("Y", 1)) == "S1 does not write it"
    assert refusal(*claimed("X", 0)) == "S0 does not write it"
    assert refusal(*claimed("nowhere", 0)) == "S0 does not write it"


def test_who_reads_it_in_the_same_nest() -> None:
    now = fuse(stream(chain(), "Y"), "i", "i_2")
    assert refusal(now.scop, now.tree) == "S1 reads it in the same nest"


def test_what_is_claimed_of_a_reader() -> None:
    check(*claimed(Prefetched("X", 64), 0))
    check(*claimed(Prefetched("Y", 64), 1))
    assert refusal(*claimed(Prefetched("Y", 64), 0)) == "S0 does not read it"
    for ahead in (0, -64, 1 << 21):
        why = f"{ahead} bytes ahead is nowhere near"
        assert refusal(*claimed(Prefetched("X", ahead), 0)) == why


def test_who_writes_it_in_the_same_nest() -> None:
    now = fuse(prefetch(chain(), "Y", 64), "i", "i_2")
    assert refusal(now.scop, now.tree) == "S0 writes it in the same nest"


def test_storage_that_is_reused() -> None:
    scop, tree = claimed("Y", 0)
    tensors = tuple(replace(t, scope="local") if t.name == "Y" else t for t in scop.tensors)
    assert refusal(replace(scop, tensors=tensors), tree) == "its storage is reused"


def test_one_statement_at_a_time() -> None:
    now = chain()
    whole = Mark(Streamed("Y"), now.tree)
    assert refusal(now.scop, whole) == "the mark stands over several statements"
