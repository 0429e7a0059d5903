"""Mathematics element by element on register tiles and vectors; every operation expands to instructions at once.

    sub(k, P, S, m)            # m a vector: broadcast along its rows or columns
    fma(k, P, S, scale, low)   # scale an SGPR or a number
    exp2(k, P, P)

The destination may be a source. f32 has everything; i32 adds, subtracts, multiplies and compares; f16 has the packed instructions;
`neg`, `abs_`, `copy` and `fill_with` work on bits, so on every type. `packed` takes v_pk_*_f32 where registers are pairs: half the issues,
but on gfx950 they do not run in an MFMA's shadow, so code beside matrix instructions turns it off (docs: measured on MI355X). Nor do they
take the odd register of a pair twice there (isa/errata.py): a value for both results stands in an even one, or each has its own. Operations
of two sources (`mul`) take tiles in AGPRs too, eight registers at a time through VGPRs.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from asmgen.author.ops.packedpairs import INLINE, NEGATIVE, ElementOperation, prepared
from asmgen.author.ops.tileoperands import Target, TileSource, element_operation, no_such, operands_of, targets_of
from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.registers import Reg, vcc
from asmgen.regalloc.sets import RegisterSet

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_Value = Reg | int | float

_UNARY = {"exp2": "v_exp_f32", "log2": "v_log_f32", "rcp": "v_rcp_f32", "rsq": "v_rsq_f32", "sqrt": "v_sqrt_f32"}
_BINARY = {
    "f32": {"add": "v_add_f32", "sub": "v_sub_f32", "mul": "v_mul_f32", "max": "v_max_f32", "min": "v_min_f32"},
    "i32": {"add": "v_add_u32", "sub": "v_sub_u32", "mul": "v_mul_lo_u32", "max": "v_max_i32", "min": "v_min_i32"},
    "f16": {"add": "v_pk_add_f16", "mul": "v_pk_mul_f16", "max": "v_pk_max_f16", "min": "v_pk_min_f16"},
}
_REVERSED = {"v_sub_f32": "v_subrev_f32", "v_sub_u32": "v_subrev_u32"}
_MOVED = 8  # registers that go through VGPRs together, so that none waits for the one before it
_SIGNS = {16: 0x80008000, 8: 0x80808080, 4: 0x88888888, 32: 0x80000000}


def exp2(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """2 to the power of each element (v_exp_f32: 1 ulp, denormal results flushed). f32 only."""
    _unary(k, "exp2", out, a, at)


def log2(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """Logarithm to base 2 (v_log_f32). f32 only."""
    _unary(k, "log2", out, a, at)


def rcp(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """1 / x (v_rcp_f32: 1 ulp). f32 only."""
    _unary(k, "rcp", out, a, at)


def rsq(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """1 / sqrt(x) (v_rsq_f32: 1 ulp). f32 only."""
    _unary(k, "rsq", out, a, at)


def sqrt(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """Square root (v_sqrt_f32: 1 ulp). f32 only."""
    _unary(k, "sqrt", out, a, at)


def add(k: TileBuilder, out: Target, a: TileSource, b: TileSource, packed: bool = True, at: StepIndex | None = None) -> None:
    """a + b."""
    _binary(k, "add", out, a, b, packed, at)


def sub(k: TileBuilder, out: Target, a: TileSource, b: TileSource, packed: bool = True, at: StepIndex | None = None) -> None:
    """a - b."""
    _binary(k, "sub", out, a, b, packed, at)


def mul(k: TileBuilder, out: Target, a: TileSource, b: TileSource, packed: bool = True, at: StepIndex | None = None) -> None:
    """a * b."""
    _binary(k, "mul", out, a, b, packed, at)


def max_(k: TileBuilder, out: Target, a: TileSource, b: TileSource, at: StepIndex | None = None) -> None:
    """The larger one; of a NaN and a number the number."""
    _binary(k, "max", out, a, b, False, at)


def min_(k: TileBuilder, out: Target, a: TileSource, b: TileSource, at: StepIndex | None = None) -> None:
    """The smaller one; of a NaN and a number the number."""
    _binary(k, "min", out, a, b, False, at)


def div(k: TileBuilder, out: Target, a: TileSource, b: Vector, at: StepIndex | None = None) -> None:
    """a * (1 / b) for a vector b: one reciprocal for each of its registers, then products. Its error is below 2 ulp.

    Raises TileError for another divisor: rcp and mul on a tile keep the reciprocals in registers that the author names.
    """
    if not isinstance(b, Vector):
        raise TileError("div takes a vector as its divisor; for a tile write rcp(k, r, b) and mul(k, out, a, r), for a number mul by its "
                        "reciprocal", k.here())
    with k.scratch(f"{b.name}_reciprocal", b.registers.count) as inverse:
        held = replace(b, name=f"1/{b.name}", registers=RegisterSet((inverse,)))
        rcp(k, held, b, at)
        mul(k, out, a, held, at=at)


def fma(k: TileBuilder, out: Target, a: TileSource, b: TileSource, c: TileSource, packed: bool = True, at: StepIndex | None = None) -> None:
    """a * b + c with one rounding."""
    opcodes = {"f32": "v_fma_f32", "f16": "v_pk_fma_f16"}
    dtype = _dtype(out)
    if dtype not in opcodes:
        raise no_such(k, "fma", dtype, opcodes)
    op, sources = opcodes[dtype], (a, b, c)
    with element_operation(k, "fma", out, sources, at):
        lists = [operands_of(k, "fma", out, source) for source in sources]
        with prepared(k, op, targets_of(k, "fma", out), lists, packed) as ready:
            _one_by_one(ready, lambda number, why: k.emit(op, ready.targets[number], *(values[number] for values in ready.lists),
                                                          comment=why))


def neg(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """-a: the sign bits of every element of a float type, 0 - a of i32. fp6 and bf6 have elements across registers: refused."""
    dtype = _dtype(out)
    if dtype == "i32":
        _binary(k, "sub", out, 0, a, False, at)
        return
    _bits(k, "neg", "v_xor_b32", out, a, _sign(k, "neg", dtype), at)


def abs_(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """|a| of a float type."""
    _bits(k, "abs", "v_and_b32", out, a, _sign(k, "abs", _dtype(out)) ^ 0xFFFFFFFF, at)


def move(k: TileBuilder, out: Target, a: TileSource, at: StepIndex | None = None) -> None:
    """The same bits in other registers, AGPRs too; a vector is broadcast along its rows or columns, a number is filled in."""
    if isinstance(a, (int, float)):
        fill_with(k, out, a, at)
        return
    with element_operation(k, "copy", out, (a,), at):
        for target, source in zip(out.registers, operands_of(k, "copy", out, a, any_file=True), strict=True):
            assert isinstance(source, Reg)
            kinds = target.file, source.file
            op = {("a", "v"): "v_accvgpr_write_b32", ("v", "a"): "v_accvgpr_read_b32", ("a", "a"): "v_accvgpr_mov_b32"}.get(kinds)
            k.emit(op or "v_mov_b32", target, source)


broadcast = move


def fill_with(k: TileBuilder, out: Target, value: int | float, at: StepIndex | None = None) -> None:
    """Every element `value`: 0, float("-inf") or any number that f32, i32, f16 or bf16 has; other types 0 only.

    Raises TileError for a value that the type does not have exactly.
    """
    word = _word(k, _dtype(out), value)
    with element_operation(k, "fill", out, (), at):
        if word and any(reg.file == "a" for reg in out.registers):
            with k.scratch("filling") as held:
                k.v_mov_b32(held, word)
                for target in out.registers:
                    k.emit("v_accvgpr_write_b32" if target.file == "a" else "v_mov_b32", target, held)
            return
        for target in out.registers:
            k.emit("v_accvgpr_write_b32" if target.file == "a" else "v_mov_b32", target, word)


def any_greater(k: TileBuilder, a: Vector, b: Vector | Reg | float, at: StepIndex | None = None) -> None:
    """VCC: the lanes where some value of `a` is greater than that of `b`. A branch on vccz then skips what no lane needs (lazy rescale)."""
    with element_operation(k, "compare", a, (a, b), at):
        values = targets_of(k, "compare", a)
        if not isinstance(b, Vector) and len(values) > 1:
            with k.scratch("largest") as largest:
                k.v_max_f32(largest, values[0], values[1])
                for value in values[2:]:
                    k.v_max_f32(largest, largest, value)
                k.v_cmp_lt_f32(vcc, b, largest)
            return
        for number, (one, other) in enumerate(zip(values, operands_of(k, "compare", a, b), strict=True)):
            if number == 0:
                k.v_cmp_lt_f32(vcc, other, one)
                continue
            with k.scratch("greater", 2, "s") as greater:
                k.v_cmp_lt_f32(greater, other, one)
                k.s_or_b64(vcc, vcc, greater)


# ---- how they expand ----


def _unary(k: TileBuilder, name: str, out: Target, a: TileSource, at: StepIndex | None) -> None:
    if _dtype(out) != "f32":
        raise no_such(k, name, _dtype(out), ["f32"])
    with element_operation(k, name, out, (a,), at):
        for target, source in zip(targets_of(k, name, out), operands_of(k, name, out, a), strict=True):
            k.emit(_UNARY[name], target, source)


def _binary(k: TileBuilder, name: str, out: Target, a: TileSource, b: TileSource, packed: bool, at: StepIndex | None) -> None:
    dtype = _dtype(out)
    table = _BINARY.get(dtype, {})
    if name not in table and not (dtype == "f16" and name == "sub"):
        raise no_such(k, name, dtype, [kind for kind, ops in _BINARY.items() if name in ops])
    with element_operation(k, name, out, (a, b), at):
        every = [operands_of(k, name, out, source, any_file=True) for source in (a, b)]
        op = table.get(name, "v_pk_add_f16")
        for targets, lists in _through_vgprs(k, out.registers.items, every):
            with prepared(k, op, targets, lists, packed) as ready:
                if dtype == "f16":
                    for number, target in enumerate(targets):
                        k.emit(op, target, lists[0][number], lists[1][number], **(NEGATIVE if name == "sub" else {}))
                else:
                    _one_by_one(ready, functools.partial(_two, ready))


def _one_by_one(ready: ElementOperation, single: Callable[[int, str], object]) -> None:
    """All registers, in pairs where they go; the first one that goes alone says why."""
    number, why = 0, ready.why_single()
    while number < len(ready.targets):
        if ready.pair(number):
            number += 2
            continue
        single(number, why)
        number, why = number + 1, ""


def _through_vgprs(k: TileBuilder, targets: Sequence[Reg], lists: Sequence[Sequence[_Value]]) \
        -> Iterator[tuple[Sequence[Reg], Sequence[Sequence[_Value]]]]:
    """Destination and sources where vector instructions reach them: as they are, or, where some lie in AGPRs, parts for which those were
    copied to VGPRs, from which the destination then goes back."""
    parts = [slice(first, first + _MOVED) for first in range(0, len(targets), _MOVED)]
    far = [list(dict.fromkeys(one for values in (targets, *lists) for one in values[part] if isinstance(one, Reg) and one.file == "a"))
           for part in parts]
    if not any(far):
        yield targets, lists
        return
    with k.scratch("from_agprs", max(map(len, far))) as held:
        for part, registers in zip(parts, far, strict=True):
            near = {register: held[number] for number, register in enumerate(registers)}
            sources = [values[part] for values in lists]
            for register in registers:
                if any(register in values for values in sources):
                    k.v_accvgpr_read_b32(near[register], register)
            yield [near.get(one, one) for one in targets[part]], [[near.get(one, one) if isinstance(one, Reg) else one for one in values]
                                                                 for values in sources]
            for register in targets[part]:
                if register in near:
                    k.v_accvgpr_write_b32(register, near[register])


def _two(ready: ElementOperation, number: int, why: str) -> None:
    """One instruction of two sources: what is no VGPR stands first, where every encoding takes it."""
    k, op, target = ready.k, ready.op, ready.targets[number]
    a, b = (values[number] for values in ready.lists)
    if isinstance(b, Reg) and b.file == "v" or op == "v_mul_lo_u32":
        k.emit(op, target, a, b, comment=why)
    elif op in _REVERSED:
        k.emit(_REVERSED[op], target, b, a, comment=why)
    else:
        k.emit(op, target, b, a, comment=why)


def _bits(k: TileBuilder, name: str, op: str, out: Target, a: TileSource, word: int, at: StepIndex | None) -> None:
    with element_operation(k, name, out, (a,), at):
        for target, source in zip(targets_of(k, name, out), operands_of(k, name, out, a), strict=True):
            k.emit(op, target, word, source)


def _dtype(out: Target) -> str:
    return out.dtype


def _sign(k: TileBuilder, name: str, dtype: str) -> int:
    bits = element_bits(dtype)
    if bits not in _SIGNS or dtype.startswith("i"):
        raise TileError(f"{name} of {dtype} has no mask of one register; convert to f32, where {name} exists", k.here())
    return _SIGNS[bits]


def _word(k: TileBuilder, dtype: str, value: int | float) -> int | float:
    """A register full of the value; a small whole number or 0 stays itself, so that it is inline."""
    if value == 0:
        return 0
    try:
        if dtype == "i32":
            return int(value)
        if dtype == "f32":
            return int(struct.unpack("<I", struct.pack("<f", value))[0]) if float(value) not in INLINE else float(value)
        if dtype == "f16":
            half = int(struct.unpack("<H", struct.pack("<e", value))[0])
            return half * 0x10001
        if dtype == "bf16" and struct.pack("<f", value)[:2] == b"\0\0":
            return int(struct.unpack("<H", struct.pack("<f", value)[2:])[0]) * 0x10001
    except (OverflowError, struct.error):
        pass
    raise TileError(f"fill_with: {value} is no value that a register of {dtype} can hold exactly; 0 is, and f32 has it", k.here())
