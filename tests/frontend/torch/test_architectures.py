"""Well-known architectures compute what PyTorch computes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")
pytest.importorskip("transformers", reason="transformers is not installed")

from tests.frontend.torch.run_torch import exported, interpreted  # noqa: E402
from weft.benchmarks.architectures.modules import MODELS, TRANSFORMERS  # noqa: E402


@pytest.mark.parametrize("name", [*MODELS, *TRANSFORMERS])
def test_architecture(name: str) -> None:
    torch.manual_seed(0)
    model, args = {**MODELS, **TRANSFORMERS}[name]()
    model = model.eval()
    with torch.no_grad():
        expected = model(*args)
        found = interpreted(exported(model, args))(*args)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
