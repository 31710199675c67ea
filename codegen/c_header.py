"""A program's C interface → its header: declarations, and on the same page how to use them."""

from __future__ import annotations

from weft.codegen.c_interface import Field, Interface
from weft.ir.scalar_expr import Expr, Var, substitute
from weft.ir.size_arithmetic import text

COLUMNS = 90
_SHOWN = 120  # characters of a user's text in a comment

_INTRODUCTION = """\
/* $TITLE, compiled by Weft. It needs libc and nothing else.

     size_t bytes = $NAME_workspace_bytes($SIZESthreads);
     void *workspace = aligned_alloc(64, bytes);
     int status = $NAME_run($GIVENthreads, workspace);
     if (status != 0) puts($NAME_message(status));

   Arrays are C-contiguous, last dimension fastest, and aligned to their elements or as said
   below; one without elements may be NULL. What is written overlaps nothing else. In shapes,
   // and % round towards minus infinity.

   A status less than 0 says that the call is wrong; nothing was written. One greater than 0
   says that data broke a rule of the program, an index out of range say: what was written is
   undefined, and the numbers {0} and {1} of the message are the first two int64_t of the
   workspace.

   A workspace is aligned to 64 bytes. It needs no initialisation and may be used again, also
   for calls of fewer threads. Calls may run at the same time, each with its own workspace.
   A call takes up to `threads` threads, its own included, and starts them when it is first
   made; while another call has them it runs on its own. Do not unload the code after that. */
"""


def c_header(interface: Interface) -> str:
    """The text of the header: C99 and C++."""
    name = interface.name
    guard = f"WEFT_{name}_H"
    structs = [
        *_struct(interface, "inputs", interface.inputs),
        *_struct(interface, "outputs", interface.outputs),
        *_struct(interface, "sizes", interface.sizes),
    ]
    arrays = _parameters(interface, ("inputs", "outputs", "sizes"))
    sizes = _parameters(interface, ("sizes",))
    lines = [
        _introduction(interface),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *structs,
        "/* Bytes of the workspace of one call on up to so many threads; 0 where it would be",
        "   refused. */",
        f"size_t {name}_workspace_bytes({sizes}int threads);",
        "",
        "/* 0, or a status that the next function explains. */",
        *_wrapped(f"int {name}_run(", f"{arrays}int threads, void *workspace);"),
        "",
        "/* What a status means, in words that live as long as the program. */",
        f"const char *{name}_message(int status);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {guard} */",
    ]
    return "\n".join(lines) + "\n"


def _introduction(interface: Interface) -> str:
    sizes = "&sizes, " if interface.sizes else ""
    given = "".join(f"&{group}, " for group in _groups(interface))
    values = {"NAME": interface.name, "SIZES": sizes, "GIVEN": given}
    shown = _INTRODUCTION
    for key, value in values.items():
        shown = shown.replace(f"${key}", value)
    return shown.replace("$TITLE", _comment(interface.title))


def _wrapped(start: str, parameters: str) -> list[str]:
    """A declaration of at most ``COLUMNS`` columns, if its names allow that."""
    lines = [start]
    for each in parameters.split(", "):
        gap = "" if lines[-1] == start else ", "
        if gap and len(lines[-1] + gap + each) > COLUMNS:
            lines[-1] += ","
            lines.append(" " * len(start) + each)
        else:
            lines[-1] += gap + each
    return lines


def _groups(interface: Interface) -> list[str]:
    """The structs there are."""
    groups = {
        "inputs": interface.inputs, "outputs": interface.outputs, "sizes": interface.sizes
    }  # fmt: skip
    return [group for group, fields in groups.items() if fields]


def _parameters(interface: Interface, groups: tuple[str, ...]) -> str:
    there = [group for group in _groups(interface) if group in groups]
    return "".join(f"const {interface.name}_{group} *{group}, " for group in there)


def _struct(interface: Interface, group: str, fields: tuple[Field, ...]) -> list[str]:
    if not fields:
        return []
    symbols = {size.label: Var(size.name) for size in interface.sizes}
    known: dict[str, Expr] = dict(symbols)
    for name, equation in interface.derived:
        known.setdefault(name, substitute(equation, known))
    lines = [f"    {_declaration(f)}; /* {_description(f, known)} */" for f in fields]
    return ["typedef struct {", *lines, f"}} {interface.name}_{group};", ""]


def _declaration(field: Field) -> str:
    if field.by_value:
        return f"{_c_type(field)} {field.name}"
    const = "" if field.written else "const "
    return f"{const}{_c_type(field)} *{field.name}"


def _description(field: Field, known: dict[str, Expr]) -> str:
    """Name, dtype and shape as the program has them."""
    shape = ", ".join(text(substitute(size, known)) for size in field.shape)
    words = [f"{_comment(field.label)}: {field.dtype}"]
    words[0] += "" if field.by_value else f"[{shape}]"
    if field.alignment > field.dtype.itemsize:
        words.append(f"aligned to {field.alignment} bytes")
    if field.dtype.kind == "bool":
        words.append("0 or 1")
    return ", ".join(words)


def _c_type(field: Field) -> str:
    """Of one element; types that C lacks are unsigned integers of their bits."""
    dtype = field.dtype
    if dtype.is_float and dtype.bits >= 32:
        return "float" if dtype.bits == 32 else "double"
    sign = "" if dtype.kind == "int" else "u"
    return f"{sign}int{dtype.storage_bits}_t"


def _comment(words: str) -> str:
    """``words`` in a comment: on one line, in ASCII, and without an end to the comment."""
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in words[:_SHOWN])
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("\\", "?")
