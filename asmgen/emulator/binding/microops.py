"""What compiled runs are made of: rows of numbers that `runs_kernel` interprets, and the operations that they name. No numba here.

A row is (class, operation, destination, three sources of two numbers each, mask source, mask destination, extra). A source is its kind and
an index; scalar rows keep constants in place of the index.
"""

from __future__ import annotations

# Columns.
CLASS, OPERATION, TARGET, SOURCES, MASK, MASK_OUT, EXTRA = 0, 1, 2, 3, 9, 10, 11
COLUMNS = 12
# Classes of rows.
VECTOR, TEMPORARY, COMPARE, CARRY, SCALAR32, SCALAR64, SCALAR_TEST, FIRST_LANE, SAVE_EXEC, DECODE, MULTIPLY, LDS_READ = range(12)
"""VECTOR writes a register under EXEC, TEMPORARY a temporary row; COMPARE a lane mask, CARRY both; SCALAR_TEST writes SCC alone.
DECODE and MULTIPLY are those of `runs_matrix`, which has their columns. LDS_READ: words, first register, address register, how many places
(1 or 2), their offsets; the bytes that the hardware allocates, and those from one workgroup's LDS to the next one's."""
# Kinds of sources.
REGISTER, CONSTANT, SCALAR, TEMP = range(4)
TEMPS = 6  # three for modified sources, three for broadcast scalars
# Bits of EXTRA of float operations.
FLUSH_IN, FLUSH_OUT, IEEE = 1, 2, 4

OPERATIONS: dict[str, int] = {name: number for number, name in enumerate((
    "mov", "not", "neg", "abs", "select", "add", "sub", "mul", "mul_hi_u", "mul_hi_i", "and", "or", "xor", "xnor", "shl", "lshr", "ashr",
    "min_u", "max_u", "min_i", "max_i", "mul_u24", "mul_i24", "mad_u24", "mad_i24", "lshl_add", "add_lshl", "add3", "xad", "lshl_or",
    "and_or", "or3", "bfe_u", "bfe_i", "bfi", "bfm", "alignbit", "alignbyte", "perm", "bitop3", "bcnt", "mbcnt_lo", "mbcnt_hi",
    "add_f32", "sub_f32", "mul_f32", "fma_f32", "max_f32", "min_f32", "max3_f32", "min3_f32", "exp_f32",
    "cvt_f32_u32", "cvt_f32_i32", "cvt_u32_f32", "cvt_i32_f32", "cvt_pk_bf16",
    *(f"cmp_{relation}_{kind}" for kind in "ui" for relation in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(f"cmp_{relation}_f" for relation in ("eq", "lt", "le", "gt", "ge", "lg", "o", "neq", "nlt", "nle", "ngt", "nge", "nlg", "u")),
    "add_carry", "sub_borrow"))}
"""Lane operations by name (`runs_lanes` has the code)."""

SCALARS: dict[str, int] = {name: number for number, name in enumerate((
    "mov", "not", "add", "sub", "add_i", "sub_i", "addc", "subb", "and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor",
    "shl", "lshr", "ashr", "mul", "mul_hi_u", "mul_hi_i", "min_u", "max_u", "min_i", "max_i", "select", "bfe_u", "bfm",
    "lshl_add", "cmov", "pack_ll", "pack_lh", "pack_hh",
    "eq", "ne", "lt_u", "le_u", "gt_u", "ge_u", "lt_i", "le_i", "gt_i", "ge_i", "bit0", "bit1"))}
"""Scalar operations by name (`runs_kernel` has the code)."""
