"""Batches of products: matrices of one shape, a stride apart in memory, each in workgroups of its own.

The third number of a workgroup counts matrices; where K is split, each matrix has its parts side by side. A workgroup moves the pointers to
its matrices before it uses them. Strides are 64 bits, so a batch may be of any size; those of A, B and C may be 0: one matrix for all.

A build with `pointers` takes matrices that lie anywhere: a_pointers and so on are arrays of 64-bit numbers, one for each matrix, which are
added to a. So they are addresses where a is null, and bytes from a on where it is not. c_pointers is not read where beta is 0. Each matrix
of A and of B is 16-byte aligned, as a and b are without it; those that schedule=elements loads are aligned to their elements alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.contract import is_persistent, is_streamed
from asmgen.kernels.products.sides import edges

MOST_LAUNCHED = 65535
"""Workgroups along the third axis of a grid, as HIP counts them."""
MOST_APART = (1 << 48) - 1

BATCH_ARGUMENTS = {name: ag.ContractArgument(f"{name}_stride_batch", "u64", f"elements from one {name.upper()} of a batch to the next")
                   for name in "abdc"}
POINTER_ARGUMENTS = {
    name: ag.ContractArgument(f"{name}_pointers", "pointer", f"64-bit numbers, 8-byte aligned: matrix i begins at {name} + "
                              f"{name}_pointers[i], modulo 2^64{aligned}; they are addresses where {name} is null")
    for name, aligned in (*((name, ", 16-byte aligned but for schedule=elements") for name in "ab"), ("d", ""), ("c", ""))}

POINTERS = ag.Parameter("pointers", "build", bool, "matrices of a batch lie anywhere: arrays a_pointers, b_pointers, c_pointers and "
                        "d_pointers say where, and no a_stride_batch, b_stride_batch, c_stride_batch or d_stride_batch is read",
                        default=False)


def batch_arguments(build: ag.Values, names: str) -> tuple[ag.ContractArgument, ...]:
    """The arguments that say where the matrices of a batch are."""
    return tuple((POINTER_ARGUMENTS if build.get("pointers") else BATCH_ARGUMENTS)[name] for name in names)


def _elements(name: str, rows: str, stride: str) -> ag.Formula:
    """How many elements a matrix has from its first to the first of the next one, if nothing stands between."""
    other = {"m": "n", "n": "m", "k": "k"}[rows] if name in "dc" else "k"

    def count(p: ag.Values) -> int:
        return int(p[stride] * p[other if p.get(f"{name}_layout") == "column" else rows])

    return ag.Formula(f"{stride} x the rows, or columns, that lie so far apart", count)


def batch_parameters(lines: Mapping[str, int], apart: Mapping[str, ag.Formula] | None = None) -> tuple[ag.Parameter, ...]:
    """The parameters of a batch. `lines` say which multiples of elements the strides of A and B must be, `apart` what those are by default
    whose matrices are not just rows or columns."""
    shapes = {"a": ("m", "lda"), "b": ("n", "ldb"), "d": ("m", "ldd"), "c": ("m", "ldc")}
    return (
        ag.Parameter("batch", "run", int, "products of this shape, each with matrices of its own", default=1, minimum=1,
                     maximum=MOST_LAUNCHED),
        *(ag.Parameter(f"{name}_stride_batch", "run", int, BATCH_ARGUMENTS[name].doc + ("" if name == "d" else "; 0: one for all"),
                       minimum=0, maximum=MOST_APART, multiple_of=lines.get(name, 1),
                       default_from=(apart or {}).get(name) or _elements(name, *shape))
          for name, shape in shapes.items()),
    )


def _apart(p: ag.Values) -> bool:
    """Whether no two matrices of D share an element: one after the other, or row by row side by side."""
    lines, line = edges(p)
    stride, whole = p["d_stride_batch"], (lines - 1) * p["ldd"] + line
    return bool(p["batch"] == 1 or stride >= whole or (stride >= line and p["ldd"] >= (p["batch"] - 1) * stride + line))


def batch_rules(layouts: tuple[str, ...] = ()) -> tuple[ag.Rule, ...]:
    """The rules of a batch. `layouts` are the parameters that say how D is stored, if any."""
    return (
        ag.Rule(f"batch x split_k must be at most {MOST_LAUNCHED}", ("batch", "split_k"),
                lambda p: p["batch"] * p["split_k"] <= MOST_LAUNCHED),
        ag.Rule("d_stride_batch must keep the matrices of D apart", ("d_stride_batch", "batch", "ldd", "m", "n", *layouts), _apart),
    )


def with_brief(arguments: Sequence[ag.ContractArgument]) -> tuple[ag.ContractArgument, ...]:
    """Arguments with the strides of batches last that nothing reads after `to_matrices`, which let others have their registers."""
    brief = [one for one in arguments if one.name.endswith("_stride_batch") and one.name != "c_stride_batch"]
    return (*(one for one in arguments if one not in brief), *(replace(one, brief=True) for one in brief))


def to_matrices(k: ag.TileBuilder, batch: ag.Reg, names: str = "abd", way: tuple[ag.Reg, ag.Reg] | None = None) -> None:
    """Move the pointers of matrices of these names by `batch` matrices, and with D's those of scales that each matrix has of its own. `way`
    are the numbers of the matrix where they stand and of the one where they go, if they do not stand at the first one.

    C waits for `to_matrix_of_c`. Changes SCC.
    """
    given = {argument.name for argument in k.contract.arguments}
    with k.scratch("matrix_bytes", 2, "s") as bytes_, k.scratch("matrix_high", file="s") as high:
        for name in names:
            if f"{name}_stride_batch" in given:
                _to_matrix(k, name, batch, bytes_, high)
            elif f"{name}_pointers" in given:
                _go_to_pointed(k, name, batch, way, k.argument(f"{name}_pointers"), bytes_, high)
        for name, other in (("a", "m"), ("b", "n")) if "d" in names else ():
            if f"{name}_scale_stride_batch" in given:
                _to_matrix(k, f"{name}_scale", batch, bytes_, high)
            elif f"{name}_scale" in given and k.p.scales != "tensor":
                _scales(k, bytes_[0], name, other)
                _times(k, bytes_, batch, high)
                _move(k, k.argument(f"{name}_scale"), bytes_, 4)


def to_matrix_of_c(k: ag.TileBuilder, batch: ag.Reg, way: tuple[ag.Reg, ag.Reg] | None = None) -> None:
    """Move the pointer to C, which few launches read. Arguments as of `to_matrices`. Changes SCC."""
    with k.scratch("matrix_bytes", 2, "s") as bytes_, k.scratch("matrix_high", file="s") as high:
        if not k.parameters.get("pointers"):
            _to_matrix(k, "c", batch, bytes_, high)
            return
        c, d = (k.argument(f"{name}_pointers") for name in "cd")
        for matrix, back in ((batch, False),) if way is None else ((way[0], True), (way[1], False)):
            k.s_lshl_b32(high, k.argument("beta"), 1)  # where beta is 0 there may be no array
            for number in range(2):
                k.s_cselect_b32(bytes_[number], c[number], d[number])
            _to_pointed(k, "c", matrix, bytes_, bytes_, high, back)


def _go_to_pointed(k: ag.TileBuilder, name: str, batch: ag.Reg, way: tuple[ag.Reg, ag.Reg] | None, numbers: ag.Reg, bytes_: ag.Reg,
                   at: ag.Reg) -> None:
    """A pointer goes on by the number of a matrix of the `numbers`, or back by that of one and on by that of the other."""
    if way is not None:
        _to_pointed(k, name, way[0], numbers, bytes_, at, back=True)
    _to_pointed(k, name, batch if way is None else way[1], numbers, bytes_, at)


def _to_pointed(k: ag.TileBuilder, name: str, batch: ag.Reg, numbers: ag.Reg, bytes_: ag.Reg, at: ag.Reg, back: bool = False) -> None:
    """A pointer goes on by one of the `numbers`, that of the matrix, or back by it."""
    pointer = k.argument(name)
    add, carry = (k.s_sub_u32, k.s_subb_u32) if back else (k.s_add_u32, k.s_addc_u32)
    k.s_lshl_b32(at, batch, 3)
    k.s_load_dwordx2(bytes_, numbers, at)
    add(pointer[0], pointer[0], bytes_[0])
    carry(pointer[1], pointer[1], bytes_[1])


def _to_matrix(k: ag.TileBuilder, name: str, batch: ag.Reg, bytes_: ag.Reg, high: ag.Reg) -> None:
    stride = k.argument(f"{name}_stride_batch")
    k.s_mul_i32(bytes_[0], batch, stride[0])
    k.s_mul_hi_u32(bytes_[1], batch, stride[0])
    k.s_mul_i32(high, batch, stride[1])
    k.s_add_u32(bytes_[1], bytes_[1], high)
    _sign(k, batch, stride[0], bytes_, high)
    bits = _bits(k, name)
    if bits < 8:  # strides of smaller elements are whole bytes
        _to_bytes(k, bytes_, high, bits)
    _move(k, k.argument(name), bytes_, max(1, bits // 8))


def _times(k: ag.TileBuilder, count: ag.Reg, batch: ag.Reg, high: ag.Reg) -> None:
    """count[0] matrices' numbers become those of `batch` matrices, in 64 bits."""
    k.s_mul_hi_u32(count[1], batch, count[0])
    _sign(k, batch, count[0], count, high)
    k.s_mul_i32(count[0], batch, count[0])


def _sign(k: ag.TileBuilder, batch: ag.Reg, factor: ag.Reg, product: ag.Reg, high: ag.Reg) -> None:
    """The 64 bits of `batch` times a factor where they are fewer than none: after shared tiles, which are the last ones, a workgroup goes
    back, and so does one that loads the K tail while its loop has asked for the next tile."""
    if is_streamed(k.parameters) or is_persistent(k.parameters) and takes_any_k(k.parameters):
        k.s_ashr_i32(high, batch, 31)
        k.s_and_b32(high, high, factor)
        k.s_sub_u32(product[1], product[1], high)


def _bits(k: ag.TileBuilder, name: str) -> int:
    """Bits of an element of a matrix."""
    if name in "dc":
        return ag.element_bits(k.p.out)
    dtype = str(k.parameters.get("dtype" if "dtype" in k.parameters else f"{name}_dtype", "e4m3"))
    return 8 if dtype in ("e4m3", "e5m2") else ag.element_bits(dtype)


def _to_bytes(k: ag.TileBuilder, elements: ag.Reg, high: ag.Reg, bits: int) -> None:
    """So many elements of 4 or 6 bits become bytes, in 64 bits: halves or quarters of them, once or three times."""
    whole = math.gcd(bits, 8)
    k.s_lshr_b64(elements, elements, (8 // whole).bit_length() - 1)
    if bits > whole:
        k.s_mul_hi_u32(high, elements[0], bits // whole)
        k.s_mul_i32(elements[1], elements[1], bits // whole)
        k.s_mul_i32(elements[0], elements[0], bits // whole)
        k.s_add_u32(elements[1], elements[1], high)


def _move(k: ag.TileBuilder, pointer: ag.Reg, elements: ag.Reg, size: int) -> None:
    """A pointer goes on by so many elements, of a power of two of bytes."""
    if size > 1:
        k.s_lshl_b64(elements, elements, size.bit_length() - 1)
    k.s_add_u32(pointer[0], pointer[0], elements[0])
    k.s_addc_u32(pointer[1], pointer[1], elements[1])


def blocks_of_k(k: ag.TileBuilder, out: ag.Reg) -> None:
    """out = the blocks of 128 columns that K has. In a build that takes any k the last one may have fewer."""
    if takes_any_k(k.parameters):
        k.s_add_u32(out, k.argument("k"), 127)
    k.s_lshr_b32(out, out if takes_any_k(k.parameters) else k.argument("k"), 7)


def _scales(k: ag.TileBuilder, out: ag.Reg, name: str, rows: str) -> None:
    """How many scales A or B has: one a row, or one for each 128 columns of a row of A, or of 128 rows of B."""
    k.s_mov_b32(out, k.argument(rows))
    if k.p.scales == "block":
        if name == "b":
            k.s_add_u32(out, out, 127)
            k.s_lshr_b32(out, out, 7)
        with k.scratch("blocks_of_k", file="s") as blocks:
            blocks_of_k(k, blocks)
            k.s_mul_i32(out, out, blocks)
