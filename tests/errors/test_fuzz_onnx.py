"""A few hundred mutants of valid models; ``python -m tests.errors.fuzz_onnx`` runs more."""

from tests.errors.fuzz_onnx import run


def test_mutants_end_in_a_result_or_a_typed_error():
    counts, bugs = run(300, seed=1)
    assert not bugs, "\n".join(bugs)
    assert counts["fine"] > 30 and sum(counts.values()) - counts["fine"] > 30, counts
