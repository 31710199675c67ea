"""The table of ``weft targets``, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from weft.targets import Listed


def target_data(row: Listed) -> dict[str, object]:
    """One row as JSON data: sizes in bytes, rates in Hz, bytes per cycle or second, seconds."""
    target, machine = row.target, row.target.machine
    return {
        "name": target.name,
        "host": target.name.startswith("host"),
        "runs_here": not row.lacking,
        "lacking": list(row.lacking),
        "triple": target.llvm.triple,
        "cpu": target.llvm.cpu,
        "vector_bytes": machine.vector_bytes,
        "vector_registers": machine.vector_registers,
        "cores": target.cores,
        "caches": [
            {
                "bytes": c.size,
                "line": c.line,
                "bytes_per_cycle": c.bandwidth,
                "cores": c.cores,
                "foresees": c.foresees,
            }
            for c in machine.caches
        ],
        "frequency": machine.frequency,
        "fma_per_cycle": machine.fma_per_cycle,
        "fma_latency": machine.fma_latency,
        "loads_per_cycle": machine.loads_per_cycle,
        "memory_bandwidth": machine.memory_bandwidth,
        "barrier": machine.barrier,
        "features": list(machine.features),
        "instructions": _instructions(row),
    }


def targets_text(rows: Sequence[Listed]) -> str:
    """A table, and below it what was measured here."""
    table = [("target", "processor", "vectors", "caches", "instructions", "runs here")]
    table += [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table]
    measured = [_rates(row) for row in rows if row.target.name == "host-calibrated"]
    lines += ["", *(f"measured: {rates}" for rates in measured)]
    return "\n".join([*lines, "Any other processor that LLVM knows by name is a target too."])


def _cells(row: Listed) -> tuple[str, str, str, str, str, str]:
    target, machine = row.target, row.target.machine
    return (
        target.name,
        target.llvm.cpu,
        f"{machine.vector_registers} x {8 * machine.vector_bytes} bits",
        " ".join(_size(cache.size) for cache in machine.caches),
        " ".join(_instructions(row)) or "-",
        "no" if row.lacking else "yes",
    )


def _instructions(row: Listed) -> list[str]:
    """What it has beyond multiplications and additions."""
    fused = ["fma"] if row.target.llvm.fma else []
    return [*fused, *dict.fromkeys(x.name for x in row.target.machine.extensions)]


def _rates(row: Listed) -> str:
    machine = row.target.machine
    lanes = machine.vector_bytes // 4
    peak = 2 * lanes * machine.fma_per_cycle * machine.frequency
    caches = ", ".join(f"{cache.bandwidth:g}" for cache in machine.caches)
    return (
        f"{machine.frequency / 1e9:g} GHz, {machine.fma_per_cycle} multiply-adds a cycle after"
        f" {machine.fma_latency} ({peak / 1e9:.0f} GFLOP/s in float32), {caches} bytes a cycle out"
        f" of the caches, {machine.memory_bandwidth / 1e9:g} GB/s out of memory,"
        f" {machine.barrier * 1e6:g} µs a barrier"
    )


def _size(size: int) -> str:
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"
