"""Numbers with the prefix that fits."""

import pytest

from weft.ir.units import bytes_text, time_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"), (3.4e-11, "0.034 ns"), (1e-9, "1 ns"), (1.234e-6, "1.23 us"),
        (0.999e-3, "999 us"), (1e-3, "1 ms"), (0.25, "250 ms"), (1.0, "1 s"),
        (12345.0, "1.23e+04 s"),
    ],
)  # fmt: skip
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1.02e+03 B"), (1024, "1 KiB"), (3 << 19, "1.5 MiB"), (1 << 32, "4 GiB")],
)
def test_bytes(count: float, text: str) -> None:
    assert bytes_text(count) == text
