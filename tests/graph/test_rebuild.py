from dataclasses import replace

from hypothesis import given, settings

from tests.graph.graph_examples import random_graphs
from weft.graph.canonical import canonical_text
from weft.graph.rebuild import rebuild
from weft.ir.tensor_expr import Program, operations


@given(random_graphs())
@settings(max_examples=40)
def test_a_program_on_other_placeholders_is_the_same_program(graph):
    for node in graph.nodes:
        inputs = tuple(replace(t, name=f"other_{t.name}") for t in node.program.inputs)
        made, outputs = rebuild(node.program, inputs, lambda name: f"new_{name}")
        fresh = Program("other", inputs, outputs)
        assert canonical_text(fresh) == canonical_text(node.program)
        assert list(made) == list(operations(node.program))
        assert list(made.values()) == list(operations(fresh))
        assert all(new.name == f"new_{old.name}" for old, new in made.items())
        assert all(t.name.startswith("new_") for t in outputs if t.operation)
