"""VTA's instructions: positions as published, for the default configuration and for others."""

from __future__ import annotations

import random

import pytest

from weft.accel.machines.vta import MEMORIES, Config, micro_op, vta
from weft.ir.bit_fields import Encoding, choose
from weft.ir.errors import CompileError

CONFIGS = {
    "default": Config(),
    "batch 2": Config(log_batch=1),
    "block 32": Config(log_block=5),
    "block 8, batch 4": Config(log_block=3, log_batch=2),
    "small": Config(log_uop_buff_size=10, log_inp_buff_size=12, log_acc_buff_size=15),
    "one micro-op kernel": Config(log_uop_buff_size=3, log_wgt_buff_size=12),
}

# First and last bits, as published.
COMMON = {"opcode": (0, 2), "pop_prev": (3, 3), "pop_next": (4, 4), "push_prev": (5, 5),
          "push_next": (6, 6)}  # fmt: skip
TRANSFER = {"memory_type": (7, 9), "sram_base": (10, 25), "dram_base": (26, 57),
            "y_size": (64, 79), "x_size": (80, 95), "x_stride": (96, 111), "y_pad_0": (112, 115),
            "y_pad_1": (116, 119), "x_pad_0": (120, 123), "x_pad_1": (124, 127)}  # fmt: skip
NEST = {"reset": (7, 7), "uop_bgn": (8, 20), "uop_end": (21, 34), "iter_out": (35, 48),
        "iter_in": (49, 62), "dst_factor_out": (64, 74), "dst_factor_in": (75, 85),
        "src_factor_out": (86, 96), "src_factor_in": (97, 107)}  # fmt: skip
GEMM = NEST | {"wgt_factor_out": (108, 117), "wgt_factor_in": (118, 127)}
ALU = NEST | {"alu_opcode": (108, 110), "use_imm": (111, 111), "imm": (112, 127)}


def positions(encoding: Encoding) -> dict[str, tuple[int, int]]:
    places = encoding.places
    return {f.name: (places[f.name], places[f.name] + f.width - 1) for f in encoding.fields}


def encodings(config: Config) -> dict[str, Encoding]:
    return {each.name: each.encoding for each in vta(config).operations}


def test_positions_are_the_published_ones() -> None:
    found = {name: positions(each) for name, each in encodings(Config()).items()}
    loads = dict.fromkeys(("load_uop", "load_acc", "load_wgt", "load_inp"), COMMON | TRANSFER)
    alus = [f"{name}{imm}" for name in ("min", "max", "add", "shr") for imm in ("", "_imm")]
    assert found == {
        **loads, "store": COMMON | TRANSFER, "gemm": COMMON | GEMM, "reset": COMMON | GEMM,
        **dict.fromkeys(alus, COMMON | ALU), "finish": COMMON,
    }  # fmt: skip


def test_fixed_fields_are_the_published_ones() -> None:
    def fixed(name: str) -> dict[str, int]:
        return {f.name: f.value for f in encodings(Config())[name].fields if f.value is not None}

    memories = {"uop": 0, "wgt": 1, "inp": 2, "acc": 3}
    for name, number in memories.items():
        assert fixed(f"load_{name}") == {"opcode": 0, "memory_type": number}
    assert fixed("store") == {"opcode": 1, "memory_type": 4}
    assert fixed("gemm") == {"opcode": 2, "reset": 0} and fixed("reset") == {
        "opcode": 2,
        "reset": 1,
    }
    assert fixed("finish") == {"opcode": 3}
    for number, name in enumerate(("min", "max", "add", "shr")):
        for use_imm, suffix in enumerate(("", "_imm")):
            wanted = {"opcode": 4, "alu_opcode": number, "use_imm": use_imm}
            assert fixed(name + suffix) == wanted
    assert positions(micro_op(Config())) == {"dst": (0, 10), "src": (11, 21), "wgt": (22, 31)}


def test_positions_may_jump() -> None:
    gemm = encodings(Config(log_uop_buff_size=10, log_acc_buff_size=15))["gemm"]
    assert gemm.places["dst_factor_out"] == 53 and gemm.places["dst_factor_in"] == 64


def test_depths_are_the_published_ones() -> None:
    depths = {"uop": 8192, "wgt": 1024, "inp": 2048, "acc": 2048, "out": 2048}
    sizes = {"uop": 4, "wgt": 256, "inp": 16, "acc": 64, "out": 16}
    for name in MEMORIES:
        assert Config().depth(name) == depths[name]
        assert Config().element_bytes(name) == sizes[name]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_random_instructions_come_back(config: Config) -> None:
    pick = random.Random(0)
    kinds = encodings(config)
    for name, encoding in kinds.items():
        for _ in range(500):
            limits = {f.name: f.limits for f in encoding.fields if f.value is None}
            values = {n: pick.choice([*ends, pick.randint(*ends)]) for n, ends in limits.items()}
            data = encoding.encode(values)
            assert len(data) == 16 and choose(kinds, data) == name
            fixed = {f.name: f.value for f in encoding.fields if f.value is not None}
            assert encoding.decode(data) == fixed | values
    small = micro_op(config)
    for _ in range(500):
        values = {f.name: pick.randint(*f.limits) for f in small.fields}
        assert len(small.encode(values)) == 4 and small.decode(small.encode(values)) == values


TEXT = """{"TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3,
"LOG_ACC_WIDTH": 5, "LOG_BATCH": 1, "LOG_BLOCK": 4, "LOG_UOP_BUFF_SIZE": 14,
"LOG_INP_BUFF_SIZE": 16, "LOG_WGT_BUFF_SIZE": 18, "LOG_ACC_BUFF_SIZE": 17}"""


def test_configurations_are_read() -> None:
    assert Config.read("{}") == Config()
    assert Config.read(TEXT) == Config(log_batch=1, log_uop_buff_size=14, log_inp_buff_size=16)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "no JSON"), ("[]", "no JSON object"), ('{"LOG_BLOCK": -1}', "LOG_BLOCK = -1"),
     ('{"LOG_BLOCK": "4"}', "LOG_BLOCK = '4'"), ('{"LOG_BLOCK": 4.0}', "LOG_BLOCK = 4.0"),
     ('{"LOG_BLOCK": true}', "LOG_BLOCK = True"), ('{"LOG_INP_WIDTH": 4}', "widths of 16, 8, 32"),
     ('{"LOG_WGT_BUFF_SIZE": 8}', "wgt memory of 256 bytes"),
     ('{"LOG_ACC_BUFF_SIZE": 6}', "acc memory of 64 bytes"),
     ('{"LOG_INP_BUFF_SIZE": 21}', "more than 65,536"),
     ('{"LOG_BLOCK": 40}', "wgt memory")],
)  # fmt: skip
def test_impossible_configurations(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=f"WEFT-E1010: no VTA configuration: .*{message}"):
        Config.read(text)


@pytest.mark.parametrize(
    "sizes", [{"log_inp_buff_size": 20, "log_acc_buff_size": 22}, {"log_uop_buff_size": 40}]
)
def test_addresses_that_do_not_fit_an_instruction(sizes: dict[str, int]) -> None:
    with pytest.raises(CompileError, match=r"WEFT-E1001: fields of \d+ bits"):
        vta(Config(**sizes))
