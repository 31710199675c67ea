"""Weft: a polyhedral compiler for tensor operators, models and loop nests.

    weft.compile(x)   tensors, a Program or an ONNX model -> something callable
    weft.lower(x)     the same, as text after any stage
    weft.schedule(x)  in which order x runs, as a value to change, print and compile
    weft.quantize(x, inputs)   the same in 8-bit integers, to compile
    weft.place(x, inputs)      parts of it by whoever runs them fastest, measured
    weft.load(path)   what ``Executable.save`` wrote

What each name is stands in the module that defines it (``_HOMES``); ``__init__.pyi`` says the same
to type checkers. Names load their module when they are first used (PEP 562), so that
``import weft`` costs next to nothing.
"""

from importlib import import_module

from weft.ir.interrupts import uninterrupted as _uninterrupted

__version__ = "0.1.0.dev0"

_HOMES = {
    "weft.api": ("Stages", "compile", "lower", "program", "quantize", "schedule", "schedules"),
    "weft.driver.schedule_value": ("Schedule",),
    "weft.doors": (
        "graph_pass", "move", "onnx_handler", "operator", "provider", "register", "seed",
        "torch_handler",
    ),
    "weft.frontend.onnx.context": ("NodeContext",),
    "weft.codegen.architectures": ("AARCH64", "X86_64"),
    "weft.codegen.target": ("Cpu",),
    "weft.ir.machine": ("Cache",),
    "weft.ir.plan": ("Plan",),
    "weft.graph_edit": ("GraphEdit",),
    "weft.ir.operator_graph": ("Graph", "Node", "Value"),
    "weft.instructions": ("Mappings", "instruction", "map_instruction"),
    "weft.host.model": ("Model",),
    "weft.host.torch_model": ("TorchModel",),
    "weft.offload.quantization": ("Quantized",),
    "weft.loop_kernel": ("Kernel", "kernel"),
    "weft.runtime.executable": ("Executable", "load"),
    "weft.tuner.tune": ("Tuned", "tune"),
    "weft.driver.options": ("Options",),
    "weft.driver.providers": ("Runner", "Subgraph"),
    "weft.tuner.place": ("place",),
    "weft.tuner.placed": ("Placed",),
    "weft.ir.tensor_expr": ("Axis", "Monoid", "Program", "Tensor"),
    "weft.ir.scalar_expr": ("Expr", "Var", "literal", "select"),
    "weft.ir.build": (
        "acos", "acosh", "all_of", "all_over", "any_over", "argmax", "argmin", "asin", "asinh",
        "atan", "atanh", "ceil", "compute", "computes", "cos", "cosh", "erf", "exp", "expm1",
        "floor", "isinf", "isnan", "log", "log1p", "max_over", "max_with_index", "maximum",
        "min_over", "minimum", "placeholder", "power", "prod", "reduce", "reduce_axis", "reshape",
        "round_even", "scan", "scatter", "sign", "sin", "sinh", "sqrt", "sum", "tan", "tanh",
        "trunc", "var",
    ),
    "weft.ir.dtypes": (
        "DType", "bfloat16", "bool_", "float16", "float32", "float64", "float4_e2m1fn",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16",
        "uint32", "uint64", "bf16", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16",
        "u32", "u64",
    ),
    "weft.ir.instruction": ("Assembly", "Instruction", "Intrinsic", "Pattern"),
    "weft.frontend.loops.functions": ("empty", "ones", "statement", "zeros"),
    "weft.ir.errors": (
        "ArtifactError", "BudgetError", "CallError", "CompileError", "ExecutionError",
        "ExpressionError", "IllegalScheduleError", "InternalError", "KernelError", "ModelError",
        "PlanError", "ProviderError", "StreamError", "UnsupportedError", "WeftError",
        "WeftWarning",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    with _uninterrupted():
        value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
