"""``weft accel``: text, checks, simulation, traces, and what is no stream."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.accel.vta_oracle import Crash, interpret
from weft.accel.artifact import Artifact, Layout, Placed
from weft.accel.machines.vta import Config, micro_op, vta
from weft.app.cli import cli
from weft.ir.dtypes import i8, i32
from weft.ir.instruction_stream import Issue, Stream
from weft.offload.stream_files import write_stream

NEST = {"uop_end": 2, "iter_out": 1, "iter_in": 1}
ISSUES = (
    Issue("load_uop", {"x_size": 2, "y_size": 1, "dram_base": 64}),
    Issue("load_acc", {"x_size": 2, "y_size": 1}),
    Issue("add_imm", {**NEST, "imm": -5, "push_next": 1}),
    Issue("store", {"x_size": 2, "y_size": 1, "dram_base": 12, "pop_prev": 1, "push_prev": 1}),
    Issue("finish", {"pop_next": 1}),
)
LISTING = """\
     0  compute  load_uop                               dram_base 64, y_size 1, x_size 2
                 reads dram_uop[64:66]; writes uop[0:2]
                 uop[0]: dst 0, src 0, wgt 0
                 uop[1]: dst 1, src 1, wgt 0
     1  compute  load_acc                               y_size 1, x_size 2
                 reads dram_acc[0:2]; writes acc[0:2]
     2  compute  add_imm   gives store                  uop_end 2, iter_out 1, iter_in 1, imm -5
                 reads uop[0:2], acc[0:2]; writes acc[0:2], out[0:2]
                 uop[0]: dst 0, src 0, wgt 0
                 uop[1]: dst 1, src 1, wgt 0
     3  store    store     takes compute, gives compute dram_base 12, y_size 1, x_size 2
                 reads out[0:2]; writes dram_out[12:14]
     4  compute  finish    takes store
"""


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["accel", *map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    image = np.zeros(512, np.uint8)
    words = b"".join(micro_op(Config()).encode({"dst": k, "src": k}) for k in range(2))
    image[256:264] = np.frombuffer(words, np.uint8)
    tensors = (
        Placed("x", "input", i32, Layout((2, 16)), 0),
        Placed("y", "output", i8, Layout((2, 16)), 192),
    )
    write_stream(Artifact(Stream(vta(), ISSUES), image, tensors), tmp_path / "s.bin")
    return tmp_path / "s.bin"


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_disasm(path: Path) -> None:
    found = invoke("disasm", path)
    assert found.exit_code == 0
    assert squeezed(found.output) == squeezed(LISTING)


def test_disasm_of_a_raw_stream(path: Path, tmp_path: Path) -> None:
    raw, config = tmp_path / "raw.bin", tmp_path / "vta_config.json"
    raw.write_bytes(path.read_bytes())
    config.write_text("{}")
    found = invoke("disasm", raw, "--config", config)
    lines = [line for line in squeezed(LISTING) if line[0].isdigit()]
    assert squeezed(found.output) == lines


def test_check(path: Path) -> None:
    found = invoke("check", path)
    assert found.exit_code == 0 and "5 instructions, nothing to refuse" in found.output
    assert json.loads(invoke("check", path, "--json").output) == {"instructions": 5, "right": True}


def test_check_of_what_is_wrong(tmp_path: Path) -> None:
    write_stream(
        Artifact(Stream(vta(), ISSUES[:2]), np.zeros(512, np.uint8), ()), tmp_path / "s.bin"
    )
    found = invoke("check", tmp_path / "s.bin")
    assert found.exit_code == 2 and "WEFT-E1045" in found.output
    found = invoke("check", tmp_path / "s.bin", "--json")
    assert json.loads(found.output)["error"]["code"] == "WEFT-E1045"


def test_run(path: Path, tmp_path: Path) -> None:
    x = np.arange(32, dtype=np.int32).reshape(2, 16)
    np.savez(tmp_path / "x.npz", x=x)
    files = ("--inputs", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    for order in ("first", "last", "turns", "3"):
        found = invoke("run", path, *files, "--order", order, "--trace", tmp_path / "t.json")
        assert found.exit_code == 0, found.output
        with np.load(tmp_path / "y.npz") as outputs:
            np.testing.assert_array_equal(outputs["y"], (x - 5).astype(np.int8))
    assert "5 instructions, " in found.output and "y: int8[2, 16], -5 to 26" in found.output
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    assert [names[e["tid"]] for e in spans] == ["compute"] * 3 + ["store", "compute"]
    assert [e["name"] for e in spans] == [issue.operation for issue in ISSUES]
    report = json.loads(invoke("run", path, "--json").output)
    assert report["cycles"] == max(e["ts"] + e["dur"] for e in spans)
    assert report["outputs"] == {"y": {"dtype": "int8", "shape": [2, 16]}}


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (("--config", "{tmp}/block.json"), 2, "WEFT-E1025"),
    (("--config", "{tmp}/none.json"), 2, "WEFT-E1026"),
    (("--machine", "{tmp}/machine.py:made"), 2, "WEFT-E1025"),
    (("--machine", "{tmp}/machine.py:nothing"), 2, "WEFT-E1027"),
    (("--machine", "{tmp}/machine.py:broken"), 2, "WEFT-E1027: .*\n.*ZeroDivisionError"),
    (("--machine", "{tmp}/machine.py:number"), 2, "WEFT-E1027: .*\n.*returns a int"),
    (("--machine", "{tmp}/none.py:made"), 2, "WEFT-E1027"),
    (("--machine", "made"), 2, "not of the form FILE.py:FUNCTION"),
    (("--machine", "a.py:b", "--config", "c"), 2, "both say which machine"),
])  # fmt: skip
def test_other_machines(
    path: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "block.json").write_text('{"LOG_BLOCK": 5}')
    (tmp_path / "machine.py").write_text(MACHINE)
    found = invoke("check", path, *(a.format(tmp=tmp_path) for a in arguments))
    assert found.exit_code == code and re.search(message, found.output), found.output


MACHINE = """
from weft.ir.accelerator import Accelerator, Cost, Memory, Operation, Queue
from weft.ir.bit_fields import Encoding, Field
from weft.ir.dtypes import i32

ENCODING = Encoding((Field("at", 12), Field("count", 8)), 32, 32)


def doubled(data, at, count):
    for i in range(count):
        data[at + i] = data[at + i] * 2


def made():
    operation = Operation("double", "only", ENCODING, lambda f: Cost(f.count), doubled)
    data, queue = Memory("data", i32, (), None), Queue("only", 4)
    return Accelerator("doubler", (data,), (queue,), (), (operation,))


def broken():
    return 1 // 0


def number():
    return 3
"""


def test_a_machine_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "machine.py").write_text(MACHINE)
    machine = runpy.run_path(str(tmp_path / "machine.py"))["made"]()
    stream = Stream(machine, (Issue("double", {"at": 1, "count": 3}),))
    placed = Placed("x", "input", i32, Layout((5,)), 0), Placed("y", "output", i32, Layout((5,)), 0)
    write_stream(Artifact(stream, np.zeros(20, np.uint8), placed), tmp_path / "s.bin")
    np.savez(tmp_path / "x.npz", x=np.arange(5, dtype=np.int32))
    own = ("--machine", f"{tmp_path / 'machine.py'}:made")
    assert "WEFT-E1023" in invoke("run", tmp_path / "s.bin").output
    files = ("--inputs", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    found = invoke("run", tmp_path / "s.bin", *own, *files)
    assert found.exit_code == 0 and "3 cycles" in found.output, found.output
    with np.load(tmp_path / "y.npz") as outputs:
        assert outputs["y"].tolist() == [0, 2, 4, 6, 4]
    assert squeezed(invoke("disasm", tmp_path / "s.bin", *own).output) == [
        "0 only double at 1, count 3", "reads data[1:4]; writes data[1:4]",
    ]  # fmt: skip
    assert invoke("check", tmp_path / "s.bin", *own).exit_code == 0


def test_files_that_are_none(path: Path, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"nothing")
    assert "WEFT-E1026" in invoke("run", path, "--inputs", tmp_path / "x.npz").output
    assert "WEFT-E1026" in invoke("run", path, "--output", tmp_path / "none" / "y.npz").output
    assert "WEFT-E1026" in invoke("disasm", tmp_path / "none.bin").output
    np.savez(tmp_path / "x.npz", z=np.zeros(3))
    assert "WEFT-E1022: no input 'z'" in invoke("run", path, "--inputs", tmp_path / "x.npz").output
    assert "first, last, turns" in invoke("run", path, "--order", "none").output


# ---- other addresses, and streams alone ----------------------------------------------------------


def test_relocation(path: Path, tmp_path: Path) -> None:
    """The raw stream and its image are what VTA's functional simulator takes, page 0 unmapped."""
    x = np.arange(32, dtype=np.int32).reshape(2, 16)
    np.savez(tmp_path / "x.npz", x=x)
    moved = tmp_path / "moved.bin"
    found = invoke("relocate", path, "--base", "0x10000", "-o", moved)
    assert found.exit_code == 0, found.output
    assert json.loads(moved.with_suffix(".json").read_text())["base"] == 0x10000
    image = np.fromfile(moved.with_suffix(".image"), np.uint8)
    image[:128] = x.view(np.uint8).reshape(-1)
    with pytest.raises(Crash, match="not mapped"):
        interpret(Config(), path.read_bytes(), image)
    after = interpret(Config(), moved.read_bytes(), image, 0x10000)
    np.testing.assert_array_equal(after[192:224].view(np.int8), (x - 5).reshape(-1))
    files = ("--inputs", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
    for command in (("check", moved), ("run", moved, *files)):
        assert invoke(*command).exit_code == 0
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], (x - 5).astype(np.int8))
    lines = squeezed(invoke("disasm", moved).output)
    assert "0 compute load_uop dram_base 16448, y_size 1, x_size 2" in lines
    assert lines[-1] == "what is touched is counted from the image's begin, 0x10000"
    back = tmp_path / "back.bin"
    assert invoke("relocate", moved, "--base", "0", "-o", back).exit_code == 0
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("base", "code", "message"), [
    ("17", 2, r"WEFT-E1048: instruction 0 \(load_uop\) cannot be moved by 17 bytes"),
    ("0x8000000000", 2, "WEFT-E1048: .*\n.*dram_base would be"),
    ("here", 2, "no address, such as 65536"), ("-4", 2, "no address"),
])  # fmt: skip
def test_addresses_that_are_none(
    path: Path, tmp_path: Path, base: str, code: int, message: str
) -> None:
    found = invoke("relocate", path, "--base", base, "-o", tmp_path / "moved.bin")
    assert found.exit_code == code and re.search(message, found.output), found.output


def raw(path: Path, tmp_path: Path, issues: tuple[Issue, ...] = ISSUES) -> tuple[object, ...]:
    """Arguments for a stream without a manifest."""
    alone, config = tmp_path / "raw.bin", tmp_path / "vta_config.json"
    alone.write_bytes(Stream(vta(), issues).encode())
    config.write_text("{}")
    return alone, "--config", config


def test_raw_streams_with_main_memory(path: Path, tmp_path: Path) -> None:
    memory = np.fromfile(path.with_suffix(".image"), np.uint8)
    memory[:128] = np.arange(32, dtype=np.int32).view(np.uint8)
    memory.tofile(tmp_path / "main")
    given = raw(path, tmp_path)
    image = ("--image", tmp_path / "main")
    assert "nothing to refuse" in invoke("check", *given, *image).output
    found = invoke("run", *given, *image, "--output", tmp_path / "y.npz")
    assert found.exit_code == 0 and "5 instructions" in found.output, found.output
    expected = interpret(Config(), Path(str(given[0])).read_bytes(), memory, null_page=False)
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["image"], expected)
    assert "uop[1]: dst 1, src 1, wgt 0" in invoke("disasm", *given, *image).output
    far = tuple(
        Issue(i.operation, {**i.fields, "dram_base": i.fields.get("dram_base", 0) + (4096 // size)})
        if size else i
        for i, size in zip(ISSUES, (4, 64, 0, 16, 0), strict=True)
    )  # fmt: skip
    given = raw(path, tmp_path, far)
    assert "WEFT-E1040" in invoke("check", *given, *image).output
    assert invoke("check", *given, *image, "--base", "4096").exit_code == 0
    assert invoke("run", *given, *image, "--base", "4096").exit_code == 0


def test_raw_streams_alone(path: Path, tmp_path: Path) -> None:
    given = raw(path, tmp_path)
    found = invoke("check", *given)
    assert found.exit_code == 0, found.output
    assert "of 1, what they touch is not known without main memory" in found.output
    assert json.loads(invoke("check", *given, "--json").output)["unchecked"] == 1
    found = invoke("run", *given, "--output", tmp_path / "y.npz")
    assert found.exit_code == 0 and "cycles" in found.output, found.output
    with np.load(tmp_path / "y.npz") as outputs:
        # Both micro-operations are zeros then: the same accumulator twice.
        assert (outputs["image"].view(np.int8)[192:208] == -10).all()


@pytest.mark.long
@pytest.mark.parametrize(("number", "fields", "message"), [
    (1, {"x_size": 4096}, "WEFT-E1040: instruction 1"), (2, {"push_next": 0}, "WEFT-E10(05|41)"),
    (4, {"pop_next": 0}, "WEFT-E104[12]"), (0, {"y_size": 0}, "WEFT-E1045: instruction 0"),
    (3, {"pop_next": 1}, "WEFT-E1045: .*no wire"), (2, {"src_factor_in": 2}, "dst_factor_in is 0"),
])  # fmt: skip
def test_raw_streams_that_are_wrong(
    path: Path, tmp_path: Path, number: int, fields: dict[str, int], message: str
) -> None:
    issues = list(ISSUES)
    issues[number] = Issue(issues[number].operation, {**issues[number].fields, **fields})
    found = invoke("check", *raw(path, tmp_path, tuple(issues)))
    assert found.exit_code == 2 and re.search(message, found.output), found.output


def test_options_that_a_manifest_answers(path: Path, tmp_path: Path) -> None:
    assert "a manifest says it" in invoke("check", path, "--base", "4096").output
    assert "no --image" in invoke("check", *raw(path, tmp_path), "--base", "4096").output
    huge = (Issue("load_inp", {"x_size": 1, "y_size": 2, "x_stride": 65535, "dram_base": 9}),)
    spread = (*huge, Issue("load_wgt", {"x_size": 1, "y_size": 1, "dram_base": 1 << 23}))
    found = invoke("run", *raw(path, tmp_path, (*spread, Issue("finish", {}))))
    assert found.exit_code == 2 and "WEFT-E1026" in found.output and "--image" in found.output
