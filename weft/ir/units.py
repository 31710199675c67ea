"""Numbers with units for people: three digits, and the prefix that fits."""

from __future__ import annotations


def time_text(seconds: float) -> str:
    """``1.9 ms``"""
    return _scaled(seconds, "s", _TIMES)


def bytes_text(count: float) -> str:
    """``1.9 MiB``"""
    return _scaled(count, "B", _BYTES)


_TIMES = (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9))
_BYTES = (("Gi", float(1 << 30)), ("Mi", float(1 << 20)), ("Ki", 1024.0), ("", 1.0))


def _scaled(value: float, unit: str, scales: tuple[tuple[str, float], ...]) -> str:
    prefix, scale = next((each for each in scales if value >= each[1]), scales[-1])
    return f"{value / scale:.3g} {prefix}{unit}"
