"""LLVM's tables of processors other than the host: their names and features.

LLVM's library exports neither. Names are read from its help text, printed by a process of its own.
A processor has a feature if LLVM inlines a function that requires the feature into one compiled for
the processor.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from weft.codegen.architectures import Architecture
from weft.codegen.llvm.library import binding as llvm
from weft.codegen.llvm.target import optimise

_HELP = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu="help")
"""
_TIMEOUT = 60.0  # seconds: starting Python takes a fraction of one


@cache
def cpu_names(architecture: Architecture) -> tuple[str, ...]:
    """LLVM's names of the family's processors, 32-bit ones included; () if LLVM does not list them.

    "generic" is left out: it stands for a different processor in each family.
    """
    command = [sys.executable, "-c", _HELP, architecture.triple]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    listed = done.stderr.partition("Available features")[0]
    words = (line.split(" - ")[0].strip() for line in listed.splitlines() if " - " in line)
    return tuple(word for word in words if word != "generic")


@cache
def cpu_features(architecture: Architecture, cpu: str, more: str = "") -> frozenset[str]:
    """The family's features that the processor ``cpu`` has.

    ``more``: additional features, as LLVM writes them ("+dotprod"). Empty for a processor that
    lacks the family's common features: a 32-bit one.
    """
    plain = (architecture.always, architecture.cleared)
    lines = [_attributes(0, cpu, architecture.always, more)]
    for k, feature in enumerate(architecture.features):
        lines += [
            f"define i32 @has{k}(i32 %x) #{k + 1} {{",
            f"  %y = xor i32 %x, {k + 1}",
            "  ret i32 %y",
            "}",
            f"define i32 @ask{k}(i32 %x) #0 {{",
            f"  %y = call i32 @has{k}(i32 %x)",
            "  ret i32 %y",
            "}",
            _attributes(k + 1, architecture.base, *plain, f"+{feature}"),
        ]
    machine = llvm.Target.from_triple(architecture.triple).create_target_machine(
        cpu=architecture.base, features=architecture.always
    )
    module = llvm.parse_assembly("\n".join(lines))
    module.triple = architecture.triple
    optimise(module, machine)
    text = str(module)
    found = (f for k, f in enumerate(architecture.features) if f"call i32 @has{k}(" not in text)
    features = frozenset(found)
    return features if architecture.needs in features else frozenset()


def _attributes(number: int, cpu: str, *features: str) -> str:
    told = ",".join(filter(None, features))
    return f'attributes #{number} = {{ "target-cpu"="{cpu}" "target-features"="{told}" }}'
