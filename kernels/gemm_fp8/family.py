"""What callers of gemm-fp8 see."""

from __future__ import annotations

from asmgen.author.contract import ContractArgument, Parameter, Rule, Values
from asmgen.author.family import Family, GridRule, Variant
from asmgen.author.problem import Problem

ELEMENTS = {"e4m3": "fp8", "e5m2": "bf8"}
"""Types of A and B by parameter, as matrix instructions call them."""

_ENCODINGS = {"gfx950": "ocp", "gfx942": "fnuz"}

# Row offsets inside a half of a tile are 32 bits: 128 rows of 2^24 - 16 bytes, or of 4 * (2^24 - 1), stay below 2^32.
_MAX_STRIDE = (1 << 24) - 1
_MAX_EDGE = (1 << 31) - 1
_MOST_TILES = 1 << 20
_LINE = 16  # bytes that a lane loads


def _stride(name: str, row: str, doc: str, step: int = 1) -> Parameter:
    return Parameter(name, "run", int, doc, minimum=1, maximum=_MAX_STRIDE // step * step, multiple_of=step, default_from=row)


def _parameters(variant: Variant) -> tuple[Parameter, ...]:
    depth = variant.tile[2]
    formats, encoding = tuple(ELEMENTS), _ENCODINGS[variant.arch]
    return (
        Parameter("preload", "build", bool, "let the hardware load the kernel arguments before the first instruction", default=False),
        Parameter("a_dtype", "build", str, "type of A", default="e4m3", choices=formats),
        Parameter("b_dtype", "build", str, "type of B", default="e4m3", choices=formats),
        Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides", default=encoding,
                  choices=(encoding,)),
        Parameter("scales", "build", str, "what a scale belongs to: tensor: all of A, all of B; row: a row of A, a row of B",
                  default="tensor", choices=("tensor", "row")),
        Parameter("out", "build", str, "type of D, C and bias, rounded to nearest", default="bf16", choices=("bf16", "f16", "f32")),
        Parameter("bias", "build", str, "row: a vector that is added to every row of D", default="none", choices=("none", "row")),
        Parameter("window", "build", int, "rows of tiles in which workgroups go down each column first; 0: row after row", default=0,
                  minimum=0, maximum=_MOST_TILES),
        Parameter("chunk", "build", int, "neighbouring workgroups that one XCD gets at a time; 0: as the hardware deals them", default=0,
                  minimum=0, maximum=_MOST_TILES),
        Parameter("m", "run", int, "rows of A and D", minimum=1, maximum=_MAX_EDGE),
        Parameter("n", "run", int, "rows of B, columns of D", minimum=1, maximum=_MAX_EDGE),
        Parameter("k", "run", int, "columns of A and B", minimum=depth, maximum=_MAX_STRIDE // depth * depth, multiple_of=depth),
        _stride("lda", "k", "elements from one row of A to the next; 16-byte loads want a multiple of 16", _LINE),
        _stride("ldb", "k", "elements from one row of B to the next; 16-byte loads want a multiple of 16", _LINE),
        _stride("ldc", "n", "elements from one row of C to the next"),
        _stride("ldd", "n", "elements from one row of D to the next"),
        Parameter("alpha", "run", float, "factor of A x B^T", default=1.0),
        Parameter("beta", "run", float, "factor of C, which is not read where this is 0", default=0.0),
    )


def _problem(values: Values, seed: int) -> Problem:
    """Random normal data; numpy is loaded only here."""
    from asmgen.kernels.gemm_fp8.problem import make_problem

    return make_problem(values, seed)


GEMM = Family(
    name="gemm-fp8",
    title="D[M,N] = alpha a_scale b_scale A[M,K] x B[N,K]^T + beta C + bias, A and B of 8-bit floats, float32 accumulation",
    parameters=_parameters,
    arguments=(
        ContractArgument("a", "pointer", "A, 16-byte aligned"),
        ContractArgument("b", "pointer", "B, 16-byte aligned"),
        ContractArgument("d", "pointer", "D, aligned to its elements"),
        ContractArgument("m", "u32", "rows of A and D"),
        ContractArgument("n", "u32", "rows of B, columns of D"),
        ContractArgument("k", "u32", "columns of A and B"),
        ContractArgument("lda", "u32", "row stride of A in elements"),
        ContractArgument("ldb", "u32", "row stride of B in elements"),
        ContractArgument("ldd", "u32", "row stride of D in elements"),
        ContractArgument("alpha", "f32", "factor of A x B^T"),
        ContractArgument("beta", "f32", "factor of C"),
        ContractArgument("ldc", "u32", "row stride of C in elements"),
        ContractArgument("c", "pointer", "C, not read where beta is 0"),
        ContractArgument("bias", "pointer", "n elements, not read in a build without bias"),
        ContractArgument("a_scale", "pointer", "f32: one for scales=tensor, m for row"),
        ContractArgument("b_scale", "pointer", "f32: one for scales=tensor, n for row"),
    ),
    grid=GridRule("one workgroup for each {v.tile[0]} x {v.tile[1]} tile of D: x over N, y over M",
                  lambda p, variant: (-(-p["n"] // variant.tile[1]), -(-p["m"] // variant.tile[0]), 1)),
    problem=_problem,
    axes="xy",
    rules=(
        Rule("lda must be at least k", ("lda", "k"), lambda p: p["lda"] >= p["k"]),
        Rule("ldb must be at least k", ("ldb", "k"), lambda p: p["ldb"] >= p["k"]),
        Rule("ldc must be at least n", ("ldc", "n"), lambda p: p["ldc"] >= p["n"]),
        Rule("ldd must be at least n", ("ldd", "n"), lambda p: p["ldd"] >= p["n"]),
    ),
    example={"m": 512, "n": 384, "k": 256},
)
