"""A region in two parts computes what the whole does."""

from tests.errors.hostile_models import model, node
from weft.frontend.onnx.host_partition import cut_region
from weft.frontend.onnx.read_model import read_model

NODES = [
    node("Neg", ["x"], ["a"]),
    node("Abs", ["a"], ["b"]),
    node("Exp", ["a"], ["c"]),
    node("Add", ["b", "x"], ["d"]),
]


def test_each_part_reads_and_gives_what_is_needed():
    region = read_model(model(NODES, outputs=["a", "d", "x"]))
    first, second = cut_region(region, 2)
    assert [n.op_type for n in first.nodes] == ["Neg", "Abs"]
    assert first.captures == ("x",) and first.outputs == ("a", "b")
    assert second.captures == ("a", "b", "x") and second.outputs == ("d",)


def test_at_the_ends_one_part_is_empty():
    region = read_model(model(NODES, outputs=["d"]))
    first, second = cut_region(region, 0)
    assert (first.nodes, first.outputs) == ((), ()) and second.outputs == ("d",)
    first, second = cut_region(region, 4)
    assert first.outputs == ("d",) and (second.nodes, second.outputs) == ((), ())
