"""What Weft emits, byte for byte, through VTA's functional simulator as ``vta_oracle`` has it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from benchmarks.vta import CONFIGS as MEASURED
from benchmarks.vta import LAYERS, Layer, data_for, expected, program
from tests.accel.vta_oracle import Crash, interpret
from tests.properties.offload_cases import random_case
from tests.properties.offloads import CONFIGS, target_of, tiled_by_chance
from weft.accel.machines.vta import Config, vta
from weft.accel.place import Offloaded
from weft.ir.errors import CompileError
from weft.ir.instruction_stream import Issue, Stream
from weft.offload.offload import Target, offload, ways
from weft.offload.simulator import check_stream
from weft.polyhedral.from_tensor_expr import lower

Arrays = dict[str, np.ndarray]


def as_emitted(made: Offloaded, config: Config, inputs: Arrays) -> np.ndarray:
    image = made.artifact.filled(made.prepared(inputs))
    return made.results(interpret(config, made.artifact.stream.encode(), image))


def same_as_numpy(seed: int) -> bool:
    """Random program ``seed``, if VTA computes it."""
    case, number = random_case(seed), Random(f"config {seed}").randrange(len(CONFIGS))
    constants = {name: case.inputs[name] for name in case.constants}
    try:
        made = offload(lower(case.program, "offloaded"), target_of(number), constants)
    except CompileError:
        return False
    found = as_emitted(made, CONFIGS[number], case.inputs)
    np.testing.assert_array_equal(found, case.expected, f"seed {seed}: {case.text}")
    return True


def test_random_programs() -> None:
    assert sum(map(same_as_numpy, range(12))) >= 9


@pytest.mark.parametrize("config", MEASURED)
def test_a_layer(config: str) -> None:
    layer = next(each for each in LAYERS if each.name == "C10")
    data = data_for(program(layer))
    made = offload(
        lower(program(layer), "layer"), Target.of(vta(MEASURED[config])),
        {name: data[name] for name in ("w", "bias")},
    )  # fmt: skip
    np.testing.assert_array_equal(as_emitted(made, MEASURED[config], data), expected(layer, data))


def test_padding_that_has_no_row_of_the_tensor() -> None:
    """Tiles that lie in the zeros around an image are loads of zeros alone: around one that they
    read, and of which accumulators and bounds of fields may take several."""
    found = 0
    for config, pad in ((0, 6), (2, 6), (0, 15), (7, 6)):
        target, layer = target_of(config), Layer("padded", 1, 20, 9, 4, 3, 1, pad)
        data = data_for(program(layer))
        constants = {name: data[name] for name in ("w", "bias")}
        unmerged = ways(lower(program(layer), "layer"), target)[:1]
        for pick in map(Random, range(4)):
            made = tiled_by_chance(unmerged, target, constants, pick)
            if made is not None:
                check_stream(made.artifact, target.semantics)
                result = as_emitted(made, CONFIGS[config], data)
                np.testing.assert_array_equal(result, expected(layer, data))
                found += sum(map(alone, made.artifact.stream.issues))
    assert found > 20


def alone(issue: Issue) -> bool:
    """Whether it loads one zero with zeros around it."""
    get = issue.fields.get
    pads = sum(get(name, 0) for name in ("x_pad_0", "x_pad_1", "y_pad_0", "y_pad_1"))
    return issue.operation == "load_inp" and pads > 0 and get("x_size") == get("y_size") == 1


# ---- the oracle itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(("fields", "message"), [
    ({"x_size": 1, "y_size": 1}, "0x0 is not mapped"),
    ({"x_size": 1, "y_size": 1, "dram_base": 255}, "0xff0 is not mapped"),
    ({"x_size": 1, "y_pad_0": 1, "dram_base": 1 << 20}, "0x1000000 to"),
    ({"push_prev": 1}, "null pointer"), ({"pop_prev": 1}, "null pointer"),
    ({"pop_next": 1}, "no token"), ({"push_next": 1}, "left over"),
])  # fmt: skip
def test_streams_that_it_aborts(fields: dict[str, int], message: str) -> None:
    code = Stream(vta(), (Issue("load_inp", fields),)).encode()
    with pytest.raises(Crash, match=message):
        interpret(Config(), code, np.zeros(1 << 13, np.uint8))
