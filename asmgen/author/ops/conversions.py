"""Conversions of register tiles between element types: equal places in lanes, other bits.

    P16 = k.tile("P16", S.rows, S.columns, with_dtype(S.fragment, "bf16"))
    convert(k, P16, S)                          # nearest even; rounding="truncate" drops the low bits

gfx950 has instructions between bf16 or f16 and the small types; other pairs go over f32 in scratch registers, register by register (fp6
and bf6 over bf16 or f16 tiles, which their instructions take whole), where that rounds once; the rest is refused with the way round.
fp8 and bf8 are the architecture's own formats (gfx942 FNUZ, gfx950 OCP). The small formats round to nearest even, and whether they
saturate is MODE's (fp8) or fixed (fp4, fp6 do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from asmgen.author.ops.constants import constant
from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import join

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

ROUNDINGS = ("nearest", "truncate")
_HIGH_HALVES = 0x07060302  # v_perm_b32: the upper halves of both sources, the second source's below
_BYTES = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3")
_EIGHT = ("fp8", "bf8")
_TOGETHER = 4  # values of f32 that are rounded step by step at once


def convert(k: TileBuilder, out: Tile | Vector, tile: Tile | Vector, rounding: str = "nearest", nan: bool = True, scale: Reg | float = 1.0,
            at: StepIndex | None = None) -> None:
    """`tile`, element by element, as `out`'s type; both are tiles, or vectors.

    `rounding` is "nearest" (ties to even) or "truncate" (towards zero; f32 to bf16, f16, i32). On gfx942 nearest bf16 is an integer
    sequence of 2.5 instructions an element, 4.5 with `nan`, which keeps a NaN one. `scale` divides what goes to fp4, fp6, bf6, fp8
    and bf8 and multiplies what comes from them (gfx950's scaled conversions take its exponent only); a VGPR is each lane's own.
    Widening needs registers of its own; narrowing may be in place, into the first registers of each fragment's own.
    Raises TileError for a pair of types or a rounding that has no instructions here, or layouts that differ.
    """
    out, tile = (one.tile if isinstance(one, Vector) else one for one in (out, tile))
    if (out.rows, out.columns) != (tile.rows, tile.columns) or not out.fragment.layout.same_map(tile.fragment.layout):
        raise TileError(f"convert: {out} does not have the places of {tile} in lanes and items; make it with fragment "
                        f"with_dtype({tile.name}.fragment, {out.dtype!r})", k.here())
    if rounding not in ROUNDINGS:
        raise TileError(f"convert: rounding is {' or '.join(ROUNDINGS)}, not {rounding!r}", k.here())
    for held in (out, tile):
        if any(reg.file != "v" for reg in held.registers):
            raise TileError(f"convert: {held} lies in AGPRs, which vector instructions do not reach; move(k, ...) it into VGPRs", k.here())
    if out.registers.count > tile.registers.count and out.registers.mask & tile.registers.mask:
        raise TileError(f"convert: {out} widens {tile} and shares registers with it; give it registers of its own", k.here())
    one = expansion(k, tile.dtype, out.dtype, rounding, nan, scale)
    if one is None:
        raise TileError(f"convert: {k.arch} has no instructions from {tile.dtype} to {out.dtype} rounding {rounding}; "
                        f"{_advice(k, tile, out)}", k.here())
    with operation(k, f"convert {tile.name} to {out.name}", [out.index, tile.index], reads=tile.registers.mask, writes=out.registers.mask,
                   at=at):
        one(list(out.registers.items), list(tile.registers.items))


Expansion = Callable[[Sequence[Reg], Sequence[Reg]], None]


def expansion(k: TileBuilder, source: str, dtype: str, rounding: str = "nearest", nan: bool = True, scale: Reg | float = 1.0) \
        -> Expansion | None:
    """A function that emits code for registers of one type (its second argument) to another one's (its first), as `convert`; a scale in a
    VGPR is each lane's own. None where there are no instructions."""
    if source == "f32":
        return _narrowing(k, dtype, rounding, nan, scale)
    return _widening(k, source, scale) if dtype == "f32" else _direct(k, source, dtype, rounding, nan, scale)


@contextmanager
def narrowing(k: TileBuilder, dtype: str, doubt: Reg | None = None) -> Iterator[Expansion]:
    """A function that emits code for VGPRs of f32 (its second argument) to pairs of bf16 or f16 (its first, which may be the first half of
    the second): nearest even, a NaN stays one. What all its calls have in common is made once.

    With a VGPR of `doubt` (`doubted` says whether there is a use for it) NaNs may become numbers, and then `doubt` becomes one: bf16 takes
    3 instructions an element in place of 4.5. It may become NaN where there was an infinity or large numbers too.
    """
    if not doubted(k, dtype):
        one = _narrowing(k, dtype, "nearest", True, 1.0)
        assert one is not None
        yield one
        return
    with ExitStack() as stack:
        half, select = (stack.enter_context(constant(k, *number)) for number in (("half", 0x7FFF), ("upper_halves", _HIGH_HALVES)))
        quiet = stack.enter_context(k.scratch("quiet")) if doubt is None else None
        if quiet is not None:
            k.v_mov_b32(quiet, 0x7FC00000)

        def rounded(out: Sequence[Reg], values: Sequence[Reg]) -> None:
            for first in range(0, len(values), _TOGETHER):
                _rounded_together(k, out[first // 2:(first + _TOGETHER) // 2], values[first:first + _TOGETHER], half, select, quiet, doubt)

        yield rounded


def widening(k: TileBuilder, dtype: str) -> Expansion:
    """A function that emits code for VGPRs with pairs of bf16 or f16 (its second argument, which may be the last half of the first) to
    f32."""
    one = _widening(k, dtype, 1.0)
    assert one is not None
    return one


def doubted(k: TileBuilder, dtype: str) -> bool:
    """Whether `narrowing` has instructions for NaNs alone."""
    return dtype == "bf16" and k.arch == "gfx942"


def _advice(k: TileBuilder, tile: Tile, out: Tile) -> str:
    if out.dtype in ("fp6", "bf6", "fp4") or tile.dtype in ("fp6", "bf6", "fp4"):
        if k.arch != "gfx950":
            return "4- and 6-bit types exist on gfx950 only"
        if out.dtype in ("fp6", "bf6"):
            return "6-bit types are made nearest from bf16 or f16 tiles"
    if "f32" in (tile.dtype, out.dtype):
        return "nearest exists for f32 to bf16, f16, fp8, bf8, i8 and i32, truncate for f32 to bf16, f16 and i32"
    return "convert to f32 first"


# ---- f32 to something ----


def _narrowing(k: TileBuilder, dtype: str, rounding: str, nan: bool, scale: Reg | float) -> Expansion | None:
    new = k.arch == "gfx950"
    if dtype == "bf16":
        if rounding == "truncate":
            return lambda out, values: _truncated(k, out, values)
        if new:
            return lambda out, values: _pairs(k, "v_cvt_pk_bf16_f32", out, values)
        return lambda out, values: (_rounded_with_nans if nan else _rounded)(k, out, values)
    if dtype == "f16":
        if rounding == "truncate":
            return lambda out, values: _pairs(k, "v_cvt_pkrtz_f16_f32", out, values)
        if new:
            return lambda out, values: _pairs(k, "v_cvt_pk_f16_f32", out, values)
        return lambda out, values: _f16(k, out, values)
    if dtype == "i32":
        return lambda out, values: _integers(k, out, values, rounding)
    if rounding == "truncate":
        return None
    if dtype in _EIGHT:
        scaled = scale if new and scale != 1.0 else None
        return lambda out, values: _eight(k, dtype, out, values, scaled)
    if dtype == "i8":
        return lambda out, values: _bytes(k, out, values)
    if dtype == "fp4" and new:
        return lambda out, values: _four(k, out, values, scale)
    if dtype in ("fp6", "bf6") and new:
        return lambda out, values: _six_of_f32(k, dtype, out, values, scale)
    return None


def _pairs(k: TileBuilder, op: str, out: Sequence[Reg], values: Sequence[Reg]) -> None:
    for number, target in enumerate(out):
        k.emit(op, target, values[2 * number], values[2 * number + 1])


def _truncated(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg]) -> None:
    with constant(k, "upper_halves", _HIGH_HALVES) as select:
        for number, target in enumerate(out):
            k.v_perm_b32(target, values[2 * number + 1], values[2 * number], select)


def _rounded(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg]) -> None:
    """Numbers to nearest even: add 0x7fff and the lowest kept bit, keep the upper half. Pair by pair, as a loop has few registers to spare
    and its schedule finds what stands between dependent instructions."""
    with k.scratch("rounded", 2) as held, constant(k, "half", 0x7FFF) as half, constant(k, "upper_halves", _HIGH_HALVES) as select:
        for number, target in enumerate(out):
            for side in range(2):
                value = values[2 * number + side]
                k.v_bfe_u32(held[side], value, 16, 1)
                k.v_add3_u32(held[side], value, held[side], half)
            k.v_perm_b32(target, held[1], held[0], select)


def _rounded_with_nans(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg]) -> None:
    with narrowing(k, "bf16") as rounded:
        rounded(out, values)


def _rounded_together(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg], half: Reg, select: Reg, quiet: Reg | None,
                      doubt: Reg | None) -> None:
    """As `_rounded`, step by step for all values: none waits for the one before, and what a comparison says may be read only two
    instructions later. The carry may not turn a NaN into a number.

    `doubt` adds up products of neighbours, which are NaN with either; `quiet` is what takes the place of a NaN, where one is to stay.
    """
    with k.scratch("rounded", len(values)) as held, ExitStack() as stack:
        for number, value in enumerate(values):
            k.v_bfe_u32(held[number], value, 16, 1)
            if doubt is not None and number % 2:
                k.v_fma_f32(doubt, values[number - 1], value, doubt)
        nan: list[Reg] = []
        while quiet is not None and len(nan) < len(values) and (not nan or k.registers.has(2, "s")):
            nan.append(stack.enter_context(k.scratch("is_nan", 2, "s")))
        together = len(nan) or len(values)  # as many as there are SGPRs for
        for first in range(0, len(values), together):
            some = range(first, min(first + together, len(values)))
            for number, one in zip(some, nan, strict=False):
                k.v_cmp_u_f32(one, values[number], values[number])
            for number in some:
                k.v_add3_u32(held[number], values[number], held[number], half)
            for number, one in zip(some, nan, strict=False):
                assert quiet is not None
                k.v_cndmask_b32(held[number], held[number], quiet, one)
        for number, target in enumerate(out):
            k.v_perm_b32(target, held[2 * number + 1], held[2 * number], select)


def _f16(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg]) -> None:
    with k.scratch("halves", 2) as held:
        for number, target in enumerate(out):
            for side in range(2):
                k.v_cvt_f16_f32(held[side], values[2 * number + side])
            k.v_pack_b32_f16(target, held[0], held[1])


def _integers(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg], rounding: str) -> None:
    for target, value in zip(out, values, strict=True):
        if rounding == "nearest":
            k.v_rndne_f32(target, value)
            value = target
        k.v_cvt_i32_f32(target, value)


def _eight(k: TileBuilder, dtype: str, out: Sequence[Reg], values: Sequence[Reg], scale: Reg | float | None) -> None:
    """Two pairs a register."""
    op = f"v_cvt_pk_{dtype}_f32" if scale is None else f"v_cvt_scalef32_pk_{dtype}_f32"
    more = () if scale is None else (scale,)
    upper = (0,) * (2 + len(more)) + (1,)
    for some, given in _together(out, values, 4):
        with ExitStack() as stack:
            held: list[Reg] = []
            for number in _begun(k, stack, held, some, given, 4):
                k.emit(op, held[number], given[4 * number], given[4 * number + 1], *more)
            for number, target in enumerate(held):
                k.emit(op, target, given[4 * number + 2], given[4 * number + 3], *more, op_sel=upper)


def _together(out: Sequence[Reg], values: Sequence[Reg], many: int) -> Iterator[tuple[Sequence[Reg], Sequence[Reg]]]:
    """Registers whose parts are written one after the other over all of them, as one that is written in parts twice in a row waits. Where
    some lie in what is converted, `many` values each, two by two or one by one: none is written before its value was read."""
    if not set(out) & set(values):
        yield out, values
        return
    first = 0
    while first < len(out):
        count = 2 if _keeps_values(out[first:first + 2], values[many * first:many * first + 2 * many], many) else 1
        yield out[first:first + count], values[many * first:many * (first + count)]
        first += count


def _keeps_values(out: Sequence[Reg], values: Sequence[Reg], many: int) -> bool:
    """Whether values of registers that are written part by part, a pair of values each time, are all read before their places are
    written."""
    written: set[Reg] = set()
    for part in range(0, many, 2):
        for number, target in enumerate(out):
            if written & set(values[many * number + part:many * number + part + 2]):
                return False
            written.add(target)
    return True


def _bytes(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg]) -> None:
    """f32 to i8: nearest even, kept within -128 and 127."""
    with k.scratch("integers", 4) as held, k.scratch("least", file="s") as least, k.scratch("most") as most:
        k.s_movk_i32(least, -128)
        k.v_mov_b32(most, 127)
        for number, target in enumerate(out):
            for item in range(4):
                k.v_rndne_f32(held[item], values[4 * number + item])
                k.v_cvt_i32_f32(held[item], held[item])
                k.v_med3_i32(held[item], held[item], least, most)
                if item < 3:
                    k.v_and_b32(held[item], 0xFF, held[item])
            k.v_lshl_or_b32(held[0], held[1], 8, held[0])
            k.v_lshl_or_b32(held[0], held[2], 16, held[0])
            k.v_lshl_or_b32(target, held[3], 24, held[0])


def _four(k: TileBuilder, out: Sequence[Reg], values: Sequence[Reg], scale: Reg | float) -> None:
    for some, given in _together(out, values, 8):
        with ExitStack() as stack:
            held: list[Reg] = []
            for byte in range(4):
                for number in range(len(some)) if byte else _begun(k, stack, held, some, given, 8):
                    k.v_cvt_scalef32_pk_fp4_f32(held[number], *given[8 * number + 2 * byte:8 * number + 2 * byte + 2], scale,
                                                op_sel=(0, 0, byte & 1, byte >> 1))


def _begun(k: TileBuilder, stack: ExitStack, held: list[Reg], out: Sequence[Reg], values: Sequence[Reg], many: int) -> Iterator[int]:
    """The number of each register whose first part comes next, which joins `held`; all join first where none lies in what is
    converted."""
    apart = not set(out) & set(values)

    def join(numbers: Sequence[int]) -> None:
        held.extend(stack.enter_context(_in_parts(k, out[one], values[many * one:many * one + many])) for one in numbers)

    join(range(len(out)) if apart else ())
    for number in range(len(out)):
        join(() if apart else (number,))
        yield number


@contextmanager
def _in_parts(k: TileBuilder, target: Reg, values: Sequence[Reg]) -> Iterator[Reg]:
    """A register that instructions write part by part: the target, or, where that holds a value that a later one
    reads, another one that is moved there. It begins with 0, so that nothing depends on what it held."""
    if target not in values[1:]:
        if target not in values:
            k.v_mov_b32(target, 0)
        yield target
        return
    with k.scratch("in_parts") as held:
        k.v_mov_b32(held, 0)
        yield held
        k.v_mov_b32(target, held)


# ---- something to f32 ----


def _widening(k: TileBuilder, dtype: str, scale: Reg | float) -> Expansion | None:
    new = k.arch == "gfx950"
    if dtype == "bf16":
        return lambda out, words: _bf16_up(k, out, words)
    if dtype == "f16":
        return lambda out, words: _f16_up(k, out, words)
    if dtype == "i32":
        return lambda out, words: _each(k, "v_cvt_f32_i32", out, words)
    if dtype in _EIGHT:
        return lambda out, words: _eight_up(k, dtype, out, words)
    if dtype == "i8":
        return lambda out, words: _bytes_up(k, out, words)
    if dtype == "fp4" and new:
        return lambda out, words: _four_up(k, out, words, scale)
    if dtype in ("fp6", "bf6") and new:
        return lambda out, words: _six(k, f"v_cvt_scalef32_pk32_f32_{dtype}", out, 32, words, 6, scale)
    return None


def _each(k: TileBuilder, op: str, out: Sequence[Reg], words: Sequence[Reg]) -> None:
    for target, word in zip(out, words, strict=True):
        k.emit(op, target, word)


def _bf16_up(k: TileBuilder, out: Sequence[Reg], words: Sequence[Reg]) -> None:
    for number, word in enumerate(words):
        k.v_lshlrev_b32(out[2 * number], 16, word)
        k.v_and_b32(out[2 * number + 1], 0xFFFF0000, word)


def _f16_up(k: TileBuilder, out: Sequence[Reg], words: Sequence[Reg]) -> None:
    for number, word in enumerate(words):
        k.v_cvt_f32_f16(out[2 * number], word)
        k.v_cvt_f32_f16_sdwa(out[2 * number + 1], word, src0_sel="WORD_1", dst_sel="DWORD")


def _eight_up(k: TileBuilder, dtype: str, out: Sequence[Reg], words: Sequence[Reg]) -> None:
    for number, word in enumerate(words):
        for byte in range(4):
            k.emit(f"v_cvt_f32_{dtype}_sdwa", out[4 * number + byte], word, src0_sel=_BYTES[byte])


def _bytes_up(k: TileBuilder, out: Sequence[Reg], words: Sequence[Reg], to_float: bool = True) -> None:
    for number, word in enumerate(words):
        for byte in range(4):
            target = out[4 * number + byte]
            k.v_bfe_i32(target, word, 8 * byte, 8)
            if to_float:
                k.v_cvt_f32_i32(target, target)


def _four_up(k: TileBuilder, out: Sequence[Reg], words: Sequence[Reg], scale: Reg | float) -> None:
    for number, word in enumerate(words):
        for byte in range(4):
            pair = _tuple(k, out[8 * number + 2 * byte:8 * number + 2 * byte + 2])
            k.v_cvt_scalef32_pk_f32_fp4(pair, word, scale, op_sel=(byte & 1, byte >> 1))


# ---- without f32 ----


def _direct(k: TileBuilder, source: str, dtype: str, rounding: str, nan: bool, scale: Reg | float) -> Expansion | None:
    halves, packed = ("bf16", "f16"), (*_EIGHT, "fp4")
    if rounding == "nearest" and k.arch == "gfx950":
        if source in halves and dtype in ("fp6", "bf6"):
            return lambda out, words: _six(k, f"v_cvt_scalef32_pk32_{dtype}_{source}", out, 6, words, 16, scale)
        if source in ("fp6", "bf6") and dtype in halves:
            return lambda out, words: _six(k, f"v_cvt_scalef32_pk32_{dtype}_{source}", out, 16, words, 6, scale)
        if source in halves and dtype in packed:
            return lambda out, words: _packed(k, f"v_cvt_scalef32_pk_{dtype}_{source}", out, words, 4 if dtype == "fp4" else 2, scale)
        if source in packed and dtype in halves:
            return lambda out, words: _unpacked(k, f"v_cvt_scalef32_pk_{dtype}_{source}", out, words, 4 if source == "fp4" else 2, scale)
    if source == "i8" and dtype == "i32":
        return lambda out, words: _bytes_up(k, out, words, False)
    # f32 holds all of these exactly but i32, so that the way over it rounds once.
    up = _widening(k, source, scale) if source not in ("i32", "fp6", "bf6") else None
    down = _narrowing(k, dtype, rounding, nan, scale)
    if up is None or down is None:
        return None
    of, to = 32 // element_bits(source), 32 // element_bits(dtype)
    return lambda out, words: _over_f32(k, up, down, out, words, of, to)


def _packed(k: TileBuilder, op: str, out: Sequence[Reg], words: Sequence[Reg], many: int, scale: Reg | float) -> None:
    """Pairs of halves, `many` words of them, into the parts of one register."""
    for number, target in enumerate(out):
        some = words[many * number:many * number + many]
        with _in_parts(k, target, some) as held:
            for part, word in enumerate(some):
                k.emit(op, held, word, scale, op_sel=_part(part, many, 2))


def pack_begun(k: TileBuilder, source: str, dtype: str, out: Sequence[Reg], words: Sequence[Reg], scale: Reg | float) -> None:
    """Registers of bf16 or f16 to fp4, fp8 or bf8 (gfx950), into others all of whose bits have been written before. Part by part over all
    of them, as one that is written in parts twice in a row waits."""
    many = 32 // element_bits(dtype) // 2
    for part in range(many):
        for target, word in zip(out, words[part::many], strict=True):
            k.emit(f"v_cvt_scalef32_pk_{dtype}_{source}", target, word, scale, op_sel=_part(part, many, 2))


def _unpacked(k: TileBuilder, op: str, out: Sequence[Reg], words: Sequence[Reg], many: int, scale: Reg | float) -> None:
    for number, word in enumerate(words):
        for part in range(many):
            k.emit(op, out[many * number + part], word, scale, op_sel=_part(part, many, 0))


def _part(part: int, many: int, before: int) -> tuple[int, ...]:
    """op_sel of one of so many parts of a register, after the operands that have none."""
    return (0,) * before + ((part,) if many == 2 else (part & 1, part >> 1))


def _over_f32(k: TileBuilder, up: Expansion, down: Expansion, out: Sequence[Reg], words: Sequence[Reg], of: int, to: int) -> None:
    """As many elements at a time as fill whole registers of both types, `of` and `to` a register."""
    many = max(of, to)
    for number in range(len(out) * to // many):
        given = words[number * many // of:(number + 1) * many // of]
        with k.scratch("as_f32", many) as wide:
            values = [wide[item] for item in range(many)]
            up(values, given)
            down(out[number * many // to:(number + 1) * many // to], values)


def _six(k: TileBuilder, op: str, out: Sequence[Reg], many: int, words: Sequence[Reg], few: int, scale: Reg | float) -> None:
    """32 elements at a time."""
    for number in range(len(out) // many):
        k.emit(op, _tuple(k, out[many * number:many * number + many]), _tuple(k, words[few * number:few * number + few]), scale)


def _six_of_f32(k: TileBuilder, dtype: str, out: Sequence[Reg], values: Sequence[Reg], scale: Reg | float) -> None:
    """32 elements at a time; the instruction takes those of even and of odd number apart."""
    with k.scratch("even_items", 16) as even, k.scratch("odd_items", 16) as odd, k.scratch("six_bits", 6) as held:
        for number in range(len(out) // 6):
            for item, value in enumerate(values[32 * number:32 * number + 32]):
                k.v_mov_b32((odd if item % 2 else even)[item // 2], value)
            k.emit(f"v_cvt_scalef32_2xpk16_{dtype}_f32", held, even, odd, scale)
            for item, target in enumerate(out[6 * number:6 * number + 6]):
                k.v_mov_b32(target, held[item])


def _tuple(k: TileBuilder, registers: Sequence[Reg]) -> Reg:
    parts = join(registers)
    if len(parts) > 1:
        raise TileError(f"convert: {', '.join(map(str, parts))} are to be one operand, and are no neighbours; pin the tile to one range",
                        k.here())
    return parts[0]
