"""What tests and documents register is forgotten behind them: others see nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.accel.machines.named import MACHINES
from weft.codegen.machines.named import TARGETS
from weft.driver.providers import PROVIDERS
from weft.driver.schedule_value import MOVES
from weft.driver.seeds import SEEDS
from weft.driver.targets import INSTRUCTIONS
from weft.driver.user_passes import PASSES
from weft.frontend.onnx.context import HANDLERS
from weft.frontend.onnx.importer import load_own_handlers
from weft.frontend.operators.registry import OPERATORS, load_families
from weft.frontend.torch.context import HANDLERS as TORCH_HANDLERS
from weft.frontend.torch.importer import load_own_handlers as load_torch_handlers
from weft.ir.registry import Registry
from weft.tuner.place import place  # whose own providers are there from now on

TABLES: tuple[Registry, ...] = (
    OPERATORS, HANDLERS, TORCH_HANDLERS, PASSES, TARGETS, INSTRUCTIONS, MOVES, SEEDS, PROVIDERS,
    MACHINES,
)  # fmt: skip


assert place is not None


@contextmanager
def forgotten() -> Iterator[None]:
    load_families()
    load_own_handlers()
    load_torch_handlers()
    for table in TABLES:
        table.load()
    before = [(table, dict(table._plain), dict(table._replacing)) for table in TABLES]
    try:
        yield
    finally:
        for table, plain, replacing in before:
            table._plain, table._replacing = plain, replacing
