"""VTA's functional simulator in NumPy, slow and obvious, from the published text: bytes in, main
memory out. It knows nothing of Weft's encodings, records or semantics.

It does as that simulator does, also where a stream makes no sense: it loops over the rows of a
load of micro-operations, looks up the address of a load that reads no row, follows the pointer of a
queue that is not there, and has no page 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.accel.machines.vta import Config

Array = np.ndarray[Any, Any]
Fields = dict[str, int]
PAGE = 1 << 12
LOAD, STORE, GEMM, FINISH, ALU = range(5)
UOP, WGT, INP, ACC, OUT = range(5)
# (who gives, who takes), by who has the flag and which: load 0, compute 1, store 2.
PUSHES = {(0, "push_next"): (0, 1), (1, "push_prev"): (1, 0), (1, "push_next"): (1, 2),
          (2, "push_prev"): (2, 1)}  # fmt: skip
POPS = {(0, "pop_next"): (1, 0), (1, "pop_prev"): (0, 1), (1, "pop_next"): (2, 1),
        (2, "pop_prev"): (1, 2)}  # fmt: skip


class Crash(Exception):
    """What that simulator aborts with, or would read from a null pointer."""


def interpret(
    config: Config, code: bytes, image: Array, base: int = 0, *, null_page: bool = True
) -> Array:
    """``image``, which lies from address ``base`` on, after the instructions ``code``."""
    made = _Vta(config, image, base, null_page)
    for at in range(0, len(code), 16):
        made.run(code[at : at + 16])
    if left := {wire: n for wire, n in made.tokens.items() if n}:
        raise Crash(f"tokens are left over: {left}")
    return made.image


def decode(data: bytes, widths: list[tuple[str, int]]) -> Fields:
    """C's bit-fields: from the lowest bit on, none across two words of 64 bits."""
    word, place, found = int.from_bytes(data, "little"), 0, {}
    for name, width in widths:
        if place // 64 != (place + width - 1) // 64:
            place = -(-place // 64) * 64
        found[name] = word >> place & ((1 << width) - 1)
        place += width
    return found


class _Vta:
    def __init__(self, config: Config, image: Array, base: int, null_page: bool) -> None:
        self.image, self.base, self.null_page = image.copy(), base, null_page
        batch, block = 1 << config.log_batch, 1 << config.log_block
        shapes = {UOP: (), WGT: (block, block), INP: (batch, block), ACC: (batch, block)}
        types = {UOP: np.uint32, WGT: np.int8, INP: np.int8, ACC: np.int32}
        logs = {
            UOP: config.log_uop_buff_size, WGT: config.log_wgt_buff_size,
            INP: config.log_inp_buff_size, ACC: config.log_acc_buff_size,
        }  # fmt: skip
        noise = np.random.default_rng(1)
        self.held: dict[int, Array] = {}
        self.bits: dict[int, int] = {}  # of addresses
        for kind, log in logs.items():
            size = int(np.prod(shapes[kind])) * np.dtype(types[kind]).itemsize
            self.bits[kind] = log - (size.bit_length() - 1)
            data = noise.integers(0, 256, 1 << log, np.uint8)
            self.held[kind] = data.view(types[kind]).reshape(-1, *shapes[kind])
        self.tokens = dict.fromkeys(PUSHES.values(), 0)

    # ---- instructions -----------------------------------------------------------------------

    def run(self, data: bytes) -> None:
        head = [("opcode", 3), ("pop_prev", 1), ("pop_next", 1), ("push_prev", 1), ("push_next", 1)]
        a, i, w, u = (self.bits[kind] for kind in (ACC, INP, WGT, UOP))
        loops = [("reset", 1), ("uop_bgn", u), ("uop_end", u + 1), ("iter_out", 14),
                 ("iter_in", 14), ("dst_out", a), ("dst_in", a)]  # fmt: skip
        move = [("memory", 3), ("sram_base", 16), ("dram_base", 32), ("y_size", 16),
                ("x_size", 16), ("x_stride", 16), ("y_pad_0", 4), ("y_pad_1", 4), ("x_pad_0", 4),
                ("x_pad_1", 4)]  # fmt: skip
        layouts = {
            LOAD: move,
            STORE: move,
            GEMM: [*loops, ("src_out", i), ("src_in", i), ("wgt_out", w), ("wgt_in", w)],
            ALU: [*loops, ("src_out", a), ("src_in", a), ("alu", 3), ("use_imm", 1), ("imm", 16)],
            FINISH: [],
        }
        opcode = data[0] & 7
        f = decode(data, head + layouts[opcode])
        unit = 1
        if opcode == STORE:
            unit = 2
        elif opcode == LOAD and f["memory"] in (INP, WGT):
            unit = 0
        self._wait(f, unit)
        match opcode:
            case 0:
                self._load(f)
            case 1:
                self._store(f)
            case 2 | 4:
                for d, s, t in self._turns(f):
                    self._gemm(f, d, s, t) if opcode == GEMM else self._alu(f, d, s)
        for flag in ("push_prev", "push_next"):
            if f[flag]:
                self.tokens[self._wire(PUSHES, unit, flag)] += 1

    def _wait(self, f: Fields, unit: int) -> None:
        for flag in ("pop_prev", "pop_next"):
            if f[flag]:
                wire = self._wire(POPS, unit, flag)
                if not self.tokens[wire]:
                    raise Crash(f"{flag} of unit {unit}: there is no token")
                self.tokens[wire] -= 1

    def _wire(
        self, wires: dict[tuple[int, str], tuple[int, int]], unit: int, flag: str
    ) -> tuple[int, int]:
        if (unit, flag) not in wires:
            raise Crash(f"{flag} of unit {unit} is a null pointer")
        return wires[unit, flag]

    # ---- transfers --------------------------------------------------------------------------

    def _at(self, address: int, size: int) -> slice:
        """Bytes of main memory."""
        if (self.null_page and address < PAGE) or address < self.base:
            raise Crash(f"{address:#x} is not mapped")
        if address + size > self.base + len(self.image):
            raise Crash(f"{address:#x} to {address + size:#x} is not mapped")
        return slice(address - self.base, address - self.base + size)

    def _load(self, f: Fields) -> None:
        if not f["x_size"]:
            return
        sram = self.held[f["memory"]]
        size = sram[0].nbytes
        address, at = f["dram_base"] * size, f["sram_base"]
        self._at(address, 0)
        width = f["x_pad_0"] + f["x_size"] + f["x_pad_1"]
        rows = f["y_pad_0"] + f["y_size"] + f["y_pad_1"]
        if at + width * rows > len(sram):
            raise Crash(f"{width * rows} elements from {at} on in {len(sram)}")
        sram[at : at + width * rows] = 0
        at += width * f["y_pad_0"] + f["x_pad_0"]
        for _ in range(f["y_size"]):
            row = self.image[self._at(address, f["x_size"] * size)]
            sram[at : at + f["x_size"]] = row.view(sram.dtype).reshape(-1, *sram.shape[1:])
            at, address = at + width, address + f["x_stride"] * size

    def _store(self, f: Fields) -> None:
        if not f["x_size"]:
            return
        acc = self.held[ACC]
        size = acc[0].size
        address, at = f["dram_base"] * size, f["sram_base"]
        self._at(address, 0)
        for _ in range(f["y_size"]):
            if at + f["x_size"] > len(acc):
                raise Crash(f"element {at + f['x_size']} in {len(acc)}")
            low = acc[at : at + f["x_size"]].astype(np.int8)
            self.image[self._at(address, low.size)] = low.reshape(-1).view(np.uint8)
            at, address = at + f["x_size"], address + f["x_stride"] * size

    # ---- computations -----------------------------------------------------------------------

    def _turns(self, f: Fields) -> list[tuple[int, int, int]]:
        a, i, w = (self.bits[kind] for kind in (ACC, INP, WGT))
        layout = [("dst", a), ("src", max(a, i)), ("wgt", w)]
        words = self.held[UOP][f["uop_bgn"] : f["uop_end"]]
        micro = [decode(word.tobytes(), layout) for word in words]
        return [
            tuple(
                op[name] + y * f.get(f"{name}_out", 0) + x * f.get(f"{name}_in", 0)
                for name in ("dst", "src", "wgt")
            )
            for y in range(f["iter_out"])
            for x in range(f["iter_in"])
            for op in micro
        ]  # type: ignore[misc]

    def _element(self, kind: int, place: int) -> Array:
        if place >= len(self.held[kind]):
            raise Crash(f"element {place} of memory {kind}")
        element: Array = self.held[kind][place]
        return element

    def _gemm(self, f: Fields, d: int, s: int, t: int) -> None:
        acc = self._element(ACC, d)
        if f["reset"]:
            acc[:] = 0
            return
        inp, wgt = self._element(INP, s).astype(np.int32), self._element(WGT, t).astype(np.int32)
        acc += inp @ wgt.T

    def _alu(self, f: Fields, d: int, s: int) -> None:
        acc = self._element(ACC, d)
        imm = f["imm"] - (1 << 16) if f["imm"] >> 15 else f["imm"]
        other = np.int32(imm) if f["use_imm"] else self._element(ACC, s)
        match f["alu"]:
            case 0:
                acc[:] = np.minimum(acc, other)
            case 1:
                acc[:] = np.maximum(acc, other)
            case 2:
                acc[:] = acc + other
            case 3:
                left, right = acc << np.maximum(-other, 0), acc >> np.maximum(other, 0)
                acc[:] = np.where(other >= 0, right, left)
            case code:
                raise Crash(f"ALU operation {code}")
