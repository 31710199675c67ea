"""No fact about hardware outside the records of ``weft/ir/machine.py`` and ``codegen/machines/``.

Off the syntax trees: every number (but 0, 1 and -1) at the top of a module of the rooms that
transform, and every such default of a class's field, is on the list below, by name, as one of

    effort    a bound on what the compiler itself looks at, writes out or waits for
    format    of numbers, files, instructions, calls or texts
    ratio     a share or multiple of what a record says, or of what a policy compares

A fact about hardware (bytes, cycles, seconds, how many of a thing a processor has) is none of
these. Inside functions, numbers that look like one are refused whatever they are for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("polyhedral", "graph", "codegen")
RECORDS = "codegen/machines/"
CLASSES = ("effort", "format", "ratio")

ALLOWED = """
codegen/amx_permission.py format: ARCH_PRCTL REQUEST TILES
codegen/architectures.py format: X86_64 AARCH64
codegen/block_transposes.py ratio: _LINES; effort: _NARROW _SHORT _NODES
codegen/c_expressions.py format: ATOM CHOICE UNARY _INFIX _LOGICAL _LONGEST _TIGHT
codegen/c_header.py format: COLUMNS _SHOWN
codegen/c_interface.py format: LONGEST
codegen/c_printer.py format: _STACK _WIDTH
codegen/calibrate.py effort: ROUNDS SECONDS ASLEEP LEAST MOST; ratio: MARGIN
codegen/calibration_ir.py effort: CHAINED _UNROLL
codegen/collapse_parallel.py effort: ENOUGH
codegen/collapse_rows.py effort: LEAST_ELEMENTS; ratio: _WASTE
codegen/cuda/bank_conflicts.py effort: _SHOWN
codegen/cuda/print_cuda.py format: ALIGNED _WIDTH
codegen/cuda/small_floats.py format: _LAYOUTS
codegen/cuda/twin.py effort: SECONDS
codegen/cut_points.py effort: SHORT
codegen/fit_polynomials.py effort: DIGITS; format: _LN2 FITS
codegen/hoist_checks.py effort: STATEMENTS
codegen/instruction_trial.py effort: ROUNDS
codegen/isl_ast.py effort: _BUDGET
codegen/kernel_work.py effort: UNKNOWN WALKS _NEXT
codegen/llvm/cpus.py effort: _TIMEOUT
codegen/llvm/division.py format: _PRECISION _EXPONENT
codegen/llvm/float_mode.py format: STANDARD FLUSHING
codegen/llvm/interface.py format: MAX_THREADS MAX_SIZE
codegen/llvm/memory.py effort: _SHUFFLED_STRIDES
codegen/llvm/overlapping_loads.py effort: _KEPT
codegen/llvm/processor.py format: _BASIC _MORE _MORE_1 _EXTENDED _A _B _C _D _BASIC_C _HAS_XGETBV
    _X86_64 _SAVED _AARCH64
codegen/llvm/region.py ratio: PIECES
codegen/llvm/runtime.py format: MAX_WORKERS _FUTEX; ratio: MISSED
codegen/llvm/small_floats.py format: FORMATS
codegen/llvm/statements.py effort: _WRITTEN_OUT _UNROLLED _SHORT
codegen/llvm/store.py effort: _MOST _ELEMENTS
codegen/llvm/teams.py ratio: LEAST_GAIN; effort: MANY
codegen/llvm/tiles.py format: _ABSENT _LAYOUT
codegen/llvm/transpose.py effort: _WIDEST
codegen/llvm/vector.py format: _WORD;
    effort: _WRITTEN_OUT _SOME _ACCUMULATORS _LONG _FEW _SMALL_BODY INTERLEAVE
codegen/math_coefficients.py format: FLOAT DOUBLE
codegen/math_exponential.py format: _LARGEST _LEAST _REGISTER
codegen/math_functions.py format: BOUNDS
codegen/math_logarithm.py format: _LIMIT
codegen/math_trigonometry.py format: _BOUND
codegen/math_values.py format: MANTISSA BIAS
codegen/multi_stream_loads.py ratio: AHEAD VISIT _HELD _PART; effort: _TRIED
codegen/objects/elf_file.py format: X86_64 PROGRAM_DATA SYMBOL_TABLE STRINGS RELOCATIONS ZEROS
    GROUP UNWIND WRITE ALLOCATE EXECUTE MERGE TEXTS INFO_LINK THREAD_LOCAL SPECIAL ABSOLUTE COMMON
    LOCAL GLOBAL WEAK OBJECT SECTION_ITSELF FILE_NAME UNDEFINED RELOCATABLE
codegen/objects/elf_linker.py format: LIMIT _ENTRY _OPCODE _OPCODE_BYTES _Kind.RELATIVE _Kind.CALL
    _Kind.WIDE_RELATIVE _Kind.ENTRY _Kind.ENTRY_IN_LOAD _Kind.ENTRY_IN_WIDE_LOAD
codegen/objects/merge_objects.py format: _ADDRSIG _FAR_AWAY _BLOBS _SECTIONS FAR Blob.alignment
codegen/peel_first.py effort: _SMALL
codegen/register_tile.py effort: _TAPS _FEW_TAPS _HELD
codegen/rows_side_by_side.py effort: _FEW _NODES; ratio: _HELD _MAIN
codegen/scalar_replacement.py effort: MAX_DISTANCE _MAX_SHIFT _WRITTEN_OUT _LANES
codegen/simplify.py effort: _WRITTEN_OUT
codegen/software_pipeline.py effort: ROWS PARTS LEAST SHORT STAGES; ratio: NEAR FAR LAGGING MANY
codegen/statement_cost.py ratio: OPERATION LANES ENTERED _COSTLY_WORK _APART; effort: SHORT
codegen/target.py format: KIB MIB
codegen/tile_edges.py effort: PARTS
codegen/tile_prefetch.py ratio: WIDE
codegen/tile_step.py effort: _TERMS
codegen/transpose_strips.py effort: WIDEST _STATEMENTS
codegen/transposed_blocks.py effort: VECTOR_BYTES
codegen/unroll_and_jam.py effort: TURNS _SHORT _NODES
codegen/unswitch.py effort: CONDITIONS
graph/access_pattern.py effort: ASSUMED
graph/correlation.py effort: MAX_NODES FEWEST_TAPS MOST_TAPS
graph/differences.py effort: MAX_NODES SMALL MAX_MAKERS; ratio: SHARE
graph/exact_rounding.py format: EXACT MOST_ROUNDED; effort: MAX_MAKERS
graph/exponentials.py effort: MAX_NODES MAX_PRODUCERS
graph/exponents.py format: LARGEST MOST; effort: FINER
graph/factors.py effort: MAX_NODES
graph/fixed_point.py format: ROOM MOST_SHIFTED
graph/fixed_reading.py format: PRECISE FEWEST
graph/fold_constants.py effort: _TRIANGLE FoldBudget.points FoldBudget.bytes
    FoldBudget.small_bytes FoldBudget.growth
graph/fusion_rules.py effort: Limits.statements Limits.contractions Limits.values
    Limits.parallelism Limits.search; ratio: Limits.rereads
graph/integer_sums.py format: INT32
graph/integral.py effort: COARSER
graph/known.py effort: SMALL; ratio: GROWTH
graph/layouts.py ratio: LEAST_GAIN; effort: PART ROWS VECTORS GAPS
graph/octagon.py effort: MOST
graph/online_costs.py effort: STEP
graph/ruled_out.py effort: MAX_NODES MAX_FORMS; ratio: WORTH
graph/simplify.py effort: _LONG
graph/whole_program.py effort: SEARCHED
graph/winograd.py effort: MAX_POINTS SMALL OPEN; ratio: MAX_AMPLIFICATION ALIKE ENOUGH
polyhedral/analysis/counting.py effort: LARGE _SPLITS
polyhedral/analysis/delta_box.py effort: DISTANCE
polyhedral/analysis/hyperplanes.py effort: TRIES
polyhedral/analysis/linear.py effort: TYPICAL_SIZE
polyhedral/analysis/tile_domain.py effort: WRITTEN_OUT
polyhedral/analysis/work.py effort: FUNCTION _COSTLY LEAST_ROWS
polyhedral/contributing.py ratio: FEWER
polyhedral/cost/compute.py effort: SUMS
polyhedral/cost/nest.py effort: SAMPLES ROWS
polyhedral/cost/traffic.py ratio: Memories.written
polyhedral/from_tensor_expr.py effort: _NOT_AFFINE
polyhedral/launches/idle_barriers.py effort: _BUDGET MOST
polyhedral/launches/launch_memory.py effort: _BUDGET _FILLED
polyhedral/lower_body.py effort: MAX_PIECES
polyhedral/lower_names.py format: _LONGEST
polyhedral/map_instruction.py effort: MAX_ASSIGNMENTS
polyhedral/policy/blocked.py effort: SHARED_OUT BESIDE; ratio: AGAIN
polyhedral/policy/cache_tiles.py ratio: SELDOM HIDDEN SUMS TOGETHER IN_PLACE AMPLE SHARE;
    effort: LEAST
polyhedral/policy/fuse.py effort: TOGETHER
polyhedral/policy/gpu.py ratio: GROUPS
polyhedral/policy/gpu_product.py effort: SIDES LINE STAGES OPEN; ratio: PART NARROW
polyhedral/policy/gpu_sweeps.py effort: WARPS STEP
polyhedral/policy/lanes.py effort: FEW SHUFFLED WHOLE
polyhedral/policy/large_arrays.py ratio: PART HELD NEAR COUNTS
polyhedral/policy/loop_orders.py ratio: OPERANDS SUMS LANES WHOLE DEEP BUSY LONG FIRST PARTS PAGES
    STAYS MADE GONE HELD; effort: LEAST FEWEST
polyhedral/policy/matrix.py ratio: FEW; effort: MANY PANEL
polyhedral/policy/operand_panels.py ratio: WRITTEN TRANSFERS
polyhedral/policy/operand_transposition.py ratio: WORTH; effort: MOST
polyhedral/policy/planner.py effort: STEPS
polyhedral/policy/product.py effort: TAPS WINDOW
polyhedral/policy/product_costs.py effort: MAX_ROWS MAX_VECTORS CANDIDATES; ratio: WAYS_OF_LANES
polyhedral/policy/row_tiles.py ratio: UNEVEN SHARE STRIPS; effort: STRIP VECTORS
polyhedral/policy/serial.py ratio: NO_VECTOR SIDE_BY_SIDE; effort: COLUMNS LOOK_AHEAD
polyhedral/policy/share.py effort: LONG_STRIP ROW_STRIP WRITTEN_OUT; ratio: PAGES ENOUGH
polyhedral/policy/skewed_rows.py effort: ROWS MAX_SKEW REACH SHIFT; ratio: UNFOLLOWED
polyhedral/policy/stencil.py effort: TYPICAL_ELEMENTS MAX_SLOPE
polyhedral/policy/tile_ends.py effort: WRITTEN_OUT
polyhedral/policy/time_costs.py effort: TYPICAL_STEPS FEW_STEPS MAX_STEPS SMALLEST; ratio: MARGIN
    FRONT STEP_SHARE SHARE BAND_SHARE
polyhedral/policy/window_costs.py ratio: CUT
polyhedral/prepare.py effort: MAX_READS READERS CHEAP
polyhedral/proof/flow.py effort: DOUBLINGS CHAINS
polyhedral/proof/gpu.py effort: _BUDGET
polyhedral/proof/last_writes.py effort: CHECK
polyhedral/proof/memory_claims.py effort: FARTHEST
polyhedral/proof/register_tile.py effort: MAX_ELEMENTS
polyhedral/schedule_loops.py effort: TOGETHER PIECE STEPS
polyhedral/transform/local_tile.py format: _LOCALS
polyhedral/transform/panels.py format: _GAP _BEFORE
polyhedral/transform/space.py effort: UNROLLED BLOCKS AHEAD
polyhedral/transform/unroll.py effort: MOST
polyhedral/unread.py effort: OPERATIONS
"""

# Sizes of lines and pages, or one less, as masks and round-ups have them.
_SIZES = {63, 64, 127, 128, 2048, 4095, 4096}
_MEMORY = re.compile(r"line|page|itemsize|bytes|size|data|address|align", re.I)
_LEAST_FREQUENCY = 1e8
_MOST_TIME = 1e-5


def allowed() -> dict[str, dict[str, str]]:
    """file → name → class."""
    found: dict[str, dict[str, str]] = {}
    for line in ALLOWED.replace("\n    ", " ").strip().split("\n"):
        file, _, groups = line.partition(" ")
        assert file not in found, f"{file} is listed twice"
        found[file] = {
            name: kind
            for group in groups.split(";")
            for kind, names in [group.strip().split(":")]
            for name in names.split()
        }
    return found


def sources() -> dict[str, str]:
    """All files of the rooms but records."""
    files = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    names = {str(file.relative_to(ROOT)): file for file in files}
    return {name: file.read_text() for name, file in names.items() if not name.startswith(RECORDS)}


def _is_number(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and type(node.value) in (int, float)
        and node.value not in (0, 1)
    )


def has_number(value: ast.expr) -> bool:
    return any(_is_number(node) for node in ast.walk(value))


def constants(text: str) -> Iterator[str]:
    """Names of a module's numbers, and of fields of its classes that have numbers as defaults."""
    for statement in ast.parse(text).body:
        yield from _assigned(statement, "")
        if isinstance(statement, ast.ClassDef):
            for inside in statement.body:
                yield from _assigned(inside, f"{statement.name}.")


def _assigned(statement: ast.stmt, within: str) -> Iterator[str]:
    match statement:
        case ast.Assign(targets, value) if has_number(value):
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(ast.Name(name), _, ast.expr() as value) if has_number(value):
            names = [name]
        case _:
            names = []
    yield from (within + name for name in names)


def suspicious(text: str) -> Iterator[str]:
    """Numbers inside functions that look like a line, a page, a time or a frequency."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.Lambda):
            yield from map(ast.unparse, filter(_of_hardware, ast.walk(function)))


def _of_hardware(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(one, ast.LShift() | ast.RShift() | ast.Pow(), other):
            return False
        case ast.BinOp(one, operator, other):
            scales = isinstance(operator, ast.Mult | ast.Div)
            return _of_memory([one, other]) or (scales and any(map(_is_rate, (one, other))))
        case ast.Compare(one, _, others):
            return _of_memory([one, *others])
        case ast.Call(ast.Name("max" | "min"), given):
            return _of_memory(given)
        case ast.arguments(args=args, defaults=defaults):
            named = zip(args[len(args) - len(defaults) :], defaults, strict=True)
            own = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            pairs = [(a.arg, d) for a, d in (*named, *own) if d is not None]
            return any((_is_size(d) and _MEMORY.search(a)) or _is_rate(d) for a, d in pairs)
    return False


def _of_memory(operands: list[ast.expr]) -> bool:
    """Whether one operand is a size of lines or pages, and another speaks of memory."""
    others = [ast.unparse(node) for node in operands if not _is_size(node)]
    return len(others) < len(operands) and any(map(_MEMORY.search, others))


def _number(node: ast.expr) -> float:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    value = node.value if isinstance(node, ast.Constant) else 0
    return value if isinstance(value, int | float) else 0


def _is_size(node: ast.expr) -> bool:
    return _number(node) in _SIZES


def _is_rate(node: ast.expr) -> bool:
    """Whether ``node`` is a time of some microseconds, or a frequency."""
    value = _number(node)
    return isinstance(value, float) and (0 < value <= _MOST_TIME or value >= _LEAST_FREQUENCY)


def test_numbers_of_modules_are_no_facts_about_hardware() -> None:
    listed = allowed()
    found = {file: set(constants(text)) for file, text in sources().items()}
    unknown = {f: sorted(names - {*listed.get(f, {})}) for f, names in found.items()}
    assert not {f: names for f, names in unknown.items() if names}, (
        "a number of these files is on no record and not listed above"
    )


def test_the_list_has_nothing_that_is_gone() -> None:
    texts = sources()
    gone = {
        (file, name)
        for file, names in allowed().items()
        for name in names
        if name not in set(constants(texts.get(file, "")))
    }
    assert not gone
    assert {kind for names in allowed().values() for kind in names.values()} == set(CLASSES)


def test_functions_have_no_lines_pages_times_or_frequencies() -> None:
    found = {file: list(suspicious(text)) for file, text in sources().items()}
    assert not {file: numbers for file, numbers in found.items() if numbers}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("LINE = 64", ["LINE"]),
        ("NEAR, FAR = 200, 1024", ["NEAR", "FAR"]),
        ("CYCLES: dict[str, float] = {'div': 8.0}", ["CYCLES"]),
        ("MOST = -(1 << 20)", ["MOST"]),
        ("A = B = [3]", ["A", "B"]),
        ("class Cache:\n    line: int = 64\n    size: int", ["Cache.line"]),
        ("class Cache:\n    line = 64", ["Cache.line"]),
        ("NAME, TRUE = 'x', True", []),
        ("NONE, ONE, ALL = 0, 1.0, -1", []),
        ("def f(n):\n    WIDTH = 3", []),
    ],
)
def test_what_counts_as_a_number_of_a_module(text: str, names: list[str]) -> None:
    assert list(constants(text)) == names


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("64 // t.itemsize", True),
        ("max(1, 64 // dtype.itemsize)", True),
        ("(size + 63) // 64 * 64", True),
        ("x.ctypes.data % -64", True),
        ("stride_bytes >= 4096", True),
        ("max(4096, size)", True),
        ("cycles / 3.0e9", True),
        ("launches * 2e-6", True),
        ("(lambda line=64: line)()", True),
        ("(lambda *, wake=4e-5: wake)()", False),  # longer than anything that is refused
        ("(lambda *, barrier=1e-6: barrier)()", True),
        ("1 << 64", False),
        ("dtype.bits == 64", False),
        ("abs(x) > 1e-9", False),  # a tolerance
        ("2 * size", False),
    ],
)
def test_what_looks_like_hardware(expression: str, found: bool) -> None:
    assert bool(list(suspicious(f"def f(*given):\n    return {expression}"))) == found


def test_most_numbers_are_seen() -> None:
    """The rooms are where this file looks for them."""
    found = sources()
    assert len(found) > 200 and sum(len(list(constants(t))) for t in found.values()) > 200
    assert not any(file.startswith(RECORDS) for file in found)
    machines = [*(ROOT / RECORDS).glob("*.py")]
    assert len(machines) > 4
