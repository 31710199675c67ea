"""Streams for other addresses: the same results as far from address 0, for machines whose addresses
are one field, or two."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.accel.random_streams import pipelined, random_artifact
from tests.accel.vta_oracle import interpret
from tests.weft.strange_machines import outer_product
from weft import hardware as hw
from weft import i8, i32
from weft.accel.machines.vta import Config, vta
from weft.accel.relocate import relocated, used
from weft.ir.build import compute, placeholder, reduce_axis
from weft.ir.build import sum as total
from weft.ir.errors import StreamError
from weft.ir.scalar_expr import cast
from weft.offload.accelerators import Semantics
from weft.offload.simulator import check_stream, run_artifact
from weft.offload.stream_files import read_stream


@pytest.mark.parametrize("base", [4096, 1 << 20, 1 << 31])
def test_vta(base: int) -> None:
    config = Config(log_batch=1, log_block=3, log_wgt_buff_size=14)
    semantics = Semantics(vta(config))
    for artifact in (pipelined(config, 3, rows=3), random_artifact(config, 0, 8, 1.0)):
        moved = relocated(artifact, semantics.analysed, base)
        assert moved.base == base and moved.image is artifact.image
        code = artifact.stream.encode()
        expected = interpret(config, code, artifact.image, null_page=False)
        found = interpret(config, moved.stream.encode(), artifact.image, base)
        np.testing.assert_array_equal(found, expected)
        check_stream(moved, semantics)
        back = relocated(moved, semantics.analysed, 0)
        assert back.stream.encode() == code
        places = used(moved, semantics.analysed)
        assert base <= places.start < places.stop <= base + len(artifact.image)


def test_addresses_of_two_fields(tmp_path):
    """A page and a row."""

    def load(sram, dram, sram_base, page, dram_base, rows, columns, stride):
        for y in range(rows):
            for x in range(columns):
                for p in range(8):
                    sram[sram_base + y * columns + x, p] = dram[
                        page * 256 + dram_base + y * stride + x, p
                    ]

    machine = outer_product()
    operations = []
    for each in machine.operations:
        if each.name.startswith("load_"):
            fields = [f for f in each.encoding.fields if f.name != "dram_base"]
            fields += [hw.Field("page", 12), hw.Field("dram_base", 8)]
            each = replace(each, semantics=load, encoding=hw.Encoding(tuple(fields), 128))
        operations.append(each)
    machine = replace(machine, operations=tuple(operations))
    x, w = placeholder((20, 30), i8, name="x"), placeholder((30, 24), i8, name="w")
    k = reduce_axis((0, 30), name="k")
    sums = compute(
        (20, 24), lambda i, j: total(cast(x[i, k], i32) * cast(w[k, j], i32), (k,)), name="s"
    )
    data = np.random.default_rng(0).integers(-128, 128, (20, 30)).astype(np.int8)
    weights = np.random.default_rng(1).integers(-128, 128, (30, 24)).astype(np.int8)
    made = hw.compile(sums, machine, constants={"w": weights})
    moved = relocated(made.artifact, Semantics(machine).analysed, 1 << 14)
    _, manifest, _ = made.save(tmp_path / "s.bin", base=1 << 14)
    assert read_stream(manifest, machine).stream.encode() == moved.stream.encode()
    (name,) = (each.name for each in moved.tensors if each.role == "input")
    (output,) = (each.name for each in moved.tensors if each.role == "output")
    found = run_artifact(moved, {name: data})[output]
    np.testing.assert_array_equal(found, data.astype(int) @ weights)
    with pytest.raises(StreamError, match=r"WEFT-E1048: .*\n.*page would be"):
        relocated(made.artifact, Semantics(machine).analysed, 1 << 30)
