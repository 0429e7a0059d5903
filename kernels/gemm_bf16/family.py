"""What callers of gemm-bf16 see."""

from __future__ import annotations

from asmgen.author.contract import ContractArgument, Parameter, Rule, Values
from asmgen.author.family import Family, GridRule, Variant
from asmgen.author.problem import Problem

# Row offsets inside a half of a tile are 32 bits: 128 rows of 2 * (2^24 - 1) bytes stay below 2^32.
_MAX_STRIDE = (1 << 24) - 1
_MAX_EDGE = (1 << 31) - 1
_MOST_TILES = 1 << 20


def _dimension(name: str, doc: str, step: int = 1) -> Parameter:
    return Parameter(name, "run", int, doc, minimum=step, maximum=_MAX_EDGE if step == 1 else _MAX_STRIDE // step * step, multiple_of=step)


def _stride(name: str, row: str, doc: str, step: int) -> Parameter:
    return Parameter(name, "run", int, doc, minimum=1, maximum=_MAX_STRIDE // step * step, multiple_of=step, default_from=row)


def _parameters(variant: Variant) -> tuple[Parameter, ...]:
    return (
        *_BUILD,
        _dimension("m", "rows of A and D"),
        _dimension("n", "rows of B, columns of D"),
        _dimension("k", "columns of A and B", variant.tile[2]),
        _stride("lda", "k", "elements from one row of A to the next; 16-byte loads want a multiple of 8", 8),
        _stride("ldb", "k", "elements from one row of B to the next; 16-byte loads want a multiple of 8", 8),
        _stride("ldd", "n", "elements from one row of D to the next", 1),
        _stride("ldc", "n", "elements from one row of C to the next", 1),
        Parameter("alpha", "run", float, "factor of A x B^T", default=1.0),
        Parameter("beta", "run", float, "factor of C, which is not read where this is 0", default=0.0),
    )


def _problem(values: Values, seed: int) -> Problem:
    """Random normal data; numpy is loaded only here."""
    from asmgen.kernels.gemm_bf16.problem import make_problem

    return make_problem(values, seed)


_BUILD = (
    Parameter("preload", "build", bool, "let the hardware load the kernel arguments before the first instruction", default=False),
    Parameter("dtype", "build", str, "type of A and B", default="bf16", choices=("bf16", "f16")),
    Parameter("out", "build", str, "type of D, C and bias, rounded to nearest", default="bf16", choices=("bf16", "f16", "f32")),
    Parameter("bias", "build", str, "row: a vector that is added to every row of D", default="none", choices=("none", "row")),
    Parameter("window", "build", int, "rows of tiles in which workgroups go down each column first; 0: row after row", default=0,
              minimum=0, maximum=_MOST_TILES),
    Parameter("chunk", "build", int, "neighbouring workgroups that one XCD gets at a time; 0: as the hardware deals them", default=0,
              minimum=0, maximum=_MOST_TILES),
)

_ARGUMENTS = (
    ContractArgument("a", "pointer", "A, 16-byte aligned"),
    ContractArgument("b", "pointer", "B, 16-byte aligned"),
    ContractArgument("d", "pointer", "D, 2-byte aligned"),
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
)

GEMM = Family(
    name="gemm-bf16",
    title="D[M,N] = A[M,K] x B[N,K]^T, bf16 in and out, float32 accumulation",
    parameters=_parameters,
    arguments=_ARGUMENTS,
    grid=GridRule("one workgroup for each {v.tile[0]} x {v.tile[1]} tile of D: x over N, y over M",
                  lambda p, variant: (-(-p["n"] // variant.tile[1]), -(-p["m"] // variant.tile[0]), 1)),
    problem=_problem,
    axes="xy",
    rules=(
        Rule("lda must be at least k", ("lda", "k"), lambda p: p["lda"] >= p["k"]),
        Rule("ldb must be at least k", ("ldb", "k"), lambda p: p["ldb"] >= p["k"]),
        Rule("ldd must be at least n", ("ldd", "n"), lambda p: p["ldd"] >= p["n"]),
        Rule("ldc must be at least n", ("ldc", "n"), lambda p: p["ldc"] >= p["n"]),
    ),
    example={"m": 512, "n": 384, "k": 256},
)
