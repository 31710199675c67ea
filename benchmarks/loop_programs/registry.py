"""All loop programs, by name."""

from __future__ import annotations

from weft.benchmarks.loop_programs.dynamic import DYNAMIC
from weft.benchmarks.loop_programs.factorisations import FACTORISATIONS
from weft.benchmarks.loop_programs.filters import FILTERS
from weft.benchmarks.loop_programs.layers import LAYERS
from weft.benchmarks.loop_programs.mixtures import MIXTURES
from weft.benchmarks.loop_programs.program import Program
from weft.benchmarks.loop_programs.stencils import STENCILS
from weft.benchmarks.loop_programs.tensors import TENSORS

PROGRAMS: dict[str, Program] = {
    **FACTORISATIONS,
    **DYNAMIC,
    **STENCILS,
    **FILTERS,
    **TENSORS,
    **LAYERS,
    **MIXTURES,
}
