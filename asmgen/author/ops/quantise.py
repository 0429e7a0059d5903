"""Block quantisation (OCP MX): 32 neighbours of a row get one e8m0 scale, 2^(byte - 127), and become fp4, fp6, bf6, fp8 or bf8. gfx950.

    E = k.tile("E", 16, 4, exponent_fragment(X.fragment))      # a byte for each row and 32 columns, where the block's lanes are
    quantise(k, A, E, X, rounding="even")                      # X is f32, bf16 or f16; A has its places
    pack_scales(k, SA, E, A)                                   # into the registers that mma_scaled reads

The scale follows from the block's largest magnitude by one of three rules (docs/facts/blockscales.md section 1): "floor" (its exponent less
that of the type's largest value), "even" (the same after rounding it to as many bits as the type has), "up" (the least that clips
nothing). A block with a NaN or an infinity gets byte 255, which is NaN, a block of zeros byte 0. Elements round to nearest even; what is
beyond the largest value becomes that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import emit_address
from asmgen.author.ops.constants import constant, word_of
from asmgen.author.ops.conversions import Expansion, expansion, pack_begun
from asmgen.author.ops.reductions import over_lanes
from asmgen.author.ops.scales import Scales
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import linear_layout
from asmgen.isa.arch import LANES, architecture
from asmgen.isa.layout import LayoutError
from asmgen.isa.layouts_mfma import SCALE_BLOCK, element_bits, operand_layout
from asmgen.isa.placement import Packing
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, vcc

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder
    from asmgen.isa.numbers.numberformat import Format

RULES = ("even", "floor", "up")
_SOURCES = ("f32", "bf16", "f16")
_TARGETS = ("fp4", "fp6", "bf6", "fp8", "bf8")
_MANTISSA, _BIAS, _INFINITY, _NAN_BYTE, _F16_INFINITY = 23, 127, 0x7F800000, 255, 0x7C00
"""Of f32: bits of the mantissa, the exponent of 1, infinity; of e8m0: NaN; of f16: infinity."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of a fragment: which one each item of a lane belongs to, and (row, block of columns) of each in every lane."""

    numbers: tuple[int, ...]
    coordinates: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def shared_lanes(self) -> tuple[int, ...]:
        """The bits of a lane's number in which lanes differ that have parts of the same blocks."""
        return tuple(bit for bit in range(LANES.bit_length() - 1)
                     if all(line[lane] == line[lane ^ 1 << bit] for line in self.coordinates for lane in range(LANES)))


@functools.cache
def blocks_of(fragment: Fragment) -> Blocks:
    """The blocks of 32 columns of a fragment. Raises TileError for one that is no whole blocks wide, or registers with parts of two."""
    found: dict[tuple[tuple[int, int], ...], int] = {}
    numbers = tuple(found.setdefault(tuple((row, column // SCALE_BLOCK) for row, column in line), len(found)) for line in fragment.table)
    inside = max(1, 32 // fragment.bits)
    if fragment.columns % SCALE_BLOCK or any(len(set(numbers[first:first + inside])) > 1 for first in range(0, len(numbers), inside)):
        raise TileError(f"fragments {fragment} hold no whole blocks of {SCALE_BLOCK} columns in their registers; k.lanes(dtype, 32, n) and "
                        "operands of f8f6f4 do")
    return Blocks(numbers, tuple(found))


@functools.cache
def exponent_fragment(fragment: Fragment) -> Fragment:
    """The fragment of a tile of e8m0 bytes (i8) for tiles of that one: a column for each 32, in the lanes that hold the block. A register
    for each fragment, the bytes of a lane's blocks from the lowest one on, zeros above."""
    blocks = blocks_of(fragment)
    size = fragment.columns // SCALE_BLOCK
    try:
        layout = linear_layout(blocks.coordinates, fragment.rows, size)
    except LayoutError as error:
        raise TileError(f"blocks of {fragment}: {error.sentence}") from None
    return Fragment(fragment.row, f"blocks of {fragment.operand}", "i8", fragment.rows, size, layout,
                    Packing(8).registers(len(blocks.coordinates)))


@dataclass(frozen=True)
class Shortcuts:
    """What the code around a quantisation allows it, where a pipeline's step does not: `branch`, that blocks of bf16 with a magnitude of
    2^121 or more, and of f16 with an infinity or NaN, go a way of their own; `saturating`, that MODE.FP16_OVFL is set; `begun`, that all
    bits of `out` have been written before, so that parts of its registers may be."""

    branch: bool = False
    saturating: bool = False
    begun: bool = False


_NO_SHORTCUTS = Shortcuts()


def quantise(k: TileBuilder, out: Tile, exponents: Tile, tile: Tile, rounding: str = "even", at: StepIndex | None = None,
             shortcuts: Shortcuts = _NO_SHORTCUTS) -> None:
    """`out` and its blocks' `exponents` from a tile of f32, bf16 or f16 in the same places. Raises TileError for other types, rules,
    shapes or layouts, and on gfx942, which has no scaled conversions."""
    if k.arch != "gfx950" or tile.dtype not in _SOURCES or out.dtype not in _TARGETS or rounding not in RULES:
        raise TileError(f"quantise: {tile} to {out.dtype} on {k.arch}, rule {rounding!r}; gfx950 makes {', '.join(_TARGETS)} of "
                        f"{', '.join(_SOURCES)} by {', '.join(RULES)}", k.here())
    f = tile.fragment
    if (out.rows, out.columns) != (tile.rows, tile.columns) or not out.fragment.layout.same_map(f.layout):
        raise TileError(f"quantise: {out} does not have the places of {tile} in lanes and items; make it with fragment "
                        f"with_dtype({tile.name}.fragment, {out.dtype!r})", k.here())
    if (exponents.rows, exponents.columns) != (tile.rows, tile.columns // SCALE_BLOCK) \
            or not exponents.fragment.same_coordinates(exponent_fragment(f)):
        raise TileError(f"quantise: {exponents} holds no exponents of {tile}; make it {tile.rows} x {tile.columns // SCALE_BLOCK} with "
                        f"exponent_fragment({tile.name}.fragment)", k.here())
    if any(register.file != "v" for one in (out, exponents, tile) for register in one.registers):
        raise TileError(f"quantise: {tile}, {out} or {exponents} lies in AGPRs, which vector instructions do not reach; move(k, ...) it",
                        k.here())
    blocks = blocks_of(f)
    if element_bits(out.dtype) == 6 and any(blocks.numbers.count(block) != SCALE_BLOCK for block in range(len(blocks.coordinates))):
        raise TileError(f"quantise: {out} is made of {SCALE_BLOCK} elements of a lane at a time, and fragments {f} have fewer", k.here())
    with operation(k, f"quantise {tile.name} to {out.name}", [out.index, exponents.index, tile.index], reads=tile.registers.mask,
                   writes=out.registers.mask | exponents.registers.mask, at=at):
        for position in tile.positions():
            _fragment(k, blocks, out.base(*position), exponents.base(*position), tile.base(*position), (out.dtype, tile.dtype), rounding,
                      shortcuts)


def _fragment(k: TileBuilder, blocks: Blocks, out: Reg, exponents: Reg, source: Reg, types: tuple[str, str], rounding: str,
              shortcuts: Shortcuts) -> None:
    count = len(blocks.coordinates)
    (to, of), inside = types, 32 // element_bits(types[1])
    with k.scratch("largest", count) as largest, ExitStack() as stack:
        held = [largest[number] for number in range(count)]
        taken = exponents if count == 1 else stack.enter_context(k.scratch("exponent", count))
        bytes_ = [taken[number] for number in range(count)]
        branch = shortcuts.branch and of != "f32"
        parts = [[source[number] for number in range(source.count) if blocks.numbers[number * inside] == block] for block in range(count)]
        for target, registers in zip(held, parts, strict=True):
            if branch:
                _largest_apart(k, of, target, registers, _of_nan_byte(k, to, rounding))
            else:
                _largest(k, of, target, registers)
        over_lanes(k, "v_max_u32", held, blocks.shared_lanes)
        for number, target in enumerate(held):
            _exponent(k, bytes_[number], target, to, rounding, finite=branch)
        first = 0
        for number, (scale, registers) in enumerate(zip(held, parts, strict=True)):
            if number:
                k.v_lshl_or_b32(exponents, bytes_[number], 8 * number, exponents)
            elif count > 1:
                k.v_mov_b32(exponents, bytes_[0])
            k.v_lshlrev_b32(scale, _MANTISSA, bytes_[number])
            targets = [out[first + one] for one in range(len(registers) * inside * element_bits(to) // 32)]
            first += len(targets)
            if to in ("fp8", "bf8") and rounding != "up" and not shortcuts.saturating:
                _clipped(k, types, scale, bytes_[number], targets, registers)
            else:
                if shortcuts.begun and of != "f32" and element_bits(to) != 6:
                    pack_begun(k, of, to, targets, registers, scale)
                else:
                    _expansion(k, of, to, scale)(targets, registers)


def _of_nan_byte(k: TileBuilder, dtype: str, rounding: str) -> int:
    """The bits of a largest magnitude from which `_exponent` makes the byte of NaN."""
    return _INFINITY if rounding == "up" else _NAN_BYTE + _format(k, dtype).emax << _MANTISSA


def _format(k: TileBuilder, dtype: str) -> Format:
    """Loaded here: builds that quantise nothing need no numbers."""
    from asmgen.isa.numbers.numberformat import hardware_format

    return hardware_format(dtype, architecture(k.arch))


def _largest_apart(k: TileBuilder, dtype: str, target: Reg, registers: Sequence[Reg], nan: int) -> None:
    """The bits, as f32, of the largest magnitude, those of `nan` where it is infinite or NaN. The halves of registers are compared as f16,
    whose order is that of bf16 below the bits of f16's infinity; lanes with such bits go on in a block of code that others branch over."""
    with k.scratch("least") as least:
        for op, chain in (("v_pk_maximum3_f16", target), ("v_pk_minimum3_f16", least)):
            left = list(registers)
            k.emit(op, chain, left.pop(0), left.pop(0), left.pop(0))
            while left:
                one = left.pop(0)
                k.emit(op, chain, chain, one, left.pop(0) if left else one)
        k.v_pk_maximum3_f16(target, target, least, least, neg_lo=(0, 1, 1), neg_hi=(0, 1, 1))
        k.v_pk_maximum3_f16(target, target, target, target, op_sel=(0, 1, 1), op_sel_hi=(1, 0, 0))
    common = k.fresh("magnitudes_known")
    k.v_cmp_le_u16(vcc, _F16_INFINITY, target)
    if dtype == "f16":
        k.v_cvt_f32_f16(target, target)
    else:
        k.v_lshlrev_b32(target, 16, target)
    with k.block("large magnitudes", nested=True):
        k.s_cbranch_vccz(common)
        if dtype == "bf16":
            _largest(k, dtype, target, registers)
            k.v_cmp_le_u32(vcc, _INFINITY, target)
        with k.scratch("of_nan") as held:
            k.v_mov_b32(held, nan)
            k.v_cndmask_b32(target, target, held, vcc)
        k.label(common)


def _largest(k: TileBuilder, dtype: str, target: Reg, registers: Sequence[Reg]) -> None:
    """The bits, as f32, of the largest magnitude; of a NaN those of a NaN. Two chains, as one waits for each result."""
    with k.scratch("other_largest") as other:
        chains = target, other
        if dtype == "f32":
            left = list(registers)
            for chain in chains:
                k.v_maximum3_f32(chain, abs(left.pop(0)), abs(left.pop(0)), abs(left.pop(0)))
            number = 0
            while left:
                chain = chains[number % 2]
                k.v_maximum3_f32(chain, chain, abs(left.pop(0)), abs(left.pop(0)) if left else chain)
                number += 1
            k.v_max_u32(target, other, target)
            return
        with k.scratch("magnitudes", 2) as held, constant(k, "magnitude_bits", 0x7FFF7FFF) as mask:
            for number, register in enumerate(registers):
                chain = chains[number % 2]
                k.v_and_b32(chain if number < 2 else held[number % 2], mask, register)
                if number > 1:
                    k.v_pk_max_u16(chain, chain, held[number % 2])
            k.v_pk_max_u16(target, target, other)
            k.v_lshlrev_b32(other, 16, target)
            k.v_and_b32(target, 0xFFFF0000, target)
            k.v_max_u32(target, other, target)
            if dtype == "f16":
                k.v_lshrrev_b32(target, 16, target)
                k.v_cvt_f32_f16(target, target)


def _exponent(k: TileBuilder, out: Reg, largest: Reg, dtype: str, rounding: str, finite: bool) -> None:
    """The e8m0 byte of a block whose largest magnitude has those bits; `finite` where bits of infinity and NaN were replaced."""
    with ExitStack() as stack:
        if not finite:
            no_number, nan = stack.enter_context(k.scratch("no_number", 2, "s")), stack.enter_context(k.scratch("nan_byte"))
            k.v_mov_b32(nan, _NAN_BYTE)  # v_cndmask reads a mask, so it takes no literal
            k.v_cmp_le_u32(no_number, stack.enter_context(constant(k, "infinity", _INFINITY)), largest)
        _finite_exponent(k, out, largest, dtype, rounding)
        if not finite:
            k.v_cndmask_b32(out, out, nan, no_number)


def _finite_exponent(k: TileBuilder, out: Reg, largest: Reg, dtype: str, rounding: str) -> None:
    fmt = _format(k, dtype)
    if rounding == "up":
        k.v_mul_f32(out, 1.0 / fmt.max, largest)
        k.v_add_u32(out, (1 << _MANTISSA) - 1, out)
        k.v_lshrrev_b32(out, _MANTISSA, out)
        return
    if rounding == "even":
        k.v_add_u32(out, 1 << _MANTISSA - 1 - fmt.mantissa_bits, largest)
    k.v_lshrrev_b32(out, _MANTISSA, out if rounding == "even" else largest)
    k.v_sub_u32(out, out, fmt.emax, clamp=True)


def _clipped(k: TileBuilder, types: tuple[str, str], scale: Reg, exponent: Reg, out: Sequence[Reg], registers: Sequence[Reg]) -> None:
    """8-bit elements of a block that may exceed the largest value, which would become NaN or infinity unless MODE says otherwise: kept
    below it as f32."""
    (to, of), group = types, 4
    inside = 32 // element_bits(of)
    with k.scratch("bound") as bound, k.scratch("as_f32", group) as wide, \
            constant(k, "largest_value", word_of(_format(k, to).max)) as most:
        k.v_add_u32(bound, -_BIAS, exponent)
        k.v_ldexp_f32(bound, most, bound)
        values = [wide[number] for number in range(group)]
        narrow = _expansion(k, "f32", to, scale)
        for number, target in enumerate(out):
            given: Sequence[Reg] = registers[number * group // inside:(number + 1) * group // inside]
            if of != "f32":
                _expansion(k, of, "f32", 1.0)(values, given)
                given = values
            for value, before in zip(values, given, strict=True):
                k.v_med3_f32(value, before, -bound, bound)
            narrow([target], values)


def _expansion(k: TileBuilder, of: str, to: str, scale: Reg | float) -> Expansion:
    found = expansion(k, of, to, scale=scale)
    assert found is not None
    return found


def pack_scales(k: TileBuilder, scales: Scales, exponents: Tile, tile: Tile, operand: str = "", at: StepIndex | None = None) -> None:
    """The exponents of an operand's tile in the registers, bytes and lanes that `mma_scaled` reads. `operand` is "a" or "b" where the
    tile's fragment does not say it.

    4- and 6-bit operands have the bytes where they are wanted: an instruction for each fragment. 8-bit ones hold parts of two blocks in a
    lane: two selections and, with 16 x 16 x 128, one ds_bpermute_b32 for each dword besides. Raises TileError for what does not fit.
    """
    f = tile.fragment
    kind = operand or f.operand
    if kind not in ("a", "b") or not f.row.scaled or not scales.fits(tile) or f.transposed \
            or (exponents.rows, exponents.columns) != (tile.rows, tile.columns // SCALE_BLOCK) \
            or not exponents.fragment.same_coordinates(exponent_fragment(f)):
        raise TileError(f"pack_scales: {scales.name} takes no scales of {tile} from {exponents}; operands a and b of v_mfma_scale_*, with "
                        "exponents and scales made for that tile, would do", k.here())
    blocks = blocks_of(f)
    source, chosen = _moves(f, kind, blocks)
    with operation(k, f"scales {scales.name}", [scales.index, exponents.index], reads=exponents.registers.mask,
                   writes=scales.registers.mask, at=at), ExitStack() as stack:
        by_dword: dict[Reg, list[tuple[int, Reg]]] = {}
        for position in tile.positions():
            register, byte = scales.location(tile, *position)
            by_dword.setdefault(register, []).append((byte, exponents.base(*position)))
        mask = _mask(k, stack, chosen)
        address = None if source == tuple(range(LANES)) else _source_lanes(k, source)
        for register, parts in by_dword.items():
            if mask is None:
                _bytes_in(k, register, parts, chosen[0], False)
                continue
            with k.scratch("scales_of_block") as other:
                _bytes_in(k, register, parts, 0, True)
                _bytes_in(k, other, parts, 1, True)
                k.v_cndmask_b32(register, register, other, mask)
            if address is not None:
                k.ds_bpermute_b32(register, address, register)


def _moves(f: Fragment, kind: str, blocks: Blocks) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(the lane from which each lane gets its scale, which of its blocks each lane gives)."""
    wanted = [(at["i" if kind == "a" else "j"], at["kb"]) for at in operand_layout(f.row, f"scale_{kind}").along("lane")]
    source: dict[int, int] = {}
    given: dict[int, int] = {}
    for same in (True, False):
        for lane, place in enumerate(wanted):
            if lane in source:
                continue
            for block, line in enumerate(blocks.coordinates):
                lanes = [one for one in range(LANES) if line[one] == place and (one == lane or not same) and one not in given]
                if lanes:
                    source[lane], given[lanes[0]] = lanes[0], block
                    break
    return tuple(source[lane] for lane in range(LANES)), tuple(given[lane] for lane in range(LANES))


def _mask(k: TileBuilder, stack: ExitStack, chosen: Sequence[int]) -> Reg | None:
    """The lanes that give their second block."""
    if not any(chosen):
        return None
    mask = stack.enter_context(k.scratch("second_block", 2, "s"))
    for half in range(2):
        k.s_mov_b32(mask[half], sum(block << lane for lane, block in enumerate(chosen[32 * half:32 * half + 32])))
    return mask


def _source_lanes(k: TileBuilder, source: tuple[int, ...]) -> Reg:
    key = "scale lanes", source
    made = k.made.get(key)
    if made is None:
        made = k.made[key] = k.hoist(lambda: emit_address(k, k.registers.unused("scale_lanes"), lambda lane: 4 * source[lane], k.lane))
    assert isinstance(made, Reg)
    return made


def _bytes_in(k: TileBuilder, out: Reg, parts: Sequence[tuple[int, Reg]], block: int, several: bool) -> None:
    """A dword of one byte of each register, that of the block among several, at its place."""
    first = True
    for byte, register in sorted(parts, key=lambda part: part[0]):
        with ExitStack() as stack:
            value = register
            if several:
                value = stack.enter_context(k.scratch("one_block"))
                k.v_bfe_u32(value, register, 8 * block, 8)
            if first and byte == 0:
                k.v_mov_b32(out, value)
            elif first:
                k.v_lshlrev_b32(out, 8 * byte, value)
            else:
                k.v_lshl_or_b32(out, value, 8 * byte, out)
        first = False
