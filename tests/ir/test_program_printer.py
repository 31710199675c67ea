from tests.codegen.program_examples import chain
from weft.ir.program_printer import print_program

EXPECTED = """\
program chain(n)
arena (((n * 4) + 63) // 64) * 64 bytes
  x: float32[n] at input 0
  y: float32[n] at output 0
  bias: float32[n] at constant 'b'
  t: float32[n] at arena + 0
steps
  0: launch add(x, bias, t)
  1: launch double(t, y)
kernels
  kernel add(const a: float32[n], const b: float32[n], c: float32[n]; n)
  kernel double(const a: float32[n], b: float32[n]; n)
"""


def test_whole_text() -> None:
    assert print_program(chain()) == EXPECTED


def test_kernels_in_full_by_the_given_printer() -> None:
    shown = print_program(chain(), lambda kernel: f"{kernel.name}:\n\n  body")
    assert shown.endswith("kernels\n  add:\n\n    body\n  double:\n\n    body\n")
