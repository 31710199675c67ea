"""The header, word for word."""

from __future__ import annotations

from weft.codegen.c_header import c_header
from weft.codegen.c_interface import Field, Interface, Result
from weft.ir.dtypes import bfloat16, bool_, float32, int64
from weft.ir.scalar_expr import Var, literal

m, n = Var("m"), Var("n?")


def _interface(**more) -> Interface:
    given = {
        "name": "net", "title": "my */ net", "entry": "e", "inputs": (), "outputs": (), "sizes": (),
        "arguments": (), "results": (), "parameters": (),
    }  # fmt: skip
    return Interface(**{**given, **more})


DECLARED = """\
#ifndef WEFT_net_H
#define WEFT_net_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const float *x; /* x: float32[m, n_2] */
    uint16_t scale; /* scale: bfloat16 */
    uint8_t *seen; /* seen?: bool[4], aligned to 32 bytes, 0 or 1 */
} net_inputs;

typedef struct {
    float *y; /* y: float32[m * n_2] */
} net_outputs;

typedef struct {
    int64_t m; /* m: int64 */
    int64_t n_2; /* n?: int64 */
} net_sizes;

/* Bytes of the workspace of one call on up to so many threads; 0 where it would be
   refused. */
size_t net_workspace_bytes(const net_sizes *sizes, int threads);

/* 0, or a status that the next function explains. */
int net_run(const net_inputs *inputs, const net_outputs *outputs, const net_sizes *sizes,
            int threads, void *workspace);

/* What a status means, in words that live as long as the program. */
const char *net_message(int status);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_net_H */
"""


def test_everything_that_it_can_declare() -> None:
    interface = _interface(
        inputs=(
            Field("x", "x", float32, (m, n)),
            Field("scale", "scale", bfloat16, by_value=True),
            Field("seen", "seen\n", bool_, (literal(4),), alignment=32, written=True),
        ),
        outputs=(Field("y", "y", float32, (Var("mn"),), written=True),),
        sizes=(Field("m", "m", int64, by_value=True), Field("n_2", "n?", int64, by_value=True)),
        results=(Result(0),),
        parameters=("m", "n?", "mn"),
        derived=(("mn", m * n),),
    )
    text = c_header(interface)
    introduction, declared = text.split("#ifndef", 1)
    assert "#ifndef" + declared == DECLARED
    assert introduction.startswith("/* my * / net, compiled by Weft.")
    assert "net_workspace_bytes(&sizes, threads);" in introduction
    assert "net_run(&inputs, &outputs, &sizes, threads, workspace);" in introduction


def test_what_is_not_there_is_no_parameter() -> None:
    text = c_header(_interface())
    assert "typedef" not in text
    assert "int net_run(int threads, void *workspace);" in text
    assert "size_t net_workspace_bytes(int threads);" in text
